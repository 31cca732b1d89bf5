"""The policies of the Gateway's listener: limits where they are declared, and one login for all hosts with a callback host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, PUBLIC_INSTANCE, Allot, edit, errors

from allotment.manifests.yaml_text import load

CLUSTER = "clusters/eu-1/cluster.yaml"
HOST = "login.eu-1.gpu.northlight.example"
WEBUI = "eu-1/tenants/solo-ada/compute/webui.rendered.yaml"


def with_callback_host(root: Path) -> None:
    edit(root, CLUSTER, "    clientID: allotment\n", f"    clientID: allotment\n    callbackHost: {HOST}\n")


def render(allot: Allot, root: Path, out: Path, file: str) -> dict[str, Any]:
    """Return the rendered objects of a file by kind."""
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    return {manifest["kind"]: manifest for manifest in load((out / file).read_bytes())}


def test_without_declared_limits_there_is_no_policy_of_limits(sample: Path, allot: Allot, tmp_path: Path) -> None:
    manifests = render(allot, sample, tmp_path / "out", "eu-1/platform/cluster/gateway.rendered.yaml")
    assert sorted(manifests) == ["EnvoyExtensionPolicy", "SecurityPolicy"]


def test_the_time_of_a_request_is_in_the_route(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, CLUSTER, "    sectionName: https\n", "    sectionName: https\n    timeouts:\n      request: 90m\n")
    (rule,) = render(allot, sample, tmp_path / "out", WEBUI)["HTTPRoute"]["spec"]["rules"]
    assert rule["timeouts"] == {"request": "1h30m"}


def test_with_a_callback_host_the_listener_has_the_login(sample: Path, allot: Allot, tmp_path: Path) -> None:
    with_callback_host(sample)
    webui = render(allot, sample, tmp_path / "out", WEBUI)["SecurityPolicy"]["spec"]
    listener = load((tmp_path / "out/eu-1/platform/cluster/gateway.rendered.yaml").read_bytes())
    closed = next(manifest["spec"] for manifest in listener if manifest["kind"] == "SecurityPolicy")
    route = next(manifest["spec"] for manifest in listener if manifest["kind"] == "HTTPRoute")
    assert webui.keys() == {"targetRefs", "mergeType", "jwt", "authorization"}
    assert webui["authorization"]["defaultAction"] == "Deny" and webui["authorization"]["rules"]
    assert closed["oidc"]["redirectURL"] == f"https://{HOST}/oauth2/callback"
    assert closed["oidc"]["cookieDomain"] == "eu-1.gpu.northlight.example"
    assert webui["jwt"]["providers"][0]["extractFrom"]["cookies"] == [closed["oidc"]["cookieNames"]["idToken"]]
    assert closed["authorization"] == {"defaultAction": "Deny"}
    assert route["hostnames"] == [HOST]


def test_no_port_is_public_where_a_login_counts_for_all_hosts(sample: Path, allot: Allot) -> None:
    (sample / "tenants/ml-orbit/instances/demo.yaml").write_text(PUBLIC_INSTANCE, encoding="utf-8")
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 0
    with_callback_host(sample)
    assert errors(allot("validate", "--repo", sample, "--as-of", DAY)) == [
        "tenants/ml-orbit/instances/demo.yaml:13:19: spec.container.ports[0].exposure: cluster eu-1 allows no Public port,"
        f" because a login counts for all its hosts (oidc.callbackHost {HOST}): write Members [limit]"
    ]
