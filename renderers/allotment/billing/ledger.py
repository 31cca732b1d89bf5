"""Defines the files of a closed month in the ledger: the closing and an invoice for each tenant, as JSON with exact numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from allotment.billing.invoices import BilledLine, Invoice, InvoiceLine, LedgerRecord
from allotment.billing.monthly_bill import LEDGER_FORMAT, ROUNDED_LINES_FORMAT, MonthlyBill
from allotment.billing.periods import format_moment, month_period, parse_moment
from allotment.billing.usage_totals import Share

CLOSING = "closing.json"
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_AMOUNT = Decimal(10) ** 15


class InvalidLedger(Exception):
    """A file of the ledger isn't in the format that `allot month close` writes."""


class ClosedCluster(LedgerRecord, frozen=True, kw_only=True):
    """The record of a cluster, as the closing read it.

    `commit` is the commit of the status branch. The record covers the time from `recordedSince` until `observedUntil`.
    `isSigned` says that the cluster declared the key of its reporter.
    """

    cluster: str
    commit: str
    recorded_since: str
    observed_until: str
    is_signed: bool


class Closing(LedgerRecord, frozen=True, kw_only=True):
    """The closing of a month.

    `commit` is the commit of the declarations with the prices and budgets. `unknown` is `spec.billing.unknown` of the Platform.
    `unknownTotal` is the price of the time that nobody observed. `totals` are the totals of the invoices, by tenant.
    """

    format: int
    month: str
    time_zone: str
    currency: str
    unknown: str
    commit: str
    clusters: tuple[ClosedCluster, ...]
    total: Decimal
    unknown_total: Decimal
    totals: dict[str, Decimal]


class LedgerInterval(LedgerRecord, frozen=True, kw_only=True):
    """A part of a use on a line, as in `allot usage`. `commit` is the commit of the status branch that proves it."""

    uid: str
    node: str
    start: str
    certain_end: str
    end: str
    continues: bool
    weight: int
    commit: str


class LedgerLine(BilledLine, frozen=True, kw_only=True):
    """A line of an invoice with the intervals that prove it."""

    intervals: tuple[LedgerInterval, ...]


class LedgerInvoice(LedgerRecord, frozen=True, kw_only=True):
    """The invoice of a tenant. `total` is the sum of its lines."""

    format: int
    tenant: str
    month: str
    currency: str
    budget: Decimal | None
    total: Decimal
    lines: tuple[LedgerLine, ...]


class ClosedMonth(NamedTuple):
    """A closed month: its closing, and its invoices by tenant."""

    closing: Closing
    invoices: Mapping[str, LedgerInvoice]


def close_month(bill: MonthlyBill) -> ClosedMonth:
    """Return the closed month of a final bill with adjustments."""
    invoices = {invoice.tenant: _build_invoice(bill, invoice) for invoice in bill.invoices}
    closing = Closing(
        format=bill.ledger_format,
        month=bill.month,
        time_zone=str(bill.zone),
        currency=bill.currency,
        unknown="Billed" if bill.bills_unknown else "Free",
        commit=bill.commit,
        clusters=tuple(
            ClosedCluster(
                cluster=record.cluster,
                commit=record.commit,
                recorded_since=format_moment(record.recorded_since or 0),
                observed_until=format_moment(record.observed_until or 0),
                is_signed=record.is_signed,
            )
            for record in bill.clusters
            if record.commit
        ),
        total=bill.total,
        unknown_total=sum((invoice.unknown_total for invoice in bill.invoices), Decimal("0.00")),
        totals={tenant: invoice.total for tenant, invoice in invoices.items()},
    )
    return ClosedMonth(closing, invoices)


def invoice_path(tenant: str) -> str:
    """Return the path of a tenant's invoice in the folder of a month."""
    return f"invoices/{tenant}.json"


def dump_month(month: ClosedMonth) -> dict[str, bytes]:
    """Return the files of a closed month by their paths in its folder."""
    invoices = {invoice_path(tenant): _dump(invoice) for tenant, invoice in month.invoices.items()}
    return {CLOSING: _dump(month.closing), **invoices}


def parse_month(files: Mapping[str, bytes]) -> ClosedMonth:
    """Return the closed month of files by their paths. Raises InvalidLedger."""
    try:
        closing = msgspec.json.decode(files[CLOSING], type=Closing)
        invoices = [msgspec.json.decode(data, type=LedgerInvoice) for path, data in files.items() if path != CLOSING]
        _check_closing(closing)
        for invoice in invoices:
            _check_amounts(invoice.total, *(part for line in invoice.lines for part in _list_amounts(line)))
    except KeyError:
        raise InvalidLedger(f"{CLOSING} is missing") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, OSError) as error:
        raise InvalidLedger(str(error)) from None
    formats = {closing.format, *(invoice.format for invoice in invoices)}
    if len(formats) != 1 or not formats <= {ROUNDED_LINES_FORMAT, LEDGER_FORMAT}:
        raise InvalidLedger(f"its format is not {ROUNDED_LINES_FORMAT} or {LEDGER_FORMAT}")
    if {invoice_path(invoice.tenant) for invoice in invoices} != files.keys() - {CLOSING}:
        raise InvalidLedger("an invoice names another tenant than its file")
    if {invoice.month for invoice in invoices} - {closing.month}:
        raise InvalidLedger("an invoice is of another month")
    return ClosedMonth(closing, {invoice.tenant: invoice for invoice in invoices})


def _check_closing(closing: Closing) -> None:
    """Raise ValueError if a month, time zone, time, commit or amount of a closing is none."""
    try:
        zone = ZoneInfo(closing.time_zone)
    except ZoneInfoNotFoundError:
        raise ValueError(f"no time zone is named {closing.time_zone!r}") from None
    month_period(closing.month, zone)
    for cluster in closing.clusters:
        parse_moment(cluster.recorded_since)
        parse_moment(cluster.observed_until)
    for commit in (closing.commit, *(cluster.commit for cluster in closing.clusters)):
        if not _COMMIT.fullmatch(commit):
            raise ValueError(f"{commit!r} is no commit")
    _check_amounts(closing.total, closing.unknown_total, *closing.totals.values())


def _list_amounts(line: LedgerLine) -> Iterator[Decimal]:
    yield from (line.amount, line.unknown_amount)
    if line.key.price is not None:
        yield line.key.price


def _check_amounts(*amounts: Decimal) -> None:
    """Raise ValueError if an amount of money is not finite or too large."""
    for amount in amounts:
        if not amount.is_finite() or not -_MAX_AMOUNT < amount < _MAX_AMOUNT:
            raise ValueError(f"{amount} is no amount of money")


def _build_invoice(bill: MonthlyBill, invoice: Invoice) -> LedgerInvoice:
    return LedgerInvoice(
        format=bill.ledger_format,
        tenant=invoice.tenant,
        month=bill.month,
        currency=bill.currency,
        budget=invoice.budget,
        total=invoice.total,
        lines=tuple(map(_build_line, invoice.lines)),
    )


def _build_line(line: InvoiceLine) -> LedgerLine:
    fields = msgspec.structs.asdict(line)
    parts = fields.pop("parts")
    return LedgerLine(**fields, intervals=tuple(map(_build_interval, parts)))


def _build_interval(part: Share) -> LedgerInterval:
    use = part.use
    return LedgerInterval(
        uid=use.uid,
        node=use.node,
        start=format_moment(part.start),
        certain_end=format_moment(part.certain_end),
        end=format_moment(part.end),
        continues=part.continues,
        weight=use.weight,
        commit=use.commit,
    )


def _dump(value: Closing | LedgerInvoice) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2) + b"\n"
