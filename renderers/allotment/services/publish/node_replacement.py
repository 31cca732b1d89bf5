"""Delays the replacement of a pool's nodes until every instance in the cluster is protected from node drains.

A PodDisruptionBudget protects the instances of a tenant (`manifests/tenant/disruption.py`). One publish adds it, and a
later publish replaces the nodes. In a cluster with a reporter, a tenant is protected once the status of the cluster
confirms the tenant's PodDisruptionBudget; a lost or untrusted status confirms nothing. In a cluster without a reporter,
a tenant is protected once an earlier publish contains the tenant's PodDisruptionBudget, even if Argo CD has not synced
it. A tenant without published files delays nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.lifecycle.published_manifests import has_disruption_budget, node_template, with_nodes_of
from allotment.manifests import names, paths
from allotment.manifests.yaml_text import Malformed
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.published_trees import PublishedTrees

NODE_POOLS = "platform/node-pools/"
_FOREIGN_FORMAT_ERRORS = (Malformed, LookupError, TypeError, AttributeError)


class HeldPool(NamedTuple):
    """The file of a node pool that keeps its published nodes for now, and a message about the unprotected tenants."""

    path: str
    data: bytes
    message: str


class NodeReplacementGuard:
    """Decides which pools keep their published nodes in one publish."""

    def __init__(
        self,
        catalog: Catalog,
        published_trees: PublishedTrees,
        observed_state: ObservedState,
    ) -> None:
        self._published_trees, self._observed_state = published_trees, observed_state
        self._reported_clusters = {
            name
            for name, cluster in catalog.clusters.items()
            if observed_state.observed_at.get(name) or name in observed_state.troubles or _has_reporter(cluster)
        }
        self._unprotected_tenants: dict[str, dict[str, bool]] = {}

    def hold_template(self, path: str, data: bytes) -> HeldPool | None:
        """Return the pool with its published nodes if the rendered file would replace them too early.

        `path` has the form `<cluster>/<path>`, and `data` is the rendered file. Returns None if the rendered file may
        be published, or if the file belongs to no pool.
        """
        cluster, _, inner = path.partition("/")
        if not _is_pool(inner) or self._published_trees.find_blob(path) is None:
            return None
        published_data = self._published_trees.read_file(path)
        try:
            if node_template(published_data) == node_template(data):
                return None
            message = self._format_pending_replacement(cluster, inner)
            return HeldPool(path, with_nodes_of(data, published_data), message) if message else None
        except _FOREIGN_FORMAT_ERRORS:
            return None  # Allotment did not write the file

    def retain_removed_pools(self, cluster: str, rendered: Collection[str]) -> Iterator[HeldPool]:
        """Yield each pool that is published but no longer rendered, if a tenant in `cluster` is unprotected.

        The removal of a pool would remove the nodes of the pool. `rendered` are the paths of the cluster's rendered
        files.
        """
        branch = self._published_trees.branches[cluster]
        for inner in sorted({inner for inner in branch.files if _is_pool(inner)} - set(rendered)):
            if message := self._format_pending_replacement(cluster, inner):
                yield HeldPool(f"{cluster}/{inner}", branch.read(inner), message)

    def _format_pending_replacement(self, cluster: str, inner: str) -> str:
        """Return the message about a pool that waits for unprotected tenants; empty if all tenants are protected."""
        exposed = self._find_unprotected_tenants(cluster)
        if not exposed:
            return ""
        tenants = ", ".join(list(exposed)[:3]) + (f" and {len(exposed) - 3} more" if len(exposed) > 3 else "")
        message = f"{cluster}: NodePool {paths.file_stem(inner)}: its nodes are not replaced until the instances of {tenants} are"
        if all(exposed.values()):
            return message + (
                f" reported as protected from node drains: check that the Applications {names.platform_application('namespaces-…', cluster)} are"
                " Synced, and that the cluster's reporter is of this version and may list PodDisruptionBudgets"
            )
        return f"{message} protected from node drains; this publish adds the protection, and a later publish replaces the nodes"

    def _find_unprotected_tenants(self, cluster: str) -> dict[str, bool]:
        """Return the unprotected tenants with instances in a cluster.

        The value of a tenant is true if the tenant's PodDisruptionBudget is published, and only the confirmation in the
        status is missing.
        """
        if cluster not in self._unprotected_tenants:
            self._unprotected_tenants[cluster] = {
                tenant: published
                for tenant in sorted(self._published_trees.tenant_files)
                if self._holds_units(cluster, tenant)
                for published in [self._is_pdb_published(cluster, tenant)]
                if not published or self._is_pdb_unobserved(cluster, tenant)
            }
        return self._unprotected_tenants[cluster]

    def _holds_units(self, cluster: str, tenant: str) -> bool:
        return any(claim.cluster == cluster for claim in self._published_trees.read_claims(tenant))

    def _is_pdb_published(self, cluster: str, tenant: str) -> bool:
        file = f"{cluster}/{paths.namespace_file(tenant)}"
        return self._published_trees.find_blob(file) is not None and has_disruption_budget(
            self._published_trees.read_file(file)
        )

    def _is_pdb_unobserved(self, cluster: str, tenant: str) -> bool:
        return (
            cluster in self._reported_clusters and cluster not in self._observed_state.find_tenant(tenant).pdb_clusters
        )


def _has_reporter(cluster: ScopeDeclarations) -> bool:
    declared = cluster.get_singleton(Cluster)
    return declared is not None and declared.model.spec.reporter is not None


def _is_pool(inner: str) -> bool:
    return inner.startswith(NODE_POOLS) and not paths.is_marker(inner)
