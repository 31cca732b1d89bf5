"""The safety brake: a mass deletion, at once or bit by bit within a day, waits until a person approves exactly that.

The brake acts in two places. A tenant that deletes too much of its own is retained, and all others are published. A
publish is stopped as a whole only where the deletions cross tenants: no single tenant may be the cause, so the limit must
be exceeded whichever tenant is left out of the count.

An approval is the checksum of one deletion. It counts where it was published while everything that it deletes
was still declared, and once: the checksum also covers the last deletion that an approval released.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from allotment.declared.kinds.platform import Brake
from allotment.declared.things import PARTS, THINGS
from allotment.manifests import paths
from allotment.problems import printable

RULE = "brake"
WINDOW_SECONDS = 24 * 3600
NAMED = 8
_PLURALS = {"tenant": "tenants", **{kind.word: kind.plural for kind in THINGS.values()}}


class Counted(NamedTuple):
    """An item that the brake counts: an instance, storage or snapshot of a cluster, or a tenant, with cluster and name
    empty, that has anything in any cluster."""

    kind: str
    cluster: str
    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}" if self.name else self.tenant


Items = frozenset[Counted]


class Window(NamedTuple):
    """The facts, beside the deletion itself, by which the brake decides.

    `day_ago` are the items that were published 24 hours ago, by tenant. `approvals` are the checksums that the last
    published source approves, `used` has the last commit that an approval released, by cluster. `declares` returns
    whether the last published source declares an item.
    """

    day_ago: Mapping[str, Items] = {}
    approvals: Collection[str] = ()
    used: Mapping[str, str] = {}
    declares: Callable[[Counted], bool] = lambda _: True

    @property
    def everything(self) -> Items:
        """The items of all tenants that were published 24 hours ago."""
        return frozenset().union(*self.day_ago.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A deletion beyond the limit: `deleted` of `of` items of a kind (`what`, a plural), with the first names in `named`.

    `tenant` is the tenant that the brake retains, empty where the brake stops the publish. `checksum` is that of the
    whole deletion, empty where it is not known.
    """

    tenant: str
    what: str
    deleted: int
    of: int
    percent: int
    named: str
    checksum: str

    @property
    def amount(self) -> str:
        """How much is deleted, such as `9 of 18 instances`."""
        return f"{self.deleted:,} of {self.of:,} {self.what}"

    @property
    def words(self) -> str:
        """The verdict of a publish, and the way out."""
        whose = f" of tenant {printable(self.tenant)}" if self.tenant else ""
        return (
            f"the brake stops this: {self.amount}{whose} would be deleted within 24 hours, more than"
            f" {self.percent} %: {self.named}. Put them back. If the deletion is meant: put them back, merge"
            f" {self.checksum} into spec.brake.approvedPlans of platform/platform.yaml, let that be published, and delete"
            " them again"
        )

    @property
    def forecast(self) -> str:
        """The verdict of a plan, and the way out."""
        whose = f" of tenant {printable(self.tenant)}" if self.tenant else ""
        effect = (
            f"Once it is merged, tenant {printable(self.tenant)} keeps its last published manifests"
            if self.tenant
            else "Once it is merged, nothing is published for anybody"
        )
        instruction = (
            f"merge {self.checksum}" if self.checksum else "`allot publish --dry-run --commit HEAD`, on this branch"
        )
        instruction += (
            "" if self.checksum else " and with the base in it, prints the checksum of the deletion: merge that"
        )
        return (
            f"the brake will stop this: {self.amount}{whose} would be deleted within 24 hours, more than"
            f" {self.percent} %: {self.named}. {effect}. If the deletion is meant: {instruction} into spec.brake.approvedPlans"
            " of platform/platform.yaml, let that be published, and merge this then"
        )


class Judgement(NamedTuple):
    """The brake's verdict: the excess that stops the deletion, or None, and the clusters of a deletion that an approval
    released."""

    stop: Excess | None
    released: frozenset[str] = frozenset()


def items_of(files: Iterable[str]) -> Items:
    """Return the items that rendered trees hold, by the paths `<cluster>/<path>` of their files. A removed volume that is
    still there no longer counts."""
    items: set[Counted] = set()
    for file in files:
        cluster, _, path = file.partition("/")
        spot = paths.spot_of(path)
        if spot is None or spot.part not in PARTS:
            continue
        if spot.kind:
            items.add(Counted(spot.kind, cluster, spot.tenant, spot.thing))
        elif spot.name == paths.MARKER:
            items.add(Counted("tenant", "", spot.tenant, ""))
    return frozenset(items)


def by_tenant(items: Iterable[Counted]) -> dict[str, Items]:
    """Return items by their tenant."""
    groups: dict[str, set[Counted]] = defaultdict(set)
    for item in items:
        groups[item.tenant].add(item)
    return {tenant: frozenset(group) for tenant, group in groups.items()}


def judge_tenant(brake: Brake, tenant: str, published: Items, now: Items, window: Window) -> Judgement:
    """Return whether a tenant's items `now` may follow its `published` items."""
    before = window.day_ago.get(tenant, frozenset()) | published
    return _judge(brake, tenant, published - now, _beyond(brake, before, now), window)


def judge_release(brake: Brake, published: Items, now: Items, window: Window) -> Judgement:
    """Return whether the items of all tenants `now` may follow the `published` items."""
    return _judge(brake, "", published - now, _beyond_across(brake, window.everything | published, now), window)


_Group = tuple[str, Items, Items]


def _judge(brake: Brake, tenant: str, deleted: Items, excesses: Iterable[_Group], window: Window) -> Judgement:
    for kind, before, lost in excesses:
        if not any(item.kind == kind for item in deleted):
            continue
        checksum = _checksum(deleted, window.used)
        if checksum in window.approvals and all(map(window.declares, deleted)):
            return Judgement(None, frozenset(item.cluster for item in deleted if item.cluster))
        shown = ", ".join(str(item) for item in sorted(lost)[:NAMED])
        named = f"{shown} and {len(lost) - NAMED} more" if len(lost) > NAMED else shown
        percent = brake.max_deleted_percent
        return Judgement(
            Excess(
                tenant=tenant,
                what=_PLURALS[kind],
                deleted=len(lost),
                of=len(before),
                percent=percent,
                named=named,
                checksum=checksum,
            )
        )
    return Judgement(None)


def _beyond(brake: Brake, before: Items, now: Items) -> Iterator[_Group]:
    """Yield each kind of which too many items are gone, with the items before and the items that are gone."""
    for kind in sorted(_PLURALS):
        items = frozenset(item for item in before if item.kind == kind)
        if _exceeds(brake, len(items - now), len(items)):
            yield kind, items, items - now


def _beyond_across(brake: Brake, before: Items, now: Items) -> Iterator[_Group]:
    """Yield each kind of which too many items are gone whichever tenant is left out, as `_beyond` does."""
    for kind in sorted(_PLURALS):
        items = frozenset(item for item in before if item.kind == kind)
        lost = items - now
        owned, lost_by_tenant = by_tenant(items), by_tenant(lost)
        if lost and all(
            _exceeds(brake, len(lost) - len(lost_by_tenant.get(tenant, ())), len(items) - len(own))
            for tenant, own in owned.items()
        ):
            yield kind, items, lost


def _exceeds(brake: Brake, lost: int, total: int) -> bool:
    return total >= brake.min_objects and lost * 100 > brake.max_deleted_percent * total


def _checksum(deleted: Items, used: Mapping[str, str]) -> str:
    clusters = {item.cluster for item in deleted}
    salt = sorted((cluster, commit) for cluster, commit in used.items() if cluster in clusters)
    text = json.dumps([sorted(deleted), salt])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
