"""`allot`: the command line. It imports the module of a command only when the command is called, for speed."""

from __future__ import annotations

import _thread
import atexit
import gc
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, NoReturn, TextIO

import click
from click.core import ParameterSource

from allotment import VERSION
from allotment.adapters.git.object_reader import closing_readers
from allotment.cli.options import shared_options
from allotment.cli.system_errors import explain_os_error, prepare_streams
from allotment.problems import AllotmentError, hide_secrets, quote_value

COMMAND_GROUPS = {
    "Tenants": {
        "validate": "Check declarations and report all problems at once.",
        "plan": "Show the effects of merging a change.",
        "fmt": "Format declarations. Comments stay.",
        "catalog": "Show GPU specs, storage specs and apps, and their availability for a tenant.",
        "status": "Show the state of declared resources, with the reason if one does not run.",
        "wait": "Wait until a resource is running, ready, stopped, prepared or gone.",
        "logs": "Print the log of an instance, or of the preparation of a storage.",
        "exec": "Run a command or a shell in the container of an instance.",
        "instance": "List, start, stop and open instances.",
        "storage": "List storages, and copy files between this computer and a storage.",
        "secret": "List and declare secrets. Their values stay in a secret store.",
        "member": "List, add and remove the members of tenants.",
        "login": "Log in at the identity provider of a cluster, to call URLs from programs.",
        "set": "Set fields of a declaration.",
        "request": "Ask for a larger quota, or for more units of a GPU spec.",
        "operation": "Show the change that has an operation ID.",
        "history": "Show the changes of state of an instance, storage or snapshot.",
        "recover": "Retry the failed preparation of a storage.",
        "portal": "Build the portal: pages with the catalog, and with the resources and costs of tenants.",
    },
    "Finance": {
        "usage": "Show how long tenants used units, storages and snapshots.",
        "cost": "Show the cost of the declared resources, and the forecast of the month.",
        "bill": "Compute the invoices of a month.",
        "month": "Close the bill of a month, and list and verify closed months.",
    },
    "Platform team": {
        "init": "Create a repository of declarations.",
        "ownership": "Write the file of code owners for the forge.",
        "stock": "Show, search, add and remove stocks, with their units, warm placeholders and cold start times.",
        "cluster": "List and add clusters.",
        "pool": "List and add node pools.",
        "node": "List the nodes of node pools, with their instances.",
        "tariff": "List and add tariff plans, which limit the resources and costs of tenants.",
        "tenant": "List, create, suspend, resume and retire tenants.",
        "app": "List, add, pin and deprecate the apps of the catalog.",
        "spec": "List and add GPU specs, and change their prices and lifecycle.",
        "add-on": "List, declare and upgrade the add-ons of clusters.",
    },
    "Operations (SRE)": {
        "bootstrap": "Write the initial configuration of Argo CD.",
        "doctor": "Diagnose a cluster or the repository, with a remedy for each problem.",
    },
    "CI and services": {
        "render": "Render the declarations to Kubernetes manifests.",
        "publish": "Commit the manifests of a commit to the branches that Argo CD syncs.",
        "comment": "Comment on pull requests with their plans and the rollout of merges.",
        "report": "Report the state of a cluster to its status branch.",
        "ssh-gateway": "Serve SSH for the instances of a cluster.",
        "run": "Publish, report and comment in the background, as a process in a cluster.",
    },
    "This program": {
        "explain": "Show the manual page of a kind, a field or a rule.",
        "schema": "Write JSON Schemas for editors.",
        "lsp": "Run the language server for editors.",
        "completion": "Write the completion script of a shell.",
    },
}
# Most commands end before a garbage collection frees anything; collections after Python's 700 new objects take 30 ms of a
# check of 5,000 tenants.
_COLLECTED_OBJECTS = 100_000
COMMANDS = {name: words for commands in COMMAND_GROUPS.values() for name, words in commands.items()}


SIGPIPE_STATUS = 141  # the exit status that a shell reports for a process that SIGPIPE ended
_OPTION_COMMANDS = {"help": "--help", "version": "--version"}  # some people type these options as commands


def _walk_commands(command: click.Command) -> Iterator[click.Command]:
    """Yield a command and all its subcommands."""
    yield command
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _walk_commands(subcommand)


def _suggest_command(name: str, argument: str) -> str:
    """Return the end of the error message about an unknown command: what to call or write instead.

    `argument` is the first argument of the command. It may be a group, as in `allot add member`.
    """
    from allotment.cli.verbs import HINTS_BY_VERB
    from allotment.declared.reading import suggest_name

    group = allot.get_command(click.Context(allot), argument)
    if isinstance(group, click.Group) and name in group.commands:
        return f"; did you mean 'allot {argument} {name}'?"
    if answer := HINTS_BY_VERB.get(f"{argument} {name}"):
        return f": {answer}"
    if name in HINTS_BY_VERB:
        return f": {HINTS_BY_VERB[name]}"
    hint = f"; did you mean '{_OPTION_COMMANDS[name]}'?" if name in _OPTION_COMMANDS else suggest_name(name, COMMANDS)
    return hint if "did you mean" in hint else ": `allot --help` lists the commands"


def _hint_option(command: str, option: str) -> str:
    """Return the answer to an option of other command lines; empty if there is none."""
    from allotment.cli.verbs import OPTION_HINTS

    return OPTION_HINTS.get((command, option), "")


class _CommandGroup(click.Group):
    """Imports the module of a command when the command is called."""

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
            ctx.fail(f"no command is named {quote_value(name)}{_suggest_command(name, ''.join(args[1:2]))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # the reader of the output, such as `head`, has ended
            if _follows_interrupt(error):
                raise KeyboardInterrupt from None
            _discard_output(sys.stdout)
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

    Exit status: 0 success, 1 the declarations have errors, 2 the command is wrong, 3 a bug in Allotment, 4 succeeded with
    warnings; see the help of the command.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False  # https://no-color.org


def _discard_output(stream: TextIO) -> None:
    """Discard buffered output, so that Python does not report the same write error again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _show_usage_error(error: click.ClickException) -> None:
    """Print a usage error. The error names the environment variable of a wrong value, and answers options of other programs."""
    if isinstance(error, click.BadParameter) and error.ctx is not None and error.param is not None:
        name = error.param.name or ""
        if error.ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
            envvar = error.param.envvar or f"{error.ctx.auto_envvar_prefix}_{name.upper()}"
            error.param_hint = envvar if isinstance(envvar, str) else " / ".join(envvar)
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        _, *words = error.ctx.command_path.split()
        if words and (hint := _hint_option(words[0], error.option_name)):
            error = click.UsageError(f"No such option {quote_value(error.option_name)}: {hint}", error.ctx)
    text = io.StringIO()
    error.show(text)
    click.echo(hide_secrets(text.getvalue()), nl=False, err=True)


def _repeat_interrupt(unraisable: Any) -> None:
    """Repeat an interrupt that arrived in a destructor, or in other code from which Python can't raise an exception.

    By default, Python would report the interrupt and continue. A timer repeats the interrupt after this hook returns,
    because an exception in the hook would be lost too.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        timer = threading.Timer(0.01, _thread.interrupt_main)
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def _follows_interrupt(error: BaseException | None, seconds: float = 0.1) -> bool:
    """Return whether an interrupt caused an error: an interrupt came before the error, or comes within `seconds`.

    An interrupt also ends the child processes. The parent process may receive the error of a child process before it
    notices the interrupt.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    try:
        time.sleep(seconds)
    except KeyboardInterrupt:
        return True
    return False


def _record_interrupts() -> list[int]:
    """Return a list to which Ctrl-C, SIGTERM and SIGHUP append the exit status of the process.

    Each of them raises KeyboardInterrupt, so that the command removes its temporary files. A signal that this process ignores,
    as with nohup, stays ignored. The exception may be lost, because code written in C, such as an import of pydantic, can
    replace it with another exception.
    """
    statuses: list[int] = []
    owner = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT and os.getpid() != owner:
            os._exit(128 + number)  # a forked process has nothing to remove
        statuses.append(128 + number)
        raise KeyboardInterrupt(statuses[0])

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                signal.signal(number, interrupt)
    return statuses


def _disable_pydantic_plugins() -> None:
    """Disable the plugins of pydantic, because none may change how declarations are checked.

    The search for plugins takes 20 ms. Even if it is disabled, pydantic imports a module for it, which imports the
    standard library's modules for e-mail and sockets. An empty module in its place saves 25 ms.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"
    loader = ModuleType("pydantic.plugin._loader")
    loader.__dict__["get_plugins"] = tuple
    sys.modules.setdefault(loader.__name__, loader)


def _run_command(arguments: list[str] | None, statuses: list[int]) -> NoReturn:
    """Run the command line, print its error, and exit. `statuses` are the exit statuses of signals that arrived."""
    try:
        prepare_streams()
        # click returns the exit status of the command
        code = allot(arguments, prog_name="allot", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(next(iter(statuses), 130))
    except click.ClickException as error:
        _show_usage_error(error)
        sys.exit(2)
    except AllotmentError as error:
        click.echo(f"allot: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError):
            from allotment.cli.extras import explain_missing_module

            if message := explain_missing_module(error):
                click.echo(f"allot: {message}", err=True)
                sys.exit(2)
        if statuses or _follows_interrupt(error, 1):
            sys.exit(next(iter(statuses), 130))
        if isinstance(error, OSError) and (message := explain_os_error(error)):
            _discard_output(sys.stdout)
            click.echo(f"allot: {message}", err=True)
            sys.exit(2)
        from allotment.cli.crash import write_report

        click.echo(
            f"allot: this is a bug in Allotment, not in your declarations; please report it with {write_report()}",
            err=True,
        )
        sys.exit(3)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status. On an unexpected exception, write a bug report and exit with 3."""
    _disable_pydantic_plugins()
    gc.set_threshold(_COLLECTED_OBJECTS)
    atexit.register(gc.freeze)  # the last collection would visit all objects, although the process ends
    statuses = _record_interrupts()
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _repeat_interrupt
    try:
        with closing_readers():  # the messages of errors read, too
            _run_command(arguments, statuses)
    except KeyboardInterrupt:  # during the message of an error, or at the end
        sys.exit(next(iter(statuses), 130))
    except OSError:  # an error message can't be written
        _discard_output(sys.stderr)
        sys.exit(2)
