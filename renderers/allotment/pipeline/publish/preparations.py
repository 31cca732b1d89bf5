"""Which preparations have succeeded, and which may begin: by the clusters' statuses, and by what was published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from allotment.accounts.capacity import Claim
from allotment.adapters.git.branch import Branch
from allotment.changes.volumes import Users
from allotment.manifests import paths
from allotment.manifests.published import claim_of, mounts_of, predecessor_of, prepared_by, unkept_job
from allotment.pipeline.publish.known import NOTHING, Known

MOST_REMEMBERED = 100_000  # of each kind, some 200 bytes each
_claims: dict[tuple[str, str], Claim | None] = {}  # what was published, by path and blob: read once a process
_predecessors: dict[str, str] = {}  # by blob
# By blob: the Job that was seen to have filled a published storage, or one that was published before that was
# written down.
_prepared: dict[str, tuple[str, str]] = {}


class Preparations:
    """What is known of all tenants' preparations, held against what was published."""

    def __init__(self, observed_tenants: Mapping[str, Known], branches: Mapping[str, Branch]) -> None:
        self._known = observed_tenants
        self._branches = branches

    def succeeded(self) -> dict[str, frozenset[tuple[str, str]]]:
        """Return the (cluster, Job) of each tenant that have succeeded; those of a storage's predecessor don't count.

        What a storage was published with stays: a status that is lost, or older, closes nothing that had opened.
        One that says that the volume is another by now does, unless somebody runs on it.
        """
        jobs_by_tenant: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for tenant, observed_tenant in self._known.items():
            for (cluster, storage), attempt in observed_tenant.attempts.items():
                if attempt.succeeded and self._is_its_own(cluster, tenant, storage, attempt.uid):
                    jobs_by_tenant[tenant].add((cluster, attempt.job))
        for cluster, branch in self._branches.items():
            for tenant, storage, job, older in _published_as_prepared(branch):
                if job and not self._is_lost(cluster, tenant, storage, job):
                    jobs_by_tenant[tenant].add((cluster, job))
                elif older and self._had_opened(cluster, tenant, storage):
                    jobs_by_tenant[tenant].add((cluster, older))
        return {tenant: frozenset(jobs) for tenant, jobs in jobs_by_tenant.items()}

    def _is_lost(self, cluster: str, tenant: str, storage: str, job: str) -> bool:
        """Return whether the volume that a Job has filled is known to be gone, and nobody runs on what is there now."""
        attempt = self._known.get(tenant, NOTHING).attempts.get((cluster, storage))
        if attempt is None or not attempt.lost or attempt.job != job:
            return False
        return not self._is_used(cluster, tenant, storage)

    def _had_opened(self, cluster: str, tenant: str, storage: str) -> bool:
        """Return whether a storage was published as prepared before its file said so: somebody runs on it, or its
        share is open."""
        path = paths.namespace_file(tenant)
        branch = self._branches[cluster]
        shared = f"\n  name: share--{storage}\n".encode()
        return self._is_used(cluster, tenant, storage) or (path in branch.files and shared in branch.read(path))

    def _is_used(self, cluster: str, tenant: str, storage: str) -> bool:
        """Return whether an instance was published to run on a storage."""
        folder = f"tenants/{tenant}/compute/"
        published = [f"{cluster}/{path}" for path in self._branches[cluster].files if path.startswith(folder)]
        return any(self._runs(cluster, tenant, instance) for instance in self._mounting(cluster, storage, published))

    def last(self, cluster: str, tenant: str, storage: str) -> str:
        """Return the uid of the Job that last prepared a storage of this name, as far as is known; empty where none
        did."""
        attempt = self._known.get(tenant, NOTHING).attempts.get((cluster, storage))
        return attempt.uid if attempt else ""

    def users(
        self, cluster: str, tenant: str, storage: str, claims: Mapping[str, Claim], published: Iterable[str]
    ) -> Users:
        """Return who keeps a storage from being prepared anew.

        `claims` are what the tenant's instances hold now, by name, `published` the paths of its files.
        """
        observed_tenant = self._known.get(tenant, NOTHING)
        running, stopping = [], []
        for name in self._mounting(cluster, storage, published):
            claim = claims.get(name)
            if claim is not None and claim.cluster == cluster and self._runs(cluster, tenant, name):
                running.append(name)
            elif (cluster, name) in observed_tenant.live or self._runs(cluster, tenant, name):
                stopping.append(name)
        attempt = observed_tenant.attempts.get((cluster, storage))
        jobs = [attempt.job] if attempt is not None else []
        over, is_prune_protected = attempt is not None and attempt.over, attempt is not None and attempt.kept
        return Users(running, stopping, jobs if over else (), jobs if is_prune_protected else ())

    def _mounting(self, cluster: str, storage: str, published: Iterable[str]) -> list[str]:
        branch, instance_names = self._branches[cluster], []
        for path in sorted(published):
            place, _, inner = path.partition("/")
            spot = paths.spot_of(inner) if place == cluster else None
            if spot is not None and spot.kind == "instance" and storage in mounts_of(branch.read(inner)):
                instance_names.append(spot.name)
        return instance_names

    def published(self, claim: Claim) -> Claim | None:
        """Return what an instance was published with in the same cluster; None where it wasn't, or with no units."""
        return self._published_claim(claim.cluster, claim.tenant, claim.instance)

    def _published_claim(self, cluster: str, tenant: str, instance: str) -> Claim | None:
        branch, path = self._branches[cluster], paths.tenant_file(tenant, "compute", instance)
        blob = branch.files.get(path)
        if blob is None:
            return None
        key = f"{cluster}/{path}", blob
        if key not in _claims:
            if len(_claims) >= MOST_REMEMBERED:
                _claims.clear()
            _claims[key] = claim_of(cluster, tenant, branch.read(path))
        return _claims[key]

    def _runs(self, cluster: str, tenant: str, instance: str) -> bool:
        claim = self._published_claim(cluster, tenant, instance)
        return claim is not None and claim.rendered > 0

    def _is_its_own(self, cluster: str, tenant: str, storage: str, uid: str) -> bool:
        """Return whether an attempt is of the storage that is published, or the branch is so new that nothing is."""
        branch = self._branches.get(cluster)
        if branch is None:
            return False
        path = paths.tenant_file(tenant, "storage", storage)
        blob = branch.files.get(path)
        if blob is None:
            return branch.published is None
        if blob not in _predecessors:
            if len(_predecessors) >= MOST_REMEMBERED:
                _predecessors.clear()
            _predecessors[blob] = predecessor_of(branch.read(path))
        return _predecessors[blob] != uid


def _published_as_prepared(branch: Branch) -> Iterator[tuple[str, str, str, str]]:
    """Yield tenant and name of each storage with the Job that it was published as prepared by, and with one that
    was published before that was written down; either is empty. One that is leaving is among them: its volume is
    there.
    """
    storage_spots = {path: spot for path in branch.files if (spot := paths.spot_of(path)) and spot.part == "storage"}
    spots = {path: spot for path, spot in storage_spots.items() if spot.is_of_thing}
    unread = [path for path in spots if branch.files[path] not in _prepared]
    if len(_prepared) + len(unread) > MOST_REMEMBERED:
        _prepared.clear()
        unread = list(spots)
    for path, data in zip(unread, branch.read_all(unread), strict=True):
        job = prepared_by(data)
        _prepared[branch.files[path]] = job, "" if job else unkept_job(data)
    for path, spot in spots.items():
        jobs = _prepared[branch.files[path]]
        if any(jobs):
            yield spot.tenant, spot.name.removesuffix(paths.LEAVING), *jobs
