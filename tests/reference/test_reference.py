"""docs/reference is what the program says of itself now, whole and as Markdown that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from allotment.cli.main import COMMANDS, allot
from allotment.declared.kinds import KINDS
from allotment.reports.outputs import OUTPUTS
from allotment.reports.rule_pages import rule_pages
from tests.reference import prose
from tests.reference.__main__ import REFERENCE, generated, stale, write

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
BAR = re.compile(r"(?<!\\)\|")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return generated()


def test_the_pages_are_fresh() -> None:
    assert stale(REFERENCE) == []


@pytest.mark.process
def test_stale_names_outdated_pages_and_write_restores_the_folder(tmp_path: Path, pages: dict[str, str]) -> None:
    write(tmp_path)
    assert stale(tmp_path) == []
    (tmp_path / "rules.md").write_text("old")
    (tmp_path / "kinds/Gone.md").write_text("of a kind that is gone")
    (tmp_path / "kinds/Stock.md").unlink()
    assert stale(tmp_path) == ["kinds/Gone.md", "kinds/Stock.md", "rules.md"]
    write(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.md")} == set(pages)
    assert (tmp_path / "rules.md").read_text() == pages["rules.md"]


def test_every_kind_rule_command_and_output_has_its_place(pages: dict[str, str]) -> None:
    assert {f"kinds/{kind}.md" for kind in KINDS} < set(pages)
    assert [rule for rule in rule_pages() if f"\n### {rule}\n" not in pages["rules.md"]] == []
    assert [name for name in COMMANDS if f"\n## allot {name}\n" not in pages["commands.md"]] == []
    assert "\n### allot ownership codeowners\n" in pages["commands.md"]
    assert [name for name in OUTPUTS if f"\n## {name}\n" not in pages["output.md"]] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_help_shows_is_told(name: str, pages: dict[str, str]) -> None:
    command = allot.get_command(click.Context(allot), name)
    assert command is not None
    section = pages["commands.md"].split(f"\n## allot {name}\n")[1].split("\n## ")[0]
    shared = pages["commands.md"].split("\n## allot ")[0]
    for parameter in command.params:
        record = parameter.get_help_record(click.Context(command)) if isinstance(parameter, click.Option) else None
        if record is not None:
            table_cell = f"| `{record[0].replace('|', chr(92) + '|')}` |"
            assert table_cell in section or table_cell in shared


def test_a_kinds_page_tells_a_field_deep_below_and_leads_there(pages: dict[str, str]) -> None:
    page = pages["kinds/GPUStorage.md"]
    assert "| `prepare` | [`Prepare`](#specprepare) |  | Instances that mount" in page
    section = page.split("\n## spec.prepare.source.url\n")[1].split("\n## ")[0]
    assert "| `sha256` | `text` | **required** | The hash of all its bytes, 64 hexadecimal digits" in section
    assert "| `deletionPolicy` | `Retain \\| Delete` | `Retain` |" in page
    assert "```yaml\n# yaml-language-server" in page


@pytest.mark.parametrize("command", ["validate", "fmt", "publish"])
def test_parts_are_told_for_each_command_that_has_them(command: str, pages: dict[str, str]) -> None:
    whole = pages["output.md"].split(f"\n## {command}\n")[1].split("\n## ")[0]
    assert f"| list of [ProblemOutput](#{command}-problemoutput) |" in whole
    section = whole.split(f"\n### {command}: ProblemOutput\n")[1].split("\n##")[0]
    assert "| `severity` | `error` or `warning` |" in section


def test_every_row_of_a_table_has_as_many_cells_as_its_head(pages: dict[str, str]) -> None:
    for page, text in pages.items():
        for table in TABLE.findall(text):
            cells = {len(BAR.findall(row)) for row in table.splitlines()}
            assert len(cells) == 1, f"{page}: {table}"


def test_an_example_that_goes_on_is_one_that_a_shell_takes(pages: dict[str, str]) -> None:
    section = pages["commands.md"].split("\n## allot init\n")[1].split("\n## ")[0]
    lines = section.split("```bash\n")[1].split("\n```")[0].splitlines()
    assert lines[1].endswith(" \\")
    assert lines[2].startswith("  --url ")


def test_words_mean_nothing_to_markdown_but_code() -> None:
    assert prose("a <b> *c* [d] `e_f|<g>` h_i | j") == "a \\<b> \\*c\\* \\[d] `e_f|<g>` h\\_i \\| j"
