"""What lies in argo/add-ons is fit for a real API server, under the strictest Pod Security."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import PROJECT
from tests.controlplane import programs
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import Cluster

pytestmark = pytest.mark.e2e
ADD_ONS = PROJECT / "argo/add-ons"
PROGRAMS = sorted(path.parent for path in ADD_ONS.glob("*/deployment.yaml"))  # allot-alerts needs a CRD


def built(folder: Path) -> list[Object]:
    done = subprocess.run([programs.program("kubectl"), "kustomize", folder], capture_output=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_the_api_server_accepts_each_add_on(folder: Path, cluster: Cluster, namespace: str) -> None:
    client: Client = cluster.client
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    client.patch("v1", "Namespace", namespace, restricted)
    kinds = []
    for manifest in built(folder):
        kinds.append(manifest["kind"])
        if manifest["kind"] == "Namespace":
            assert manifest["metadata"]["labels"].items() >= restricted["metadata"]["labels"].items()
            continue
        if not manifest["kind"].startswith("Cluster"):
            manifest["metadata"]["namespace"] = namespace
        client.apply(manifest, dry_run=manifest["kind"] != "ServiceAccount")  # a pod is refused without its account
        if manifest["kind"] == "Deployment":  # Pod Security refuses pods, and only warns of a Deployment
            template = manifest["spec"]["template"]
            pod = {"apiVersion": "v1", "kind": "Pod", **template}
            pod["metadata"] = {**template["metadata"], "name": "probe", "namespace": namespace}
            client.apply(pod, dry_run=True)
    assert "Deployment" in kinds


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_only_a_digest_of_ones_own_makes_an_image_that_can_be_pulled(folder: Path, tmp_path: Path) -> None:
    def image(**overrides: str) -> str:
        images = [{"name": "registry.example/allotment", "newName": "registry.acme.example/allotment", **overrides}]
        own = {"resources": [os.path.relpath(folder, tmp_path.resolve())], "images": images}
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
        (deployment,) = (manifest for manifest in built(tmp_path) if manifest["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    digest = "sha256:" + 64 * "a"
    assert image(digest=digest) == f"registry.acme.example/allotment@{digest}"
    assert image() == f"registry.acme.example/allotment@sha256:{64 * '0'}"


@pytest.mark.parametrize("folder", ["run", "report"])
def test_replicas_may_use_the_lease_that_they_are_told(folder: str) -> None:
    """Kustomize gives the generated ConfigMap another name, and puts this name also into rules that have the old name."""
    objects = list(built(ADD_ONS / f"allot-{folder}"))
    (deployment,) = (manifest for manifest in objects if manifest["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    lease = container["args"][container["args"].index("--lease") + 1].partition("/")[2]
    rules = [rule for manifest in objects if manifest["kind"] == "Role" for rule in manifest["rules"]]
    named = [rule for rule in rules if rule["resources"] == ["leases"] and "update" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in named] == [[lease]]
