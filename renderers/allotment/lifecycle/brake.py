"""Stops a mass deletion until a person approves exactly this deletion.

The mass deletion may come from one merge, or from several merges within a day. The brake acts on two levels:

- If a tenant deletes too many of its own resources, this tenant is retained: it stays at its last published manifests.
  All other tenants are published.
- If several tenants together lose too many resources, the whole publish is stopped. No single tenant can stop the whole
  publish: for each tenant, the brake counts the deletion without this tenant, and every count must exceed the limit.

An approval is the checksum of a deletion. The declaration of the platform lists the approvals. An approval is valid
only if it was published while every resource of the deletion was still declared. It is valid only once: after an
approved deletion, the same deletion has another checksum, because the checksum also covers the commit of the last
approved deletion.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from allotment.declared.kinds.platform import Brake
from allotment.declared.tenant_resources import RESOURCE_KINDS, TREE_PARTS
from allotment.manifests import paths
from allotment.problems import escape_unprintable

RULE = "brake"
WINDOW_SECONDS = 24 * 3600
MAX_NAMED_ITEMS = 8
_PLURALS = {"tenant": "tenants", **{kind.word: kind.plural for kind in RESOURCE_KINDS.values()}}


class BrakeItem(NamedTuple):
    """An item that the brake counts: an instance, storage or snapshot of a cluster, or a tenant.

    For a tenant, `cluster` and `name` are empty. The brake counts a tenant that has a folder in any rendered tree.
    """

    kind: str
    cluster: str
    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}" if self.name else self.tenant


BrakeItems = frozenset[BrakeItem]


class BrakeWindow(NamedTuple):
    """The facts that the brake needs besides the deletion.

    - `published_day_ago` has the items of the rendered trees as of 24 hours ago, by tenant.
    - `approved_checksums` are the checksums that the last published declarations approve.
    - `used_approvals` maps a cluster to the last commit of its rendered branch that has an approved deletion.
    - `is_declared` returns whether the last published declarations contain an item.
    """

    published_day_ago: Mapping[str, BrakeItems] = {}
    approved_checksums: Collection[str] = ()
    used_approvals: Mapping[str, str] = {}
    is_declared: Callable[[BrakeItem], bool] = lambda _: True

    @property
    def all_published_day_ago(self) -> BrakeItems:
        """The items of all tenants in the rendered trees as of 24 hours ago."""
        return frozenset().union(*self.published_day_ago.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeExcess:
    """A deletion of more items of a kind than the brake allows.

    `kind_plural` names the kind. `deleted_count` of the `total` items of this kind are deleted. `sample_names` names
    the first deleted items.
    `tenant` is the tenant that the brake retains; empty if the brake stops the whole publish. `checksum` is the
    checksum of the whole deletion; empty if it is unknown.
    """

    tenant: str
    kind_plural: str
    deleted_count: int
    total: int
    percent: int
    sample_names: str
    checksum: str

    @property
    def deleted_text(self) -> str:
        """The extent of the deletion, such as `9 of 18 instances`."""
        return f"{self.deleted_count:,} of {self.total:,} {self.kind_plural}"

    @property
    def publish_message(self) -> str:
        """The message that a publish shows, with the remedy."""
        whose = f" of tenant {escape_unprintable(self.tenant)}" if self.tenant else ""
        return (
            f"the brake stops this: {self.deleted_text}{whose} would be deleted within 24 hours, more than"
            f" {self.percent} %: {self.sample_names}. Put them back. If the deletion is meant: put them back, merge"
            f" {self.checksum} into spec.brake.approvedPlans of platform/platform.yaml, let that be published, and delete"
            " them again"
        )

    @property
    def plan_message(self) -> str:
        """The message that a plan shows, with the remedy."""
        whose = f" of tenant {escape_unprintable(self.tenant)}" if self.tenant else ""
        effect = (
            f"Once it is merged, tenant {escape_unprintable(self.tenant)} keeps its last published manifests"
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
            f"the brake will stop this: {self.deleted_text}{whose} would be deleted within 24 hours, more than"
            f" {self.percent} %: {self.sample_names}. {effect}. If the deletion is meant: {instruction} into spec.brake.approvedPlans"
            " of platform/platform.yaml, let that be published, and merge this then"
        )


class BrakeVerdict(NamedTuple):
    """The verdict of the brake on a deletion.

    `excess` is the reason why the brake stops the deletion; None if the deletion is allowed. If an approval
    released the deletion, `released_clusters` are the clusters of the deleted items.
    """

    excess: BrakeExcess | None
    released_clusters: frozenset[str] = frozenset()


def brake_items(files: Iterable[str]) -> BrakeItems:
    """Return the items in rendered trees. `files` are the paths `<cluster>/<path>` of all files in these trees.

    A storage or snapshot that is being deleted is not an item. A tenant is not an item if it is leaving all clusters.
    """
    items: set[BrakeItem] = set()
    for file in files:
        cluster, _, path = file.partition("/")
        tree_path = paths.parse_tree_path(path)
        if tree_path is None or tree_path.part not in TREE_PARTS:
            continue
        if tree_path.kind:
            items.add(BrakeItem(tree_path.kind, cluster, tree_path.tenant, tree_path.resource_name))
        elif tree_path.name == paths.FOLDER_MARKER:
            items.add(BrakeItem("tenant", "", tree_path.tenant, ""))
    return frozenset(items)


def group_items_by_tenant(items: Iterable[BrakeItem]) -> dict[str, BrakeItems]:
    """Return items by their tenant."""
    groups: dict[str, set[BrakeItem]] = defaultdict(set)
    for item in items:
        groups[item.tenant].add(item)
    return {tenant: frozenset(group) for tenant, group in groups.items()}


def judge_tenant(
    brake: Brake, tenant: str, published: BrakeItems, now: BrakeItems, window: BrakeWindow
) -> BrakeVerdict:
    """Return the verdict on the change of a tenant from the `published` items to the items `now`."""
    previous = window.published_day_ago.get(tenant, frozenset()) | published
    return _decide_verdict(brake, tenant, published - now, _excessive_deletions(brake, previous, now), window)


def judge_release(brake: Brake, published: BrakeItems, now: BrakeItems, window: BrakeWindow) -> BrakeVerdict:
    """Return the verdict on the change of all tenants from the `published` items to the items `now`."""
    return _decide_verdict(
        brake,
        "",
        published - now,
        _excessive_deletions_across_tenants(brake, window.all_published_day_ago | published, now),
        window,
    )


_KindDeletion = tuple[str, BrakeItems, BrakeItems]


def _decide_verdict(
    brake: Brake, tenant: str, deleted: BrakeItems, excesses: Iterable[_KindDeletion], window: BrakeWindow
) -> BrakeVerdict:
    for kind, previous, lost in excesses:
        if not any(item.kind == kind for item in deleted):
            continue
        checksum = _deletion_checksum(deleted, window.used_approvals)
        if checksum in window.approved_checksums and all(map(window.is_declared, deleted)):
            return BrakeVerdict(None, frozenset(item.cluster for item in deleted if item.cluster))
        item_list = ", ".join(str(item) for item in sorted(lost)[:MAX_NAMED_ITEMS])
        named = f"{item_list} and {len(lost) - MAX_NAMED_ITEMS} more" if len(lost) > MAX_NAMED_ITEMS else item_list
        percent = brake.max_deleted_percent
        return BrakeVerdict(
            BrakeExcess(
                tenant=tenant,
                kind_plural=_PLURALS[kind],
                deleted_count=len(lost),
                total=len(previous),
                percent=percent,
                sample_names=named,
                checksum=checksum,
            )
        )
    return BrakeVerdict(None)


def _excessive_deletions(brake: Brake, previous: BrakeItems, now: BrakeItems) -> Iterator[_KindDeletion]:
    """Yield each kind with too many deleted items: the kind, its previous items, and its deleted items."""
    for kind in sorted(_PLURALS):
        items = frozenset(item for item in previous if item.kind == kind)
        if _exceeds_limit(brake, len(items - now), len(items)):
            yield kind, items, items - now


def _excessive_deletions_across_tenants(brake: Brake, previous: BrakeItems, now: BrakeItems) -> Iterator[_KindDeletion]:
    """Yield each kind that has too many deleted items even if any one tenant is left out of the count.

    Each result has the same form as a result of `_excessive_deletions`.
    """
    for kind in sorted(_PLURALS):
        items = frozenset(item for item in previous if item.kind == kind)
        lost = items - now
        owned, lost_by_tenant = group_items_by_tenant(items), group_items_by_tenant(lost)
        if lost and all(
            _exceeds_limit(brake, len(lost) - len(lost_by_tenant.get(tenant, ())), len(items) - len(own))
            for tenant, own in owned.items()
        ):
            yield kind, items, lost


def _exceeds_limit(brake: Brake, lost: int, total: int) -> bool:
    return total >= brake.min_objects and lost * 100 > brake.max_deleted_percent * total


def _deletion_checksum(deleted: BrakeItems, used: Mapping[str, str]) -> str:
    clusters = {item.cluster for item in deleted}
    salt = sorted((cluster, commit) for cluster, commit in used.items() if cluster in clusters)
    text = json.dumps([sorted(deleted), salt])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
