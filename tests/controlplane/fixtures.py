"""Fixtures of end-to-end tests: a cluster, a namespace, Argo CD, Gitea, a Git remote. Without programs they skip, saying so."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.controlplane import bed, crds, debian, gitea_pages, node, processes, programs, world
from tests.controlplane import gitea as gitea_program
from tests.controlplane.argocd import ArgoCD
from tests.controlplane.cluster import Cluster
from tests.controlplane.gitea import Gitea
from tests.controlplane.world import World
from tests.support.waiting import eventually

BED_TOOLS = ("etcd", "kwok", "kubernetes", "argocd")


def needs(*tools: str) -> None:
    """Skip the test when programs of these tools are missing; in CI that is a failure."""
    missing = programs.missing(tools)
    if "kubernetes" in tools and not crds.home().is_dir():
        missing.append("CRDs")
    if missing:
        _go_without(f"run make controlplane: {', '.join(missing)} not built")


def needs_a_browser() -> None:
    """Skip the test where no browser is installed, or Gitea's pages have no scripts; in CI that is a failure."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        _go_without("no Chromium is installed: apt-get install chromium")
    if missing := gitea_pages.missing():
        _go_without(f"run make controlplane: {', '.join(missing)} not built")


def _go_without(why: str) -> None:
    """Skip the test, saying why; in CI nothing may be skipped, so that is a failure."""
    pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)


def needs_a_node() -> None:
    """Skip the test where this machine can have no real node, or what one takes isn't built; in CI that is a failure."""
    why = node.why_not()
    if why is None and (lacking := [f"Debian's {what}" for what in debian.missing()]):
        why = f"run make controlplane: {', '.join(lacking)} not there"
    if why:
        _go_without(why)
    needs(*BED_TOOLS, *programs.NODE)


def _running(name: str, *, argocd: bool, karpenter: bool, node: bool = False) -> Iterator[Cluster]:
    """Yield a cluster. What this session started, or one that has died left behind, this session ends."""
    test_cluster, fresh = bed.up(name, with_argocd=argocd, with_karpenter=karpenter, with_node=node)
    session = test_cluster.folder / "session"
    left_behind = session.exists() and not psutil.pid_exists(int(session.read_text()))
    ours = fresh or left_behind
    if ours:
        session.write_text(str(os.getpid()))
    yield test_cluster
    if ours:
        bed.end(test_cluster)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return the cluster eu-1 with Argo CD: the one that `make cluster` started, or one for this session."""
    needs(*BED_TOOLS)
    yield from _running("eu-1", argocd=True, karpenter=False)


@pytest.fixture(scope="session")
def growing_cluster() -> Iterator[Cluster]:
    """Return the cluster us-1 with Karpenter: its GPU nodes come when pods need them."""
    needs(*BED_TOOLS, "karpenter")
    yield from _running("us-1", argocd=False, karpenter=True)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Return a namespace of this test alone."""
    name = f"test-{secrets.token_hex(4)}"
    client = cluster.client
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    eventually(lambda: client.get("v1", "ServiceAccount", "default", name), f"the service account of {name}")
    yield name
    client.delete("v1", "Namespace", name)


@pytest.fixture(scope="session")
def argocd(cluster: Cluster) -> ArgoCD:
    """Return the Argo CD of the cluster, which has it registered as eu-1."""
    return bed.argocd_of(cluster)


@pytest.fixture(scope="session")
def gitea(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gitea]:
    """Return a Gitea with an administrator, two users, an organisation and a token each."""
    needs("gitea")
    folder = tmp_path_factory.mktemp("gitea")
    try:
        yield gitea_program.start(folder)
    finally:
        processes.stop(folder)


def a_real_node() -> Iterator[Node]:
    """Yield a cluster with a node that runs containers: that of `make cluster NODE=real`, or one for this session."""
    needs_a_node()
    for test_cluster in _running("eu-1", argocd=True, karpenter=False, node=True):
        yield Node(test_cluster)


class Node(NamedTuple):
    """A cluster with a real node."""

    cluster: Cluster

    @property
    def world(self) -> World:
        """The world that the node runs in now; after it booted again that is another."""
        current_world = world.find_world(node.folder(self.cluster))
        assert current_world is not None, "the node doesn't run"
        return current_world


class GitRemote(NamedTuple):
    """A bare repository: its folder, and the URL to push to and fetch from."""

    path: Path
    url: str


@pytest.fixture
def git_remote(tmp_path: Path) -> GitRemote:
    """Return an empty bare repository whose branch is `main`."""
    path = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    return GitRemote(path, path.as_uri())
