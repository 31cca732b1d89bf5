"""Defines the columns of the lists of stocks and GPUSpecs."""

from __future__ import annotations

from fractions import Fraction

from allotment.declared.values import format_cpu, format_decimal
from allotment.observed.offer_rows import SpecRowOutput, StockOfferOutput
from allotment.observed.quantity import parse_quantity
from allotment.reports.list_columns import format_cost
from allotment.reports.list_table import ListColumn


def stock_columns(currency: str) -> list[ListColumn[StockOfferOutput]]:
    """Return the columns of a search for stocks."""
    return [
        ListColumn("stock", lambda row: row.name),
        ListColumn("cluster", lambda row: row.cluster),
        ListColumn("gpu-spec", lambda row: row.gpu_spec),
        ListColumn("model", lambda row: row.gpu_model or "-"),
        ListColumn("memory", lambda row: row.gpu_memory or "-", lambda row: parse_quantity(row.gpu_memory)),
        ListColumn("total", lambda row: str(row.total), lambda row: row.total),
        ListColumn("held", lambda row: str(row.held_units), lambda row: row.held_units),
        ListColumn("free", lambda row: str(row.free), lambda row: row.free),
        ListColumn("ready", lambda row: "-" if row.ready is None else str(row.ready), lambda row: row.ready, wide=True),
        ListColumn("tenant", lambda row: row.tenant or "-", wide=True),
        ListColumn(
            "price",
            lambda row: format_cost(row.price_per_hour),
            lambda row: row.price_per_hour,
            title=f"{currency}/HOUR",
        ),
    ]


def spec_columns(currency: str) -> list[ListColumn[SpecRowOutput]]:
    """Return the columns of a list of GPUSpecs."""
    return [
        ListColumn("spec", lambda row: row.name, title="GPU SPEC"),
        ListColumn("cluster", lambda row: row.cluster or "-"),
        ListColumn("model", lambda row: row.gpu_model),
        ListColumn("memory", lambda row: row.gpu_memory, lambda row: parse_quantity(row.gpu_memory)),
        ListColumn("gpus", lambda row: format_decimal(Fraction(row.gpus).limit_denominator(100)), lambda row: row.gpus),
        ListColumn("cpu", lambda row: format_cpu(round(row.cpu * 1000)), lambda row: row.cpu, wide=True),
        ListColumn("ram", lambda row: row.memory, lambda row: parse_quantity(row.memory), wide=True),
        ListColumn("disk", lambda row: row.disk, lambda row: parse_quantity(row.disk), wide=True),
        ListColumn("sharing", lambda row: row.sharing),
        ListColumn("total", lambda row: str(row.total), lambda row: row.total),
        ListColumn("held", lambda row: str(row.held_units), lambda row: row.held_units),
        ListColumn("free", lambda row: str(row.free), lambda row: row.free),
        ListColumn("reserved", lambda row: str(row.reserved), lambda row: row.reserved, wide=True),
        ListColumn(
            "price",
            lambda row: format_cost(row.price_per_hour),
            lambda row: row.price_per_hour,
            title=f"{currency}/HOUR",
        ),
        ListColumn("lifecycle", lambda row: row.lifecycle),
    ]
