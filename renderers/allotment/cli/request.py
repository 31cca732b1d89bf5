"""`allot request`: asks for a larger quota, or for units of a GPUSpec, with a reason for the approver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_clusters, complete_gpu_specs, complete_tenants
from allotment.cli.edit_commands.offers import open_offers
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Ask for a larger quota, or for more units of a GPUSpec. The change is the smallest that gives it to a single tenant.

    With --pr, the command opens a pull request with the reason. The owners of the changed files approve it, by default the
    platform team.

    \b
    Examples:
      allot request quota studio-kite gpus.nvidia-l4=12 --reason 'The film needs four more GPUs in June' --pr
      allot request spec studio-kite h100-one --reason 'Fine-tuning of the large model' --pr
    """


def _request_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option("--reason", default="", metavar="TEXT", help="The reason, for the approver. Required.")(
        function
    )
    return click.argument("tenant", metavar="TENANT", shell_complete=complete_tenants)(function)


@command.command("quota")
@_request_options
@click.argument("assignments", metavar="FIELD=VALUE...", nargs=-1)
@change_options
def quota(*, tenant: str, assignments: tuple[str, ...], reason: str, options: ChangeOptions) -> None:
    """Ask for a larger quota: the change sets fields of `spec.quota` of the tenant, which replace those of its plan.

    FIELD is instances, storages, storage, snapshots, or gpus.MODEL. Without FIELD=VALUE, the command only lists the fields
    with their values. `allot catalog --tenant TENANT` shows the unused part of the quota. The command refuses a value below
    the current quota: `allot set Tenant/TENANT quota.FIELD=VALUE` lowers a quota.

    Exit status: 0 success, 2 the field or the value is wrong, or the reason is missing.

    \b
    Examples:
      allot request quota studio-kite gpus.nvidia-l4=12 --reason 'The film needs four more GPUs in June' --pr
      allot request quota solo-ada storage=1Ti storages=8 --reason 'A larger dataset'
    """
    from allotment.edits.tenant_requests import check_reason, request_quota

    text = check_reason(reason) if assignments else ""
    run_change(options, lambda declarations: request_quota(declarations, tenant, assignments, text))


@command.command("spec")
@_request_options
@click.argument("gpu_spec", metavar="GPUSPEC", shell_complete=complete_gpu_specs)
@click.option("--cluster", default="", metavar="NAME", shell_complete=complete_clusters, help="The cluster.")
@click.option("--count", default="1", metavar="NUMBER", help="The number of further units. Default: 1.")
@change_options
def spec(*, tenant: str, gpu_spec: str, cluster: str, count: str, reason: str, options: ChangeOptions) -> None:
    """Ask for more units of a GPUSpec: the change raises the quota of the tenant, or reserves units for it, or both.

    Exit status: 0 success, 2 a name is wrong, the reason is missing, or the tenant can hold the units already.

    \b
    Examples:
      allot request spec studio-kite h100-one --reason 'Fine-tuning of the large model' --pr
      allot request spec studio-kite l4-whole --count 5 --cluster eu-1 --reason 'The film needs five more GPUs'
    """
    from allotment.edits.tenant_requests import SpecRequest, check_reason, request_spec

    text, offers, request = check_reason(reason), open_offers(options), SpecRequest(gpu_spec, cluster, count)

    def build(declarations: Any) -> Any:
        computed = offers.bind(declarations).read(tenant)
        return request_spec(declarations, computed.offers, computed.allowance, request, text)

    run_change(options, build)
