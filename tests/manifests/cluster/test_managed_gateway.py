"""The Gateway that Allotment renders: its listeners, its certificate, its proxies, and an access log without secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DAY, Allot, edit, errors
from tests.support.gate_bed import BOUNDARIES

from allotment.isolation.gate import IsolationBroken, IsolationGate
from allotment.manifests.yaml_text import dump, load

FILE = "us-1/platform/cluster/managed-gateway.rendered.yaml"
CLUSTER = "clusters/us-1/cluster.yaml"
ISSUER = "    certificate:\n      issuer:\n        name: letsencrypt\n"


def render(allot: Allot, root: Path, out: Path) -> dict[str, Any]:
    """Return the objects of the managed Gateway by kind."""
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    return {manifest["kind"]: manifest for manifest in load((out / FILE).read_bytes())}


def test_a_cluster_with_a_gateway_of_its_own_has_no_managed_gateway(sample: Path, allot: Allot, tmp_path: Path) -> None:
    assert render(allot, sample, tmp_path / "out")
    assert (tmp_path / "out/eu-1/platform/cluster/gateway.rendered.yaml").exists()
    assert not (tmp_path / "out/eu-1/platform/cluster/managed-gateway.rendered.yaml").exists()


def test_a_certificate_comes_from_the_declared_issuer(sample: Path, allot: Allot, tmp_path: Path) -> None:
    manifests = render(allot, sample, tmp_path / "out")
    spec = manifests["Certificate"]["spec"]
    assert spec["dnsNames"] == ["*.us-1.gpu.northlight.example"]
    assert spec["issuerRef"] == {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "letsencrypt"}
    (https,) = (entry for entry in manifests["Gateway"]["spec"]["listeners"] if entry["protocol"] == "HTTPS")
    assert https["tls"]["certificateRefs"] == [{"group": "", "kind": "Secret", "name": spec["secretName"]}]


def test_a_certificate_of_the_platform_team_is_used_as_it_is(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, CLUSTER, ISSUER, "    certificate:\n      secretName: wildcard\n")
    manifests = render(allot, sample, tmp_path / "out")
    assert "Certificate" not in manifests
    (https,) = (entry for entry in manifests["Gateway"]["spec"]["listeners"] if entry["protocol"] == "HTTPS")
    assert https["tls"]["certificateRefs"][0]["name"] == "wildcard"


def test_settings_of_proxies_and_of_the_access_log(sample: Path, allot: Allot, tmp_path: Path) -> None:
    more = "    replicas: 5\n    proxyProtocol: true\n    accessLog:\n      retentionDays: 90\n"
    edit(sample, CLUSTER, ISSUER, ISSUER + more)
    manifests = render(allot, sample, tmp_path / "out")
    spec = manifests["EnvoyProxy"]["spec"]
    deployment = spec["provider"]["kubernetes"]["envoyDeployment"]
    assert deployment["replicas"] == 5
    assert deployment["pod"]["annotations"]["allotment.dev/access-log-retention-days"] == "90"
    (setting,) = spec["telemetry"]["accessLog"]["settings"]
    assert setting["format"]["json"]["retention_days"] == "90"
    assert manifests["ClientTrafficPolicy"]["spec"]["proxyProtocol"] == {"optional": False}


@pytest.mark.parametrize(
    ("portal_cluster", "selector"),
    [
        ("us-1", {"matchLabels": {"app.kubernetes.io/managed-by": "allotment"}}),
        ("eu-1", {"matchExpressions": [{"key": "allotment.dev/tenant", "operator": "Exists"}]}),
    ],
)
def test_the_listener_accepts_the_route_of_the_portal(
    portal_cluster: str, selector: dict[str, Any], sample: Path, allot: Allot, tmp_path: Path
) -> None:
    """This route is in the namespace of the Gateway, which is no tenant's."""
    path = sample / "platform/platform.yaml"
    path.write_text(f"{path.read_text(encoding='utf-8')}  portal:\n    cluster: {portal_cluster}\n", encoding="utf-8")
    manifests = render(allot, sample, tmp_path / "out")
    (https,) = (entry for entry in manifests["Gateway"]["spec"]["listeners"] if entry["protocol"] == "HTTPS")
    assert https["allowedRoutes"]["namespaces"] == {"from": "Selector", "selector": selector}
    assert selector.get("matchLabels", {}).items() <= manifests["Namespace"]["metadata"]["labels"].items()


def test_a_gateway_shares_its_namespace_with_no_add_on(sample: Path, allot: Allot) -> None:
    edit(sample, CLUSTER, "namespace: edge\n    sectionName", "namespace: cert-manager\n    sectionName")
    edit(sample, CLUSTER, "name: oidc\n      namespace: edge", "name: oidc\n      namespace: cert-manager")
    assert errors(allot("validate", "--repo", sample, "--as-of", DAY)) == [
        f"{CLUSTER}:13:16: spec.gateway.namespace: cert-manager is a namespace of the add-on cert-manager, whose objects Envoy"
        " Gateway could overwrite: write a namespace for the managed Gateway alone, such as edge [gateway-namespace]"
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda gateway: gateway["spec"]["listeners"][1]["allowedRoutes"]["namespaces"].update({"from": "All"}),
        lambda gateway: gateway["spec"]["listeners"].append({"name": "other", "port": 8080, "protocol": "HTTP"}),
        lambda gateway: gateway["metadata"].update(namespace="kube-system"),
    ],
    ids=["routes of everybody", "another listener", "another namespace"],
)
def test_the_gate_refuses_another_gateway(
    change: Callable[[Any], object], sample: Path, allot: Allot, tmp_path: Path
) -> None:
    manifests = render(allot, sample, tmp_path / "out")
    gate = IsolationGate(BOUNDARIES)
    gate.check(FILE, dump(manifests.values()))
    change(manifests["Gateway"])
    with pytest.raises(IsolationBroken, match="Gateway managed-gateway differs from its declaration"):
        gate.check(FILE, dump(manifests.values()))
