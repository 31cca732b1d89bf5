"""Builds the pages for the platform team: what is wrong, the stock map, all tenants and the newest merges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from allotment.billing.periods import format_moment
from allotment.declared.layout import Scope
from allotment.portal.pages.access import PLATFORM
from allotment.portal.pages.change_history import Merge
from allotment.portal.pages.inert_text import shorten_text
from allotment.portal.pages.maintenance_calendar import CALENDAR, build_platform_calendar
from allotment.portal.pages.page_renderer import Page, render_page
from allotment.portal.pages.platform_area import Finding, InstanceTrouble, NodeEntry, PlatformArea, RetainedEntry
from allotment.portal.pages.site_facts import SiteFacts
from allotment.reports.stock_table import StockRowOutput

MAX_ROWS = 100  # of a list on the overview
MAX_FINDINGS, MAX_ADVICE = 30, 300  # and bytes of the advice of a finding
MAX_ROW_TEXT = 120  # bytes of a text in a row
MAX_MESSAGE, MAX_REASON = 80, 40  # bytes of them in a row of the overview, which has three lists
TENANTS_PER_PAGE = 200
MERGES_PER_PAGE = 100
MAX_PLATFORM_MERGES = 200
MAX_SCOPES = 4  # of a merge
NODE_WEIGHT = 300  # nodes and instances on a page of the stock map
MAX_INSTANCES = 100  # of a node
T = TypeVar("T")


class _TruncatedList(NamedTuple):
    """The first rows of a list, and the number of the others."""

    rows: list[Any]
    omitted: int


class _PageLink(NamedTuple):
    """A link to a page of a long list, below the folder of the platform pages."""

    file: str
    text: str


def build_platform_pages(site: SiteFacts, area: PlatformArea) -> Iterator[Page]:
    """Yield the pages for the platform team. They name tenants and their resources."""
    yield render_page(
        f"{PLATFORM}/index.html",
        "platform.html.j2",
        site=site,
        area=area,
        findings=_truncate([_describe_finding(each) for each in area.findings], limit=MAX_FINDINGS),
        retained=_truncate([_describe_retained(each) for each in area.retained], area.omitted_retained),
        troubles=_truncate([_describe_trouble(each) for each in area.troubles]),
        counts=Counter(trouble.state for trouble in area.troubles).most_common(),
        clusters=_truncate(area.clusters),
    )
    yield Page(f"{PLATFORM}/{CALENDAR}", build_platform_calendar(area.cordons))
    stocks = _group_stocks(area.stocks)
    for number, links, nodes in _paginate(_split_nodes(area.nodes), _name_stock_page):
        yield render_page(
            f"{PLATFORM}/{links[number].file}",
            "platform_stock.html.j2",
            site=site,
            links=links,
            number=number,
            stocks=stocks if number == 0 else [],
            nodes=[_describe_node(node) for node in nodes],
        )
    for number, links, tenants in _paginate(
        _split(area.tenants, TENANTS_PER_PAGE), lambda at: f"tenants-{at + 1}.html"
    ):
        path = f"{PLATFORM}/{links[number].file}"
        yield render_page(
            path,
            "platform_tenants.html.j2",
            site=site,
            links=links,
            number=number,
            tenants=tenants,
            count=len(area.tenants),
        )
    merges = [_describe_merge(merge) for merge in area.merges[:MAX_PLATFORM_MERGES]]
    for number, links, rows in _paginate(_split(merges, MERGES_PER_PAGE), _name_history_page):
        path = f"{PLATFORM}/{links[number].file}"
        yield render_page(path, "platform_history.html.j2", site=site, links=links, number=number, merges=rows)


def _name_stock_page(number: int) -> str:
    return f"stock-{number + 1}.html" if number else "stock.html"


def _name_history_page(number: int) -> str:
    return f"history-{number + 1}.html" if number else "history.html"


def _truncate(rows: Sequence[Any], omitted: int = 0, limit: int = MAX_ROWS) -> _TruncatedList:
    return _TruncatedList(list(rows[:limit]), omitted + max(0, len(rows) - limit))


def _split(rows: Sequence[T], size: int) -> list[Sequence[T]]:
    """Return the rows of each page. The first page exists without rows, too."""
    return [rows[at : at + size] for at in range(0, max(1, len(rows)), size)]


def _split_nodes(nodes: Iterable[NodeEntry]) -> list[list[NodeEntry]]:
    """Return the nodes of each page, as many as their instances allow."""
    pages, weight = list[list[NodeEntry]]([[]]), 0
    for node in nodes:
        own = 1 + min(len(node.instances), MAX_INSTANCES)
        if pages[-1] and weight + own > NODE_WEIGHT:
            pages.append([])
            weight = 0
        pages[-1].append(node)
        weight += own
    return pages


def _paginate(
    pages: Sequence[Sequence[T]], name_page: Callable[[int], str]
) -> Iterator[tuple[int, list[_PageLink], Sequence[T]]]:
    """Yield the number of each page from 0, the links to all pages of the list, and the rows of the page."""
    links = [_PageLink(name_page(number), str(number + 1)) for number in range(len(pages))]
    for number, rows in enumerate(pages):
        yield number, links, rows


def _describe_finding(finding: Finding) -> Finding:
    message, advice = shorten_text(finding.message, MAX_ADVICE), shorten_text(finding.advice, MAX_ADVICE)
    return finding._replace(subject=shorten_text(finding.subject, MAX_ROW_TEXT), message=message, advice=advice)


def _describe_retained(entry: RetainedEntry) -> RetainedEntry:
    tenant, problem = shorten_text(entry.tenant, MAX_REASON), shorten_text(entry.problem, MAX_MESSAGE)
    return entry._replace(tenant=tenant, problem=problem)


def _describe_trouble(trouble: InstanceTrouble) -> InstanceTrouble:
    reason, message = shorten_text(trouble.reason, MAX_REASON), shorten_text(trouble.message, MAX_MESSAGE)
    return trouble._replace(reason=reason, message=message)


def _group_stocks(stocks: Iterable[StockRowOutput]) -> list[tuple[str, list[StockRowOutput]]]:
    """Return the stocks of each cluster."""
    groups: dict[str, list[StockRowOutput]] = {}
    for stock in stocks:
        groups.setdefault(stock.cluster, []).append(stock)
    return list(groups.items())


def _describe_node(node: NodeEntry) -> dict[str, Any]:
    return {
        "cluster": node.cluster,
        "pool": shorten_text(node.node_pool, MAX_ROW_TEXT),
        "name": shorten_text(node.name, MAX_ROW_TEXT),
        "instances": node.instances[:MAX_INSTANCES],
        "omitted": max(0, len(node.instances) - MAX_INSTANCES),
    }


def _describe_merge(merge: Merge) -> dict[str, Any]:
    """Return the texts of a merge."""
    scopes = [_name_scope(scope) for scope in merge.changes]
    return {
        "moment": format_moment(merge.time),
        "author": shorten_text(merge.author, MAX_ROW_TEXT),
        "subject": shorten_text(merge.subject, MAX_ROW_TEXT),
        "scopes": shorten_text(", ".join(scopes[:MAX_SCOPES]), MAX_ROW_TEXT),
        "omitted": max(0, len(scopes) - MAX_SCOPES),
        "commit": merge.commit,
        "pull_request": merge.pull_request,
    }


def _name_scope(scope: Scope) -> str:
    return f"{scope.kind} {scope.name}" if scope.name else scope.kind
