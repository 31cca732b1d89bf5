"""`allot instance`: lists, creates, starts, stops, restarts, holds and deletes instances, mounts storages, opens addresses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.adapters.foreign_programs import open_browser
from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_storages, create_resource_completer
from allotment.cli.edit_commands.field_options import require_resource_name
from allotment.cli.edit_commands.instance_create import create
from allotment.cli.edit_commands.instance_targets import FindTargets, target_options
from allotment.cli.lists import instance_list
from allotment.cli.lists.show import show_instance
from allotment.cli.options import find_repository, output_option, repository_option
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.access.pods.addresses import InstanceAddresses
    from allotment.edits.instance_edits import InstanceState
    from allotment.reports.outputs.instance import PortAddressOutput, SshAddressOutput


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List, create, start, stop, restart, hold, delete and open instances, and mount storages in them.

    \b
    Examples:
      allot instance list solo-ada
      allot instance show solo-ada/webui
      allot instance create solo-ada/notebook --cluster eu-1 --gpu-spec l4-quarter --app jupyter
      allot instance stop solo-ada/webui
      allot instance mount solo-ada/webui styles:/styles
      allot instance open solo-ada/webui --ssh
    """


command.add_command(create)
command.add_command(instance_list.command)
command.add_command(show_instance)


@command.command("start")
@target_options
@change_options
def start(*, find_targets: FindTargets, options: ChangeOptions) -> None:
    """Start stopped instances.

    \b
    Examples:
      allot instance start solo-ada/webui
      allot instance start solo-ada/webui --commit
    """
    _set_states(find_targets, "Running", options)


@command.command("stop")
@target_options
@change_options
def stop(*, find_targets: FindTargets, options: ChangeOptions) -> None:
    """Stop instances. They release their units, and their disks are erased. Their storages stay.

    \b
    Examples:
      allot instance stop solo-ada/webui
      allot instance stop solo-ada/webui ml-orbit/notebook --push
      allot instance stop --tenant solo-ada -l team=design
    """
    _set_states(find_targets, "Stopped", options)


@command.command("restart")
@target_options
@change_options
def restart(*, find_targets: FindTargets, options: ChangeOptions) -> None:
    """Restart running instances: the merge replaces their pods. Their disks are erased, and their storages stay.

    The command raises the number in spec.restarts of each instance. Without --state, selectors select running instances.

    \b
    Examples:
      allot instance restart solo-ada/webui
      allot instance restart --tenant solo-ada --state Running --push
    """
    from allotment.edits.instance_edits import restart_instances

    run_change(options, lambda declarations: restart_instances(declarations, find_targets(declarations, ("Running",))))


@command.command("delete")
@target_options
@change_options
def delete(*, find_targets: FindTargets, options: ChangeOptions) -> None:
    """Delete instances: the command removes their files. Their disks are erased, and their storages stay.

    \b
    Examples:
      allot instance delete solo-ada/webui
      allot instance delete --tenant solo-ada --state Stopped --push
    """
    from allotment.edits.instance_edits import delete_instances

    run_change(options, lambda declarations: delete_instances(declarations, find_targets(declarations)))


@command.command("hold")
@target_options
@click.option("--reason", required=True, metavar="TEXT", help="The reason, for the members of the tenant.")
@change_options
def hold(*, find_targets: FindTargets, reason: str, options: ChangeOptions) -> None:
    """Stop instances on behalf of the platform team: their tenants can't start them. Their storages stay.

    Members of a tenant can't remove the hold: the change needs the team `platform` of the Ownership. An instance on hold
    releases its units and costs nothing.

    \b
    Examples:
      allot instance hold solo-ada/webui --reason "It sends spam: write to support" --pr
      allot instance hold --tenant uni-lab --state Running --reason "The exam is over" --push
    """
    from allotment.edits.instance_edits import hold_instances

    run_change(options, lambda declarations: hold_instances(declarations, find_targets(declarations), reason))


@command.command("release")
@target_options
@change_options
def release(*, find_targets: FindTargets, options: ChangeOptions) -> None:
    """End the hold of instances. They start again, unless they are declared as stopped.

    Without --state, selectors select instances on hold.

    \b
    Examples:
      allot instance release solo-ada/webui --pr
      allot instance release --tenant uni-lab --push
    """
    from allotment.edits.instance_edits import release_instances

    run_change(options, lambda declarations: release_instances(declarations, find_targets(declarations, ("OnHold",))))


@command.command("mount")
@click.argument("what", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances"))
@click.argument("storage", metavar="STORAGE:/PATH", shell_complete=complete_storages)
@change_options
def mount(*, what: str, storage: str, options: ChangeOptions) -> None:
    """Mount a storage of the tenant at a path in the container of an instance. A running instance restarts.

    `:ro` after the path mounts the storage read-only.

    \b
    Examples:
      allot instance mount solo-ada/webui styles:/styles
      allot instance mount solo-ada/webui styles:/styles:ro --pr
    """
    from allotment.edits.instance_edits import mount_storage

    instance = require_resource_name(what)
    run_change(options, lambda declarations: mount_storage(declarations, instance, storage))


@command.command("unmount")
@click.argument("what", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances"))
@click.argument("storage", metavar="STORAGE", shell_complete=complete_storages)
@change_options
def unmount(*, what: str, storage: str, options: ChangeOptions) -> None:
    """Unmount a storage from an instance. The files stay on the storage. A running instance restarts.

    \b
    Examples:
      allot instance unmount solo-ada/webui models
      allot instance unmount solo-ada/webui models --pr
    """
    from allotment.edits.instance_edits import unmount_storage

    instance = require_resource_name(what)
    run_change(options, lambda declarations: unmount_storage(declarations, instance, storage))


def _set_states(find_targets: FindTargets, state: InstanceState, options: ChangeOptions) -> None:
    from allotment.edits.instance_edits import set_states

    run_change(options, lambda declarations: set_states(declarations, find_targets(declarations), state))


@command.command("open")
@click.argument("what", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances"))
@click.option("--ssh", "wants_ssh", is_flag=True, help="Print the command that logs in by SSH.")
@click.option("--port", metavar="NAME", help="The port to open. Default: http, or else the first exposed port.")
@click.option("--no-browser", is_flag=True, help="Only print the URL, and open no browser.")
@output_option()
@repository_option
def open_instance(
    *, what: str, wants_ssh: bool, port: str | None, no_browser: bool, style: str, repo: Path | None
) -> None:
    """Open the URL of an instance in a browser, or print the command that logs in by SSH.

    The command prints the URL. If standard output is a terminal, it also opens a browser. It reads only the merged
    declarations of `origin`, because a branch can name other hosts: `allot status TENANT/NAME` shows whether the instance
    runs. Without `origin`, it reads the folder.

    Exit status: 0 success, 2 the instance has no such address.

    \b
    Examples:
      allot instance open solo-ada/webui
      allot instance open solo-ada/webui --port tensorboard --no-browser
      allot instance open solo-ada/webui --ssh
      $(allot instance open solo-ada/webui --ssh) nvidia-smi
      allot instance open solo-ada/webui -o json
    """
    from allotment.access.pods.addresses import find_addresses
    from allotment.branches.declarations_clone import open_merged_source

    if wants_ssh and port is not None:
        raise click.UsageError("--ssh and --port exclude each other: omit one of them")
    tenant, name = require_resource_name(what)
    addresses = find_addresses(open_merged_source(find_repository(repo)), tenant, name)
    if style == "json":
        _print_json(tenant, name, addresses)
    elif wants_ssh:
        ssh = _require_ssh(what, addresses)
        click.echo(ssh.command)
        if ssh.host_key:
            click.echo(f"The key of the host has the fingerprint {ssh.fingerprint}", err=True)
    else:
        url = _choose_url(what, addresses, port).url
        click.echo(url)
        if sys.stdout.isatty() and not no_browser:
            open_browser(url).join(5)


def _require_ssh(what: str, addresses: InstanceAddresses) -> SshAddressOutput:
    if addresses.ssh is not None:
        return addresses.ssh
    if addresses.cluster_has_ssh:
        raise OperationRefused(
            f"{what} has no SSH: write `access: [SSH]` in {addresses.path}, or open a shell by `allot exec {what}`"
        )
    raise OperationRefused(f"the cluster of {what} has no SSH gateway: open a shell by `allot exec {what}`")


def _choose_url(what: str, addresses: InstanceAddresses, port: str | None) -> PortAddressOutput:
    for address in addresses.urls:
        if port in (None, address.port):
            return address
    exposed = ", ".join(address.port for address in addresses.urls) or "none"
    if port is None:
        raise OperationRefused(f"{what} has no URL: write `exposure: Members` at a port in {addresses.path}")
    raise OperationRefused(f"{what} has no exposed port named {quote_value(port)}; its exposed ports: {exposed}")


def _print_json(tenant: str, name: str, addresses: InstanceAddresses) -> None:
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.instance import InstanceOutput

    output = InstanceOutput(tenant=tenant, instance=name, urls=addresses.urls, ssh=addresses.ssh)
    click.echo(as_json(output), nl=False)
