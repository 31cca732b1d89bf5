"""Which addresses are of the internet, and that nothing else is ever spoken to."""

from __future__ import annotations

import socket

import pytest

from allotment.programs import addresses, ending


@pytest.mark.parametrize(
    "address",
    "1.1.1.1 8.8.8.8 93.184.215.14 2606:4700:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101 2002:101:101::1".split(),
)
def test_an_address_of_the_internet(address: str) -> None:
    assert addresses.is_public(address)


@pytest.mark.parametrize(
    "address",
    (
        "10.0.0.1 172.16.0.1 192.168.1.1 127.0.0.1 169.254.169.254 100.100.100.200 0.0.0.0 224.0.0.1 240.0.0.1 255.255.255.255"
        " 192.0.2.1 198.18.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 fec0::1 2001:db8::1 ::ffff:10.0.0.1"
        " ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::a00:1 2002:a00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 ::10.0.0.1"
        " 168.63.129.16 192.0.0.192 192.88.99.1 2001:20::1 3fff::1 4000::1 5f00::1 1000::1 200::1 ::ffff:168.63.129.16"
    ).split(),
)
def test_an_address_of_somebody_elses_network(address: str) -> None:
    assert not addresses.is_public(address)


@pytest.mark.parametrize(
    "url", ["http://1.1.1.1/", "ftp://a.example/", "https://user:pass@a.example/", "https:///x", "file:///etc/passwd"]
)
def test_nothing_but_https(url: str) -> None:
    with pytest.raises(ending.Failed, match="is no https:// address") as failure:
        addresses.connect(url)
    assert failure.value.status == ending.ADDRESS_REFUSED


@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1", "[::1]", "localhost", "2130706433", "0x7f.1"])
def test_a_host_that_is_not_of_the_internet(host: str) -> None:
    with pytest.raises(ending.Failed, match="isn't an address of the internet") as failure:
        addresses.connect(f"https://{host}/latest/meta-data")
    assert failure.value.status == ending.ADDRESS_REFUSED


def test_one_private_address_of_several_speaks_against_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    address_infos = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in ("1.1.1.1", "10.1.2.3")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: address_infos)
    with pytest.raises(ending.Failed, match=r"models\.example is 10\.1\.2\.3"):
        addresses.resolved("models.example", 443)


def test_the_address_that_was_checked_is_the_one_that_is_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []
    spoken: list[tuple[str, int]] = []

    def look_up(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        hosts.append(host)
        address = "1.1.1.1" if len(hosts) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))]

    def dial(place: tuple[str, int], *_: object) -> socket.socket:
        spoken.append(place)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", dial)
    with pytest.raises(ConnectionError):
        addresses.connect("https://models.example/x")
    assert hosts == ["models.example"]
    assert spoken == [("1.1.1.1", 443)]
