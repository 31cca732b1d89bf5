"""Add-ons in a real Argo CD: those of a later wave come after those of an earlier one are up, a newer commit mends one that isn't, and
each brings only what its file names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.dynamic.exceptions import NotFoundError

from tests.conftest import PROJECT, ROOTS
from tests.controlplane.argocd import ARGO, NAMESPACE, ArgoCD
from tests.controlplane.cluster import Cluster
from tests.controlplane.fixtures import GitRemote
from tests.e2e.conftest import Render
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
ELSEWHERE = "https://git.example/add-ons"
OURS = "https://github.com/northlight-example/gpus"
ALL = "allotment--add-ons--eu-1"
ADD_ON = """apiVersion: allotment.dev/v1alpha1
kind: AddOn
metadata: {{name: {name}}}
spec:
  manifests: {{repoURL: "{url}", path: {path}, revision: "{commit}"}}
  namespace: {name}-system
  clusters: [eu-1]
  wave: {wave}
  clusterResources: {kinds}
"""
CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.add-ons.example}
spec:
  group: add-ons.example
  scope: Namespaced
  names: {kind: Greeting, plural: greetings, singular: greeting}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
"""
GREETING = "apiVersion: add-ons.example/v1\nkind: Greeting\nmetadata: {name: hello}\ntext: hello\n"
ADMINISTRATOR = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: add-ons-example}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: greedy-system}]
"""
FILES = {"kinds/crd.yaml": CRD, "greetings/hello.yaml": GREETING, "greedy/binding.yaml": ADMINISTRATOR}
RETRY = 'maxDuration: "3m0s"'  # the longest pause before Argo CD repeats a failed sync: each failure doubles the pause
SHORT_RETRY = "maxDuration: 10s"
KINDS = "[{group: apiextensions.k8s.io, kind: CustomResourceDefinition}]"


class Bed:
    """A platform with three add-ons, whose sources and rendered branch lie in one repository."""

    def __init__(self, root: Path, remote: GitRemote, render: Render) -> None:
        self.remote, self.render = remote, render
        self.source, self.work = root / "source", root / "work"
        for name in ROOTS:
            shutil.copytree(PROJECT / name, self.source / name)
        shutil.rmtree(self.source / "platform/add-ons")
        (self.source / "platform/add-ons").mkdir()
        self.work.mkdir()
        self._git("clone", "--quiet", remote.url, ".")
        self._git("checkout", "-q", "-B", "elsewhere")
        for path, text in FILES.items():
            (self.work / path).parent.mkdir(exist_ok=True)
            (self.work / path).write_text(text)
        self.commit = self._pushed("elsewhere")
        self._git("checkout", "-q", "--orphan", "rendered/eu-1")

    def declare(self, name: str, path: str, wave: int, kinds: str = "[]") -> None:
        text = ADD_ON.format(name=name, url=ELSEWHERE, path=path, commit=self.commit, wave=wave, kinds=kinds)
        (self.source / f"platform/add-ons/{name}.yaml").write_text(text)

    def publish(self) -> list[Any]:
        """Publish what is declared; return what the platform's own file of it holds."""
        tree = self.render(self.source, "eu-1")
        for part in ("control", "platform"):
            shutil.rmtree(self.work / part, ignore_errors=True)
        for file in [tree / "control/platform.rendered.yaml", *tree.glob("*/add-ons/*")]:
            target = self.work / file.relative_to(tree)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_text().replace(ELSEWHERE, self.remote.url).replace(OURS, self.remote.url)
            target.write_text(text.replace(RETRY, SHORT_RETRY))
        assert SHORT_RETRY in (self.work / "control/platform.rendered.yaml").read_text()
        self._pushed("rendered/eu-1")
        return list(yaml.safe_load_all((self.work / "control/platform.rendered.yaml").read_text()))

    def _pushed(self, branch: str) -> str:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", branch)
        self._git("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        identity = ["-c", "user.name=ada", "-c", "user.email=ada@northlight.example"]
        command = ["git", *identity, *words]
        return subprocess.run(command, cwd=self.work, check=True, capture_output=True, text=True, env=os.environ).stdout


@pytest.fixture
def bed(tmp_path: Path, git_remote: GitRemote, render: Render, cluster: Cluster, argocd: ArgoCD) -> Iterator[Bed]:
    test_bed = Bed(tmp_path, git_remote, render)
    client = cluster.client
    once = yaml.safe_load_all((PROJECT / "argo/bootstrap.yaml").read_text(encoding="utf-8"))
    client.apply(*(manifest for manifest in once if manifest["metadata"]["name"] == "argocd-cm"))
    yield test_bed
    for kind in ("Application", "AppProject"):
        for live_object in client.list(
            ARGO, kind, namespace=NAMESPACE, labels="app.kubernetes.io/managed-by=allotment"
        ):
            client.delete(ARGO, kind, live_object["metadata"]["name"], NAMESPACE)
    client.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "greetings.add-ons.example")
    for name in ("kinds", "greetings", "greedy"):
        client.delete("v1", "Namespace", f"{name}-system")


def begin(bed: Bed, cluster: Cluster) -> None:
    wanted = (ALL, "allotment--platform--eu-1", "allotment--namespaces-of-add-ons--eu-1")
    cluster.client.apply(*(manifest for manifest in bed.publish() if manifest["metadata"]["name"] in wanted))


def is_there(cluster: Cluster, name: str) -> bool:
    try:
        cluster.client.get(ARGO, "Application", f"allotment--add-on-{name}--eu-1", NAMESPACE)
    except NotFoundError:
        return False
    return True


def state(cluster: Cluster, name: str) -> tuple[str, str]:
    status = cluster.client.get(ARGO, "Application", name, NAMESPACE).get("status", {})
    return status.get("sync", {}).get("status", ""), status.get("health", {}).get("status", "")


def test_a_later_wave_waits_and_a_newer_commit_mends_the_earlier(bed: Bed, cluster: Cluster, argocd: ArgoCD) -> None:
    bed.declare("kinds", "nowhere", 0, KINDS)
    bed.declare("greetings", "greetings", 1)
    begin(bed, cluster)
    eventually(lambda: is_there(cluster, "kinds"), "the first to be there", 120)
    eventually(lambda: state(cluster, ALL)[1] == "Degraded", "the first to be seen as not to be had", 120)
    assert not is_there(cluster, "greetings")

    bed.declare("kinds", "kinds", 0, KINDS)
    bed.publish()
    argocd.refresh(ALL)
    kinds = "allotment--add-on-kinds--eu-1"
    eventually(lambda: state(cluster, kinds)[0] == "Synced", "the first to be had", 120)
    argocd.refresh(kinds, repeated=True)  # that a CRD is established Argo CD sees at its next look, within two minutes
    eventually(lambda: state(cluster, ALL) == ("Synced", "Healthy"), "all of them to be up", 300)
    assert cluster.client.get("add-ons.example/v1", "Greeting", "hello", "greetings-system")["text"] == "hello"
    assert state(cluster, "allotment--add-on-greetings--eu-1") == ("Synced", "Healthy")


def test_an_add_on_brings_only_the_kinds_in_its_file(bed: Bed, cluster: Cluster) -> None:
    bed.declare("greedy", "greedy", 0)
    begin(bed, cluster)

    def refused() -> bool:
        application = cluster.client.get(ARGO, "Application", "allotment--add-on-greedy--eu-1", NAMESPACE)
        return "is not permitted in project" in str(application.get("status", {}).get("operationState", {}))

    eventually(refused, "Argo CD to refuse it", 120)
    with pytest.raises(NotFoundError):
        cluster.client.get("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "add-ons-example")
