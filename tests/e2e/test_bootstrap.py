"""Argo CD, set up by `allot bootstrap`, syncs a rendered branch: everything comes up, nothing stays different, and what waits
says for what."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.adapters.git.commits import Message, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from tests.conftest import PROJECT
from tests.controlplane import rendered
from tests.controlplane.argocd import ARGO, NAMESPACE, ArgoCD
from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import eventually

pytestmark = pytest.mark.e2e
DECLARED_URL = b"https://github.com/northlight-example/gpus"  # which no test can reach: a bare repository stands for it
BRANCH = "refs/heads/rendered/eu-1"


@pytest.fixture(scope="module")
def synced(
    empty_cluster: Cluster, argocd: ArgoCD, sample_tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Return the cluster once Argo CD has synced the sample from a branch, with nothing applied but the bootstrap."""
    folder = tmp_path_factory.mktemp("remote")
    url = (folder / "remote.git").as_uri()
    for words in (["--bare", str(folder / "remote.git")], [str(folder / "here")]):
        subprocess.run(["git", "init", "--quiet", *words], check=True)
    files = {
        path.relative_to(sample_tree).as_posix(): path.read_bytes().replace(DECLARED_URL, url.encode())
        for path in sample_tree.rglob("*.yaml")
    }
    here = Repository(folder / "here")
    here.open().git.update_environment(GIT_COMMITTER_NAME="allotment", GIT_COMMITTER_EMAIL="a@northlight.example")
    author = b"allotment <a@northlight.example> 1767225600 +0000"
    commit = write_commit(here, [], dict(files), Message("Publish", author))
    assert Remote(here, url).push({BRANCH: commit})
    said = subprocess.run(
        [sys.executable, "-m", "allotment", "bootstrap", "--repo", str(PROJECT)], capture_output=True, check=True
    ).stdout
    for one in yaml.safe_load_all(said.replace(DECLARED_URL, url.encode())):
        if not one["metadata"]["name"].startswith("allotment--root--us-1"):
            empty_cluster.client.apply(one)
    yield empty_cluster
    rendered.clear(empty_cluster.client)


def applications(cluster: Cluster) -> dict[str, Object]:
    found = cluster.client.list(ARGO, "Application", NAMESPACE, rendered.OURS)
    return {one["metadata"]["name"]: one for one in found}


def test_everything_is_synced_and_nothing_stays_different(synced: Cluster, sample_tree: Path) -> None:
    expected = {one["metadata"]["name"] for one in rendered.objects(sample_tree) if one["kind"] == "Application"}

    def all_synced() -> bool:
        found = applications(synced)
        left = {
            name: found.get(name, {}).get("status", {}).get("sync", {}).get("status")
            for name in expected | {"allotment--root--eu-1"}
        }
        if any(status != "Synced" for status in left.values()):
            different = [
                f"{name}: {one['kind']} {one.get('namespace')}/{one['name']}"
                for name, application in found.items()
                for one in application.get("status", {}).get("resources", ())
                if one.get("status") != "Synced"
            ]
            said = {
                name: (status, found.get(name, {}).get("status", {}).get("operationState", {}).get("message"))
                for name, status in left.items()
                if status != "Synced"
            }
            raise AssertionError(said, different)
        return True

    assert eventually(all_synced, "every Application to be Synced", seconds=90, pause=1)


def test_it_brings_up_what_is_declared(synced: Cluster) -> None:
    def runs() -> bool:
        found = synced.client.get("apps/v1", "Deployment", "webui", "t-solo-ada")
        return bool(found["status"].get("readyReplicas") == 1)

    assert eventually(runs, "solo-ada's webui to run", seconds=120)


def resource(cluster: Cluster, application: str, kind: str, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = applications(cluster)[application]["status"]["resources"]
    return next(one for one in found if (one["kind"], one["name"]) == (kind, name))


def test_what_waits_is_suspended_and_says_for_what(synced: Cluster, argocd: ArgoCD) -> None:
    def node() -> dict[str, Any]:
        tree = argocd.api("applications/studio-kite--eu-1--compute/resource-tree")["nodes"]
        return next(one for one in tree if (one["kind"], one["name"]) == ("Deployment", "webui"))

    health = eventually(lambda: node().get("health"), "the waiting instance's health", seconds=120)
    assert health == {"status": "Suspended", "message": "preparation of storage model-cache"}


def test_a_link_leads_to_the_declaration(synced: Cluster, argocd: ArgoCD) -> None:
    def links(path: str) -> dict[str, str]:
        items = argocd.api(f"applications/solo-ada--eu-1--compute/{path}")["items"]
        return {one["title"]: one["url"] for one in items or ()}

    query = "resource/links?namespace=t-solo-ada&resourceName=webui&version=v1&group=apps&kind=Deployment"
    where = eventually(lambda: links(query), "links of the Deployment", seconds=120)["Declaration"]
    assert where.endswith("/blob/main/tenants/solo-ada/instances/webui.yaml")
    assert links("links")["Declarations"].endswith("/tree/main/tenants/solo-ada")


def test_a_hand_edit_is_healed(synced: Cluster) -> None:
    client = synced.client
    client.patch("apps/v1", "Deployment", "webui", {"spec": {"replicas": 3}}, "t-solo-ada")

    def healed() -> bool:
        return bool(client.get("apps/v1", "Deployment", "webui", "t-solo-ada")["spec"]["replicas"] == 1)

    assert eventually(healed, "the replicas to be as declared", seconds=60)
