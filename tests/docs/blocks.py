"""The blocks of a page that are run: what they say, and what a shell answers.

```console {.run}            a block of commands: `$ ` begins one, `> ` goes on with it, what follows is its output
```yaml {.run title="FILE"}  a file, written where the page has got to

`…` in an output stands for anything within a line, and as a line of its own for any lines. A command ends with 0, unless
`$ echo $?` comes next.
"""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

OPEN = re.compile(r'^```(?P<language>\w+) \{\.run(?: title="(?P<title>[^"]+)")?\}$')
STATUS = "echo $?"
VARIES = re.compile(r"\b[0-9a-f]{12}\b|(?<=sha256:)[0-9a-f]{64}\b")  # commits and checksums


@dataclass(frozen=True)
class File:
    """A file that a page writes. Lines of a page count from 1."""

    line: int
    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page, and the output that it shows: the page's lines from `begin` to before `end`."""

    line: int
    text: str
    begin: int
    end: int
    shown_lines: tuple[str, ...]


@dataclass
class Ran:
    """How a command ended."""

    command: Command
    status: int
    lines: list[str] = field(default_factory=list)


def blocks(page: str) -> Iterator[File | Command]:
    """Yield what a page has run, in its order. Raises ValueError for a block that isn't one of the two."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        match = OPEN.match(lines[at])
        if match is None:
            at += 1
            continue
        end = lines.index("```", at)
        if match["language"] == "console":
            yield from _commands(lines, at + 1, end)
        elif match["title"]:
            yield File(at + 1, match["title"], "".join(f"{line}\n" for line in lines[at + 1 : end]))
        else:
            raise ValueError(
                f"line {at + 1}: a block that is run is of commands (console), or has the title of its file"
            )
        at = end


def _commands(lines: list[str], at: int, end: int) -> Iterator[Command]:
    while at < end:
        if not lines[at].startswith("$ "):
            raise ValueError(f"line {at + 1}: no command before this output")
        begin, words = at, [lines[at][2:]]
        at += 1
        while at < end and lines[at].startswith("> "):
            words.append(lines[at][2:])
            at += 1
        first = at
        while at < end and not lines[at].startswith("$ "):
            at += 1
        yield Command(begin + 1, "\n".join(words), first + 1, at + 1, tuple(lines[first:at]))


def run(page: str, folder: Path, environment: dict[str, str]) -> list[Ran]:
    """Run a page's blocks in one shell that begins in a folder; return how its commands ended."""
    work_folder = folder.with_name(f"{folder.name}.ran")
    work_folder.mkdir()
    script, commands = [], []
    for number, block in enumerate(blocks(page)):
        if isinstance(block, File):
            (work_folder / f"{number}.file").write_text(block.text, encoding="utf-8")
            script.append(f'mkdir -p "$(dirname "{block.path}")" && cp "{work_folder}/{number}.file" "{block.path}"')
            continue
        commands.append((number, block))
        script.append(
            f"{{\n{block.text}\n}} > {work_folder}/{number}.out 2>&1; s=$?; echo $s > {work_folder}/{number}.status; (exit $s)"
        )
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=300,
    )
    return [
        Ran(
            command,
            int((work_folder / f"{number}.status").read_text()),
            (work_folder / f"{number}.out").read_text(encoding="utf-8").splitlines(),
        )
        for number, command in commands
    ]


def same(shown_lines: tuple[str, ...], lines: list[str]) -> bool:
    """Return whether an output is what the page shows of it."""
    wanted = "".join(
        "(?:.*\n)*" if shown_line == "…" else ".*".join(re.escape(part) for part in shown_line.split("…")) + "\n"
        for shown_line in shown_lines
    )
    return re.fullmatch(wanted, "".join(f"{line.rstrip()}\n" for line in lines)) is not None


def failures(ran: list[Ran]) -> list[Ran]:
    """Return the commands that fail, without those whose page checks the status next."""
    following = [execution.command.text for execution in ran[1:]]
    return [execution for execution, after in zip_longest(ran, following) if execution.status and after != STATUS]


def differences(ran: list[Ran]) -> Iterator[str]:
    """Yield, in words, each command that fails or answers otherwise than its page shows."""
    failed = failures(ran)
    for execution in ran:
        if execution in failed:
            output = "\n".join(execution.lines)
            yield f"line {execution.command.line}: `{execution.command.text}` ended with {execution.status}, and no `{STATUS}` follows:\n{output}"
        elif not same(execution.command.shown_lines, execution.lines):
            shown_text, output = "\n".join(execution.command.shown_lines), "\n".join(execution.lines)
            yield f"line {execution.command.line}: `{execution.command.text}`\nthe page shows:\n{shown_text}\nit said:\n{output}"


def with_outputs(page: str, ran: list[Ran]) -> str:
    """Return a page with the outputs that came, where they aren't what it shows; what is another each time as `…`."""
    lines = page.splitlines()
    for execution in reversed(ran):
        if not same(execution.command.shown_lines, execution.lines):
            output_lines = [VARIES.sub("…", line.rstrip()) for line in execution.lines]
            lines[execution.command.begin - 1 : execution.command.end - 1] = _cut_alike(
                execution.command.shown_lines, output_lines
            )
    return "\n".join(lines) + "\n"


def _cut_alike(shown_lines: tuple[str, ...], printed_lines: list[str]) -> list[str]:
    """Return an output without the lines that its page doesn't show either: `…` stands for them, as before."""
    if "…" not in shown_lines:
        return printed_lines
    output_lines: list[str] = []
    for line in printed_lines:
        if difflib.get_close_matches(
            line, [shown_line for shown_line in shown_lines if shown_line != "…"], n=1, cutoff=0.8
        ):
            output_lines.append(line)
        elif output_lines[-1:] != ["…"]:
            output_lines.append("…")
    return output_lines
