"""Formats problems for people and for forges: as text, JSON, GitHub commands, a GitLab report, or SARIF."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from allotment import VERSION
from allotment.cli.options import is_quiet
from allotment.problems import Problem, escape_unprintable, pluralize, pronoun_for


class CheckedScope(NamedTuple):
    """The extent of a check: the number of files, and the number of tenants.

    If only a part of the repository is selected, `files` counts the files of this part, `tenants` is None, and
    `elsewhere` is the number of errors outside this part.
    """

    files: int
    tenants: int | None = None
    elsewhere: int = 0

    def __str__(self) -> str:
        return pluralize(self.files, "file") + (
            f" of {pluralize(self.tenants, 'tenant')}" if self.tenants is not None else ""
        )

    @property
    def elsewhere_summary(self) -> str:
        """The number of errors outside the selected part of the repository, as text."""
        return (
            f"{pluralize(self.elsewhere, 'problem')} elsewhere (`allot validate` shows {pronoun_for(self.elsewhere)})"
        )


class ProblemContext(NamedTuple):
    """The context of printed problems: a function that formats paths, and a function that reads a line of a file.

    The second function is None if the output is not a terminal.
    """

    format_path: Callable[[str], str] = str
    read_line: Callable[[str, int], str | None] | None = None


NO_CONTEXT = ProblemContext()
MAX_LINE_LENGTH = 100  # longer lines of a file are not shown
Format = Callable[[Sequence[Problem], CheckedScope], str]


def as_text(problems: Sequence[Problem], scope: CheckedScope, reader: ProblemContext = NO_CONTEXT) -> str:
    """Return the problems as coloured text: one line for each problem, and a summary unless --quiet was given.

    If `reader` can read files, the faulty line of the file follows each problem.
    """
    lines = []
    for problem in problems:
        line = str(problem._replace(path=reader.format_path(problem.path)))
        place, rest = line.split(": ", 1)
        rest, _, rule = rest.rpartition(" [")
        colour = "yellow" if problem.warning else "red"
        lines.append(
            f"{click.style(place, bold=True)}: {click.style(rest, fg=colour)} {click.style(f'[{rule}', dim=True)}"
        )
        if reader.read_line is not None and (text := reader.read_line(problem.path, problem.line)) is not None:
            lines += _point_at_column(text, problem.column, colour)
    if is_quiet():
        return "".join(f"{line}\n" for line in lines)
    errors = [problem for problem in problems if not problem.warning]
    rest = f"; {scope.elsewhere_summary}" if scope.elsewhere else ""
    if errors:
        count, paths = pluralize(len(errors), "problem"), sorted({problem.path for problem in errors})
        where = (
            escape_unprintable(reader.format_path(paths[0]), 400) if len(paths) == 1 else pluralize(len(paths), "file")
        )
        lines.append(
            f"{count} in {where} ({scope} read{rest}). Correct {pronoun_for(len(errors))} and run `allot validate` again; `allot explain KIND.spec.FIELD` explains a field."
            f"{_describe_fixes(errors)}"
        )
    else:
        warned = f", {pluralize(len(problems), 'warning')}" if problems else ""
        lines.append(click.style(f"{scope}: fine{warned}", fg="green") + rest)
    return "\n".join(lines) + "\n"


def _describe_fixes(errors: Sequence[Problem]) -> str:
    """Return a sentence with the number of errors that `allot fmt --fix` corrects; empty for none."""
    from allotment.declared.autofix import is_fixable

    count = sum(map(is_fixable, errors))
    them = f"{count} of these" if count < len(errors) else "it" if count == 1 else "all of them"
    return f" `allot fmt --fix` corrects {them}." if count else ""


def _point_at_column(text: str, column: int, colour: str) -> list[str]:
    """Return a file's line, and a caret below `column`. If the line is blank or too long, return an empty list."""
    if not text.strip() or len(text) > MAX_LINE_LENGTH or column > len(text) + 1:
        return []
    from rich.cells import cell_len

    width = cell_len(escape_unprintable(text[: column - 1]))
    return [f"    {escape_unprintable(text)}", f"    {' ' * width}{click.style('^', fg=colour, bold=True)}"]


def as_json(problems: Sequence[Problem], scope: CheckedScope) -> str:
    """Return one JSON object with all problems."""
    from allotment.reports import outputs
    from allotment.reports.outputs.validate import ValidateOutput, problem_output

    return outputs.as_json(ValidateOutput(**scope._asdict(), problems=tuple(map(problem_output, problems))))


def as_github(problems: Sequence[Problem], scope: CheckedScope) -> str:
    """Return the problems as workflow commands of GitHub, with special characters escaped."""

    def escaped(text: str, more: str = "") -> str:
        for character in "%\r\n" + more:
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    lines = [
        f"::{'warning' if problem.warning else 'error'} file={escaped(escape_unprintable(problem.path, 400), ':,')},line={problem.line},col={problem.column},"
        f"title={escaped(problem.rule, ':,')}::{escaped(f'{problem.field}: {problem.message}')}\n"
        for problem in problems
    ]
    if scope.elsewhere:
        lines.append(f"::notice title=elsewhere::{escaped(scope.elsewhere_summary)}\n")
    return "".join(lines)


def as_gitlab(problems: Sequence[Problem], scope: CheckedScope) -> str:
    """Return GitLab's code quality report. It is a list of problems, so it has no place for a summary."""
    report = [
        {
            "description": f"{problem.field}: {problem.message}",
            "check_name": problem.rule,
            "fingerprint": hashlib.sha256(
                f"{problem.path}\n{problem.field}\n{problem.rule}\n{problem.message}".encode()
            ).hexdigest(),
            "severity": "minor" if problem.warning else "major",
            "location": {"path": problem.path, "lines": {"begin": problem.line}},
        }
        for problem in problems
    ]
    return json.dumps(report, indent=2) + "\n"


def _sarif_rule(rule: str) -> dict[str, Any]:
    """Return a rule with the text of its manual page, as SARIF."""
    from allotment.reports.rule_pages import rule_pages

    text = " ".join(rule_pages().get(rule, "").split())
    more = {"shortDescription": {"text": text.split(". ")[0].rstrip(".") + "."}, "help": {"text": text}} if text else {}
    return {"id": rule, **more}


def as_sarif(problems: Sequence[Problem], scope: CheckedScope) -> str:
    """Return a SARIF 2.1.0 log."""
    results = [
        {
            "ruleId": problem.rule,
            "level": problem.severity,
            "message": {"text": f"{problem.field}: {problem.message}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _quote_uri(problem.path)},
                        "region": {"startLine": problem.line, "startColumn": problem.column},
                    }
                }
            ],
        }
        for problem in problems
    ]
    driver = {
        "name": "allot",
        "version": VERSION,
        "rules": [_sarif_rule(rule) for rule in sorted({problem.rule for problem in problems})],
    }
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    if scope.elsewhere:
        note = {"level": "note", "message": {"text": scope.elsewhere_summary}}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [note]}]
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _quote_uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


FORMATS: dict[str, Format] = {
    "json": as_json,
    "github": as_github,
    "gitlab": as_gitlab,
    "sarif": as_sarif,
}
