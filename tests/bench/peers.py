"""The peers that we measure against, built from their Go modules as the test bed's programs are."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane import programs


def peer(name: str) -> Path | None:
    """Return a peer's binary: built alone, given, or built with the control plane. Build it if none is there; None without Go."""
    alone = programs.home(name) / name
    try:
        if alone.is_file():
            return alone
        if programs.missing([name]):
            programs.build([name])
            return alone
        return programs.program(name)
    except programs.NotBuilt as why:
        print(why, flush=True)
        return None
