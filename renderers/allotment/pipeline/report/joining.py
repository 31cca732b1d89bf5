"""Joins what is merged, what is published and what the clusters report, thing by thing, as one clone can see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.rendered import SOURCE, look, published_ref
from allotment.adapters.git.retained import RETAINED
from allotment.adapters.git.status import reported_ref
from allotment.conditions import STOPPED
from allotment.declared.inventory import Declared
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.layout import PLATFORM, path_of
from allotment.declared.things import THINGS
from allotment.declared.things import thing_at as thing_of
from allotment.manifests import paths
from allotment.manifests.names import rendered_branch, status_branch
from allotment.observed.joined import Joined
from allotment.observed.rollout import Merged, MergedBlobs, Stage, Thing, stage
from allotment.observed.status import Instance, TenantStatus, Transition
from allotment.pipeline.declared import consoles, publisher_key, reporter_keys
from allotment.pipeline.report.clone import ORIGIN, Clone
from allotment.pipeline.report.retained import LastRecord, last_record
from allotment.pipeline.report.statuses import NEVER, Now, read_history, read_now
from allotment.pipeline.report.things import (
    DeclaredThing,
    cluster_of,
    declared_at,
    is_declared_in,
    published_blobs,
    things_of,
)
from allotment.problems import Refused
from allotment.reports.links import Consoles

Seen = tuple[TenantStatus, Thing]


class Published(NamedTuple):
    """The published release: its source commit, None where it is not known, and each cluster's branch.

    `trouble` says why the source is not known. `never` says that nothing was ever published. `record` is the record of the
    retained tenants.
    """

    source: CommitSource | None
    branches: Mapping[str, Branch]
    trouble: str = ""
    never: bool = False
    record: LastRecord = LastRecord(None, None)

    @property
    def tips(self) -> list[str]:
        """The tips of the branches, the source commit, and the commit of the record."""
        tips = [branch.tip or "" for branch in self.branches.values()]
        return [*tips, self.source.commit if self.source else "", self.record.commit or ""]


class View:
    """Everything as it was at one look. What is published is looked up only where it matters."""

    def __init__(self, clone: Clone, tenant: str | None = None) -> None:
        """Look at a tenant, or at all of them. Raises Refused where a remote doesn't answer."""
        self.clone = clone
        self.declared = clone.declared()
        self.places = clone.places(self.declared)
        self.keys = reporter_keys(self.declared.source)
        self.tenants = sorted({scope.name for scope in self.declared.source.scopes()[0] if scope.kind == "tenant"})
        self._tenant = tenant
        self.now = now = self._reported()
        self._seen: dict[tuple[str, str, str], list[Seen]] = defaultdict(list)
        self._statuses: dict[str, list[TenantStatus]] = defaultdict(list)
        for status in now.tenants:
            self._statuses[status.tenant].append(status)
            for resource_kind in THINGS.values():
                for resource in getattr(status, resource_kind.plural) if resource_kind.reported else ():
                    self._seen[resource_kind.word, status.tenant, resource.name].append((status, resource))

    def _reported(self) -> Now:
        if self.clone.knows(self.places.status):
            keys = sorted(self.keys.items())
            return read_now(self.clone.repository, self.clone.remote(self.places.status), keys, self._tenant)
        words = f"this repository has no remote named {ORIGIN}, which the status branches would lie in"
        return Now([], [], dict.fromkeys(self.keys, words))

    def refs(self) -> dict[str, str]:
        """Return what the refs point at by which a view changes. Nothing is fetched. Raises Refused."""
        clusters = sorted(self.keys)
        wanted = defaultdict[str, list[str]](list)
        if self.declared.branch:
            wanted[ORIGIN].append(f"refs/heads/{self.declared.branch}")
        wanted[self.places.status] += [ref(name) for name in clusters for ref in (status_branch, reported_ref)]
        published = [ref(name) for name in clusters for ref in (rendered_branch, published_ref)]
        wanted[self.places.rendered] += [SOURCE, RETAINED, *published]
        tips = dict[str, str]()
        for url, names in wanted.items():
            if self.clone.knows(url):
                tips |= self.clone.remote(url).look(*names)
        return tips

    def history(self, tenant: str, name: str, cluster: str | None, most: int) -> list[tuple[str, Transition]]:
        """Return the newest changes of state of a tenant, or of one of its things, with their clusters, oldest first."""
        if not self.clone.knows(self.places.status):
            return []
        clusters = [
            (cluster_name, key) for cluster_name, key in sorted(self.keys.items()) if cluster in (None, cluster_name)
        ]
        remote = self.clone.remote(self.places.status)
        return read_history(self.clone.repository, remote, clusters, tenant, name or None, most)

    @property
    def gpu_specs(self) -> list[str]:
        """The GPUSpecs that are declared."""
        folder = path_of(GPUSpec.__name__, PLATFORM, "")
        files = self.declared.source.files(PLATFORM).paths
        return [PurePath(path).stem for path in files if PurePath(path).parent == PurePath(folder).parent]

    @cached_property
    def consoles(self) -> Consoles:
        """The addresses of Argo CD and Grafana."""
        return consoles(self.declared.source)

    @cached_property
    def rows(self) -> list[Joined]:
        """Everything that is declared or seen, by tenant, name and cluster."""
        names = self.tenants if self._tenant is None else [name for name in self.tenants if name == self._tenant]
        spots = [spot for name in names for spot in things_of(self.declared.source, name)]
        rows, row_keys = [], set[tuple[str, str, str, str]]()
        for spot in spots:
            row = self._declared_row(spot)
            rows.append(row)
            row_keys.add((*row.thing[:3], row.thing.cluster))
        for (kind, tenant, name), observations in self._seen.items():
            for status, seen in observations:
                if (kind, tenant, name, status.cluster) not in row_keys:
                    rows.append(self._left_row(Merged(kind, tenant, name, status.cluster, ""), status, seen))
                    row_keys.add((kind, tenant, name, status.cluster))
        rows += [self._removing_row(resource) for resource in self._still_published() if resource[:4] not in row_keys]
        return sorted(rows, key=lambda entry: (entry.thing.tenant, entry.thing.name, entry.thing.cluster))

    def _declared_row(self, spot: DeclaredThing) -> Joined:
        blob = self.declared.source.blob(spot.path) or ""
        observations = self._seen.get((spot.kind, spot.tenant, spot.name), [])
        current = next((observation for observation in observations if observation[1].observed_blob == blob), None)
        if current is not None and is_declared_in(self.declared.source, spot, current[0].cluster):
            status, resource_status = current
            resource = Merged(spot.kind, spot.tenant, spot.name, status.cluster, blob)
            rollout_stage = stage(resource, MergedBlobs(blob, blob), [status])
            row = Joined(
                resource, rollout_stage, resource_status, status, spot.path, getattr(resource_status, "gpu_spec", "")
            )
            if (
                not isinstance(resource_status, Instance)
                or resource_status.replicas
                or resource_status.state == STOPPED
            ):
                return row
            return row._replace(replicas=_replicas(declared_at(self.declared.source, spot.path)))
        declared = declared_at(self.declared.source, spot.path)
        cluster = cluster_of(self.declared.source, declared)
        if not cluster and len(observations) == 1:
            cluster = observations[0][0].cluster  # it can't be read: it is where it was
        resource = Merged(spot.kind, spot.tenant, spot.name, cluster, blob)
        seen: Thing | None = next((candidate for status, candidate in observations if status.cluster == cluster), None)
        spec = declared.model.spec.gpu_spec if declared and isinstance(declared.model, GPUInstance) else ""
        return Joined(
            thing=resource,
            stage=self._stage(resource),
            seen=seen,
            status=self._status(resource),
            path=spot.path,
            gpu_spec=spec or getattr(seen, "gpu_spec", ""),
            replicas=_replicas(declared),
        )

    def _left_row(self, resource: Merged, status: TenantStatus, seen: Thing) -> Joined:
        path = THINGS[resource.kind].declaration(resource.tenant, resource.name)
        return Joined(resource, self._stage(resource), seen, status, path, getattr(seen, "gpu_spec", ""))

    def _still_published(self) -> Iterator[Merged]:
        """Yield the resources that are published, also while they leave, as if nothing declared them."""
        for cluster, branch in self.published.branches.items():
            for path in branch.files:
                spot = paths.spot_of(path)
                kind_and_name = thing_of(spot.part, spot.name.removesuffix(paths.LEAVING)) if spot else None
                if spot is not None and kind_and_name is not None and self._tenant in (None, spot.tenant):
                    yield Merged(kind_and_name[0].word, spot.tenant, kind_and_name[1], cluster, "")

    def _removing_row(self, resource: Merged) -> Joined:
        path = THINGS[resource.kind].declaration(resource.tenant, resource.name)
        return Joined(resource, self._stage(resource), None, self._status(resource), path)

    def _status(self, resource: Merged) -> TenantStatus | None:
        return next(
            (status for status in self._statuses.get(resource.tenant, ()) if status.cluster == resource.cluster), None
        )

    def _stage(self, resource: Merged) -> Stage:
        published = self.published
        if published.source is None:
            return stage(resource, None, ())
        blobs = published_blobs(resource, published.source, published.branches)
        behind = blobs.source != resource.blob and not self.is_behind
        statuses = self._statuses.get(resource.tenant, ())
        rollout_stage = stage(resource, None if behind else blobs, statuses, self.now.troubles)
        if rollout_stage.state == "published" and self.now.troubles.get(resource.cluster) == NEVER:
            return rollout_stage._replace(way_out=reporting(resource.cluster))
        return rollout_stage

    @property
    def kept_tenants(self) -> set[str]:
        """The tenants of which anything declared is published in an older version although its commit is published."""
        return {row.thing.tenant for row in self.rows if row.stage.state == "kept"}

    @property
    def tenant(self) -> str | None:
        """The tenant of the view, None for all tenants."""
        return self._tenant

    @cached_property
    def is_behind(self) -> bool:
        """Whether more is published than this clone knows to be merged. The newest commit of a branch of origin is never
        behind: where that lacks what is published, the branch was rewound."""
        source, declared = self.published.source, self.declared
        if source is None or declared.branch or source.commit == declared.source.commit:
            return False
        return self.clone.repository.is_ancestor(declared.source.commit, source.commit)

    @cached_property
    def published(self) -> Published:
        """What is published."""
        if not self.clone.knows(self.places.rendered):
            return Published(None, {}, f"this repository has no remote named {ORIGIN} to publish to", never=True)
        repository, key = self.clone.repository, publisher_key(self.clone.settings(self.declared))
        try:
            remote_state = look(repository, self.clone.remote(self.places.rendered), self.keys, key)
        except Refused as error:
            return Published(None, {}, str(error))
        if remote_state.source is None:
            return Published(
                None,
                remote_state.branches,
                "nothing was ever published: `allot publish` or `allot run` does it",
                never=True,
            )
        if not repository.has(remote_state.source):
            return Published(None, remote_state.branches, f"commit {remote_state.source}, of which it is, isn't here")
        source = CommitSource(self.clone.root, remote_state.source, repository, like=self.declared.source)
        return Published(
            source, remote_state.branches, record=last_record(repository, remote_state.refs.get(RETAINED), key)
        )

    def where_published(self, tenant: str, name: str, cluster: str | None) -> list[str]:
        """Return the clusters that a thing is published to, also while it leaves."""
        files = {
            paths.tenant_file(tenant, kind.part, f"{kind.stem(name)}{leaving}")
            for kind in THINGS.values()
            for leaving in ("", paths.LEAVING)
        }
        branches = self.published.branches.items()
        return [where for where, branch in branches if cluster in (None, where) and files & branch.files.keys()]


def _replicas(declared: Declared[Declaration] | None) -> int:
    """Return how many replicas an instance declares to run; 0 where it is declared stopped, can't be read, or is none."""
    model = declared.model if declared is not None else None
    return model.spec.replicas if isinstance(model, GPUInstance) and model.spec.state != STOPPED else 0


def reporting(cluster: str) -> str:
    """Return in words what reports a cluster."""
    return f"to have it reported, run `allot run --report {cluster}`, or `allot report --cluster {cluster}` in it"
