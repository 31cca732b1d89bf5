"""Forecasts the brake's verdict on a merge, by the facts that a clone remembers of the rendered branches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.remote import kept_ref
from allotment.adapters.git.rendered import approved_ref, last_publish, last_release, published_ref
from allotment.changes.brake import (
    WINDOW_SECONDS,
    Counted,
    Excess,
    Items,
    Window,
    by_tenant,
    items_of,
    judge_release,
    judge_tenant,
)
from allotment.declared.kinds.platform import Brake
from allotment.declared.layout import Meaning, Scope, spot_of
from allotment.declared.things import THINGS
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import today
from allotment.pipeline.declared import cluster_names, publisher_key

if TYPE_CHECKING:
    from allotment.adapters.git.commit_source import CommitSource, TreeSource
    from allotment.adapters.git.repository import Repository
    from allotment.pipeline.pulls.outcomes import TenantOutcome

Sides = dict[str, tuple[Items, Items]]  # by tenant: the items before and after a merge


class Remembered(NamedTuple):
    """The published items by tenant, now and 24 hours ago, as a clone fetched them last.

    `used` finds the last commit that an approval released, by cluster, which a checksum depends on; it returns None where
    that is not known.
    """

    items: Mapping[str, Items] = {}
    day_ago: Mapping[str, Items] = {}
    used: Callable[[], Mapping[str, str] | None] = lambda: None


def remembered(here: Repository, base: CommitSource) -> Remembered | None:
    """Return the items on the rendered branches of a commit's clusters, as a clone fetched them; None where it lacks one of them.

    `git fetch origin`, `allot status` and `allot comment` fetch them; this fetches nothing. Where the commit declares the
    publisher's key, a branch counts from its newest signed commit on.
    """
    key = publisher_key(base)
    published, day_ago, commits = set[Counted](), set[Counted](), dict[str, str]()
    for cluster in cluster_names(base):
        ref = rendered_branch(cluster)
        names = kept_ref(ref), kept_ref(published_ref(cluster)), ref.replace("refs/heads/", "refs/remotes/origin/", 1)
        tips = [here.objects.commit_named(name) for name in names]
        commit = last_publish(here, tips, cluster, key)
        if commit is None:
            return None
        commits[cluster] = commit
        branch = Branch(
            here, cluster, commit, commit, here.objects.commit_named(kept_ref(approved_ref(cluster))), today
        )
        published |= items_of(f"{cluster}/{path}" for path in branch.files)
        day_ago |= items_of(f"{cluster}/{path}" for path in branch.files_before(WINDOW_SECONDS))
    return Remembered(by_tenant(published), by_tenant(day_ago), partial(_used, here, commits, key))


def _used(here: Repository, commits: Mapping[str, str], key: str | None) -> Mapping[str, str] | None:
    """Return the last commit that an approval released, by cluster, up to `commits`; None where the search ends before the
    beginning of a branch."""
    used: dict[str, str] = {}
    for cluster, commit in commits.items():
        release = last_release(here, commit, cluster, key)
        if not release.known:
            return None
        if release.commit:
            used[cluster] = release.commit
    return used


class BrakeForecast:
    """The items of every tenant before and after a merge.

    `published` are the published items by tenant, empty where they are not known: then a tenant that cannot be rendered
    at both ends is counted by the names of its files.
    """

    def __init__(self, base: CommitSource, after: TreeSource, published: Mapping[str, Items]) -> None:
        self._base, self._after, self._published = base, after, published

    def sides(
        self, outcomes: Iterable[TenantOutcome], invalid_after: Collection[str], clusters: Collection[str]
    ) -> Sides:
        """Return the items of each tenant that the merge may reach, in `clusters`, which are declared after it. A tenant
        that is invalid after the merge keeps its published items; a tenant that the brake retains already has more
        published items than the base declares."""
        sides: Sides = {}
        for outcome in outcomes:
            if outcome.compared is not None:
                published = self._published.get(outcome.name, frozenset())
                stays = (item for item in published if not item.cluster or item.cluster in clusters)
                sides[outcome.name] = outcome.held[0].union(stays), outcome.held[1]
            elif outcome.name not in invalid_after:  # and it is invalid before
                sides[outcome.name] = self._by_names(outcome.name)
        return sides

    def others(self, reached: Collection[str]) -> Items:
        """Return the items of the tenants that the merge does not reach."""
        if self._published:
            return frozenset().union(*(items for name, items in self._published.items() if name not in reached))
        scopes = [scope for scope in self._base.scopes()[0] if scope.kind == "tenant" and scope.name not in reached]
        return frozenset(item for scope in scopes for item in _declared_items(self._base, scope))

    def _by_names(self, tenant: str) -> tuple[Items, Items]:
        """Return the items of a tenant by the names of its files: an item that stays has its published cluster."""
        scope = Scope("tenant", tenant)
        before, after = (frozenset(_declared_items(source, scope)) for source in (self._base, self._after))
        if (items := self._published.get(tenant)) is None:
            return before, after
        return items, frozenset(item for item in items if item._replace(cluster="") in after)


def excesses_of(limits: Brake, sides: Sides, other_items: Items, window: Window) -> list[Excess]:
    """Return the deletions that the brake will stop, a deletion across tenants first; `other_items` are the items of the tenants
    that the merge does not reach."""
    excesses, sides = [], dict(sides)
    for tenant, (before, after) in sorted(sides.items()):
        if before - after and (excess := judge_tenant(limits, tenant, before, after, window).stop):
            excesses.append(excess)
            sides[tenant] = before, before  # the tenant is retained
    if any(before - after for before, after in sides.values()):
        before, after = (other_items.union(*(side[end] for side in sides.values())) for end in (0, 1))
        if excess := judge_release(limits, before, after, window).stop:
            excesses.insert(0, excess)
    return excesses


def _declared_items(source: TreeSource, scope: Scope) -> Iterator[Counted]:
    """Yield the items of a tenant by the names of its files, without their clusters."""
    words = {resource.kind.name: resource.word for resource in THINGS.values()}
    for path in source.files(scope).paths:
        spot = spot_of(path)
        if isinstance(spot, Meaning) and spot.kind.name in words:
            yield Counted("tenant", "", scope.name, "")
            yield Counted(words[spot.kind.name], "", scope.name, spot.name)
