"""What a tenant's namespace lets out: the internet, and none of the ranges behind which the platform lies."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from tests.conftest import PROJECT

from allotment.manifests.text import load

GOLDEN = PROJECT / "tests/manifests/golden/eu-1/control/namespaces/s/solo-ada.rendered.yaml"


def blocks() -> list[dict[str, Any]]:
    policy = next(one for one in load(GOLDEN.read_bytes()) if one["metadata"]["name"] == "allow-out")
    return [to["ipBlock"] for rule in policy["spec"]["egress"] for to in rule["to"] if "ipBlock" in to]


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block["cidr"])
def test_what_is_excepted_lies_within_and_is_written_as_the_api_server_takes_it(block: dict[str, Any]) -> None:
    whole = ip_network(block["cidr"])
    for text in block["except"]:
        part = ip_network(text)
        assert part.subnet_of(whole) and part != whole, text
        mapped = getattr(part.network_address, "ipv4_mapped", None)
        assert mapped is None, f"{text}: Go reads an IPv4-mapped address as IPv4, and the API server refuses it"


@pytest.mark.parametrize(
    "address",
    "169.254.169.254 10.0.0.1 172.16.0.1 192.168.0.1 100.100.100.200 127.0.0.1 ::1 ::ffff:169.254.169.254 fd00:ec2::254 fe80::1".split(),
)
def test_addresses_behind_which_the_platform_lies_are_not_let_out(address: str) -> None:
    wanted = ip_address(address)
    for block in blocks():
        if wanted in ip_network(block["cidr"]):
            assert any(wanted in ip_network(part) for part in block["except"])
