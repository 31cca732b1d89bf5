"""`allot tenant create`, `suspend`, `resume` and `retire`: declare tenants, and change their lifecycle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_plans, complete_tenants
from allotment.cli.edit_commands.field_options import (
    RequiredOption,
    list_choices,
    question_options,
    read_option_rows,
    read_ssh_keys,
    require_options,
    run_field_change,
)
from allotment.cli.edit_commands.member_verbs import INPUTS_BY_FIELD, identity_options
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations
    from allotment.edits.tenant_edits import TenantLifecycle

_INPUTS_BY_FIELD = INPUTS_BY_FIELD | {
    "spec.users[].name": "--admin",
    "spec.groups[].name": "--admin-group",
    "spec.plan": "--plan",
    "spec.displayName": "--display-name",
    "spec.description": "--description",
    "metadata.labels": "--label",
}
_tenants_argument = click.argument(
    "names", metavar="TENANT...", nargs=-1, required=True, shell_complete=complete_tenants
)


@click.command("create")
@click.argument("target", metavar="[NAME]", required=False)
@click.option("--plan", metavar="PLAN", shell_complete=complete_plans, help="The Plan, which sets quota and budget.")
@click.option("--display-name", metavar="TEXT", help="The name that people see.")
@click.option("--description", metavar="TEXT", help="The purpose of the tenant.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label for cost allocation. Repeatable.")
@click.option("--admin", metavar="USER", help="A name for the first Admin, for other files.")
@click.option("--admin-group", metavar="GROUP", help="A group of Admins at the identity provider.")
@identity_options
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Create a tenant for each row: a YAML list (.yaml), or CSV with a header. Columns: name, plan, display-name,"
    " description, label, admin, admin-group, login, subject.",
)
@question_options
@change_options
def create(
    *,
    target: str | None,
    plan: str | None,
    display_name: str | None,
    description: str | None,
    labels: tuple[str, ...],
    admin: str | None,
    admin_group: str | None,
    login: str | None,
    subject: str | None,
    ssh_keys: tuple[str, ...],
    file: Path | None,
    is_confirmed: bool,
    no_input: bool,
    options: ChangeOptions,
) -> None:
    """Declare a tenant with its first Admin: tenant.yaml and members.yaml in a new folder.

    On a terminal, the command asks for the plan and the Admin if they are missing. It shows the new files and the plan of the
    change, and asks before it writes.

    --login, --subject and --ssh-key belong to the person that --admin names. `allot member add` adds more people.

    With --from, the command creates the tenants of all rows in one change, or none if a row has a problem. In a CSV file,
    separate labels by semicolons. --plan applies to each row without a plan.

    Exit status: 0 success, 1 you declined, 2 the tenant exists, or a value is wrong.

    \b
    Examples:
      allot tenant create blue-fox
      allot tenant create blue-fox --plan starter --admin fay --login fay-b#5150 --subject 00u1fay
      allot tenant create gray-owl --plan team --display-name "Gray Owl" --admin-group owl-leads --label costs=4711 --push
      allot tenant create --from tenants.csv --plan starter
    """
    from allotment.cli.prompts import choose_confirmation, complete_options, has_terminal
    from allotment.declared.kinds.tenant import Tenant
    from allotment.declared.layout import Scope
    from allotment.edits.member_edits import NewMember
    from allotment.edits.option_values import OptionParser
    from allotment.edits.tenant_edits import COLUMNS, create_tenant, create_tenants
    from allotment.manifests.yaml_text import without_empty

    is_interactive = has_terminal(options, no_input=no_input)
    confirm = choose_confirmation(is_interactive=is_interactive, is_confirmed=is_confirmed)
    if file is not None:
        values = {"NAME": target, "--display-name": display_name, "--description": description, "--label": labels}
        values |= {"--admin": admin, "--admin-group": admin_group, "--login": login, "--subject": subject}
        rows = read_option_rows(file, COLUMNS, values | {"--ssh-key": ssh_keys})
        run_change(options, lambda declarations: create_tenants(declarations, rows, plan or ""), confirm)
        return
    if target is None:
        raise click.UsageError("name the tenant: add NAME, or --from FILE to create several tenants")
    name = target
    asks_admin = is_interactive and not (admin or admin_group)
    if not (admin or asks_admin) and (login or subject or ssh_keys):
        raise click.UsageError("--login, --subject and --ssh-key belong to a person: add --admin USER")
    keys = read_ssh_keys(ssh_keys)
    asks_questions = asks_admin or (is_interactive and not plan)

    def build(declarations: Declarations) -> ChangeSet:
        nonlocal plan, admin, login, subject, asks_questions
        plans = _list_plans(declarations)
        if plan and plan not in plans:
            from allotment.declared.reading import suggest_name

            raise OperationRefused(f"--plan: no Plan is named {quote_value(plan)}{suggest_name(plan, plans)}")
        if asks_questions:
            from allotment.cli.tenant_questions import TenantAnswers, ask_tenant_options

            path = declarations.create_path(Tenant, Scope("tenant", name), name)
            arguments = TenantAnswers(plan or "", admin or "", login or "", subject or "")
            plan, admin, login, subject = complete_options(
                options, path, arguments, lambda: ask_tenant_options(declarations, arguments, needs_admin=asks_admin)
            )
            asks_questions = False  # each further call uses the same answers
        admins = [NewMember(admin, "Admin", login or None, subject or None, keys)] if admin else []
        if admin_group:
            admins.append(NewMember(admin_group, "Admin", is_group=True))
        require_options(
            RequiredOption("--plan", plan, list_choices(plans)),
            RequiredOption("--admin", admins, "a name such as ada, with --login and --subject; or --admin-group GROUP"),
        )
        spec = without_empty({"displayName": display_name, "description": description, "plan": plan})
        parser = OptionParser()
        pairs = parser.parse_pairs("--label", labels)
        parser.raise_problems()
        return create_tenant(declarations, name, spec, pairs, admins)

    run_field_change(options, build, _INPUTS_BY_FIELD, confirm=confirm)


def _list_plans(declarations: Declarations) -> list[str]:
    from allotment.declared.kinds.plan import Plan

    return declarations.list_names(Plan)


@click.command("suspend")
@_tenants_argument
@change_options
def suspend(*, names: tuple[str, ...], options: ChangeOptions) -> None:
    """Suspend tenants: all their instances stop and release their units. All storages stay.

    \b
    Examples:
      allot tenant suspend solo-ada
      allot tenant suspend solo-ada uni-lab --push
    """
    _set_lifecycles(names, "Suspended", options)


@click.command("resume")
@_tenants_argument
@change_options
def resume(*, names: tuple[str, ...], options: ChangeOptions) -> None:
    """Resume suspended tenants, or withdraw the retirement of tenants that still exist.

    \b
    Examples:
      allot tenant resume solo-ada
      allot tenant resume solo-ada --commit
    """
    _set_lifecycles(names, "Active", options)


@click.command("retire")
@_tenants_argument
@change_options
def retire(*, names: tuple[str, ...], options: ChangeOptions) -> None:
    """Retire tenants. This is the first of the two merges that delete a tenant; the second merge deletes its folder.

    The first merge also sets `deletionPolicy: Delete` in each storage and snapshot of the tenant, as `allot storage delete` does;
    otherwise the second merge is refused. The second merge also deletes the stocks that are reserved for the tenant.

    \b
    Examples:
      allot tenant retire solo-ada
      allot tenant retire solo-ada --push
    """
    _set_lifecycles(names, "Retired", options)


def _set_lifecycles(names: tuple[str, ...], lifecycle: TenantLifecycle, options: ChangeOptions) -> None:
    from allotment.edits.tenant_edits import set_tenant_lifecycles

    run_change(options, lambda declarations: set_tenant_lifecycles(declarations, names, lifecycle))


COMMANDS = (create, suspend, resume, retire)
