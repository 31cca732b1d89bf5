"""`allot secret create`: declares a secret, and prints the command that writes its value to the secret store."""

from __future__ import annotations

from typing import Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_clusters, complete_tenants
from allotment.cli.edit_commands.field_options import question_options, require_resource_name, table_options
from allotment.edits.option_tables import SECRET_OPTIONS


@click.command("create")
@click.argument("target", metavar="TENANT/NAME", shell_complete=complete_tenants)
@table_options(SECRET_OPTIONS, {"cluster": complete_clusters}, absent="")
@question_options
@change_options
def command(*, target: str, is_confirmed: bool, no_input: bool, options: ChangeOptions, **values: Any) -> None:
    """Declare a secret. Its value stays in the secret store of the cluster, and is never an argument of this command.

    The path of --key is below the path of your tenant in the store. The command prints the path in the store, and the command
    that writes the value there. On a terminal, it shows the new file and the plan of the change, and asks before it writes.

    Exit status: 0 success, 1 you declined, 2 an option is missing or wrong, or the result is invalid. Then nothing is written.

    \b
    Examples:
      allot secret create solo-ada/huggingface --cluster eu-1 --key token
      allot secret create solo-ada/storage --cluster eu-1 --key AWS_ACCESS_KEY_ID=s3#id --key AWS_SECRET_ACCESS_KEY=s3#secret
      allot secret create solo-ada/registry --cluster eu-1 --image-pull --pr
    """
    from allotment.cli.prompts import choose_confirmation, has_terminal
    from allotment.edits.secret_creation import SecretOptions, create_secret

    tenant, name = require_resource_name(target, "solo-ada/huggingface")
    secret = SecretOptions(**values)
    confirm = choose_confirmation(is_interactive=has_terminal(options, no_input=no_input), is_confirmed=is_confirmed)
    run_change(options, lambda declarations: create_secret(declarations, tenant, name, secret), confirm)
