"""`allot lsp`: the language server for editors."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options import choose_day, create_cache_opener, is_quiet, repository_option

if TYPE_CHECKING:
    from allotment.editor.server import ServerOptions


@click.command()
@repository_option
@click.option("--stdio", is_flag=True, expose_value=False, help="Use standard input and output. This is the default.")
def command(repo: Path | None) -> None:
    """Run the language server, which shows problems in an editor while you type.

    An editor starts this command and speaks the Language Server Protocol over standard input and output. The server
    checks open documents before they are saved, completes names, fields and values, shows prices, free units and
    documentation, and offers corrections. It changes no file of the repository and starts no other program. Without
    --repo, it uses the repository around the folder that the editor opens. docs/guides/editor.md has the settings of
    VS Code, Neovim and Helix.

    \b
    Examples:
      allot lsp
      allot lsp --repo ~/gpus
    """
    if sys.stdin.isatty() and not is_quiet():
        click.echo("allot lsp: waits for an editor on standard input; Ctrl-C ends it", err=True)
    from allotment.editor.connection import serve

    # A handler of Python would wait for the thread that reads the next request. The server has nothing to save.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as replies:
        # Only replies may reach the editor: the output of any other code would break the protocol.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(_create_options(repo), sys.stdin.buffer, replies)


def _create_options(repo: Path | None) -> ServerOptions:
    from allotment.editor.server import ServerOptions

    return ServerOptions(
        repository=repo.absolute() if repo is not None else None,
        choose_day=lambda source: choose_day(source, None),
        open_cache=lambda root: create_cache_opener(root, "-editor"),
    )
