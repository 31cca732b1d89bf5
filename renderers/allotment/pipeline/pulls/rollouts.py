"""Follows what was merged: finds the pull request of what is published, and keeps one comment on it until all runs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from allotment.adapters.forge.forge import Forge, PullRequest, State
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.merge import changed, inner, merge_base
from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.remote import Costly, Remote, Unsound
from allotment.adapters.git.rendered import Look, look
from allotment.adapters.git.retained import RETAINED
from allotment.adapters.git.trees import MalformedTree
from allotment.adapters.processes import Limit
from allotment.declared.layout import ROOTS
from allotment.declared.things import INSTANCE
from allotment.observed.retention import RetainedTenant
from allotment.observed.rollout import Merged, Stage, stage
from allotment.observed.status import TenantStatus
from allotment.pipeline.declared import consoles, publisher_key, reporter_keys
from allotment.pipeline.pulls.apart import PlanBudget
from allotment.pipeline.pulls.reviewing import Origin, keep, ours, say_status
from allotment.pipeline.pulls.troubles import Trouble, tried
from allotment.pipeline.report.retained import last_record
from allotment.pipeline.report.statuses import read_now
from allotment.pipeline.report.things import cluster_of, declared_at, published_blobs, thing_at
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.rollout import MARKER, Rollout, comment

CONTEXT = "allot/rollout"
FOLLOWED = datetime.timedelta(days=7)
_STATES: dict[str, State] = {"going": "pending", "done": "success", "failed": "failure"}


class _Now(NamedTuple):
    """One look at everything: what is published, the source it is of, what all clusters say, and the retained tenants."""

    published: Look
    source: CommitSource | None
    statuses: dict[str, list[TenantStatus]]
    silent: dict[str, str]
    consoles: Consoles
    retained: Mapping[str, RetainedTenant]


class _Merged(NamedTuple):
    """What one pull request changed: the instances, storages and snapshots, and the clusters whose own files it
    touched."""

    things: list[Merged]
    platform: bool


class Followed(NamedTuple):
    """How many merges are followed still, and what went wrong with single ones, by number."""

    going: int
    troubles: dict[int, Trouble]


class Rollouts:
    """Follows the merged pull requests of one repository. `rendered` and `status` are where those branches are."""

    def __init__(self, place: Origin, rendered: Remote, status: Remote) -> None:
        self._place = place
        self._rendered = rendered
        self._status = status
        self._said: dict[int, str] = {}
        self._silent: set[int] = set()
        self._merged: dict[int, _Merged] = {}

    def follow(self, now: datetime.datetime) -> Followed:
        """Look once, and say what is new. What goes wrong with one merge, a bug of ours too, keeps no other from being
        followed. Raises ForgeError, Refused."""
        forge, going, troubles = self._place.forge, 0, dict[int, Trouble]()
        seen: _Now | None = None
        for request in forge.merged_since(self._place.branch, now - FOLLOWED):
            if request.number in self._silent or not request.merged:
                continue
            if request.locked:
                self._silent.add(request.number)
                continue
            seen = seen or self._look()
            outcome = tried(partial(self._goes_on, request, seen, now))
            if not isinstance(outcome, Trouble):
                going += outcome
            elif outcome.reason == "forge" and outcome.stays:
                self._silent.add(request.number)  # it is gone, or locked meanwhile
            else:
                troubles[request.number] = outcome
                going += 1
        return Followed(going, troubles)

    def _goes_on(self, request: PullRequest, seen: _Now, now: datetime.datetime) -> bool:
        """Say where one stands, unless it is old; return whether it is followed on."""
        return not self._is_old(request, now) and self._follow(request, seen)

    def _is_old(self, request: PullRequest, now: datetime.datetime) -> bool:
        """Return whether a merge is long over, whatever happened to its pull request since."""
        repository = self._place.source.repository
        if not repository.has(request.merged) or repository.committed_at(request.merged) > (now - FOLLOWED).timestamp():
            return False
        self._silent.add(request.number)
        return True

    def _follow(self, request: PullRequest, now: _Now) -> bool:
        """Say where one stands; return whether it is followed on."""
        forge = self._place.forge
        rollout = self._rollout(request, now)
        if rollout is None:
            self._silent.add(request.number)
            return False
        text = comment(rollout)
        if self._said.get(request.number) != text:
            if self._was_removed(forge, request):
                self._silent.add(request.number)
                return False
            keep(forge, request.number, MARKER, text)
            say_status(forge, request.head, CONTEXT, _STATES[rollout.progress], rollout.words, request.url)
            self._said[request.number] = text
        if rollout.progress == "done":
            self._silent.add(request.number)
        return rollout.progress != "done"

    def _was_removed(self, forge: Forge, request: PullRequest) -> bool:
        """Return whether nothing more is to be said: all was said before this process began, or a person took it away.

        The commit status, which nobody can remove, remembers that there was a comment.
        """
        own_statuses = (
            status
            for status in forge.statuses(request.head)
            if status.context == CONTEXT and status.author == forge.identity()
        )
        last_status = next(own_statuses, None)
        if last_status is None:
            return False
        return last_status.state == "success" or not ours(forge, request.number, MARKER)

    def _look(self) -> _Now:
        repository = self._place.source.repository
        name = f"refs/heads/{self._place.branch}"
        tip = self._place.source.fetch(name)[name]
        declared = CommitSource(self._place.root, tip, repository)
        keys = reporter_keys(declared)
        key = publisher_key(declared)
        published = look(repository, self._rendered, keys, key)
        source = None
        if published.source is not None and repository.has(published.source):
            source = CommitSource(self._place.root, published.source, repository)
        reported_status = read_now(repository, self._status, sorted(keys.items()), None)
        statuses: dict[str, list[TenantStatus]] = {}
        for status in reported_status.tenants:
            statuses.setdefault(status.tenant, []).append(status)
        retained = last_record(repository, published.refs.get(RETAINED), key).tenants(published.source)
        return _Now(published, source, statuses, reported_status.troubles, consoles(declared), retained)

    def _rollout(self, request: PullRequest, now: _Now) -> Rollout | None:
        """Return where a pull request stands; None where it changed nothing that is rolled out."""
        repository = self._place.source.repository
        if request.number not in self._merged:
            changes = self._changed(request)
            if changes is None:
                return None
            self._merged[request.number] = changes
        merged = self._merged[request.number]
        is_out = now.source is not None and repository.is_ancestor(request.merged, now.source.commit)
        clusters = {resource.cluster for resource in merged.things}
        if merged.platform or not clusters:
            clusters |= set(now.published.branches)
        stages = [(resource, _stage(resource, now, is_out=is_out), _links(resource, now)) for resource in merged.things]
        return Rollout(request.merged, tuple(sorted(clusters)) if is_out else (), stages)

    def _changed(self, request: PullRequest) -> _Merged | None:
        """Return what a pull request changed, as it was merged; None where that is nothing declared, or can't be
        seen here."""
        repository, source = self._place.source.repository, self._place.source
        name = self._place.head(request.number)
        if source.look(name).get(name) != request.head or not repository.has(request.merged):
            return None
        try:
            source.fetch_within(Limit(*PlanBudget()), name, request.head)
        except (Unsound, Costly):
            return None
        fork = request.fork if request.fork and repository.has(request.fork) else f"{request.merged}^1"
        common = merge_base(repository, fork, request.head)
        if common is None:
            return None
        prefix = repository.top(self._place.root)
        try:
            changed_files = changed(
                repository, *(inner(repository, commit, prefix) for commit in (common, request.head))
            )
        except (MalformedTree, TooMuch):
            return None
        changed_files = [changed_file for changed_file in changed_files if changed_file.path.split("/")[0] in ROOTS]
        if not changed_files:
            return None
        after = CommitSource(self._place.root, request.merged, repository)
        before = CommitSource(self._place.root, common, repository)
        resources = [
            resource for changed_file in changed_files for resource in _things(changed_file.path, before, after)
        ]
        return _Merged(resources, any(not changed_file.path.startswith("tenants/") for changed_file in changed_files))


def _stage(resource: Merged, now: _Now, *, is_out: bool) -> Stage:
    published = None
    if is_out and now.source is not None:
        published = published_blobs(resource, now.source, now.published.branches)
    return stage(
        resource, published, now.statuses.get(resource.tenant, ()), now.silent, now.retained.get(resource.tenant)
    )


def _links(resource: Merged, now: _Now) -> InstanceLinks:
    """Return the links of an instance that its cluster reports as it was merged."""
    for status in now.statuses.get(resource.tenant, ()):
        for instance in (
            status.instances if (resource.kind, resource.cluster) == (INSTANCE.word, status.cluster) else ()
        ):
            if instance.name == resource.name and instance.observed_blob == resource.blob:
                return instance_links(now.consoles, resource.tenant, resource.cluster, instance)
    return InstanceLinks()


def _things(path: str, before: CommitSource, after: CommitSource) -> Iterator[Merged]:
    """Yield what a path declares: as it is now, and where it was if that is another cluster or it is gone."""
    spot = thing_at(path)
    if spot is None:
        return
    was, is_now = (declared_at(source, path) for source in (before, after))
    old, new = cluster_of(before, was), cluster_of(after, is_now)
    if old and old != new and (is_now is not None or after.blob(path) is None):
        yield Merged(spot.kind, spot.tenant, spot.name, old, "")
    if is_now is not None:
        yield Merged(spot.kind, spot.tenant, spot.name, new, is_now.blob)
