"""A private world: where none can begin it says why. What one is, tests/e2e/node/test_world.py tries."""

from __future__ import annotations

import os

import pytest

from tests.controlplane import debian, programs, world
from tests.controlplane.world import Network


def test_without_root_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert world.why_not() == "a real node needs root"


def test_why_not_names_the_missing_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    assert world.why_not() == "a real node needs unshare, nsenter, ip, mount"


def test_worlds_at_once_have_addresses_of_their_own() -> None:
    addresses = [
        address
        for network in map(Network, range(world.MOST))
        for address in (network.link, network.machine, network.node, network.pods)
    ]
    assert len(addresses) == len({*addresses}) == 4 * world.MOST


def test_packages_need_debians_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(programs, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert debian.missing() == [*debian.PACKAGES]
    with pytest.raises(programs.NotBuilt, match="libseccomp-dev: Debian's apt-get and dpkg-deb are needed"):
        debian.build()
