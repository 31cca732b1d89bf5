"""Closes a month: refuses while something is unknown or unfinished, then writes the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from allotment.billing.ledger import close_month
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import next_month
from allotment.branches.platform_settings import ORIGIN, read_platform
from allotment.capacity.pricing import format_money
from allotment.problems import OperationRefused
from allotment.reports.invoice_pages import describe_unpriced_line
from allotment.reports.outputs.month_close import MonthCloseOutput, list_closed_invoices
from allotment.reports.record_notes import SHALLOW_HISTORY, UNSIGNED, describe_record, list_price_doubts
from allotment.services.billing.billing_source import BillingSource, read_record
from allotment.services.billing.closed_bill import compute_open_bill
from allotment.services.billing.ledger_branch import LedgerBranch, push_closing, tag_name, write_closing
from allotment.services.billing.ledger_check import require_sound_ledger


class ClosingDraft(NamedTuple):
    """A month that can be closed, or the reasons why it can't.

    `output` has the refusals, which prevent the closing, and the doubts. A person may accept the doubts, each kind by itself. `key`
    is the public SSH key of the tag; empty if none is declared.
    """

    bill: MonthlyBill
    key: str
    output: MonthCloseOutput


def draft_closing(source: BillingSource, ledger: LedgerBranch, month: str, now: int) -> ClosingDraft:
    """Return the bill of a month with the adjustments of closed months, and the obstacles to its closing.

    Raises OperationRefused if the month is closed, if somebody else wrote to the ledger, or if usage or declarations can't be
    read.
    """
    require_sound_ledger(source, ledger)
    if month in ledger.months:
        raise OperationRefused(f"the month {month} is closed: `allot month verify {month}` computes it again")
    platform = read_platform(source.declared.source)
    key = platform.spec.billing.public_key if platform else None
    bill, notes = compute_open_bill(source, ledger, month, None, read_record)
    refusals = list(_list_refusals(ledger, bill, now))
    if not source.declared.branch:
        refusals.insert(0, f"only merged declarations can be closed, and these are of {source.declared.label}")
    if platform is None:
        refusals.insert(
            0, f"platform/platform.yaml of {source.declared.label} can't be read: `allot validate` shows the reason"
        )
    elif key is None:
        refusals.insert(0, "declare the key of the tags first: spec.billing.publicKey of the platform")
    unsigned = tuple(
        f"{record.cluster}: {UNSIGNED}" for record in bill.clusters if record.commit and not record.is_signed
    )
    output = MonthCloseOutput(
        month=bill.month,
        currency=bill.currency,
        total=bill.total,
        commit=None,
        tag=None,
        invoices=list_closed_invoices(bill),
        refusals=tuple(refusals),
        unknowns=tuple(_list_unknowns(source, ledger, bill)),
        unsigned=unsigned,
        late_prices=tuple(list_price_doubts(bill._replace(has_price_history=True))),
        notes=notes,
    )
    return ClosingDraft(bill, key or "", output)


def write_month(source: BillingSource, ledger: LedgerBranch, draft: ClosingDraft) -> MonthCloseOutput:
    """Write a closed month with all its doubts and its signed tag to origin, and return it with the commit and the tag.

    Raises OperationRefused if Git can't sign with the declared key, or if another closing was faster.
    """
    closed = close_month(draft.bill)
    evidence = [cluster.commit for cluster in closed.closing.clusters]
    author = source.clone.repository.committer()
    doubts = (*draft.output.unknowns, *draft.output.unsigned, *draft.output.late_prices)
    commit, tag = write_closing(ledger, closed, evidence, doubts, author, draft.key)
    if not push_closing(source.clone.remote(ORIGIN), draft.bill.month, commit, tag):
        raise OperationRefused("another closing was faster: run the command again")
    return msgspec.structs.replace(draft.output, commit=commit, tag=tag_name(draft.bill.month))


def _list_refusals(ledger: LedgerBranch, bill: MonthlyBill, now: int) -> Iterator[str]:
    if now < bill.period.end:
        yield f"the month {bill.month} has not ended"
    if ledger.months and (following := next_month(ledger.months[-1])) != bill.month:
        yield f"months are closed in their order: {following} is the next"
    if not bill.has_price_history:
        yield SHALLOW_HISTORY
    if not any(record.commit for record in bill.clusters):
        yield "no cluster has recorded its usage: run `allot run --report CLUSTER` for each cluster"
    closed = {each.cluster for month in ledger.months[-1:] for each in ledger.read_closing(month).clusters}
    for record in bill.clusters:
        if record.cluster in closed and not record.commit:
            yield f"{record.cluster}: it has no status, but the month before was closed with its status: restore the branch and its ref"
        if record.is_declared:
            problems = record.select_tenants(()).problems
            yield from (f"{record.cluster}: {problem}" for problem in problems)
    for invoice in bill.invoices:
        for line in invoice.unpriced_lines:
            yield f"{invoice.tenant}: {describe_unpriced_line(line)}"


def _list_unknowns(source: BillingSource, ledger: LedgerBranch, bill: MonthlyBill) -> Iterator[str]:
    period = bill.period
    for whole_record in bill.clusters:
        of_tenants = [text for texts in whole_record.tenant_problems.values() for text in texts]
        yield from (f"{whole_record.cluster}: {problem}" for problem in of_tenants)
        record = whole_record.select_tenants(())
        if not record.is_declared:
            yield from (f"{record.cluster}: {problem}" for problem in record.problems)
        elif not record.commit and not record.problems:
            yield f"{record.cluster}: no reporter has reported it yet"
        elif record.commit and not record.problems:
            starts_late = record.recorded_since is not None and period.start < record.recorded_since
            if starts_late or record.find_gaps(period) or not record.covers_end(period):
                notes = describe_record(record, period, source.zone, about_signature=False)
                yield from (f"{record.cluster}: {note.text}" for note in notes)
            if not ledger.months and record.recorded_since is not None and record.recorded_since < period.start:
                yield f"{record.cluster}: usage before {bill.month} is recorded, and can't be closed after this closing"
    for invoice in bill.invoices:
        if invoice.unknown_total:
            amount = f"{format_money(invoice.unknown_total)} {bill.currency}"
            yield f"{invoice.tenant}: nobody observed how long uses of {amount} lasted"
