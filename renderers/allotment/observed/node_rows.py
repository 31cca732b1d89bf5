"""Builds the rows of the list of nodes: the recorded nodes of each node pool, with the instances on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from allotment.capacity.cordons import PlannedCordon
from allotment.declared.kinds.node_pool import NodePool
from allotment.observed.resource_rows import InstanceRowOutput
from allotment.observed.status import CapacityUsage
from allotment.output_part import Part


class NodeRowOutput(Part, frozen=True, kw_only=True):
    """A node of a node pool. `since` is its creation time, or the time when the record of its cluster began, if that is later.

    `cordons` are the days and the reasons of the cordons of the node that have not ended. `instances` are the instances with a
    pod on the node, as `<tenant>/<name>`.
    """

    cluster: str
    name: str
    pool: str
    since: str
    cordons: tuple[str, ...]
    instances: tuple[str, ...]


def build_node_rows(
    capacities: Mapping[str, CapacityUsage], instances: Iterable[InstanceRowOutput], cordons: Collection[PlannedCordon]
) -> Iterator[NodeRowOutput]:
    """Yield a row for each node that exists according to `capacities`, which maps clusters to their recorded capacity."""
    instances_by_node: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in instances:
        for node in row.nodes:
            instances_by_node[row.cluster or "", node].add(row.label)
    for cluster in sorted(capacities):
        nodes = [interval for interval in capacities[cluster].usage if interval.kind == NodePool.__name__]
        for interval in sorted(nodes, key=lambda interval: (interval.name, interval.node)):
            yield NodeRowOutput(
                cluster=cluster,
                name=interval.node,
                pool=interval.name,
                since=interval.start_time,
                cordons=tuple(
                    f"{cordon.period}: {cordon.reason}"
                    for cordon in cordons
                    if (cordon.cluster, cordon.pool) == (cluster, interval.name)
                    and cordon.node in (None, interval.node)
                ),
                instances=tuple(sorted(instances_by_node[cluster, interval.node])),
            )
