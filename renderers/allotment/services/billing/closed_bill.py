"""Computes the bills of closed months again, and the adjustments that later knowledge about them needs."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.billing.adjustments import compute_adjustments
from allotment.billing.invoices import InvoiceLine
from allotment.billing.late_changes import MergedTerms, find_late_changes, select_billed
from allotment.billing.ledger import ClosedCluster, ClosedMonth, Closing
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import month_period, next_month, parse_moment
from allotment.billing.recorded_use import ClusterRecord, UsageRecord
from allotment.branches.platform_settings import ORIGIN, read_platform, read_reporter_keys
from allotment.problems import OperationRefused
from allotment.reports.record_notes import SHALLOW_HISTORY
from allotment.services.billing.bill_reader import compute_bill
from allotment.services.billing.billing_source import BillingSource
from allotment.services.billing.ledger_branch import LedgerBranch
from allotment.services.billing.price_history import find_future_commit, is_history_complete, read_merged_terms
from allotment.services.billing.usage_reader import read_record_at

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
        return LedgerBranch(clone.repository, None, {}, {})
    return LedgerBranch.fetch(clone.repository, clone.remote(ORIGIN))


def compute_open_bill(
    source: BillingSource, ledger: LedgerBranch, month: str, tenant: str | None, read: ReadRecord
) -> tuple[MonthlyBill, tuple[str, ...]]:
    """Return the bill of a month that isn't closed, and notes about adjustments that can't be computed.

    If the month is the next to close, the bill has the adjustments of closed months. `read` returns the recorded usage of
    the tenant, or of all tenants, since a time. Raises OperationRefused.
    """
    is_next = bool(ledger.months) and next_month(ledger.months[-1]) == month
    earlier = list_adjustable_months(ledger, month, tenant) if is_next else []
    for closed in earlier:
        if closed.closing.currency != source.platform.spec.billing.currency:
            raise OperationRefused(
                f"{closed.closing.month} was closed in {closed.closing.currency}, so its adjustments can't be part of a bill in"
                f" {source.platform.spec.billing.currency}: declare {closed.closing.currency} again"
            )
    record = read(source, tenant, find_start(earlier, month_period(month, source.zone).start))
    adjustments = compute_all_adjustments(source.clone.root, source.clone.repository, earlier, record, tenant)
    declared, period = source.declared.source, month_period(month, source.zone)
    terms = read_merged_terms(declared, source.zone, period.start)
    bill = compute_bill(
        declared,
        source.platform.spec.billing,
        source.zone,
        month,
        record,
        tenant,
        adjusted_tenants=adjustments.lines,
        terms=terms,
    )
    bill = bill.with_adjustments(adjustments.lines)._replace(
        late_changes=select_billed(find_late_changes(terms, period), bill.invoices),
        has_price_history=is_history_complete(declared, period),
        future_commit=find_future_commit(declared),
    )
    return bill, adjustments.notes


def list_adjustable_months(ledger: LedgerBranch, before: str, tenant: str | None = None) -> list[ClosedMonth]:
    """Return the closed months before a month for which adjustments are computed, with the invoices of all tenants or of `tenant`.

    Raises OperationRefused.
    """
    names = [name for name in ledger.months if name < before][-MAX_ADJUSTED_MONTHS:]
    return [ledger.read_month(name, None if tenant is None else [tenant]) for name in names]


def find_start(months: Sequence[ClosedMonth], start: int) -> int:
    """Return the time since which usage is needed for adjustments of months, and for a bill from `start`."""
    starts = [month_period(each.closing.month, ZoneInfo(each.closing.time_zone)).start for each in months]
    return min([*starts, start])


def compute_all_adjustments(
    root: Path, repository: Repository, months: Sequence[ClosedMonth], record: UsageRecord, tenant: str | None = None
) -> Adjustments:
    """Return the adjustments of closed months by a record of usage, of all tenants or of one tenant.

    Each month is computed with the prices and settings of the commit that it was closed with. A cluster counts only if its
    record continues the record that the closing read.
    """
    lines: dict[str, list[InvoiceLine]] = defaultdict(list)
    notes: list[str] = []
    records = {each.cluster: each for each in record.clusters}
    for index, closed in enumerate(months):
        closing = closed.closing
        clusters = set(records)
        for each in closing.clusters:
            if reason := _find_obstacle(repository, records.get(each.cluster), each):
                clusters.discard(each.cluster)
                notes.append(f"{each.cluster}: the adjustments of {closing.month} are left out, because {reason}")
        bill = _compute_bill_at(root, repository, closing, record, tenant)
        notes += [
            f"{invoice.tenant}: the adjustments of {closing.month} leave out {line.key.name}, because it had no price"
            for invoice in bill.invoices
            for line in invoice.unpriced_lines
        ]
        adjustments = compute_adjustments(closed, months[index + 1 :], bill.invoices, clusters, tenant)
        for owner, adjusted in adjustments.items():
            lines[owner] += adjusted
    return Adjustments(dict(lines), tuple(notes))


def recompute_month(root: Path, ledger: LedgerBranch, month: str) -> MonthlyBill:
    """Return the bill of a closed month, computed again from the commits of its closing.

    Raises OperationRefused if a commit or file is missing.
    """
    commit, repository = ledger.closings[month], ledger.repository
    closing = ledger.read_closing(month)
    parents = repository.parents(commit)
    earlier = list_adjustable_months(LedgerBranch.at(repository, parents[0]), month) if parents else []
    start = find_start(earlier, month_period(month, ZoneInfo(closing.time_zone)).start)
    source = _open_source(root, repository, closing)
    commits = {each.cluster: each.commit for each in closing.clusters}
    record = read_record_at(repository, commits, read_reporter_keys(source), start)
    adjustments = compute_all_adjustments(root, repository, earlier, record)
    bill = _compute_bill_at(root, repository, closing, record, None, adjusted_tenants=adjustments.lines)
    return bill.with_adjustments(adjustments.lines)._replace(closed_in=commit)


def _find_obstacle(repository: Repository, record: ClusterRecord | None, closed: ClosedCluster) -> str:
    """Return the reason why a record of a cluster can't be compared with that of a closing; empty if there is none."""
    if record is None or not record.commit:
        return "its usage can't be read now"
    if record.problems:
        return record.problems[0]
    if not (repository.has_object(closed.commit) and repository.is_ancestor(closed.commit, record.commit)):
        return "its status branch doesn't continue the status of the closing"
    if record.recorded_since is None or record.recorded_since > parse_moment(closed.recorded_since):
        return "its record begins later than at the closing"
    return ""


def _compute_bill_at(
    root: Path,
    repository: Repository,
    closing: Closing,
    record: UsageRecord,
    tenant: str | None,
    *,
    adjusted_tenants: Collection[str] = (),
) -> MonthlyBill:
    source = _open_source(root, repository, closing)
    platform = read_platform(source)
    if platform is None:
        raise OperationRefused(f"platform/platform.yaml of commit {closing.commit[:12]} can't be read")
    billing = platform.spec.billing
    zone = ZoneInfo(billing.time_zone)
    return compute_bill(
        source,
        billing,
        zone,
        closing.month,
        record,
        tenant,
        adjusted_tenants=adjusted_tenants,
        ledger_format=closing.format,
        terms=_read_terms(source, zone, closing.month, record),
    )


def _read_terms(source: CommitSource, zone: datetime.tzinfo, month: str, record: UsageRecord) -> Sequence[MergedTerms]:
    """Return the merges that decide the price of reserved units. Raises OperationRefused if the clone lacks some of them."""
    if not any(stock.tenant for stock in record.stocks):
        return ()
    period = month_period(month, zone)
    if not is_history_complete(source, period):
        raise OperationRefused(SHALLOW_HISTORY)
    return read_merged_terms(source, zone, period.start)


def _open_source(root: Path, repository: Repository, closing: Closing) -> CommitSource:
    if not repository.has_object(closing.commit):
        raise OperationRefused(
            f"the clone doesn't have commit {closing.commit[:12]}, which has the prices of {closing.month}: fetch the merged"
            " declarations; a shallow clone needs `git fetch --unshallow`"
        )
    return CommitSource(root, closing.commit, repository)
