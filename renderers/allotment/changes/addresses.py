"""What a Cluster's own declaration says of everything in it at once: under which addresses it is reached, and where
it lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.changes.plan import Loss
from allotment.declared.inventory import Offers
from allotment.declared.kinds.cluster import Cluster, ClusterSpec, Gateway
from allotment.manifests import paths

NAMED = 3
_ROUTE = b"\nkind: HTTPRoute\n"


class Reached(NamedTuple):
    """An instance or storage that a cluster has before and after a change; `name` is `<tenant>/<name>`, and `urls` counts
    the routes that lead to it at both ends."""

    cluster: str
    kind: str
    name: str
    urls: int


def clusters_moved(before: Offers, after: Offers) -> dict[str, tuple[ClusterSpec, ClusterSpec]]:
    """Return what both ends declare of each cluster whose domain, Gateway or destination differs."""
    ends = {}
    for name in before.clusters.keys() & after.clusters.keys():
        old, new = before.clusters[name].one(Cluster), after.clusters[name].one(Cluster)
        if old is not None and new is not None:
            was, is_now = old.model.spec, new.model.spec
            same = (was.domain, was.gateway, was.destination) == (is_now.domain, is_now.gateway, is_now.destination)
            if not same:
                ends[name] = was, is_now
    return dict(sorted(ends.items()))


def things_in(clusters: Collection[str], before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[Reached]:
    """Yield what a tenant keeps in some clusters, of its rendered files by `<cluster>/<path>` before and after."""
    for path in sorted(before.keys() & after.keys()) if clusters else ():
        cluster, _, inner = path.partition("/")
        spot = paths.spot_of(inner)
        if cluster in clusters and spot is not None and spot.kind in ("instance", "storage"):
            urls = min(before[path].count(_ROUTE), after[path].count(_ROUTE))
            yield Reached(cluster, spot.kind, f"{spot.tenant}/{spot.thing}", urls)


def addresses_lost(before: Offers, after: Offers, resources: Iterable[Reached]) -> Iterator[Loss]:
    """Yield what each cluster's change of domain, Gateway or destination does to all the things in it; `resources` are
    those of all tenants.

    What is declared stands in `subject`, which every report shows as code, since no rule says what a domain may spell.
    """
    everything = sorted(resources)
    for name, (was, is_now) in clusters_moved(before, after).items():
        cluster_resources = [resource for resource in everything if resource.cluster == name]
        reached = [resource for resource in cluster_resources if resource.urls]
        if reached and was.domain != is_now.domain:
            words = f"changes {_urls(reached)}, of {_counted(reached)}, and nothing answers at the old ones"
            yield Loss(f"cluster {name}: domain {was.domain} → {is_now.domain}", f"{words}: {_named(reached)}")
        if reached and was.gateway != is_now.gateway:
            words = (
                f"takes {_counted(reached)} to another listener: nobody reaches them until it serves the cluster's domain"
                " and DNS leads to it"
            )
            subject = f"cluster {name}: gateway {_listener(was.gateway)} → {_listener(is_now.gateway)}"
            yield Loss(subject, f"{words}: {_named(reached)}")
        if cluster_resources and was.destination != is_now.destination:
            words = (
                f"takes {_counted(cluster_resources)} to another cluster, unless both are the same: they begin there without data, and"
                " what runs now stays behind"
            )
            subject = f"cluster {name}: destination {_destination(was)} → {_destination(is_now)}"
            yield Loss(subject, f"{words}: {_named(cluster_resources)}")


def _urls(resources: Iterable[Reached]) -> str:
    count = sum(resource.urls for resource in resources)
    return f"{count:,} URL{'' if count == 1 else 's'}"


def _counted(resources: Iterable[Reached]) -> str:
    """Return how many things there are of each kind, such as `2 instances and 1 storage`."""
    counts = sorted(Counter(resource.kind for resource in resources).items())
    return " and ".join(f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in counts)


def _named(resources: list[Reached]) -> str:
    first = ", ".join(f"{resource.kind} {resource.name}" for resource in resources[:NAMED])
    return f"{first} and {len(resources) - NAMED:,} more" if len(resources) > NAMED else first


def _listener(gateway: Gateway) -> str:
    return f"{gateway.namespace}/{gateway.name}/{gateway.section_name}"


def _destination(spec: ClusterSpec) -> str:
    return spec.destination.name or spec.destination.server or ""
