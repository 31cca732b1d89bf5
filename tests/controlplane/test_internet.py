"""What plays the internet: its nameserver knows a name, and says of others that there are none."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, ip_address

import pytest

from allotment.programs.ranges import is_of_the_internet
from tests.controlplane import internet


def query(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)


@pytest.mark.parametrize("name", ["www.example.com", "WWW.example.com"])
def test_a_name_has_its_address(name: str) -> None:
    response = internet.answer(query(name))
    assert struct.unpack(">6H", response[:12]) == (7, 0x8580, 1, 1, 0, 0)
    assert response[12:].startswith(query(name)[12:])
    assert IPv4Address(response[-4:]) == IPv4Address(internet.PUBLIC)


def test_there_is_no_address_of_ipv6_and_no_other_name() -> None:
    assert struct.unpack(">6H", internet.answer(query("www.example.com", 28))[:12]) == (7, 0x8580, 1, 0, 0, 0)
    assert struct.unpack(">6H", internet.answer(query("nowhere.example.com"))[:12]) == (7, 0x8583, 1, 0, 0, 0)


def test_is_of_the_internet_accepts_the_public_address_only() -> None:
    open_ = [
        address
        for address in (internet.PUBLIC, internet.METADATA, internet.PRIVATE)
        if is_of_the_internet(ip_address(address))
    ]
    assert open_ == [internet.PUBLIC]
