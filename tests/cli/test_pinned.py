"""Nothing that the project ships or writes names an action by a tag or an image without its digest, or installs without hashes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.conftest import PROJECT, Allot
from tests.support.new_repository import COMMIT, IMAGE, WHEEL, init

ADD_ONS = sorted(path.parent for path in (PROJECT / "argo/add-ons").glob("*/deployment.yaml"))
PINNED = re.compile(r"[^@\s]+@[0-9a-f]{40}")
DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
ACTION = re.compile(r"\buses:\s*(\S+)")
IMAGE_LINE = re.compile(r"^\s*(?:-\s+)?(?:image:|FROM)\s+[\"']?([^\s\"']+)")
PIP = re.compile(r"\bpip3?\"? (install|wheel) (.*)")
PROGRAM = re.compile(r"--requirement \S*program\.lock\b")
BETWEEN = re.compile(r"&&|;|\|")


def unpinned(text: str) -> list[str]:
    """Return what a file names or installs that another may replace."""
    references = []
    for line in text.replace("\\\n", " ").splitlines():
        references += [action for action in ACTION.findall(line) if not PINNED.fullmatch(action)]
        references += [image for image in IMAGE_LINE.findall(line) if not DIGEST.fullmatch(image)]
        references += [part.strip() for part in BETWEEN.split(line) if not _hashed(part)]
    return references


def _hashed(command: str) -> bool:
    """Return whether a command installs by hashes, or a folder or wheel of this machine that takes nothing else along."""
    if "additional_dependencies" in command:  # pre-commit's, which takes no hashes
        return False
    if (match := PIP.search(command)) is None:
        return True
    words = set(match.group(2).split())
    if "--no-deps" in words and PROGRAM.search(
        command
    ):  # it names a commit, or a wheel with its hash: see test_init.py
        return True
    local = {
        "--no-deps",
        "--no-build-isolation" if match.group(1) == "wheel" or "--editable" in words else "--no-index",
    }
    return "--require-hashes" in words or local <= words


@pytest.mark.parametrize(
    "line",
    [
        "      - uses: actions/checkout@v4",
        "      - uses: actions/checkout@11bd719 # v4.2.2",
        "image: python:3.13",
        'image: "python:3.13"',
        "          image: registry.example/allotment:0.1.0",
        "FROM docker.io/library/python:3.13-slim AS build",
        '"$RUNNER_TEMP/allot/bin/pip" install --quiet "$ALLOT"',
        "RUN python -m venv /x && /x/bin/pip install --no-deps allotment==0.1.0",
        "pip install --editable .",
        "pip wheel --no-deps --wheel-dir /tmp .",
        "        additional_dependencies: [allotment==0.1.0]",
    ],
)
def test_unpinned_detects_a_replaceable_reference(line: str) -> None:
    assert len(unpinned(line)) == 1


def test_project_pins_every_reference() -> None:
    files = [path for path in PROJECT.iterdir() if path.is_file() and path.suffix != ".lock"]
    files += [*(PROJECT / ".ci").iterdir(), *(PROJECT / "docs").rglob("*.md")]
    assert {"Containerfile", "Makefile", "README.md", ".pre-commit-config.yaml"} <= {path.name for path in files}
    assert {path.name: references for path in files if (references := unpinned(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize("program", [COMMIT, WHEEL, IMAGE], ids=["commit", "wheel", "image"])
@pytest.mark.parametrize("forge", ["GitHub", "GitLab", "Gitea", "Forgejo"])
def test_init_pins_every_reference(forge: str, program: str, allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path, forge, program=program)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"README.md", ".pre-commit-config.yaml", "settings.json"} <= {path.name for path in files}
    assert {path.name: references for path in files if (references := unpinned(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize("folder", ADD_ONS, ids=lambda folder: folder.name)
def test_the_image_of_an_add_on_is_one_that_nobody_has_until_its_digest_is_written(folder: Path) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    named = {image_override["name"]: image_override for image_override in kustomization["images"]}
    images = [image for path in folder.glob("*.yaml") for image in re.findall(r"\bimage: (\S+)", path.read_text())]
    assert images
    for image in images:
        assert named[image].keys() == {"name", "newName", "digest"}
        assert named[image]["digest"] == "sha256:" + 64 * "0"
