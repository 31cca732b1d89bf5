"""docs/reference/commands.md: every command with its usage, options and examples, as its `--help` says them."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

import click

from allotment.cli.main import COMMANDS, allot
from allotment.cli.options import shared_options
from allotment.reports.markdown import code_block, code_span, markdown_table
from tests.reference import paragraphs, prose

HEAD = """# Commands

`allot COMMAND --help` prints the same text. `allot completion SHELL` lets a shell complete commands, options and the names in
a repository.

## Options of all commands

{shared}

`--repo DIR` or the variable `ALLOT_REPO` names the repository; the default is the repository of the current folder. `-o json`
prints the JSON that [Output](output.md) describes. `NO_COLOR` and `TERM=dumb` turn colors off.

### Exit status

| Status | Meaning |
| --- | --- |
| 0 | success |
| 1 | the declarations have errors; `allot plan`: the change cannot be merged; `allot status --exit-code`: a resource is not as declared; `allot wait`: the state needs somebody's action |
| 2 | the command is wrong, or a file, remote or cluster that it needs is missing |
| 3 | a bug in Allotment; the command writes a report |
| 4 | succeeded with warnings: `allot publish` retained a tenant or a cluster and published the others; `allot plan --detailed-exitcode`: the change can be merged and has an effect |
| 124 | `allot wait`: the time is up |
| 129, 130, 143 | ended by SIGHUP, Ctrl-C or SIGTERM, after it removed its temporary files |

### Cache

`allot validate` and `allot plan` cache the accepted tenants in your cache folder, by the content of their files, and `allot
publish` caches the rendered manifests. The cache changes no result; deleting it costs only time. Do not share the cache
between machines that do not trust each other, and exclude it from the caches of CI: anyone who can write there decides which
files the next check skips.
"""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page's path below docs/reference and its text."""
    context = click.Context(allot, info_name="allot")
    shared = "\n".join(_options(shared_options(), context))
    lines = [HEAD.format(shared=shared)]
    for name in COMMANDS:
        command = allot.get_command(context, name)
        assert command is not None
        lines += _command(command, click.Context(command, info_name=name, parent=context), 2)
    yield "commands.md", "\n".join(lines)


def _command(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    """Yield the lines of a command, then of those below it."""
    about, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    pieces = command.collect_usage_pieces(context)
    yield from (f"{'#' * depth} {context.command_path}", "", paragraphs(about), "")
    yield from (code_block([" ".join([context.command_path, *pieces])], "text"), "")
    known = {option for shared_option in shared_options() for option in shared_option.opts}
    if options := [
        parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and not known & set(parameter.opts)
    ]:
        yield from (*_options(options, context), "")
    if examples:
        yield from (code_block(_examples(examples), "bash"), "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, info_name=name, parent=context), depth + 1)


def _examples(text: str) -> list[str]:
    """Return examples as a shell takes them: a line that goes on ends with a backslash."""
    lines = textwrap.dedent(text).strip("\n").splitlines()
    following = [*(line.startswith(" ") for line in lines[1:]), False]
    return [f"{line} \\" if more else line for line, more in zip(lines, following, strict=True)]


def _options(options: list[click.Option], context: click.Context) -> list[str]:
    help_records = [(option, option.get_help_record(context)) for option in options]
    rows = [
        (code_span(record[0]), prose(record[1]) + _variable(option, record[1]))
        for option, record in help_records
        if record is not None
    ]
    return markdown_table(("Option", "Effect"), rows)


def _variable(option: click.Option, description: str) -> str:
    """Return the environment variable of an option, unless its description names it."""
    if not isinstance(option.envvar, str) or option.envvar in description:
        return ""
    return f" {code_span(f'${option.envvar}')} sets it too."
