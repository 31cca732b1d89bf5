"""A repository of declarations with a remote to publish to, for tests of `allot publish` and `allot run`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from allotment.adapters.file_cache import cache_name
from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.rendered_branches import read_rendered_branches
from allotment.declared.inventory import compute_blob_id
from allotment.manifests.paths import parse_tree_path
from allotment.manifests.tenant import programs
from allotment.manifests.yaml_text import dump, load
from allotment.observed.status import (
    ClusterStatus,
    Condition,
    Preparation,
    Snapshot,
    Storage,
    TenantStatus,
)
from tests.conftest import DAY, Allot, Result
from tests.support.cluster_report import write_report
from tests.support.waiting import Final, NotInTime, eventually

DATE = "GIT_COMMITTER_DATE"
OBSERVED = "2026-11-21T12:00:00Z"  # when a cluster was looked at, where a test doesn't say
INSTANCE = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: {name}
{labels}spec:
  cluster: eu-1
  gpuSpec: l4-quarter
  app:
    name: jupyter
    version: "4.5.0"
"""
EMPTY_STORAGE = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUStorage
metadata:
  name: {name}
spec:
  cluster: eu-1
  storageSpec: block-ssd
  size: 20Gi
"""
STORAGE = f"""\
{EMPTY_STORAGE}\
  prepare:
    source:
      image:
        image: registry.example/tools/model-fetch:2.3.0@sha256:cd12048706c9d8f4fc565fc6b3dc6e05511707c5fa4d3a8cbb573667227ef0d1
"""


def git(folder: Path, *words: str) -> str:
    """Return what Git says in a folder."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout.strip()


def with_own_programs(data: bytes) -> bytes:
    """Return a storage's file as it was published while each Job had a ConfigMap of its own name beside it."""
    objects = load(data)
    (at,) = [number for number, manifest in enumerate(objects) if manifest["kind"] == "Job"]
    job = objects[at]
    (volume,) = [pod_volume for pod_volume in job["spec"]["template"]["spec"]["volumes"] if "configMap" in pod_volume]
    held = programs.programs_by_name()[volume["configMap"]["name"]]
    volume["configMap"] = {"name": job["metadata"]["name"]}
    metadata = {key: value for key, value in job["metadata"].items() if key != "annotations"}
    annotations = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}
    own = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "annotations": annotations},
        "immutable": True,
    }
    objects.insert(at + 1, {**own, "data": held})
    return dump(objects)


def of_another_version(data: bytes) -> tuple[bytes, str, bytes]:
    """Return a storage's file whose Job names the programs of another version of ours; their name, and the file that they lie in."""
    ((name, now),) = [(name, held) for name, held in programs.programs_by_name().items() if name.encode() in data]
    other = {**now, "__init__.py": "# of another version\n"}
    renamed = f"{name[:-16]}{programs.hash_programs(other)}"
    (config_map,) = programs.render("studio-kite", [manifest for manifest in load(data) if manifest["kind"] == "Job"])
    theirs = {**config_map, "metadata": {**config_map["metadata"], "name": renamed}, "data": other}
    return data.replace(name.encode(), renamed.encode()), renamed, dump([theirs])


def files_of(folder: Path, commit: str, *paths: str) -> dict[str, str]:
    """Return the texts of a commit's files by path: of all, or of these. One process of Git's reads them all."""
    listed = git(folder, "ls-tree", "-r", "-z", commit, *paths).split("\0")
    blobs = {path: about.split()[2] for about, _, path in (line.partition("\t") for line in listed if line)}
    blob_ids = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    command = ["git", "-C", str(folder), "cat-file", "--batch"]
    output = subprocess.run(command, input=blob_ids, capture_output=True, check=True).stdout
    texts, at = {}, 0
    for path, blob in blobs.items():
        begin = output.index(b"\n", at) + 1
        id_, kind, size = output[at : begin - 1].decode().split()
        assert (id_, kind) == (blob, "blob"), path
        at = begin + int(size) + 1
        texts[path] = output[begin : at - 1].decode()
    return texts


class Place:
    """A source repository and the bare repository it is published to."""

    def __init__(self, root: Path, remote: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.remote = remote
        self._allot = allot
        self._monkeypatch = monkeypatch

    def begin(self) -> None:
        """Commit what the folder holds, and push it to a remote that is new."""
        subprocess.run(["git", "init", "-q", "--bare", "--template=", "-b", "main", str(self.remote)], check=True)
        git(self.root, "init", "-q", "--template=", "-b", "main")
        git(self.root, "remote", "add", "origin", str(self.remote))
        self.merge()
        for folder in (self.root, self.remote):
            git(folder, "repack", "-d", "-q")

    def merge(self) -> str:
        """Commit what the folder holds, as somebody's merge, of which the remote has `main`; return the commit.

        The remote's files are written as a push would write them, which takes six processes of Git's.
        """
        git(self.root, "add", "-A")
        author = ["-c", "user.name=Ada Löwe", "-c", "user.email=ada@northlight.example"]
        git(self.root, *author, "commit", "-q", "--allow-empty", "-m", "Merge")
        here, main = git(self.root, "rev-parse", "HEAD", "refs/heads/main").split()
        for folder in (self.root / ".git/objects").glob("??"):
            _link(folder, self.remote / "objects" / folder.name)
        for ref in (self.remote / "refs/heads/main", self.root / ".git/refs/remotes/origin/main"):
            _point(ref, main)
        return here

    def publish(self, *words: object, hours_ago: float = 0) -> Result:
        """Publish, as if it were some hours ago."""
        with self._monkeypatch.context() as patch:
            if hours_ago:
                patch.setenv(DATE, f"{int(time.time() - hours_ago * 3600)} +0000")
            return self._allot("publish", "--repo", self.root, "--as-of", DAY, *words)

    def merged(self, *words: object, hours_ago: float = 0) -> Result:
        """Merge and publish."""
        self.merge()
        return self.publish(*words, hours_ago=hours_ago)

    def refs(self) -> dict[str, str]:
        """Return the remote's refs but for the source's branch."""
        lines = git(self.remote, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {name: commit for name, commit in (line.split() for line in lines) if name != "refs/heads/main"}

    def tree(self, cluster: str) -> dict[str, str]:
        """Return the texts of a rendered branch by path."""
        return files_of(self.remote, f"rendered/{cluster}")

    def log(self, cluster: str, style: str) -> list[str]:
        """Return a line for each commit of a rendered branch, the newest first."""
        return git(self.remote, "log", f"--format={style}", f"rendered/{cluster}").splitlines()

    def report(
        self, cluster: str, *statuses: TenantStatus, observed: str = OBSERVED, also: dict[str, bytes] | None = None
    ) -> str:
        """Write what a reporter would have seen of some tenants at a time, and nothing of others; return the commit."""
        status = ClusterStatus(cluster, observed)
        return write_report(self.root, str(self.remote), status, statuses, also or {})

    def synced(self, cluster: str, tenant: str, *, marked: str = OBSERVED, observed: str = OBSERVED) -> str:
        """Report that a cluster has all that is published of a tenant, what is marked for deletion since a time; return the commit."""
        storages, snapshots, namespace = [], [], ""
        for path, text in files_of(
            self.remote, f"rendered/{cluster}", f"tenants/{tenant}", "control/namespaces"
        ).items():
            spot = parse_tree_path(path)
            if spot is None or spot.tenant != tenant or spot.part not in ("storage", "namespaces"):
                continue
            manifest, *others = load(text.encode())
            annotations = manifest["metadata"].get("annotations", {})
            free = annotations.get("allotment.dev/protected") == "false"
            if spot.part == "namespaces":
                namespace = "Unprotected" if free else "Protected"
                continue
            steps = [Condition("MarkedForDeletion", "True", "", "", marked)] * (
                annotations.get("allotment.dev/deletion-policy") == "Delete"
            )
            steps += [Condition("Unprotected", "True", "", "", observed)] * free
            if manifest["kind"] == "VolumeSnapshot":
                snapshots.append(Snapshot(manifest["metadata"]["name"], "b", "Ready", "", conditions=tuple(steps)))
            elif manifest["kind"] == "PersistentVolumeClaim":
                job = next((other for other in others if other["kind"] == "Job"), None)
                prepare = _prepared(job["metadata"]) if job else None
                name = manifest["metadata"]["name"]
                storages.append(Storage(name, "b", "Ready", "", claim="c1", prepare=prepare, conditions=tuple(steps)))
        status = TenantStatus(
            tenant, cluster, storages=tuple(storages), snapshots=tuple(snapshots), namespace=namespace
        )
        return self.report(cluster, status, observed=observed)

    def rewrite(self, cluster: str, path: str, text: str) -> None:
        """Publish another text at a path, as another version of ours would have."""
        self.rewrite_all(cluster, {path: text.encode()})

    def rewrite_all(self, cluster: str, texts: dict[str, bytes], gone: Collection[str] = ()) -> None:
        """Publish other texts at some paths, and nothing at others, as another version of ours would have."""
        with Repository(self.root) as repository:
            remote = Remote(repository, str(self.remote))
            branch = read_rendered_branches(repository, remote, [cluster]).branches[cluster]
            files = {path: blob for path, blob in branch.files.items() if path not in gone}
            files |= {path: compute_blob_id(data) for path, data in texts.items()}
            message = CommitMessage("Older", b"allotment <allotment@northlight.example> 1 +0000")
            commit = branch.create_commit(files, branch.compare_files(files), texts, message)
            assert remote.push(
                {f"refs/heads/rendered/{cluster}": commit, f"refs/allotment/published/{cluster}": commit}
            )

    def copy(self, folder: Path) -> Place:
        """Return a copy of the source and of its remote, in a folder."""
        other = Place(folder / "repo", folder / "remote.git", self._allot, self._monkeypatch)
        _copy(self, other, folder / "no-cache", folder / "no-cache")
        return other

    def fork(self, folder: Path) -> Place:
        """Return another clone of the same source, with the same remote."""
        shutil.copytree(self.root, folder)
        return Place(folder, self.remote, self._allot, self._monkeypatch)


class Places:
    """Places that tests begin with. Each is made once, by the first test that wants it; the others get a copy."""

    def __init__(self, cache_folder: Path) -> None:
        self._kept = cache_folder

    def begin(self, name: str, place: Place, make: Callable[[Place], object]) -> Place:
        """Let a place, of which nothing is there yet, be as it was made under a name, and remembered as then."""
        cached_place = Place(
            self._kept / name / "repo", self._kept / name / "remote.git", place._allot, place._monkeypatch
        )
        memory = Path(os.environ["XDG_CACHE_HOME"]) / "allotment"
        if cached_place.root.exists():
            _copy(cached_place, place, cached_place.root.parent / "memory", memory)
        else:
            make(place)
            _copy(place, cached_place, memory, cached_place.root.parent / "memory")
        return place


def _link(folder: Path, other: Path) -> None:
    """Let a folder have the objects and packs of another: Git never writes into one that is there."""
    other.mkdir(parents=True, exist_ok=True)
    for file in os.scandir(folder):
        if file.is_dir():
            _link(Path(file), other / file.name)
        elif not (other / file.name).exists():
            os.link(file, other / file.name)


def _point(ref: Path, commit: str) -> None:
    """Let a ref be at a commit, as whoever reads it meanwhile sees it: before or after."""
    ref.parent.mkdir(parents=True, exist_ok=True)
    lock = ref.with_name(f"{ref.name}.lock")
    lock.write_text(f"{commit}\n", encoding="ascii")
    lock.replace(ref)


def _copy(source: Place, other: Place, memory: Path, other_memory: Path) -> None:
    for old, new, objects in (
        (source.root, other.root, ".git/objects"),
        (source.remote, other.remote, "objects"),
    ):
        at = str(old / objects)
        shutil.copytree(old, new, symlinks=True, ignore=lambda folder, names, at=at: names if folder == at else [])
        _link(old / objects, new / objects)
    settings = other.root / ".git/config"
    settings.write_text(settings.read_text().replace(str(source.remote), str(other.remote)))
    if memory.exists():
        other_memory.mkdir(parents=True)
        for file in memory.iterdir():
            shutil.copy(file, other_memory / file.name.replace(cache_name(source.root), cache_name(other.root)))


def _prepared(job: dict[str, Any]) -> Preparation:
    noted = job["annotations"]
    retained = "Prune=false" in noted.get("argocd.argoproj.io/sync-options", "")
    attempt, digest = int(noted["allotment.dev/attempt"]), noted["allotment.dev/input-hash"]
    return Preparation(f"uid-of-{job['name']}", attempt, digest, "Succeeded", is_prune_protected=retained)


class Running:
    """A running `allot run` and what it logged."""

    def __init__(
        self,
        url: str,
        data: Path,
        interval: float,
        *more: str,
        prefix: Sequence[str] = (),
        services: Sequence[str] = ("--publish",),
    ) -> None:
        words = ["run", *services, "--source", url, "--data", str(data), "--interval", str(interval), *more]
        self.log = data.with_suffix(".log")
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "allotment", *words, "--listen", "127.0.0.1:0"],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        started = self.event("started")
        self.url, self.metrics = f"http://{started['listen']}", f"http://{started['metrics']}/metrics"

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [dict(event) for event in events if event["event"] == name]

    def event(self, name: str, **about: object) -> dict[str, Any]:
        """Return the last event of a name, once there is one that is about this."""

        def find_event() -> dict[str, Any] | None:
            events = [event for event in self.events(name) if all(event.get(key) == about[key] for key in about)]
            if not events and self.process.poll() is not None:
                raise Final(self.log.read_text())
            return events[-1] if events else None

        try:
            return eventually(find_event, f"the event {name!r} {about}", pause=0.05)
        except NotInTime as error:
            raise NotInTime(f"{error}:\n{self.log.read_text()}") from None

    def get(self, path: str, data: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Return status and text of a page, or of a whole URL; `data` is posted."""
        url = path if path.startswith("http:") else self.url + path
        try:
            request = urllib.request.Request(url, data=data, headers=headers or {})
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, line: str) -> float:
        """Return a metric's value by its name and labels; 0 while it isn't there."""
        values = [
            metric_line.rpartition(" ")[2]
            for metric_line in self.get(self.metrics)[1].splitlines()
            if metric_line.rpartition(" ")[0] == line
        ]
        return float(values[0]) if values else 0

    def end(self) -> int:
        """End it as Kubernetes does, and return its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)
