"""`allot cluster add`, `allot pool add` and `allot tariff add`: declare clusters, node pools and tariff plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.completers import complete_clusters
from allotment.cli.edit_commands.field_options import (
    list_choices,
    require_table_options,
    run_field_change,
    table_options,
)
from allotment.edits.option_tables import CLUSTER_OPTIONS, PLAN_OPTIONS, POOL_OPTIONS, list_inputs

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations


@click.command("add")
@click.argument("name", metavar="NAME")
@table_options(CLUSTER_OPTIONS)
@change_options
def add_cluster(*, name: str, options: ChangeOptions, **values: Any) -> None:
    """Declare a Kubernetes cluster.

    The command writes the same file as `allot init`, and prints the values that you have to replace. `allot bootstrap` then
    renders the configuration of Argo CD for all clusters.

    Exit status: 0 success, 2 the cluster exists, or a value is wrong.

    \b
    Examples:
      allot cluster add us-2 --domain us-2.gpu.acme.dev --oidc-issuer https://id.acme.dev
      allot cluster add us-2 --domain us-2.gpu.acme.dev --oidc-issuer https://id.acme.dev --disk-storage-class gp3-delete --pr
    """
    from allotment.edits import cluster_edits

    def build(declarations: Declarations) -> ChangeSet:
        require_table_options(CLUSTER_OPTIONS, values, {})
        return cluster_edits.add_cluster(declarations, name, values)

    run_field_change(options, build, list_inputs(CLUSTER_OPTIONS))


@click.command("add")
@click.argument("target", metavar="CLUSTER/NAME", shell_complete=complete_clusters)
@table_options(POOL_OPTIONS)
@change_options
def add_pool(*, target: str, options: ChangeOptions, **values: Any) -> None:
    """Declare a node pool: identical nodes that exist already.

    `allot stock add` then declares the units that tenants may hold. To share the GPUs, set `sharing` of the pool before, such
    as `allot set NodePool/us-2/l4-nodes sharing.timeSlicing.replicas=4`. For a pool of Karpenter, write the file by hand.

    Exit status: 0 success, 2 the pool exists, or a value is wrong.

    \b
    Examples:
      allot pool add eu-1/l4-more --gpu nvidia-l4 --gpu-count 4 --cpu 46 --memory 190Gi --nodes 2
      allot pool add eu-1/l4-more --gpu nvidia-l4 --gpu-count 4 --cpu 46 --memory 190Gi --nodes 2 --node-selector rack=r7 --push
    """
    from allotment.edits import cluster_edits
    from allotment.edits.declarations import split_cluster_name
    from allotment.edits.spec_edits import list_gpu_models

    cluster, name = split_cluster_name(target)

    def build(declarations: Declarations) -> ChangeSet:
        models = f"a GPU model such as {list_choices(list_gpu_models(declarations))}"
        require_table_options(POOL_OPTIONS, values, {"gpu": models})
        return cluster_edits.add_pool(declarations, cluster, name, values)

    run_field_change(options, build, list_inputs(POOL_OPTIONS))


@click.command("add")
@click.argument("name", metavar="NAME")
@table_options(PLAN_OPTIONS)
@change_options
def add_plan(*, name: str, options: ChangeOptions, **values: Any) -> None:
    """Declare a tariff plan: the quota, the budget and the permitted features of its tenants.

    Exit status: 0 success, 2 the plan exists, or a value is wrong.

    \b
    Examples:
      allot tariff add course --gpu nvidia-l4=1 --instances 2 --storages 2 --storage 100Gi --budget 50 --sharing TimeSlicing
      allot tariff add lab --gpu nvidia-l4=4 --gpu nvidia-h100=8 --instances 20 --storages 20 --storage 10Ti --exposure Members
        --registry ghcr.io/acme/ --pr
    """
    from allotment.edits import plan_edits

    def build(declarations: Declarations) -> ChangeSet:
        require_table_options(PLAN_OPTIONS, values, {})
        return plan_edits.add_plan(declarations, name, values)

    run_field_change(options, build, list_inputs(PLAN_OPTIONS))
