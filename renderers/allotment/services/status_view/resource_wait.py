"""Waits until a resource reaches a goal, or needs somebody's action."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.declared_resources import explain_stop
from allotment.conditions import PREPARED, READY, RUNNING, STOPPED
from allotment.declared.reading import suggest_name
from allotment.declared.tenant_resources import INSTANCE
from allotment.declared.values import format_duration
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import Instance
from allotment.observed.wait_goals import (
    GONE_GOAL,
    KINDS_BY_GOAL,
    GoalVerdict,
    WaitOutcome,
    describe_next_step,
    evaluate_goal,
)
from allotment.problems import OperationRefused, escape_unprintable
from allotment.reports.outputs.wait import WaitOutput, awaited_output
from allotment.services.status_view.name_check import check_names
from allotment.services.status_view.publish_check import PublishCheck, explain_unpublished
from allotment.services.status_view.status_view import POLL_SECONDS, StatusView


class WaitTarget(NamedTuple):
    """The target of a wait: a tenant's resources of one name, in `cluster` or in all clusters, and their goal."""

    tenant: str
    name: str
    cluster: str | None
    goal: str  # empty until the kind of the resource is known

    def __str__(self) -> str:
        return escape_unprintable(f"{self.tenant}/{self.name}")


class WaitProgress(Protocol):
    """Shows the progress of a wait to its user."""

    def print_line(self, text: str) -> None:
        """Print a line with the current time."""

    def pause(self, seconds: float, describe: Callable[[], str]) -> None:
        """Sleep. On a terminal, the last line shows the current text of `describe` each second."""


class ResourceWait:
    """A wait in progress: the last known state of the resources, and the printed lines."""

    def __init__(
        self, clone: DeclarationsClone, publish_check: PublishCheck, target: WaitTarget, progress: WaitProgress
    ) -> None:
        self._clone, self._publish_check = clone, publish_check
        self._target, self._progress = target, progress
        self._rows: list[ResourceStatus] = []
        self._printed_lines: tuple[str, ...] = ()
        self._unknown_clusters: dict[str, str] = {}  # the clusters with an unknown state, and the reason
        self._next_steps: tuple[str, ...] = ()  # the next step of each resource towards the goal
        self._started_at = time.monotonic()

    def wait(self, seconds: int) -> WaitOutcome:
        """Wait for at most `seconds` seconds.

        Raises OperationRefused if the target doesn't exist or can't reach the goal, or if a remote doesn't answer the
        first request.
        """
        view = StatusView(self._clone, self._target.tenant)
        self._check_target(view)
        refs: dict[str, str] = {}
        while (verdict := self._evaluate(view)) == "going":
            while True:
                remaining = self._started_at + seconds - time.monotonic()
                if remaining <= 0:
                    return "TimedOut"
                self._progress.pause(min(POLL_SECONDS, remaining), lambda: self._describe_pause(seconds))
                try:
                    self._clone.refresh()
                    if (now := view.read_refs()) != refs:
                        view, refs = StatusView(self._clone, self._target.tenant), now
                        break
                except OperationRefused as error:
                    self._print_lines((f"{error}: trying again",))
        return "Reached" if verdict == "reached" else "Failed"

    def _describe_pause(self, limit: int) -> str:
        """Return the seconds of the whole wait and the next step."""
        spent = f"{self._format_elapsed()} of {format_duration(limit)}, waiting for {self._target.goal}"
        steps = "; ".join(self._next_steps)
        return escape_unprintable(f"{spent}; next: {steps}" if steps else spent, 400)

    def _format_elapsed(self) -> str:
        return format_duration(int(time.monotonic() - self._started_at))

    def _check_target(self, view: StatusView) -> None:
        """Check that the target exists and can reach the goal, or raise OperationRefused.

        If no goal was given, choose the default goal.
        """
        tenant, name, cluster, goal = self._target
        if goal == GONE_GOAL:
            check_names(view, "", "", cluster)
            return
        check_names(view, tenant, name, cluster)
        kinds = sorted({row.resource.kind for row in view.rows if row.resource.name == name})
        if not goal:
            goal = RUNNING if INSTANCE.word in kinds else READY
            self._target = self._target._replace(goal=goal)
        if not set(kinds) & set(KINDS_BY_GOAL[goal]):
            fitting = ", ".join(candidate for candidate, able in KINDS_BY_GOAL.items() if set(able) & set(kinds))
            present = " and ".join(f"{'an' if kind == 'instance' else 'a'} {kind}" for kind in kinds)
            raise OperationRefused(f"{self._target} is {present}, which can't become {goal}: wait for {fitting}")

    def _evaluate(self, view: StatusView) -> GoalVerdict:
        tenant, name, cluster, goal = self._target
        chosen = [
            row
            for row in view.rows
            if row.resource.name == name
            and row.resource.kind in KINDS_BY_GOAL[goal]
            and cluster in (None, row.resource.cluster)
        ]
        silent = view.reported_status.find_silent_clusters(datetime.datetime.now(datetime.UTC))
        self._unknown_clusters = {
            silent_cluster: view.reported_status.troubles.get(silent_cluster, "it has been silent for a long time")
            for silent_cluster in sorted(silent & {row.resource.cluster for row in chosen})
        }
        rows = list(explain_unpublished(view, chosen, self._publish_check))
        contradictions = [_find_contradiction(view, row, goal) for row in rows]
        self._rows = [
            row._replace(stage=row.stage._replace(remedy=contradiction)) if contradiction else row
            for row, contradiction in zip(rows, contradictions, strict=True)
        ]
        verdict = "failed" if any(contradictions) else evaluate_goal(self._rows, goal, silent)
        steps = [describe_next_step(row, goal, silent) if verdict == "going" else "" for row in self._rows]
        self._next_steps = tuple(dict.fromkeys(step for step in steps if step))
        lines = [_format_row(row, silent, step) for row, step in zip(self._rows, steps, strict=True)]
        if goal == GONE_GOAL and verdict == "reached":
            where = view.find_publishing_clusters(tenant, name, cluster)
            if where:
                verdict = "going"
                lines = [f"{self._target}: still published to {', '.join(where)}"]
            else:
                known_names = {row.resource.name for row in view.rows}
                hint = suggest_name(name, known_names) if tenant in view.tenants else ""
                lines = [f"{self._target}: it is neither declared nor reported by a cluster{hint}"]
        self._print_lines(tuple(lines) or (f"{self._target}: it is no longer declared",))
        return verdict

    def _print_lines(self, lines: tuple[str, ...]) -> None:
        """Print each line that was not in `lines` at the previous call."""
        for line in lines:
            if line not in self._printed_lines:
                self._progress.print_line(f"({self._format_elapsed()}) {line}")
        self._printed_lines = lines

    def build_output(self, outcome: WaitOutcome) -> WaitOutput:
        """Return the outcome of the wait as the struct that becomes JSON."""
        return WaitOutput(
            tenant=self._target.tenant,
            name=self._target.name,
            goal=self._target.goal,
            outcome=outcome,
            seconds=round(time.monotonic() - self._started_at, 1),
            resources=tuple(awaited_output(row) for row in self._rows),
        )

    def explain_outcome(self, outcome: WaitOutcome) -> str:
        """Return why the target did not reach its goal, and what to do; empty if it reached the goal."""
        if outcome == "Reached":
            return ""
        ways = sorted({row.stage.remedy for row in self._rows} - {""})
        if outcome == "TimedOut" and not ways:
            ways = [
                f"`allot status {self._target}` shows details. To continue waiting, run this command again with a longer --timeout"
            ]
        more = f"; {escape_unprintable('; '.join(ways), 1000)}" if ways else ""
        message = "time is up" if outcome == "TimedOut" else "it doesn't get there without a change"
        head = f"{self._target} isn't {self._target.goal}: {message}"
        if outcome == "TimedOut" and self._unknown_clusters:
            unknown = "; ".join(f"{cluster}: {message}" for cluster, message in self._unknown_clusters.items())
            head = f"{self._target}: time is up, and it is unknown whether it is {self._target.goal}"
            head += f" ({escape_unprintable(unknown, 1000)})"
        return f"{head}{more}"


def _find_contradiction(view: StatusView, row: ResourceStatus, goal: str) -> str:
    """Return a message with a remedy if the declaration of a resource contradicts the goal; otherwise empty."""
    if not row.resource.blob:
        return ""
    if goal == GONE_GOAL:
        return f"{row.path} declares it: remove this file and merge the change"
    if row.resource.kind != INSTANCE.word or goal == PREPARED:
        return ""
    stopped = explain_stop(view.declared_commit.source, row.path)
    if goal == STOPPED and stopped == "":
        return f"{row.path} declares it to run: write `state: Stopped` there and merge the change"
    return f"{row.path} is declared not to run: {stopped}" if stopped and goal != STOPPED else ""


def _format_row(row: ResourceStatus, silent: set[str], step: str) -> str:
    where = f" in {row.resource.cluster}" if row.resource.cluster else ""
    phrases = [row.displayed_state]
    if row.explanation:
        phrases.append(row.explanation)
    elif row.resource.cluster in silent:
        phrases.append("its cluster has been silent since")
    elif isinstance(row.observed, Instance) and row.state == RUNNING and row.observed.url:
        phrases.append(f"open {row.observed.url}")
    after = f"; next: {step}" if step else ""
    return escape_unprintable(f"{row.resource.kind} {row.label}{where}: {': '.join(phrases)}{after}", 4000)
