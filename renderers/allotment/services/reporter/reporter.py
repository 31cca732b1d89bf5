"""Reports a cluster: derives a status from its watches, and commits each change to the status branch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import NamedTuple

import msgspec

from allotment.adapters.backoff import Backoff
from allotment.adapters.git.clone import CloneDamage
from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.log import Log
from allotment.adapters.metrics import ReportMetrics
from allotment.branches.branch import Branch
from allotment.branches.status_branches import (
    CAPACITY,
    CLUSTER,
    SUMMARY,
    StatusBranch,
    read_status_branch,
    reported_ref,
    tenant_of,
    tenant_path,
    usage_path,
)
from allotment.declared.inventory import compute_blob_id
from allotment.manifests.names import status_branch
from allotment.manifests.yaml_text import Malformed
from allotment.observed.conditions import seconds_between
from allotment.observed.retention import RetainedTenant
from allotment.observed.status import (
    CapacityUsage,
    ClusterStatus,
    DepartedTenant,
    TenantStatus,
    Transition,
    UsageInterval,
    dump_status,
    parse_capacity_usage,
    parse_cluster_status,
    parse_tenant_status,
)
from allotment.observed.usage_log import UsageLogHeader, append_usage, parse_usage_log
from allotment.problems import OperationRefused
from allotment.reports.cluster_page import RETAINED_TITLE, render_summary
from allotment.services.loop import FAILURE_REASONS, Loop, LoopTiming, repair_if_clone
from allotment.services.reporter.observer import (
    ClusterSession,
    LiveSourceFinder,
    Observer,
    WrittenStatuses,
    without_history,
)
from allotment.services.reporter.published_objects import PublishedBranch

HEARTBEAT_SECONDS = 3600  # the status is written at least this often, even without a change
DELETION_MARK_SECONDS = 10  # while a volume is marked for deletion, the shortest time between two unchanged statuses
POLL_SECONDS = 60  # between two checks of the branch for foreign commits
WAKE_DELAY_SECONDS = 0.2  # the wait after an event, so that one turn handles all related events
MAX_SHOWN_CHANGES = 50  # changes that a commit message lists
BACKOFF = Backoff(0.8, 30.0)  # the waits after errors
RACE_BACKOFF = Backoff(1.0, 1.0, jitter=(0.2, 1.0))  # the wait after another reporter pushed first
OBSERVE_INTERVAL = 1.0  # the longest wait between two observations
STALLED_SECONDS = 300
SYNC_SECONDS = 90
MAX_TRIES = 10


class ReportTarget(NamedTuple):
    """The repositories of a reporter: the clone, and the remotes of the status branch and of the rendered branch.

    `reporter_key` is the reporter's declared public key; None if the cluster declares none.
    """

    repository: Repository
    remote: Remote
    reporter_key: str | None
    rendered_remote: Remote


class Reporter(Loop):
    """Reports the state of one cluster until `stop` is called. Every event of a watch wakes the reporter."""

    def __init__(
        self,
        session: ClusterSession,
        target: ReportTarget,
        metrics: ReportMetrics,
        log: Log,
        interval: float,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        on_commit: Callable[[], None] = lambda: None,
    ) -> None:
        timing = LoopTiming(OBSERVE_INTERVAL, STALLED_SECONDS, BACKOFF, WAKE_DELAY_SECONDS)
        super().__init__(timing, log, "nothing reported", metrics.record_error, is_leader, session.store.changed)
        self._session = session
        self._target = target
        self._metrics = metrics
        metrics.initialize_reasons(FAILURE_REASONS)
        self._interval = interval
        self._on_commit = on_commit
        self._branch: Branch | None = None
        self._trusted_commit: str | None = None
        self._foreign_reason = ""
        self._polled_at = 0.0
        self._published_branch = PublishedBranch(
            target.repository, target.rendered_remote, session.cluster, session.read_clock
        )
        self._observer = Observer(
            session, LiveSourceFinder(target.repository, self._published_branch), self._published_branch
        )
        self._logged_orphans: set[tuple[str, str, str, str]] = set()
        self._logged_edits: set[tuple[str, str, str]] = set()
        self._logged_trouble = ""
        self._written_statuses: dict[str, TenantStatus] = {}
        # The retained tenants in the last summary; None if they are not known, because an earlier process wrote the
        # summary.
        self._written_retained: list[RetainedTenant] | None = []
        self._written_cluster_status = ClusterStatus(session.cluster, "")
        self._written_capacity = CapacityUsage(session.cluster)

    @property
    def display_url(self) -> str:
        """The URL of the status branch's remote, without secrets."""
        return str(self._target.remote)

    def report_once(self) -> None:
        """Write the current status without waiting for the interval.

        Raises OperationRefused if the cluster doesn't answer in time, or if other pushes are always faster.
        """
        end = time.monotonic() + SYNC_SECONDS
        while not self.is_synced():
            if time.monotonic() > end:
                raise OperationRefused(
                    f"{self._session.cluster} can't be observed: {self._describe_unsynced_watches()}"
                )
            time.sleep(0.05)
        self._interval = 0
        for _ in range(MAX_TRIES):
            try:
                self._observe_and_commit()
            except Exception as error:
                damage = self.repair_clone([str(error)])
                if damage is None or not damage.is_replaced:
                    raise
                self.log.warning("clone replaced", cluster=self._session.cluster, message=damage.fsck_output)
                continue
            if self._branch is not None and not self._is_commit_due(
                self._observer.build_cluster_status(self._written_cluster_status)
            ):
                return
        raise OperationRefused(f"lost the push race {MAX_TRIES} times: run the command again")

    def is_due(self) -> bool:
        """Return True: while the reporter can't write, it still observes the cluster, to report the changes later."""
        return True

    def ready(self) -> bool:
        """Return whether the cluster is observed, and everything due is written."""
        return super().ready() and self.is_synced()

    def is_synced(self) -> bool:
        """Return whether the watch of every kind has listed its objects once."""
        return all(watch.synced for watch in self._session.watches)

    def on_leadership_lost(self) -> None:
        """Forget the branch: before this replica leads again, other replicas may write commits."""
        self._branch, self._trusted_commit = None, None
        self._observer.forget_pending()
        self._metrics.clear_observations()

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone. If it was replaced, read the branches again.

        After an error, always read the status branch again: no ref of the clone points at the last written commit, so
        git fsck doesn't notice if that commit is lost.
        """
        trouble = [self._published_branch.trouble] if self._published_branch.trouble else []
        damage = repair_if_clone(self._target.repository, [*errors, *trouble])
        if errors:
            self._branch = None
        if damage is not None and damage.is_replaced:
            self._trusted_commit = None
            self._published_branch.forget()
        return damage

    def tick(self) -> None:
        """Run one turn. If the watches are not synced yet, only log the reason, and keep the count of failures."""
        if self.is_leader() and not self.is_synced():
            self.log_once(self._describe_unsynced_watches())
        else:
            super().tick()

    def run_once(self) -> None:
        """Observe the cluster, and commit if a commit is due."""
        self._observe_and_commit()

    def log_once(self, message: str, **about: str) -> None:
        """Log the reason why this cluster is not reported."""
        super().log_once(message, cluster=self._session.cluster, **about)

    def _describe_unsynced_watches(self) -> str:
        """Return the kinds that haven't been listed yet, with the reasons."""
        return "; ".join(
            f"{watch.name}: {watch.trouble}" for watch in self._session.watches if watch.trouble and not watch.synced
        )

    def _observe_and_commit(self) -> None:
        """Observe the cluster, and commit if a commit is due.

        After an error, the reporter observes but does not write for a while. A later commit reports the changes of that
        time.
        """
        if (
            self._branch is not None or self._trusted_commit is not None
        ):  # before the first poll of the branch, skip this: the poll observes all tenants
            self._observer.observe_changes()
        self._log_orphans()
        if self.is_backing_off():
            return
        if self._branch is None or time.monotonic() - self._polled_at > POLL_SECONDS:
            self._poll_branch()
        self._metrics.record_observation(
            len(self._observer.statuses), self._session.store.events, self._observer.measure_silence()
        )
        status = self._observer.build_cluster_status(self._written_cluster_status)
        if self._is_commit_due(status):
            self._commit_status(status)

    def _log_orphans(self) -> None:
        """Log each orphan and each edit once. If the published objects are not known, log the reason."""
        cluster, leftovers = (
            self._session.cluster,
            [leftover for tenant_leftovers in self._observer.orphans.values() for leftover in tenant_leftovers],
        )
        stopped = len([leftover for leftover in leftovers if leftover.is_stopped])
        self._metrics.record_orphans(len(leftovers) - stopped, stopped)
        for leftover in leftovers:
            if leftover.key not in self._logged_orphans:
                subject = f"{leftover.kind} {leftover.tenant}/{leftover.name}"
                message = f"{leftover.condition.message}; {leftover.remedy}"
                event = "stopped, still running" if leftover.is_stopped else "removed, not gone"
                self.log.warning(event, cluster=cluster, subject=subject, message=message)
        self._logged_orphans = {leftover.key for leftover in leftovers}
        self._log_edits()
        if self._published_branch.trouble and self._published_branch.trouble != self._logged_trouble:
            self.log.warning("published objects not known", cluster=cluster, message=self._published_branch.trouble)
        self._logged_trouble = self._published_branch.trouble

    def _log_edits(self) -> None:
        """Log each edited or foreign object once."""
        edits = self._observer.edits
        foreign = len([edit for edit in edits if edit.is_foreign])
        self._metrics.record_edits(len(edits) - foreign, foreign)
        for edit in edits:
            if edit.key in self._logged_edits:
                continue
            about = {"cluster": self._session.cluster, "what": edit.qualified_label}
            message = f"{edit.message}; undo: {edit.remedy}"
            if edit.is_foreign:
                self.log.warning("foreign object", **about, message=message)
            else:
                self.log.warning("edited by hand", **about, message=message)
        self._logged_edits = {edit.key for edit in edits}

    def _poll_branch(self) -> None:
        """Read the branch. If its trusted commit is not the last known commit, continue from the trusted commit."""
        report = read_status_branch(
            self._target.repository, self._target.remote, self._session.cluster, self._target.reporter_key
        )
        self._polled_at = time.monotonic()
        if report.distrust_reason and report.distrust_reason != self._foreign_reason:
            self._metrics.record_foreign_commit()
            self.log.warning(
                "foreign commit on the status branch", cluster=self._session.cluster, message=report.distrust_reason
            )
        self._foreign_reason = report.distrust_reason
        self._branch = report.branch
        if self._trusted_commit is None or self._trusted_commit != report.trusted_commit:
            self._resume_from(report)
            self._trusted_commit = report.trusted_commit

    def _resume_from(self, report: StatusBranch) -> None:
        """Continue from the status on the branch. Every change since its last commit becomes a pending transition."""
        cluster = self._session.cluster
        written = WrittenStatuses({}, ClusterStatus(cluster, ""), CapacityUsage(cluster), partial(_read_usage, report))
        tenants: dict[str, TenantStatus] = {}
        for path in report.branch.files if report.trusted_commit else ():
            try:
                if (tenant := tenant_of(path)) is not None:
                    tenants[tenant] = parse_tenant_status(report.branch.read(path))
                elif path == CLUSTER:
                    written = written._replace(cluster=parse_cluster_status(report.branch.read(path)))
                elif path == CAPACITY:
                    written = written._replace(capacity=parse_capacity_usage(report.branch.read(path)))
            except Malformed as error:
                self.log.warning("unreadable status", cluster=cluster, path=path, message=str(error))
                continue  # another version of the program wrote the file: the next commit replaces the file
        self._written_statuses = {tenant: without_history(status) for tenant, status in tenants.items()}
        self._written_cluster_status, self._written_capacity = written.cluster, written.capacity
        summary = report.branch.read(SUMMARY) if report.trusted_commit and SUMMARY in report.branch.files else b""
        self._written_retained = None if RETAINED_TITLE.encode() in summary else []
        self._observer.resume(written._replace(tenants=tenants))
        self._log_orphans()

    def _is_commit_due(self, status: ClusterStatus) -> bool:
        assert self._branch is not None
        if self._foreign_reason or self._branch.published_commit is None:
            return True
        # The clock may have been set back, and a forged status may have a time in the future, so use the absolute
        # value.
        age = abs(_measure_age(self._written_cluster_status.observed_at, self._session.read_clock()))
        if age < self._interval and not self._written_cluster_status.silent_since:
            return False
        silent = bool(status.silent_since) != bool(self._written_cluster_status.silent_since)
        beats = self._is_heartbeat_due(age) and not status.silent_since
        is_record_known = self._published_branch.retained is not None
        retained = is_record_known and self._retained_tenants() != self._written_retained
        return bool(
            silent
            or beats
            or retained
            or status.stocks != self._written_cluster_status.stocks
            or status.conditions != self._written_cluster_status.conditions
            or self._observer.usage.capacity != self._written_capacity
            or self._observer.usage.list_pending()
            or self._observer.list_changed_tenants(self._written_statuses)
        )

    def _is_heartbeat_due(self, age: float) -> bool:
        """Return whether to write the status although nothing changed.

        The status is due once an hour. While a volume is marked for deletion, the status is due more often, at
        intervals that double, because the publisher computes from the timestamps of two statuses how long the volume
        has been marked.
        """
        if age >= HEARTBEAT_SECONDS:
            return True
        marked = self._observer.find_newest_deletion_mark()
        return bool(marked) and age >= max(
            DELETION_MARK_SECONDS, _measure_age(marked, self._written_cluster_status.observed_at)
        )

    def _commit_status(self, status: ClusterStatus) -> None:
        """Write the changes, as one commit on top of the branch."""
        branch = self._branch
        assert branch is not None
        changed = self._observer.list_changed_tenants(self._written_statuses)
        removed_tenants = self._list_removed_tenants(changed)
        departed = {each.tenant: each.commit for each in self._written_cluster_status.departed}
        previous_commits = dict.fromkeys(branch.files, self._trusted_commit) if self._trusted_commit else {}
        previous_commits |= {tenant_path(tenant): departed.pop(tenant) for tenant in changed if tenant in departed}
        departed |= dict.fromkeys(removed_tenants, self._trusted_commit or "")
        status = msgspec.structs.replace(status, departed=tuple(starmap(DepartedTenant, sorted(departed.items()))))
        data = self._build_files(status, changed, removed_tenants, previous_commits)
        removed_paths = [tenant_path(name) for name in removed_tenants]
        files = {} if self._foreign_reason and not self._trusted_commit else dict(branch.files)
        files |= {path: compute_blob_id(content) for path, content in data.items()}
        for path in removed_paths:
            files.pop(path, None)
        text = _format_commit_message(
            self._session.cluster,
            {tenant: self._observer.pending_transitions.get(tenant, []) for tenant in changed},
            self._foreign_reason,
        )
        commit = branch.create_commit(
            files, branch.compare_files(files), data, CommitMessage(text, self._target.repository.committer())
        )
        refs = {status_branch(self._session.cluster): commit, reported_ref(self._session.cluster): commit}
        if not self.is_leader():
            self._branch = None
            return
        over = (
            {reported_ref(self._session.cluster): branch.invalid_published_ref} if branch.invalid_published_ref else {}
        )
        if not self._target.remote.push(refs, over):
            self._branch = None  # another reporter pushed first: the next turn reads the branch again
            self.stop_event.wait(RACE_BACKOFF.delay(1))
            return
        self._branch = Branch(self._target.repository, self._session.cluster, commit, commit, None)
        self._trusted_commit = commit
        self._foreign_reason, self._written_cluster_status = "", status
        self._written_retained = self._retained_tenants()
        self._observer.mark_written(changed)
        self._written_capacity = self._observer.usage.capacity
        self._written_statuses |= {tenant: self._observer.statuses[tenant] for tenant in changed}
        for path in removed_paths:
            for statuses in (self._written_statuses, self._observer.statuses):
                statuses.pop(str(tenant_of(path)), None)
        self._metrics.record_commit(status.observed_at)
        self.log.info("reported", cluster=self._session.cluster, commit=commit, tenants=len(changed))
        self._on_commit()

    def _retained_tenants(self) -> list[RetainedTenant] | None:
        """Return the retained tenants with published or observed objects in the cluster.

        If the retained tenants are not known, return the last written list.
        """
        retained = self._published_branch.retained
        if retained is None:
            return self._written_retained
        cluster_tenants = self._published_branch.tenants | self._observer.statuses.keys()
        return [retained[name] for name in sorted(retained.keys() & cluster_tenants)]

    def _list_removed_tenants(self, changed: Sequence[str]) -> list[str]:
        """Return the tenants to remove from the branch.

        If a tenant has nothing left in the cluster, one commit reports this, and a later commit removes the tenant's
        file.
        """
        return [
            name
            for name, tenant_status in self._observer.statuses.items()
            if _is_empty(tenant_status) and name not in changed
        ]

    def _build_usage_logs(self, previous_commits: Mapping[str, str]) -> dict[str, bytes]:
        """Return the usage logs with the pending usage, by path. `previous_commits` are as in `_build_files`."""
        assert self._branch is not None
        logs, now = {}, self._session.read_clock()  # `observed_at` stays the same while the cluster is silent
        for owner, intervals in self._observer.usage.list_pending().items():
            path = usage_path(owner)
            previous = previous_commits.get(path, "")
            header = UsageLogHeader(self._session.cluster, owner, now, previous)
            logs[path] = append_usage(self._branch.read(path) if previous else None, header, intervals)
        return logs

    def _build_files(
        self,
        status: ClusterStatus,
        changed: Sequence[str],
        removed_tenants: Sequence[str],
        previous_commits: Mapping[str, str],
    ) -> dict[str, bytes]:
        """Return the files to write, by path. `previous_commits` are the commits with their previous versions, by path."""
        is_full = bool(self._foreign_reason) and not self._trusted_commit
        texts = {
            tenant_path(tenant): dump_status(
                msgspec.structs.replace(
                    self._observer.statuses[tenant],
                    transitions=tuple(self._observer.pending_transitions.get(tenant, ())),
                    previous=previous_commits.get(tenant_path(tenant), ""),
                )
            )
            for tenant in (self._observer.statuses if is_full else changed)
        }
        texts[CLUSTER] = dump_status(status)
        if is_full or self._observer.usage.capacity != self._written_capacity:
            texts[CAPACITY] = dump_status(self._observer.usage.capacity)
        texts |= self._build_usage_logs(previous_commits)
        statuses = [
            self._observer.statuses[tenant]
            for tenant in sorted(self._observer.statuses)
            if tenant not in removed_tenants
        ]
        texts[SUMMARY] = render_summary(status, statuses, self._retained_tenants())
        return texts


def _read_usage(report: StatusBranch, owner: str) -> list[UsageInterval]:
    """Return the intervals of the usage log of a tenant, or of the capacity; an empty list if there is no valid log."""
    path = usage_path(owner)
    if not report.trusted_commit or path not in report.branch.files:
        return []
    try:
        return parse_usage_log(report.branch.read(path)).intervals
    except Malformed:
        return []  # another version of the program wrote it: a new log replaces it


def _is_empty(status: TenantStatus) -> bool:
    return not (status.applications or status.instances or status.storages or status.snapshots or status.namespace)


def _measure_age(time: str, now: str) -> float:
    """Return the seconds between two times; infinity if `time` is empty."""
    if not time:
        return float("inf")
    return seconds_between(time, now)


def _format_commit_message(cluster: str, changes: dict[str, list[Transition]], foreign: str) -> str:
    """Return the commit's message. Its list of changes contains only names and Allotment's own words for states."""
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
    more = [f"and {len(lines) - MAX_SHOWN_CHANGES} more"] if len(lines) > MAX_SHOWN_CHANGES else []
    displayed_lines = "\n".join([*lines[:MAX_SHOWN_CHANGES], *more])
    return f"{cluster}: {len(lines)} changes\n\n{displayed_lines}\n{note}"
