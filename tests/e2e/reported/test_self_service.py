"""A tenant without merge rights creates, stops, grows, snapshots and deletes alone: nobody but the bot merges."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

from tests.controlplane.gitea import BOT
from tests.e2e.cloud import REPOSITORY, Cloud
from tests.e2e.pulls import Person
from tests.support.cloud_status import TENANT, instance, pods
from tests.support.published import git

pytestmark = pytest.mark.e2e
SPACE = f"t-{TENANT}"
SELF_SERVICE = """\
  selfService:
    changes: [Create, Stop, Grow, Snapshot, Delete]
"""


@pytest.fixture(scope="module")
def ada(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """Let the platform allow self service. Return a function that runs a command as Ada until its change took effect."""
    policy = git(cloud.root, "rev-parse", "HEAD")
    cloud.edit("platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n")
    cloud.edit("platform/plans/starter.yaml", "spec:\n", f"spec:\n{SELF_SERVICE}")
    cloud.edit("platform/plans/starter.yaml", 'perMonth: "300"', 'perMonth: "30000"')
    cloud.merged()
    person = Person(cloud.gitea, "ada", REPOSITORY, tmp_path_factory.mktemp("people") / "ada")
    git(person.root, "remote", "set-url", "origin", cloud.gitea.remote(REPOSITORY, "ada"))
    environment = {**os.environ, "ALLOT_FORGE_TOKEN": cloud.gitea.tokens["ada"], "NO_COLOR": "1"}

    def run(*words: str) -> None:
        command = [sys.executable, "-m", "allotment", *words, "--pr", "--wait", "--timeout", "6m"]
        done = subprocess.run(
            command, cwd=person.root, env=environment, capture_output=True, text=True, check=False, timeout=500
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)

    yield run
    person.forget()
    # The storage and its snapshot stay declared: their removal without a mark would retain the tenant.
    git(cloud.root, "pull", "-q", "--ff-only", cloud.url, "main")
    git(cloud.root, "restore", "--source", policy, "--staged", "--worktree", "platform")
    cloud.merged()


def find(cloud: Cloud, api_version: str, kind: str, name: str) -> Any:
    """Return an object in the namespace of the tenant; None if there is none."""
    try:
        return cloud.clusters["eu-1"].client.get(api_version, kind, name, SPACE)
    except NotFoundError:
        return None


def list_pulls(cloud: Cloud) -> set[int]:
    """Return the numbers of the newest pull requests, in any state."""
    pulls = cloud.gitea.api(f"repos/{REPOSITORY}/pulls?state=all&sort=newest&limit=50")
    return {int(pull["number"]) for pull in pulls}


def test_a_tenant_acts_alone_from_the_first_instance_to_its_deletion(cloud: Cloud, ada: Callable[..., None]) -> None:
    earlier = list_pulls(cloud)
    options = ("--cluster", "eu-1", "--gpu-spec", "l4-quarter", "--app", "jupyter")
    ada("instance", "create", f"{TENANT}/alone", *options, "--new-storage", "alone-data:10Gi:/workspace", "--yes")
    (pod,) = pods(cloud, "alone")
    assert pod["status"]["phase"] == "Running"
    assert pod["metadata"]["uid"]
    assert instance(cloud, "alone").nodes == (pod["spec"]["nodeName"],)

    ada("instance", "stop", f"{TENANT}/alone")
    assert pods(cloud, "alone") == []
    ada("storage", "grow", f"{TENANT}/alone-data", "20Gi")
    assert find(cloud, "v1", "PersistentVolumeClaim", "alone-data")["status"]["capacity"]["storage"] == "20Gi"
    ada("storage", "snapshot", f"{TENANT}/alone-data", "alone-keep")
    assert find(cloud, "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "alone-keep")["status"]["readyToUse"]
    ada("instance", "delete", f"{TENANT}/alone")
    assert find(cloud, "apps/v1", "Deployment", "alone") is None

    numbers = sorted(list_pulls(cloud) - earlier)
    pulls = [cloud.gitea.api(f"repos/{REPOSITORY}/pulls/{number}") for number in numbers]
    assert [(pull["user"]["login"], pull["merged"], pull["merged_by"]["login"]) for pull in pulls] == [
        ("ada", True, BOT)
    ] * 5
    git(Path(cloud.root), "fetch", "-q", cloud.url, "main")
    subjects = git(cloud.root, "log", "-5", "--first-parent", "--reverse", "--format=%s", "FETCH_HEAD").splitlines()
    kinds = ("Create", "Stop", "Grow", "Snapshot", "Delete")
    assert subjects == [
        f"Merge #{number} by self service: {kind} of tenant {TENANT}"
        for number, kind in zip(numbers, kinds, strict=True)
    ]
