"""With a client of `allot login`, the policies of a cluster admit programs with a token, and no container receives the token."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import DAY, PUBLIC_INSTANCE, Allot, edit
from tests.support.gate_bed import BOUNDARIES, WEBUI, entitled, of
from tests.support.rendered_tree import sample_tree

from allotment.isolation.gate import IsolationGate
from allotment.manifests import login
from allotment.manifests.yaml_text import dump, load
from allotment.problems import IsolationBroken

__all__ = ["sample_tree"]
CLUSTER = "clusters/eu-1/cluster.yaml"
CLIENT = "    clientID: allotment\n"
REMOVE = [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["Authorization"]}}]
HEADERS = [{"name": "Authorization", "valuePrefix": "Bearer "}]
HOST = "login.eu-1.gpu.northlight.example"
Objects = dict[tuple[str, str], dict[str, Any]]


def declare(root: Path, further: str = "") -> None:
    edit(root, CLUSTER, CLIENT, f"{CLIENT}    cliClientID: allotment-cli\n{further}")


def render(allot: Allot, root: Path, out: Path) -> Objects:
    """Return the specs of all routes and policies of eu-1, by kind and by namespace and name."""
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    return {
        (manifest["kind"], f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"): manifest["spec"]
        for path in sorted((out / "eu-1").rglob("*.rendered.yaml"))
        for manifest in load(path.read_bytes())
        if manifest["kind"] in ("HTTPRoute", "SecurityPolicy")
    }


def test_without_the_client_no_policy_mentions_tokens_of_programs(sample: Path, allot: Allot, tmp_path: Path) -> None:
    text = json.dumps(list(render(allot, sample, tmp_path / "out").values()))
    for word in ("passThroughAuthHeader", "Authorization", "Bearer", "filters"):
        assert word not in text


def test_every_members_route_accepts_tokens_and_removes_them(sample: Path, allot: Allot, tmp_path: Path) -> None:
    (sample / "tenants/ml-orbit/instances/demo.yaml").write_text(PUBLIC_INSTANCE, encoding="utf-8")
    declare(sample)
    rendered = render(allot, sample, tmp_path / "out")
    exposures = set()
    for (kind, name), policy in rendered.items():
        if kind != "SecurityPolicy" or name == "edge/allotment-closed":
            continue
        (rule,) = rendered["HTTPRoute", name]["rules"]
        exposures.add("oidc" in policy)
        if "oidc" not in policy:
            assert "filters" not in rule and "jwt" not in policy
            continue
        assert policy["oidc"]["passThroughAuthHeader"] is True
        (provider,) = policy["jwt"]["providers"]
        assert provider["audiences"] == ["allotment", "allotment-cli"]
        assert provider["extractFrom"] == {"cookies": ["__Host-allotment-id-token"], "headers": HEADERS}
        assert policy["authorization"]["defaultAction"] == "Deny"
        assert rule["filters"] == REMOVE
    assert exposures == {True, False}
    assert rendered["SecurityPolicy", "edge/allotment-closed"]["authorization"] == {"defaultAction": "Deny"}


def test_with_a_callback_host_the_listener_checks_tokens_too(sample: Path, allot: Allot, tmp_path: Path) -> None:
    """Envoy Gateway rejects a policy that skips the login of requests with a token, but doesn't check the token."""
    declare(sample, f"    callbackHost: {HOST}\n")
    rendered = render(allot, sample, tmp_path / "out")
    closed = rendered["SecurityPolicy", "edge/allotment-closed"]
    assert closed["oidc"]["passThroughAuthHeader"] is True and closed["authorization"] == {"defaultAction": "Deny"}
    assert closed["jwt"]["providers"][0]["extractFrom"] == {"cookies": ["allotment-id-token"], "headers": HEADERS}
    policy = rendered["SecurityPolicy", "t-solo-ada/webui"]
    assert "oidc" not in policy and policy["jwt"] == closed["jwt"]
    assert rendered["HTTPRoute", "t-solo-ada/webui"]["rules"][0]["filters"] == REMOVE


@pytest.mark.parametrize("is_declared", [True, False])
def test_the_gate_refuses_a_route_that_passes_tokens_on(
    is_declared: bool, sample: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if is_declared:
        declare(sample)
    filters: list[Any] = [] if is_declared else REMOVE
    monkeypatch.setattr(login, "build_route_filters", lambda cluster: filters)
    result = allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY)
    assert result.code != 0
    assert "the isolation gate rejects its manifests" in result.err
    assert ("must remove the header Authorization" in result.err) is is_declared


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("SecurityPolicy", ("oidc",), {"passThroughAuthHeader": True}),
        ("SecurityPolicy", ("jwt", "providers", 0, "extractFrom"), {"headers": HEADERS}),
        ("SecurityPolicy", ("jwt", "providers", 0), {"audiences": ["allotment", "allotment-cli"]}),
        ("HTTPRoute", ("rules", 0), {"filters": REMOVE}),
    ],
)
def test_the_gate_refuses_tokens_that_the_cluster_does_not_admit(
    kind: str, path: tuple[Any, ...], value: dict[str, Any], sample_tree: dict[str, bytes]
) -> None:
    objects = copy.deepcopy(load(sample_tree[WEBUI]))
    place = of(objects, kind)["spec"]
    for key in path:
        place = place[key]
    place.update(value)
    with pytest.raises(IsolationBroken):
        IsolationGate(BOUNDARIES).check(WEBUI, dump(objects), entitled(WEBUI))


def test_a_published_route_has_no_other_filter(sample_tree: dict[str, bytes]) -> None:
    """An older manifest of a tenant may still remove tokens, although the cluster no longer admits programs."""
    objects = copy.deepcopy(load(sample_tree[WEBUI]))
    rule = of(objects, "HTTPRoute")["spec"]["rules"][0]
    rule["filters"] = REMOVE
    gate = IsolationGate(BOUNDARIES)
    gate.check(WEBUI, dump(objects), published=True)
    rule["filters"] = [
        *REMOVE,
        {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "evil", "port": 80}}},
    ]
    with pytest.raises(IsolationBroken):
        gate.check(WEBUI, dump(objects), published=True)
