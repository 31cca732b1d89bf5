"""`allot member add` and `remove`: change the people and groups of a tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_members, complete_tenants
from allotment.cli.edit_commands.field_options import (
    RequiredOption,
    read_ssh_keys,
    require_options,
    run_field_change,
)

ROLES = ("Admin", "Member", "Viewer")
_USERS, _GROUPS = "spec.users[]", "spec.groups[]"
INPUTS_BY_FIELD = {
    f"{_USERS}.name": "USER",
    f"{_GROUPS}.name": "USER",
    f"{_USERS}.login": "--login",
    f"{_USERS}.subject": "--subject",
    f"{_USERS}.sshKeys": "--ssh-key",
    "spec": "--ssh-key",  # two people with the same key
}


def identity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that identify a person: its login, its subject and its SSH keys."""
    for option in (
        click.option(
            "--ssh-key",
            "ssh_keys",
            multiple=True,
            metavar="FILE_OR_KEY",
            help="A public key, or the file of a public key. The comment of a key is omitted. Repeatable.",
        ),
        click.option(
            "--subject",
            metavar="SUB",
            help="The `sub` of the person's ID token. Without it, the person can't open Members ports, except by a group.",
        ),
        click.option(
            "--login", metavar="LOGIN", help="The login at the forge, such as ada-k, or ada-k#4711 with its ID."
        ),
    ):
        command = option(command)
    return command


@click.command("add")
@click.argument("tenant", metavar="TENANT", shell_complete=complete_tenants)
@click.argument("name", metavar="USER")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    help="Admin manages the tenant, Member uses its instances, Viewer has read access.",
)
@click.option("--group", "is_group", is_flag=True, help="USER is the name of a group of the identity provider.")
@identity_options
@change_options
def add(
    *,
    tenant: str,
    name: str,
    role: Any,
    is_group: bool,
    login: str | None,
    subject: str | None,
    ssh_keys: tuple[str, ...],
    options: ChangeOptions,
) -> None:
    """Add a person, or a group of the identity provider, to a tenant.

    USER is the name of the person in other files. To change the role of a member, set its field: `allot set
    Members/TENANT users.USER.role=Viewer`.

    Exit status: 0 success, 2 the tenant has this member already, or a value is wrong.

    \b
    Examples:
      allot member add solo-ada ben --role Member --login ben-k#4712 --subject 00u1ben --ssh-key ~/.ssh/id_ed25519.pub
      allot member add studio-kite kite-guests --group --role Viewer --push
    """
    from allotment.edits.member_edits import NewMember, add_member

    wrong = [text for text, value in (("--login", login), ("--subject", subject), ("--ssh-key", ssh_keys)) if value]
    if is_group and wrong:
        raise click.UsageError(f"{wrong[0]}: a group has no login, subject and SSH keys: omit it, or omit --group")
    require_options(RequiredOption("--role", role, ", ".join(ROLES)))
    member = NewMember(name, role, login, subject, read_ssh_keys(ssh_keys), is_group)
    run_field_change(options, lambda declarations: add_member(declarations, tenant, member), INPUTS_BY_FIELD)


@click.command("remove")
@click.argument("tenant", metavar="TENANT", shell_complete=complete_tenants)
@click.argument("name", metavar="USER", shell_complete=complete_members)
@click.option("--group", "is_group", is_flag=True, help="USER is the name of a group of the identity provider.")
@change_options
def remove(*, tenant: str, name: str, is_group: bool, options: ChangeOptions) -> None:
    """Remove a person or a group from a tenant. A tenant keeps an Admin, or a group of Admins.

    Exit status: 0 success, 2 the tenant has no such member, or the member is its last Admin.

    \b
    Examples:
      allot member remove ml-orbit noor
      allot member remove studio-kite kite-clients --group --commit
    """
    from allotment.edits.member_edits import remove_member

    run_change(options, lambda declarations: remove_member(declarations, tenant, name, is_group=is_group))


COMMANDS = (add, remove)
