"""An instance starts when its storage was seen prepared, and runs on whatever becomes of that status. Case 41."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot, edit
from tests.support.gated_instance import INSTANCE, STORAGE, STORED, TENANT, replicas, seen, waiting
from tests.support.published import Place, Running, git, with_own_programs
from tests.support.waiting import eventually

from allotment.adapters.git.repository import Repository
from allotment.lifecycle.published_manifests import (
    find_prunable_job,
    read_job_names,
    read_predecessor,
    read_prepared_by,
)
from allotment.manifests.yaml_text import load
from allotment.observed.status import Instance, Preparation, Storage, TenantStatus, dump_status
from allotment.services.publish.observed_state import _read_observed_tenant

__all__ = ["waiting"]  # a fixture

DECLARED = f"tenants/{TENANT}/storages/{STORAGE}.yaml"


def job(place: Place) -> str:
    (name,) = read_job_names(place.tree("eu-1")[STORED].encode())
    return name


LET_GO = "its last preparation is let go first"


def stored(place: Place) -> str:
    """Return what is published of the preparation."""
    return place.tree("eu-1")[STORED].partition("\nkind: Job\n")[2]


def test_publish_starts_an_instance_after_preparation_of_the_storage(waiting: Place) -> None:
    commit = seen(waiting)
    assert waiting.publish().err == ""
    assert replicas(waiting) == 1
    assert f"Status-Commit: {commit}" in waiting.log("eu-1", "%B")
    before = waiting.refs()
    assert waiting.publish().err == ""
    assert waiting.refs() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "Failed"},
        {"state": "Running"},
        {"attempt": 9},
        {"input_hash": "0" * 64},
    ],
    ids=str,
)
def test_nothing_else_starts_it(waiting: Place, wrong: dict[str, Any]) -> None:
    seen(waiting, **wrong)
    assert waiting.publish().code == 0
    assert replicas(waiting) == 0


def test_another_clusters_status_does_not_count(waiting: Place) -> None:
    seen(waiting)
    for name in ("refs/heads/status", "refs/allotment/status"):
        git(waiting.remote, "update-ref", f"{name}/us-1", f"{name}/eu-1")
        git(waiting.remote, "update-ref", "-d", f"{name}/eu-1")
    waiting.publish()
    assert replicas(waiting) == 0


def test_a_lost_or_older_status_changes_nothing_that_runs(waiting: Place) -> None:
    seen(waiting, "Running")
    old = waiting.refs()
    seen(waiting)
    waiting.publish()
    assert replicas(waiting) == 1
    tree = waiting.tree("eu-1")
    for name in ("refs/heads/status/eu-1", "refs/allotment/status/eu-1"):
        git(waiting.remote, "update-ref", name, old[name])
    waiting.publish()
    assert waiting.tree("eu-1") == tree
    for name in ("refs/heads/status/eu-1", "refs/allotment/status/eu-1"):
        git(waiting.remote, "update-ref", "-d", name)
    waiting.publish()
    assert waiting.tree("eu-1") == tree
    edit(waiting.root, f"tenants/{TENANT}/instances/{INSTANCE}.yaml", "spec:\n", "spec:\n  description: Changed.\n")
    waiting.merged()
    assert replicas(waiting) == 1, "it is rendered again, and runs on"
    edit(waiting.root, f"tenants/{TENANT}/instances/{INSTANCE}.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    waiting.merged()
    assert replicas(waiting) == 0
    edit(waiting.root, f"tenants/{TENANT}/instances/{INSTANCE}.yaml", "  state: Stopped\n", "")
    waiting.merged()
    assert replicas(waiting) == 1, "its storage was seen prepared once: a gate that has opened stays open"


def test_a_lost_status_closes_no_share(place: Place) -> None:
    file = "control/namespaces/n/northlight.rendered.yaml"
    path = "tenants/northlight/storage/base-models.rendered.yaml"

    def shares(tree: dict[str, str]) -> list[str]:
        return [
            name
            for manifest in load(tree[file].encode())
            if (name := manifest["metadata"]["name"]).startswith("share--")
        ]

    place.publish()
    assert shares(place.tree("eu-1")) == []
    (job,) = (manifest for manifest in load(place.tree("eu-1")[path].encode()) if manifest["kind"] == "Job")
    noted = job["metadata"]["annotations"]
    prepare = Preparation("j1", int(noted["allotment.dev/attempt"]), noted["allotment.dev/input-hash"], "Succeeded")
    stored = Storage("base-models", "b", "Ready", "", prepare=prepare)
    place.report("eu-1", TenantStatus("northlight", "eu-1", storages=(stored,)))
    assert place.publish().code == 0
    opened = place.tree("eu-1")
    assert shares(opened) == ["share--base-models"]
    assert read_prepared_by(opened[path].encode()) == job["metadata"]["name"]
    place.report("eu-1")  # of nothing
    assert place.publish().code == 0
    assert place.tree("eu-1") == opened
    for name in ("refs/heads/status/eu-1", "refs/allotment/status/eu-1"):
        git(place.remote, "update-ref", "-d", name)
    edit(place.root, "tenants/northlight/storages/base-models.yaml", "displayName: Base", "displayName: All base")
    assert place.merged().code == 0
    assert shares(place.tree("eu-1")) == ["share--base-models"]
    edit(place.root, "tenants/northlight/storages/base-models.yaml", "  prepare:\n", "  prepare:\n    attempt: 2\n")
    place.report("eu-1", TenantStatus("northlight", "eu-1", storages=(stored,)))
    place.merged()
    assert read_prepared_by(place.tree("eu-1")[path].encode()) == "", "another preparation has to be seen itself"
    assert shares(place.tree("eu-1")) == []


def test_a_status_whose_ref_is_lost_is_not_believed(waiting: Place, allot: Allot) -> None:
    seen(waiting)
    commit = waiting.refs()["refs/allotment/status/eu-1"]
    git(waiting.remote, "update-ref", "-d", "refs/allotment/status/eu-1")
    lost = (
        "refs/allotment/status/eu-1 is missing, so no commit of the branch is trusted: push the ref again from a backup"
    )
    assert waiting.publish().err == f"status of eu-1: {lost}\n"
    assert replicas(waiting) == 0
    findings = json.loads(allot("doctor", "--repo", waiting.root, "-o", "json").out)["findings"]
    (finding,) = [each for each in findings if each["object"] == "status/eu-1"]
    assert (finding["severity"], lost in finding["message"]) == ("error", True)
    assert finding["advice"].startswith("list the accounts with a right to push to status/eu-1 and its ref")
    git(waiting.remote, "update-ref", "refs/allotment/status/eu-1", commit)
    assert waiting.publish().code == 0
    assert replicas(waiting) == 1


def test_a_foreign_status_is_not_believed(waiting: Place) -> None:
    seen(waiting, "Failed")
    honest = waiting.refs()["refs/heads/status/eu-1"]
    seen(waiting)
    faked = waiting.refs()["refs/heads/status/eu-1"]
    git(waiting.remote, "update-ref", "refs/allotment/status/eu-1", honest)
    result = waiting.publish()
    assert result.err == f"status of eu-1: commit {faked} is not the reporter's\n"
    assert replicas(waiting) == 0


def test_where_a_key_is_declared_only_what_it_signed_is_believed(waiting: Place, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    key = (tmp_path / "key.pub").read_text().strip()
    file = waiting.root / "clusters/eu-1/cluster.yaml"
    file.write_text(f"{file.read_text()}  reporter:\n    publicKey: {key}\n")
    unsigned = seen(waiting)
    result = waiting.merged()
    assert result.err == f"status of eu-1: commit {unsigned} is not signed with the cluster's key\n"
    assert replicas(waiting) == 0
    Repository(waiting.root).sign_with(tmp_path / "key")
    seen(waiting, uid="signed")
    assert waiting.publish().err == ""
    assert replicas(waiting) == 1


@pytest.mark.process
def test_a_running_publisher_takes_a_new_status_at_once(waiting: Place, tmp_path: Path) -> None:
    running = Running(waiting.remote.as_uri(), tmp_path / "data", 3600)
    try:
        eventually(lambda: running.get("/readyz")[0] == 200, "it to be ready")
        seen(waiting)
        running.get("/webhook", b"")
        eventually(lambda: replicas(waiting) == 1, "the instance to start", 30)
        assert running.end() == 0
    finally:
        running.process.kill()
        running.process.wait()


def test_recovery_is_a_new_attempt_once_the_last_has_ended(waiting: Place) -> None:
    first = job(waiting)
    edit(waiting.root, DECLARED, "attempt: 1", "attempt: 2")
    pending = f"waits: eu-1: storage {TENANT}/{STORAGE}: its new preparation waits until the status shows the end of the previous preparation\n"
    assert waiting.merged().err == pending
    assert job(waiting) == first
    seen(waiting, "Running")
    assert waiting.publish().err == pending
    seen(waiting, "Failed", kept=True)
    let_go = pending.replace(
        "its new preparation waits until the status shows the end of the previous preparation", LET_GO
    )
    assert waiting.publish().err == let_go
    assert (job(waiting), "Prune=false" in stored(waiting)) == (first, False)
    assert waiting.publish().err == let_go, "the cluster still has it as one that isn't pruned"
    seen(waiting, "Failed")
    assert waiting.publish().err == ""
    assert (job(waiting), "Prune=false" in stored(waiting)) == (first.removesuffix("-1") + "-2", True)
    assert replicas(waiting) == 0
    seen(waiting, uid="j2")
    assert waiting.publish().err == ""
    assert replicas(waiting) == 1


def test_one_that_can_never_begin_does_not_hold_up_the_next(waiting: Place) -> None:
    seen(waiting, "Pending", reason="ImagePullFailed")
    edit(waiting.root, DECLARED, "attempt: 1", "attempt: 2")
    assert LET_GO in waiting.merged().err
    assert waiting.publish().err == ""
    assert job(waiting).endswith("-2")


def test_a_preparation_that_changed_under_a_running_instance_is_refused(waiting: Place) -> None:
    seen(waiting)
    waiting.publish()
    before = waiting.tree("eu-1")
    edit(waiting.root, DECLARED, "attempt: 1", "attempt: 2")
    result = waiting.merged()
    assert result.code == 4
    assert "the preparation changed while webui runs on the storage: stop it first" in result.err
    assert waiting.tree("eu-1") == before
    edit(waiting.root, f"tenants/{TENANT}/instances/{INSTANCE}.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    result = waiting.merged()
    stopping = f"waits: eu-1: storage {TENANT}/{STORAGE}: its new preparation waits until webui has stopped\n"
    assert (result.code, result.err) == (0, stopping)
    seen(waiting, instance="Stopped")
    assert waiting.publish().err == stopping, "it still has pods"
    seen(waiting)
    assert LET_GO in waiting.publish().err
    assert waiting.publish().err == ""
    assert job(waiting).endswith("-2")


@pytest.mark.parametrize(
    ("reason", "live"), [("StoppedAsDeclared", False), ("Terminating", True), ("RemovedStillRunning", True)]
)
def test_whoever_may_have_pods_keeps_a_storage(reason: str, live: bool) -> None:
    """An instance that was removed and still ends counts as one that ends."""
    status = TenantStatus(TENANT, "eu-1", instances=(Instance(INSTANCE, "b", "Stopped", reason),))
    assert _read_observed_tenant("eu-1", dump_status(status)).with_pods == (
        frozenset({("eu-1", INSTANCE)}) if live else frozenset()
    )


def test_a_storage_declared_anew_is_not_prepared_by_its_predecessor(waiting: Place) -> None:
    first = job(waiting)
    seen(waiting, uid=f"uid-of-{first}")
    waiting.publish()
    gone = {
        path: (waiting.root / path).read_text() for path in (DECLARED, f"tenants/{TENANT}/instances/{INSTANCE}.yaml")
    }
    edit(waiting.root, DECLARED, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    (waiting.root / f"tenants/{TENANT}/instances/{INSTANCE}.yaml").unlink()
    assert waiting.merged().code == 0
    waiting.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    (waiting.root / DECLARED).unlink()
    assert waiting.merged().code == 0
    waiting.synced("eu-1", TENANT, marked="2026-11-21T08:00:00Z")
    assert waiting.publish().code == 0
    assert STORED.replace(".rendered.yaml", "--leaving.rendered.yaml") not in waiting.tree("eu-1")
    assert STORED not in waiting.tree("eu-1")
    last = f"uid-of-{first}"
    for path, text in gone.items():
        (waiting.root / path).write_text(text)
    waiting.merged()
    assert replicas(waiting) == 0
    assert read_predecessor(waiting.tree("eu-1")[STORED].encode()) == last
    waiting.publish()
    assert replicas(waiting) == 0
    seen(waiting, uid="j2")
    waiting.publish()
    assert replicas(waiting) == 1
    assert read_predecessor(waiting.tree("eu-1")[STORED].encode()) == last


def test_a_prepared_storage_that_is_declared_again_while_it_leaves_is_that_one(waiting: Place) -> None:
    first = job(waiting)
    seen(waiting, uid="j1")
    waiting.publish()
    instance = waiting.root / f"tenants/{TENANT}/instances/{INSTANCE}.yaml"
    texts = {path: path.read_text() for path in (waiting.root / DECLARED, instance)}
    edit(waiting.root, DECLARED, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    instance.unlink()
    waiting.merged()
    (waiting.root / DECLARED).unlink()
    waiting.merged()
    left = waiting.tree("eu-1")[STORED.replace(".rendered.yaml", "--leaving.rendered.yaml")]
    assert "Prune=false" not in left.partition("\nkind: Job\n")[2]
    for path, text in texts.items():
        path.write_text(text)
    assert waiting.merged().code == 0
    assert (job(waiting), read_predecessor(waiting.tree("eu-1")[STORED].encode())) == (first, "")
    assert "Prune=false" in stored(waiting)
    assert replicas(waiting) == 1


def test_a_volume_that_is_another_by_now_closes_its_gate_unless_somebody_runs_on_it(waiting: Place) -> None:
    seen(waiting)
    waiting.publish()
    assert replicas(waiting) == 1
    seen(waiting, "Failed", uid="j2", reason="OfAnotherVolume")
    waiting.publish()
    assert replicas(waiting) == 1
    edit(waiting.root, f"tenants/{TENANT}/instances/{INSTANCE}.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    waiting.merged()
    edit(waiting.root, f"tenants/{TENANT}/instances/{INSTANCE}.yaml", "  state: Stopped\n", "")
    waiting.merged()
    assert replicas(waiting) == 0


def test_publish_does_not_stop_an_older_instance_without_a_status(waiting: Place) -> None:
    """A tree of the version before: no Job is kept, and no storage says that it was seen prepared."""
    seen(waiting)
    waiting.publish()
    assert replicas(waiting) == 1
    texts = with_own_programs(waiting.tree("eu-1")[STORED].encode()).decode().splitlines()
    lines = [line for line in texts if "allotment.dev/prepared:" not in line and "/sync-options:" not in line]
    older = "\n".join(lines).replace("  annotations:\nimmutable: true", "immutable: true") + "\n"
    assert find_prunable_job(older.encode()) == job(waiting)
    waiting.rewrite("eu-1", STORED, older)
    for name in ("refs/heads/status/eu-1", "refs/allotment/status/eu-1"):
        git(waiting.remote, "update-ref", "-d", name)
    assert waiting.publish().code == 0
    assert replicas(waiting) == 1
