"""Status as tables on a terminal, in kubectl's manner: a row a thing, its age, and why it isn't where it should be."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from allotment import conditions as word
from allotment.observed.status import ClusterStatus, Condition, Instance, Snapshot, Storage, TenantStatus, Transition
from allotment.problems import printable

STALE_SECONDS = 3900  # a reporter says hourly that it looked
_STYLES = {
    word.RUNNING: "green",
    word.READY: "green",
    word.INIT: "cyan",
    word.PREPARING: "cyan",
    word.PENDING: "cyan",
    word.WAITING: "yellow",
    word.FAILED: "red",
    word.LOST: "red",
    word.STOPPED: "dim",
}


def age(since: str, now: datetime.datetime) -> str:
    """Return how long ago a time was, as kubectl says it: 45s, 12m, 3h5m, 2d4h; empty where it isn't known."""
    try:
        seconds = int((now - datetime.datetime.fromisoformat(since)).total_seconds())
    except ValueError:
        return ""
    seconds = max(0, seconds)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes}m"
    if hours < 24:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d{hours % 24}h" if hours % 24 and days < 30 else f"{days}d"


def is_stale(cluster: ClusterStatus, now: datetime.datetime) -> bool:
    """Return whether a cluster's reporter, or the cluster itself, has been silent for too long."""
    if cluster.silent_since:
        return True
    try:
        seen = datetime.datetime.fromisoformat(cluster.observed_at)
    except ValueError:
        return True
    return (now - seen).total_seconds() > STALE_SECONDS


def overview(
    clusters: Sequence[ClusterStatus], tenants: Sequence[TenantStatus], now: datetime.datetime
) -> RenderableType:
    """Return all instances, storages and snapshots, and first which clusters' words may be old."""
    parts: list[RenderableType] = list(_notices(clusters, now))
    if any(tenant.instances for tenant in tenants):
        parts.append(_instances(tenants, now))
    if any(tenant.storages for tenant in tenants):
        parts += [Text(), _storages(tenants, now)]
    if any(tenant.snapshots for tenant in tenants):
        parts += [Text(), _snapshots(tenants, now)]
    return Group(*parts)


def _notices(clusters: Iterable[ClusterStatus], now: datetime.datetime) -> Iterator[Text]:
    for one in clusters:
        seen = age(one.observed_at, now)
        if one.silent_since:
            yield Text(f"{one.cluster}: STALE: it has not answered for {age(one.silent_since, now)}", style="bold red")
        elif is_stale(one, now):
            yield Text(f"{one.cluster}: STALE: its reporter has said nothing for {seen}", style="bold red")


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="", padding=(0, 3, 0, 0))
    for head in heads:
        table.add_column(head, no_wrap=head not in ("WHY", "MESSAGE"), overflow="fold")
    return table


def _plain(text: object) -> Text:
    return Text(printable(str(text), 400))


def _state(state: str) -> Text:
    return Text(printable(state, 30), style=_STYLES.get(state, ""))


def _instances(tenants: Sequence[TenantStatus], now: datetime.datetime) -> Table:
    table = _table("INSTANCE", "CLUSTER", "STATE", "READY", "UNITS", "RESTARTS", "AGE", "URL", "WHY")
    for tenant in tenants:
        for one in tenant.instances:
            table.add_row(
                _plain(f"{tenant.tenant}/{one.name}"),
                _plain(tenant.cluster),
                _state(one.state),
                _plain(f"{one.ready_replicas}/{one.replicas}"),
                _plain(f"{one.units} {one.gpu_spec}" if one.units else "0"),
                _plain(one.restarts),
                _plain(age(one.since, now)),
                _plain(one.url if one.state == word.RUNNING else ""),
                _plain(one.message or ("" if one.state == word.RUNNING else one.reason)),
            )
    return table


def _storages(tenants: Sequence[TenantStatus], now: datetime.datetime) -> Table:
    table = _table("STORAGE", "CLUSTER", "STATE", "SIZE", "PREPARATION", "AGE", "WHY")
    for tenant in tenants:
        for one in tenant.storages:
            prepare = f"{one.prepare.state}, attempt {one.prepare.attempt}" if one.prepare else "none"
            table.add_row(
                _plain(f"{tenant.tenant}/{one.name}"),
                _plain(tenant.cluster),
                _state(one.state),
                _plain(one.capacity or one.size),
                _plain(prepare),
                _plain(age(one.since, now)),
                _plain(one.message),
            )
    return table


def _snapshots(tenants: Sequence[TenantStatus], now: datetime.datetime) -> Table:
    table = _table("SNAPSHOT", "CLUSTER", "STATE", "STORAGE", "TAKEN", "WHY")
    for tenant in tenants:
        for one in tenant.snapshots:
            table.add_row(
                _plain(f"{tenant.tenant}/{one.name}"),
                _plain(tenant.cluster),
                _state(one.state),
                _plain(one.storage),
                _plain(one.creation_time),
                _plain(one.message),
            )
    return table


def stocks(clusters: Sequence[ClusterStatus], now: datetime.datetime) -> RenderableType:
    """Return all stocks: units declared, held, free, and ready at once."""
    table = _table("STOCK", "CLUSTER", "GPU SPEC", "UNITS", "HELD", "FREE", "READY", "TENANT")
    for cluster in clusters:
        for one in cluster.stocks:
            numbers = (_plain(number) for number in (one.count, one.held, one.free, one.ready))
            table.add_row(_plain(one.name), _plain(cluster.cluster), _plain(one.gpu_spec), *numbers, _plain(one.tenant))
    return Group(*_notices(clusters, now), table)


def details(tenant: TenantStatus, one: Instance | Storage | Snapshot, now: datetime.datetime) -> RenderableType:
    """Return everything that is known of one instance, storage or snapshot."""
    facts: list[tuple[str, object]] = [
        ("Cluster", tenant.cluster),
        ("State", one.state),
        ("Since", f"{one.since} ({age(one.since, now)})"),
        ("Why", one.message or one.reason),
        ("Declaration", one.observed_blob),
        ("URL", "" if isinstance(one, Snapshot) else one.url),
    ]
    if isinstance(one, Instance):
        facts += [
            ("Links", " ".join(one.links)),
            ("Units", f"{one.units} {one.gpu_spec}"),
            ("Copies ready", f"{one.ready_replicas} of {one.replicas}"),
            ("Nodes", " ".join(one.nodes)),
            ("Restarts", one.restarts),
            ("Started", one.start_time),
        ]
    elif isinstance(one, Snapshot):
        facts += [("Storage", one.storage), ("Taken", one.creation_time), ("Restores to", one.restore_size)]
    else:
        size = f"{one.capacity or 'none'} of {one.size}" if one.size else ""
        facts += [("In the cluster", one.in_cluster_url), ("Size", size), *_preparation(one)]
    part = "compute" if isinstance(one, Instance) else "storage"
    facts += [
        ("Argo CD", f"{found.sync}, {found.health}, of source commit {found.source_commit or 'unknown'}")
        for found in tenant.applications
        if found.name == part
    ]
    shown = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    for name, value in facts:
        if value != "":
            shown.add_row(Text(f"{name}:", style="bold"), _state(str(value)) if name == "State" else _plain(value))
    return Group(shown, Text(), _conditions(one.conditions, now))


def _preparation(one: Storage) -> list[tuple[str, object]]:
    if one.prepare is None:
        return []
    found = one.prepare
    ended = f", ended {found.completion_time}" if found.completion_time else ""
    code = f", exit code {found.exit_code}" if found.exit_code is not None else ""
    begun = f", begun {found.start_time}" if found.start_time else ""
    said = f"attempt {found.attempt}: {found.state}{begun}{ended}{code}"
    return [("Preparation", said), ("Log", found.log)]


def _conditions(conditions: Iterable[Condition], now: datetime.datetime) -> Table:
    table = _table("CONDITION", "STATUS", "REASON", "AGE", "MESSAGE")
    for one in conditions:
        style = {"True": "green", "False": "yellow"}.get(one.status, "dim")
        table.add_row(
            _plain(one.type),
            Text(printable(one.status, 10), style=style),
            _plain(one.reason),
            _plain(age(one.last_transition_time, now)),
            _plain(one.message),
        )
    return table


def history(rows: Iterable[tuple[str, Transition]], now: datetime.datetime) -> RenderableType:
    """Return changes of state with their clusters, in the order given."""
    table = _table("TIME", "AGE", "CLUSTER", "KIND", "NAME", "FROM", "TO", "REASON")
    for cluster, one in rows:
        table.add_row(
            _plain(one.time),
            _plain(age(one.time, now)),
            _plain(cluster),
            _plain(one.kind),
            _plain(one.name),
            _state(one.source or "-"),
            _state(one.target or "gone"),
            _plain(one.reason),
        )
    return table


def show(what: RenderableType) -> None:
    """Print it: as wide as the terminal, and never folded into a pipe."""
    console = Console(highlight=False)
    console.print(what, soft_wrap=False) if console.is_terminal else Console(width=400, highlight=False).print(what)
