"""Render a cluster's status as a Markdown page for the forge.

Text from a tenant or a pod is escaped, so it can't add links or other markup to the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from allotment import conditions as word
from allotment.diff.cold_starts import ColdStartTime
from allotment.observed import orphans
from allotment.observed.cold_starts import MAX_STARTS_PER_SPEC, summarize_cold_starts
from allotment.observed.edits import EDIT_CONDITION_TYPES as EDIT_TYPES
from allotment.observed.orphans import Orphan
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.observed.status import ClusterStatus, Instance, Snapshot, Stock, Storage, TenantStatus
from allotment.reports.cold_starts import format_cold_start
from allotment.reports.markdown import escape_markdown, markdown_table

MAX_ROWS = 500  # the most rows of a table, because forges truncate long pages
MAX_LENGTH = 400
_COLD_START_NOTE = (
    "Cold start: how long an instance that found no free unit waited until a node had room for it, by the last"
    f" {MAX_STARTS_PER_SPEC} such starts of the GPU spec that were seen. Its image is pulled after that. Where there is none, nodes are static."
)
RETAINED_TITLE = "Retained tenants"
_TROUBLED_STATES = (word.FAILED, word.WAITING, word.LOST)


def render_summary(
    cluster: ClusterStatus, tenants: Sequence[TenantStatus], retained: Sequence[RetainedTenant] | None = ()
) -> bytes:
    """Return the page of a cluster: its stocks, the number of instances in each state, and the resources with problems.

    Above the stocks, the page lists the retained tenants, then the removed resources that still exist and the stopped
    instances that still run, and then the edits by hand. `retained` is None if the retained tenants are unknown.
    """
    states = Counter(
        word.display_state(instance.state, of_instance=True) for tenant in tenants for instance in tenant.instances
    )
    leftovers = [leftover for tenant in tenants for leftover in orphans.find_orphans(tenant)]
    edits = list(_edit_rows(cluster, tenants))
    retained_section = _retained_section(retained)
    cold = summarize_cold_starts(cluster.cold_starts)
    stocks = [_stock_cells(stock, cold.get(stock.gpu_spec)) for stock in cluster.stocks]
    lines = [
        f"# {cluster.cluster}",
        "",
        f"Seen {cluster.observed_at}.",
        *([f"**{escape_markdown(cluster.message)}**"] if cluster.message else []),
        "",
        *retained_section,
        *_leftover_section("Removed, and not gone", [leftover for leftover in leftovers if not leftover.is_stopped]),
        *_leftover_section("Stopped, and still running", [leftover for leftover in leftovers if leftover.is_stopped]),
        *_table_section("Edited by hand", ("What", "Kind", "Why", "Since"), edits),
        "## Stocks",
        "",
        *markdown_table(("Stock", "GPU spec", "Units", "Held", "Free", "Ready", "Tenant", "Cold start"), stocks),
        "",
        *([_COLD_START_NOTE, ""] if any(stock.node_pool for stock in cluster.stocks) else []),
        "## Instances",
        "",
        *markdown_table(
            ("State", "Instances"), ((escape_markdown(state), str(states[state])) for state in sorted(states))
        ),
        "",
        "## Needs a look",
        "",
        *(_trouble_section(tenants) or ["Nothing else." if leftovers or edits or retained_section else "All is well."]),
        "",
    ]
    return "\n".join(lines).encode()


def _retained_section(retained: Sequence[RetainedTenant] | None) -> list[str]:
    if retained is None:
        return [f"## {RETAINED_TITLE}", "", "Unknown: the rendered branches cannot be read.", ""]
    heads = ("Tenant", "Reason", "Why", "What to do", "Since")
    return _table_section(RETAINED_TITLE, heads, list(map(_retained, retained)))


def _retained(tenant: RetainedTenant) -> tuple[str, ...]:
    why = tenant.words.partition(": ")[2]
    return (
        escape_markdown(tenant.tenant),
        tenant.reason,
        escape_markdown(why, MAX_LENGTH),
        WAYS_OUT[tenant.reason],
        escape_markdown(tenant.since),
    )


def _leftover_section(title: str, leftovers: Sequence[Orphan]) -> list[str]:
    """Return a table of removed or stopped resources that still exist; empty if there are none."""
    rows = [
        (
            escape_markdown(f"{leftover.tenant}/{leftover.name}"),
            leftover.kind,
            escape_markdown(leftover.condition.message, MAX_LENGTH),
            escape_markdown(leftover.remedy, MAX_LENGTH),
            leftover.condition.last_transition_time,
        )
        for leftover in leftovers
    ]
    return _table_section(title, ("What", "Kind", "Why", "What to do", "Since"), rows)


def _edit_rows(cluster: ClusterStatus, tenants: Sequence[TenantStatus]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each condition that reports objects that a person edited or added by hand."""
    for condition in cluster.conditions:
        message = escape_markdown(condition.message, MAX_LENGTH)
        yield escape_markdown(cluster.cluster), "platform", message, condition.last_transition_time
    for tenant in tenants:
        resource_rows = (
            (type(resource).__name__.lower(), f"{tenant.tenant}/{resource.name}", resource.conditions)
            for resource in _tenant_resources(tenant)
        )
        for kind, name, conditions in (("tenant", tenant.tenant, tenant.conditions), *resource_rows):
            for condition in conditions:
                if condition.type in EDIT_TYPES:
                    yield (
                        escape_markdown(name),
                        kind,
                        escape_markdown(condition.message, MAX_LENGTH),
                        condition.last_transition_time,
                    )


def _table_section(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a section with a table of at most MAX_ROWS rows; empty if there are no rows."""
    if not rows:
        return []
    more = [f"and {len(rows) - MAX_ROWS} more."] if len(rows) > MAX_ROWS else []
    return [f"## {title}", "", *markdown_table(heads, rows[:MAX_ROWS]), *more, ""]


def _tenant_resources(tenant: TenantStatus) -> list[Instance | Storage | Snapshot]:
    return [*tenant.instances, *tenant.storages, *tenant.snapshots]


def _stock_cells(stock: Stock, cold: ColdStartTime | None) -> tuple[str, ...]:
    numbers = (str(number) for number in (stock.count, stock.held_units, stock.free, stock.ready))
    return (
        escape_markdown(stock.name),
        escape_markdown(stock.gpu_spec),
        *numbers,
        escape_markdown(stock.tenant),
        format_cold_start(cold) if stock.node_pool else "",
    )


def _trouble_section(tenants: Sequence[TenantStatus]) -> list[str]:
    rows = []
    for tenant in tenants:
        for resource in _tenant_resources(tenant):
            if resource.state in _TROUBLED_STATES:
                kind = type(resource).__name__.lower()
                rows.append(
                    (
                        escape_markdown(f"{tenant.tenant}/{resource.name}"),
                        kind,
                        resource.state,
                        escape_markdown(resource.message or resource.reason),
                        resource.since,
                    )
                )
    if not rows:
        return []
    more = [f"and {len(rows) - MAX_ROWS} more."] if len(rows) > MAX_ROWS else []
    return [*markdown_table(("What", "Kind", "State", "Why", "Since"), rows[:MAX_ROWS]), *more]
