"""Closes a month: refuses while something is unknown or unfinished, then writes the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.billing.ledger import close_month
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period, next_month
from allotment.billing.recorded_use import ClusterRecord
from allotment.capacity.pricing import format_money
from allotment.problems import OperationRefused
from allotment.reports.invoice_pages import describe_unpriced_line
from allotment.reports.record_notes import describe_record
from allotment.services.billing.billing_source import BillingSource, read_record
from allotment.services.billing.closed_bill import compute_open_bill
from allotment.services.billing.ledger_branch import LedgerBranch, push_closing, write_closing


class ClosingDraft(NamedTuple):
    """A month that can be closed, or the reasons why it can't.

    `refusals` prevent the closing. `unknowns` describe time that nobody observed; a person may accept it. `notes` name
    adjustments that can't be computed.
    """

    bill: MonthlyBill
    refusals: tuple[str, ...]
    unknowns: tuple[str, ...]
    notes: tuple[str, ...]


def draft_closing(source: BillingSource, ledger: LedgerBranch, month: str, now: int) -> ClosingDraft:
    """Return the bill of a month with the adjustments of closed months, and the obstacles to its closing.

    Raises OperationRefused if the month is closed, or if usage or declarations can't be read.
    """
    if month in ledger.months:
        raise OperationRefused(f"the month {month} is closed: `allot month verify {month}` computes it again")
    bill, notes = compute_open_bill(source, ledger, month, None, read_record)
    return ClosingDraft(
        bill=bill,
        refusals=tuple(_list_refusals(source, ledger, bill, now)),
        unknowns=tuple(_list_unknowns(source, bill)),
        notes=notes,
    )


def write_month(source: BillingSource, remote: Remote, ledger: LedgerBranch, draft: ClosingDraft) -> str:
    """Write a closed month and its signed tag to a remote, and return the commit.

    Raises OperationRefused if Git can't sign, or if another closing was faster.
    """
    repository = source.clone.repository
    closed = close_month(draft.bill)
    evidence = [cluster.commit for cluster in closed.closing.clusters]
    commit, tag = write_closing(ledger, closed, evidence, repository.committer())
    if not push_closing(remote, draft.bill.month, commit, tag):
        raise OperationRefused("another closing was faster: run the command again")
    return commit


def _list_refusals(source: BillingSource, ledger: LedgerBranch, bill: MonthlyBill, now: int) -> Iterator[str]:
    if now < bill.period.end:
        yield f"the month {bill.month} has not ended"
    if ledger.months and (following := next_month(ledger.months[-1])) != bill.month:
        yield f"months are closed in their order: {following} is the next"
    if not any(each.commit for each in bill.clusters):
        yield "no cluster has recorded its usage"
    for each in bill.clusters:
        yield from _list_record_refusals(source, each, bill.period)
    for invoice in bill.invoices:
        for line in invoice.unpriced_lines:
            yield f"{invoice.tenant}: {describe_unpriced_line(line)}"


def _list_record_refusals(source: BillingSource, record: ClusterRecord, period: Period) -> Iterator[str]:
    if not record.commit and not record.problems:
        return
    notes = describe_record(record, period, source.zone, about_signature=False)
    problems = [note.text for note in notes if note.is_problem]
    yield from (f"{record.cluster}: {text}" for text in problems)
    if not problems and not record.covers_end(period):
        yield f"{record.cluster}: it was not observed until the end of the month"


def _list_unknowns(source: BillingSource, bill: MonthlyBill) -> Iterator[str]:
    for record in bill.clusters:
        if (record.recorded_since is not None and bill.period.start < record.recorded_since) or record.find_gaps(
            bill.period
        ):
            for note in describe_record(record, bill.period, source.zone, about_signature=False):
                yield f"{record.cluster}: {note.text}"
    for invoice in bill.invoices:
        if invoice.unknown_total:
            amount = f"{format_money(invoice.unknown_total)} {bill.currency}"
            yield f"{invoice.tenant}: nobody observed how long uses of {amount} lasted"
