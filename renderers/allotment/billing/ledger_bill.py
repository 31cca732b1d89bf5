"""Reads the bill of a closed month from the ledger, as it was closed."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import msgspec

from allotment.billing.invoices import Invoice, InvoiceLine
from allotment.billing.ledger import ClosedCluster, ClosedMonth, LedgerInvoice, LedgerLine
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import month_period, parse_moment
from allotment.billing.recorded_use import ClusterRecord


def read_bill(closed: ClosedMonth, commit: str) -> MonthlyBill:
    """Return the bill with the invoices of a closed month. Its lines have no parts. `commit` closed the month."""
    closing, zone = closed.closing, ZoneInfo(closed.closing.time_zone)
    return MonthlyBill(
        month=closing.month,
        provider="",
        period=month_period(closing.month, zone),
        zone=zone,
        currency=closing.currency,
        bills_unknown=closing.unknown == "Billed",
        commit=closing.commit,
        clusters=tuple(map(_read_cluster, closing.clusters)),
        invoices=tuple(_read_invoice(closed.invoices[tenant]) for tenant in sorted(closed.invoices)),
        gpus_by_spec={},
        closed_in=commit,
    )


def _read_cluster(cluster: ClosedCluster) -> ClusterRecord:
    return ClusterRecord(
        cluster=cluster.cluster,
        observed_until=parse_moment(cluster.observed_until),
        recorded_since=parse_moment(cluster.recorded_since),
        is_signed=cluster.is_signed,
        commit=cluster.commit,
        problems=(),
        gaps=(),
    )


def _read_invoice(invoice: LedgerInvoice) -> Invoice:
    return Invoice(invoice.tenant, tuple(map(_read_line, invoice.lines)), invoice.budget)


def _read_line(line: LedgerLine) -> InvoiceLine:
    fields = msgspec.structs.asdict(line)
    del fields["intervals"]
    return InvoiceLine(**fields)
