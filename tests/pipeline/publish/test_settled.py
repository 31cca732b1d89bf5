"""What becomes of what a tenant had, of each kind of change alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.conftest import edit
from tests.pipeline.publish.written import before, checked, of_files
from tests.published import of_another_version, with_own_programs

from allotment.adapters.folder import FolderSource
from allotment.changes.volumes import Users
from allotment.manifests import names, paths
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.known import NOTHING, Known
from allotment.pipeline.publish.settled import Settled, Watched, settle

MODELS = "tenants/solo-ada/storages/models.yaml"
FILE, LEAVING = (f"eu-1/{paths.tenant_file('solo-ada', 'storage', stem)}" for stem in ("models", "models--leaving"))
UNKNOWN = Watched(NOTHING, {}, 60, lambda *_: Users(), lambda *_: "")
NOTHING_BECOMES = Settled([], {}, {}, [], [])


@pytest.fixture
def files(sample: Path) -> dict[str, bytes]:
    """Return what solo-ada is rendered to."""
    made = checked(FolderSource(sample)).made["solo-ada"]
    assert FILE in made
    return dict(made)


def deleted(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files in which the storage may be deleted."""
    return files | {FILE: files[FILE].replace(b"deletion-policy: Retain", b"deletion-policy: Delete")}


def settled(files: dict[str, bytes], was: Before, watched: Watched = UNKNOWN) -> Settled:
    return settle("solo-ada", True, of_files(files, was), was, watched)


def test_what_is_as_it_was_stays_so(files: dict[str, bytes]) -> None:
    assert settled(files, before(files)) == NOTHING_BECOMES


def test_an_instance_goes_at_once(files: dict[str, bytes]) -> None:
    (webui,) = [path for path in files if path.endswith("/compute/webui.rendered.yaml")]
    less = {path: data for path, data in files.items() if path != webui}
    assert settled(less, before(files)) == NOTHING_BECOMES


def test_a_storage_may_not_go_that_is_to_be_kept(files: dict[str, bytes]) -> None:
    less = {path: data for path, data in files.items() if path != FILE}
    one = settled(less, before(files))
    assert [found.path for found in one.findings] == [MODELS]
    assert one.stays == {}


def test_a_storage_that_may_goes_in_steps_by_what_its_cluster_was_seen_to_have(files: dict[str, bytes]) -> None:
    less, was = {path: data for path, data in files.items() if path != FILE}, before(deleted(files))
    first = settled(less, was)
    assert first.findings == []
    assert list(first.stays) == [LEAVING]
    assert first.leaving == [
        "eu-1: storage solo-ada/models: kept until the cluster was seen to have it marked for 1m;"
        " nothing reports that cluster, so nothing goes"
    ]
    thing = ("eu-1", "storage", "models")
    known = Known(there=frozenset({thing}), marked={thing: "2026-11-21T10:00:00Z"})
    for time, protected in (("2026-11-21T10:00:59Z", True), ("2026-11-21T10:01:00Z", False), ("nonsense", True)):
        one = settled(less, was, UNKNOWN._replace(known=known, observed={"eu-1": time}))
        claim = next(yaml.safe_load_all(one.stays[LEAVING]))
        assert (claim["metadata"]["annotations"][names.PROTECTED] == "true") == protected, time
    gone = UNKNOWN._replace(known=Known(unprotected=frozenset({thing})), observed={"eu-1": "2026-11-21T10:02:00Z"})
    left = {path: data for path, data in deleted(files).items() if path != FILE} | {LEAVING: one.stays[LEAVING]}
    unprotected = left | {LEAVING: left[LEAVING].replace(b'protected: "true"', b'protected: "false"')}
    assert settled(less, before(unprotected), gone) == NOTHING_BECOMES


def test_a_storage_that_is_declared_again_is_taken_back(files: dict[str, bytes]) -> None:
    less, was = {path: data for path, data in files.items() if path != FILE}, before(deleted(files))
    there = less | settled(less, was).stays
    one = settled(files, before(there))
    assert (one.findings, one.stays) == ([], {})
    claim = next(yaml.safe_load_all(one.follows[FILE]))
    assert claim["metadata"]["annotations"][names.PROTECTED] == "true"


def test_a_volume_does_not_shrink(sample: Path, files: dict[str, bytes]) -> None:
    edit(sample, MODELS, "size: 60Gi", "size: 50Gi")
    made = checked(FolderSource(sample)).made["solo-ada"]
    (found,) = settled(made, before(files)).findings
    assert (found.path, found.field) == (MODELS, ("spec", "size"))


def test_a_preparation_waits_until_who_uses_the_volume_has_stopped(sample: Path) -> None:
    styles = "tenants/solo-ada/storages/styles.yaml"
    path = f"eu-1/{paths.tenant_file('solo-ada', 'storage', 'styles')}"
    was = checked(FolderSource(sample)).made["solo-ada"]
    edit(sample, styles, "  prepare:\n", "  prepare:\n    attempt: 2\n")
    now = checked(FolderSource(sample)).made["solo-ada"]
    for users, held, allowed in (
        (Users(stopping=["webui"]), "waits until webui has stopped", True),
        (Users(running=["webui"]), "", False),
        (Users(), "waits until the last one was seen to have ended", True),
    ):
        asked: list[tuple[str, str]] = []

        def ask(cluster: str, storage: str, users: Users = users, asked: list[tuple[str, str]] = asked) -> Users:
            asked.append((cluster, storage))
            return users

        one = settled(now, before(was), UNKNOWN._replace(users=ask))
        assert asked == [("eu-1", "styles")]
        assert bool(one.findings) != allowed
        assert "".join(one.held).endswith(held)
        jobs = [each["metadata"]["name"] for each in yaml.safe_load_all(one.follows[path]) if each["kind"] == "Job"]
        if allowed:
            assert [name[-2:] for name in jobs] == ["-1"], "the last Job stays until another may begin"


def test_a_new_storage_is_not_prepared_because_another_of_its_name_was(sample: Path, files: dict[str, bytes]) -> None:
    less = {path: data for path, data in files.items() if path != FILE}
    watched = UNKNOWN._replace(last=lambda cluster, storage: f"uid-of-{cluster}-{storage}")
    one = settled(files, before(less), watched)
    assert list(one.follows) == [FILE]
    claim = next(yaml.safe_load_all(one.follows[FILE]))
    assert "uid-of-eu-1-models" in claim["metadata"]["annotations"].values()
    assert settled(files, before({}), watched) == NOTHING_BECOMES, "a branch that is new says nothing of its storages"


def test_a_jobs_programs_stay_as_long_as_it_does(sample: Path, files: dict[str, bytes]) -> None:
    (now,) = [path for path in files if paths.is_programs(path)]
    path = f"eu-1/{paths.tenant_file('solo-ada', 'storage', 'styles')}"
    job, name, theirs = of_another_version(files[path])
    other = f"eu-1/{paths.tenant_file('solo-ada', 'storage', name)}"
    older = {**{one: data for one, data in files.items() if one != now}, path: job, other: theirs}
    one = settled(files, before(older))
    assert (one.follows, one.stays, one.unnamed) == ({path: job}, {other: theirs}, {now})
    edit(sample, MODELS, "size: 60Gi", "size: 70Gi")
    grown = checked(FolderSource(sample)).made["solo-ada"]
    one = settled(grown, before(older))
    assert (one.follows.keys(), one.stays, one.unnamed) == ({path, FILE}, {other: theirs}, {now})
    assert settled(files, before({**files, other: theirs})) == NOTHING_BECOMES, "nobody names them any more"
    lost = {one: data for one, data in older.items() if one != other}
    assert settled(files, before(lost)).stays == {}


def test_what_lies_where_programs_or_a_marker_should_is_followed_by_nothing(files: dict[str, bytes]) -> None:
    """Somebody else's Job there is neither kept nor asked after."""
    job = files[f"eu-1/{paths.tenant_file('solo-ada', 'storage', 'styles')}"]
    for path in files:
        if "/storage/allotment--" in path:
            assert settled(files, before({**files, path: job})) == NOTHING_BECOMES, path


def test_a_job_with_programs_beside_it_needs_no_others(files: dict[str, bytes]) -> None:
    (now,) = [path for path in files if paths.is_programs(path)]
    path = f"eu-1/{paths.tenant_file('solo-ada', 'storage', 'styles')}"
    older = {**{one: data for one, data in files.items() if one != now}, path: with_own_programs(files[path])}
    one = settled(files, before(older))
    assert (one.follows, one.stays, one.unnamed) == ({path: older[path]}, {}, {now})


def test_a_tenant_without_a_folder_may_not_go_unless_it_is_retired(files: dict[str, bytes]) -> None:
    was = before({path: data for path, data in files.items() if "/storage/" not in path})
    (found,) = settle("solo-ada", False, None, was, UNKNOWN).findings
    assert found.path == "tenants/solo-ada/tenant.yaml"
