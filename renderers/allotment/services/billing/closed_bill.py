"""Computes the bills of closed months again, and the adjustments that later knowledge about them needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.billing.adjustments import compute_adjustments
from allotment.billing.invoices import InvoiceLine
from allotment.billing.ledger import ClosedMonth, Closing
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import month_period, next_month, parse_moment
from allotment.billing.recorded_use import ClusterRecord, UsageRecord
from allotment.problems import OperationRefused
from allotment.services.billing.bill_reader import compute_bill
from allotment.services.billing.billing_source import BillingSource
from allotment.services.billing.ledger_branch import LedgerBranch
from allotment.services.billing.usage_reader import read_record_at
from allotment.services.platform_settings import read_platform, read_reporter_keys
from allotment.services.reporter.clone import ORIGIN

MAX_ADJUSTED_MONTHS = 12  # closed months for which adjustments are computed
ReadRecord = Callable[[BillingSource, str | None, int], UsageRecord]


class Adjustments(NamedTuple):
    """The adjustments by tenant. `notes` say which adjustments can't be computed."""

    lines: Mapping[str, Sequence[InvoiceLine]]
    notes: tuple[str, ...]


def fetch_ledger(source: BillingSource) -> LedgerBranch:
    """Return the ledger at origin; an empty ledger if the clone has no origin. Raises OperationRefused if it doesn't answer."""
    clone = source.clone
    if not clone.has_origin:
        return LedgerBranch.at(clone.repository, None)
    return LedgerBranch.fetch(clone.repository, clone.remote(ORIGIN))


def compute_open_bill(
    source: BillingSource, ledger: LedgerBranch, month: str, tenant: str | None, read: ReadRecord
) -> tuple[MonthlyBill, tuple[str, ...]]:
    """Return the bill of a month that isn't closed, and notes about adjustments that can't be computed.

    If the month is the next to close, the bill has the adjustments of closed months. `read` returns the recorded usage of
    the tenant, or of all tenants, since a time. Raises OperationRefused.
    """
    is_next = bool(ledger.months) and next_month(ledger.months[-1]) == month
    earlier = list_adjustable_months(ledger, month) if is_next else []
    record = read(source, tenant, find_start(earlier, month_period(month, source.zone).start))
    billing = source.platform.spec.billing
    bill = compute_bill(source.declared.source, billing, source.zone, month, record, tenant)
    adjustments = compute_all_adjustments(source.clone.root, source.clone.repository, earlier, record, tenant)
    return bill.with_adjustments(adjustments.lines), adjustments.notes


def list_adjustable_months(ledger: LedgerBranch, before: str) -> list[ClosedMonth]:
    """Return the closed months before a month for which adjustments are computed. Raises OperationRefused."""
    return [ledger.read_month(name) for name in ledger.months if name < before][-MAX_ADJUSTED_MONTHS:]


def find_start(months: Sequence[ClosedMonth], start: int) -> int:
    """Return the time since which usage is needed for adjustments of months, and for a bill from `start`."""
    starts = [month_period(each.closing.month, ZoneInfo(each.closing.time_zone)).start for each in months]
    return min([*starts, start])


def compute_all_adjustments(
    root: Path, repository: Repository, months: Sequence[ClosedMonth], record: UsageRecord, tenant: str | None = None
) -> Adjustments:
    """Return the adjustments of closed months by a record of usage, of all tenants or of one tenant.

    Each month is computed with the prices and settings of the commit that it was closed with. A cluster counts only if the
    record has all that the closing had.
    """
    lines: dict[str, list[InvoiceLine]] = defaultdict(list)
    notes: list[str] = []
    records = {each.cluster: each for each in record.clusters}
    for index, closed in enumerate(months):
        closing = closed.closing
        clusters = set(records)
        for each in closing.clusters:
            if reason := _find_obstacle(records.get(each.cluster), each.recorded_since):
                clusters.discard(each.cluster)
                notes.append(f"{each.cluster}: the adjustments of {closing.month} are left out, because {reason}")
        bill = _compute_bill_at(root, repository, closing, record, tenant)
        adjustments = compute_adjustments(closed, months[index + 1 :], bill.invoices, clusters, tenant)
        for owner, adjusted in adjustments.items():
            lines[owner] += adjusted
    return Adjustments(dict(lines), tuple(notes))


def recompute_month(root: Path, ledger: LedgerBranch, month: str) -> MonthlyBill:
    """Return the bill of a closed month, computed again from the commits of its closing.

    Raises OperationRefused if the month isn't closed, or if a commit or file is missing.
    """
    commit = ledger.find_closing_commit(month)
    if commit is None:
        raise OperationRefused(f"the month {month} is not closed")
    repository = ledger.repository
    closing = LedgerBranch.at(repository, commit).read_month(month).closing
    earlier = list_adjustable_months(LedgerBranch.at(repository, repository.parents(commit)[0]), month)
    start = find_start(earlier, month_period(month, ZoneInfo(closing.time_zone)).start)
    source = _open_source(root, repository, closing)
    commits = {each.cluster: each.commit for each in closing.clusters}
    record = read_record_at(repository, commits, read_reporter_keys(source), start)
    bill = _compute_bill_at(root, repository, closing, record, None)
    adjustments = compute_all_adjustments(root, repository, earlier, record)
    return bill.with_adjustments(adjustments.lines)._replace(closed_in=commit)


def _find_obstacle(record: ClusterRecord | None, recorded_since: str) -> str:
    """Return the reason why a record of a cluster can't be compared with that of a closing; empty if there is none."""
    if record is None or not record.commit:
        return "its usage can't be read now"
    if record.problems:
        return record.problems[0]
    if record.recorded_since is None or record.recorded_since > parse_moment(recorded_since):
        return "its record begins later than at the closing"
    return ""


def _compute_bill_at(
    root: Path, repository: Repository, closing: Closing, record: UsageRecord, tenant: str | None
) -> MonthlyBill:
    source = _open_source(root, repository, closing)
    platform = read_platform(source)
    if platform is None:
        raise OperationRefused(f"platform/platform.yaml of commit {closing.commit[:12]} can't be read")
    zone = ZoneInfo(platform.spec.billing.time_zone)
    return compute_bill(source, platform.spec.billing, zone, closing.month, record, tenant)


def _open_source(root: Path, repository: Repository, closing: Closing) -> CommitSource:
    if not repository.has_object(closing.commit):
        raise OperationRefused(
            f"the clone doesn't have commit {closing.commit[:12]}, which has the prices of {closing.month}: fetch the merged"
            " declarations; a shallow clone needs `git fetch --unshallow`"
        )
    return CommitSource(root, closing.commit, repository)
