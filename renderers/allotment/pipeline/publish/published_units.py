"""Bounds the units that a status says pods hold by the units that were published for them.

Whoever can push to a status branch can write any number of pods and any name. A status therefore counts for an instance of
our own published branch or its history alone, and at most for the units of its last published version that held any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from allotment.accounts.capacity import Claim
from allotment.accounts.grants import beyond
from allotment.adapters.git.branch import Branch
from allotment.manifests import paths
from allotment.manifests.folders import folder_of
from allotment.manifests.published import claim_of
from allotment.manifests.text import Malformed
from allotment.pipeline.publish.known import Known

MOST_COMMITS = 500  # of a branch that are searched for an instance's last version
_NOT_OURS = (Malformed, LookupError, TypeError, AttributeError, ValueError)


class PodKey(NamedTuple):
    """An instance and the GPUSpec of its pods, as the first fields of a Claim."""

    cluster: str
    gpu_spec: str
    tenant: str
    instance: str

    @property
    def file(self) -> str:
        """The path of the instance's file on its cluster's branch."""
        return paths.tenant_file(self.tenant, "compute", self.instance)

    @property
    def is_instance(self) -> bool:
        """Whether an instance can have that name: a status is read from a branch, which may hold any text."""
        spot = paths.spot_of(self.file)
        return spot is not None and (spot.kind, spot.thing) == ("instance", self.instance)


class PodUnits:
    """The units that pods hold by the clusters' statuses, bounded by the published units.

    `published` returns the claim that an instance is published with in its cluster, None where it is not. It is asked only
    where a status says that pods hold more than is claimed, or where a GPUSpec is oversold.
    """

    def __init__(
        self,
        observed_tenants: Mapping[str, Known],
        branches: Mapping[str, Branch],
        published: Callable[[Claim], Claim | None],
    ) -> None:
        self._branches, self._published = branches, published
        keys = {
            PodKey(cluster, gpu_spec, tenant, instance): units
            for tenant, status in sorted(observed_tenants.items())
            for (cluster, instance), (gpu_spec, units) in sorted(status.holding.items())
            if cluster in branches
        }
        self._seen = {key: units for key, units in keys.items() if key.is_instance}
        self._bounded: dict[PodKey, int] = {}

    def of(self, claim: Claim) -> int:
        """Return the units that pods of an instance hold, 0 where nothing says so."""
        key = PodKey(*claim[:4])
        if key in self._seen and key not in self._bounded:
            same = [other for other in self._seen if other[:2] == key[:2]]
            self._bound(other for other in same if other not in self._bounded)
        return self._bounded.get(key, 0)

    def beyond(self, claims: Iterable[Claim]) -> list[Claim]:
        """Return the units that pods hold beyond the `claims` of their instances."""
        claims = list(claims)
        covered = {PodKey(*claim[:4]): min(claim.units, claim.rendered) for claim in claims}
        uncovered = [key for key, units in self._seen.items() if units > covered.get(key, 0)]
        self._bound(key for key in uncovered if key not in self._bounded)
        held = [Claim(*key, units, units) for key in sorted(uncovered) if (units := self._bounded[key])]
        return beyond(claims, held)

    def _bound(self, keys: Iterable[PodKey]) -> None:
        """Bound the units of some instances, for each cluster with one walk over its history."""
        by_cluster: dict[str, list[PodKey]] = defaultdict(list)
        for key in keys:
            published = self._published(Claim(*key, 0, 0))
            most = published.units if published is not None and published.gpu_spec == key.gpu_spec else 0
            self._bounded[key] = min(self._seen[key], most)
            if self._seen[key] > most:
                by_cluster[key.cluster].append(key)
        for cluster, cluster_keys in by_cluster.items():
            for key, units in _last_held(self._branches[cluster], cluster_keys).items():
                self._bounded[key] = min(self._seen[key], max(units, self._bounded[key]))


def _last_held(branch: Branch, keys: Iterable[PodKey]) -> dict[PodKey, int]:
    """Return the units of the newest published version of each instance that held any, if our newest commits
    have it."""
    wanted: dict[str, set[PodKey]] = defaultdict(set)
    for key in keys:
        wanted[folder_of(key.file)].add(key)
    last: dict[str, str | None] = {}
    units_by_key: dict[PodKey, int] = {}
    for commit in branch.history(MOST_COMMITS):
        for folder, missing in wanted.items():
            tree = branch.tree_of(commit, folder) if missing else None
            if tree is None or tree == last.get(folder):
                continue
            last[folder], files = tree, branch.listing(commit, folder)
            for key in [key for key in missing if key.file in files]:
                if (units := _units(branch, key, files[key.file])) is not None:
                    units_by_key[key] = units
                    missing.discard(key)
        if not any(wanted.values()):
            break
    return units_by_key


def _units(branch: Branch, key: PodKey, blob: str) -> int | None:
    """Return the units of a version of an instance, 0 where they are of another GPUSpec; None where it held none."""
    try:
        version = claim_of(key.cluster, key.tenant, branch.read_blob(blob))
    except _NOT_OURS:  # an older version of Allotment wrote another format
        return None
    if version is None or not version.units:
        return None
    return version.units if version.gpu_spec == key.gpu_spec else 0
