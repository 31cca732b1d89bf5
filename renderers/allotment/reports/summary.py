"""A cluster's status as a page that reads well on the forge. Whatever a tenant or a pod wrote in it stays inert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from allotment import conditions as word
from allotment.changes.cold import ColdTime
from allotment.observed import removed
from allotment.observed.cold_starts import KEPT, cold_times
from allotment.observed.edits import TYPES as EDIT_TYPES
from allotment.observed.removed import Left
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.observed.status import ClusterStatus, Instance, Snapshot, Stock, Storage, TenantStatus
from allotment.reports.cold_starts import cold_words
from allotment.reports.markdown import plain, table

MOST_ROWS = 500  # troubles that are listed; forges cut long pages
MOST_WORDS = 400
_COLD = (
    "Cold start: how long an instance that found no free unit waited until a node had room for it, by the last"
    f" {KEPT} such starts of the GPU spec that were seen. Its image is pulled after that. Where there is none, nodes are static."
)
_TROUBLED = (word.FAILED, word.WAITING, word.LOST)


def summary(cluster: ClusterStatus, tenants: Sequence[TenantStatus], retained: Sequence[RetainedTenant] = ()) -> bytes:
    """Return the page of a cluster: its stocks, the number of instances in each state, and the things that need help.

    The `retained` tenants come first, then removed or stopped things that stay, then edits by hand.
    """
    states = Counter(
        word.displayed_state(instance.state, of_instance=True) for tenant in tenants for instance in tenant.instances
    )
    leftovers = [leftover for tenant in tenants for leftover in removed.left(tenant)]
    edits = list(_edits(tenants))
    cold = cold_times(cluster.cold_starts)
    stocks = [_stock(stock, cold.get(stock.gpu_spec)) for stock in cluster.stocks]
    lines = [
        f"# {cluster.cluster}",
        "",
        f"Seen {cluster.observed_at}.",
        *([f"**{plain(cluster.message)}**"] if cluster.message else []),
        "",
        *_section(
            "Retained tenants", ("Tenant", "Reason", "Why", "What to do", "Since"), list(map(_retained, retained))
        ),
        *_left("Removed, and not gone", [leftover for leftover in leftovers if not leftover.is_stopped]),
        *_left("Stopped, and still running", [leftover for leftover in leftovers if leftover.is_stopped]),
        *_section("Edited by hand", ("What", "Kind", "Why", "Since"), edits),
        "## Stocks",
        "",
        *table(("Stock", "GPU spec", "Units", "Held", "Free", "Ready", "Tenant", "Cold start"), stocks),
        "",
        *([_COLD, ""] if any(stock.node_pool for stock in cluster.stocks) else []),
        "## Instances",
        "",
        *table(("State", "Instances"), ((plain(state), str(states[state])) for state in sorted(states))),
        "",
        "## Needs a look",
        "",
        *(_troubles(tenants) or ["Nothing else." if leftovers or edits or retained else "All is well."]),
        "",
    ]
    return "\n".join(lines).encode()


def _retained(tenant: RetainedTenant) -> tuple[str, ...]:
    why = tenant.words.partition(": ")[2]
    return plain(tenant.tenant), tenant.reason, plain(why, MOST_WORDS), WAYS_OUT[tenant.reason], plain(tenant.since)


def _left(title: str, leftovers: Sequence[Left]) -> list[str]:
    """Return a table of what is removed or stopped, and stays. Nothing where there is nothing."""
    rows = [
        (
            plain(f"{leftover.tenant}/{leftover.name}"),
            leftover.kind,
            plain(leftover.condition.message, MOST_WORDS),
            plain(leftover.way_out, MOST_WORDS),
            leftover.condition.last_transition_time,
        )
        for leftover in leftovers
    ]
    return _section(title, ("What", "Kind", "Why", "What to do", "Since"), rows)


def _edits(tenants: Sequence[TenantStatus]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each condition about edited and foreign objects: of a tenant itself, and of its things."""
    for tenant in tenants:
        resource_rows = (
            (type(resource).__name__.lower(), f"{tenant.tenant}/{resource.name}", resource.conditions)
            for resource in _things(tenant)
        )
        for kind, name, conditions in (("tenant", tenant.tenant, tenant.conditions), *resource_rows):
            for condition in conditions:
                if condition.type in EDIT_TYPES:
                    yield plain(name), kind, plain(condition.message, MOST_WORDS), condition.last_transition_time


def _section(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a section with a table of at most MOST_ROWS rows; nothing if there are no rows."""
    if not rows:
        return []
    more = [f"and {len(rows) - MOST_ROWS} more."] if len(rows) > MOST_ROWS else []
    return [f"## {title}", "", *table(heads, rows[:MOST_ROWS]), *more, ""]


def _things(tenant: TenantStatus) -> list[Instance | Storage | Snapshot]:
    return [*tenant.instances, *tenant.storages, *tenant.snapshots]


def _stock(stock: Stock, cold: ColdTime | None) -> tuple[str, ...]:
    numbers = (str(number) for number in (stock.count, stock.held, stock.free, stock.ready))
    return (
        plain(stock.name),
        plain(stock.gpu_spec),
        *numbers,
        plain(stock.tenant),
        cold_words(cold) if stock.node_pool else "",
    )


def _troubles(tenants: Sequence[TenantStatus]) -> list[str]:
    rows = []
    for tenant in tenants:
        for resource in _things(tenant):
            if resource.state in _TROUBLED:
                kind = type(resource).__name__.lower()
                rows.append(
                    (
                        plain(f"{tenant.tenant}/{resource.name}"),
                        kind,
                        resource.state,
                        plain(resource.message or resource.reason),
                        resource.since,
                    )
                )
    if not rows:
        return []
    more = [f"and {len(rows) - MOST_ROWS} more."] if len(rows) > MOST_ROWS else []
    return [*table(("What", "Kind", "State", "Why", "Since"), rows[:MOST_ROWS]), *more]
