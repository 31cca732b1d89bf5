"""Compares live objects with their published manifests, to find edits and additions by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.declared.tenant_resources import TREE_PARTS
from allotment.manifests import names
from allotment.manifests.yaml_text import Malformed, Object
from allotment.observed.api_objects.whole_object import read_compared_fields
from allotment.observed.conditions import seconds_between
from allotment.observed.drift import Difference, find_differences
from allotment.observed.edits import ManualEdit, edit_condition_times
from allotment.observed.objects import PLATFORM_OWNER, LiveObject
from allotment.observed.orphans import OBJECT_KINDS, PublishedObjects
from allotment.observed.status import TenantStatus
from allotment.problems import OperationRefused
from allotment.services.reporter.published_objects import PublishedBranch, PublishedFile

# A difference is reported after it has lasted this long, because one watch may be behind another.
EDIT_DELAY_SECONDS = 30
# If no Application reports that it has synced an object, a difference of the object is reported after it
# has lasted this long, because Argo CD may need the time to apply the published manifest.
UNSYNCED_SECONDS = 300
_ORPHAN_KINDS = frozenset(OBJECT_KINDS.values())  # `observed.orphans` reports objects of these kinds with our label
Identity = tuple[str, str]


class _CachedComparison(NamedTuple):
    """The cached result of a comparison, with the live content and the published file that it compared."""

    content: bytes
    blob: str
    differences: tuple[Difference, ...]


class EditDetector:
    """Finds the differences between the live objects of tenants and of the platform and their published manifests.

    The owner of an object is a tenant or PLATFORM_OWNER. `edits` maps each tenant to the differences that have lasted long enough. `undecided_tenants` are the tenants with
    more recent differences: they must be compared again later. The detector stores no objects, only results and the
    time when each difference was first seen. `platform_revisions` are the commits that the Applications of the platform
    have applied; empty if one of them is not synced.
    """

    def __init__(self, branch: PublishedBranch) -> None:
        self._branch = branch
        self._cached: dict[str, dict[str, _CachedComparison]] = {}  # by tenant, and by the uid of the object
        self._first_seen: dict[str, dict[Identity, str]] = {}  # by tenant and object
        self.edits: dict[str, list[ManualEdit]] = {}
        self.undecided_tenants: set[str] = set()
        self._compared_owners: set[str] = set()
        self.platform_revisions: frozenset[str] = frozenset()

    def clear(self) -> None:
        """Forget everything."""
        for collection in (
            self._cached,
            self._first_seen,
            self.edits,
            self.undecided_tenants,
            self._compared_owners,
        ):
            collection.clear()

    def detect_edits(
        self,
        status: TenantStatus,
        previous: TenantStatus | None,
        objects: Sequence[LiveObject],
        published: PublishedObjects,
        now: str,
    ) -> list[ManualEdit]:
        """Return the differences that have lasted long enough, for the tenant of `status`.

        Raises OperationRefused or Malformed if a published file can't be read.
        """
        tenant = status.tenant
        files = self._branch.list_files(tenant)
        live = _index_by_identity(objects)
        differing = self._find_differences(tenant, live, files, published)
        since, edits = self._first_seen.get(tenant, {}), []
        reported_identities = {(edit.kind, edit.name) for edit in self.edits.get(tenant, ())}
        # An earlier process may have reported these differences. It did not report those that begin later.
        is_first = tenant not in self._compared_owners
        self._compared_owners.add(tenant)
        # Only a later list of the published objects shows whether these objects are published.
        waits = any(_may_be_foreign(live[key]) and live[key].created >= published.time for key in live.keys() - files)
        still: dict[Identity, str] = {}
        for identity, object_differences in differing.items():
            file = files.get(identity)
            resource = _find_resource(file)
            if identity not in since and file is not None and not self._is_applied(status, file):
                waits = True
                continue
            previous_conditions = edit_condition_times(previous, resource) if previous is not None else {}
            condition_type = word.AS_PUBLISHED if object_differences else word.ONLY_PUBLISHED
            reported = previous_conditions.get(condition_type, "") if is_first else ""
            begun = now if object_differences or live[identity].managed else live[identity].created
            still[identity] = first = since.get(identity) or reported or begun
            is_reported = identity in reported_identities or first == reported
            if is_reported or seconds_between(first, now) >= self._find_edit_delay(file, live[identity]):
                edits.append(ManualEdit(tenant, *identity, resource, object_differences, first))
            else:
                waits = True
        self._store_edits(tenant, still, edits, waits=waits)
        return edits

    def detect_edits_now(
        self,
        status: TenantStatus,
        objects: Sequence[LiveObject],
        published: PublishedObjects,
        now: str,
        *,
        is_recent: bool,
    ) -> list[ManualEdit]:
        """Return the current differences of a tenant, even if they have just begun.

        Leaves out the objects of a folder that Argo CD has not applied yet. If the last publish is recent, also leaves
        out each object for which no Application of the tenant reports a sync, because Argo CD may still be applying the
        object. Raises OperationRefused or Malformed if a published file can't be read.
        """
        files = self._branch.list_files(status.tenant)
        live = _index_by_identity(objects)
        edits = []
        for identity, object_differences in self._find_differences(status.tenant, live, files, published).items():
            file = files.get(identity)
            is_applied = file is None or self._is_applied(status, file)
            if is_applied and not (is_recent and self._find_edit_delay(file, live[identity]) == UNSYNCED_SECONDS):
                edits.append(ManualEdit(status.tenant, *identity, _find_resource(file), object_differences, now))
        return edits

    def _store_edits(self, tenant: str, since: dict[Identity, str], edits: list[ManualEdit], *, waits: bool) -> None:
        self.forget_tenant(tenant)
        if since:
            self._first_seen[tenant] = since
        if edits:
            self.edits[tenant] = edits
        if waits:
            self.undecided_tenants.add(tenant)

    def forget_tenant(self, tenant: str) -> None:
        """Forget the differences of a tenant."""
        self._first_seen.pop(tenant, None)
        self.edits.pop(tenant, None)
        self.undecided_tenants.discard(tenant)

    def _find_differences(
        self,
        tenant: str,
        live: Mapping[Identity, LiveObject],
        files: Mapping[Identity, PublishedFile],
        published: PublishedObjects,
    ) -> dict[Identity, tuple[Difference, ...]]:
        """Return the differences of each edited published object, and an empty tuple for each foreign object.

        A foreign object is an object that a person has added. If an object hasn't changed since the last comparison, it
        isn't compared again.
        """
        previous_results = self._cached.get(tenant, {})
        compared: dict[str, _CachedComparison] = {}
        new: list[Identity] = []
        for identity in live.keys() & files.keys():
            live_object, blob = live[identity], files[identity].blob
            previous = previous_results.get(live_object.uid)
            if previous is not None and (previous.content, previous.blob) == (live_object.content, blob):
                compared[live_object.uid] = previous
            else:
                new.append(identity)
        manifests = self._read_manifests({files[identity].blob for identity in new})
        for identity in new:
            live_object, blob = live[identity], files[identity].blob
            compared[live_object.uid] = _CachedComparison(
                live_object.content,
                blob,
                find_differences(manifests[blob, identity], read_compared_fields(live_object)),
            )
        self._cached[tenant] = compared
        if not compared:
            del self._cached[tenant]
        differing = {
            identity: result.differences
            for identity, live_object in live.items()
            if (result := compared.get(live_object.uid)) is not None and result.differences
        }
        foreign = [
            key
            for key, live_object in live.items()
            if key not in files and _may_be_foreign(live_object) and live_object.created < published.time
        ]
        return {**differing, **dict.fromkeys(foreign, ())}

    def _read_manifests(self, blobs: Iterable[str]) -> dict[tuple[str, Identity], Object]:
        sorted_blobs = sorted(blobs)
        return {
            (blob, (manifest["kind"], _read_name(manifest))): manifest
            for blob, objects in zip(sorted_blobs, self._branch.read_manifests(sorted_blobs), strict=True)
            for manifest in objects
        }

    def is_synced(self, status: TenantStatus) -> bool:
        """Return whether Argo CD has applied all published folders of a tenant, according to its Applications."""
        files_by_part = {file.tree_path.part: file for file in self._branch.list_files(status.tenant).values()}
        return all(self._is_applied(status, file) for file in files_by_part.values())

    def _find_edit_delay(self, file: PublishedFile | None, live_object: LiveObject) -> int:
        """Return for how many seconds a difference of an object must last before it is reported.

        If the object has our label but is not published, the time is longer, because Argo CD may be about to remove the
        object. The time is also longer if no Application reports the sync of the object.
        """
        if file is None:
            synced = not live_object.managed
        elif file.tree_path.tenant == PLATFORM_OWNER:
            folder = file.tree_path.name.rpartition("/")[0]
            synced = bool(self.platform_revisions) and self._branch.is_folder_at(self.platform_revisions, folder)
        else:
            synced = file.tree_path.part in TREE_PARTS
        return EDIT_DELAY_SECONDS if synced else UNSYNCED_SECONDS

    def _is_applied(self, status: TenantStatus, file: PublishedFile) -> bool:
        """Return whether Argo CD has applied the published folder of a file, according to the tenant's Applications."""
        part = file.tree_path.part
        if part not in TREE_PARTS:
            return True
        tree = next((application.tree for application in status.applications if application.name == part), "")
        return tree != "" and tree == self._branch.find_tree(f"tenants/{status.tenant}/{part}")


def detect_edits_or_none(
    comparison: EditDetector,
    status: TenantStatus,
    previous: TenantStatus | None,
    objects: Sequence[LiveObject],
    published: PublishedObjects | None,
    now: str,
) -> list[ManualEdit] | None:
    """Return the differences of a tenant; None if the published manifests aren't known."""
    if published is None:
        return None
    try:
        return comparison.detect_edits(status, previous, objects, published, now)
    except (OperationRefused, Malformed, LookupError, TypeError, AttributeError, ValueError):
        return None  # the ref points at a forged commit: the published manifests are not known


def _index_by_identity(objects: Sequence[LiveObject]) -> dict[Identity, LiveObject]:
    return {(live_object.kind, live_object.name): live_object for live_object in objects if not live_object.terminating}


def _read_name(manifest: Object) -> str:
    return names.scoped_name(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])


def _find_resource(file: PublishedFile | None) -> tuple[str, str]:
    """Return the kind and name of a file's resource; both are empty if the file belongs to no resource."""
    return (file.tree_path.kind, file.tree_path.resource_name) if file is not None and file.tree_path.kind else ("", "")


def _may_be_foreign(live_object: LiveObject) -> bool:
    """Return whether a person or a later publish created an unpublished object in the namespace of a tenant.

    False if a controller created the object. Other namespaces have objects that Allotment doesn't publish.
    """
    return not (
        live_object.owned
        or live_object.kind == "Namespace"
        or live_object.tenant == PLATFORM_OWNER
        or "/" in live_object.name
        or (live_object.managed and live_object.kind in _ORPHAN_KINDS)
    )
