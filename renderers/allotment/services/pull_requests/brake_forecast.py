"""Forecasts the brake's verdict on a merge, from the last fetched state of the rendered branches.

The brake stops mass deletions. It counts items: tenants, instances, storages and snapshots (`lifecycle/brake`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from allotment.adapters.git.remote import tracking_ref
from allotment.branches.branch import Branch
from allotment.branches.platform_settings import ORIGIN, list_cluster_names, read_publisher_key, resolve_branch_urls
from allotment.branches.rendered_branches import approved_ref, last_publish, last_released_deletion, published_ref
from allotment.declared.kinds.platform import Brake
from allotment.declared.layout import DeclarationPath, Scope, parse_path
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.lifecycle.brake import (
    WINDOW_SECONDS,
    BrakeExcess,
    BrakeItem,
    BrakeItems,
    BrakeWindow,
    brake_items,
    group_items_by_tenant,
    judge_release,
    judge_tenant,
)
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import current_path

if TYPE_CHECKING:
    from allotment.adapters.git.commit_source import CommitSource, TreeSource
    from allotment.adapters.git.repository import Repository
    from allotment.services.pull_requests.tenant_comparison import TenantComparison

ItemChanges = dict[str, tuple[BrakeItems, BrakeItems]]  # by tenant: the items before and after a merge


class CachedItems(NamedTuple):
    """The published items by tenant, now and 24 hours ago, according to the last fetch of a clone.

    `find_approved_commits` returns, by cluster, the last commit in which an approval released a deletion; None if these
    commits are not known. The checksum of a deletion depends on these commits.
    """

    items: Mapping[str, BrakeItems] = {}
    day_ago: Mapping[str, BrakeItems] = {}
    find_approved_commits: Callable[[], Mapping[str, str] | None] = lambda: None


def read_cached_items(repository: Repository, base: CommitSource) -> CachedItems | None:
    """Return the published items of the clusters that `base` declares; None if the clone lacks a rendered branch.

    This function fetches nothing: `git fetch origin`, `allot status` and `allot comment` fetch the rendered branches.
    If `base` declares the publisher's key, only the newest signed commit of a branch and its ancestors are read.
    """
    key = read_publisher_key(base)
    is_at_origin = resolve_branch_urls(base, ORIGIN).rendered == ORIGIN
    published, day_ago, commits = set[BrakeItem](), set[BrakeItem](), dict[str, str]()
    for cluster in list_cluster_names(base):
        ref = rendered_branch(cluster)
        names = (
            tracking_ref(ref),
            tracking_ref(published_ref(cluster)),
            *((ref.replace("refs/heads/", "refs/remotes/origin/", 1),) if is_at_origin else ()),
        )
        refs = repository.find_refs(*names, approval := tracking_ref(approved_ref(cluster)))
        tips = [refs.get(name) for name in names]
        commit = last_publish(repository, tips, cluster, key)
        if commit is None:
            return None
        commits[cluster] = commit
        branch = Branch(
            repository,
            cluster,
            commit,
            commit,
            refs.get(approval),
            current_path,
        )
        published |= brake_items(f"{cluster}/{path}" for path in branch.files)
        day_ago |= brake_items(f"{cluster}/{path}" for path in branch.files_before(WINDOW_SECONDS))
    return CachedItems(
        group_items_by_tenant(published),
        group_items_by_tenant(day_ago),
        partial(_find_approved_commits, repository, commits, key),
    )


def _find_approved_commits(
    repository: Repository, commits: Mapping[str, str], key: str | None
) -> Mapping[str, str] | None:
    """Return, by cluster, the last commit in which an approval released a deletion.

    The search goes from the commits in `commits` to their ancestors. If the search of a branch reaches its limit
    without a result, return None.
    """
    used: dict[str, str] = {}
    for cluster, commit in commits.items():
        release = last_released_deletion(repository, commit, cluster, key)
        if not release.is_complete:
            return None
        if release.commit:
            used[cluster] = release.commit
    return used


class BrakeForecast:
    """The items of every tenant before and after a merge.

    `published` are the published items by tenant, empty if they are not known. If a tenant can't be rendered before the
    merge, its items are derived from the names of its files.
    """

    def __init__(self, base: CommitSource, after: TreeSource, published: Mapping[str, BrakeItems]) -> None:
        self._base, self._after, self._published_items = base, after, published

    def build_item_changes(
        self, outcomes: Iterable[TenantComparison], invalid_after: Collection[str], clusters: Collection[str]
    ) -> ItemChanges:
        """Return the items, before and after the merge, of each tenant that the merge may affect.

        `clusters` are the clusters declared after the merge. Leaves out a tenant that is invalid after the merge,
        because it keeps its published items. The items before the merge include the published items: a tenant that the
        brake already retains has more published items than the base declares.
        """
        sides: ItemChanges = {}
        for outcome in outcomes:
            if outcome.diff is not None:
                published = self._published_items.get(outcome.name, frozenset())
                stays = (item for item in published if not item.cluster or item.cluster in clusters)
                sides[outcome.name] = outcome.brake_items[0].union(stays), outcome.brake_items[1]
            elif outcome.name not in invalid_after:  # the tenant is invalid only before the merge
                sides[outcome.name] = self._list_items_by_file_name(outcome.name)
        return sides

    def list_other_items(self, reached: Collection[str]) -> BrakeItems:
        """Return the items of the tenants that the merge does not affect."""
        if self._published_items:
            return frozenset().union(*(items for name, items in self._published_items.items() if name not in reached))
        scopes = [scope for scope in self._base.scopes()[0] if scope.kind == "tenant" and scope.name not in reached]
        return frozenset(item for scope in scopes for item in _list_declared_items(self._base, scope))

    def _list_items_by_file_name(self, tenant: str) -> tuple[BrakeItems, BrakeItems]:
        """Return the items of a tenant before and after the merge, by the names of its files.

        A file name doesn't contain the cluster. If the published items are known, they are the items before the merge,
        and the published items that still have a file are the items after the merge.
        """
        scope = Scope("tenant", tenant)
        before, after = (frozenset(_list_declared_items(source, scope)) for source in (self._base, self._after))
        if (items := self._published_items.get(tenant)) is None:
            return before, after
        return items, frozenset(item for item in items if item._replace(cluster="") in after)


def find_stopped_deletions(
    limits: Brake, sides: ItemChanges, other_items: BrakeItems, window: BrakeWindow
) -> list[BrakeExcess]:
    """Return the deletions that the brake will stop. A deletion by several tenants together comes first.

    `other_items` are the items of the tenants that the merge does not affect.
    """
    excesses, sides = [], dict(sides)
    for tenant, (before, after) in sorted(sides.items()):
        if before - after and (excess := judge_tenant(limits, tenant, before, after, window).excess):
            excesses.append(excess)
            sides[tenant] = before, before  # the brake retains the tenant, so a publish deletes none of its items
    if any(before - after for before, after in sides.values()):
        before, after = (other_items.union(*(side[end] for side in sides.values())) for end in (0, 1))
        if excess := judge_release(limits, before, after, window).excess:
            excesses.insert(0, excess)
    return excesses


def _list_declared_items(source: TreeSource, scope: Scope) -> Iterator[BrakeItem]:
    """Yield the items of a tenant by the names of its files. The cluster of each item is empty."""
    words = {resource.kind.name: resource.word for resource in RESOURCE_KINDS.values()}
    for path in source.files(scope).paths:
        declaration_path = parse_path(path)
        if isinstance(declaration_path, DeclarationPath) and declaration_path.kind.name in words:
            yield BrakeItem("tenant", "", scope.name, "")
            yield BrakeItem(words[declaration_path.kind.name], "", scope.name, declaration_path.name)
