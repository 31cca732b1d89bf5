"""Find the effects on all resources of a cluster if its domain, Gateway or destination changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.gateway import Gateway
from allotment.diff.change_plan import LossOutput
from allotment.manifests import paths

MAX_NAMED_RESOURCES = 3
_ROUTE = b"\nkind: HTTPRoute\n"


class Reachable(NamedTuple):
    """An instance or storage that a cluster has before and after a change.

    `name` is `<tenant>/<name>`. `url_count` is the number of its routes, before or after the change, whichever is
    smaller.
    """

    cluster: str
    kind: str
    name: str
    url_count: int


def find_moved_clusters(before: Catalog, after: Catalog) -> dict[str, tuple[ClusterSpec, ClusterSpec]]:
    """Return the old and the new spec of each cluster that gets another domain, Gateway or destination."""
    ends = {}
    for name in before.clusters.keys() & after.clusters.keys():
        old, new = before.clusters[name].get_singleton(Cluster), after.clusters[name].get_singleton(Cluster)
        if old is not None and new is not None:
            old_spec, new_spec = old.model.spec, new.model.spec
            same = (old_spec.domain, old_spec.gateway, old_spec.destination) == (
                new_spec.domain,
                new_spec.gateway,
                new_spec.destination,
            )
            if not same:
                ends[name] = old_spec, new_spec
    return dict(sorted(ends.items()))


def reachable_resources(
    clusters: Collection[str], before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> Iterator[Reachable]:
    """Yield the instances and storages of a tenant that are in one of `clusters` both before and after a change.

    `before` and `after` are the rendered files of the tenant by `<cluster>/<path>`.
    """
    for path in sorted(before.keys() & after.keys()) if clusters else ():
        cluster, _, inner = path.partition("/")
        tree_path = paths.parse_tree_path(inner)
        if cluster in clusters and tree_path is not None and tree_path.kind in ("instance", "storage"):
            urls = min(before[path].count(_ROUTE), after[path].count(_ROUTE))
            yield Reachable(cluster, tree_path.kind, f"{tree_path.tenant}/{tree_path.resource_name}", urls)


def address_losses(before: Catalog, after: Catalog, resources: Iterable[Reachable]) -> Iterator[LossOutput]:
    """For each cluster that gets a new domain, Gateway or destination, yield the losses of its `resources`, such as URLs.

    Only the field `subject` of a loss contains domains, listeners and destinations, because every report
    shows this field as code. In other text, a report could interpret characters of a name, such as `_`, as markup.
    """
    everything = sorted(resources)
    for name, (old, new) in find_moved_clusters(before, after).items():
        cluster_resources = [resource for resource in everything if resource.cluster == name]
        reached = [resource for resource in cluster_resources if resource.url_count]
        if reached and old.domain != new.domain:
            message = f"changes {_url_count_text(reached)} of {_count_by_kind(reached)}; the old URLs stop working"
            yield LossOutput(
                f"cluster {name}: domain {old.domain} → {new.domain}", f"{message}: {_name_resources(reached)}"
            )
        if reached and _listener_name(old.gateway) != _listener_name(new.gateway):
            message = (
                f"moves {_count_by_kind(reached)} to another listener: they are unreachable until it serves the cluster's domain"
                " and DNS points to it"
            )
            subject = f"cluster {name}: gateway {_listener_name(old.gateway)} → {_listener_name(new.gateway)}"
            yield LossOutput(subject, f"{message}: {_name_resources(reached)}")
        old_proxies, new_proxies = (spec.gateway.effective_proxy_namespace for spec in (old, new))
        if reached and old_proxies != new_proxies:
            subject = f"cluster {name}: proxies of the gateway {old_proxies} → {new_proxies}"
            message = (
                f"makes {_count_by_kind(reached)} unreachable for the gateway unless its proxies run in {new_proxies}"
            )
            yield LossOutput(subject, f"{message}: {_name_resources(reached)}")
        if cluster_resources and old.destination != new.destination:
            message = (
                f"moves {_count_by_kind(cluster_resources)} to another cluster, unless both addresses lead to the same cluster: they start there without data, and"
                " everything on the old cluster stays there"
            )
            subject = f"cluster {name}: destination {_destination_name(old)} → {_destination_name(new)}"
            yield LossOutput(subject, f"{message}: {_name_resources(cluster_resources)}")


def _url_count_text(resources: Iterable[Reachable]) -> str:
    count = sum(resource.url_count for resource in resources)
    return f"{count:,} URL{'' if count == 1 else 's'}"


def _count_by_kind(resources: Iterable[Reachable]) -> str:
    """Return the number of resources of each kind, such as `2 instances and 1 storage`."""
    counts = sorted(Counter(resource.kind for resource in resources).items())
    return " and ".join(f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in counts)


def _name_resources(resources: list[Reachable]) -> str:
    first = ", ".join(f"{resource.kind} {resource.name}" for resource in resources[:MAX_NAMED_RESOURCES])
    return (
        f"{first} and {len(resources) - MAX_NAMED_RESOURCES:,} more" if len(resources) > MAX_NAMED_RESOURCES else first
    )


def _listener_name(gateway: Gateway) -> str:
    return f"{gateway.namespace}/{gateway.name}/{gateway.section_name}"


def _destination_name(spec: ClusterSpec) -> str:
    return spec.destination.name or spec.destination.server or ""
