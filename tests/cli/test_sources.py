"""A storage or snapshot waits for what it is made from, and once made stays made, whatever a status says later."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Begin, edit
from tests.support.published import STORAGE, Place, git

from allotment.lifecycle.published_manifests import read_declared_blob, read_job_names, waits_for_job
from allotment.manifests.yaml_text import load
from allotment.observed.status import Preparation, Storage, TenantStatus

TENANT = "studio-kite"
FOLDER = f"tenants/{TENANT}/storage"
SEED = STORAGE.format(name="seed")
FILLED = SEED[: SEED.index("      image:")] + "      {kind}:\n        name: {of}\n"
SNAPSHOT = SEED[: SEED.index("spec:")].replace("GPUStorage", "GPUStorageSnapshot") + "spec:\n  storage: seed\n"


def named(text: str, name: str) -> str:
    return text.replace("name: seed\nspec", f"name: {name}\nspec")


def kinds(place: Place, stem: str) -> list[str]:
    return [manifest["kind"] for manifest in load(place.tree("eu-1")[f"{FOLDER}/{stem}.rendered.yaml"].encode())]


def claim(place: Place, name: str) -> Any:
    return load(place.tree("eu-1")[f"{FOLDER}/{name}.rendered.yaml"].encode())[0]


def seen(place: Place, *names: str) -> None:
    """Report these storages of the tenant as prepared, and nothing else."""
    storages = []
    for name in names:
        objects = load(place.tree("eu-1")[f"{FOLDER}/{name}.rendered.yaml"].encode())
        noted = next(manifest for manifest in objects if manifest["kind"] == "Job")["metadata"]["annotations"]
        attempt, digest = int(noted["allotment.dev/attempt"]), noted["allotment.dev/input-hash"]
        prepare = Preparation(f"j-{name}", attempt, digest, "Succeeded")
        storages.append(Storage(name, "b", "Ready", "", claim=f"c-{name}", prepare=prepare))
    place.report("eu-1", TenantStatus(TENANT, "eu-1", storages=tuple(storages)))


@pytest.fixture
def waiting(begin: Begin) -> Place:
    """Return a place where a clone, a copy, a snapshot and what is restored from it wait for one storage."""

    def make(place: Place) -> None:
        stored = place.root / f"tenants/{TENANT}/storages"
        (stored / "seed.yaml").write_text(SEED)
        (stored / "twin.yaml").write_text(named(FILLED.format(kind="storage", of="seed"), "twin"))
        files = named(FILLED.format(kind="storage", of="seed"), "files").replace("block-ssd", "shared-files")
        (stored / "files.yaml").write_text(files.replace("20Gi", "50Gi"))
        (stored / "later.yaml").write_text(named(FILLED.format(kind="snapshot", of="moment"), "later"))
        (place.root / f"tenants/{TENANT}/snapshots/moment.yaml").write_text(named(SNAPSHOT, "moment"))
        result = place.merged()
        assert result.code == 0, result

    return begin("several wait for a storage", make)


def test_publish_delays_a_driver_copy_until_the_source_is_ready(waiting: Place) -> None:
    assert kinds(waiting, "twin") == ["ConfigMap"]
    assert kinds(waiting, "later") == ["ConfigMap"]
    assert kinds(waiting, "moment--snapshot") == ["ConfigMap"]
    assert kinds(waiting, "files") == ["PersistentVolumeClaim", "ConfigMap"]
    tree = waiting.tree("eu-1")
    assert "name: twin--waits-for--seed\n" in tree[f"{FOLDER}/twin.rendered.yaml"]
    assert "name: moment--snapshot--waits-for--seed\n" in tree[f"{FOLDER}/moment--snapshot.rendered.yaml"]
    declared = git(waiting.root, "rev-parse", f"HEAD:tenants/{TENANT}/storages/twin.yaml")
    assert read_declared_blob(tree[f"{FOLDER}/twin.rendered.yaml"].encode()) == declared
    assert str(waits_for_job(tree[f"{FOLDER}/twin.rendered.yaml"].encode())).startswith("twin--prepare-")


def test_publish_copies_a_ready_source_by_driver_or_file_by_file(waiting: Place) -> None:
    seen(waiting, "seed")
    assert waiting.publish().err == ""
    assert kinds(waiting, "twin") == ["PersistentVolumeClaim", "Job"]
    assert claim(waiting, "twin")["spec"]["dataSourceRef"] == {"kind": "PersistentVolumeClaim", "name": "seed"}
    assert kinds(waiting, "moment--snapshot") == ["VolumeSnapshot"]
    restored = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "moment"}
    assert claim(waiting, "later")["spec"]["dataSourceRef"] == restored
    assert kinds(waiting, "files") == ["PersistentVolumeClaim", "Job"]
    assert "dataSourceRef" not in claim(waiting, "files")["spec"]
    assert "programs.copy_folder" in waiting.tree("eu-1")[f"{FOLDER}/files.rendered.yaml"]


def test_once_made_it_stays_whatever_is_known_later(waiting: Place) -> None:
    seen(waiting, "seed")
    assert waiting.publish().code == 0
    before = waiting.tree("eu-1")
    waiting.report("eu-1")
    result = waiting.merged()
    assert (result.code, waiting.tree("eu-1")) == (0, before), result
    edit(waiting.root, f"tenants/{TENANT}/instances/comfy.yaml", "spec:\n", "spec:\n  displayName: Other\n")
    assert waiting.merged().code == 0
    after = waiting.tree("eu-1")
    assert {path for path in before if before[path] != after[path]} == {
        f"tenants/{TENANT}/compute/{name}.rendered.yaml" for name in ("allotment--marker", "comfy")
    }


def test_where_a_volume_came_from_never_changes(waiting: Place) -> None:
    seen(waiting, "seed")
    assert waiting.publish().code == 0
    edit(waiting.root, "clusters/eu-1/cluster.yaml", "      cloning: Volume\n", "")
    edit(waiting.root, f"tenants/{TENANT}/storages/twin.yaml", "20Gi", "30Gi")
    assert waiting.merged().code == 0
    live = claim(waiting, "twin")["spec"]
    assert live["dataSourceRef"] == {"kind": "PersistentVolumeClaim", "name": "seed"}
    assert live["resources"]["requests"]["storage"] == "30Gi"


def test_a_source_that_changes_is_waited_for_and_no_job_is_written_beside_the_last(waiting: Place) -> None:
    seen(waiting, "seed")
    assert waiting.publish().code == 0
    (job,) = read_job_names(waiting.tree("eu-1")[f"{FOLDER}/files.rendered.yaml"].encode())
    (waiting.root / f"tenants/{TENANT}/storages/other.yaml").write_text(named(SEED, "other"))
    edit(waiting.root, f"tenants/{TENANT}/storages/files.yaml", "name: seed", "name: other")
    result = waiting.merged()
    assert (
        "storage studio-kite/files: its new preparation waits until the status shows the end of the previous preparation"
        in result.err
    )
    assert read_job_names(waiting.tree("eu-1")[f"{FOLDER}/files.rendered.yaml"].encode()) == {job}
    seen(waiting, "seed", "files", "other")
    assert "storage studio-kite/files: its last preparation is let go first" in waiting.publish().err
    assert read_job_names(waiting.tree("eu-1")[f"{FOLDER}/files.rendered.yaml"].encode()) == {job}
    assert waiting.publish().err == ""
    (new,) = read_job_names(waiting.tree("eu-1")[f"{FOLDER}/files.rendered.yaml"].encode())
    assert new != job


def test_a_snapshot_is_deleted_in_two_merges_like_a_storage(waiting: Place) -> None:
    seen(waiting, "seed")
    assert waiting.publish().code == 0
    snapshot_file = waiting.root / f"tenants/{TENANT}/snapshots/moment.yaml"
    text = snapshot_file.read_text()
    (waiting.root / f"tenants/{TENANT}/storages/later.yaml").unlink()
    snapshot_file.unlink()
    result = waiting.merged()
    assert result.code == 4
    assert f"tenants/{TENANT}/snapshots/moment.yaml:1:1: (file): snapshot moment would be deleted" in result.err
    assert "moment--snapshot.rendered.yaml" in " ".join(waiting.tree("eu-1"))
    later = named(FILLED.format(kind="snapshot", of="moment"), "later") + "  deletionPolicy: Delete\n"
    (waiting.root / f"tenants/{TENANT}/storages/later.yaml").write_text(later)
    snapshot_file.write_text(text + "  deletionPolicy: Delete\n")
    assert waiting.merged().code == 0
    waiting.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    snapshot_file.unlink()
    (waiting.root / f"tenants/{TENANT}/storages/later.yaml").unlink()
    result = waiting.merged()
    assert (
        "snapshot studio-kite/moment: no longer protected; it is removed after the status confirms that" in result.err
    )
    assert kinds(waiting, "moment--snapshot--leaving") == ["VolumeSnapshot"]
    waiting.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    waiting.publish()
    assert not [path for path in waiting.tree("eu-1") if "moment" in path]


def test_a_clone_that_is_declared_again_while_it_leaves_stays_the_volume_that_it_is(waiting: Place) -> None:
    """Although its source isn't prepared any more: nothing may take the volume's place."""
    seen(waiting, "seed")
    waiting.publish()
    twin = waiting.root / f"tenants/{TENANT}/storages/twin.yaml"
    text = twin.read_text()
    twin.write_text(text + "  deletionPolicy: Delete\n")
    waiting.merged()
    waiting.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    twin.unlink()
    waiting.merged()
    assert claim(waiting, "twin--leaving")["metadata"]["annotations"]["allotment.dev/protected"] == "false"
    waiting.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    edit(waiting.root, f"tenants/{TENANT}/storages/seed.yaml", "  prepare:\n", "  prepare:\n    attempt: 2\n")
    twin.write_text(text)
    result = waiting.merged()
    assert result.code == 0, result
    volume = claim(waiting, "twin")
    assert volume["kind"] == "PersistentVolumeClaim"
    assert volume["metadata"]["annotations"]["allotment.dev/protected"] == "true"
    assert volume["metadata"]["annotations"]["allotment.dev/deletion-policy"] == "Retain"
