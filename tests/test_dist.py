"""What a release is made of: its version is the tag's and the changelog's, and the sdist builds the same wheel."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from allotment import VERSION
from tests import dist
from tests.conftest import PROJECT

UNRELEASED, RELEASED = (
    f"# Changes\n\n## {VERSION} (unreleased)\n",
    f"# Changes\n\n## {VERSION} (2026-12-01)\n\n## 0.0.1\n",
)


@pytest.mark.parametrize(
    ("tags", "changelog", "words"),
    [
        ([], UNRELEASED, None),
        ([f"v{VERSION}"], RELEASED, None),
        (["nightly"], UNRELEASED, None),
        (["v9.0.0"], RELEASED, f"the tag v9.0.0 names this commit, and renderers/allotment/__init__.py says {VERSION}"),
        (
            [],
            "## 0.0.1 \n",
            f"CHANGELOG.md begins with '## 0.0.1 ', and renderers/allotment/__init__.py says {VERSION}",
        ),
        (
            [f"v{VERSION}"],
            UNRELEASED,
            f"the tag v{VERSION} names this commit, and CHANGELOG.md still calls it unreleased: write the day",
        ),
    ],
)
def test_a_tag_and_the_changelog_say_the_version(tags: list[str], changelog: str, words: str | None) -> None:
    assert dist.wrong(tags, changelog) == words


def test_this_commit_is_what_its_changelog_says() -> None:
    assert dist.wrong([], (PROJECT / "CHANGELOG.md").read_text()) is None


@pytest.mark.process
def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    sdist, wheel = sorted(dist.build(tmp_path / "dist"), key=lambda path: path.suffix)
    assert wheel.name == f"allotment-{VERSION}-py3-none-any.whl"
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path, filter="data")
    assert not [name for name in names if name.split("/")[1] in ("tests", ".venv", "out", "dist")]
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "again")]
    subprocess.run(command, cwd=tmp_path / f"allotment-{VERSION}", check=True, capture_output=True)
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()
