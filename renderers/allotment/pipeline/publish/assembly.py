"""What is published next: the trees of all clusters, put together from what each tenant is rendered to, keeps and
leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from allotment.accounts.capacity import Claim
from allotment.declared.inventory import blob_id
from allotment.manifests.folders import folder_of
from allotment.observed.retention import Retention
from allotment.pipeline.publish.before import Before, Blobs
from allotment.pipeline.publish.rendered import Rendered
from allotment.pipeline.publish.settled import Settled
from allotment.pipeline.render import cluster_files, gate_of, marker_files
from allotment.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from allotment.declared.inventory import Offers
    from allotment.pipeline.publish.turnover import Turnover


class Assembly(NamedTuple):
    """The next release.

    `files` has the blob of every file by cluster and path, `data` the bytes of the files that the last release lacks.
    `kept` are the retained tenants. `waiting`, `leaving`, `held` and `holding` are messages about
    instances that wait for a unit, removals in progress, preparations and node replacements that wait, and pods that
    keep units without a claim. `problems` concern no tenant in particular. `declared` are the tenants that have a
    folder, `rendered` counts the tenants that were rendered now. `traces` has, by tenant, the trace of a bug.
    `retained_clusters` are the clusters that stay as they were published, with their problems.
    `released` are the clusters in which an approval released a deletion that the brake would stop.
    """

    offers: Offers
    files: dict[str, Blobs]
    data: dict[str, dict[str, bytes]]
    kept: dict[str, Retention]
    waiting: list[str]
    leaving: list[str]
    held: list[str]
    holding: list[str]
    problems: list[Problem]
    declared: frozenset[str]
    rendered: int
    traces: Mapping[str, str] = MappingProxyType({})
    released: frozenset[str] = frozenset()
    retained_clusters: Mapping[str, list[Problem]] = MappingProxyType({})


class ClusterTrees:
    """The files of all clusters, taken one after the other: blobs by cluster and path, bytes of those that weren't
    published so."""

    def __init__(self, offers: Offers, published_trees: Before) -> None:
        self._offers, self._before = offers, published_trees
        self.gate = gate_of(offers)
        # By cluster: the tenants' folders that hold something else than their tenant was rendered to.
        self._touched: dict[str, set[str]] = defaultdict(set)
        self.files: dict[str, Blobs] = {name: {} for name in offers.clusters}
        self.data: dict[str, dict[str, bytes]] = {name: {} for name in offers.clusters}

    def take_tenant(self, rendered: Rendered | None, tenant_transition: Settled) -> None:
        """Add a tenant's rendered files, and its published files that stay or change. Raises IsolationBroken, and adds
        nothing, where the gate refuses a file."""
        stays = self.check(tenant_transition)
        if rendered is not None:
            for path, blob in rendered.blobs.items():
                if path in tenant_transition.unnamed:
                    continue
                cluster, _, inner = path.partition("/")
                self.files[cluster][inner] = blob
                if path in rendered.data:
                    self.data[cluster][inner] = rendered.data[path]
        for path, data in (*tenant_transition.follows.items(), *stays.items()):
            self._put(path, data)

    def check(self, tenant_transition: Settled) -> dict[str, bytes]:
        """Return a tenant's files that stay, as the gate lets them. Raises IsolationBroken where it refuses a file that
        changes."""
        for path, data in tenant_transition.follows.items():
            self.gate.check(path, data, published=True)
        return {
            path: allowed_data
            for path, data in tenant_transition.stays.items()
            if (allowed_data := self.gate.sift(path, data)[0])
        }

    def read(self, path: str) -> bytes:
        """Return the bytes of a file that was taken."""
        cluster, _, inner = path.partition("/")
        data = self.data[cluster].get(inner)
        return self._before.read(path) if data is None else data

    def take_kept(self, files: Mapping[str, bytes]) -> None:
        """Take a kept tenant's files."""
        for path, data in files.items():
            self._put(path, data)

    def take_clusters(
        self,
        claims: Iterable[Claim],
        letters: Callable[[str], Collection[str]],
        turnover: Turnover | None = None,
    ) -> None:
        """Take the clusters' own files, pools as `turnover` lets them be."""
        for path, data in cluster_files(self._offers, claims, letters):
            self._put(path, data if turnover is None else self._checked(path, data, turnover.settled(path, data)))
        if turnover is None:
            return
        for cluster, files in self.files.items():
            for path, data in list(turnover.remaining(cluster, files)):
                self._put(path, self._checked(path, b"", data))

    def _checked(self, path: str, now: bytes, data: bytes) -> bytes:
        """Return what is published of a file, `data`, checked where it isn't what was rendered `now`."""
        if data != now:
            self.gate.check(path, data, published=True)
        return data

    def take_markers(self) -> None:
        """Take the markers of all folders that hold something else than what their tenant was rendered to, or what
        somebody else wrote there."""
        over = {}
        strayed = {
            name: stray_folders for name in self.files if (stray_folders := self._before.branches[name].strayed())
        }
        expected = self._with_markers() if strayed else {}
        for cluster, folders in strayed.items():
            branch = self._before.branches[cluster]
            if branch.holds(expected[cluster]):
                continue  # the tip is the next publish itself: a push was interrupted
            present_folders = folders & {folder_of(path) for path in self.files[cluster]}
            self._touched[cluster] |= {folder for folder in present_folders if folder.startswith("tenants/")}
            over[cluster] = dict.fromkeys(present_folders, branch.tip or "")
        for path, data in list(marker_files(self._offers, self.files, self._touched, over)):
            self._put(path, data)

    def _with_markers(self) -> dict[str, Blobs]:
        """Return the files of all clusters as they are published where nobody else wrote to a branch."""
        trees = {cluster: dict(files) for cluster, files in self.files.items()}
        for path, data in marker_files(self._offers, self.files, self._touched):
            cluster, _, inner = path.partition("/")
            trees[cluster][inner] = blob_id(data)
        return trees

    def retain_clusters(self, clusters: Iterable[str]) -> None:
        """Keep the whole trees of some clusters as they were published."""
        for cluster in clusters:
            self.files[cluster] = dict(self._before.branches[cluster].files)
            self.data[cluster] = {}

    def _put(self, path: str, data: bytes) -> None:
        cluster, _, inner = path.partition("/")
        if inner.startswith("tenants/"):
            self._touched[cluster].add(folder_of(inner))
        blob = self.files[cluster][inner] = blob_id(data)
        self.data[cluster].pop(inner, None)
        if self._before.blob(path) != blob:
            self.data[cluster][inner] = data
