"""Builds the pages for the providers of clusters: nodes, stocks, unit hours and income. They name no tenant."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

from allotment.billing.capacity_totals import CapacityTotal
from allotment.billing.prices import round_money
from allotment.portal.pages.access import PROVIDER
from allotment.portal.pages.page_renderer import Page, render_page
from allotment.portal.pages.provider_area import CapacityNow, ProviderArea, ProviderCluster
from allotment.portal.pages.site_facts import SiteFacts
from allotment.reports.plots import draw_capacity, format_sold_percent, format_unit_hours

MAX_NODES = 300  # on the page of a cluster
_INDEX = "index"


def build_provider_pages(site: SiteFacts, area: ProviderArea) -> Iterator[Page]:
    """Yield the pages about all clusters and about each cluster."""
    yield render_page(
        f"{PROVIDER}/{_INDEX}.html",
        "provider.html.j2",
        site=site,
        area=area,
        rows=[_describe_cluster(entry) for entry in area.clusters],
        income=sum((round_money(entry.income) for entry in area.clusters if entry.is_known), Decimal()),
        is_known=not area.clusters or any(entry.is_known for entry in area.clusters),
    )
    for entry in area.clusters:
        yield render_page(
            f"{PROVIDER}/{_name_page(entry)}.html",
            "provider_cluster.html.j2",
            site=site,
            area=area,
            entry=entry,
            row=_describe_cluster(entry),
            nodes=_list_nodes(entry.capacity),
            plot=draw_capacity([(day.day, day.units) for day in entry.days]),
            days=[
                _describe_units(day.units) | {"name": day.day, "income": round_money(day.income)}
                for day in entry.days
                if entry.is_known
            ],
            offers=[
                (_describe_units(offer.units) if offer.units is not None else {})
                | {"name": offer.name, "has_units": offer.units is not None, "income": round_money(offer.income)}
                for offer in entry.offers
            ],
        )


def _name_page(entry: ProviderCluster) -> str:
    """Return the name of a cluster's page. No cluster's name has two dashes side by side."""
    return entry.cluster.name if entry.cluster.name != _INDEX else f"{_INDEX}--2"


def _describe_cluster(entry: ProviderCluster) -> dict[str, Any]:
    """Return the texts of a cluster in the month so far."""
    capacity = entry.capacity
    return (
        _describe_units(entry.units)
        | {
            "page": _name_page(entry),
            "title": entry.cluster.title,
            "is_known": entry.is_known,
            "nodes": capacity.node_count if capacity is not None else "–",
            "units": capacity.units if capacity is not None else "–",
            "income": round_money(entry.income),
        }
        | ({} if entry.is_known else dict.fromkeys(("stock", "sold", "reserved", "idle", "percent"), "unknown"))
    )


def _describe_units(total: CapacityTotal) -> dict[str, Any]:
    """Return the unit hours as texts."""
    return {
        "stock": format_unit_hours(total.stock),
        "sold": format_unit_hours(total.sold),
        "reserved": format_unit_hours(total.reserved),
        "idle": format_unit_hours(total.idle),
        "oversold": format_unit_hours(total.oversold) if total.oversold else "",
        "percent": format_sold_percent(total),
    }


def _list_nodes(capacity: CapacityNow | None) -> dict[str, Any]:
    """Return the first nodes, each with its node pool, and the number of the others."""
    if capacity is None:
        return {"rows": [], "omitted": 0}
    nodes = ((pool.name, node) for pool in capacity.pools for node in pool.nodes)
    return {"rows": list(islice(nodes, MAX_NODES)), "omitted": max(0, capacity.node_count - MAX_NODES)}
