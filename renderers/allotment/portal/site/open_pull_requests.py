"""Reads the open pull requests of tenants from the forge, with the verdicts of their plans."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from allotment.adapters.forge.forge import Forge, ForgeError
from allotment.branches.declarations_clone import DeclarationsClone, DeclaredCommit
from allotment.branches.platform_settings import ORIGIN
from allotment.declared.kinds.platform import Platform
from allotment.declared.tenant_facts import TenantFacts
from allotment.portal.pages.tenant_area import PullRequestEntry
from allotment.problems import OperationRefused
from allotment.services.pull_requests.pending_resources import PendingChange, PendingReader
from allotment.services.pull_requests.plan_comment import STATUS_CONTEXT

CHECK_SECONDS = 60.0  # between two reads, each of which makes several requests
_VERDICTS = {"success": "can be merged", "failure": "can't be merged", "error": "can't be merged"}
NO_VERDICT = "no plan yet"


class OpenPullRequests:
    """Reads the open pull requests, at most every `check_seconds`.

    `connect` returns the forge of a platform. `warn` gets a note for each new fault; while the forge can't be read, the last pull
    requests stay.
    """

    def __init__(
        self,
        clone: DeclarationsClone,
        connect: Callable[[Platform], Forge],
        warn: Callable[[str], None],
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._clone, self._connect, self._warn, self._check_seconds = clone, connect, warn, check_seconds
        self._entries: Mapping[str, Sequence[PullRequestEntry]] = {}
        self._due_at = 0.0
        self._notes: frozenset[str] = frozenset()

    def read(
        self, declared: DeclaredCommit, platform: Platform, facts: Mapping[str, TenantFacts]
    ) -> Mapping[str, Sequence[PullRequestEntry]]:
        """Return the open pull requests of each tenant, in the order of their numbers."""
        if time.monotonic() >= self._due_at and declared.branch:
            self._due_at = time.monotonic() + self._check_seconds
            try:
                self._entries, notes = self._read_entries(declared, self._connect(platform), facts)
            except (ForgeError, OperationRefused) as error:
                notes = [f"the open pull requests can't be read: {error}"]
            for note in notes:
                if note not in self._notes:
                    self._warn(note)
            self._notes = frozenset(notes)
        return self._entries

    def _read_entries(
        self, declared: DeclaredCommit, forge: Forge, facts: Mapping[str, TenantFacts]
    ) -> tuple[dict[str, list[PullRequestEntry]], list[str]]:
        """Return the open pull requests of each tenant, and a note for each that can't be read."""
        remote = self._clone.remote(ORIGIN).without_refs()
        pending = PendingReader(declared.source, declared.branch, forge, remote, facts).read()
        heads = {request.number: request.head for request in forge.open_pull_requests(declared.branch)}
        groups: dict[str, dict[int, list[PendingChange]]] = defaultdict(lambda: defaultdict(list))
        for change in pending.changes:
            groups[change.tenant][change.pull_request.number].append(change)
        verdicts = {
            number: find_verdict(forge, heads[number])
            for number in sorted({number for group in groups.values() for number in group} & heads.keys())
        }
        entries = {
            tenant: [_build_entry(group[number], verdicts[number]) for number in sorted(group.keys() & verdicts.keys())]
            for tenant, group in groups.items()
        }
        return entries, [f"pull request {note}" for note in pending.notes]


def find_verdict(forge: Forge, head: str) -> str:
    """Return the verdict of the newest plan of a commit. A status by anybody else than the owner of the token doesn't count."""
    statuses, owner = forge.list_statuses(head), forge.identity()
    newest = next((status for status in statuses if (status.context, status.author) == (STATUS_CONTEXT, owner)), None)
    return _VERDICTS.get(newest.state, NO_VERDICT) if newest is not None else NO_VERDICT


def _build_entry(changes: Sequence[PendingChange], verdict: str) -> PullRequestEntry:
    """Return a pull request with the changes of one tenant."""
    words = tuple(sorted(f"{change.pull_request.change} {change.kind} {change.name}" for change in changes))
    reference = changes[0].pull_request
    return PullRequestEntry(reference.number, reference.url, words, verdict)
