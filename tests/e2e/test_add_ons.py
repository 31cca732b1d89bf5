"""What lies in argo/add-ons is fit for a real API server, under the strictest Pod Security."""

from __future__ import annotations

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


def built(folder: Path) -> list[Object]:
    done = subprocess.run([programs.program("kubectl"), "kustomize", folder], capture_output=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("folder", sorted(ADD_ONS.iterdir()), ids=lambda folder: folder.name)
def test_it_is_accepted(folder: Path, cluster: Cluster, namespace: str) -> None:
    client: Client = cluster.client
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    client.patch("v1", "Namespace", namespace, restricted)
    kinds = []
    for one in built(folder):
        kinds.append(one["kind"])
        if one["kind"] == "Namespace":
            assert one["metadata"]["labels"].items() >= restricted["metadata"]["labels"].items()
            continue
        one["metadata"]["namespace"] = namespace
        client.apply(one, dry_run=True)
        if one["kind"] == "Deployment":  # Pod Security refuses pods, and only warns of a Deployment
            template = one["spec"]["template"]
            pod = {"apiVersion": "v1", "kind": "Pod", **template}
            pod["metadata"] = {**template["metadata"], "name": "probe", "namespace": namespace}
            client.apply(pod, dry_run=True)
    assert "Deployment" in kinds


def test_what_the_publisher_is_told_is_what_it_takes() -> None:
    objects = {one["kind"]: one for one in built(ADD_ONS / "allot-run")}
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    options = [word for word in container["args"] if word.startswith("--")]
    from allotment.cli.run import command

    known = {option for parameter in command.params for option in parameter.opts}
    assert set(options) <= known
    variables = [name for name in objects["ConfigMap"]["data"] if name.startswith("ALLOT_")]
    assert variables
    assert {name.removeprefix("ALLOT_").lower() for name in variables} <= {one.name for one in command.params}
