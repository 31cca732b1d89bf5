"""Renders tenants and clusters through the gate, in whatever process has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from allotment.accounts.capacity import Claim
    from allotment.declared.inventory import Folder, Offers
    from allotment.manifests.gate.isolation import Gate
    from allotment.pipeline.check.workers import Entrant
    from allotment.readiness.standing import Standing

from allotment.pipeline.check.share import TOO_LONG, Spent, Stopped, TimeShare
from allotment.pipeline.check.tenant_error import rejection_of

M = TypeVar("M")
Keep = Callable[[Iterable[tuple[str, bytes]]], M]


def gate_of(offers: Offers) -> Gate:
    """Return a gate for all clusters that can be read."""
    from allotment.manifests.gate.boundary import Boundary
    from allotment.manifests.gate.isolation import Gate

    return Gate({name: Boundary.of(offers, cluster) for name, cluster in offers.clusters.items() if not cluster.broken})


def check_tenant(gate: Gate, offers: Offers, tenant: Folder, files: Iterable[tuple[str, bytes]]) -> None:
    """Raise IsolationBroken where one of a tenant's files, rendered now, holds anything that it may not have."""
    from allotment.manifests.gate.entitlements import Entitlements

    entitlements: dict[str, Entitlements] = {}
    for path, data in files:
        cluster = path.partition("/")[0]
        if cluster not in entitlements:
            entitlements[cluster] = Entitlements.of(offers, offers.clusters[cluster], tenant)
        gate.check(path, data, entitlements[cluster])


class Renderer(Generic[M]):
    """Renders tenants, and gives each one's files to `keep`, if there are any; what that returns is what is made of
    the tenant.

    Where `clusters` or `tenants` are named, nothing else is rendered. It is used in whatever process has read the
    tenants.
    """

    def __init__(
        self, keep: Keep[M], clusters: frozenset[str] = frozenset(), tenants: frozenset[str] = frozenset()
    ) -> None:
        self._keep, self._clusters, self._tenants = keep, clusters, tenants
        self._gate: tuple[int, Gate] | None = None

    def __call__(self, offers: Offers, some: list[Entrant]) -> list[M | Stopped | None]:
        """Return what was made of each tenant: None of one that has no files, why nothing may be of one that is
        stopped."""
        every = [self._rendered(offers, *render_input) for render_input in some]
        gate = self._gate_of(offers)
        return [self._checked(gate, offers, entrant[0], files) for entrant, files in zip(some, every, strict=True)]

    def _checked(
        self, gate: Gate, offers: Offers, tenant: Folder, files: list[tuple[str, bytes]] | Stopped
    ) -> M | Stopped | None:
        if isinstance(files, Stopped):
            return files
        try:
            check_tenant(gate, offers, tenant, files)
            return self._keep(files) if files else None
        except Exception as error:
            return rejection_of(error)

    def _rendered(
        self, offers: Offers, tenant: Folder, standing: Standing, share: TimeShare
    ) -> list[tuple[str, bytes]] | Stopped:
        from allotment.declared.placement import clusters_of
        from allotment.manifests.tree import render_tenant

        try:
            wanted = not self._tenants or tenant.name in self._tenants
            wanted = wanted and all(name in offers.clusters for name in clusters_of(tenant))
            with share.taken():
                files = render_tenant(offers, tenant, standing, self._clusters or None) if wanted else ()
                return list(share.through(files))
        except Spent:
            return TOO_LONG
        except Exception as error:
            return rejection_of(error)

    def _gate_of(self, offers: Offers) -> Gate:
        """Return this process's gate."""
        if self._gate is None or self._gate[0] != os.getpid():
            self._gate = os.getpid(), gate_of(offers)
        return self._gate[1]


def cluster_files(
    offers: Offers, claims: Iterable[Claim], letters: Callable[[str], Collection[str]], only: Collection[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """Yield the clusters' own files, `<cluster>/<path>`; `letters` returns the first letters of a cluster's tenants."""
    from allotment.accounts.capacity import placeholders
    from allotment.manifests.tree import render_cluster

    gate, counts = gate_of(offers), placeholders(offers, claims)
    for name, cluster in offers.clusters.items():
        if not only or name in only:
            for path, data in render_cluster(offers, cluster, frozenset(letters(name)), counts):
                gate.check(path, data)
                yield path, data


def marker_files(
    offers: Offers,
    trees: Mapping[str, Mapping[str, str]],
    touched: Mapping[str, Collection[str]] | None = None,
    over: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Yield the markers of all clusters' own folders, and of the tenants' folders that were `touched`,
    `<cluster>/<path>`.

    `trees` has each cluster's whole tree, the blob of every file by its path, `over` the foreign commit that is
    replaced, by cluster and folder. Raises IsolationBroken where not exactly one Application reads each file.
    """
    from allotment.manifests import folders

    gate = gate_of(offers)
    for cluster, files in trees.items():
        wanted = folders.of_platform(files) | set((touched or {}).get(cluster, ()))
        markers = dict(folders.markers(cluster, wanted, files, (over or {}).get(cluster)))
        for path, data in markers.items():
            gate.check(f"{cluster}/{path}", data)
            yield f"{cluster}/{path}", data
        gate.check_tree(cluster, files.keys() | markers.keys())
