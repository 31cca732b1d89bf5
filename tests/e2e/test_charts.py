"""The sample's add-ons against the charts that they pin: their values fit, and they bring no more than their files name.

Charts come from the Go modules of their projects, in the versions that the sample pins or, where a module is released apart from its
chart, in the nearest. Of k8s-device-plugin and dcgm-exporter no module is served: theirs are skipped, and
docs/operate/add-ons.md says so.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.conftest import PROJECT
from tests.controlplane import programs
from tests.controlplane.client import Client, Object, refusal
from tests.controlplane.cluster import Cluster
from tests.controlplane.fixtures import needs

pytestmark = pytest.mark.e2e
ADD_ONS = PROJECT / "platform/add-ons"
NOT_SERVED = "no Go module has its chart, and the test bed reaches no chart repository"


class Chart(NamedTuple):
    """A chart in a module: its checksum as Go writes it, the folder, charts that it needs, and what a release fills in."""

    module: str
    checksum: str
    folder: str
    needs: tuple[str, ...] = ()
    filled: tuple[tuple[str, str], ...] = ()


ROOK = ("github.com/rook/rook@v1.20.6", "h1:2+Qe/CLcZ2WrXf9Vhf21JwZQqN8cVXPQskZzHf3KLjU=")
CHARTS = {
    "cert-manager": Chart(
        "github.com/cert-manager/cert-manager@v1.21.2",
        "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        "deploy/charts/cert-manager",
    ),
    "envoy-gateway": Chart(
        "github.com/envoyproxy/gateway@v1.9.1",
        "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY=",
        "charts/gateway-helm",
        filled=(
            ("${GatewayImage}", "docker.io/envoyproxy/gateway:v1.9.1"),
            ("${GatewayImagePullPolicy}", "IfNotPresent"),
        ),
    ),
    "external-secrets": Chart(
        "github.com/external-secrets/external-secrets@v1.3.2",
        "h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
        "deploy/charts/external-secrets",
    ),
    "karpenter": Chart(
        "github.com/aws/karpenter-provider-aws@v1.14.1",
        "h1:WGtIQTQcxpElYMdWfWuPwaF2+9muR+hYhPZsTtoY8Gs=",
        "charts/karpenter",
    ),
    "rook-ceph": Chart(*ROOK, "deploy/charts/rook-ceph", needs=("deploy/charts/library",)),
    "rook-ceph-cluster": Chart(*ROOK, "deploy/charts/rook-ceph-cluster", needs=("deploy/charts/library",)),
}


def declared(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((ADD_ONS / f"{name}.yaml").read_text())["spec"]
    return spec


def place_chart(name: str, folder: Path) -> Path:
    """Put a chart and those that it needs into a folder, with a version, as its release has one."""
    chart = CHARTS[name]
    module = programs.module_folder(chart.module, checksum=chart.checksum)
    here = folder / name
    shutil.copytree(module / chart.folder, here, copy_function=shutil.copyfile)
    for needed_path in chart.needs:
        shutil.copytree(module / needed_path, here / "charts" / Path(needed_path).name, copy_function=shutil.copyfile)
    if (here / "values.tmpl.yaml").exists():
        text = (here / "values.tmpl.yaml").read_text()
        for old, new in chart.filled:
            text = text.replace(old, new)
        (here / "values.yaml").write_text(text)
    about = yaml.safe_load((here / "Chart.yaml").read_text())
    dependencies = [
        dependency for dependency in about.pop("dependencies", []) if (here / "charts" / dependency["name"]).is_dir()
    ]
    about |= {"version": "1.0.0", **({"dependencies": dependencies} if dependencies else {})}
    (here / "Chart.yaml").write_text(yaml.safe_dump(about))
    (here / "Chart.lock").unlink(missing_ok=True)
    return here


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the charts, each in a folder of its own."""
    needs("helm")
    folder = tmp_path_factory.mktemp("charts")
    try:
        return {name: place_chart(name, folder) for name in CHARTS}
    except programs.NotBuilt as why:
        pytest.skip(str(why))


def rendered(name: str, chart: Path) -> list[Object]:
    """Return what the chart makes of our values. Helm holds them against values.schema.json, where the chart has one."""
    spec = declared(name)
    (values := chart.parent / f"{name}.yaml").write_text(yaml.safe_dump(spec.get("values", {})))
    command = [str(programs.program("helm")), "template", name, str(chart), "--namespace", spec["namespace"]]
    command += ["--values", str(values), "--include-crds", "--kube-version", "1.36.3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.load_all(done.stdout, yaml.CSafeLoader) if manifest]


def unknown(values: Any, known: Any, at: str = "") -> Iterator[str]:
    """Yield the values that a chart's values.yaml hasn't; what is open or empty there is anybody's."""
    if not isinstance(values, dict) or not isinstance(known, dict) or not known:
        return
    for key, value in values.items():
        if key not in known:
            yield f"{at}.{key}"
        else:
            yield from unknown(value, known[key], f"{at}.{key}")


def test_every_chart_of_the_sample_is_one_of_these_or_cannot_be_had() -> None:
    pinned = {path.stem for path in ADD_ONS.glob("*.yaml") if "chart" in declared(path.stem)}
    assert pinned - CHARTS.keys() == {"dcgm-exporter", "nvidia-device-plugin"}, NOT_SERVED


# What a chart takes without naming it in its values.yaml.
FREE = {
    "envoy-gateway": {".config.envoyGateway.provider.kubernetes"},  # all of an EnvoyGateway's fields
    "rook-ceph-cluster": {".cephClusterSpec.storage.deviceFilter"},  # all of a CephCluster's fields
}


@pytest.mark.parametrize("name", CHARTS)
def test_its_values_are_the_charts(name: str, charts: dict[str, Path]) -> None:
    known = yaml.safe_load((charts[name] / "values.yaml").read_text())
    assert set(unknown(declared(name).get("values", {}), known)) == FREE.get(name, set())


def test_envoy_gateway_deploys_proxies_beside_their_gateway(charts: dict[str, Path]) -> None:
    """The NetworkPolicies of tenants admit the Gateway's namespace alone."""
    objects = rendered("envoy-gateway", charts["envoy-gateway"])
    (config,) = (
        manifest["data"]["envoy-gateway.yaml"]
        for manifest in objects
        if manifest["kind"] == "ConfigMap" and "envoy-gateway.yaml" in manifest.get("data", {})
    )
    settings = yaml.safe_load(config)
    assert settings["provider"]["kubernetes"]["deploy"] == {"type": "GatewayNamespace"}
    assert settings["extensionApis"]["enableLua"] is True


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_brings_only_declared_kinds_and_makes_nobody_administrator(
    name: str, charts: dict[str, Path], cluster: Cluster
) -> None:
    spec, client = declared(name), cluster.client
    spaces = {None, spec["namespace"], *spec.get("otherNamespaces", ())}
    named = {
        (cluster_resource["group"], cluster_resource["kind"]) for cluster_resource in spec.get("clusterResources", ())
    }
    for manifest in rendered(name, charts[name]):
        group = manifest["apiVersion"].rpartition("/")[0]
        if is_namespaced(client, manifest):
            assert manifest["metadata"].get("namespace") in spaces
        else:
            assert (group, manifest["kind"]) in named
        assert manifest.get("roleRef", {}).get("name") != "cluster-admin"
        for rule in (manifest.get("rules") or ()) if manifest["kind"] == "ClusterRole" else ():
            assert not ("*" in rule.get("verbs", ()) and "*" in rule.get("resources", ()))


# Of no namespace, and of a kind that the test bed hasn't.
ELSEWHERE = {"VolumeSnapshotClass"}


def is_namespaced(client: Client, manifest: Object) -> bool:
    try:
        return bool(client._kind(manifest["apiVersion"], manifest["kind"]).namespaced)
    except Exception:  # a kind that comes with the chart
        return manifest["kind"] not in ELSEWHERE


@pytest.mark.parametrize("name", CHARTS)
def test_the_api_server_takes_what_it_brings(name: str, charts: dict[str, Path], cluster: Cluster) -> None:
    client, spec = cluster.client, declared(name)
    spaces = [
        namespace for namespace in (spec["namespace"], *spec.get("otherNamespaces", ())) if namespace != "kube-system"
    ]
    known = client.kinds()
    for space in spaces:
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    try:
        refusals = []
        for manifest in rendered(name, charts[name]):
            if (manifest["apiVersion"], manifest["kind"]) in known:
                if manifest["kind"] == "StorageClass":  # the test bed has its own of these names, which never change
                    manifest["metadata"]["name"] += "-checked"
                if is_namespaced(client, manifest):
                    manifest["metadata"].setdefault("namespace", spec["namespace"])
                if wrong := refusal(client.apply, manifest, dry_run=True):
                    refusals.append(f"{manifest['kind']} {manifest['metadata']['name']}: {wrong}")
        assert refusals == []
    finally:
        for space in spaces:
            client.delete("v1", "Namespace", space)
