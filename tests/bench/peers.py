"""The peers that we measure against, built from their Go modules as the test bed's programs are."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane import programs

TOOLS = {"helm": "helm", "kubectl": "kubernetes"}


def peer(name: str) -> Path | None:
    """Return a peer's binary, built when it is missing; None without Go."""
    try:
        programs.build([TOOLS[name]])
        return programs.program(name)
    except programs.NotBuilt as why:
        print(why, flush=True)
        return None
