"""`allot`: the command itself. Commands are imported when they are called, so that `allot --help` is instant."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from allotment import VERSION
from allotment.problems import AllotmentError

COMMANDS = {
    "init": "Write a repository of declarations to begin with.",
    "validate": "Check declarations, and say everything that is wrong at once.",
    "plan": "Show what merging a commit would change.",
    "comment": "Say on the forge what pull requests would change, and how far merges have come.",
    "ownership": "Write who approves what, as the forge reads it.",
    "render": "Write the Kubernetes manifests that the declarations mean.",
    "publish": "Commit the manifests of a commit to the branches that Argo CD syncs.",
    "run": "Publish, report and comment in the background, as a process in a cluster.",
    "report": "Commit what a cluster runs to its status branch.",
    "status": "Show what the clusters run, and why something doesn't.",
    "recover": "Prepare a storage again whose preparation failed.",
    "history": "Show what became of an instance, storage or snapshot, and when.",
    "bootstrap": "Write what Argo CD needs to begin with.",
    "explain": "Show the manual page of a kind or field.",
    "fmt": "Write declarations in their canonical form, comments kept.",
    "schema": "Write JSON Schemas for editors.",
}


class _Commands(click.Group):
    """Finds a command's module by its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"allotment.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="allot")
def allot() -> None:
    """Turn a Git repository of declarations into a GPU cloud.

    Exit status: 0 fine, 1 the declarations are wrong, 2 the command is, 3 Allotment is.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status; what we didn't foresee becomes a report to send, status 3."""
    try:
        code = allot(arguments, standalone_mode=False)  # click gives back what a command's Exit said
        sys.exit(code if isinstance(code, int) else 0)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except AllotmentError as error:
        click.echo(f"allot: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        from allotment.cli.crash import write_report

        click.echo(f"allot: this is a bug of ours, not of your declarations; please send us {write_report()}", err=True)
        sys.exit(3)
