"""Problems as people and forges read them: text, JSON, GitHub, GitLab, SARIF."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from allotment import VERSION
from allotment.cli.options import is_quiet
from allotment.problems import Problem, counted, it_or_them, printable


class Judged(NamedTuple):
    """How many files, of how many tenants, the problems are of; a part of a repository is of none. `elsewhere`
    counts the problems, without warnings, that the rest of it has."""

    files: int
    tenants: int | None = None
    elsewhere: int = 0

    def __str__(self) -> str:
        return counted(self.files, "file") + (
            f" of {counted(self.tenants, 'tenant')}" if self.tenants is not None else ""
        )

    @property
    def rest(self) -> str:
        """How much is wrong in the rest of the repository, in words."""
        return f"{counted(self.elsewhere, 'problem')} elsewhere (`allot validate` shows {it_or_them(self.elsewhere)})"


class Reader(NamedTuple):
    """Who reads problems as text: how paths are written for them, and, on a terminal, a file's line by its number."""

    path: Callable[[str], str] = str
    line: Callable[[str, int], str | None] | None = None


NOBODY = Reader()
MOST_SHOWN = 100  # characters of a line
Format = Callable[[Sequence[Problem], Judged], str]


def as_text(problems: Sequence[Problem], judged: Judged, reader: Reader = NOBODY) -> str:
    """Return a line a problem, with the line that it is about where `reader` has that; then, unless --quiet was given,
    what to do. Colour where it goes to a terminal."""
    lines = []
    for one in problems:
        line = str(one._replace(path=reader.path(one.path)))
        place, rest = line.split(": ", 1)
        rest, _, rule = rest.rpartition(" [")
        colour = "yellow" if one.warning else "red"
        lines.append(
            f"{click.style(place, bold=True)}: {click.style(rest, fg=colour)} {click.style(f'[{rule}', dim=True)}"
        )
        if reader.line is not None and (text := reader.line(one.path, one.line)) is not None:
            lines += _pointed(text, one.column, colour)
    if is_quiet():
        return "".join(f"{line}\n" for line in lines)
    errors = [one for one in problems if not one.warning]
    rest = f"; {judged.rest}" if judged.elsewhere else ""
    if errors:
        count, paths = counted(len(errors), "problem"), sorted({one.path for one in errors})
        where = printable(reader.path(paths[0]), 400) if len(paths) == 1 else counted(len(paths), "file")
        lines.append(
            f"{count} in {where} ({judged} read{rest}). Correct {it_or_them(len(errors))} and run `allot validate` again; `allot explain KIND.field` says what a field takes."
            f"{_mended(errors)}"
        )
    else:
        warned = f", {counted(len(problems), 'warning')}" if problems else ""
        lines.append(click.style(f"{judged}: fine{warned}", fg="green") + rest)
    return "\n".join(lines) + "\n"


def _mended(errors: Sequence[Problem]) -> str:
    """Return how many of some errors `allot fmt --fix` mends; empty where it mends none."""
    from allotment.declared.mending import is_mended

    count = sum(map(is_mended, errors))
    them = f"{count} of these" if count < len(errors) else "it" if count == 1 else "all of them"
    return f" `allot fmt --fix` mends {them}." if count else ""


def _pointed(text: str, column: int, colour: str) -> list[str]:
    """Return a file's line, and a caret below its column; nothing for one that is too long to be shown."""
    if not text.strip() or len(text) > MOST_SHOWN or column > len(text) + 1:
        return []
    before = printable(text[: column - 1])
    return [f"    {printable(text)}", f"    {' ' * len(before)}{click.style('^', fg=colour, bold=True)}"]


def as_json(problems: Sequence[Problem], judged: Judged) -> str:
    """Return one JSON object with all problems."""
    from allotment.reports import outputs
    from allotment.reports.outputs.validate import ValidateOutput, problem_output

    return outputs.as_json(ValidateOutput(**judged._asdict(), problems=tuple(map(problem_output, problems))))


def as_github(problems: Sequence[Problem], judged: Judged) -> str:
    """Return GitHub's workflow commands, with its escapes."""

    def escaped(text: str, more: str = "") -> str:
        for character in "%\r\n" + more:
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    lines = [
        f"::{'warning' if one.warning else 'error'} file={escaped(printable(one.path, 400), ':,')},line={one.line},col={one.column},"
        f"title={escaped(one.rule, ':,')}::{escaped(f'{one.field}: {one.message}')}\n"
        for one in problems
    ]
    if judged.elsewhere:
        lines.append(f"::notice title=elsewhere::{escaped(judged.rest)}\n")
    return "".join(lines)


def as_gitlab(problems: Sequence[Problem], judged: Judged) -> str:
    """Return GitLab's code quality report, a list of findings, which has no place for anything else."""
    report = [
        {
            "description": f"{one.field}: {one.message}",
            "check_name": one.rule,
            "fingerprint": hashlib.sha256(f"{one.path}\n{one.field}\n{one.rule}\n{one.message}".encode()).hexdigest(),
            "severity": "minor" if one.warning else "major",
            "location": {"path": one.path, "lines": {"begin": one.line}},
        }
        for one in problems
    ]
    return json.dumps(report, indent=2) + "\n"


def _sarif_rule(rule: str) -> dict[str, Any]:
    """Return what a rule demands, as the manual says it."""
    from allotment.reports.rule_pages import rule_pages

    text = " ".join(rule_pages().get(rule, "").split())
    more = {"shortDescription": {"text": text.split(". ")[0].rstrip(".") + "."}, "help": {"text": text}} if text else {}
    return {"id": rule, **more}


def as_sarif(problems: Sequence[Problem], judged: Judged) -> str:
    """Return a SARIF 2.1.0 log."""
    results = [
        {
            "ruleId": one.rule,
            "level": "warning" if one.warning else "error",
            "message": {"text": f"{one.field}: {one.message}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(one.path)},
                        "region": {"startLine": one.line, "startColumn": one.column},
                    }
                }
            ],
        }
        for one in problems
    ]
    driver = {
        "name": "allot",
        "version": VERSION,
        "rules": [_sarif_rule(rule) for rule in sorted({one.rule for one in problems})],
    }
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    if judged.elsewhere:
        note = {"level": "note", "message": {"text": judged.rest}}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [note]}]
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


FORMATS: dict[str, Format] = {
    "json": as_json,
    "github": as_github,
    "gitlab": as_gitlab,
    "sarif": as_sarif,
}
