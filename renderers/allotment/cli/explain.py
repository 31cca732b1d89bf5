"""`allot explain`: the manual page of a kind, a field, a rule, or a reason of a status."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completing import subjects
from allotment.cli.options import output_option, sample_folder
from allotment.declared.kinds import KINDS

if TYPE_CHECKING:
    from allotment.reports.outputs.explain import ExplainOutput, FieldOutput


INDEXES = ("", "rule", "reason")
_ALL = {
    "": "All kinds.",
    "rule": "All rules, by the id that stands in brackets behind a problem.",
    "reason": "All conditions and reasons that a status has.",
}


@click.command()
@click.argument("words", nargs=-1, metavar="[KIND[.FIELD...] | rule [NAME] | reason [NAME]]", shell_complete=subjects)
@output_option()
def command(words: tuple[str, ...], style: str) -> None:
    """Show the manual page of a kind, a field or a rule, or what a condition or reason of a status means; without
    anything, all kinds.

    \b
    Examples:
      allot explain
      allot explain GPUInstance
      allot explain GPUInstance.spec.storages
      allot explain rule
      allot explain rule packing
      allot explain NoFreeUnit
    """
    subject = " ".join(words)
    if style == "json":
        from allotment.reports import outputs

        click.echo(outputs.as_json(_with_example(subject) if subject not in INDEXES else _index(subject)), nl=False)
    elif subject in INDEXES:
        page = _index(subject)
        width = max(len(one.name) for one in page.fields)
        for one in page.fields:
            click.echo(f"{click.style(one.name.ljust(width), bold=True)}  {_line(one, width)}")
    else:
        _show(_with_example(subject))


def _with_example(subject: str) -> ExplainOutput:
    """Return a subject's page; a kind's with the shortest file of that kind in the sample."""
    import msgspec

    from allotment.reports.manual import page

    found = page(subject)
    if found.itself is not None or not found.file:
        return found
    files = sorted(
        Path(sample_folder()).glob(KINDS[found.subject].pattern), key=lambda path: (path.stat().st_size, path.name)
    )
    text = files[0].read_text(encoding="utf-8") if files else ""
    return msgspec.structs.replace(found, example=text)


def _index(subject: str) -> ExplainOutput:
    """Return a page that lists all kinds, all rules, or all conditions and reasons."""
    from allotment.reports.manual import first_line
    from allotment.reports.outputs.explain import ExplainOutput, FieldOutput
    from allotment.reports.reason_pages import reason_pages
    from allotment.reports.rule_pages import rule_pages

    if subject in INDEXES[1:]:
        pages = rule_pages() if subject == "rule" else reason_pages()
        known = {name: ("", text) for name, text in pages.items()}
    else:
        known = {kind.name: (kind.path, first_line(kind.model)) for kind in KINDS.values()}
    return ExplainOutput(
        subject=subject or "kinds",
        description=_ALL[subject],
        fields=tuple(
            FieldOutput(name=name, type=path, limits="", required=False, default="", description=" ".join(text.split()))
            for name, (path, text) in known.items()
        ),
    )


def _line(one: FieldOutput, width: int) -> str:
    if one.type:
        return f"{one.type.ljust(46)}  {one.description}"
    return textwrap.fill(one.description, 110 - width, subsequent_indent=" " * (width + 2))


def _show(page: ExplainOutput) -> None:
    title, _, name = ("KIND", "", page.subject.split(".")[0]) if page.file else page.subject.partition(" ")
    click.echo(f"{click.style(title.upper().ljust(6), bold=True)}   {name}")
    if page.file:
        click.echo(f"{click.style('FILE', bold=True)}     {page.file}")
    if page.itself is not None:
        click.echo(f"{click.style('FIELD', bold=True)}    {page.subject} {_of(page.itself)}")
    click.echo()
    if page.description:
        click.echo(_indented(page.description) + "\n")
    if page.fields:
        click.echo(click.style("FIELDS", bold=True))
        for one in page.fields:
            click.echo(f"  {click.style(one.name, bold=True)} {_of(one)}")
            if one.description:
                click.echo(textwrap.indent(textwrap.fill(one.description, 92), "      "))
    if page.example:
        click.echo("\n" + click.style("EXAMPLE", bold=True))
        click.echo(textwrap.indent(page.example.rstrip("\n"), "    "))


def _of(one: FieldOutput) -> str:
    """Return a field's type, what else its value keeps to, and what its absence means."""
    absent = (
        click.style(" -required-", fg="red") if one.required else f" (default {one.default})" if one.default else ""
    )
    return f"<{one.type}>{absent}{f'  {one.limits}' if one.limits else ''}"


def _indented(text: str) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(textwrap.indent(textwrap.fill(paragraph, 92), "    ") for paragraph in paragraphs)
