"""Bounds the units that a status says pods hold by the units that were published for them.

Anyone who can push to a status branch can write any number of pods. A status therefore counts for an instance of our own
published branch or its history alone, and at most for the units of its last published version that held any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from allotment.accounts.capacity import Claim
from allotment.accounts.grants import beyond
from allotment.adapters.git.branch import Branch
from allotment.manifests import paths
from allotment.manifests.published import claim_of
from allotment.pipeline.publish.known import Known

MOST_SEARCHED = 200  # instances of a cluster whose earlier versions are searched: a forged status may name any number
MOST_VERSIONS = 20  # of one instance


class PodKey(NamedTuple):
    """An instance and the GPUSpec of its pods, as the first fields of a Claim."""

    cluster: str
    gpu_spec: str
    tenant: str
    instance: str


class PodUnits:
    """The units that pods hold by the clusters' statuses, bounded by what was published.

    `published` returns the claim that an instance is published with in its cluster, None where it is not. It is asked only
    where a status says that pods hold more than is claimed, or where a GPUSpec is oversold.
    """

    def __init__(
        self,
        known: Mapping[str, Known],
        branches: Mapping[str, Branch],
        published: Callable[[Claim], Claim | None],
    ) -> None:
        self._branches, self._published = branches, published
        self._seen = {
            PodKey(cluster, gpu_spec, tenant, instance): units
            for tenant, status in sorted(known.items())
            for (cluster, instance), (gpu_spec, units) in sorted(status.holding.items())
            if cluster in branches
        }
        self._bounded: dict[PodKey, int] = {}

    def of(self, claim: Claim) -> int:
        """Return the units that pods of an instance hold, 0 where nothing says so."""
        key = PodKey(*claim[:4])
        if key in self._seen and key not in self._bounded:
            self._bound([key])
        return self._bounded.get(key, 0)

    def beyond(self, claims: Iterable[Claim]) -> list[Claim]:
        """Return the units that pods hold beyond the `claims` of their instances."""
        claims = list(claims)
        covered = {PodKey(*claim[:4]): min(claim.units, claim.rendered) for claim in claims}
        self._bound([key for key, units in self._seen.items() if units > covered.get(key, 0)])
        held = [Claim(*key, units, units) for key, units in sorted(self._bounded.items()) if units]
        return beyond(claims, held)

    def _bound(self, keys: Iterable[PodKey]) -> None:
        """Bound the units of some instances, for each cluster with one look at its history."""
        by_cluster: dict[str, list[PodKey]] = defaultdict(list)
        for key in keys:
            published = self._published(Claim(*key, 0, 0))
            most = published.units if published is not None and published.gpu_spec == key.gpu_spec else 0
            self._bounded[key] = min(self._seen[key], most)
            if self._seen[key] > most:
                by_cluster[key.cluster].append(key)
        for cluster, several in by_cluster.items():
            branch, searched = self._branches[cluster], several[:MOST_SEARCHED]
            versions = branch.versions([_file(key) for key in searched])
            for key in searched:
                most = max(self._bounded[key], _last_held(branch, key, versions.get(_file(key), [])))
                self._bounded[key] = min(self._seen[key], most)


def _last_held(branch: Branch, key: PodKey, blobs: list[str]) -> int:
    """Return the units of the newest version of an instance that held any; `blobs` are its versions, the newest first."""
    for blob in blobs[:MOST_VERSIONS]:
        version = claim_of(key.cluster, key.tenant, branch.read_blob(blob))
        if version is not None and version.units:
            return version.units if version.gpu_spec == key.gpu_spec else 0
    return 0


def _file(key: PodKey) -> str:
    return paths.tenant_file(key.tenant, "compute", key.instance)
