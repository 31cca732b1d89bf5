"""Bounds the units that a status says pods hold by the units that were published for them.

Anyone who can push to a status branch can write any number of pods. A status therefore counts for an instance of our own
published branch alone, and at most for the units of its last published version that held any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from allotment.accounts.capacity import Claim
from allotment.adapters.git.branch import Branch
from allotment.manifests import paths
from allotment.manifests.published import claim_of
from allotment.pipeline.publish.known import Known

MOST_SEARCHED = 200  # instances of a cluster whose earlier versions are searched: a forged status may name any number
MOST_VERSIONS = 20  # of one instance


def held_by_pods(known: Mapping[str, Known], branches: Mapping[str, Branch]) -> list[Claim]:
    """Return the units that pods hold by the clusters' statuses, as far as they were published, by cluster and tenant."""
    searched: dict[str, list[Claim]] = defaultdict(list)
    for tenant, status in sorted(known.items()):
        for (cluster, instance), (gpu_spec, pods) in sorted(status.holding.items()):
            if cluster in branches and len(searched[cluster]) < MOST_SEARCHED + len(branches[cluster].files):
                searched[cluster].append(Claim(cluster, gpu_spec, tenant, instance, pods, pods))
    return [claim for cluster, claims in sorted(searched.items()) for claim in _bounded(branches[cluster], claims)]


def _bounded(branch: Branch, claims: list[Claim]) -> list[Claim]:
    """Return claims of one cluster with at most their published units, without those that never had any."""
    now = {claim: _published(branch, claim) for claim in claims}
    beyond = [claim for claim in claims if claim.units > now[claim]][:MOST_SEARCHED]
    versions = branch.versions([_file(claim) for claim in beyond]) if beyond else {}
    bounded = []
    for claim in claims:
        most = now[claim]
        if claim.units > most:
            most = max(most, _last_held(branch, claim, versions.get(_file(claim), [])))
        if units := min(claim.units, most):
            bounded.append(claim._replace(units=units, rendered=units))
    return bounded


def _published(branch: Branch, claim: Claim) -> int:
    """Return the units that an instance is published with, 0 where it is not, or with another GPUSpec."""
    file = _file(claim)
    return _units(claim, branch.read(file)) if file in branch.files else 0


def _last_held(branch: Branch, claim: Claim, blobs: list[str]) -> int:
    """Return the units of the newest version of an instance that held any; `blobs` are its versions, the newest first."""
    for blob in blobs[:MOST_VERSIONS]:
        version = claim_of(claim.cluster, claim.tenant, branch.read_blob(blob))
        if version is not None and version.units:
            return version.units if version.gpu_spec == claim.gpu_spec else 0
    return 0


def _units(claim: Claim, data: bytes) -> int:
    published = claim_of(claim.cluster, claim.tenant, data)
    return published.units if published is not None and published.gpu_spec == claim.gpu_spec else 0


def _file(claim: Claim) -> str:
    return paths.tenant_file(claim.tenant, "compute", claim.instance)
