"""`allot wait`: until something runs, is ready, stopped, prepared or gone."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from allotment.cli.completing import ANY_THING
from allotment.cli.looking import (
    LOOK_SECONDS,
    check_known,
    clone_of,
    cluster_option,
    near,
    parted,
    place_options,
    publish_check,
    silent_clusters,
)
from allotment.cli.options import Period, is_quiet, output_option
from allotment.cli.progress import LiveLine
from allotment.problems import Refused, printable

if TYPE_CHECKING:
    from allotment.observed.awaited import Verdict
    from allotment.observed.joined import Joined
    from allotment.pipeline.report.clone import Clone
    from allotment.pipeline.report.joining import View

TIME_IS_UP = 124  # as timeout(1) says it
_OUTCOMES: dict[str, int] = {"Reached": 0, "Failed": 1, "TimedOut": TIME_IS_UP}


class Awaited(NamedTuple):
    """What is waited for: that the things of a tenant of one name, in one cluster or all, reach a goal."""

    tenant: str
    name: str
    cluster: str | None
    goal: str  # empty until it is known what it is

    def __str__(self) -> str:
        return printable(f"{self.tenant}/{self.name}")


@click.command()
@click.argument("what", metavar="TENANT/NAME", shell_complete=ANY_THING)
@click.option(
    "--for",
    "goal",
    type=click.Choice(["Running", "Ready", "Starting", "Stopped", "Prepared", "Gone"], case_sensitive=False),
    help="Running: an instance answers its probe. Ready: a storage or snapshot can be used; an instance has"
    " started its container. Starting: the same of an instance. Stopped: of an instance. Prepared: of a storage. Gone: of any. Default: Running for an instance,"
    " else Ready.",
)
@click.option(
    "--timeout", "seconds", type=Period(), default="10m", show_default=True, help="How long to wait, such as 1h30m."
)
@cluster_option
@output_option()
@place_options
def command(
    *, what: str, goal: str | None, seconds: int, cluster: str | None, style: str, repo: Path | None, url: str | None
) -> None:
    """Wait until an instance, storage or snapshot is as it should be, with a line whenever it gets on: the time, how long it
    has waited, the state, and the next step. On a terminal, the last line counts the seconds.

    It looks at the refs of the remote every few seconds, and fetches what moved. Exit status: 0 it is so; 1 it won't
    be by itself: it failed, its tenant is kept as it was, or it is declared otherwise; 124 time is up.

    \b
    Examples:
      allot wait solo-ada/webui --timeout 30m && echo it runs
      allot wait solo-ada/models --for prepared
      allot wait solo-ada/webui --for gone -o json
    """
    tenant, name = parted(what)
    if not (tenant and name):
        raise click.UsageError(f"{printable(what)} is no instance, storage or snapshot: write TENANT/NAME")
    awaited = Awaited(tenant, name, cluster, goal or "")
    waiting = _Waiting(clone_of(repo, url), awaited, style)
    outcome = waiting.wait(seconds)
    waiting.say_end(outcome)
    if _OUTCOMES[outcome]:
        raise click.exceptions.Exit(_OUTCOMES[outcome])


class _Waiting:
    """One wait: what was seen last, and what was said of it."""

    def __init__(self, clone: Clone, awaited: Awaited, style: str) -> None:
        self._clone, self._awaited, self._style = clone, awaited, style
        self._check_publishing = publish_check(clone.root)
        self._rows: list[Joined] = []
        self._said: tuple[str, ...] = ()
        self._unknown: dict[str, str] = {}  # the clusters of which nobody knows what runs there, and why
        self._steps: tuple[str, ...] = ()  # the next step of each thing that is on its way
        self._live = LiveLine()
        self._begun = time.monotonic()

    def wait(self, seconds: int) -> str:
        """Return how it ended. Raises Refused where there is nothing to wait for, or no remote answers at first."""
        from allotment.pipeline.report.joining import View

        view = View(self._clone, self._awaited.tenant)
        self._check(view)
        refs: dict[str, str] = {}
        while (result := self._look(view)) == "going":
            while True:
                remaining = self._begun + seconds - time.monotonic()
                if remaining <= 0:
                    return "TimedOut"
                self._rest(min(LOOK_SECONDS, remaining), seconds)
                try:
                    if (now := view.refs()) != refs:
                        view, refs = View(self._clone, self._awaited.tenant), now
                        break
                except Refused as error:
                    self._say((f"{error}: looking again",))
        return "Reached" if result == "reached" else "Failed"

    def _rest(self, seconds: float, limit: int) -> None:
        """Wait until the next look. On a terminal, a line counts the seconds and says the next step."""
        from allotment.declared.values import duration_text

        if not self._live:
            time.sleep(seconds)
            return
        end, steps = time.monotonic() + seconds, "; ".join(self._steps)
        try:
            while (remaining := end - time.monotonic()) > 0:
                spent = f"{self._elapsed()} of {duration_text(limit)}, waiting for {self._awaited.goal}"
                self._live.show(printable(f"{spent}; next: {steps}" if steps else spent, 400))
                time.sleep(min(1, remaining))
        finally:
            self._live.show("")

    def _elapsed(self) -> str:
        from allotment.declared.values import duration_text

        return duration_text(int(time.monotonic() - self._begun))

    def _check(self, view: View) -> None:
        """Check that there is what is waited for. Raises Refused."""
        from allotment.conditions import READY, RUNNING
        from allotment.declared.things import INSTANCE
        from allotment.observed.awaited import GOALS, GONE

        tenant, name, cluster, goal = self._awaited
        if goal == GONE:
            check_known(view, "", "", cluster)
            return
        check_known(view, tenant, name, cluster)
        kinds = sorted({row.thing.kind for row in view.rows if row.thing.name == name})
        if not goal:
            goal = RUNNING if INSTANCE.word in kinds else READY
            self._awaited = self._awaited._replace(goal=goal)
        if not set(kinds) & set(GOALS[goal]):
            fitting = ", ".join(candidate for candidate, able in GOALS.items() if set(able) & set(kinds))
            is_now = " and ".join(f"{'an' if kind == 'instance' else 'a'} {kind}" for kind in kinds)
            raise Refused(f"{self._awaited} is {is_now}, which is never {goal}: wait for {fitting}")

    def _look(self, view: View) -> Verdict:
        from allotment.observed.awaited import GOALS, GONE, next_step, verdict
        from allotment.pipeline.status_view.publish_check import explained

        tenant, name, cluster, goal = self._awaited
        chosen = [
            row
            for row in view.rows
            if row.thing.name == name and row.thing.kind in GOALS[goal] and cluster in (None, row.thing.cluster)
        ]
        self._rows, silent = list(explained(view, chosen, self._check_publishing)), silent_clusters(view)
        self._unknown = {
            silent_cluster: view.now.troubles.get(silent_cluster, "it has been silent for long")
            for silent_cluster in sorted(silent & {row.thing.cluster for row in chosen})
        }
        against = {row.path: words for row in self._rows if (words := self._otherwise(view, row))}
        for at, row in enumerate(self._rows):
            if row.thing.blob and row.path in against:
                self._rows[at] = row._replace(stage=row.stage._replace(way_out=against[row.path]))
        result = "failed" if against else verdict(self._rows, goal, silent)
        steps = [next_step(row, goal, silent) if result == "going" else "" for row in self._rows]
        self._steps = tuple(dict.fromkeys(step for step in steps if step))
        lines = [_line(row, silent, step) for row, step in zip(self._rows, steps, strict=True)]
        if goal == GONE and result == "reached":
            where = view.where_published(tenant, name, cluster)
            if where:
                result = "going"
                lines = [f"{self._awaited}: published to {', '.join(where)} still"]
            else:
                known_names = {row.thing.name for row in view.rows}
                hint = near(name, known_names) if tenant in view.tenants else ""
                lines = [f"{self._awaited}: nothing declares it, and no cluster reports it{hint}"]
        self._say(tuple(lines) or (f"{self._awaited}: nothing declares it any more",))
        return result

    def _otherwise(self, view: View, row: Joined) -> str:
        """Return what declares the opposite of the goal, and what to do; empty where nothing does."""
        from allotment.conditions import PREPARED, STOPPED
        from allotment.declared.things import INSTANCE
        from allotment.observed.awaited import GONE
        from allotment.pipeline.report.things import stopped_by

        goal = self._awaited.goal
        if not row.thing.blob:
            return ""
        if goal == GONE:
            return f"{row.path} declares it: remove that file, and merge it"
        if row.thing.kind != INSTANCE.word or goal == PREPARED:
            return ""
        stopped = stopped_by(view.declared.source, row.path)
        if goal == STOPPED and stopped == "":
            return f"{row.path} declares it to run: write `state: Stopped` there, and merge it"
        return f"{row.path} is declared not to run: {stopped}" if stopped and goal != STOPPED else ""

    def _say(self, lines: tuple[str, ...]) -> None:
        """Say where it is, if that is new: for people, so beside JSON on standard error."""
        now = datetime.datetime.now(datetime.UTC).strftime("%H:%M:%SZ")
        for line in lines:
            if line not in self._said and not (is_quiet() and self._style == "json"):
                click.echo(f"{now} ({self._elapsed()}) {line}", err=self._style == "json")
        self._said = lines

    def say_end(self, outcome: str) -> None:
        """Say how it ended."""
        if self._style == "json":
            from allotment.reports.outputs import as_json
            from allotment.reports.outputs.wait import WaitOutput, awaited_output

            tenant, name, _, goal = self._awaited
            elapsed = round(time.monotonic() - self._begun, 1)
            resources = tuple(awaited_output(row) for row in self._rows)
            result = WaitOutput(tenant=tenant, name=name, goal=goal, outcome=outcome, seconds=elapsed, things=resources)  # type: ignore[arg-type]  # one of _OUTCOMES
            click.echo(as_json(result), nl=False)
        if outcome == "Reached":
            return
        ways = sorted({row.stage.way_out for row in self._rows} - {""})
        if outcome == "TimedOut" and not ways:
            ways = [f"`allot status {self._awaited}` says more; run this again with a longer --timeout to wait on"]
        more = f"; {printable('; '.join(ways), 1000)}" if ways else ""
        words = "time is up" if outcome == "TimedOut" else "it won't be so by itself"
        head = f"{self._awaited} isn't {self._awaited.goal}: {words}"
        if outcome == "TimedOut" and self._unknown:
            unknown = "; ".join(f"{cluster}: {words}" for cluster, words in self._unknown.items())
            head = f"{self._awaited}: time is up, and whether it is {self._awaited.goal} isn't known"
            head += f" ({printable(unknown, 1000)})"
        click.echo(f"{head}{more}", err=True)


def _line(row: Joined, silent: set[str], step: str) -> str:
    where = f" in {row.thing.cluster}" if row.thing.cluster else ""
    phrases = [row.displayed_state]
    if row.why:
        phrases.append(row.why)
    elif row.thing.cluster in silent:
        phrases.append("its cluster has been silent since")
    after = f"; next: {step}" if step else ""
    return printable(f"{row.thing.kind} {row.label}{where}: {': '.join(phrases)}{after}", 4000)
