"""Keys that sign commits, and their declaration in the platform."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import edit
from tests.support.published import Place


def new_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)], check=True)
    return folder / name


def declare(place: Place, key: Path) -> None:
    public = key.with_suffix(".pub").read_text().strip()
    edit(place.root, "platform/platform.yaml", "spec:\n", f"spec:\n  publisher:\n    publicKey: {public}\n")
