"""A reporter whose cluster, clock and watches a test holds, and the repository that it writes to."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any

import structlog

from allotment.adapters.cluster.observed_objects import STOCKS_OWNER, ObservedObjects
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.metrics import ReportMetrics, create_registry
from allotment.branches.rendered_branches import published_ref
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import resource_file
from allotment.manifests.yaml_text import dump
from allotment.observed.status import TenantStatus, parse_tenant_status
from allotment.services.reporter.observer import ClusterSession
from allotment.services.reporter.reporter import Reporter, ReportTarget
from tests.support import live
from tests.support.published import git

CLUSTER = "eu-1"
OURS, BRANCH = f"refs/allotment/status/{CLUSTER}", f"refs/heads/status/{CLUSTER}"
PATH = f"tenants/{live.TENANT}.yaml"


class Watching:
    """A watch that a test holds."""

    name = "pods"
    synced = True
    trouble = ""

    def __init__(self) -> None:
        self.contact = time.monotonic()


class Bed:
    """A reporter, what it sees, and the repository that it writes to."""

    def __init__(self, folder: Path, remote: Path, interval: float = 0, key: str | None = None) -> None:
        self.store = ObservedObjects(CLUSTER)
        self.clock = 0
        self.watch = Watching()
        self.remote = remote
        self.repository = Clone.open_or_create(folder)
        with (folder / "config").open("a", encoding="utf-8") as settings:
            settings.write("[user]\n\tname = reporter\n\temail = reporter@northlight.example\n")
        self.place = ReportTarget(
            self.repository, Remote(self.repository, str(remote), keep=True), key, Remote(self.repository, str(remote))
        )
        self.log = structlog.testing.CapturingLogger()
        self.counts = create_registry()
        self.leads = True
        self.reporter = Reporter(
            ClusterSession(CLUSTER, [self.watch], self.store, STOCKS_OWNER, self.now),
            self.place,
            ReportMetrics(CLUSTER, self.counts),
            self.log,
            interval,
            is_leader=lambda: self.leads,
        )

    def now(self) -> str:
        moment = datetime.datetime(2026, 11, 21, 10, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.clock)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def see(self, *objects: dict[str, Any], seconds: int = 1) -> None:
        """See these objects, and nothing else, some seconds later."""
        self.clock += seconds
        self.watch.contact = time.monotonic()
        for name, kind in live.KINDS.items():
            self.store.replace(
                kind, live.seen(*(live_object for live_object in objects if live_object["kind"] == name))
            )

    def report(self, *objects: dict[str, Any], seconds: int = 1) -> None:
        self.see(*objects, seconds=seconds)
        self.reporter.tick()

    def publish(self, *objects: dict[str, Any], files: dict[str, bytes] | None = None) -> str:
        """Publish objects of the tenant, each in a file of its own, or these files, and nothing else; return the commit."""
        data: dict[str, bytes | None] = {
            "control/platform.rendered.yaml": dump([{"kind": "x", "metadata": {"name": "x"}}])
        }
        for manifest in objects:
            part = "compute" if "allotment.dev/instance" in manifest["metadata"]["labels"] else "storage"
            path = resource_file(live.TENANT, part, f"{manifest['metadata']['name']}-{manifest['kind'].lower()}")
            data[path] = dump([{"kind": manifest["kind"], "metadata": {"name": manifest["metadata"]["name"]}}])
        return self.point(self.write(data | (files or {})))

    def write(self, data: dict[str, bytes | None]) -> str:
        """Write a commit with these files at the remote, as somebody else than the reporter."""
        message = CommitMessage("Publish", b"publisher <publisher@northlight.example> 1 +0000")
        with Repository.open_or_create(self.remote) as repository:
            return write_commit(repository, [], data, message)

    def point(self, commit: str, *refs: str) -> str:
        """Let refs be at a commit, by themselves the rendered branch and our ref beside it."""
        for ref in refs or (rendered_branch(CLUSTER), published_ref(CLUSTER)):
            git(self.remote, "update-ref", ref, commit)
        return commit

    def commits(self) -> int:
        return int(git(self.remote, "rev-list", "--count", BRANCH))

    def status(self, commit: str = BRANCH) -> TenantStatus:
        return parse_tenant_status((git(self.remote, "show", f"{commit}:{PATH}") + "\n").encode())

    def subject(self) -> str:
        return git(self.remote, "log", "-1", "--format=%s", BRANCH)

    def way(self) -> list[str]:
        """Return all states that were told, oldest first, by following the files back."""
        states: list[str] = []
        status = self.status()
        while True:
            states[:0] = [transition.target for transition in status.transitions]
            if not status.previous:
                return states
            status = self.status(status.previous)

    def warnings(self) -> list[str]:
        return [call.kwargs["message"] for call in self.log.calls if call.method_name == "warning"]
