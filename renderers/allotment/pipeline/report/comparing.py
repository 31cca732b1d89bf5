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
        for known in (self._compared, self._since, self.edits, self.waiting):
            known.clear()

    def compare(
        self,
        status: TenantStatus,
        before: TenantStatus | None,
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
        for identity, found in differing.items():
            file = files.get(identity)
            thing = _thing(file)
            if identity not in since and file is not None and not self._is_applied(status, file):
                waits = True
                continue
            known = conditions_of(before, thing) if before is not None else {}
            reported = known.get(word.AS_PUBLISHED if found else word.ONLY_PUBLISHED, "")
            still[identity] = first = since.get(identity) or reported or now
            if first == reported or seconds_between(first, now) >= _patience(file, live[identity]):
                edits.append(Edit(tenant, *identity, thing, found, first))
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
        for identity, found in self._differing(status.tenant, live, files, published).items():
            file = files.get(identity)
            is_applied = file is None or self._is_applied(status, file)
            if is_applied and not (is_recent and _patience(file, live[identity]) == UNSYNCED_SECONDS):
                edits.append(Edit(status.tenant, *identity, _thing(file), found, now))
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
        known = self._compared.get(tenant, {})
        compared: dict[str, _Compared] = {}
        new: list[Identity] = []
        for identity in live.keys() & files.keys():
            one, blob = live[identity], files[identity].blob
            before = known.get(one.uid)
            if before is not None and (before.content, before.blob) == (one.content, blob):
                compared[one.uid] = before
            else:
                new.append(identity)
        manifests = self._manifests({files[identity].blob for identity in new})
        for identity in new:
            one, blob = live[identity], files[identity].blob
            compared[one.uid] = _Compared(one.content, blob, differences(manifests[blob, identity], content_of(one)))
        self._compared[tenant] = compared
        if not compared:
            del self._compared[tenant]
        differing = {
            identity: result.result
            for identity, one in live.items()
            if (result := compared.get(one.uid)) is not None and result.result
        }
        foreign = [key for key, one in live.items() if key not in files and _is_foreign(one, published)]
        return {**differing, **dict.fromkeys(foreign, ())}

    def _manifests(self, blobs: Iterable[str]) -> dict[tuple[str, Identity], Object]:
        wanted = sorted(blobs)
        return {
            (blob, (one["kind"], one["metadata"]["name"])): one
            for blob, objects in zip(wanted, self._branch.manifests_in(wanted), strict=True)
            for one in objects
        }

    def is_synced(self, status: TenantStatus) -> bool:
        """Return whether Argo CD has applied all published folders of a tenant, as far as its Applications say."""
        return all(self._is_applied(status, file) for file in self._branch.files_of(status.tenant).values())

    def _is_applied(self, status: TenantStatus, file: PublishedFile) -> bool:
        """Return whether Argo CD has applied the published folder of a file, as far as a tenant's Applications say."""
        part = file.spot.part
        if part not in PARTS:
            return True
        tree = next((one.tree for one in status.applications if one.name == part), "")
        return tree != "" and tree == self._branch.tree_of(f"tenants/{status.tenant}/{part}")


def compared_or_none(
    comparison: Comparison,
    status: TenantStatus,
    before: TenantStatus | None,
    objects: Sequence[LiveObject],
    published: Published | None,
    now: str,
) -> list[Edit] | None:
    """Return the differences of a tenant; None where they aren't known."""
    if published is None:
        return None
    try:
        return comparison.compare(status, before, objects, published, now)
    except (Refused, Malformed, LookupError, TypeError, AttributeError, ValueError):
        return None  # a forged commit lies at our ref: the published manifests are not known


def _by_identity(objects: Sequence[LiveObject]) -> dict[Identity, LiveObject]:
    return {(one.kind, one.name): one for one in objects if not one.ending}


def _thing(file: PublishedFile | None) -> tuple[str, str]:
    """Return the word and the name of the resource of a file; both empty where it is the tenant's own."""
    return (file.spot.kind, file.spot.thing) if file is not None and file.spot.kind else ("", "")


def _patience(file: PublishedFile | None, one: LiveObject) -> int:
    """Return the seconds for which an object must differ. Argo CD may be about to remove an object that is no longer published."""
    synced = one.managed is False if file is None else file.spot.part in PARTS
    return EDITED_SECONDS if synced else UNSYNCED_SECONDS


def _is_foreign(one: LiveObject, published: Published) -> bool:
    """Return whether an object that isn't published was made by somebody, rather than by a controller or a later publish."""
    if one.owned or one.kind == "Namespace" or (one.managed and one.kind in _REMOVED):
        return False
    return one.created < published.time
