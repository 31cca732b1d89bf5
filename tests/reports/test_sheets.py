"""Rows fit the terminal that they are shown on: nothing of them is cut, and what is long has lines of its own."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console, Group
from rich.text import Text
from tests.support.terminal import run_in_terminal

from allotment.reports.sheets import Sheet, sanitize_sentence, sanitize_value

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
LONG = (
    "the image registry.example/apps/webui:1.2.3@sha256:" + "ab" * 32 + " can't be pulled: its registry says that there is"
    " none of this name; correct the image's name and digest, and merge that"
)  # fmt: skip
SHOWN = f"""
from rich.console import Group
from rich.text import Text
from allotment.reports.sheets import FactList, Sheet, print_output, sanitize_sentence, sanitize_value
sheet = Sheet("INSTANCE", "CLUSTER", "STATE", "URL", "WHY", long=("URL", "WHY"))
sheet.add_row(sanitize_value("studio-kite/webui-next"), sanitize_value("eu-1"), sanitize_value("Running"), sanitize_value("https://webui.example/"), sanitize_sentence(""))
sheet.add_row(sanitize_value("solo-ada/webui"), sanitize_value("eu-1"), sanitize_value("Failed"), sanitize_value(""), sanitize_sentence({LONG!r}))
print_output(Group(sheet, Text(), FactList([("State", "Failed"), ("Why", {LONG!r})])))
"""


def on_terminal(columns: int) -> list[str]:
    """Return the lines that a pseudo-terminal of so many columns shows."""
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return run_in_terminal([sys.executable, "-c", SHOWN], Path.cwd(), columns, path).lines


@pytest.mark.process
@pytest.mark.parametrize("columns", [60, 80, 99, 120])
def test_a_sheet_puts_long_values_on_separate_lines_of_a_terminal(columns: int) -> None:
    lines = on_terminal(columns)
    gap = "   " if columns >= 100 else "  "
    assert lines[:3] == [
        gap.join(("INSTANCE              ", "CLUSTER", "STATE")),
        gap.join(("studio-kite/webui-next", "eu-1   ", "Running")),
        "    https://webui.example/",
    ]
    assert lines[3].split() == ["solo-ada/webui", "eu-1", "Failed"]
    end = lines.index("")
    why = lines[4:end]
    assert " ".join(line.strip() for line in why) == LONG
    assert all(line.startswith("    ") and (len(line) <= columns or " " not in line.strip()) for line in why)
    fact = lines[end + 2 :]
    assert fact[0].startswith("Why:     the image")
    assert " ".join(line.strip() for line in fact).removeprefix("Why:").strip() == LONG
    assert all(line.startswith(" " * 9) for line in fact[1:])


@pytest.mark.process
def test_a_wide_terminal_has_a_line_a_row() -> None:
    assert [line.split() for line in on_terminal(400)[:3]] == [
        ["INSTANCE", "CLUSTER", "STATE", "URL", "WHY"],
        ["studio-kite/webui-next", "eu-1", "Running", "https://webui.example/"],
        ["solo-ada/webui", "eu-1", "Failed", *LONG.split()],
    ]


@pytest.mark.process
@pytest.mark.parametrize("more", [{}, {"FORCE_COLOR": "1"}], ids=["plain", "in colour"])
def test_a_pipe_has_a_line_a_row(more: dict[str, str]) -> None:
    environment = {**os.environ, **more}
    done = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, env=environment, check=True)
    lines = _STYLE.sub("", done.stdout).splitlines()
    assert [len(lines), lines[2].endswith(LONG), lines[5]] == [6, True, f"Why:     {LONG}"]
    assert ("\x1b" in done.stdout) == bool(more)


def test_a_pipe_has_the_same_text_with_and_without_styles() -> None:
    sheet = Sheet("NAME", "STATE", "WHY", long=("WHY",))
    sheet.add_row(sanitize_value("one"), Text("Failed", style="red"), Text.assemble("a ", ("b", "bold"), "  "))
    sheet.add_row(sanitize_value(""), Text("", style="red"), sanitize_sentence("\x1b[2J\u202e"))
    outputs = []
    for system in ("truecolor", None):
        console = Console(file=io.StringIO(), color_system=system, highlight=False, force_terminal=True)
        console.print(Group(sheet, Text()), soft_wrap=True)
        assert isinstance(console.file, io.StringIO)
        outputs.append(console.file.getvalue())
    assert outputs[0] != outputs[1] == _STYLE.sub("", outputs[0])
    assert "\x1b[31mFailed\x1b[0m   a \x1b[1mb\x1b[0m\n" in outputs[0]


def test_a_sheet_puts_short_values_in_their_row_from_100_columns_on() -> None:
    sheet = Sheet("NAME", "WHY", long=("WHY",))
    sheet.add_row(sanitize_value("one"), sanitize_sentence("short"))
    assert [line.plain for line in sheet.render_lines(100)] == ["NAME   WHY", "one    short"]
    assert [line.plain for line in sheet.render_lines(99)] == ["NAME", "one", "    short"]


def test_columns_that_do_not_fit_follow_under_their_row() -> None:
    sheet = Sheet("STOCK", "CLUSTER", "UNITS", "TENANT", "WHY", long=("WHY",))
    sheet.add_row(
        sanitize_value("l4-whole"),
        sanitize_value("eu-1"),
        sanitize_value(12),
        sanitize_value("studio-kite"),
        sanitize_sentence("short"),
    )
    sheet.add_row(
        sanitize_value("l4"), sanitize_value("eu-1"), sanitize_value(1), sanitize_value(""), sanitize_sentence("")
    )
    assert [line.plain for line in sheet.render_lines(25)] == [
        "STOCK     CLUSTER  UNITS",
        "l4-whole  eu-1     12",
        "    TENANT: studio-kite",
        "    short",
        "l4        eu-1     1",
    ]


def test_nothing_does_anything_to_a_terminal() -> None:
    sheet = Sheet("NAME", "WHY", long=("WHY",))
    sheet.add_row(sanitize_value("\x1b[2J[red]x"), sanitize_sentence("a\nb\u202e[bold]"))
    assert [line.plain for line in sheet.render_lines(None)][1] == "\\x1b[2J[red]x   a\\nb\\u202e[bold]"


def test_a_long_cell_in_a_pipe_widens_no_other_row() -> None:
    sheet = Sheet("OBJECT", "WHAT", "WHAT TO DO", long=("WHAT", "WHAT TO DO"))
    for message in ("short", "long " * 60):
        sheet.add_row(sanitize_value("x"), sanitize_sentence(message), sanitize_sentence("fix it"))
    lines = [line.plain for line in sheet.render_lines(None)]
    assert lines[1] == f"x        short{' ' * 78}fix it"
    assert lines[2].endswith("long    fix it")
