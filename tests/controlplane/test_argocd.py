"""Argo CD of the test bed: a real push to a real remote becomes objects in the cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.controlplane.argocd import ARGO, NAMESPACE, ArgoCD
from tests.controlplane.cluster import Cluster
from tests.controlplane.fixtures import GitRemote
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: greeting}}\ndata: {{text: {text}}}\n"


def push(remote: GitRemote, folder: Path, text: str) -> None:
    """Commit one manifest and push it, as a person does."""

    def git(*words: str) -> None:
        identity = ["-c", "user.name=ada", "-c", "user.email=ada@northlight.example"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    if not (folder / ".git").exists():
        folder.mkdir()
        git("clone", "--quiet", remote.url, ".")
        git("checkout", "-q", "-B", "main")
    (folder / "greeting.yaml").write_text(CONFIG_MAP.format(text=text))
    git("add", "--all")
    git("commit", "--quiet", "--message", text)
    git("push", "--quiet", "origin", "main")


def test_a_push_is_synced(
    cluster: Cluster, argocd: ArgoCD, namespace: str, git_remote: GitRemote, tmp_path: Path
) -> None:
    push(git_remote, tmp_path / "work", "hello")
    application = {
        "apiVersion": ARGO,
        "kind": "Application",
        "metadata": {"name": namespace, "namespace": NAMESPACE},
        "spec": {
            "project": "default",
            "source": {"repoURL": git_remote.url, "targetRevision": "refs/heads/main", "path": "."},
            "destination": {"name": "eu-1", "namespace": namespace},
            "syncPolicy": {"automated": {"prune": True, "selfHeal": True}},
        },
    }
    cluster.client.apply(application)

    def greeting() -> str:
        return str(cluster.client.get("v1", "ConfigMap", "greeting", namespace)["data"]["text"])

    try:
        eventually(lambda: greeting() == "hello", "the first commit to be synced")
        push(git_remote, tmp_path / "work", "again")
        argocd.refresh(namespace)
        eventually(lambda: greeting() == "again", "the second commit to be synced")
        eventually(lambda: argocd.application(namespace)["status"]["sync"]["status"] == "Synced", "Synced")
        assert argocd.api(f"applications/{namespace}")["status"]["health"]["status"] == "Healthy"
    finally:
        cluster.client.delete(ARGO, "Application", namespace, NAMESPACE)


def test_argo_cd_lists_the_cluster_by_its_declared_name(argocd: ArgoCD, cluster: Cluster) -> None:
    names = {
        registered_cluster["name"]: registered_cluster["server"]
        for registered_cluster in argocd.api("clusters")["items"]
    }
    assert names["eu-1"] == cluster.server
