"""Limits the units that a status reports for the pods of an instance to the published units of the instance.

Anyone with write access to a status branch can invent instances and pods. Therefore an instance in a status is ignored
unless our rendered branch or its history contains the instance. The pods of the instance are assumed to hold at most
the units of the newest published manifests in which the instance was running.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from allotment.branches.branch import Branch
from allotment.capacity.oversold_allocation import usage_beyond_claims
from allotment.capacity.units import UnitClaim
from allotment.lifecycle.published_manifests import read_unit_claim
from allotment.manifests import paths
from allotment.manifests.argo_folders import folder_of
from allotment.manifests.yaml_text import Malformed
from allotment.services.publish.observed_state import ObservedState

MAX_COMMITS = 500  # commits of a branch that are searched for an instance's last version
_FOREIGN_FORMAT_ERRORS = (Malformed, LookupError, TypeError, AttributeError, ValueError)


class PodKey(NamedTuple):
    """An instance and the GPUSpec of its pods. The fields are the first fields of a UnitClaim, in the same order."""

    cluster: str
    gpu_spec: str
    tenant: str
    instance: str

    @property
    def file(self) -> str:
        """The path of the instance's file on its cluster's branch."""
        return paths.resource_file(self.tenant, "compute", self.instance)

    @property
    def is_instance(self) -> bool:
        """Whether an instance can have this name. The name comes from a status branch, which may contain any text."""
        tree_path = paths.parse_tree_path(self.file)
        return tree_path is not None and (tree_path.kind, tree_path.resource_name) == ("instance", self.instance)


class PodUnits:
    """The units that pods hold according to the statuses, limited to the published units.

    `published` returns the published claim of an instance in its cluster, or None. `published` is called only if a
    status reports more units than the instance claims or more than were rendered, or if a GPUSpec is oversold.
    """

    def __init__(
        self,
        observed_state: ObservedState,
        branches: Mapping[str, Branch],
        published: Callable[[UnitClaim], UnitClaim | None],
    ) -> None:
        self._branches, self._find_published_claim = branches, published
        keys = {
            PodKey(cluster, gpu_spec, tenant, instance): units
            for tenant, status in sorted(observed_state.tenants.items())
            for (cluster, instance), (gpu_spec, units) in sorted(status.pod_units.items())
            if cluster in branches
        }
        self._reported_units = {key: units for key, units in keys.items() if key.is_instance}
        self._bounded_units: dict[PodKey, int] = {}

    def count_units(self, claim: UnitClaim) -> int:
        """Return the units that the pods of an instance hold; 0 if no status reports any."""
        key = PodKey(*claim[:4])
        if key in self._reported_units and key not in self._bounded_units:
            same = [other for other in self._reported_units if other[:2] == key[:2]]
            self._bound_units(other for other in same if other not in self._bounded_units)
        return self._bounded_units.get(key, 0)

    def find_leaked_claims(self, claims: Iterable[UnitClaim]) -> list[UnitClaim]:
        """Return the units that pods hold beyond the `claims` of their instances."""
        claims = list(claims)
        covered = {PodKey(*claim[:4]): min(claim.units, claim.rendered) for claim in claims}
        uncovered = [key for key, units in self._reported_units.items() if units > covered.get(key, 0)]
        self._bound_units(key for key in uncovered if key not in self._bounded_units)
        bounded_claims = [
            UnitClaim(*key, units, units) for key in sorted(uncovered) if (units := self._bounded_units[key])
        ]
        return usage_beyond_claims(claims, bounded_claims)

    def _bound_units(self, keys: Iterable[PodKey]) -> None:
        """Limit the units of some instances.

        Reads the history of a cluster's branch at most once for all instances of the cluster.
        """
        by_cluster: dict[str, list[PodKey]] = defaultdict(list)
        for key in keys:
            published = self._find_published_claim(UnitClaim(*key, 0, 0))
            most = published.units if published is not None and published.gpu_spec == key.gpu_spec else 0
            self._bounded_units[key] = min(self._reported_units[key], most)
            if self._reported_units[key] > most:
                by_cluster[key.cluster].append(key)
        for cluster, cluster_keys in by_cluster.items():
            for key, units in _find_last_units(self._branches[cluster], cluster_keys).items():
                self._bounded_units[key] = min(self._reported_units[key], max(units, self._bounded_units[key]))


def _find_last_units(branch: Branch, keys: Iterable[PodKey]) -> dict[PodKey, int]:
    """Return the units of each instance in its newest published version with units.

    Leaves out an instance without such a version in the last MAX_COMMITS commits.
    """
    keys_by_folder: dict[str, set[PodKey]] = defaultdict(set)
    for key in keys:
        keys_by_folder[folder_of(key.file)].add(key)
    last: dict[str, str | None] = {}
    units_by_key: dict[PodKey, int] = {}
    for commit in branch.history(MAX_COMMITS):
        for folder, missing in keys_by_folder.items():
            tree = branch.tree_of(commit, folder) if missing else None
            if tree is None or tree == last.get(folder):
                continue
            last[folder], files = tree, branch.listing(commit, folder)
            for key in [key for key in missing if key.file in files]:
                if (units := _read_units(branch, key, files[key.file])) is not None:
                    units_by_key[key] = units
                    missing.discard(key)
        if not any(keys_by_folder.values()):
            break
    return units_by_key


def _read_units(branch: Branch, key: PodKey, blob: str) -> int | None:
    """Return the units in a version of an instance; 0 if the GPUSpec differs, None if the version has no units."""
    try:
        version = read_unit_claim(key.cluster, key.tenant, branch.read_blob(blob))
    except _FOREIGN_FORMAT_ERRORS:  # an older version of Allotment wrote another format
        return None
    if version is None or not version.units:
        return None
    return version.units if version.gpu_spec == key.gpu_spec else 0
