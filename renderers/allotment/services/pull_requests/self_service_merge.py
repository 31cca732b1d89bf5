"""Merges the pull requests that a tariff plan leaves to self service.

Before each merge, a commit status says that it is one of self service. Only statuses of this account count, so the number of
merges of a tenant doesn't depend on the text of a commit or a comment.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable

from allotment.adapters.forge.forge import Forbidden, Forge, PullRequest, RequestDeclined
from allotment.problems import pluralize
from allotment.services.pull_requests.plan_sandbox import SelfServiceMerge

SELF_SERVICE_CONTEXT = "allot/self-service"
# A forge declines a merge for a moment after a push, while it checks for conflicts.
_PAUSES = (0.5, 1.0, 2.0)  # seconds between two attempts
_DAY = datetime.timedelta(days=1)


class MergeDeclined(Exception):
    """The pull request waits for a person, or for another attempt. The message is the reason, and the way out."""


class SelfServiceMerger:
    """Merges pull requests of a repository into a branch."""

    def __init__(self, forge: Forge, branch: str) -> None:
        self._forge = forge
        self._branch = branch
        self._tenants: dict[tuple[int, str], str] = {}  # by merged pull request and head; empty for a merge by a person

    def check(self, request: PullRequest, order: SelfServiceMerge) -> None:
        """Raise MergeDeclined if a pull request is a draft, or if the tenant has no more merges today. Raises ForgeError."""
        if request.is_draft:
            raise MergeDeclined("it is a draft: mark it as ready for review")
        merged = self._count_merges(order.tenant)
        if merged >= order.max_per_day:
            raise MergeDeclined(
                f"tenant {order.tenant} has {pluralize(merged, 'merge')} by self service in 24 hours, the limit of tariff plan"
                f" {order.plan} (selfService.maxMergesPerDay): wait, or ask a person for the merge"
            )

    def merge(self, request: PullRequest, order: SelfServiceMerge, is_current: Callable[[], bool]) -> bool:
        """Merge a pull request directly after its plan. Return False if `is_current` denies that the plan is still current.

        Raises MergeDeclined and ForgeError.
        """
        title = f"Merge #{request.number} by self service: {', '.join(order.changes)} of tenant {order.tenant}"
        message = "\n".join(
            (
                f"Self-Service: tariff plan {order.plan}",
                f"Plan-Checksum: {order.checksum}",
                f"Requested-By: {request.author}",
            )
        )
        reason = ""
        for pause in (0.0, *_PAUSES):
            time.sleep(pause)
            if not is_current():
                return False
            try:
                self._forge.merge(request.number, request.head, title, message)
            except Forbidden as error:
                reason = str(error)
                break
            except RequestDeclined as error:
                reason = str(error)
            else:
                if self._is_merged(request.number):
                    return True
                reason = "the forge accepted the merge, but did not merge"
        raise MergeDeclined(
            f"{reason}: let the account of Allotment merge into {self._branch}, or merge the pull request yourself"
        )

    def _is_merged(self, number: int) -> bool:
        """Return whether the forge says that a pull request is merged. The answer can be late."""
        for pause in (0.0, *_PAUSES):
            time.sleep(pause)
            if self._forge.pull_request(number).merge_commit:
                return True
        return False

    def _count_merges(self, tenant: str) -> int:
        """Return the number of a tenant's merges by self service in 24 hours. A merge without a time counts."""
        since = datetime.datetime.now(datetime.UTC) - _DAY
        return sum(
            not (request.merged_at and datetime.datetime.fromisoformat(request.merged_at) < since)
            and self._find_tenant(request) == tenant
            for request in self._forge.merged_since(self._branch, since)
        )

    def _find_tenant(self, request: PullRequest) -> str:
        """Return the tenant of a merge by self service; empty if a person merged the pull request."""
        key = request.number, request.head
        if key not in self._tenants:
            identity = self._forge.identity()
            statuses = (
                status
                for status in self._forge.list_statuses(request.head)
                if (status.context, status.author) == (SELF_SERVICE_CONTEXT, identity)
            )
            status = next(statuses, None)
            self._tenants[key] = status.description.partition(":")[0] if status else ""
        return self._tenants[key]
