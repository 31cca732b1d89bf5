"""Where the programs of crates come from: given folders first, then the cache by what is pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import crates, programs
from tests.support.program_cache import empty_cache, executable

__all__ = ["empty_cache"]


def test_without_anything_all_is_missing(empty_cache: Path) -> None:
    assert crates.missing() == list(crates.CRATES)
    with pytest.raises(programs.NotBuilt, match="dufs"):
        crates.program("dufs")


def test_program_prefers_a_preinstalled_program_to_a_built_program(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = executable(crates.home("dufs") / "dufs")
    assert (crates.program("dufs"), crates.missing()) == (built, ["s3s-fs"])
    preinstalled = executable(tmp_path / "given" / "dufs")
    monkeypatch.setenv("ALLOT_CONTROLPLANE", str(preinstalled.parent))
    assert crates.program("dufs") == preinstalled


def test_the_pin_of_a_crate_determines_its_home(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = crates.home("dufs")
    monkeypatch.setattr(crates, "CRATES", {"dufs": crates.Crate("0.46.0", ("tls",))})
    assert crates.home("dufs") != before


def test_without_rust_it_says_what_is_needed(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(programs.NotBuilt, match=r"dufs: Rust is needed to build it: install Rust 1\.92 or later"):
        crates.build()


def test_a_build_that_fails_leaves_nothing(empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "bin" / "cargo", "#!/bin/sh\nexit 101\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(programs.NotBuilt, match="ended with 101"):
        crates.build()
    assert [path.name for path in empty_cache.iterdir()] == []
