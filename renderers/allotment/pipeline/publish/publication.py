"""Publishes a commit: looks at the rendered branches, assembles what follows, commits and pushes it, and looks again
when somebody else was quicker."""

from __future__ import annotations

import contextlib
import datetime
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache as cached
from functools import partial
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.commits import Message
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.rendered import (
    SOURCE,
    Look,
    approved_ref,
    check_known,
    look,
    published_ref,
)
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.retained import RETAINED
from allotment.adapters.source import Source
from allotment.changes import brake
from allotment.declared.kinds.platform import Platform
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import is_marker, today
from allotment.pipeline.declared import cluster_names, platform_of, publisher_key, reporter_keys
from allotment.pipeline.publish.assembler import Assembler
from allotment.pipeline.publish.assembly import Assembly
from allotment.pipeline.publish.known import Statuses
from allotment.pipeline.publish.messages import message
from allotment.pipeline.publish.retention_record import (
    Pushed,
    forced_record,
    moved_record,
    push_with_record,
)
from allotment.pipeline.report.retained import LastRecord, last_record
from allotment.pipeline.report.things import is_declared
from allotment.problems import AllotmentError, Refused

TRIES = 10
FIRST_WAIT = 0.2  # seconds, at most; doubled at each further try up to LONGEST_WAIT
LONGEST_WAIT = 10.0


class Braked(AllotmentError):
    """The brake stopped the publish: nothing was written. `excess` is the deletion that is too much."""

    def __init__(self, excess: brake.Excess) -> None:
        super().__init__(excess.words)
        self.excess = excess


class Rewound(Refused):
    """The source went back behind what was published."""


class KeyMissing(Refused):
    """The platform declares the publisher's key, and what signs here is another, or nothing."""


class Committed(NamedTuple):
    """What was, or would be, committed for a cluster: `paths` has A, M or D by path, of all but markers; `replaced`
    a commit not of ours. `lagged` says that the branch was behind our last commit."""

    cluster: str
    commit: str
    paths: dict[str, str]
    replaced: str | None
    lagged: bool = False

    def count(self, letter: str) -> int:
        """Return how many files were added (A), changed (M) or removed (D)."""
        return sum(path_letter == letter for path_letter in self.paths.values())


class Outcome(NamedTuple):
    """How a publish ended: what is new, and each branch's tip now.

    `newer` is the source commit that had been published already, if it is newer than this one. `record_trouble` is the reason that
    the record of the retained tenants did not count, or was not written.
    """

    source: str
    committed: list[Committed]
    assembly: Assembly | None
    tips: dict[str, str]
    newer: str | None = None
    record_trouble: str = ""


Demand = Callable[[str | None, str], None]


class Publisher:
    """Publishes commits of one source repository to the rendered branches of a remote, one after another.

    `root` is a folder of the repository that `remote` brings things to. `status` is the remote of the status
    branches, the same if absent; `places` returns both instead, as a commit declares them. `tip` returns the
    newest commit of the source branch now, None where there is none; without it, that of the declared branch of `origin`.
    `demand` is
    asked before each try with the source commit that is published and the one that would be, and raises Refused where
    that mustn't be. `signing_key` signs what is published, `adopt` believes what is there unsigned, or without our
    refs.
    """

    def __init__(
        self,
        root: Path,
        remote: Remote,
        assembler: Assembler,
        today: Callable[[Source], datetime.date],
        *,
        status: Remote | None = None,
        places: Callable[[Source], tuple[Remote, Remote]] | None = None,
        tip: Callable[[], str | None] | None = None,
        dry_run: bool = False,
        demand: Demand | None = None,
        signing_key: Path | None = None,
        adopt: bool = False,
    ) -> None:
        self.root = root
        self.repository = remote.repository
        self.statuses = Statuses(self.repository, status or remote)
        self.remote = remote
        self._places = places
        self._assembler = assembler
        self._today = today
        self._find_tip = tip
        self._dry_run = dry_run
        self._demand = demand
        self._signer = self.repository.sign_with(signing_key, keep=False) if signing_key else None
        self._adopt = adopt
        self._last: CommitSource | None = None

    def forget(self) -> None:
        """Forget all objects of the clone."""
        self._last = None
        self.statuses = Statuses(self.repository, self.statuses.remote)

    def publish(self, ref: str) -> Outcome:
        """Publish a commit. Raises Refused, Rewound, Braked or PlatformInvalid; then nothing was written."""
        for attempt in range(TRIES):
            source = self.switch_to(ref)
            key = self._key(source)
            remote_state = look(self.repository, self.remote, cluster_names(source), key, adopt=self._adopt)
            remote_state = self._believed(source, remote_state)
            if self._is_older(source, remote_state):
                return Outcome(source.commit, [], None, {}, remote_state.source)
            self._check_known(remote_state, source)
            if self._demand is not None:
                self._demand(remote_state.source, source.commit)
            observed_tenants = self.statuses.read(reporter_keys(source))
            window = cached(partial(self._brake_window, source, remote_state))
            assembly = self._assembler.assemble(
                source,
                self._today(source),
                remote_state.branches,
                observed_tenants=observed_tenants,
                observed=self.statuses.observed,
                doubted=self.statuses.troubles,
                window=window,
            )
            released = assembly.released | self._judged(remote_state, assembly, window)
            committed = self._commit(source, remote_state, assembly, released)
            record = last_record(self.repository, remote_state.refs.get(RETAINED), key)
            pushed = self._pushed(source.commit, remote_state, committed, released, assembly, record)
            if pushed.done:
                changed = [
                    cluster_commit
                    for cluster_commit in committed
                    if cluster_commit.commit != remote_state.branches[cluster_commit.cluster].tip
                ]
                tips = {cluster_commit.cluster: cluster_commit.commit for cluster_commit in committed}
                return Outcome(source.commit, changed, assembly, tips, record_trouble=pushed.trouble or record.trouble)
            time.sleep(random.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2**attempt)))  # noqa: S311  # no secret
        raise Refused(f"others were quicker {TRIES} times: try again")

    def _key(self, source: CommitSource) -> str | None:
        """Return the key that must sign what is published, None where the source declares none. Raises KeyMissing
        where another signs here."""
        key = publisher_key(source)
        if key is None or self._dry_run or (self._signer or "").split()[:2] == key.split()[:2]:
            return key
        signs = "the key of --signing-key is another one" if self._signer else "nothing signs here"
        raise KeyMissing(
            f"the platform declares spec.publisher.publicKey, and {signs}: name the private key of that one with --signing-key"
        )

    def switch_to(self, ref: str) -> CommitSource:
        """Make a commit the source, and the remotes that it declares the targets. Return the commit.

        The last commit is kept: it never changes, and is listed once.
        """
        commit = self.repository.commit(ref)
        if self._last is None or self._last.commit != commit:
            self._last = CommitSource(self.root, commit, self.repository, self._last)
            if self._places is not None:
                self.remote, status = self._places(self._last)
                if status is not self.statuses.remote:
                    self.statuses = Statuses(self.repository, status)
        return self._last

    def _believed(self, source: CommitSource, remote_state: Look) -> Look:
        """Return a look with the source commit that was published last: what the ref says, where it contains what the
        key proves and lies in the history that is published; else what the key proves. A publish that changes no branch
        moves the ref alone, so that it may well be ahead."""
        new, recorded_source = source.commit, remote_state.source
        if not remote_state.proven:
            return remote_state
        if recorded_source is not None and all(
            self.repository.is_ancestor(commit, recorded_source) for commit in remote_state.proven
        ):
            if self.repository.is_ancestor(recorded_source, new):
                return remote_state
            if self.repository.is_ancestor(new, recorded_source) and self._tip(source) != new:
                return remote_state
        return remote_state._replace(source=remote_state.proven[0])

    def _is_older(self, source: CommitSource, remote_state: Look) -> bool:
        """Return whether something newer is published already. Raises Rewound where the source went back.

        The branch's tip is fetched after the look: a publish that was overtaken between its own fetch and the look is
        older, and proves no rewind.
        """
        new = source.commit
        if self.repository.is_shallow():
            raise Refused(
                "this clone has only a part of the history, which the order of commits can't be seen from:"
                " run `git fetch --unshallow`, in CI fetch the whole history (fetch-depth: 0, GIT_DEPTH: 0)"
            )
        published = [
            commit for commit in dict.fromkeys((remote_state.source, *remote_state.proven)) if commit is not None
        ]
        newer = [commit for commit in published if not self.repository.is_ancestor(commit, new)]
        if not newer:
            return False
        tip = self._tip(source)
        if tip != new and all(self.repository.is_ancestor(new, commit) for commit in newer):
            return True
        if tip not in (None, new) and all(self.repository.is_ancestor(commit, tip) for commit in newer):
            raise Refused(
                f"{new[:12]} doesn't contain {newer[0][:12]}, which is published, and is not the newest commit of the branch:"
                f" publish {tip[:12]}"
            )
        raise Rewound(self._rewound_words(new, newer[0], proven=tip is not None, signed=bool(remote_state.proven)))

    def _rewound_words(self, new: str, old: str, *, proven: bool, signed: bool) -> str:
        """Return the message of a rewind; how to leave a commit behind is said only where the branch's tip proves it."""
        words = (
            f"the source was rewound: {old[:12]} was published, and {new[:12]} doesn't contain it. Nothing was published."
            f" Bring {old[:12]} back; to undo what it did, revert it in a new commit."
        )
        if not proven:
            return f"{words} The newest commit of the source's branch is not known here: publish from a clone of it"
        return (
            f"{words} Where nobody published {old[:12]}, or it is to be left behind for good:"
            f" `git push {self.remote} --delete {SOURCE}`, and publish again"
            + (", with --adopt: the publisher's key proves it" if signed else "")
        )

    def _check_known(self, remote_state: Look, source: CommitSource) -> None:
        """Check that a cluster of which nothing is known is a new one. Raises Unproven."""
        unknown = any(branch.published is None for branch in remote_state.branches.values())
        if unknown and remote_state.source is not None and not self._adopt:
            check_known(
                remote_state, cluster_names(CommitSource(self.root, remote_state.source, self.repository, source))
            )

    def _tip(self, source: CommitSource) -> str | None:
        """Return the newest commit of the source's branch now, at `origin` where there is one; None where none is."""
        if self._find_tip is not None:
            return self._find_tip()
        platform = platform_of(source)
        return newest(self.repository, platform.spec.git.branch, "origin", str(self.root)) if platform else None

    def _judged(self, remote_state: Look, assembly: Assembly, window: Callable[[], brake.Window]) -> frozenset[str]:
        """Return the clusters of a deletion across tenants that an approval released. Raises Braked."""
        platform = assembly.offers.platform.one(Platform)
        assert platform is not None
        if not any(
            cluster_branch.files.keys() - assembly.files.get(name, {}).keys()
            for name, cluster_branch in remote_state.branches.items()
        ):
            return frozenset()  # no file is gone, so no item is
        published = _items({name: branch.files for name, branch in remote_state.branches.items()})
        now = _items(assembly.files)
        if not published - now:
            return frozenset()
        verdict = brake.judge_release(platform.model.spec.brake, published, now, window())
        if verdict.stop:
            raise Braked(verdict.stop)
        return verdict.released

    def _brake_window(self, source: CommitSource, remote_state: Look) -> brake.Window:
        """Return the facts by which the brake decides; nothing is approved where the last published source cannot be
        read."""
        day_ago = _items(
            {name: branch.files_before(brake.WINDOW_SECONDS) for name, branch in remote_state.branches.items()}
        )
        used = {name: branch.approved for name, branch in remote_state.branches.items() if branch.approved}
        last = CommitSource(self.root, remote_state.source, self.repository, source) if remote_state.source else None
        platform = platform_of(last) if last else None
        approvals = platform.spec.brake.approved_plans if platform else ()
        return brake.Window(
            brake.by_tenant(day_ago), approvals, used, partial(is_declared, last) if last else lambda _: False
        )

    def _commit(
        self, source: CommitSource, remote_state: Look, assembly: Assembly, released: Collection[str]
    ) -> list[Committed]:
        author = self.repository.author(source.commit)
        committed = []
        for cluster, files in assembly.files.items():
            branch = remote_state.branches[cluster]
            if cluster in assembly.retained_clusters and branch.published is None:
                continue  # nothing was published there yet
            changes = branch.changed(files)
            reported_changes = {path: letter for path, letter in changes.items() if not is_marker(today(path))}
            replaced = branch.foreign
            trailers = {"Source-Commit": source.commit, "Status-Commit": self.statuses.commits.get(cluster, "")}
            words = partial(message, cluster, reported_changes, trailers=trailers, approved=cluster in released)
            if branch.is_interrupted(files, Message(words(replaced=None), author)):
                committed.append(Committed(cluster, branch.tip or "", reported_changes, None))
            elif not self._dry_run:
                text = Message(words(replaced=replaced), author)
                commit = branch.commit(files, changes, assembly.data[cluster], text)
                committed.append(Committed(cluster, commit, reported_changes, replaced, branch.lags))
            elif changes or replaced:
                committed.append(Committed(cluster, "", reported_changes, replaced, branch.lags))
        return committed

    def _pushed(
        self,
        source: str,
        remote_state: Look,
        committed: list[Committed],
        released: Collection[str],
        assembly: Assembly,
        record: LastRecord,
    ) -> Pushed:
        """Return whether the remote took all refs; those that stay are pushed along, so that they are compared too."""
        if self._dry_run:
            return Pushed(True)
        moves = {SOURCE: source}
        for cluster_commit in committed:
            branch = remote_state.branches[cluster_commit.cluster]
            moves[rendered_branch(cluster_commit.cluster)] = moves[published_ref(cluster_commit.cluster)] = (
                cluster_commit.commit
            )
            if cluster_commit.cluster in released and cluster_commit.commit != branch.published:
                moves[approved_ref(cluster_commit.cluster)] = cluster_commit.commit
        over = forced_record(self.repository, record)
        if (commit := moved_record(self.repository, source, assembly, record)) is not None:
            moves[RETAINED] = commit
        if all(remote_state.refs.get(name) == commit for name, commit in moves.items()):
            return Pushed(True)
        over |= {name: commit for name, commit in remote_state.over.items() if name in moves}
        if remote_state.refs.get(SOURCE) not in (None, remote_state.source):
            over[SOURCE] = remote_state.refs[SOURCE]
        return push_with_record(self.remote, moves, over, record)


def newest(repository: Repository, branch: str, *urls: str) -> str | None:
    """Return the newest commit of a branch, at the first of some URLs that answers; None where none has it."""
    name = f"refs/heads/{branch}"
    for url in urls:
        with contextlib.suppress(Refused):  # there is no such remote
            return Remote(repository, url).fetch(name).get(name)
    return None


def _items(files: Mapping[str, Iterable[str]]) -> brake.Items:
    """Return the items that the brake counts, of the paths of files by cluster."""
    return brake.items_of(f"{cluster}/{path}" for cluster, paths in files.items() for path in paths)
