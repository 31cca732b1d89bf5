"""`allot`: the command itself. Commands are imported when they are called, so that `allot --help` is instant."""

from __future__ import annotations

import _thread
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

from allotment import VERSION
from allotment.cli.options import shared_options
from allotment.problems import AllotmentError, quote_value

COMMAND_GROUPS = {
    "Tenants": {
        "validate": "Check declarations, and say everything that is wrong at once.",
        "plan": "Show what merging a change would do.",
        "fmt": "Write declarations in their canonical form, comments kept.",
        "catalog": "Show what is on offer, and what of it a tenant can have now.",
        "status": "Show what is declared, how far it is, and why something doesn't run.",
        "wait": "Wait until something runs, is ready, stopped, prepared or gone.",
        "history": "Show what became of an instance, storage or snapshot, and when.",
        "recover": "Prepare a storage again whose preparation failed.",
    },
    "Platform team": {
        "init": "Write a repository of declarations to begin with.",
        "ownership": "Write who approves what, as the forge reads it.",
        "stock": "Show what stocks hold, keep warm, and how long a node takes to come.",
        "add-on": "Show what clusters run beside Allotment, and pin it to another version.",
    },
    "Operations (SRE)": {
        "bootstrap": "Write what Argo CD needs to begin with.",
        "doctor": "Say what is wrong with a cluster, or with the repository, and what to do.",
    },
    "CI and services": {
        "render": "Write the Kubernetes manifests that the declarations mean.",
        "publish": "Commit the manifests of a commit to the branches that Argo CD syncs.",
        "comment": "Say on the forge what pull requests would change, and how far merges have come.",
        "report": "Commit what a cluster runs to its status branch.",
        "run": "Publish, report and comment in the background, as a process in a cluster.",
    },
    "This program": {
        "explain": "Show the manual page of a kind, a field or a rule.",
        "schema": "Write JSON Schemas for editors.",
        "completion": "Write what a shell needs to complete commands and names.",
    },
}
COMMANDS = {name: words for commands in COMMAND_GROUPS.values() for name, words in commands.items()}


SIGPIPE_STATUS = 141  # as a shell says of SIGPIPE
_OPTION_COMMANDS = {"help": "--help", "version": "--version"}  # what other programs have as commands
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF}


def _walk_commands(command: click.Command) -> Iterator[click.Command]:
    """Yield a command, and those below it."""
    yield command
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _walk_commands(subcommand)


def _suggest_command(name: str) -> str:
    """Return what to call or write instead of a command that is not there."""
    from allotment.cli.verbs import HINTS_BY_VERB
    from allotment.declared.reading import suggest_name

    if name in HINTS_BY_VERB:
        return f": {HINTS_BY_VERB[name]}"
    return f"; did you mean '{_OPTION_COMMANDS[name]}'?" if name in _OPTION_COMMANDS else suggest_name(name, COMMANDS)


class _CommandGroup(click.Group):
    """Finds a command's module by its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"allotment.cli.{cmd_name.replace('-', '_')}").command
        for subcommand in _walk_commands(command):
            if not any("-C" in each.opts for each in subcommand.params):
                subcommand.params += shared_options()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"no command is named {quote_value(name)}{_suggest_command(name)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # who reads it, such as `head`, has read enough
            if _follows_interrupt(error):
                raise KeyboardInterrupt from None
            _discard_output()
            raise click.exceptions.Exit(SIGPIPE_STATUS) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, commands in COMMAND_GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), words) for name, words in commands.items()])


@click.command(cls=_CommandGroup, params=shared_options(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="allot")
@click.pass_context
def allot(context: click.Context) -> None:
    """Turn a Git repository of declarations into a GPU cloud.

    Exit status: 0 fine, 1 the declarations are wrong, 2 the command is, 3 Allotment is, 4 done, with something to
    look at, as the command's own page says.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False  # https://no-color.org


def _discard_output() -> None:
    """Let nothing that is still to be written, when Python ends, say again that it can't be."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_usage_error(error: click.ClickException) -> None:
    """Say what is wrong with the command; a value that a variable gave is told as the variable's."""
    if isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        name = error.param.name or ""
        if error.ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
            envvar = error.param.envvar or f"{error.ctx.auto_envvar_prefix}_{name.upper()}"
            error.param_hint = envvar if isinstance(envvar, str) else " / ".join(envvar)
    error.show()


def _repeat_interrupt(unraisable: Any) -> None:
    """Interrupt once more where a library could do nothing with the first time, instead of telling of it and going on.
    Not before this has returned: whatever is raised in here is lost as well."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        timer = threading.Timer(0.01, _thread.interrupt_main)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def _follows_interrupt(error: BaseException | None, seconds: float = 0.1) -> bool:
    """Return whether an error follows from an interrupt, which ends our child processes too: one that came, or comes within
    so many seconds."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        return True
    return False


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status; what we didn't foresee becomes a report to send, status 3."""
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _repeat_interrupt
    try:
        code = allot(arguments, prog_name="allot", standalone_mode=False)  # click gives back what a command's Exit said
        sys.exit(code if isinstance(code, int) else 0)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        _show_usage_error(error)
        sys.exit(2)
    except AllotmentError as error:
        click.echo(f"allot: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if _follows_interrupt(error, 1):
            sys.exit(130)
        if isinstance(error, OSError) and error.errno in _WRITE_ERRORS:
            _discard_output()
            click.echo(f"allot: {error.filename or 'the output'} can't be written: {error.strerror}", err=True)
            sys.exit(2)
        from allotment.cli.crash import write_report

        click.echo(f"allot: this is a bug of ours, not of your declarations; please send us {write_report()}", err=True)
        sys.exit(3)
