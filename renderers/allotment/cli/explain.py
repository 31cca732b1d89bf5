"""`allot explain`: shows the manual page of a kind, a field, a rule, or a reason in a status."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import complete_subjects
from allotment.cli.options import find_sample_folder, output_option
from allotment.declared.kinds import KINDS

if TYPE_CHECKING:
    from allotment.reports.outputs.explain import ExplainOutput, FieldOutput


TEXT_WIDTH = 92  # the most columns of a paragraph, even on a wider terminal
INDEXES = ("", "rule", "reason")
_INDEX_TITLES = {
    "": "All kinds.",
    "rule": "All rules by ID. Each problem ends with the ID of its rule in brackets.",
    "reason": "All conditions and reasons in a status.",
}


@click.command()
@click.argument(
    "words", nargs=-1, metavar="[KIND[.FIELD...] | rule [NAME] | reason [NAME]]", shell_complete=complete_subjects
)
@output_option()
def command(words: tuple[str, ...], style: str) -> None:
    """Show the manual page of a kind, a field or a rule, or the meaning of a state, condition or reason of a status; without
    anything, all kinds. The name of a field alone lists the paths of all fields of that name.

    \b
    Examples:
      allot explain
      allot explain GPUInstance
      allot explain GPUInstance.spec.storages
      allot explain startTimeout
      allot explain rule
      allot explain rule packing
      allot explain NoFreeUnit
      allot explain Waiting
    """
    subject = " ".join(words)
    if style == "json":
        from allotment.reports import outputs

        click.echo(outputs.as_json(_read_page(subject) if subject not in INDEXES else _build_index(subject)), nl=False)
    elif subject in INDEXES:
        _print_index(_build_index(subject))
    else:
        _print_page(_read_page(subject))


def _read_page(subject: str) -> ExplainOutput:
    """Return the page of a subject.

    The page of a kind has an example: the shortest file of this kind in the sample cloud.
    """
    import msgspec

    from allotment.reports.manual_pages import manual_page

    subject_page = manual_page(subject)
    if subject_page.itself is not None or not subject_page.file:
        return subject_page
    files = sorted(
        Path(find_sample_folder()).glob(KINDS[subject_page.subject].pattern),
        key=lambda path: (path.stat().st_size, path.name),
    )
    text = files[0].read_text(encoding="utf-8") if files else ""
    return msgspec.structs.replace(subject_page, example=text)


def _build_index(subject: str) -> ExplainOutput:
    """Return a page that lists all kinds, all rules, or all conditions and reasons."""
    from allotment.reports.manual_pages import first_line
    from allotment.reports.outputs.explain import ExplainOutput, FieldOutput
    from allotment.reports.reason_pages import reason_pages
    from allotment.reports.rule_pages import rule_pages

    if subject in INDEXES[1:]:
        pages = rule_pages() if subject == "rule" else reason_pages()
        entries = {name: ("", text) for name, text in pages.items()}
    else:
        entries = {kind.name: (kind.path, first_line(kind.model)) for kind in KINDS.values()}
    return ExplainOutput(
        subject=subject or "kinds",
        description=_INDEX_TITLES[subject],
        fields=tuple(
            FieldOutput(name=name, type=path, limits="", required=False, default="", description=" ".join(text.split()))
            for name, (path, text) in entries.items()
        ),
    )


def _print_index(page: ExplainOutput) -> None:
    """Print one line for each subject. If the terminal is too narrow, print the description below the name."""
    from allotment.reports.sheets import terminal_width

    names, columns = max(len(field.name) for field in page.fields), terminal_width()
    for field in page.fields:
        name = click.style(field.name.ljust(names), bold=True)
        line = _format_line(field, names)
        if columns is None or names + 2 + max(map(len, line.splitlines())) <= columns:
            click.echo(f"{name}  {line}")
        else:
            click.echo(click.style(field.name, bold=True))
            for words in filter(None, (field.type, field.description)):
                click.echo(_fill_paragraph(words, columns, "    "))


def _format_line(field: FieldOutput, width: int) -> str:
    if field.type:
        return f"{field.type.ljust(46)}  {field.description}"
    return textwrap.fill(field.description, 110 - width, subsequent_indent=" " * (width + 2))


def _fill_paragraph(text: str, columns: int | None, indent: str) -> str:
    """Return an indented paragraph. On a terminal, it is at most as wide as the terminal. Words are not split."""
    most = min(columns or sys.maxsize, TEXT_WIDTH + len(indent))
    return textwrap.fill(
        text, most, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _print_page(page: ExplainOutput) -> None:
    from allotment.reports.sheets import terminal_width

    columns = terminal_width()
    title, _, name = ("KIND", "", page.subject.split(".")[0]) if page.file else page.subject.partition(" ")
    click.echo(f"{click.style(title.upper().ljust(6), bold=True)}   {name}")
    if page.file:
        click.echo(f"{click.style('FILE', bold=True)}     {page.file}")
    if page.itself is not None:
        click.echo(
            _wrap_text(f"{click.style('FIELD', bold=True)}    {page.subject} {_describe_field(page.itself)}", columns)
        )
    click.echo()
    if page.description:
        click.echo(_indent_paragraphs(page.description, columns) + "\n")
    if page.fields:
        click.echo(click.style("FIELDS", bold=True))
        for field in page.fields:
            click.echo(_wrap_text(f"  {click.style(field.name, bold=True)} {_describe_field(field)}", columns))
            if field.description:
                click.echo(_fill_paragraph(field.description, columns, "      "))
        if page.file and page.itself is None:
            click.echo(_wrap_text(f"\nThe fields of spec: allot explain {page.subject}.spec", columns))
    if page.example:
        click.echo("\n" + click.style("EXAMPLE", bold=True))
        click.echo(textwrap.indent(page.example.rstrip("\n"), "    "))


def _describe_field(field: FieldOutput) -> str:
    """Return the type of a field, its limits, and its default."""
    absent = (
        click.style(" -required-", fg="red")
        if field.required
        else f" (default {field.default})"
        if field.default
        else ""
    )
    return f"<{field.type}>{absent}{f'  {field.limits}' if field.limits else ''}"


def _wrap_text(text: str, columns: int | None) -> str:
    """Return a styled text in lines of at most `columns` columns, and indent all lines except the first.

    In a pipe, `columns` is None, and the text stays on one line.
    """
    if columns is None:
        return text
    lines, length = [""], 0
    for word in text.split(" "):
        size = len(click.unstyle(word)) + 1
        if length + size - 1 > columns and lines[-1].strip():
            lines, length = [*lines, " " * 7], 7
        lines[-1] += f"{word} "
        length += size
    return "\n".join(line.rstrip() for line in lines)


def _indent_paragraphs(text: str, columns: int | None) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(_fill_paragraph(paragraph, columns, "    ") for paragraph in paragraphs)
