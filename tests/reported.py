"""A reporter whose cluster, clock and watches a test holds, and the repository that it writes to."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any

import structlog

from allotment.adapters.cluster.store import STOCKS, Store
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.commits import Message, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.rendered import published_ref
from allotment.adapters.git.repository import Repository
from allotment.adapters.metrics import ReportMetrics, registry
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import tenant_file
from allotment.manifests.text import dump
from allotment.observed.status import TenantStatus, read_tenant
from allotment.pipeline.report.observing import Seeing
from allotment.pipeline.report.reporting import Destination, Reporter
from tests import live
from tests.published import git

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
        self.store = Store(CLUSTER)
        self.clock = 0
        self.watch = Watching()
        self.remote = remote
        self.repository = Clone.at(folder)
        with (folder / "config").open("a", encoding="utf-8") as settings:
            settings.write("[user]\n\tname = reporter\n\temail = reporter@northlight.example\n")
        self.place = Destination(
            self.repository, Remote(self.repository, str(remote), keep=True), key, Remote(self.repository, str(remote))
        )
        self.log = structlog.testing.CapturingLogger()
        self.counts = registry()
        self.leads = True
        self.reporter = Reporter(
            Seeing(CLUSTER, [self.watch], self.store, STOCKS, self.now),
            self.place,
            ReportMetrics(CLUSTER, self.counts),
            self.log,
            interval,
            leading=lambda: self.leads,
        )

    def now(self) -> str:
        moment = datetime.datetime(2026, 11, 21, 10, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.clock)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def see(self, *objects: dict[str, Any], seconds: int = 1) -> None:
        """See these objects, and nothing else, some seconds later."""
        self.clock += seconds
        self.watch.contact = time.monotonic()
        for name, kind in live.KINDS.items():
            self.store.replace(kind, live.seen(*(one for one in objects if one["kind"] == name)))

    def report(self, *objects: dict[str, Any], seconds: int = 1) -> None:
        self.see(*objects, seconds=seconds)
        self.reporter.once()

    def publish(self, *objects: dict[str, Any], files: dict[str, bytes] | None = None) -> str:
        """Publish objects of the tenant, each in a file of its own, or these files, and nothing else; return the commit."""
        data: dict[str, bytes | None] = {
            "control/platform.rendered.yaml": dump([{"kind": "x", "metadata": {"name": "x"}}])
        }
        for one in objects:
            part = "compute" if "allotment.dev/instance" in one["metadata"]["labels"] else "storage"
            path = tenant_file(live.TENANT, part, f"{one['metadata']['name']}-{one['kind'].lower()}")
            data[path] = dump([{"kind": one["kind"], "metadata": {"name": one["metadata"]["name"]}}])
        return self.point(self.write(data | (files or {})))

    def write(self, data: dict[str, bytes | None]) -> str:
        """Write a commit with these files at the remote, as somebody else than the reporter."""
        there = Repository.at(self.remote)
        return write_commit(there, [], data, Message("Publish", b"publisher <publisher@northlight.example> 1 +0000"))

    def point(self, commit: str, *refs: str) -> str:
        """Let refs be at a commit, by themselves the rendered branch and our ref beside it."""
        for ref in refs or (rendered_branch(CLUSTER), published_ref(CLUSTER)):
            git(self.remote, "update-ref", ref, commit)
        return commit

    def commits(self) -> int:
        return int(git(self.remote, "rev-list", "--count", BRANCH))

    def status(self, commit: str = BRANCH) -> TenantStatus:
        return read_tenant((git(self.remote, "show", f"{commit}:{PATH}") + "\n").encode())

    def subject(self) -> str:
        return git(self.remote, "log", "-1", "--format=%s", BRANCH)

    def way(self) -> list[str]:
        """Return all states that were told, oldest first, by following the files back."""
        found: list[str] = []
        status = self.status()
        while True:
            found[:0] = [one.target for one in status.transitions]
            if not status.previous:
                return found
            status = self.status(status.previous)

    def warnings(self) -> list[str]:
        return [call.kwargs["message"] for call in self.log.calls if call.method_name == "warning"]
