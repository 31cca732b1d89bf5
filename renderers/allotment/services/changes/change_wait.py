"""Follows the pull request of a change until its merge, and then the changed resources."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from allotment.adapters.forge.forge import (
    CommitStatus,
    ForgeUnreachable,
    PullRequest,
    RateLimited,
    RequestDeclined,
)
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.conditions import READY, RUNNING, STOPPED
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.edits.change_set import ChangeSet
from allotment.observed.wait_goals import GONE_GOAL
from allotment.problems import escape_unprintable
from allotment.reports.outputs.change import ChangeOutcome
from allotment.services.changes.proposals import Proposer
from allotment.services.status_view.publish_check import PublishCheck
from allotment.services.status_view.resource_wait import ResourceWait, WaitProgress, WaitTarget
from allotment.services.status_view.status_view import POLL_SECONDS

_OWN_CONTEXTS = "allot/"  # the start of the names of statuses that Allotment sets
_MAX_FAILURES = 20  # requests in a row without an answer


class ChangeWait:
    """A wait of at most `seconds` seconds for a change that `proposer` has proposed."""

    def __init__(self, proposer: Proposer, publish_check: PublishCheck, progress: WaitProgress, seconds: int) -> None:
        self._proposer, self._publish_check, self._progress = proposer, publish_check, progress
        self._end = time.monotonic() + seconds

    def wait(self, pull: PullRequest | None, change_set: ChangeSet) -> tuple[ChangeOutcome, str]:
        """Wait for the merge of the pull request, and for the resources of the change. Without a pull request, the change is merged.

        Returns the outcome, and the reason if it is Failed or TimedOut. Raises ForgeError.
        """
        if pull is not None:
            merge_outcome = self._wait_for_merge(pull.number)
            if merge_outcome != "Reached":
                late = "time is up, and the pull request is not merged" if merge_outcome == "TimedOut" else ""
                return merge_outcome, late
        for target in list_targets(change_set):
            clone = DeclarationsClone(self._proposer.target.base.root)
            waiting = ResourceWait(clone, self._publish_check, target, self._progress)
            outcome = waiting.wait(max(0, int(self._remaining())))
            if outcome != "Reached":
                return outcome, waiting.explain_outcome(outcome)
        return "Reached", ""

    def _remaining(self) -> float:
        return self._end - time.monotonic()

    def _wait_for_merge(self, number: int) -> ChangeOutcome:
        failures, printed = 0, ""
        while True:
            pause = float(POLL_SECONDS)
            try:
                pull = self._proposer.forge.pull_request(number)
                stages = self._list_stages(pull.head) if pull.is_open else ""
            except (ForgeUnreachable, RateLimited) as error:
                failures += 1
                if failures > _MAX_FAILURES:
                    raise
                pause = max(pause, error.seconds if isinstance(error, RateLimited) else 0)
                state = f"{error}: trying again"
            else:
                failures = 0
                state = f"{_describe(pull)}{stages}"
                if not pull.is_open:
                    self._progress.print_line(escape_unprintable(state, 1000))
                    return "Reached" if pull.merge_commit else "Closed"
            if state != printed:
                self._progress.print_line(escape_unprintable(state, 1000))
                printed = state
            if (remaining := self._remaining()) <= 0:
                return "TimedOut"
            self._progress.pause(
                min(pause, remaining), lambda: f"waiting for the merge, {int(self._remaining())} s left"
            )

    def _list_stages(self, head: str) -> str:
        """Return the newest statuses that Allotment sets for a commit, such as that of the plan; empty if the token reads none."""
        newest: dict[str, CommitStatus] = {}
        with contextlib.suppress(RequestDeclined):
            for status in self._proposer.forge.list_statuses(head):
                newest.setdefault(status.context, status)
        own = sorted(context for context in newest if context.startswith(_OWN_CONTEXTS))
        return "".join(f"; {name} is {newest[name].state}: {newest[name].description}" for name in own)


def _describe(pull: PullRequest) -> str:
    if pull.merge_commit:
        return f"{pull.url} is merged"
    return f"{pull.url} is open" if pull.is_open else f"{pull.url} was closed without a merge"


def list_targets(change_set: ChangeSet) -> Iterator[WaitTarget]:
    """Yield the instances, storages and snapshots of a change, with the state that each reaches after the merge.

    A removed resource is gone, a stopped instance is stopped, another instance runs, and a storage is ready.
    """
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
                goal = RUNNING if declared.model.spec.is_running else STOPPED
        yield WaitTarget(declaration_path.scope.name, declaration_path.name, None, goal)
