"""Nodes are replaced only where nobody is disturbed: what would drift a pool's nodes waits until each instance of its
cluster was seen to be protected.

The protection is published first (`manifests/tenant/disruption.py`). A cluster that nothing reports says nothing of it:
there it is enough that it was published before.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment.manifests import paths
from allotment.manifests.published import drifting, has_budget
from allotment.manifests.text import Malformed
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.known import NOTHING, Known

NODE_POOLS = "platform/node-pools/"


class Turnover:
    """What becomes of each pool's file in one publish; `held` says in words which pools stay as they were, and for whom."""

    def __init__(self, before: Before, known: Mapping[str, Known], observed: Mapping[str, str]) -> None:
        self._before, self._known, self._observed = before, known, observed
        self._exposed: dict[str, list[str]] = {}
        self.held: list[str] = []

    def settled(self, path: str, data: bytes) -> bytes:
        """Return what is published of a cluster's file, `<cluster>/<path>`: of a pool that would drift too early, what was
        published of it."""
        cluster, _, inner = path.partition("/")
        if not inner.startswith(NODE_POOLS) or paths.is_marker(inner) or self._before.blob(path) is None:
            return data
        was = self._before.read(path)
        try:
            if drifting(was) == drifting(data):
                return data
        except (Malformed, LookupError, TypeError, AttributeError):
            return data  # nothing of ours: there is nothing to keep
        exposed = self._exposed_in(cluster)
        if not exposed:
            return data
        some = ", ".join(exposed[:3]) + (f" and {len(exposed) - 3} more" if len(exposed) > 3 else "")
        self.held.append(
            f"{cluster}: NodePool {paths.stem_of(inner)}: its nodes stay as they are until the instances of {some} are seen"
            " to be protected from drained nodes"
        )
        return was

    def _exposed_in(self, cluster: str) -> list[str]:
        """Return the tenants with instances in a cluster which aren't protected there, sorted."""
        if cluster not in self._exposed:
            self._exposed[cluster] = [
                tenant for tenant in sorted(self._before.tenants) if self._is_exposed(cluster, tenant)
            ]
        return self._exposed[cluster]

    def _is_exposed(self, cluster: str, tenant: str) -> bool:
        if not any(claim.cluster == cluster for claim in self._before.claims(tenant)):
            return False
        file = f"{cluster}/{paths.namespace_file(tenant)}"
        published = self._before.blob(file) is not None and has_budget(self._before.read(file))
        unseen = bool(self._observed.get(cluster)) and cluster not in self._known.get(tenant, NOTHING).undisturbed
        return not published or unseen
