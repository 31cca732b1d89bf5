"""Names the instances on the nodes of each cordon that a change adds, from the last fetched status."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.branches.platform_settings import has_status_at_origin, read_reporter_keys
from allotment.branches.status_reader import CachedNodes, read_cached_nodes
from allotment.declared.inventory import Catalog, DeclarationFile
from allotment.declared.kinds.cordon import Cordon
from allotment.problems import Finding, escape_unprintable, pluralize

NAMED_INSTANCES = 10
ReadNodes = Callable[[str], CachedNodes]


def create_node_reader(repository: Repository, base: CommitSource) -> ReadNodes:
    """Return a function that reads the nodes of a cluster, with their instances, from its last fetched status."""

    def read(cluster: str) -> CachedNodes:
        tenants = [scope.name for scope in base.scopes()[0] if scope.kind == "tenant"]
        key, is_at_origin = read_reporter_keys(base).get(cluster), has_status_at_origin(base)
        return read_cached_nodes(repository, cluster, key, tenants, is_at_origin=is_at_origin)

    return cache(read)


def describe_cordons(before: Catalog, after: Catalog, read_nodes: ReadNodes) -> Iterator[Finding]:
    """Yield a warning for each new or changed cordon with instances on its nodes. The warning names the instances."""
    for name, cluster in after.clusters.items():
        old_cordons: Mapping[str, DeclarationFile[Cordon]] = (
            before.clusters[name].of_kind(Cordon) if name in before.clusters else {}
        )
        for cordon in cluster.of_kind(Cordon).values():
            old, spec = old_cordons.get(cordon.model.name), cordon.model.spec
            if (old is not None and old.model.spec == spec) or spec.has_ended(after.as_of):
                continue
            nodes = read_nodes(name)
            on_nodes = {spec.node} if spec.node is not None else nodes.list_nodes(spec.node_pool)
            instances = sorted({instance for node in on_nodes for instance in nodes.instances.get(node, ())})
            if instances:
                names = ", ".join(map(escape_unprintable, instances[:NAMED_INSTANCES]))
                more = len(instances) - NAMED_INSTANCES
                moves = (
                    f"restarts on another node on {spec.start}" if spec.drain == "Now" else "stays there until it stops"
                )
                message = (
                    f"{pluralize(len(instances), 'instance')} on {pluralize(len(on_nodes), 'node')} of the cordon:"
                    f" {names}{f' and {more} more' if more > 0 else ''}; each of them {moves}"
                )
                yield cordon.make_finding("spec.drain", message, "cordon", warning=True)
