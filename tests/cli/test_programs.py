"""Jobs that were published keep what they run, whichever version of ours brought it, and what nobody names goes."""

from __future__ import annotations

import pytest
from tests.conftest import edit
from tests.support.published import Place, of_another_version, with_own_programs

from allotment.declared.inventory import compute_blob_id
from allotment.diff.file_diff import RenderedFileDiff
from allotment.lifecycle.published_manifests import read_job_names, read_program_names
from allotment.manifests import argo_folders, paths
from allotment.manifests.tenant import programs
from allotment.manifests.yaml_text import load
from allotment.observed.status import Preparation, Storage, TenantStatus

TENANT, STORAGE = "studio-kite", "model-cache"
FOLDER = f"tenants/{TENANT}/storage"
STORED, LEAVING = f"{FOLDER}/{STORAGE}.rendered.yaml", f"{FOLDER}/{STORAGE}--leaving.rendered.yaml"
DECLARED = f"tenants/{TENANT}/storages/{STORAGE}.yaml"
SEAL = f"{FOLDER}/{programs.programs_name('seal')}.rendered.yaml"
MARKER = f"{FOLDER}/allotment--marker.rendered.yaml"


def lying(place: Place) -> dict[str, bytes]:
    """Return what is published in the tenant's storage folder, also as another version of ours would have."""
    return {path: text.encode() for path, text in place.tree("eu-1").items() if path.startswith(f"{FOLDER}/")}


def storages(place: Place) -> dict[str, bytes]:
    """Return what is published in the tenant's storage folder; each of its programs is named there, and its marker fits."""
    files = lying(place)
    named = {name for path, data in files.items() if not paths.is_programs(path) for name in read_program_names(data)}
    assert {paths.file_stem(path) for path in files if paths.is_programs(path)} == named
    blobs = {path: compute_blob_id(data) for path, data in files.items()}
    assert dict(argo_folders.render_markers("eu-1", [FOLDER], blobs)) == {MARKER: files[MARKER]}
    return files


def seen(place: Place, state: str) -> None:
    """Report how the preparation that is published ended; whether it is kept is what its text says."""
    job = next(manifest for manifest in load(lying(place)[STORED]) if manifest["kind"] == "Job")
    noted = job["metadata"]["annotations"]
    retained = "argocd.argoproj.io/sync-options" in noted
    prepare = Preparation(
        "j1", int(noted["allotment.dev/attempt"]), noted["allotment.dev/input-hash"], state, is_prune_protected=retained
    )
    storage = Storage(STORAGE, "b", "Ready", "", claim="c1", prepare=prepare)
    place.report("eu-1", TenantStatus(TENANT, "eu-1", storages=(storage,)))


@pytest.fixture
def alone(place: Place) -> Place:
    """Return a place where nobody runs on a storage, and no other Job ends by the same program."""
    for path in (place.root / f"tenants/{TENANT}/instances").glob("*.yaml"):
        path.unlink()
    for name in ("comfy-trial", "outputs-restored"):
        (place.root / f"tenants/{TENANT}/storages/{name}.yaml").unlink()
    (place.root / f"tenants/{TENANT}/snapshots/before-upgrade.yaml").unlink()
    assert place.merged(hours_ago=6).code == 0
    assert SEAL in storages(place)
    return place


def another_version(place: Place) -> str:
    """Publish as another version of ours would have whose programs differ; return the path of those of the storage."""
    data, name, theirs = of_another_version(storages(place)[STORED])
    path = f"{FOLDER}/{name}{paths.FILE_SUFFIX}"
    place.rewrite_all("eu-1", {STORED: data, path: theirs}, {SEAL})
    return path


def test_a_job_and_the_programs_beside_it_stay_as_they_were_published(alone: Place) -> None:
    before = storages(alone)
    older = {path: with_own_programs(data) for path, data in before.items() if read_job_names(data)}
    assert len(older) == 2
    alone.rewrite_all("eu-1", older, [path for path in before if paths.is_programs(path)])
    assert alone.publish().err == ""
    assert storages(alone).keys() == {path for path in before if not paths.is_programs(path)}
    for path, data in older.items():
        assert storages(alone)[path] == data, path
    refs = alone.refs()
    assert alone.publish().err == ""
    assert alone.refs() == refs


def test_programs_beside_a_job_go_with_it(alone: Place) -> None:
    older = with_own_programs(storages(alone)[STORED])
    alone.rewrite_all("eu-1", {STORED: older}, {SEAL})
    seen(alone, "Failed")
    edit(alone.root, DECLARED, "attempt: 1", "attempt: 2")
    assert "its last preparation is let go first" in alone.merged().err
    assert b"\nimmutable: true\n" in storages(alone)[STORED]
    seen(alone, "Failed")
    assert alone.publish().err == ""
    assert b"\nimmutable: true\n" not in storages(alone)[STORED]
    assert SEAL in storages(alone)


def test_another_versions_programs_stay_as_long_as_a_job_names_them(alone: Place) -> None:
    path = another_version(alone)
    before = lying(alone)
    assert alone.publish().err == ""
    after = storages(alone)
    assert (after[STORED], after[path]) == (before[STORED], before[path])
    assert SEAL not in after, "no Job names it yet"
    refs = alone.refs()
    assert alone.publish().err == ""
    assert alone.refs() == refs
    seen(alone, "Failed")
    edit(alone.root, DECLARED, "attempt: 1", "attempt: 2")
    assert "its last preparation is let go first" in alone.merged().err
    assert path in storages(alone)
    seen(alone, "Failed")
    assert alone.publish().err == ""
    assert path not in storages(alone)
    assert SEAL in storages(alone)


def test_a_tenant_that_is_kept_keeps_another_versions_programs(alone: Place) -> None:
    path = another_version(alone)
    before = lying(alone)
    edit(alone.root, DECLARED, "spec:\n", "spec:\n  nothing: 1\n")
    assert alone.merged().code == 4
    assert {name: data for name, data in storages(alone).items() if name != MARKER} == {
        name: data for name, data in before.items() if name != MARKER
    }
    assert path in before


def test_a_storage_that_leaves_keeps_its_programs_until_it_is_gone(alone: Place) -> None:
    path = another_version(alone)
    assert alone.publish().err == ""
    text = (alone.root / DECLARED).read_text()
    edit(alone.root, DECLARED, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    assert alone.merged().code == 0
    alone.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    (alone.root / DECLARED).unlink()
    assert alone.merged().code == 0
    assert {LEAVING, path} <= storages(alone).keys()
    (alone.root / DECLARED).write_text(text)
    assert alone.merged().code == 0
    assert {STORED, path} <= storages(alone).keys(), "it is that Job"
    assert b"Prune=false" in storages(alone)[STORED].partition(b"\nkind: Job\n")[2]
    (alone.root / DECLARED).write_text(text.replace("spec:\n", "spec:\n  deletionPolicy: Delete\n"))
    assert alone.merged().code == 0
    alone.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    (alone.root / DECLARED).unlink()
    assert alone.merged().code == 0
    alone.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    assert alone.publish().code == 0
    assert not {STORED, LEAVING, path, SEAL} & storages(alone).keys()


def test_forged_programs_are_left_out(alone: Place) -> None:
    """Who could write the branch may not have a Job run what isn't ours."""
    path = another_version(alone)
    forged = lying(alone)[path].replace(b"# of another version", b"import evil")
    alone.rewrite_all("eu-1", {path: forged})
    assert alone.publish().code == 0
    assert path not in lying(alone)


def test_a_plan_names_programs_after_what_runs_them(alone: Place) -> None:
    after = {f"eu-1/{path}": data for path, data in storages(alone).items()}
    files = RenderedFileDiff(100)
    files.add_changes({}, after)
    marker = f"eu-1/{MARKER}"
    assert {path for path, *_ in files.steps} == after.keys() - {marker}
    assert [path for path, *_ in files.markers] == [marker]
    are_programs = [paths.is_programs(diff.path) for diff in files.diffs]
    assert are_programs == sorted(are_programs)
    assert f"eu-1/{SEAL}" in {diff.path for diff in files.diffs}
