"""Follows merged pull requests: updates a comment on each pull request until the rollout is complete.

The rollout is complete when every resource that the pull request changed is in its declared state.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from allotment.adapters.forge.forge import Forge, PullRequest, StatusState
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.merge import declarations_tree, list_changed_files, merge_base
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.remote import FetchTooCostly, Remote, UnsoundObjects
from allotment.adapters.git.trees import MalformedTree
from allotment.adapters.processes import Limit
from allotment.branches.declared_resources import (
    find_cluster,
    parse_resource_path,
    read_declaration_at,
    read_published_blobs,
)
from allotment.branches.platform_settings import read_consoles, read_publisher_key, read_reporter_keys
from allotment.branches.rendered_branches import RenderedBranches, read_rendered_branches
from allotment.branches.retention_ref import RETAINED, last_record
from allotment.branches.status_reader import read_reported_status
from allotment.declared.layout import ROOTS
from allotment.declared.tenant_resources import INSTANCE
from allotment.observed.retention import RetainedTenant
from allotment.observed.rollout import ResourceRef, RolloutStage, derive_stage
from allotment.observed.status import TenantStatus
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.rollout import MARKER, Rollout, render_comment
from allotment.services.pull_requests.plan_comment import (
    PullRequestSource,
    find_own_comments,
    set_commit_status,
    upsert_comment,
)
from allotment.services.pull_requests.plan_sandbox import PlanBudget
from allotment.services.pull_requests.pull_failures import PullFailure, capture_failure

STATUS_CONTEXT = "allot/rollout"
FOLLOW_PERIOD = datetime.timedelta(days=7)
_STATES: dict[str, StatusState] = {"going": "pending", "done": "success", "failed": "failure"}


class _Snapshot(NamedTuple):
    """The state at one time: the published branches, their source commit, the statuses, and the retained tenants.

    `statuses` has the statuses by tenant. `troubles` has the fault of a status branch, by cluster.
    """

    published_look: RenderedBranches
    source: CommitSource | None
    statuses: dict[str, list[TenantStatus]]
    troubles: dict[str, str]
    consoles: Consoles
    retained: Mapping[str, RetainedTenant]


class _MergedChange(NamedTuple):
    """The resources that a pull request changed, and whether it changed files of the platform or a cluster."""

    resources: list[ResourceRef]
    changes_platform: bool


class RolloutSummary(NamedTuple):
    """The number of merges that are still followed, and the failures of single pull requests, by number."""

    in_progress: int
    failures: dict[int, PullFailure]


class RolloutCommenter:
    """Follows the merged pull requests of one repository.

    `rendered` and `status` are the remotes of the rendered and the status branches.
    """

    def __init__(self, place: PullRequestSource, rendered: Remote, status: Remote) -> None:
        self._pull_source = place
        self._rendered_remote = rendered
        self._status_remote = status
        self._posted_texts: dict[int, str] = {}
        self._finished: set[int] = set()
        self._merged_changes: dict[int, _MergedChange] = {}

    def follow_merges(self, now: datetime.datetime) -> RolloutSummary:
        """Update the comments on the merged pull requests. Return the summary.

        The state of the clusters is read once for all pull requests. If one pull request fails, even because of a bug,
        the others are still followed. Raises ForgeError or OperationRefused.
        """
        forge, going, troubles = self._pull_source.forge, 0, dict[int, PullFailure]()
        snapshot: _Snapshot | None = None
        for request in forge.merged_since(self._pull_source.branch, now - FOLLOW_PERIOD):
            if request.number in self._finished or not request.merge_commit:
                continue
            if request.is_locked:
                self._finished.add(request.number)
                continue
            snapshot = snapshot or self._take_snapshot()
            outcome = capture_failure(partial(self._advance, request, snapshot, now))
            if not isinstance(outcome, PullFailure):
                going += outcome
            elif outcome.reason == "forge" and outcome.is_permanent:
                self._finished.add(request.number)  # the pull request is gone, or somebody has just locked it
            else:
                troubles[request.number] = outcome
                going += 1
        return RolloutSummary(going, troubles)

    def _advance(self, request: PullRequest, snapshot: _Snapshot, now: datetime.datetime) -> bool:
        """Update the comment on a pull request, unless the merge is too old.

        Return whether the pull request is still followed.
        """
        return not self._is_old(request, now) and self._update_comment(request, snapshot)

    def _is_old(self, request: PullRequest, now: datetime.datetime) -> bool:
        """Return whether a merge is older than FOLLOW_PERIOD. The time of later events does not matter."""
        repository = self._pull_source.remote.repository
        if (
            not repository.has_object(request.merge_commit)
            or repository.committed_at(request.merge_commit) > (now - FOLLOW_PERIOD).timestamp()
        ):
            return False
        self._finished.add(request.number)
        return True

    def _update_comment(self, request: PullRequest, now: _Snapshot) -> bool:
        """Update the comment and commit status of a pull request. Return whether the pull request is still followed."""
        forge = self._pull_source.forge
        rollout = self._build_rollout(request, now)
        if rollout is None:
            self._finished.add(request.number)
            return False
        text = render_comment(rollout, forge.comment_bytes)
        if self._posted_texts.get(request.number) != text:
            if self._was_removed(forge, request):
                self._finished.add(request.number)
                return False
            upsert_comment(forge, request.number, MARKER, text)
            set_commit_status(
                forge, request.head, STATUS_CONTEXT, _STATES[rollout.progress], rollout.summary, request.url
            )
            self._posted_texts[request.number] = text
        if rollout.progress == "done":
            self._finished.add(request.number)
        return rollout.progress != "done"

    def _was_removed(self, forge: Forge, request: PullRequest) -> bool:
        """Return whether the rollout was already reported as complete, or a person removed the comment.

        A commit status shows that there was a comment, because nobody can remove a commit status.
        """
        own_statuses = (
            status
            for status in forge.list_statuses(request.head)
            if status.context == STATUS_CONTEXT and status.author == forge.identity()
        )
        last_status = next(own_statuses, None)
        if last_status is None:
            return False
        return last_status.state == "success" or not find_own_comments(forge, request.number, MARKER)

    def _take_snapshot(self) -> _Snapshot:
        repository = self._pull_source.remote.repository
        name = f"refs/heads/{self._pull_source.branch}"
        tip = self._pull_source.remote.fetch(name)[name]
        declared = CommitSource(self._pull_source.root, tip, repository)
        keys = read_reporter_keys(declared)
        key = read_publisher_key(declared)
        published = read_rendered_branches(repository, self._rendered_remote, keys, key)
        source = None
        if published.source is not None and repository.has_object(published.source):
            source = CommitSource(self._pull_source.root, published.source, repository)
        reported_status = read_reported_status(repository, self._status_remote, sorted(keys.items()), None)
        statuses: dict[str, list[TenantStatus]] = {}
        for status in reported_status.tenants:
            statuses.setdefault(status.tenant, []).append(status)
        retained = last_record(repository, published.refs.get(RETAINED), key).tenants(published.source)
        return _Snapshot(published, source, statuses, reported_status.troubles, read_consoles(declared), retained)

    def _build_rollout(self, request: PullRequest, now: _Snapshot) -> Rollout | None:
        """Return the rollout of a pull request; None if it changed no declarations, or if they can't be read."""
        repository = self._pull_source.remote.repository
        if request.number not in self._merged_changes:
            changes = self._find_changes(request)
            if changes is None:
                return None
            self._merged_changes[request.number] = changes
        merged = self._merged_changes[request.number]
        is_out = now.source is not None and repository.is_ancestor(request.merge_commit, now.source.commit)
        clusters = {resource.cluster for resource in merged.resources}
        if merged.changes_platform or not clusters:
            clusters |= set(now.published_look.branches)
        stages = [
            (resource, _find_stage(resource, now, is_out=is_out), _find_links(resource, now))
            for resource in merged.resources
        ]
        return Rollout(request.merge_commit, tuple(sorted(clusters)) if is_out else (), stages)

    def _find_changes(self, request: PullRequest) -> _MergedChange | None:
        """Return the changes of a merged pull request.

        Returns None if the pull request changed no declarations, or if this clone can't read them.
        """
        repository, source = self._pull_source.remote.repository, self._pull_source.remote
        name = self._pull_source.find_head_ref(request.number)
        if source.look(name).get(name) != request.head or not repository.has_object(request.merge_commit):
            return None
        try:
            source.fetch_limited(Limit(*PlanBudget()), name, request.head)
        except (UnsoundObjects, FetchTooCostly):
            return None
        fork = (
            request.base_commit
            if request.base_commit and repository.has_object(request.base_commit)
            else f"{request.merge_commit}^1"
        )
        common = merge_base(repository, fork, request.head)
        if common is None:
            return None
        prefix = repository.folder_prefix(self._pull_source.root)
        try:
            changed_files = list_changed_files(
                repository, *(declarations_tree(repository, commit, prefix) for commit in (common, request.head))
            )
        except (MalformedTree, LimitExceeded):
            return None
        changed_files = [changed_file for changed_file in changed_files if changed_file.path.split("/")[0] in ROOTS]
        if not changed_files:
            return None
        after = CommitSource(self._pull_source.root, request.merge_commit, repository)
        before = CommitSource(self._pull_source.root, common, repository)
        resources = [
            resource for changed_file in changed_files for resource in _list_resources(changed_file.path, before, after)
        ]
        return _MergedChange(
            resources, any(not changed_file.path.startswith("tenants/") for changed_file in changed_files)
        )


def _find_stage(resource: ResourceRef, now: _Snapshot, *, is_out: bool) -> RolloutStage:
    published = None
    if is_out and now.source is not None:
        published = read_published_blobs(resource, now.source, now.published_look.branches)
    return derive_stage(
        resource, published, now.statuses.get(resource.tenant, ()), now.troubles, now.retained.get(resource.tenant)
    )


def _find_links(resource: ResourceRef, now: _Snapshot) -> InstanceLinks:
    """Return the links of an instance if its cluster reports the merged version."""
    for status in now.statuses.get(resource.tenant, ()):
        for instance in (
            status.instances if (resource.kind, resource.cluster) == (INSTANCE.word, status.cluster) else ()
        ):
            if instance.name == resource.name and instance.observed_blob == resource.blob:
                return instance_links(now.consoles, resource.tenant, resource.cluster, instance)
    return InstanceLinks()


def _list_resources(path: str, before: CommitSource, after: CommitSource) -> Iterator[ResourceRef]:
    """Yield the resource that a path declares, in its new cluster and in an old cluster that the resource has left.

    In the old cluster, the resource has no version, because it is removed from this cluster.
    """
    resource = parse_resource_path(path)
    if resource is None:
        return
    old_declaration, new_declaration = (read_declaration_at(source, path) for source in (before, after))
    old, new = find_cluster(before, old_declaration), find_cluster(after, new_declaration)
    if old and old != new and (new_declaration is not None or after.blob(path) is None):
        yield ResourceRef(resource.kind, resource.tenant, resource.name, old, "")
    if new_declaration is not None:
        yield ResourceRef(resource.kind, resource.tenant, resource.name, new, new_declaration.blob)
