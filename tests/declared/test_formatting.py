"""The canonical form of a file keeps the line ends of its checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.declared.formatting import format_declaration

PATH = "tenants/solo-ada/instances/webui.yaml"


@pytest.mark.parametrize("fix", [True, False])
def test_a_checkout_for_windows_has_the_same_form_with_its_line_ends(fix: bool, sample: Path) -> None:
    data = (sample / PATH).read_bytes().replace(b"metadata:\n", b"metadata:   # who\n")
    canonical, problems = format_declaration(PATH, data, fix=fix)
    assert problems == []
    assert canonical != data
    windows, problems = format_declaration(PATH, data.replace(b"\n", b"\r\n"), fix=fix)
    assert (windows, problems) == (canonical.replace(b"\n", b"\r\n"), [])
    assert format_declaration(PATH, windows, fix=fix) == (windows, [])


def test_mixed_line_ends_become_those_of_git(sample: Path) -> None:
    data = (sample / PATH).read_bytes()
    canonical, _ = format_declaration(PATH, data, fix=False)
    assert format_declaration(PATH, data.replace(b"\n", b"\r\n", 1), fix=False)[0] == canonical
