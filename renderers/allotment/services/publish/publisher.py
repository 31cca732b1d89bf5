"""Publishes a commit: reads the rendered branches, builds the next release, commits it and pushes it.

If another push is faster, the publisher repeats all these steps.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache as cached
from functools import partial
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.backoff import Backoff
from allotment.adapters.declaration_source import Source
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.history import is_on_first_parents
from allotment.adapters.git.remote import Remote
from allotment.branches.declared_resources import is_declared
from allotment.branches.platform_settings import (
    list_cluster_names,
    read_platform,
    read_publisher_key,
    read_reporter_keys,
)
from allotment.branches.rendered_branches import (
    SOURCE_REF,
    RenderedBranches,
    approved_ref,
    check_published,
    published_ref,
    read_rendered_branches,
)
from allotment.branches.retention_ref import RETAINED, LastRecord, last_record
from allotment.declared.kinds.platform import Platform
from allotment.lifecycle import brake
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import current_path, is_marker
from allotment.problems import AllotmentError, OperationRefused
from allotment.services.publish.commit_message import format_commit_message
from allotment.services.publish.observed_state import StatusReader
from allotment.services.publish.release import Release
from allotment.services.publish.release_builder import ReleaseBuilder
from allotment.services.publish.rendered_file_store import RenderedFileStore
from allotment.services.publish.retention_record import (
    Pushed,
    push_with_record,
    record_move,
)

MAX_TRIES = 10
BACKOFF = Backoff(0.2, 10.0, jitter=(0, 1))  # the waits after another publish was faster


class BrakeEngaged(AllotmentError):
    """The brake stopped the publish, and nothing was written. `excess` is the deletion beyond the limit."""

    def __init__(self, excess: brake.BrakeExcess) -> None:
        super().__init__(excess.publish_message)
        self.excess = excess


class SourceRewound(OperationRefused):
    """The source branch no longer contains the published source commit."""


class KeyMissing(OperationRefused):
    """The platform declares a publisher key, and the configured signing key is a different key or missing."""


class ClusterCommit(NamedTuple):
    """The commit to a cluster's branch, or the commit that a dry run would create (`commit` is then empty).

    `changes` maps each path, except folder markers, to A, M or D. `foreign_commit` is the commit of another author that
    this commit replaces, if any. `branch_fault` is the fault of the branch that this commit corrects, as `Branch.fault`.
    """

    cluster: str
    commit: str
    changes: dict[str, str]
    foreign_commit: str | None
    branch_fault: str = ""

    def count_files(self, letter: str) -> int:
        """Return how many files were added (A), changed (M) or removed (D)."""
        return sum(path_letter == letter for path_letter in self.changes.values())


class PublishResult(NamedTuple):
    """The result of a publish: the new commits, and the current tip of each branch.

    If a newer commit is already published, `newer_source` is that commit, and nothing was written. `record_trouble` is
    the reason why the record of the retained tenants is invalid or was not written; empty if there is no such reason.
    """

    source: str
    commits: list[ClusterCommit]
    release: Release | None
    tips: dict[str, str]
    newer_source: str | None = None
    record_trouble: str = ""


Precondition = Callable[[str | None, str], None]


class Publisher:
    """Publishes commits of a source repository to the rendered branches of a remote.

    - `root` is the folder of the declarations in the local repository, which fetches from `remote` and pushes to it.
    - `status` is the remote of the status branches; by default `remote`.
    - `find_remotes` returns the remotes that a source declares: one for the rendered and one for the status branches.
    - `find_tip` returns the newest commit of the source branch, or None.
    - `check_precondition` receives the published source commit and the new source commit before each try. It raises
      OperationRefused to stop the publish.
    - `signing_key` signs the commits. If `needs_key` is false, the commits of a trial get no signature, and replace
      none with a signature.
    - If `adopt` is true, the publisher accepts published commits that are unsigned or that no ref of Allotment names.
    """

    def __init__(
        self,
        root: Path,
        remote: Remote,
        release_builder: ReleaseBuilder,
        today: Callable[[Source], datetime.date],
        *,
        status: Remote | None = None,
        find_remotes: Callable[[Source], tuple[Remote, Remote]] | None = None,
        find_tip: Callable[[], str | None] = lambda: None,
        dry_run: bool = False,
        check_precondition: Precondition | None = None,
        signing_key: Path | None = None,
        needs_key: bool = True,
        adopt: bool = False,
    ) -> None:
        self.root = root
        self.repository = remote.repository
        self.status_reader = StatusReader(self.repository, status or remote)
        self.remote = remote
        self._find_remotes = find_remotes
        self._release_builder = release_builder
        self._find_date = today
        self._find_tip = find_tip
        self._dry_run = dry_run
        self._check_precondition = check_precondition
        self._is_trial = not needs_key and not dry_run
        if not needs_key:
            self.repository.disable_signing()
        self._signer = self.repository.sign_with(signing_key, keep=False) if signing_key else None
        self._adopt = adopt
        self._last_source: CommitSource | None = None

    def forget(self) -> None:
        """Clear the caches of the clone's objects."""
        self._last_source = None
        self.status_reader = StatusReader(self.repository, self.status_reader.remote)

    def publish(self, ref: str) -> PublishResult:
        """Publish a commit.

        Raises OperationRefused, SourceRewound, BrakeEngaged or PlatformInvalid. If one of these errors is raised, the
        remote is unchanged. An exception is a push that timed out: the remote may have accepted this push.
        """
        for attempt in range(MAX_TRIES):
            source = self.switch_to(ref)
            key = self._find_publisher_key(source)
            remote_state = read_rendered_branches(
                self.repository, self.remote, list_cluster_names(source), key, adopt=self._adopt
            )
            if self._is_trial:
                self._require_unsigned(remote_state)
            remote_state = self._with_trusted_source(source, remote_state)
            if self._is_older(source, remote_state):
                return PublishResult(source.commit, [], None, {}, remote_state.source)
            self._check_new_clusters(remote_state, source)
            if self._check_precondition is not None:
                self._check_precondition(remote_state.source, source.commit)
            observed_state = self.status_reader.read(read_reporter_keys(source))
            window = cached(partial(self._read_brake_window, source, remote_state))
            with _garbage_collection_paused():
                assembly = self._release_builder.build_release(
                    source,
                    self._find_date(source),
                    remote_state.branches,
                    observed_state,
                    window=window,
                    store=RenderedFileStore(None if self._dry_run else self.repository),
                )
                released = assembly.approved_clusters | self._check_brake(remote_state, assembly, window)
                committed = self._commit_clusters(source, remote_state, assembly, released, observed_state.commits)
            record = last_record(self.repository, remote_state.refs.get(RETAINED), key)
            pushed = self._push_refs(source.commit, remote_state, committed, released, assembly, record)
            if pushed.done:
                changed = [
                    cluster_commit
                    for cluster_commit in committed
                    if cluster_commit.commit != remote_state.branches[cluster_commit.cluster].tip
                ]
                tips = {cluster_commit.cluster: cluster_commit.commit for cluster_commit in committed}
                return PublishResult(
                    source.commit, changed, assembly, tips, record_trouble=pushed.trouble or record.trouble
                )
            time.sleep(BACKOFF.delay(attempt + 1))
        raise OperationRefused(f"lost the push race {MAX_TRIES} times: run the command again")

    def _find_publisher_key(self, source: CommitSource) -> str | None:
        """Return the key that must sign the commits; None if the source declares no key, or if they need none.

        Raises KeyMissing if the configured signing key is a different key or missing. A dry run needs no signing key.
        """
        if self._is_trial:
            return None
        key = read_publisher_key(source) or None  # with an unknown key, the invalid platform stops the publish
        if key is None or self._dry_run or (self._signer or "").split()[:2] == key.split()[:2]:
            return key
        signs = "--signing-key names a different key" if self._signer else "no --signing-key is set"
        raise KeyMissing(
            f"the platform declares spec.publisher.publicKey, but {signs}: name the private key that belongs to it with --signing-key"
        )

    def _require_unsigned(self, remote_state: RenderedBranches) -> None:
        """Raise OperationRefused if a published commit of the remote has a signature. A trial replaces no such commit."""
        for cluster, branch in remote_state.branches.items():
            if branch.published_commit is not None and self.repository.has_signature(branch.published_commit):
                raise OperationRefused(
                    f"rendered/{cluster} of {self.remote} has a signature, so no trial may change it: name another repository"
                    " with --to, or merge the commit and publish it with --signing-key"
                )

    def switch_to(self, ref: str) -> CommitSource:
        """Switch to a commit and to the remotes that it declares. Return the commit as a source.

        The source of the last call is cached. A commit never changes, so its files are listed only once.
        """
        commit = self.repository.resolve_named_commit(ref)
        if self._last_source is None or self._last_source.commit != commit:
            source = CommitSource(self.root, commit, self.repository, self._last_source)
            if self._find_remotes is not None:
                self.remote, status = self._find_remotes(source)
                if status is not self.status_reader.remote:
                    self.status_reader = StatusReader(self.repository, status)
            self._last_source = source  # not before: after an error, the next try must find the remotes
        return self._last_source

    def _with_trusted_source(self, source: CommitSource, remote_state: RenderedBranches) -> RenderedBranches:
        """Return the remote state with the trusted source commit of the last publish.

        The source ref names this commit, but anyone with write access can move the ref. Signatures prove some source
        commits (`proven_sources`). If no source commit is proven, the ref is trusted. Otherwise the history of the ref
        must contain all proven commits. In addition, one of two conditions must hold: the ref was a state of the branch
        of the new commit, not only a commit of a pull request, or the new commit is in the history of the ref and is not
        the tip of the source branch. If the ref is not trusted, the newest proven commit replaces it. A trusted ref may be ahead of the proven commits, because
        a publish that changes no branch moves only the ref.
        """
        new, recorded_source = source.commit, remote_state.source
        if not remote_state.proven_sources:
            return remote_state
        if recorded_source is not None and all(
            self.repository.is_ancestor(commit, recorded_source) for commit in remote_state.proven_sources
        ):
            if is_on_first_parents(self.repository, recorded_source, new):
                return remote_state
            if self.repository.is_ancestor(new, recorded_source) and self._find_tip() != new:
                return remote_state
        return remote_state._replace(source=remote_state.proven_sources[0])

    def _is_older(self, source: CommitSource, remote_state: RenderedBranches) -> bool:
        """Return whether a newer source is already published. Raises SourceRewound if the source was rewound.

        If another process has published a newer commit, the source was not rewound. To tell this case from a rewind,
        the tip of the source branch is fetched after the remote state was read.
        """
        new = source.commit
        if self.repository.is_shallow():
            raise OperationRefused(
                "this clone is shallow, so the order of commits is unknown:"
                " run `git fetch --unshallow`, in CI fetch the whole history (fetch-depth: 0, GIT_DEPTH: 0)"
            )
        published = [
            commit
            for commit in dict.fromkeys((remote_state.source, *remote_state.proven_sources))
            if commit is not None
        ]
        newer = [commit for commit in published if not self.repository.is_ancestor(commit, new)]
        if not newer:
            return False
        tip = self._find_tip()
        if tip != new and all(self.repository.is_ancestor(new, commit) for commit in newer):
            return True
        if tip not in (None, new) and all(self.repository.is_ancestor(commit, tip) for commit in newer):
            raise OperationRefused(
                f"{new[:12]} doesn't contain the published commit {newer[0][:12]}, and is not the newest commit of the branch:"
                f" publish {tip[:12]}"
            )
        raise SourceRewound(
            self._rewind_message(new, newer[0], proven=tip is not None, signed=bool(remote_state.proven_sources))
        )

    def _rewind_message(self, new: str, old: str, *, proven: bool, signed: bool) -> str:
        """Return the message about a rewound source.

        The message explains how to abandon the old commit only if the tip of the source branch proves the rewind
        (`proven`).
        """
        message = (
            f"the source was rewound: {old[:12]} was published, but {new[:12]} doesn't contain it. Nothing was published."
            f" Bring {old[:12]} back; to undo its changes, revert it in a new commit."
        )
        if not proven:
            return f"{message} This repository doesn't have the newest commit of the source's branch: publish from a clone of the source"
        return (
            f"{message} If nobody published {old[:12]}, or if you want to abandon it:"
            f" `git push {self.remote} --delete {SOURCE_REF}`, and publish again"
            + (", with --adopt: the publisher's key proves it" if signed else "")
        )

    def _check_new_clusters(self, remote_state: RenderedBranches, source: CommitSource) -> None:
        """Raise PublicationUnproven if a cluster without a published commit is not new.

        A cluster is not new if the last published source declares it.
        """
        unknown = any(branch.published_commit is None for branch in remote_state.branches.values())
        if unknown and remote_state.source is not None and not self._adopt:
            check_published(
                remote_state, list_cluster_names(CommitSource(self.root, remote_state.source, self.repository, source))
            )

    def _check_brake(
        self, remote_state: RenderedBranches, assembly: Release, window: Callable[[], brake.BrakeWindow]
    ) -> frozenset[str]:
        """Return the clusters in which an approval released a deletion by several tenants together.

        Raises BrakeEngaged.
        """
        platform = assembly.catalog.platform.get_singleton(Platform)
        assert platform is not None
        if not any(
            cluster_branch.files.keys() - assembly.files.get(name, {}).keys()
            for name, cluster_branch in remote_state.branches.items()
        ):
            return frozenset()  # no file is removed, so no item is removed
        published = _list_brake_items({name: branch.files for name, branch in remote_state.branches.items()})
        now = _list_brake_items(assembly.files)
        if not published - now:
            return frozenset()
        verdict = brake.judge_release(platform.model.spec.brake, published, now, window())
        if verdict.excess:
            raise BrakeEngaged(verdict.excess)
        return verdict.released_clusters

    def _read_brake_window(self, source: CommitSource, remote_state: RenderedBranches) -> brake.BrakeWindow:
        """Return the facts for the verdict of the brake.

        The approvals come from the last published source. If it can't be read, nothing is approved.
        """
        day_ago = _list_brake_items(
            {name: branch.files_before(brake.WINDOW_SECONDS) for name, branch in remote_state.branches.items()}
        )
        used = {
            name: branch.approved_commit for name, branch in remote_state.branches.items() if branch.approved_commit
        }
        last = CommitSource(self.root, remote_state.source, self.repository, source) if remote_state.source else None
        platform = read_platform(last) if last else None
        approvals = platform.spec.brake.approved_plans if platform else ()
        return brake.BrakeWindow(
            brake.group_items_by_tenant(day_ago),
            approvals,
            used,
            partial(is_declared, last) if last else lambda _: False,
        )

    def _commit_clusters(
        self,
        source: CommitSource,
        remote_state: RenderedBranches,
        assembly: Release,
        released: Collection[str],
        status_commits: Mapping[str, str],
    ) -> list[ClusterCommit]:
        author = self.repository.author(source.commit)
        committed = []
        for cluster, files in assembly.files.items():
            branch = remote_state.branches[cluster]
            if cluster in assembly.retained_clusters and branch.published_commit is None:
                continue  # nothing was ever published to the cluster, so there is no tree to retain
            changes = branch.compare_files(files)
            reported_changes = {path: letter for path, letter in changes.items() if not is_marker(current_path(path))}
            replaced = branch.foreign_commit
            trailers = {"Source-Commit": source.commit, "Status-Commit": status_commits.get(cluster, "")}
            words = partial(
                format_commit_message, cluster, reported_changes, trailers=trailers, approved=cluster in released
            )
            if branch.is_interrupted(files, CommitMessage(words(replaced=None), author)):
                committed.append(ClusterCommit(cluster, branch.tip or "", reported_changes, None))
            elif not self._dry_run:
                text = CommitMessage(words(replaced=replaced), author)
                commit = branch.create_commit(files, changes, assembly.data[cluster], text)
                committed.append(ClusterCommit(cluster, commit, reported_changes, replaced, branch.fault))
            elif changes or branch.fault:
                committed.append(ClusterCommit(cluster, "", reported_changes, replaced, branch.fault))
        return committed

    def _push_refs(
        self,
        source: str,
        remote_state: RenderedBranches,
        committed: list[ClusterCommit],
        released: Collection[str],
        assembly: Release,
        record: LastRecord,
    ) -> Pushed:
        """Push the refs of a publish, unless all are unchanged. Return whether the remote accepted them (`Pushed`).

        Also pushes unchanged refs, so that the remote rejects this push if another push has moved an unchanged ref.
        """
        if self._dry_run:
            return Pushed(True)
        moves = {SOURCE_REF: source}
        for cluster_commit in committed:
            branch = remote_state.branches[cluster_commit.cluster]
            moves[rendered_branch(cluster_commit.cluster)] = moves[published_ref(cluster_commit.cluster)] = (
                cluster_commit.commit
            )
            if cluster_commit.cluster in released and cluster_commit.commit != branch.published_commit:
                moves[approved_ref(cluster_commit.cluster)] = cluster_commit.commit
        move = record_move(self.repository, source, assembly, record)
        if all(remote_state.refs.get(name) == commit for name, commit in {**moves, **move.moves}.items()):
            return Pushed(True, move.trouble)
        over = {name: commit for name, commit in remote_state.forged_refs.items() if name in moves}
        if remote_state.refs.get(SOURCE_REF) not in (None, remote_state.source):
            over[SOURCE_REF] = remote_state.refs[SOURCE_REF]
        return push_with_record(self.remote, moves, over, move)


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause Python's garbage collector.

    The objects of thousands of tenants live from one publish to the next. A full collection visits all of them, frees
    nothing, and takes as long as a third of a publish. It can run while the publisher waits for a remote.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _list_brake_items(files: Mapping[str, Iterable[str]]) -> brake.BrakeItems:
    """Return the items that the brake counts. `files` has the paths of the published files by cluster."""
    return brake.brake_items(f"{cluster}/{path}" for cluster, paths in files.items() for path in paths)
