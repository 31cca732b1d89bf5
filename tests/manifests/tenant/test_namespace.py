"""What a tenant's namespace lets out: the internet, and none of the ranges behind which the platform lies."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DAY, PROJECT, Allot, edit

from allotment.manifests.yaml_text import load
from allotment.programs.addresses import is_public

GOLDEN = PROJECT / "tests/manifests/golden/eu-1/control/namespaces/s/solo-ada.rendered.yaml"


def blocks(file: Path = GOLDEN) -> list[dict[str, Any]]:
    policy = next(manifest for manifest in load(file.read_bytes()) if manifest["metadata"]["name"] == "allow-out")
    rules = [rule for rule in policy["spec"]["egress"] if "ports" not in rule]
    return [to["ipBlock"] for rule in rules for to in rule["to"] if "ipBlock" in to]


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block["cidr"])
def test_excepted_ranges_lie_within_their_block_and_contain_no_mapped_ipv4(block: dict[str, Any]) -> None:
    whole = ip_network(block["cidr"])
    for text in block["except"]:
        part = ip_network(text)
        assert part.subnet_of(whole) and part != whole, text
        mapped = getattr(part.network_address, "ipv4_mapped", None)
        assert mapped is None, f"{text}: Go reads an IPv4-mapped address as IPv4, and the API server refuses it"


@pytest.mark.parametrize(
    "address",
    "169.254.169.254 10.0.0.1 172.16.0.1 192.168.0.1 100.100.100.200 127.0.0.1 ::1 ::ffff:169.254.169.254 fd00:ec2::254 fe80::1"
    " 168.63.129.16 192.0.0.192 192.88.99.1 2001::1 2001:20::1 2002:a00:1::1 3fff::1 64:ff9b::a00:1 4000::1 fec0::1 ff02::1".split(),
)
def test_addresses_behind_which_the_platform_lies_are_not_let_out(address: str) -> None:
    wanted = ip_address(address)
    assert not let_out(wanted)


def let_out(address: IPv4Address | IPv6Address) -> bool:
    return any(
        address in ip_network(block["cidr"]) and not any(address in ip_network(part) for part in block["except"])
        for block in blocks()
    )


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_the_namespace_and_preparations_agree_on_internet_addresses(address: IPv4Address | IPv6Address) -> None:
    if let_out(address):
        assert is_public(str(address))
    elif is_public(str(address)):
        assert isinstance(address, IPv6Address), "one that holds an IPv4 address, which is let out by that alone"


def test_a_cluster_denies_ranges_of_its_own(sample: Path, allot: Allot, tmp_path: Path) -> None:
    own = "    denied:\n      - 198.51.100.0/24\n      - 8.8.4.0/24\n      - 2606:4700::/32\n      - fd00::/8\n"
    edit(sample, "clusters/eu-1/cluster.yaml", "  network:\n", f"  network:\n{own}")
    result = allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY)
    assert result.code == 0, result
    file = tmp_path / "out/eu-1/control/namespaces/s/solo-ada.rendered.yaml"
    after = {block["cidr"]: block["except"] for block in blocks(file)}
    before = {block["cidr"]: block["except"] for block in blocks()}
    assert after == {
        "0.0.0.0/0": [*before["0.0.0.0/0"], "8.8.4.0/24"],
        "2000::/3": [*before["2000::/3"], "2606:4700::/32"],
    }, "what is denied to all isn't said twice"


def policy_of(tree: Path, cluster: str, name: str) -> dict[str, Any]:
    """Return the spec of a network policy of solo-ada in a rendered tree."""
    file = tree / cluster / GOLDEN.relative_to(GOLDEN.parents[3])
    manifests = load(file.read_bytes())
    spec: dict[str, Any] = next(
        manifest["spec"]
        for manifest in manifests
        if (manifest["kind"], manifest["metadata"]["name"]) == ("NetworkPolicy", name)
    )
    return spec


CLUSTER_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}


@pytest.mark.parametrize(
    ("declared", "peers"),
    [
        ("", [CLUSTER_DNS]),
        ("    nodeLocalDNS: 169.254.20.10\n", [CLUSTER_DNS, {"ipBlock": {"cidr": "169.254.20.10/32"}}]),
        ("    nodeLocalDNS: fd00::10\n", [CLUSTER_DNS, {"ipBlock": {"cidr": "fd00::10/128"}}]),
    ],
)
def test_a_tenant_may_query_the_dns_of_its_cluster_on_port_53_alone(
    declared: str, peers: list[dict[str, Any]], sample: Path, allot: Allot, tmp_path: Path
) -> None:
    edit(sample, "clusters/eu-1/cluster.yaml", "    nodeLocalDNS: 169.254.20.10\n", declared or "    denied: []\n")
    result = allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY)
    assert result.code == 0, result
    rules = policy_of(tmp_path / "out", "eu-1", "allow-out")["egress"]
    assert [rule for rule in rules if any(peer in rule["to"] for peer in peers)] == [
        {"to": peers, "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    ]


@pytest.mark.parametrize(("declared", "namespace"), [("", "edge"), ("    proxyNamespace: proxies\n", "proxies")])
def test_a_tenant_is_reached_from_the_namespace_of_the_proxies_alone(
    declared: str, namespace: str, sample: Path, allot: Allot, tmp_path: Path
) -> None:
    edit(sample, "clusters/eu-1/cluster.yaml", "    sectionName: https\n", f"    sectionName: https\n{declared}")
    result = allot("render", "--repo", sample, "--out", tmp_path / "out", "--as-of", DAY)
    assert result.code == 0, result
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    assert policy_of(tmp_path / "out", "eu-1", "allow-in")["ingress"] == [
        {"from": [selector]},
        {"from": [{"podSelector": {}}]},
    ]
