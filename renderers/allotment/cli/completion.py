"""`allot completion`: writes the script with which a shell completes commands, options and names."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS, case_sensitive=False))
def command(shell: str) -> None:
    """Write the completion script of a shell, for commands, options and the names in a repository.

    \b
    Examples:
      allot completion bash > ~/.local/share/bash-completion/completions/allot
      allot completion zsh > ~/.zfunc/_allot
      allot completion fish > ~/.config/fish/completions/allot.fish
    """
    from click.shell_completion import get_completion_class

    from allotment.cli.main import allot

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(allot, {}, "allot", "_ALLOT_COMPLETE").source())
