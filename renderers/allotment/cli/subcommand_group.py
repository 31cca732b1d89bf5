"""A group of subcommands that answers a verb of other command lines with the command of Allotment."""

from __future__ import annotations

import click

from allotment.problems import quote_value

# The answers to verbs of other command lines fit these groups.
_GROUPS_WITH_HINTS = ("instance", "storage", "member", "secret", "node")


class SubcommandGroup(click.Group):
    """A group such as `allot instance`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand. For an unknown subcommand, fail with the answer to the verb, or with a similar name."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            from allotment.cli.main import COMMANDS
            from allotment.cli.verbs import HINTS_BY_VERB
            from allotment.declared.reading import suggest_name

            hint = suggest_name(name, self.commands, len(self.commands))
            if answer := HINTS_BY_VERB.get(f"{ctx.info_name} {name}"):
                hint = f": {answer}"
            elif name in COMMANDS:
                hint = f"; did you mean 'allot {name}'?"
            elif name in HINTS_BY_VERB and ctx.info_name in _GROUPS_WITH_HINTS:
                hint = f": {HINTS_BY_VERB[name]}"
            ctx.fail(f"{ctx.command_path} has no command {quote_value(name)}{hint}")
        return super().resolve_command(ctx, args)
