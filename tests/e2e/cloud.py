"""A whole cloud: the sample in Gitea, `allot run` that publishes it, Argo CD that syncs two clusters. Nobody but a merge
touches a cluster."""

from __future__ import annotations

import datetime
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml

from allotment.declared.inventory import compute_blob_id
from allotment.manifests import argo_folders
from tests.conftest import PROJECT, ROOTS
from tests.controlplane import rendered
from tests.controlplane.argocd import ARGO, NAMESPACE, REFRESH, ArgoCD
from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.gitea import ORGANISATION, Gitea
from tests.e2e import oracle
from tests.e2e.pulls import add_platform_team, name_people
from tests.support.published import Running, git
from tests.support.waiting import eventually

REPOSITORY = f"{ORGANISATION}/cloud"
EVENTS = ["push", "pull_request", "pull_request_sync", "pull_request_review_approved"]
LOOK_AGAIN = datetime.timedelta(seconds=5)
# Who is asked while it looks may forget it until its next turn, after two minutes.
FORGOTTEN = datetime.timedelta(seconds=20)
ADD_ONS = "platform/add-ons"  # charts of the internet, which the test bed doesn't reach
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example")


def pushing(pid: int) -> list[psutil.Process]:
    """Return the processes that push for a process: they go on where that one is stopped."""
    children = psutil.Process(pid).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE and "push" in child.cmdline()]


class Cloud:
    """Two clusters, by name, and the repository that says what they run."""

    def __init__(self, clusters: dict[str, Cluster], argocd: ArgoCD, gitea: Gitea, folder: Path, *more: str) -> None:
        self._more = more
        self.clusters = clusters
        self.argocd = argocd
        self.gitea = gitea
        self.root = folder / "source"
        self.url = gitea.remote(REPOSITORY, ORGANISATION)
        self.forge = gitea.repository(REPOSITORY)  # to look at what is published as often as one likes
        self.running: Running
        self._folder = folder
        self.expected: dict[str, str] = {}  # by Application: the health that a test leaves it in
        self._synced_tips: dict[str, str] = {}  # by cluster: the published commit at the last wait for Applications

    @property
    def hub(self) -> str:
        """The name of the cluster that Argo CD runs in."""
        return next(name for name, test_cluster in self.clusters.items() if test_cluster is self.argocd.cluster)

    def begin(
        self,
        edits: Sequence[tuple[str, str, str]] = (),
        left_out: Sequence[str] = (),
        declared: Mapping[str, str] = {},
    ) -> None:
        """Write the sample for these clusters, push it, start the publisher, apply what `allot bootstrap` says, and wait until all
        of it is synced: a test's seconds are its own. An edit is a path, a text there, and another; the sample's paths
        `left_out` aren't declared, nor are add-ons, and the texts `declared` are, by path."""
        for name in ROOTS:
            shutil.copytree(PROJECT / name, self.root / name)
        for path in (ADD_ONS, *left_out):
            place = self.root / path
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        for path, text in declared.items():
            self.declare(path, text)
        self.edit(
            "platform/platform.yaml",
            "forge: GitHub\n    url: https://github.com/northlight-example/gpus",
            f"forge: Gitea\n    url: {self.gitea.url}/{REPOSITORY}",
        )
        if "us-1" in self.clusters:
            self.edit("clusters/us-1/cluster.yaml", "server: https://us-1.k8s.northlight.example:6443", "name: us-1")
        for edit in edits:
            self.edit(*edit)
        name_people(self.root)
        add_platform_team(self.gitea)
        self.gitea.create(REPOSITORY)
        git(self.root, "init", "-q", "-b", "main")
        self.merge()
        self.running = Running(self.url, self._folder / "data", 3600, *self._more)
        for url in (self.running.url, f"{self.argocd.url}/api"):
            self._add_webhook(url)
        hub = self.argocd.cluster.client
        for name, cluster in self.clusters.items():
            self.running.event("published", cluster=name)
            self.argocd.register(cluster, name)
        hub.apply(self._repository_secret())
        command = [sys.executable, "-m", "allotment", "bootstrap", "--repo", str(self.root)]
        output = subprocess.run(command, capture_output=True, check=True).stdout
        hub.apply(*yaml.load_all(output, yaml.CSafeLoader))
        self.all_synced(600)

    def end(self) -> None:
        """End the publisher, and remove the repository and what Argo CD knows of it: the next cloud brings its own."""
        if hasattr(self, "running"):
            self.running.process.kill()
            self.running.process.wait()
        self.gitea.delete(REPOSITORY)
        for name in ("repository-cloud", "cluster-us-1"):
            self.argocd.cluster.client.delete("v1", "Secret", name, NAMESPACE)

    def _repository_secret(self) -> Object:
        """How Argo CD reaches the repository: Gitea's certificate is its own."""
        labels = {"argocd.argoproj.io/secret-type": "repository"}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "repository-cloud", "namespace": NAMESPACE, "labels": labels},
            "stringData": {"type": "git", "url": f"{self.gitea.url}/{REPOSITORY}", "insecure": "true"},
        }

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that is in a declaration."""
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def declare(self, path: str, text: str) -> None:
        """Write a declaration."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def merge(self) -> str:
        """Commit what is declared and push it to main; return the commit. The forge's webhook does the rest."""
        git(self.root, "add", "-A")
        git(self.root, *IDENTITY, "commit", "-q", "-m", "Merge")
        git(self.root, "push", "-q", self.url, "HEAD:main")
        return git(self.root, "rev-parse", "HEAD")

    def start_second_publisher(self) -> Running:
        """Start another publisher beside the one that runs, with the same options and a clone of its own."""
        return Running(self.url, self._unused_folder(), 3600, *self._more)

    def restart(self) -> None:
        """Kill the publisher, and start it with its clone again. It has another address and another log then."""
        self.running.process.kill()
        self.running.process.wait()
        data = self.running.log.with_suffix("").rename(self._unused_folder())
        self.follow(Running(self.url, data, 3600, *self._more))

    def follow(self, publisher: Running) -> None:
        """Let a publisher that runs take the place of the one that ended, also for the forge's webhook."""
        self.running = publisher
        self._add_webhook(publisher.url)

    def logs(self) -> list[Path]:
        """Return the logs of all publishers and reporters."""
        return sorted(self._folder.glob("*.log"))

    def _unused_folder(self) -> Path:
        return self._folder / f"data-{len(list(self._folder.iterdir()))}"

    def _add_webhook(self, url: str) -> None:
        hook = {"content_type": "json", "url": f"{url}/webhook"}
        body = {"type": "gitea", "active": True, "events": EVENTS, "branch_filter": "*", "config": hook}
        self.gitea.api(f"repos/{REPOSITORY}/hooks", body)

    def published(self) -> dict[str, str]:
        """Return the commit of each ref of the repository."""
        lines = git(self.forge, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        return {name: commit for commit, name in (line.split(" ") for line in lines)}

    def merged(self) -> str:
        """Merge, and wait until it is published; return the source commit."""
        self.merge()
        return self.merged_head()

    def merged_head(self) -> str:
        """Push what the clone is at to main, and wait until it is published; return the source commit."""
        git(self.root, "push", "-q", self.url, "HEAD:main")
        source = git(self.root, "rev-parse", "HEAD")
        eventually(lambda: self.published().get("refs/allotment/source") == source, "the merge to be published", 60)
        return source

    @contextmanager
    def publisher_stopped(self) -> Iterator[None]:
        """Let the publisher do nothing for a while. What it was pushing has arrived, or was refused, when this begins."""
        self.running.process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: not pushing(self.running.process.pid), "the last push to end", pause=0.05)
            yield
        finally:
            self.running.process.send_signal(signal.SIGCONT)
            self.running.get("/webhook", b"")

    def smuggle(self, cluster: str, changes: dict[str, str | None], marks: Sequence[str] = ()) -> str:
        """Commit to a rendered branch as somebody else: texts by path, None to remove; return the commit.

        The folders of `marks` get the markers that we would write.
        """
        clone = self._folder / f"smuggled-{len(list(self._folder.iterdir()))}"
        subprocess.run(["git", "clone", "-q", "-b", f"rendered/{cluster}", self.url, str(clone)], check=True)
        for path, text in changes.items():
            if text is None:
                git(clone, "rm", "-q", "-r", path)
            else:
                (clone / path).parent.mkdir(parents=True, exist_ok=True)
                (clone / path).write_text(text, encoding="utf-8")
        files = {
            file.relative_to(clone).as_posix(): compute_blob_id(file.read_bytes())
            for file in clone.rglob("*.yaml")
            if ".git" not in file.parts
        }
        for path, data in argo_folders.render_markers(cluster, marks, files):
            (clone / path).write_bytes(data)
        git(clone, "add", "-A")
        git(clone, *IDENTITY, "commit", "-q", "-m", "Not Allotment's")
        git(clone, "push", "-q", "origin", f"rendered/{cluster}")
        return git(clone, "rev-parse", "HEAD")

    def applications(self) -> dict[str, Object]:
        """Return Argo CD's Applications of ours by name."""
        applications = self.argocd.cluster.client.list(ARGO, "Application", NAMESPACE, rendered.OURS)
        return {application["metadata"]["name"]: application for application in applications}

    def declared_applications(self) -> set[str]:
        """Return the names of all Applications that the published branches and the bootstrap declare."""
        names = {f"allotment--root--{cluster}" for cluster in self.clusters}
        for cluster in self.clusters:
            for _, manifest in oracle.objects(self, f"refs/heads/rendered/{cluster}", "control/"):
                if manifest["kind"] == "Application":
                    names.add(manifest["metadata"]["name"])
        return names

    def changed_applications(self) -> set[str]:
        """Return the names of the Applications whose folders have other files than at the last wait for Applications."""
        refs, names = self.published(), set()
        for cluster in self.clusters:
            branch = f"refs/heads/rendered/{cluster}"
            paths = git(
                self.forge, "diff", "--name-only", "--no-renames", "-z", self._synced_tips[cluster], refs[branch]
            )
            folders = {argo_folders.folder_of(path) for path in paths.split("\0") if path}
            for _, manifest in oracle.objects(self, branch, "control/"):
                if manifest["kind"] == "Application" and manifest["spec"]["source"]["path"] in folders:
                    names.add(manifest["metadata"]["name"])
            if "control" in folders:
                names.add(f"allotment--root--{cluster}")
        return names

    def changes_synced(self, seconds: float = 300) -> dict[str, Object]:
        """Wait until the Applications that changed since the last wait are synced, and the clusters have each object of what is
        published and no other of ours; return the Applications. A wait for all of them takes several times as long."""
        return self.wait_until_synced(self.changed_applications(), seconds)

    def all_synced(self, seconds: float = 300) -> dict[str, Object]:
        """Wait until every Application has looked at what is published now, nothing differs, and the clusters have each object
        of it and no other of ours; return the Applications."""
        return self.wait_until_synced(self.declared_applications(), seconds)

    def wait_until_synced(self, wanted: set[str], seconds: float = 300) -> dict[str, Object]:
        """Wait until Applications have looked at what is published now, nothing differs, and the clusters have each object of
        it and no other of ours; return all Applications. They are asked to look: each by itself takes most of a minute. What
        syncs is left in peace: looks beside it only slow it."""
        since, refs = datetime.datetime.now(datetime.UTC), self.published()
        requested_at: dict[str, datetime.datetime] = {}

        def find_synced() -> dict[str, Object]:
            live_applications, now = self.applications(), datetime.datetime.now(datetime.UTC)
            for name in wanted & live_applications.keys():
                repeated = (
                    asked_already(live_applications[name]) and now - requested_at.setdefault(name, now) > FORGOTTEN
                )
                if repeated or (unsynced(live_applications[name], since) and idle(live_applications[name], since)):
                    self.argocd.refresh(name, repeated=repeated)
                    requested_at[name] = now
            left = {name: unsynced(live_applications.get(name), since) for name in wanted}
            left |= dict.fromkeys(live_applications.keys() - self.declared_applications(), "not declared")
            if wrong := {name: words for name, words in left.items() if words}:
                raise AssertionError(len(wrong), dict(sorted(wrong.items())[:8]))
            return live_applications

        applications = eventually(find_synced, f"{len(wanted)} Applications to be Synced", seconds, pause=1)
        oracle.same(self, seconds)
        self._synced_tips = {cluster: refs[f"refs/heads/rendered/{cluster}"] for cluster in self.clusters}
        return applications


def asked_already(application: Object) -> bool:
    """Return whether an Application was asked to look, and didn't yet."""
    return REFRESH in application["metadata"].get("annotations", {})


def idle(application: Object, since: datetime.datetime) -> bool:
    """Return whether an Application doesn't sync, wasn't asked to look, and didn't look since then within the last seconds."""
    status: dict[str, Any] = application.get("status", {})
    looked = datetime.datetime.fromisoformat(status.get("reconciledAt", "1970-01-01T00:00:00Z"))
    return not (
        "operation" in application
        or status.get("operationState", {}).get("phase") == "Running"
        or asked_already(application)
        or looked > max(since, datetime.datetime.now(datetime.UTC) - LOOK_AGAIN)
    )


def unsynced(application: Object | None, since: datetime.datetime) -> str | None:
    """Return what is wrong with an Application's sync, None where nothing is. What it saw before `since` doesn't count."""
    if application is None:
        return "missing"
    status: dict[str, Any] = application.get("status", {})
    sync_status = status.get("sync", {}).get("status")
    if sync_status != "Synced":
        different = [
            f"{resource['kind']} {resource.get('namespace')}/{resource['name']} {resource.get('status')}"
            for resource in status.get("resources", ())
            if resource.get("status") != "Synced"
        ]
        return f"{sync_status}: {status.get('operationState', {}).get('message')}; {', '.join(different[:5])}"
    looked = datetime.datetime.fromisoformat(status["reconciledAt"])
    return None if looked > since else f"last looked at {looked}"
