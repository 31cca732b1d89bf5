"""Defines the columns of declared costs: of resources and of tenants."""

from __future__ import annotations

from decimal import Decimal

from allotment.billing.declared_costs import TenantMonth
from allotment.capacity.pricing import Cost, format_money
from allotment.declared.tenant_resources import INSTANCE
from allotment.declared.values import format_size
from allotment.diff.month_forecast import MonthForecast
from allotment.problems import pluralize
from allotment.reports.invoice_texts import KIND_NAMES
from allotment.reports.list_table import ListColumn


def resource_columns(currency: str) -> list[ListColumn[Cost]]:
    """Return the columns of the costs of resources."""
    return [
        ListColumn("resource", lambda cost: f"{KIND_NAMES[cost.kind]} {cost.name}"),
        ListColumn("cluster", lambda cost: cost.cluster),
        ListColumn("spec", lambda cost: cost.offer),
        ListColumn("labels", _format_labels),
        ListColumn("quantity", _format_quantity),
        ListColumn("price", lambda cost: f"{cost.price:f}" if cost.has_price else "-"),
        ListColumn(
            "month",
            lambda cost: _format_money(cost.per_month if cost.has_price else None),
            title=f"{currency}/MONTH",
        ),
    ]


def tenant_columns(currency: str, month: str) -> list[ListColumn[TenantMonth]]:
    """Return the columns of the costs of tenants: of 730 hours, and of the month."""
    return [
        ListColumn("tenant", lambda each: each.spending.tenant),
        ListColumn("month", lambda each: _format_money(each.spending.cost), title=f"{currency}/MONTH"),
        ListColumn(
            "so-far",
            lambda each: _format_money(each.forecast.so_far if each.forecast else None),
            title=f"{month} SO FAR",
        ),
        ListColumn("forecast", lambda each: _format_money(each.forecast.after if each.forecast else None)),
        ListColumn(
            "budget", lambda each: _format_money(each.spending.budget.per_month if each.spending.budget else None)
        ),
        ListColumn("used", lambda each: _format_percent(each.forecast), style=lambda each: _style(each.forecast)),
        ListColumn("note", lambda each: "; ".join(describe_gaps(each)), long=True),
    ]


def describe_gaps(each: TenantMonth) -> list[str]:
    """Return notes about the resources and the usage that the costs of a tenant leave out."""
    spending, notes = each.spending, list(each.notes)
    if spending.invalid_files:
        notes.append(f"without {pluralize(spending.invalid_files, 'file')} that can't be read or names an unknown spec")
    if spending.unpriced_resources:
        notes.append(f"without {pluralize(spending.unpriced_resources, 'resource')} that has no price yet")
    return notes


def describe_forecast(forecast: MonthForecast, currency: str) -> str:
    """Return the cost of the month in a sentence."""
    budget = ""
    if forecast.budget is not None:
        budget = f", budget {format_money(forecast.budget)} ({_format_percent(forecast)})"
    return f"{forecast.month}: {format_money(forecast.so_far)} {currency} so far, {format_money(forecast.after)} forecast{budget}"


def describe_near_budget(forecast: MonthForecast) -> str:
    """Return a warning about a forecast near or over its budget; empty if it is neither."""
    if not forecast.is_near_budget or not forecast.budget:
        return ""
    what = "exceeds" if forecast.is_over_budget else f"uses {forecast.percent} % of"
    return f"the forecast for {forecast.month} {what} the budget of {format_money(forecast.budget)}"


def _format_labels(cost: Cost) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(cost.labels.items())) or "-"


def _format_quantity(cost: Cost) -> str:
    return pluralize(cost.quantity, "unit") if cost.kind == INSTANCE.kind.name else format_size(cost.quantity)


def _format_money(amount: Decimal | None) -> str:
    return "-" if amount is None else format_money(amount)


def _format_percent(forecast: MonthForecast | None) -> str:
    return "-" if forecast is None or forecast.percent is None else f"{forecast.percent} %"


def _style(forecast: MonthForecast | None) -> str:
    if forecast is None or not forecast.is_near_budget:
        return ""
    return "red" if forecast.is_over_budget else "yellow"
