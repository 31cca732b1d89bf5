"""The commands of the guides do what their pages show, one after the other, in a folder of their own with the real Git."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.conftest import PROJECT
from tests.docs.blocks import Command, File, Ran, blocks, differences, failures, run, same, with_outputs
from tests.docs.october import now, record_october

DOCS = PROJECT / "docs"
SAMPLE = "<!-- run in: the sample of start/install.md -->"
RECORD = "<!-- run with: the usage of October 2026 -->"
PAGES = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md")) if " {.run" in path.read_text("utf-8")]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return what a shell of somebody's knows: Git knows who they are, and nothing is remembered."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@northlight.example\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
    )
    return {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "GIT_CONFIG_SYSTEM": os.environ["GIT_CONFIG_SYSTEM"],
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "110",
    }


@pytest.mark.process
@pytest.mark.parametrize("page", PAGES)
def test_a_pages_commands_answer_as_it_shows(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    folder = tmp_path / "here"
    folder.mkdir()
    if SAMPLE in text:
        before = run((DOCS / "start/install.md").read_text(encoding="utf-8"), folder, environment)
        assert list(differences(before)) == []
        shutil.move(folder.with_name("here.ran"), tmp_path / "before")
        folder = folder / "gpus"
    if RECORD in text:
        record_october(folder.with_name("gpus.git"), now())
    ran = run(text, folder, environment)
    if os.environ.get("GOLDEN") == "write":
        assert failures(ran) == [], "the page keeps its outputs"
        text = with_outputs(text, ran)
        (DOCS / page).write_text(text, encoding="utf-8")
    else:
        assert "\n\n".join(differences(ran)) == ""


def test_guides_are_run() -> None:
    assert "start/install.md" in PAGES


def test_a_page_says_what_is_run() -> None:
    page = """\
```yaml {.run title="a/b.yaml"}
one: 1
```

```console {.run}
$ cat a/b.yaml
one: 1
$ cat <<EOF
> two
> EOF
two
```

```console
$ rm -rf /
```
"""
    file, first, second = blocks(page)
    assert file == File(1, "a/b.yaml", "one: 1\n")
    assert first == Command(6, "cat a/b.yaml", 7, 8, ("one: 1",))
    assert second == Command(8, "cat <<EOF\ntwo\nEOF", 11, 12, ("two",))


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("```yaml {.run}\na: 1\n```\n", "line 1: a block that is run is of commands"),
        ("```console {.run}\nout\n$ true\n```\n", "line 2: no command before this output"),
    ],
)
def test_a_block_that_cant_be_run_is_named(page: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(blocks(page))


@pytest.mark.parametrize(
    ("shown_lines", "lines", "expected"),
    [
        (("a", "b"), ["a", "b"], True),
        (("a",), ["a", "b"], False),
        (("a", "…"), ["a"], True),
        (("a", "…", "z"), ["a", "b", "c", "z"], True),
        (("commit 3f… by a",), ["commit 3fe1 by a"], True),
        (("commit 3f… by a",), ["commit 3fe1", "by a"], False),
        (("a.c",), ["abc"], False),
        ((), ["a"], False),
    ],
)
def test_an_output_is_what_is_shown_of_it(shown_lines: tuple[str, ...], lines: list[str], expected: bool) -> None:
    assert same(shown_lines, lines) is expected


@pytest.mark.process
def test_a_shell_goes_on_where_it_was_and_what_it_says_otherwise_is_told(tmp_path: Path) -> None:
    page = """\
```console {.run}
$ mkdir there && cd there && who=ada
$ false
$ echo $?
1
$ echo $who in $(basename $PWD)
ada in there
$ false
$ echo otherwise
as expected
```
"""
    (tmp_path / "here").mkdir()
    ran = run(page, tmp_path / "here", dict(os.environ))
    assert list(differences(ran)) == [
        "line 8: `false` ended with 1, and no `echo $?` follows:\n",
        "line 9: `echo otherwise`\nthe page shows:\nas expected\nit said:\notherwise",
    ]
    assert with_outputs(page, ran) == page.replace("as expected", "otherwise")


def test_with_outputs_preserves_the_ellipses_of_a_page() -> None:
    shown_lines = ("can be merged · 1 added", "…", "Cost a month 313.60", "…")
    command = Command(2, "allot plan", 3, 7, shown_lines)
    page = "\n".join(["```console {.run}", "$ allot plan", *shown_lines, "```", ""])
    ran = [Ran(command, 0, ["can be merged · 2 added", "Plan of x", "", "Cost a month 315.60", "Checksum"])]
    assert with_outputs(page, ran).splitlines()[2:6] == ["can be merged · 2 added", "…", "Cost a month 315.60", "…"]


def test_commits_and_checksums_are_left_out_of_what_a_page_shows() -> None:
    command = Command(2, "allot publish", 3, 4, ("old",))
    ran = [Ran(command, 0, ["of 593374fef38b", f"sha256:{'7d' * 32}", "in 24 hours"])]
    assert with_outputs("```console {.run}\n$ allot publish\nold\n```\n", ran).splitlines()[2:5] == [
        "of …",
        "sha256:…",
        "in 24 hours",
    ]
