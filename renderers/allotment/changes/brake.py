"""The safety brake: so much deleted at once, or bit by bit within a day, is stopped until a person approved exactly
that.

An approval is the checksum of what one publish deletes. It counts when it was published before the deletion was, and
once: the checksum also covers the last deletion that was let through so.

A plan foresees what the brake will say, as far as it knows: what a day brought isn't among its two commits, nor is what was
approved and let through before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from allotment.declared.kinds.platform import Brake
from allotment.declared.things import PARTS, THINGS
from allotment.manifests import paths

WINDOW_SECONDS = 24 * 3600
NAMED = 8
_PLURALS = {"tenant": "tenants", **{one.word: one.plural for one in THINGS.values()}}


class Counted(NamedTuple):
    """What the brake counts: an instance, storage or snapshot of a cluster, or a tenant, wherever it has anything."""

    kind: str
    cluster: str
    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}" if self.name else self.tenant


class Judgement(NamedTuple):
    """What the brake says: `stop` in words, or None; whether an approval was used; the deletion's checksum."""

    stop: str | None
    approved: bool
    checksum: str


@dataclass(frozen=True, slots=True)
class Foreseen:
    """That the brake will stop a change once it is merged: so many of the things of a kind are deleted, the first of them by
    name; `approvals` are there already, of which one may be of exactly this."""

    what: str
    deleted: int
    of: int
    percent: int
    named: str
    approvals: int = 0

    @property
    def words(self) -> str:
        """What happens, and what to do where the deletion is meant."""
        unless = ", unless a checksum that the base approves is of exactly this" if self.approvals else ""
        return (
            f"the brake will stop this: {self.deleted:,} of {self.of:,} {self.what} would be deleted, more than"
            f" {self.percent} %: {self.named}. Once it is merged nothing is published, for anybody{unless}. If it is meant:"
            " `allot publish --dry-run --commit HEAD`, on this branch and with the base in it, says the deletion's checksum;"
            " merge that into spec.brake.approvedPlans of platform/platform.yaml, let it be published, and merge this then"
        )


def things(cluster: str, files: Iterable[str]) -> frozenset[Counted]:
    """Return what a cluster's tree holds, by its paths. What is leaving is gone already."""
    found: set[Counted] = set()
    for path in files:
        spot = paths.spot_of(path)
        if spot is None or spot.part not in PARTS:
            continue
        if spot.kind:
            found.add(Counted(spot.kind, cluster, spot.tenant, spot.thing))
        elif spot.name == paths.MARKER:
            found.add(Counted("tenant", "", spot.tenant, ""))
    return frozenset(found)


def judge(
    brake: Brake,
    a_day_ago: frozenset[Counted],
    published: frozenset[Counted],
    now: frozenset[Counted],
    approvals: Collection[str],
    used: Mapping[str, str],
) -> Judgement:
    """Return whether `now` may follow `published`: what was there a day ago counts, and what is there now.

    `approvals` are those of the last published source; `used` has, for clusters where one was used, the commit that
    did.
    """
    deleted = published - now
    checksum = _checksum(deleted, used)
    for kind, there, lost in _too_many(brake, a_day_ago | published, now):
        if any(one.kind == kind for one in deleted):
            if checksum in approvals:
                return Judgement(None, True, checksum)
            return Judgement(_words(brake, kind, there, lost, checksum), False, checksum)
    return Judgement(None, False, checksum)


def foreseen(brake: Brake, before: frozenset[Counted], after: frozenset[Counted], approvals: int) -> Foreseen | None:
    """Return what the brake will say where `after` is published upon `before`; None where that passes."""
    for kind, there, lost in _too_many(brake, before, after):
        return Foreseen(_PLURALS[kind], len(lost), len(there), brake.max_deleted_percent, _named(lost), approvals)
    return None


def _too_many(
    brake: Brake, before: frozenset[Counted], now: frozenset[Counted]
) -> Iterator[tuple[str, set[Counted], set[Counted]]]:
    """Yield each kind of which too many are gone, with those that there were, and those that are gone."""
    for kind in sorted(_PLURALS):
        there = {one for one in before if one.kind == kind}
        lost = there - now
        if len(there) >= brake.min_objects and len(lost) * 100 > brake.max_deleted_percent * len(there):
            yield kind, there, lost


def _checksum(deleted: frozenset[Counted], used: Mapping[str, str]) -> str:
    clusters = {one.cluster for one in deleted}
    salt = sorted((cluster, commit) for cluster, commit in used.items() if cluster in clusters)
    text = json.dumps([sorted(deleted), salt])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _words(brake: Brake, kind: str, there: set[Counted], lost: set[Counted], checksum: str) -> str:
    return (
        f"the brake stops this: {len(lost)} of {len(there)} {_PLURALS[kind]} would be deleted within 24 hours, more than"
        f" {brake.max_deleted_percent} %: {_named(lost)}. Put them back. If it is meant: put them back, merge {checksum} into"
        " spec.brake.approvedPlans of platform/platform.yaml, let that be published, and delete them again"
    )


def _named(lost: set[Counted]) -> str:
    named = ", ".join(str(one) for one in sorted(lost)[:NAMED])
    return f"{named} and {len(lost) - NAMED} more" if len(lost) > NAMED else named
