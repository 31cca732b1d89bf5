"""What end-to-end tests share: rendered trees, and the sample applied to the cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.conftest import DAY, PROJECT
from tests.controlplane import rendered
from tests.controlplane.argocd import ArgoCD
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.gitea import Gitea
from tests.e2e import oracle
from tests.e2e.cloud import Cloud
from tests.e2e.growing import KEPT, NODE_CLASS, Growing
from tests.support.waiting import eventually

Render = Callable[[Path, str], Path]
FOLDER = Path(__file__).parent
# Where two groups run at a time, what takes longest begins, so that neither is left alone with it in the end; a cloud comes
# after what clears the cluster that it is in.
LONGEST = "reported node cloud faults abuse sample files stock comment watching forge".split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest groups first; the others stay in their order."""
    order = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(_group(item.path), len(order)))


def _group(path: Path) -> str:
    """Return by which name a module's group is known: its own, or that of the folder whose modules share a cluster."""
    if not path.is_relative_to(FOLDER):
        return ""
    return path.stem.removeprefix("test_") if path.parent == FOLDER else path.parent.name


@pytest.fixture(scope="session")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Return what renders a repository for a cluster, into a folder of its own."""

    def run(root: Path, cluster: str) -> Path:
        out = tmp_path_factory.mktemp("rendered") / "out"
        command = [sys.executable, "-m", "allotment", "render", "--repo", str(root), "--out", str(out)]
        done = subprocess.run([*command, "--as-of", DAY], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return out / cluster

    return run


@pytest.fixture(scope="session")
def sample_tree(render: Render) -> Path:
    """Return the sample's tree for eu-1."""
    return render(PROJECT, "eu-1")


@pytest.fixture(scope="module")
def empty_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """Return the cluster with nothing of Allotment's in it, before and after this module's tests."""
    with emptied(cluster):
        yield cluster


@contextmanager
def emptied(cluster: Cluster, *others: Cluster) -> Iterator[None]:
    """Let clusters have nothing of Allotment's in them, before and after the block."""
    clients = [each.client for each in (cluster, *others)]
    rendered.clear(*clients)
    eventually(lambda: counts_custom_kinds(cluster.client), "the quota controller to count custom kinds", 120, pause=1)
    try:
        yield
    finally:
        rendered.clear(*clients)


def counts_custom_kinds(client: Client) -> bool:
    """Return whether a new quota of a custom kind is counted. A fresh cluster begins with that after half a minute, and a quota
    that was made before may wait for five."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "counted", "namespace": "default"},
        "spec": {"hard": {"count/objectbucketclaims.objectbucket.io": "1"}},
    }
    client.apply(quota)
    try:
        for _ in range(10):
            if client.get("v1", "ResourceQuota", "counted", "default").get("status", {}).get("used"):
                return True
            time.sleep(0.1)
        return False
    finally:
        client.delete("v1", "ResourceQuota", "counted", "default")


@pytest.fixture(scope="module")
def growing(growing_cluster: Cluster, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Growing]:
    """Return the cluster us-1 with the sample's platform and pools of shared GPUs, in which nothing runs yet."""
    rendered.clear(growing_cluster.client)
    growing_bed = Growing(tmp_path_factory.mktemp("growing"), render, growing_cluster.client)
    growing_bed.begin()
    yield growing_bed
    rendered.clear(growing_cluster.client)
    growing_cluster.client.delete(NODE_CLASS, "EC2NodeClass", KEPT)


@contextmanager
def a_cloud(
    clusters: dict[str, Cluster],
    argocd: ArgoCD,
    gitea: Gitea,
    folder: Path,
    *more: str,
    edits: Sequence[tuple[str, str, str]] = (),
    left_out: Sequence[str] = (),
    declared: Mapping[str, str] = {},
) -> Iterator[Cloud]:
    """Return a cloud that begins with the sample, after these edits, without some paths and with what else is declared, and
    is cleared away in the end. Its publisher reports eu-1 as quickly as it changes; `more` are other options of `allot run`."""
    kubeconfig = str(clusters["eu-1"].kubeconfig)
    options = ("--report", "eu-1", "--kubeconfig", kubeconfig, "--report-interval", "1", *more)
    with pytest.MonkeyPatch.context() as patch, emptied(*clusters.values()):
        patch.setenv("GIT_SSL_CAINFO", str(gitea.authority))
        patch.setenv("REQUESTS_CA_BUNDLE", str(gitea.authority))
        patch.setenv("GIT_COMMITTER_NAME", "allotment")
        patch.setenv("GIT_COMMITTER_EMAIL", "allotment@northlight.example")
        new_cloud = Cloud(clusters, argocd, gitea, folder, *options)
        try:
            new_cloud.begin(edits, left_out, declared)
            yield new_cloud
            oracle.check(new_cloud)
        finally:
            new_cloud.end()


@pytest.fixture(scope="session")
def start_cloud(
    cluster: Cluster,
    growing_cluster: Cluster,
    argocd: ArgoCD,
    gitea: Gitea,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., AbstractContextManager[Cloud]]:
    """Return what starts a cloud of the clusters eu-1 and us-1, with the arguments of `a_cloud` that follow its folder."""
    clusters = {"eu-1": cluster, "us-1": growing_cluster}
    return lambda *more, **declared: a_cloud(
        clusters, argocd, gitea, tmp_path_factory.mktemp("cloud"), *more, **declared
    )
