"""Reports a cluster: what its watches saw becomes a status, and what changed in it a commit on the status branch."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.clone import Damage
from allotment.adapters.git.commits import Message
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.status import (
    CLUSTER,
    SUMMARY,
    Reported,
    look_status,
    reported_ref,
    tenant_of,
    tenant_path,
)
from allotment.adapters.metrics import ReportMetrics
from allotment.declared.inventory import blob_id
from allotment.manifests.names import status_branch
from allotment.manifests.text import Malformed
from allotment.observed.conditions import seconds_between
from allotment.observed.retention import RetainedTenant
from allotment.observed.status import (
    ClusterStatus,
    TenantStatus,
    Transition,
    read_cluster,
    read_tenant,
    text_of,
)
from allotment.pipeline.log import Log
from allotment.pipeline.loop import REASONS, Loop, Pace, repair
from allotment.pipeline.report.observing import LiveSources, Observed, Seeing, plain
from allotment.pipeline.report.published import PublishedBranch
from allotment.problems import Refused
from allotment.reports.summary import summary

BEAT_SECONDS = 3600  # so often, at least, the status says that it was looked
MARK_SECONDS = 10  # and so soon after something was marked for deletion
LOOK_SECONDS = 60  # how often the branch is looked at for commits of others
GATHER_SECONDS = 0.2  # what belongs together comes close together
SHOWN_CHANGES = 50  # lines of a commit's message
FIRST_WAIT, LONGEST_WAIT = 0.8, 30.0  # seconds after an error, doubled each time
LOOK_INTERVAL = 1.0  # between two looks at what changed, at most
STALLED_SECONDS = 300
SYNC_SECONDS = 90
TRIES = 10


class Destination(NamedTuple):
    """Where the status goes: our clone, the remote, the key that is declared, and the remote of the rendered branch."""

    repository: Repository
    remote: Remote
    key: str | None
    rendered: Remote


class Reporter(Loop):
    """Reports one cluster until it is stopped. Whatever a watch sees wakes it."""

    def __init__(
        self,
        seeing: Seeing,
        place: Destination,
        metrics: ReportMetrics,
        log: Log,
        interval: float,
        *,
        leading: Callable[[], bool] = lambda: True,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        pace = Pace(LOOK_INTERVAL, STALLED_SECONDS, FIRST_WAIT, LONGEST_WAIT, GATHER_SECONDS)
        super().__init__(pace, log, "nothing reported", metrics.failed, leading, seeing.store.changed)
        self._seeing = seeing
        self._place = place
        self._metrics = metrics
        metrics.begin(REASONS)
        self._interval = interval
        self._committed = written
        self._branch: Branch | None = None
        self._believed: str | None = None
        self._foreign = ""
        self._looked = 0.0
        self._published = PublishedBranch(place.repository, place.rendered, seeing.cluster, seeing.now)
        self._observed = Observed(seeing, LiveSources(place.repository, self._published), self._published)
        self._left: set[tuple[str, str, str, str]] = set()
        self._edited: set[tuple[str, str, str]] = set()
        self._unknown = ""
        self._written: dict[str, TenantStatus] = {}
        self._retained: list[RetainedTenant] = []  # of the summary
        self._cluster = ClusterStatus(seeing.cluster, "")

    @property
    def where(self) -> str:
        """Where the status goes, as it may be shown."""
        return str(self._place.remote)

    def report_once(self) -> None:
        """Write what is seen now, whatever the interval. Raises Refused when the cluster doesn't answer in time."""
        end = time.monotonic() + SYNC_SECONDS
        while not self.synced():
            if time.monotonic() > end:
                raise Refused(f"{self._seeing.cluster} can't be seen: {self._troubles()}")
            time.sleep(0.05)
        self._interval = 0
        for _ in range(TRIES):
            try:
                self._report()
            except Exception as error:
                damage = self.repair([str(error)])
                if damage is None or not damage.replaced:
                    raise
                self.log.warning("clone replaced", cluster=self._seeing.cluster, message=damage.words)
                continue
            if self._branch is not None and not self._is_due(self._observed.cluster_status(self._cluster)):
                return
        raise Refused(f"others were quicker {TRIES} times: try again")

    def is_due(self) -> bool:
        """Return that a turn is taken now: also while nothing can be written it sees what there is, to tell it later."""
        return True

    def ready(self) -> bool:
        """Return whether the cluster is seen, and what there was to write is written."""
        return super().ready() and self.synced()

    def synced(self) -> bool:
        """Return whether every kind was listed once."""
        return all(watch.synced for watch in self._seeing.watches)

    def stand_by(self) -> None:
        """Forget the branch: who leads again looks at what others wrote."""
        self._branch, self._believed = None, None
        self._metrics.stands_by()

    def repair(self, errors: Sequence[str]) -> Damage | None:
        """Check the clone, and look at the branches again if it was replaced. After an error always look at the status
        branch again: no ref of the clone names the last commit, so git fsck doesn't notice that the commit is lost."""
        trouble = [self._published.trouble] if self._published.trouble else []
        damage = repair(self._place.repository, [*errors, *trouble])
        if errors:
            self._branch = None
        if damage is not None and damage.replaced:
            self._believed = None
            self._published.forget()
        return damage

    def once(self) -> None:
        """Take one turn, unless the cluster can't be seen yet: that is told, and says nothing of what was wrong before."""
        if self.leading() and not self.synced():
            self.tell(self._troubles())
        else:
            super().once()

    def turn(self) -> None:
        """Look once, and write what is due."""
        self._report()

    def tell(self, words: str, **about: str) -> None:
        """Log what keeps this cluster from being reported."""
        super().tell(words, cluster=self._seeing.cluster, **about)

    def _troubles(self) -> str:
        """Return what hasn't been listed yet, and why."""
        return "; ".join(
            f"{watch.name}: {watch.trouble}" for watch in self._seeing.watches if watch.trouble and not watch.synced
        )

    def _report(self) -> None:
        """See what there is, also while nothing can be written: then it is told later, step by step."""
        if self._branch is not None or self._believed is not None:  # else the first look at the branch begins with all
            self._observed.look()
        self._warn()
        if self.rests():
            return
        if self._branch is None or time.monotonic() - self._looked > LOOK_SECONDS:
            self._look()
        self._metrics.seen(len(self._observed.statuses), self._seeing.store.events, self._observed.silence())
        status = self._observed.cluster_status(self._cluster)
        if self._is_due(status):
            self._commit(status)

    def _warn(self) -> None:
        """Log once each thing that is removed and stays, and why nothing is known of that."""
        cluster, leftovers = (
            self._seeing.cluster,
            [leftover for tenant_leftovers in self._observed.left.values() for leftover in tenant_leftovers],
        )
        stopped = len([leftover for leftover in leftovers if leftover.is_stopped])
        self._metrics.removed(len(leftovers) - stopped, stopped)
        for leftover in leftovers:
            if leftover.key not in self._left:
                subject = f"{leftover.kind} {leftover.tenant}/{leftover.name}"
                words = f"{leftover.condition.message}; {leftover.way_out}"
                event = "stopped, still running" if leftover.is_stopped else "removed, not gone"
                self.log.warning(event, cluster=cluster, subject=subject, message=words)
        self._left = {leftover.key for leftover in leftovers}
        self._warn_of_edits()
        if self._published.trouble and self._published.trouble != self._unknown:
            self.log.warning("published objects not known", cluster=cluster, message=self._published.trouble)
        self._unknown = self._published.trouble

    def _warn_of_edits(self) -> None:
        """Log once each object that isn't as published."""
        edits = self._observed.edits
        foreign = len([edit for edit in edits if edit.is_foreign])
        self._metrics.edited(len(edits) - foreign, foreign)
        for edit in edits:
            if edit.key in self._edited:
                continue
            about = {"cluster": self._seeing.cluster, "what": f"{edit.tenant}: {edit.label}"}
            words = f"{edit.words}; undo: {edit.way_out}"
            if edit.is_foreign:
                self.log.warning("foreign object", **about, message=words)
            else:
                self.log.warning("edited by hand", **about, message=words)
        self._edited = {edit.key for edit in edits}

    def _look(self) -> None:
        """Look at the branch, and resume from it only if its tip is trusted."""
        report = look_status(self._place.repository, self._place.remote, self._seeing.cluster, self._place.key)
        self._looked = time.monotonic()
        if report.why and report.why != self._foreign:
            self._metrics.foreign()
            self.log.warning("foreign commit on the status branch", cluster=self._seeing.cluster, message=report.why)
        self._foreign = report.why
        self._branch = report.branch
        if self._believed is None or self._believed != report.believed:
            self._believed = report.believed
            self._take(report)

    def _take(self, report: Reported) -> None:
        """Go on from what is written: every change since then is to be told."""
        self._written, self._cluster = {}, ClusterStatus(self._seeing.cluster, "")
        for path in report.branch.files if report.believed else ():
            try:
                if (tenant := tenant_of(path)) is not None:
                    self._written[tenant] = plain(read_tenant(report.branch.read(path)))
                elif path == CLUSTER:
                    self._cluster = read_cluster(report.branch.read(path))
            except Malformed:
                continue  # of another version of ours: written anew
        self._observed.begin(self._written, self._cluster)
        self._warn()

    def _is_due(self, status: ClusterStatus) -> bool:
        assert self._branch is not None
        if self._foreign or self._branch.published is None:
            return True
        # A forged status, or one from before the clock was set back, may lie years ahead: wait for no such time.
        age = abs(_seconds(self._cluster.observed_at, self._seeing.now()))
        if age < self._interval and not self._cluster.silent_since:
            return False
        silent = bool(status.silent_since) != bool(self._cluster.silent_since)
        beats = self._beats(age) and not status.silent_since
        retained = self._retained_tenants() != self._retained
        return bool(
            silent
            or beats
            or retained
            or status.stocks != self._cluster.stocks
            or self._observed.differing(self._written)
        )

    def _beats(self, age: float) -> bool:
        """Return whether it is to be said again that it was looked: hourly, and of what was just marked for
        deletion at ages that double, since publish reads from two times of the cluster how long it has been marked."""
        if age >= BEAT_SECONDS:
            return True
        marked = self._observed.newest_mark()
        return bool(marked) and age >= max(MARK_SECONDS, _seconds(marked, self._cluster.observed_at))

    def _commit(self, status: ClusterStatus) -> None:
        """Write what changed, as one commit on top of whatever is there."""
        branch = self._branch
        assert branch is not None
        changed = self._observed.differing(self._written)
        data, removed_paths = self._data(status, changed)
        files = {} if self._foreign and not self._written else dict(branch.files)
        files |= {path: blob_id(content) for path, content in data.items()}
        for path in removed_paths:
            files.pop(path, None)
        text = _message(
            self._seeing.cluster, {tenant: self._observed.pending.get(tenant, []) for tenant in changed}, self._foreign
        )
        commit = branch.commit(files, branch.changed(files), data, Message(text, self._place.repository.committer()))
        refs = {status_branch(self._seeing.cluster): commit, reported_ref(self._seeing.cluster): commit}
        if not self.leading():
            self._branch = None
            return
        over = {reported_ref(self._seeing.cluster): branch.stuck} if branch.stuck else {}
        if not self._place.remote.push(refs, over):
            self._branch = None  # somebody was quicker: look again, and tell what they didn't
            self.stopped.wait(random.uniform(0.2, 1.0))  # noqa: S311
            return
        self._branch = Branch(self._place.repository, self._seeing.cluster, commit, commit, None)
        self._believed = commit
        self._foreign, self._cluster, self._retained = "", status, self._retained_tenants()
        self._observed.told(changed)
        self._written |= {tenant: self._observed.statuses[tenant] for tenant in changed}
        for path in removed_paths:
            for statuses in (self._written, self._observed.statuses):
                statuses.pop(str(tenant_of(path)), None)
        self._metrics.committed(status.observed_at)
        self.log.info("reported", cluster=self._seeing.cluster, commit=commit, tenants=len(changed))
        self._committed()

    def _retained_tenants(self) -> list[RetainedTenant]:
        """Return the retained tenants that have something in the cluster."""
        retained, there = self._published.retained, self._published.tenants | self._observed.statuses.keys()
        return [retained[name] for name in sorted(retained.keys() & there)]

    def _data(self, status: ClusterStatus, changed: Sequence[str]) -> tuple[dict[str, bytes], list[str]]:
        """Return the files to write, and those of tenants that are gone and whose end has been told."""
        branch = self._branch
        assert branch is not None
        is_full = bool(self._foreign) and not self._written
        removed_tenants = [
            name
            for name, tenant_status in self._observed.statuses.items()
            if _is_empty(tenant_status) and name not in changed
        ]
        texts = {
            tenant_path(tenant): text_of(
                msgspec.structs.replace(
                    self._observed.statuses[tenant],
                    transitions=tuple(self._observed.pending.get(tenant, ())),
                    previous=self._believed or "",
                )
            )
            for tenant in (self._observed.statuses if is_full else changed)
        }
        texts[CLUSTER] = text_of(status)
        statuses = [
            self._observed.statuses[tenant]
            for tenant in sorted(self._observed.statuses)
            if tenant not in removed_tenants
        ]
        texts[SUMMARY] = summary(status, statuses, self._retained_tenants())
        return texts, [tenant_path(name) for name in removed_tenants]


def _is_empty(status: TenantStatus) -> bool:
    return not (status.applications or status.instances or status.storages or status.snapshots or status.namespace)


def _seconds(time: str, now: str) -> float:
    """Return the seconds between two times; for ever where the first isn't known."""
    if not time:
        return float("inf")
    return seconds_between(time, now)


def _message(cluster: str, changes: dict[str, list[Transition]], foreign: str) -> str:
    """Return the commit's message: what changed, in names and states of ours alone."""
    lines = [
        f"{tenant}/{transition.name}: {f'{transition.source} → ' if transition.source else ''}{transition.target or 'gone'}"
        for tenant, transitions in changes.items()
        for transition in transitions
    ]
    note = f"\nReplaces what others wrote here: {foreign}.\n" if foreign else ""
    if len(lines) == 1:
        return f"{lines[0]}\n{note}"
    if not lines:
        headline = f"{len(changes)} tenants in detail" if changes else "seen"
        return f"{cluster}: {headline}\n{note}"
    more = [f"and {len(lines) - SHOWN_CHANGES} more"] if len(lines) > SHOWN_CHANGES else []
    shown = "\n".join([*lines[:SHOWN_CHANGES], *more])
    return f"{cluster}: {len(lines)} changes\n\n{shown}\n{note}"
