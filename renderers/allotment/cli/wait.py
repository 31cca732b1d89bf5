"""`allot wait`: waits until a resource is running, ready, starting, stopped, prepared or gone."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from allotment.cli.completers import COMPLETE_RESOURCE
from allotment.cli.options import Period, is_quiet, output_option
from allotment.cli.progress import LiveLine
from allotment.cli.status_options import (
    POLL_SECONDS,
    check_names,
    clone_options,
    cluster_option,
    create_publish_check,
    find_silent_clusters,
    open_clone,
    split_resource_name,
    suggest_name,
)
from allotment.problems import OperationRefused, escape_unprintable

if TYPE_CHECKING:
    from allotment.branches.declarations_clone import DeclarationsClone
    from allotment.observed.resource_status import ResourceStatus
    from allotment.observed.wait_goals import GoalVerdict
    from allotment.services.status_view.status_view import StatusView

TIMEOUT_STATUS = 124  # the exit status of timeout(1) when the time is up
_EXIT_STATUSES: dict[str, int] = {"Reached": 0, "Failed": 1, "TimedOut": TIMEOUT_STATUS}


class WaitTarget(NamedTuple):
    """The target of a wait: a tenant's resources of one name, in `cluster` or in all clusters, and their goal."""

    tenant: str
    name: str
    cluster: str | None
    goal: str  # empty until the kind of the resource is known

    def __str__(self) -> str:
        return escape_unprintable(f"{self.tenant}/{self.name}")


@click.command()
@click.argument("what", metavar="TENANT/NAME", shell_complete=COMPLETE_RESOURCE)
@click.option(
    "--for",
    "goal",
    type=click.Choice(["Running", "Ready", "Starting", "Stopped", "Prepared", "Gone"], case_sensitive=False),
    help="Running: the probe of an instance succeeds. Ready: a storage or snapshot can be used; an instance has"
    " started its container. Starting: the same for an instance. Stopped: for an instance. Prepared: for a storage. Gone: for all. Default: Running for an instance,"
    " otherwise Ready.",
)
@click.option(
    "--timeout",
    "seconds",
    type=Period(),
    default="10m",
    show_default=True,
    help="The maximum time to wait, such as 1h30m.",
)
@cluster_option
@output_option()
@clone_options
def command(
    *, what: str, goal: str | None, seconds: int, cluster: str | None, style: str, repo: Path | None, url: str | None
) -> None:
    """Wait until an instance, storage or snapshot reaches a state. Each change prints a line with the time, the elapsed time,
    the state, and the next step. On a terminal, the last line counts the seconds.

    The command checks the refs of the remote every few seconds and fetches the changes. Exit status: 0 the state is reached;
    1 it needs somebody's action: the resource failed, its tenant is retained, or its declaration differs; 124 the time is up.

    \b
    Examples:
      allot wait solo-ada/webui --timeout 30m && echo it runs
      allot wait solo-ada/models --for prepared
      allot wait solo-ada/webui --for gone -o json
    """
    tenant, name = split_resource_name(what)
    if not (tenant and name):
        raise click.UsageError(
            f"{escape_unprintable(what)} is not in the format TENANT/NAME: name an instance, storage or snapshot"
        )
    awaited = WaitTarget(tenant, name, cluster, goal or "")
    waiting = ResourceWait(open_clone(repo, url), awaited, style)
    outcome = waiting.wait(seconds)
    if style == "json":
        waiting.print_json(outcome)
    waiting.explain_outcome(outcome)
    if _EXIT_STATUSES[outcome]:
        raise click.exceptions.Exit(_EXIT_STATUSES[outcome])


class ResourceWait:
    """A wait in progress: the last known state of the resources, and the printed lines."""

    def __init__(self, clone: DeclarationsClone, awaited: WaitTarget, style: str) -> None:
        self._clone, self._target, self._style = clone, awaited, style
        self._publish_check = create_publish_check(clone.root)
        self._rows: list[ResourceStatus] = []
        self._printed_lines: tuple[str, ...] = ()
        self._unknown_clusters: dict[str, str] = {}  # the clusters with an unknown state, and the reason
        self._next_steps: tuple[str, ...] = ()  # the next step of each resource towards the goal
        self._live_line = LiveLine()
        self._started_at = time.monotonic()

    def wait(self, seconds: int) -> str:
        """Wait for at most `seconds` seconds. Return Reached, Failed or TimedOut.

        Raises OperationRefused if the target doesn't exist or can't reach the goal, or if a remote doesn't answer the
        first request.
        """
        from allotment.services.status_view.status_view import StatusView

        view = StatusView(self._clone, self._target.tenant)
        self._check_target(view)
        refs: dict[str, str] = {}
        while (result := self._evaluate(view)) == "going":
            while True:
                remaining = self._started_at + seconds - time.monotonic()
                if remaining <= 0:
                    return "TimedOut"
                self._pause(min(POLL_SECONDS, remaining), seconds)
                try:
                    self._clone.refresh()
                    if (now := view.read_refs()) != refs:
                        view, refs = StatusView(self._clone, self._target.tenant), now
                        break
                except OperationRefused as error:
                    self._print_lines((f"{error}: trying again",))
        return "Reached" if result == "reached" else "Failed"

    def _pause(self, seconds: float, limit: int) -> None:
        """Sleep for some seconds. On a terminal, a line shows the seconds of the whole wait and the next step."""
        from allotment.declared.values import format_duration

        if not self._live_line:
            time.sleep(seconds)
            return
        end, steps = time.monotonic() + seconds, "; ".join(self._next_steps)
        try:
            while (remaining := end - time.monotonic()) > 0:
                spent = f"{self._format_elapsed()} of {format_duration(limit)}, waiting for {self._target.goal}"
                self._live_line.show(escape_unprintable(f"{spent}; next: {steps}" if steps else spent, 400))
                time.sleep(min(1, remaining))
        finally:
            self._live_line.show("")

    def _format_elapsed(self) -> str:
        from allotment.declared.values import format_duration

        return format_duration(int(time.monotonic() - self._started_at))

    def _check_target(self, view: StatusView) -> None:
        """Check that the target exists and can reach the goal, or raise OperationRefused.

        If no goal was given, choose the default goal.
        """
        from allotment.conditions import READY, RUNNING
        from allotment.declared.tenant_resources import INSTANCE
        from allotment.observed.wait_goals import GONE_GOAL, KINDS_BY_GOAL

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
        from allotment.observed.wait_goals import GONE_GOAL, KINDS_BY_GOAL, describe_next_step, evaluate_goal
        from allotment.services.status_view.publish_check import explain_unpublished

        tenant, name, cluster, goal = self._target
        chosen = [
            row
            for row in view.rows
            if row.resource.name == name
            and row.resource.kind in KINDS_BY_GOAL[goal]
            and cluster in (None, row.resource.cluster)
        ]
        self._rows, silent = list(explain_unpublished(view, chosen, self._publish_check)), find_silent_clusters(view)
        self._unknown_clusters = {
            silent_cluster: view.reported_status.troubles.get(silent_cluster, "it has been silent for a long time")
            for silent_cluster in sorted(silent & {row.resource.cluster for row in chosen})
        }
        against = {row.path: message for row in self._rows if (message := self._find_contradiction(view, row))}
        for at, row in enumerate(self._rows):
            if row.resource.blob and row.path in against:
                self._rows[at] = row._replace(stage=row.stage._replace(remedy=against[row.path]))
        result = "failed" if against else evaluate_goal(self._rows, goal, silent)
        steps = [describe_next_step(row, goal, silent) if result == "going" else "" for row in self._rows]
        self._next_steps = tuple(dict.fromkeys(step for step in steps if step))
        lines = [_format_row(row, silent, step) for row, step in zip(self._rows, steps, strict=True)]
        if goal == GONE_GOAL and result == "reached":
            where = view.find_publishing_clusters(tenant, name, cluster)
            if where:
                result = "going"
                lines = [f"{self._target}: still published to {', '.join(where)}"]
            else:
                known_names = {row.resource.name for row in view.rows}
                hint = suggest_name(name, known_names) if tenant in view.tenants else ""
                lines = [f"{self._target}: it is neither declared nor reported by a cluster{hint}"]
        self._print_lines(tuple(lines) or (f"{self._target}: it is no longer declared",))
        return result

    def _find_contradiction(self, view: StatusView, row: ResourceStatus) -> str:
        """Return a message with a remedy if the declaration of a resource contradicts the goal; otherwise empty."""
        from allotment.branches.declared_resources import explain_stop
        from allotment.conditions import PREPARED, STOPPED
        from allotment.declared.tenant_resources import INSTANCE
        from allotment.observed.wait_goals import GONE_GOAL

        goal = self._target.goal
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

    def _print_lines(self, lines: tuple[str, ...]) -> None:
        """Print each line that was not in `lines` at the previous call. With JSON output, print to standard error."""
        now = datetime.datetime.now(datetime.UTC).strftime("%H:%M:%SZ")
        for line in lines:
            if line not in self._printed_lines and not (is_quiet() and self._style == "json"):
                click.echo(f"{now} ({self._format_elapsed()}) {line}", err=self._style == "json")
        self._printed_lines = lines

    def print_json(self, outcome: str) -> None:
        """Print the outcome of the wait as JSON."""
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.wait import WaitOutput, awaited_output

        tenant, name, _, goal = self._target
        result = WaitOutput(
            tenant=tenant,
            name=name,
            goal=goal,
            outcome=outcome,  # type: ignore[arg-type]  # a key of _EXIT_STATUSES
            seconds=round(time.monotonic() - self._started_at, 1),
            resources=tuple(awaited_output(row) for row in self._rows),
        )
        click.echo(as_json(result), nl=False)

    def explain_outcome(self, outcome: str) -> None:
        """Print to standard error why the target did not reach its goal, and what to do."""
        if outcome == "Reached":
            return
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
        click.echo(f"{head}{more}", err=True)


def _format_row(row: ResourceStatus, silent: set[str], step: str) -> str:
    where = f" in {row.resource.cluster}" if row.resource.cluster else ""
    phrases = [row.displayed_state]
    if row.explanation:
        phrases.append(row.explanation)
    elif row.resource.cluster in silent:
        phrases.append("its cluster has been silent since")
    after = f"; next: {step}" if step else ""
    return escape_unprintable(f"{row.resource.kind} {row.label}{where}: {': '.join(phrases)}{after}", 4000)
