"""The pictures of the documentation show what commands say now, and fetch nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import PROJECT
from tests.screens import SCREENS

SHOWN = re.compile(r"<text[^<>]*>[^<>]*</text>")  # what a person reads, URLs too, which nothing fetches
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9.]+")


@pytest.mark.process
def test_the_pictures_are_fresh() -> None:
    words = [sys.executable, "-m", "tests.screens", "--check"]
    result = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("name", sorted(path.name for path in SCREENS.glob("*.svg")))
def test_a_picture_fetches_nothing(name: str) -> None:
    text = (SCREENS / name).read_text(encoding="utf-8")
    assert {"https://www.textualize.io", "http://www.w3.org"} >= set(ADDRESS.findall(SHOWN.sub("", text)))
    assert "@font-face" not in text
    assert "url(http" not in text
