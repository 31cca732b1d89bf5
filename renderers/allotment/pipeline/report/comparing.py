"""Compares the live objects of a tenant with its published manifests, to find edits and additions by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.declared.things import PARTS
from allotment.manifests.text import Malformed, Object
from allotment.observed.conditions import seconds_between
from allotment.observed.drift import Difference, differences
from allotment.observed.edits import Edit, conditions_of
from allotment.observed.objects import LiveObject
from allotment.observed.removed import KINDS, Published
from allotment.observed.shapes.whole import content_of
from allotment.observed.status import TenantStatus
from allotment.pipeline.report.published import PublishedBranch, PublishedFile
from allotment.problems import Refused

EDITED_SECONDS = 30  # so long a difference must last: watches of two kinds may lag behind each other
UNSYNCED_SECONDS = (
    300  # where no Application of the tenant says whether the object was synced: Argo CD may take so long
)
_REMOVED = frozenset(KINDS.values())  # `observed.removed` reports those that have our label
Identity = tuple[str, str]


class _Compared(NamedTuple):
    """A comparison: of which live content and published file, and its result."""

    content: bytes
    blob: str
    result: tuple[Difference, ...]


class Comparison:
    """The differences of each tenant. Only results are stored, and when each difference was first seen.

    `edits` has, by tenant, the differences that have lasted long enough; `waiting` are the tenants to compare again as time passes.
    """

    def __init__(self, branch: PublishedBranch) -> None:
        self._branch = branch
        self._compared: dict[str, dict[str, _Compared]] = {}  # by tenant: by the object's uid
        self._since: dict[str, dict[Identity, str]] = {}  # by tenant
        self.edits: dict[str, list[Edit]] = {}
        self.waiting: set[str] = set()

    def clear(self) -> None:
        """Forget everything."""
        for collection in (self._compared, self._since, self.edits, self.waiting):
            collection.clear()

    def compare(
        self,
        status: TenantStatus,
        previous: TenantStatus | None,
        objects: Sequence[LiveObject],
        published: Published,
        now: str,
    ) -> list[Edit]:
        """Return the differences of a tenant with this status that have lasted long enough. Raises Refused or Malformed where a
        published file can't be read."""
        tenant = status.tenant
        files = self._branch.files_of(tenant)
        live = _by_identity(objects)
        differing = self._differing(tenant, live, files, published)
        since, edits, waits = self._since.get(tenant, {}), [], False
        still: dict[Identity, str] = {}
        for identity, object_differences in differing.items():
            file = files.get(identity)
            resource = _thing(file)
            if identity not in since and file is not None and not self._is_applied(status, file):
                waits = True
                continue
            previous_conditions = conditions_of(previous, resource) if previous is not None else {}
            reported = previous_conditions.get(word.AS_PUBLISHED if object_differences else word.ONLY_PUBLISHED, "")
            still[identity] = first = since.get(identity) or reported or now
            if first == reported or seconds_between(first, now) >= _patience(file, live[identity]):
                edits.append(Edit(tenant, *identity, resource, object_differences, first))
            else:
                waits = True
        self._note(tenant, still, edits, waits=waits)
        return edits

    def compare_once(
        self, status: TenantStatus, objects: Sequence[LiveObject], published: Published, now: str, *, is_recent: bool
    ) -> list[Edit]:
        """Return the edits of a tenant's objects, without waiting for them to last. If the publish `is_recent`, Argo CD may still
        be applying the objects that no Application of the tenant covers, so they are left out. Raises Refused or Malformed where a published file
        can't be read."""
        files = self._branch.files_of(status.tenant)
        live = _by_identity(objects)
        edits = []
        for identity, object_differences in self._differing(status.tenant, live, files, published).items():
            file = files.get(identity)
            is_applied = file is None or self._is_applied(status, file)
            if is_applied and not (is_recent and _patience(file, live[identity]) == UNSYNCED_SECONDS):
                edits.append(Edit(status.tenant, *identity, _thing(file), object_differences, now))
        return edits

    def _note(self, tenant: str, since: dict[Identity, str], edits: list[Edit], *, waits: bool) -> None:
        self.forget(tenant)
        if since:
            self._since[tenant] = since
        if edits:
            self.edits[tenant] = edits
        if waits:
            self.waiting.add(tenant)

    def forget(self, tenant: str) -> None:
        """Forget the differences of a tenant."""
        self._since.pop(tenant, None)
        self.edits.pop(tenant, None)
        self.waiting.discard(tenant)

    def _differing(
        self,
        tenant: str,
        live: Mapping[Identity, LiveObject],
        files: Mapping[Identity, PublishedFile],
        published: Published,
    ) -> dict[Identity, tuple[Difference, ...]]:
        """Return the differences of each published object that has some, and none of each foreign object. An object that hasn't
        changed since the last comparison isn't read again."""
        previous_results = self._compared.get(tenant, {})
        compared: dict[str, _Compared] = {}
        new: list[Identity] = []
        for identity in live.keys() & files.keys():
            live_object, blob = live[identity], files[identity].blob
            previous = previous_results.get(live_object.uid)
            if previous is not None and (previous.content, previous.blob) == (live_object.content, blob):
                compared[live_object.uid] = previous
            else:
                new.append(identity)
        manifests = self._manifests({files[identity].blob for identity in new})
        for identity in new:
            live_object, blob = live[identity], files[identity].blob
            compared[live_object.uid] = _Compared(
                live_object.content, blob, differences(manifests[blob, identity], content_of(live_object))
            )
        self._compared[tenant] = compared
        if not compared:
            del self._compared[tenant]
        differing = {
            identity: result.result
            for identity, live_object in live.items()
            if (result := compared.get(live_object.uid)) is not None and result.result
        }
        foreign = [key for key, live_object in live.items() if key not in files and _is_foreign(live_object, published)]
        return {**differing, **dict.fromkeys(foreign, ())}

    def _manifests(self, blobs: Iterable[str]) -> dict[tuple[str, Identity], Object]:
        wanted = sorted(blobs)
        return {
            (blob, (manifest["kind"], manifest["metadata"]["name"])): manifest
            for blob, objects in zip(wanted, self._branch.manifests_in(wanted), strict=True)
            for manifest in objects
        }

    def is_synced(self, status: TenantStatus) -> bool:
        """Return whether Argo CD has applied all published folders of a tenant, as far as its Applications say."""
        return all(self._is_applied(status, file) for file in self._branch.files_of(status.tenant).values())

    def _is_applied(self, status: TenantStatus, file: PublishedFile) -> bool:
        """Return whether Argo CD has applied the published folder of a file, as far as a tenant's Applications say."""
        part = file.spot.part
        if part not in PARTS:
            return True
        tree = next((application.tree for application in status.applications if application.name == part), "")
        return tree != "" and tree == self._branch.tree_of(f"tenants/{status.tenant}/{part}")


def compared_or_none(
    comparison: Comparison,
    status: TenantStatus,
    previous: TenantStatus | None,
    objects: Sequence[LiveObject],
    published: Published | None,
    now: str,
) -> list[Edit] | None:
    """Return the differences of a tenant; None where they aren't known."""
    if published is None:
        return None
    try:
        return comparison.compare(status, previous, objects, published, now)
    except (Refused, Malformed, LookupError, TypeError, AttributeError, ValueError):
        return None  # a forged commit lies at our ref: the published manifests are not known


def _by_identity(objects: Sequence[LiveObject]) -> dict[Identity, LiveObject]:
    return {(live_object.kind, live_object.name): live_object for live_object in objects if not live_object.ending}


def _thing(file: PublishedFile | None) -> tuple[str, str]:
    """Return the word and the name of the resource of a file; both empty where it is the tenant's own."""
    return (file.spot.kind, file.spot.thing) if file is not None and file.spot.kind else ("", "")


def _patience(file: PublishedFile | None, live_object: LiveObject) -> int:
    """Return the seconds for which an object must differ. Argo CD may be about to remove an object that is no longer published."""
    synced = live_object.managed is False if file is None else file.spot.part in PARTS
    return EDITED_SECONDS if synced else UNSYNCED_SECONDS


def _is_foreign(live_object: LiveObject, published: Published) -> bool:
    """Return whether an object that isn't published was made by somebody, rather than by a controller or a later publish."""
    if live_object.owned or live_object.kind == "Namespace" or (live_object.managed and live_object.kind in _REMOVED):
        return False
    return live_object.created < published.time
