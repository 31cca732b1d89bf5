"""docs/reference/kinds: a page a kind, of the same words as `allot explain`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from click.testing import CliRunner

from allotment.cli.main import allot
from allotment.declared.kinds import KINDS, Kind
from allotment.reports.manual_pages import first_line, manual_page
from allotment.reports.markdown import code_block, code_span, markdown_table
from allotment.reports.outputs.explain import ExplainOutput, FieldOutput
from tests.reference import paragraphs, prose

WHOSE = {"platform": "The platform's", "cluster": "A cluster's", "tenant": "A tenant's"}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path below docs/reference and the text of each kind's page, and of the page that lists them."""
    yield "kinds/index.md", _index()
    for kind in KINDS.values():
        yield f"kinds/{kind.name}.md", _page(kind)


def _index() -> str:
    lines = ["# Kinds", "", "What a repository declares, a file each. `allot explain KIND` shows the same pages.", ""]
    for scope, words in WHOSE.items():
        rows = [
            (f"[{kind.name}]({kind.name}.md)", code_span(kind.path), prose(first_line(kind.model)))
            for kind in KINDS.values()
            if kind.scope == scope
        ]
        lines += [f"## {words}", "", *markdown_table(("Kind", "File", "What it declares"), rows), ""]
    return "\n".join(lines)


def _page(kind: Kind) -> str:
    whole = manual_page(kind.name)
    lines = [f"# {kind.name}", "", paragraphs(whole.description), "", f"File: {code_span(kind.path)}", ""]
    sections = list(_sections(whole))
    below = {section.subject for section in sections}
    for section in sections:
        if section.itself is not None:
            lines += [f"## {section.subject.removeprefix(f'{kind.name}.')}", "", paragraphs(section.description), ""]
        lines += [
            *markdown_table(
                ("Field", "Type", "If absent", "What it says"),
                (_row(section, field, below) for field in section.fields),
            ),
            "",
        ]
    lines += ["## Example", "", code_block(_example(kind).splitlines(), "yaml"), ""]
    return "\n".join(lines)


def _sections(whole: ExplainOutput) -> Iterator[ExplainOutput]:
    """Yield a page, then those of its fields that have fields of their own, each before what lies below it."""
    yield whole
    for field in whole.fields:
        below = manual_page(f"{whole.subject}.{field.name}")
        if below.fields:
            yield from _sections(below)


def _row(of: ExplainOutput, field: FieldOutput, below: Collection[str]) -> tuple[str, str, str, str]:
    """Return a field's row. The type of one that has fields of its own leads to their section."""
    subject = f"{of.subject}.{field.name}"
    absent = "**required**" if field.required else code_span(field.default)
    description = " ".join(
        sentence
        for sentence in (prose(field.description), f"({prose(field.limits)})" if field.limits else "")
        if sentence
    )
    section = subject.split(".", maxsplit=1)[1].replace(".", "").lower()
    type_cell = f"[{code_span(field.type)}](#{section})" if subject in below else code_span(field.type)
    return code_span(field.name), type_cell, absent, description


def _example(kind: Kind) -> str:
    """Return the file of the sample that `allot explain` shows."""
    result = CliRunner().invoke(allot, ["explain", kind.name, "--output", "json"], catch_exceptions=False)
    text: str = json.loads(result.stdout)["example"]
    return text
