"""Follows the pull request of a change until its merge, and then the changed resources: the option --wait."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.change_output import Outcome
from allotment.cli.options import is_quiet
from allotment.cli.progress import LiveLine
from allotment.cli.status_options import POLL_SECONDS
from allotment.cli.wait import TIMEOUT_STATUS, ResourceWait, WaitTarget
from allotment.problems import escape_unprintable

if TYPE_CHECKING:
    from allotment.adapters.forge.forge import PullRequest
    from allotment.edits.change_set import ChangeSet

EXIT_STATUSES: dict[Outcome, int] = {"Reached": 0, "Closed": 1, "Failed": 1, "TimedOut": TIMEOUT_STATUS}
_MAX_FAILURES = 20  # requests in a row without an answer


class ChangeWait:
    """A wait for a change. `root` is the folder of the clone, and `style` the output format: text or json.

    Progress goes to standard output, or to standard error with JSON output.
    """

    def __init__(self, root: Path, style: str, seconds: int) -> None:
        self._root, self._style = root, style
        self._started_at = time.monotonic()
        self._limit = seconds

    def wait(self, read_pull: Callable[[], PullRequest], change_set: ChangeSet) -> Outcome:
        """Wait for the merge of the pull request, and for the resources of the change. Raises ForgeError."""
        outcome = self._wait_for_merge(read_pull)
        return self.wait_for_resources(change_set) if outcome == "Reached" else outcome

    def wait_for_resources(self, change_set: ChangeSet) -> Outcome:
        """Wait for the resources of a merged change."""
        for target in list_targets(change_set):
            outcome = self._wait_for_resource(target)
            if outcome != "Reached":
                return outcome
        return "Reached"

    def _remaining(self) -> float:
        return self._started_at + self._limit - time.monotonic()

    def _wait_for_merge(self, read_pull: Callable[[], PullRequest]) -> Outcome:
        from allotment.adapters.forge.forge import ForgeUnreachable, RateLimited

        failures, printed = 0, ""
        live_line = LiveLine()
        while True:
            pause = float(POLL_SECONDS)
            try:
                pull = read_pull()
            except (ForgeUnreachable, RateLimited) as error:
                failures += 1
                if failures > _MAX_FAILURES:
                    raise
                pause = max(pause, error.seconds if isinstance(error, RateLimited) else 0)
                state = f"{error}: trying again"
            else:
                failures = 0
                state = _describe(pull)
                if not pull.is_open:
                    self._print(state)
                    return "Reached" if pull.merge_commit else "Closed"
            if state != printed:
                self._print(state)
                printed = state
            if (remaining := self._remaining()) <= 0:
                click.echo("time is up, and the pull request is not merged", err=True)
                return "TimedOut"
            self._pause(live_line, min(pause, remaining))

    def _pause(self, live_line: LiveLine, seconds: float) -> None:
        try:
            if live_line:
                live_line.show(f"waiting for the merge, {int(self._remaining())} s left")
            time.sleep(seconds)
        finally:
            if live_line:
                live_line.show("")

    def _wait_for_resource(self, target: WaitTarget) -> Outcome:
        from allotment.branches.declarations_clone import DeclarationsClone

        waiting = ResourceWait(DeclarationsClone(self._root), target, self._style)
        outcome = waiting.wait(max(0, int(self._remaining())))
        waiting.explain_outcome(outcome)
        return "Reached" if outcome == "Reached" else "TimedOut" if outcome == "TimedOut" else "Failed"

    def _print(self, text: str) -> None:
        if is_quiet() and self._style == "json":
            return
        now = datetime.datetime.now(datetime.UTC).strftime("%H:%M:%SZ")
        click.echo(f"{now} {escape_unprintable(text, 1000)}", err=self._style == "json")


def _describe(pull: PullRequest) -> str:
    if pull.merge_commit:
        return f"{pull.url} is merged"
    return f"{pull.url} is open" if pull.is_open else f"{pull.url} was closed without a merge"


def list_targets(change_set: ChangeSet) -> Iterator[WaitTarget]:
    """Yield the instances, storages and snapshots of a change, with the state that each reaches after the merge.

    A removed resource is gone, a stopped instance is stopped, another instance runs, and a storage is ready.
    """
    from allotment.conditions import READY, RUNNING, STOPPED
    from allotment.declared.kinds.gpu_instance import GPUInstance
    from allotment.declared.layout import DeclarationPath, parse_path
    from allotment.declared.reading import read_declaration
    from allotment.declared.tenant_resources import RESOURCE_KINDS
    from allotment.observed.wait_goals import GONE_GOAL

    kinds = {resource_kind.kind.name for resource_kind in RESOURCE_KINDS.values() if resource_kind.reported}
    for path, data in sorted(change_set.files.items()):
        declaration_path = parse_path(path)
        if not isinstance(declaration_path, DeclarationPath) or declaration_path.kind.name not in kinds:
            continue
        goal = GONE_GOAL
        if data is not None:
            declared, _ = read_declaration(path, data, declaration_path)
            goal = READY
            if declared is not None and isinstance(declared.model, GPUInstance):
                goal = RUNNING if declared.model.spec.state == "Running" else STOPPED
        yield WaitTarget(declaration_path.scope.name, declaration_path.name, None, goal)
