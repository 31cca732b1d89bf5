"""Collects the facts of a repository for a diagnosis, from its folder and the branches of its remote."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path

from allotment.adapters.checkout_paths import is_regular
from allotment.adapters.folder_source import FolderSource
from allotment.adapters.git.commands import NotInRepository
from allotment.adapters.git.repository import Repository as Git
from allotment.billing.periods import Period, find_day, month_period, next_month, previous_month
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.status_reader import NEVER_REPORTED
from allotment.declared.forges import FORGES
from allotment.declared.kinds.platform import Platform
from allotment.diagnosis.repository import BranchState, ClusterBranches, LedgerState, RepositoryState
from allotment.observed.publish_state import PublishState, format_headline
from allotment.observed.resource_status import ResourceStatus
from allotment.problems import OperationRefused
from allotment.reports.record_notes import SHALLOW_HISTORY, describe_late_change
from allotment.reports.status_tables import format_age
from allotment.rules import placeholders
from allotment.services.billing.billing_source import BillingSource, open_billing_source
from allotment.services.billing.closed_bill import fetch_ledger
from allotment.services.billing.ledger_check import list_faults
from allotment.services.billing.price_history import is_history_complete, list_late_changes
from allotment.services.check.repository_check import RepositoryCheck
from allotment.services.status_view.publish_check import PublishCheck
from allotment.services.status_view.status_view import StatusView
from allotment.starter.program import PROGRAM_LOCK, REQUIREMENTS_LOCK
from allotment.starter.repository import count_open_blanks


def collect_repository_facts(
    root: Path, repository_check: RepositoryCheck, check: PublishCheck, outdated_code_owners: str = ""
) -> RepositoryState:
    """Return the facts of a checked repository. Without a commit or a remote, return no facts of branches.

    `check` finds out the state of publishing. `outdated_code_owners` is a path.
    """
    clone, git_error = None, ""
    try:
        if Git(root).has_commits():
            clone = DeclarationsClone(root)
    except NotInRepository:
        pass
    except OperationRefused as error:
        git_error = str(error)
    platform = repository_check.catalog.platform.get_singleton(Platform)
    workflow = FORGES[platform.model.spec.git.forge].workflow if platform else None
    return RepositoryState(
        errors=len(repository_check.errors),
        warnings=len(repository_check.problems) - len(repository_check.errors),
        placeholders=sum(
            problem.rule == placeholders.RULE and problem.warning for problem in repository_check.problems
        ),
        open_blanks=count_open_blanks(_read_text(root, "README.md")),
        missing_files=tuple(_find_missing_files(root, workflow) if workflow else ()),
        outdated_code_owners=outdated_code_owners,
        has_publisher_key=bool(platform and platform.model.spec.publisher),
        branches=_read_branches(StatusView(clone), check) if clone is not None and clone.has_origin else None,
        git_error=git_error,
        ledger=_read_ledger(clone) if clone is not None and clone.has_origin else None,
    )


def describe_branches(view: StatusView, state: PublishState, unpublished: int, now: datetime.datetime) -> BranchState:
    """Return the state of the branches at a time. `unpublished` is the number of merged changes that aren't published."""
    published, missing = view.published_release, view.declared_commit.missing_branch
    error = "" if published.source or published.never_published else published.trouble
    if missing and published.source:
        error = f"origin has no branch {missing}, so no commit counts as merged: push the branch again"
    return BranchState(
        unpublished=unpublished if published.source and not missing else 0,
        status_error=error,
        lag=format_headline(state, view.declared_commit.branch or "HEAD") if published.source else "",
        stopped=state.message if published.source and (state.stopped or state.reason == "unknown") else "",
        retained=tuple(tenant for _, tenant in sorted(state.retained_tenants.items())),
        record_trouble=state.record_trouble,
        clusters=tuple(_describe_cluster(view, name, now) for name in sorted(view.reporter_keys)),
    )


def count_unpublished(rows: Iterable[ResourceStatus]) -> int:
    """Return the number of resources with a merged change that isn't published."""
    return sum(row.stage.state in ("merged", "kept") for row in rows)


def _find_missing_files(root: Path, workflow: str) -> Iterator[str]:
    """Yield the path of the CI workflow if it is absent, otherwise the absent lock files that the workflow names.

    If a workflow runs its jobs in an image, it names no lock files. A link is treated as absent, because a checkout
    decides where the link points.
    """
    text = _read_text(root, workflow)
    if not text:
        yield workflow
        return
    yield from (path for path in (REQUIREMENTS_LOCK, PROGRAM_LOCK) if path in text and not is_regular(root, path))


def _read_text(root: Path, path: str) -> str:
    """Return the text of a file of the folder; empty if it can't be read or is a link."""
    try:
        return FolderSource(root).read(path).decode("utf-8", "replace") if is_regular(root, path) else ""
    except OSError:
        return ""


def _read_branches(view: StatusView, check: PublishCheck) -> BranchState:
    unpublished = count_unpublished(view.rows) if view.published_release.source else 0
    return describe_branches(view, check.find_state(view), unpublished, datetime.datetime.now(datetime.UTC))


def _read_ledger(clone: DeclarationsClone) -> LedgerState:
    """Return the state of the ledger, and the late prices since the last closed month, or since the start of the last month."""
    try:
        source = open_billing_source(clone)
        ledger = fetch_ledger(source)
        faults = tuple(list_faults(source, ledger))
        if faults:
            return LedgerState(tuple(ledger.months), faults)
        return _read_open_prices(source, tuple(ledger.months))
    except OperationRefused as error:
        return LedgerState(skip_reason=str(error))


def _read_open_prices(source: BillingSource, months: tuple[str, ...]) -> LedgerState:
    """Return the state of a sound ledger, with the late prices of the months that are not closed. Raises OperationRefused."""
    now = int(datetime.datetime.now(datetime.UTC).timestamp())
    current = f"{find_day(now, source.zone):%Y-%m}"
    first = next_month(months[-1]) if months else previous_month(current)
    period = Period(month_period(min(first, current), source.zone).start, now)
    return LedgerState(
        months=months,
        late_prices=tuple(describe_late_change(change, source.zone) for change in list_late_changes(source, period)),
        skip_reason="" if is_history_complete(source.declared.source, period) else SHALLOW_HISTORY,
    )


def _describe_cluster(view: StatusView, name: str, now: datetime.datetime) -> ClusterBranches:
    status = next(
        (cluster_status for cluster_status in view.reported_status.clusters if cluster_status.cluster == name), None
    )
    branch = view.published_release.branches.get(name)
    return ClusterBranches(
        name,
        published=branch is not None and branch.published_commit is not None,
        fault="" if branch is None else branch.fault,
        error=view.reported_status.troubles.get(name, ""),
        silent=status is None or status.is_stale(now),
        age=format_age(status.observed_at, now) if status else "",
        has_key=view.reporter_keys[name] is not None,
        is_distrusted=view.reported_status.troubles.get(name, NEVER_REPORTED) != NEVER_REPORTED,
    )
