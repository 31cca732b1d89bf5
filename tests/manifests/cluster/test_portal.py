"""The routes of the portal: a login that passes the visitor's groups, and public pages if the platform declares them."""

from __future__ import annotations

import base64
import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import DAY, PROJECT, Allot, edit, errors
from tests.manifests.cluster.envoy import CREDENTIAL, Envoy, token
from tests.support.rendered_tree import misfits

from allotment.adapters.folder_source import FolderSource
from allotment.manifests.cluster.portal import (
    CLAIM_HEADERS,
    CREDENTIAL_HEADER,
    GROUPS_HEADER,
    PROTECTED_PATHS,
    SUBJECT_HEADER,
    build_injection,
)
from allotment.manifests.yaml_text import dump, load
from allotment.problems import IsolationBroken
from allotment.services.check.repository_check import check_repository
from allotment.services.publish.renderer import build_gate

FILE = "eu-1/platform/cluster/portal.rendered.yaml"
HOST = "portal.eu-1.gpu.northlight.example"


def declare(root: Path, more: str = "") -> None:
    path = root / "platform/platform.yaml"
    text = f"  portal:\n    cluster: eu-1\n{more}"
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def render(allot: Allot, root: Path, out: Path) -> dict[tuple[str, str], Any]:
    """Return the specs of the portal's objects by kind and name. `allot render` also runs the isolation gate."""
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    assert not (out / "us-1/platform/cluster/portal.rendered.yaml").exists()
    objects = load((out / FILE).read_bytes())
    assert {each["metadata"]["namespace"] for each in objects} == {"edge"}
    return {(each["kind"], each["metadata"]["name"]): each["spec"] for each in objects}


def list_paths(route: dict[str, Any]) -> list[str]:
    (rule,) = route["rules"]
    return [match["path"]["value"] for match in rule["matches"]]


def test_without_a_declaration_there_is_no_route(sample: Path, allot: Allot, tmp_path: Path) -> None:
    assert allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY).code == 0
    assert not (tmp_path / "out" / FILE).exists()


def test_by_default_all_pages_need_a_login(sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare(sample)
    objects = render(allot, sample, tmp_path / "out")
    assert set(objects) == {("HTTPRoute", "allot-portal"), ("SecurityPolicy", "allot-portal")}
    route, policy = objects["HTTPRoute", "allot-portal"], objects["SecurityPolicy", "allot-portal"]
    assert (route["hostnames"], list_paths(route)) == ([HOST], ["/"])
    assert policy["targetRefs"] == [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "allot-portal"}]
    assert policy["oidc"]["redirectURL"] == f"https://{HOST}/oauth2/callback"
    (provider,) = policy["jwt"]["providers"]
    assert {each["header"]: each["claim"] for each in provider["claimToHeaders"]} == CLAIM_HEADERS
    assert provider["extractFrom"]["cookies"] == [policy["oidc"]["cookieNames"]["idToken"]]


def test_public_pages_have_a_route_without_login(sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare(sample, "    publicPages: Public\n    groups:\n      - platform-team\n")
    objects = render(allot, sample, tmp_path / "out")
    assert list_paths(objects["HTTPRoute", "allot-portal"]) == list(PROTECTED_PATHS)
    public = objects["HTTPRoute", "allot-portal-public"]
    assert list_paths(public) == ["/"]
    (rule,) = public["rules"]
    (remove,) = rule["filters"]
    assert set(remove["requestHeaderModifier"]["remove"]) == {SUBJECT_HEADER, GROUPS_HEADER, CREDENTIAL_HEADER}
    policy = objects["SecurityPolicy", "allot-portal-public"]
    assert policy["authorization"] == {"defaultAction": "Allow"}
    assert not policy.keys() & {"oidc", "jwt"}


@pytest.mark.parametrize("readers", ["Login", "Public"])
def test_only_requests_with_a_login_get_the_credential(
    readers: str, sample: Path, allot: Allot, tmp_path: Path
) -> None:
    declare(sample, f"    publicPages: {readers}\n    proxySecretName: portal-proxy\n")
    objects = render(allot, sample, tmp_path / "out")
    secret = {"group": "", "kind": "Secret", "name": "portal-proxy"}
    injection = {"overwrite": True, "header": "x-portal-credential", "credential": {"valueRef": secret}}
    assert objects["HTTPRouteFilter", "allot-portal"] == {"credentialInjection": injection}
    reference = {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": "allot-portal"}
    extension = {"type": "ExtensionRef", "extensionRef": reference}
    filters_by_route = {
        name: spec["rules"][0].get("filters", []) for (kind, name), spec in objects.items() if kind == "HTTPRoute"
    }
    assert [name for name, filters in filters_by_route.items() if extension in filters] == ["allot-portal"]
    assert len(filters_by_route) == (1 if readers == "Login" else 2)


def test_the_objects_of_the_credential_fit_their_schemas(sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare(sample, "    publicPages: Public\n    proxySecretName: portal-proxy\n")
    render(allot, sample, tmp_path / "out")
    manifests = load((tmp_path / "out" / FILE).read_bytes())
    assert "HTTPRouteFilter" in {manifest["kind"] for manifest in manifests}
    assert [problem for manifest in manifests for problem in misfits(manifest)] == []


@pytest.mark.parametrize("change", [{"overwrite": False}, {"header": "x-other"}, {"credential": {}}])
def test_the_gate_refuses_another_injection(change: dict[str, Any], sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare(sample, "    proxySecretName: portal-proxy\n")
    render(allot, sample, tmp_path / "out")
    manifests = load((tmp_path / "out" / FILE).read_bytes())
    gate = build_gate(check_repository(FolderSource(sample), datetime.date.fromisoformat(DAY)).catalog)
    gate.check(FILE, dump(manifests))
    (route_filter,) = (manifest for manifest in manifests if manifest["kind"] == "HTTPRouteFilter")
    route_filter["spec"]["credentialInjection"] |= change
    with pytest.raises(IsolationBroken, match="HTTPRouteFilter portal differs from its declaration"):
        gate.check(FILE, dump(manifests))


def test_with_a_callback_host_the_listener_has_the_login(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(
        sample,
        "clusters/eu-1/cluster.yaml",
        "    scopes:\n",
        "    callbackHost: login.eu-1.gpu.northlight.example\n    scopes:\n",
    )
    declare(sample)
    policy = render(allot, sample, tmp_path / "out")["SecurityPolicy", "allot-portal"]
    assert policy["mergeType"] == "StrategicMerge"
    assert "oidc" not in policy
    assert policy["jwt"]["providers"][0]["claimToHeaders"]


def test_the_route_leads_to_the_service_of_the_add_on(sample: Path, allot: Allot, tmp_path: Path) -> None:
    declare(sample)
    (rule,) = render(allot, sample, tmp_path / "out")["HTTPRoute", "allot-portal"]["rules"]
    (backend,) = rule["backendRefs"]
    folder = PROJECT / "argo/add-ons/allot-portal"
    service, grant, kustomization, policy = (
        yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in ("service", "reference-grant", "kustomization", "network-policy")
    )
    assert (backend["name"], backend["namespace"]) == (service["metadata"]["name"], kustomization["namespace"])
    assert backend["port"] in [port["port"] for port in service["spec"]["ports"] if port["name"] == "pages"]
    assert grant["spec"]["to"] == [{"group": "", "kind": "Service", "name": backend["name"]}]
    assert grant["spec"]["from"][0]["namespace"] == "edge"
    (pages,) = [rule for rule in policy["spec"]["ingress"] if any(port["port"] == "pages" for port in rule["ports"])]
    (proxies,) = pages["from"]
    owner = {f"gateway.envoyproxy.io/owning-gateway-{key}": "edge" for key in ("name", "namespace")}
    assert proxies["podSelector"] == {"matchLabels": owner}, "the portal believes the headers of the proxies alone"


def test_the_cluster_must_be_declared(sample: Path, allot: Allot) -> None:
    declare(sample)
    edit(sample, "platform/platform.yaml", "    cluster: eu-1", "    cluster: eu-9")
    (line,) = errors(allot("validate", "--repo", sample, "--as-of", DAY))
    assert "spec.portal.cluster: no Cluster is named 'eu-9'" in line


def test_the_host_is_used_for_nothing_else(sample: Path, allot: Allot) -> None:
    declare(sample)
    edit(sample, "clusters/eu-1/cluster.yaml", "    scopes:\n", f"    callbackHost: {HOST}\n    scopes:\n")
    (line,) = errors(allot("validate", "--repo", sample, "--as-of", DAY))
    assert f"spec.oidc.callbackHost: {HOST} is the host of the portal: write another host [portal]" in line


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Envoy(tmp_path_factory.mktemp("envoy"), CLAIM_HEADERS, build_injection("portal-proxy")) as envoy:
        yield envoy


def encode(groups: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(groups, separators=(",", ":")).encode()).decode()


@pytest.mark.process
@pytest.mark.parametrize(
    ("claims", "headers"),
    [
        ({"sub": "00u1ada", "groups": ["a b", "c"]}, ("00u1ada", ["a b", "c"])),
        ({"sub": "00u1ada"}, ("00u1ada", None)),
    ],
)
def test_envoy_sends_the_claims_and_the_credential_instead_of_forged_headers(
    envoy: Envoy, claims: dict[str, Any], headers: tuple[str, list[str] | None]
) -> None:
    forged = {SUBJECT_HEADER: "root", GROUPS_HEADER: encode(["platform-team"]), CREDENTIAL_HEADER: "forged"}
    subject, groups = headers
    for more in ({}, forged):
        received = envoy.get(token(envoy.key, **claims), more)
        assert received.get(SUBJECT_HEADER) == subject
        assert received[CREDENTIAL_HEADER] == CREDENTIAL
        assert received.get(GROUPS_HEADER) == (encode(groups) if groups is not None else None)


def test_envoy_refuses_a_request_without_a_token(envoy: Envoy) -> None:
    assert envoy.get("", {SUBJECT_HEADER: "root"}) == {}
