"""`allot node cordon`, `drain`, `renew` and `uncordon`: declare and remove cordons of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_clusters, complete_node_pools
from allotment.cli.edit_commands.field_options import read_billing_day, run_field_change, table_options
from allotment.edits.option_tables import CORDON_OPTIONS, RENEWAL_OPTIONS, list_inputs

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations

_node_argument = click.argument("target", metavar="CLUSTER/NODE", shell_complete=complete_clusters)
_cordon_options = table_options(CORDON_OPTIONS, {"pool": complete_node_pools})


@click.command("cordon")
@_node_argument
@_cordon_options
@change_options
def cordon(*, target: str, options: ChangeOptions, **values: Any) -> None:
    """Take a node out of service. Instances stay on the node until they stop; no other instance starts there.

    From the first day on, the stocks of the pool count only the units that fit on the other nodes.

    Exit status: 0 success, 2 the node has a cordon already, the other nodes have too little room, or a value is wrong.

    \b
    Examples:
      allot node cordon eu-1/gpu-l4-03 --pool l4-ts4 --reason "Fan of GPU 2 is loud"
      allot node cordon us-1/ip-10-0-3-7.ec2.internal --pool h100 --reason "New image" --from 2027-03-01 --until 2027-03-03 --pr
    """
    _run_cordon(target, options, values, drain=False)


@click.command("drain")
@_node_argument
@_cordon_options
@change_options
def drain(*, target: str, options: ChangeOptions, **values: Any) -> None:
    """Take a node out of service, and move its instances to other nodes on the first day. Each of them restarts.

    Without options, the command changes the cordon that the node has already.

    Exit status: 0 success, 2 the other nodes have too little room, or a value is wrong.

    \b
    Examples:
      allot node drain eu-1/gpu-l4-03 --pool l4-ts4 --reason "GPU 2 fell off the bus"
      allot node drain eu-1/gpu-l4-02 --pool l4-whole --reason "New driver" --from 2027-03-01 --pr
    """
    _run_cordon(target, options, values, drain=True)


@click.command("renew")
@click.argument("target", metavar="CLUSTER/POOL", shell_complete=complete_clusters)
@table_options(RENEWAL_OPTIONS)
@click.option("--drain", is_flag=True, help="Move the instances of each node on its first day.")
@change_options
def renew(*, target: str, drain: bool, options: ChangeOptions, **values: Any) -> None:
    """Cordon the nodes of a pool in turn, so that each of them can be replaced.

    The nodes are those of the last report of the cluster. A node that has a cordon already is left out.

    Exit status: 0 success, 2 no report has a node of the pool, or a value is wrong.

    \b
    Examples:
      allot node renew us-1/h100 --from 2027-03-01 --days 2
      allot node renew us-1/h100 --from 2027-03-01 --drain --reason "New image" --pr
    """
    from allotment.cli.list_options import open_listing
    from allotment.cli.status_options import open_clone
    from allotment.edits.cordon_edits import renew_nodes
    from allotment.edits.declarations import split_cluster_name

    cluster, pool = split_cluster_name(target)
    listing = open_listing(open_clone(options.repo, options.url)).read()
    nodes = [row.name for row in listing.nodes if (row.cluster, row.pool) == (cluster, pool)]

    def build(declarations: Declarations) -> ChangeSet:
        today = read_billing_day(declarations)
        return renew_nodes(declarations, cluster, pool, nodes, values, today, drain=drain)

    run_field_change(options, build, list_inputs(CORDON_OPTIONS))


@click.command("uncordon")
@_node_argument
@change_options
def uncordon(*, target: str, options: ChangeOptions) -> None:
    """Return a node to service: remove its cordons. A cordon that somebody set with kubectl stays.

    Exit status: 0 success, 2 no cordon names the node.

    \b
    Examples:
      allot node uncordon eu-1/gpu-l4-02
      allot node uncordon eu-1/gpu-l4-02 --pr
    """
    from allotment.edits.cordon_edits import uncordon_node
    from allotment.edits.declarations import split_cluster_name

    cluster, node = split_cluster_name(target)
    run_change(options, lambda declarations: uncordon_node(declarations, cluster, node))


def _run_cordon(target: str, options: ChangeOptions, values: dict[str, Any], *, drain: bool) -> None:
    from allotment.edits.cordon_edits import cordon_node
    from allotment.edits.declarations import split_cluster_name

    cluster, node = split_cluster_name(target)

    def build(declarations: Declarations) -> ChangeSet:
        today = read_billing_day(declarations)
        return cordon_node(declarations, cluster, node, values, today, drain=drain)

    run_field_change(options, build, list_inputs(CORDON_OPTIONS) | {"spec.node": "CLUSTER/NODE"})


COMMANDS = (cordon, drain, renew, uncordon)
