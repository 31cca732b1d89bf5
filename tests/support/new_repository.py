"""A repository that `allot init` writes, and the options for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from allotment import VERSION
from tests.conftest import Allot

URL = "https://git.acme.dev/acme/gpus"
COMMIT = f"allotment @ git+https://git.acme.dev/allotment@{40 * 'a'}"
WHEEL = f"https://files.acme.dev/allotment-{VERSION}-py3-none-any.whl#sha256={64 * 'a'}"
IMAGE = f"registry.acme.dev/allotment:{VERSION}@sha256:{64 * 'ab'[:1]}"
CLOUD = ("--cluster", "eu-1", "--domain", "gpu.acme.dev", "--oidc-issuer", "https://id.acme.dev", "--admin", "alice")


def init(allot: Allot, folder: Path, forge: str = "GitHub", *more: str, program: str = COMMIT) -> Any:
    cloud = () if "--sample" in more else CLOUD
    return allot("init", folder, "--program", program, "--forge", forge, "--url", URL, *cloud, *more)


def sample(allot: Allot, folder: Path, forge: str = "GitHub", *more: str, program: str = COMMIT) -> Any:
    return init(allot, folder, forge, "--sample", *more, program=program)


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
