"""Render a status as tables on a terminal, in the style of kubectl: a row per resource with its age and reason."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from allotment import conditions as word
from allotment.capacity.units import StockUsage
from allotment.declared.tenant_resources import INSTANCE, RESOURCE_KINDS, SNAPSHOT, STORAGE, ResourceKind
from allotment.observed.quantity import parse_quantity
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import ClusterStatus, Condition, Instance, Snapshot, Storage, Transition, parse_time
from allotment.problems import escape_unprintable
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.sheets import FactList, Sheet, sanitize_sentence, sanitize_value
from allotment.reports.status_summary import (
    SharedReason,
    count_states,
    display_reason,
    reason_key,
    reason_notes,
    shared_reasons,
)

SharedReasons = Mapping[tuple[str, str], SharedReason]
UNLIMITED = 1_000_000  # a list of names with a limit of this many characters is never cut
_STYLES = {
    word.RUNNING: "green",
    word.STORAGE_READY: "green",
    word.INIT: "cyan",
    word.STARTING: "cyan",
    word.PREPARING: "cyan",
    word.PENDING: "cyan",
    word.MERGED: "yellow",
    word.PUBLISHED: "yellow",
    word.KEPT: "red",
    word.REMOVING: "yellow",
    word.OVERTAKEN: "dim",
    word.WAITING: "yellow",
    word.FAILED: "red",
    word.LOST: "red",
    word.STOPPED: "dim",
}


def format_age(since: str | None, now: datetime.datetime) -> str:
    """Return the time since a moment in kubectl's notation: 45s, 12m, 3h5m, 2d4h; empty if the moment is unknown."""
    moment = parse_time(since)
    if moment is None:
        return ""
    seconds = max(0, int((now - moment).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes}m"
    if hours < 24:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d{hours % 24}h" if hours % 24 and days < 30 else f"{days}d"


def render_overview(
    clusters: Sequence[ClusterStatus], rows: Sequence[ResourceStatus], now: datetime.datetime
) -> RenderableType:
    """Return tables of all instances, storages and snapshots.

    Above the tables are the number of resources in each state, and notices about outdated clusters and edits by hand.
    Below the tables are the reasons that several rows share.
    """
    parts: list[RenderableType] = [
        *([sanitize_sentence(count_states(rows))] if rows else []),
        *stale_notices(clusters, now),
        *_edit_notices(clusters, rows),
    ]
    shared = shared_reasons(rows)
    for sheet in (_instance_sheet(rows, shared, now), _storage_sheet(rows, shared, now), _snapshot_sheet(rows, shared)):
        if sheet:
            parts += [*([Text()] if parts and isinstance(parts[-1], Sheet) else []), sheet]
    if shared:
        parts += [Text(), FactList(reason_notes(shared.values()), longest=UNLIMITED)]
    return Group(*parts)


def stale_notices(clusters: Iterable[ClusterStatus], now: datetime.datetime) -> Iterator[Text]:
    """Yield a notice for each cluster with a status that may be outdated."""
    for status in clusters:
        age = format_age(status.observed_at, now)
        name = escape_unprintable(status.cluster)
        if status.silent_since:
            yield Text(
                f"{name}: STALE: it has not answered for {format_age(status.silent_since, now)}", style="bold red"
            )
        elif status.is_stale(now):
            yield Text(f"{name}: STALE: its reporter has said nothing for {age}", style="bold red")


def _edit_notices(clusters: Iterable[ClusterStatus], rows: Iterable[ResourceStatus]) -> Iterator[Text]:
    """Yield a notice for each condition of a cluster and of a tenant.

    These conditions are about objects of the platform or of the tenant that differ from the published objects.
    """
    for cluster in clusters:
        for condition in cluster.conditions:
            place = f"the platform in {escape_unprintable(cluster.cluster)}"
            yield Text.assemble(f"{place}: ", sanitize_sentence(condition.message), style="bold red")
    statuses = {(row.status.tenant, row.status.cluster): row.status for row in rows if row.status is not None}
    for _, status in sorted(statuses.items()):
        for condition in status.conditions:
            place = f"{escape_unprintable(status.tenant)} in {escape_unprintable(status.cluster)}"
            yield Text.assemble(f"{place}: ", sanitize_sentence(condition.message), style="yellow")


def style_of_state(state: str | None) -> str:
    """Return the style of a state; empty if it has none."""
    return _STYLES.get(state or "", "")


def mark_state(state: str, *, is_marked: bool) -> str:
    """Return a state as text, with a note if the resource is marked for deletion."""
    return ", ".join(part for part in (state, "marked for deletion" if is_marked else "") if part)


def _state_text(state: str, *, is_marked: bool = False) -> Text:
    return Text(mark_state(escape_unprintable(state, 30), is_marked=is_marked), style=style_of_state(state))


def _resource_state_text(row: ResourceStatus) -> Text:
    return _state_text(row.displayed_state, is_marked=row.is_marked_for_deletion)


def _replicas_text(row: ResourceStatus, between: str) -> str:
    return between.join(map(str, row.ready_replicas)) if row.ready_replicas is not None else "-"


def _reason_text(row: ResourceStatus, shared: SharedReasons) -> Text:
    """Return the reason of a row, or the mark of the reason if several rows share it."""
    reason = shared.get(reason_key(row))
    return sanitize_sentence(reason.mark if reason is not None else display_reason(row, row.explanation))


def _instance_sheet(rows: Iterable[ResourceStatus], shared: SharedReasons, now: datetime.datetime) -> Sheet:
    heads = "INSTANCE", "CLUSTER", "STATE", "READY", "UNITS", "RESTARTS", "AGE", "URL", "WHY"
    sheet = Sheet(*heads, long=("URL", "WHY"))
    for row in _rows_of_kind(rows, INSTANCE):
        instance = row.observed if isinstance(row.observed, Instance) else None
        sheet.add_row(
            sanitize_value(row.label),
            sanitize_value(row.resource.cluster or "-"),
            _resource_state_text(row),
            sanitize_value(_replicas_text(row, "/")),
            sanitize_value((f"{instance.units} {instance.gpu_spec}" if instance.units else "0") if instance else "-"),
            sanitize_value(instance.restarts if instance else "-"),
            sanitize_value(format_age(instance.since, now) if instance else "-"),
            sanitize_value(instance.url if instance and instance.state == word.RUNNING else ""),
            _reason_text(row, shared),
        )
    return sheet


def _storage_sheet(rows: Iterable[ResourceStatus], shared: SharedReasons, now: datetime.datetime) -> Sheet:
    sheet = Sheet("STORAGE", "CLUSTER", "STATE", "SIZE", "PREPARATION", "AGE", "WHY", long=("WHY",))
    for row in _rows_of_kind(rows, STORAGE):
        storage = row.observed if isinstance(row.observed, Storage) else None
        prepare = storage.prepare if storage else None
        sheet.add_row(
            sanitize_value(row.label),
            sanitize_value(row.resource.cluster or "-"),
            _resource_state_text(row),
            sanitize_value(storage.capacity or storage.size if storage else "-"),
            sanitize_value(f"{prepare.state}, attempt {prepare.attempt}" if prepare else "none" if storage else "-"),
            sanitize_value(format_age(storage.since, now) if storage else "-"),
            _reason_text(row, shared),
        )
    return sheet


def _snapshot_sheet(rows: Iterable[ResourceStatus], shared: SharedReasons) -> Sheet:
    sheet = Sheet("SNAPSHOT", "CLUSTER", "STATE", "STORAGE", "TAKEN", "WHY", long=("WHY",))
    for row in _rows_of_kind(rows, SNAPSHOT):
        snapshot = row.observed if isinstance(row.observed, Snapshot) else None
        sheet.add_row(
            sanitize_value(row.label),
            sanitize_value(row.resource.cluster or "-"),
            _resource_state_text(row),
            sanitize_value(snapshot.storage if snapshot else row.storage or "-"),
            sanitize_value(snapshot.creation_time if snapshot else "-"),
            _reason_text(row, shared),
        )
    return sheet


def _rows_of_kind(rows: Iterable[ResourceStatus], kind: ResourceKind) -> Iterator[ResourceStatus]:
    return (row for row in rows if row.resource.kind == kind.word)


def render_stocks(
    clusters: Sequence[ClusterStatus], uses: Iterable[StockUsage], now: datetime.datetime
) -> RenderableType:
    """Return a table of all stocks with their units: declared, held, free and ready.

    `uses` are the declared stocks of clusters that report no stocks.
    """
    sheet = Sheet("STOCK", "CLUSTER", "GPU SPEC", "UNITS", "HELD", "FREE", "READY", "TENANT")
    for cluster in clusters:
        for stock in cluster.stocks:
            numbers = (sanitize_value(number) for number in (stock.count, stock.held_units, stock.free, stock.ready))
            sheet.add_row(
                sanitize_value(stock.name),
                sanitize_value(cluster.cluster),
                sanitize_value(stock.gpu_spec),
                *numbers,
                sanitize_value(stock.tenant),
            )
    for use in uses:
        spec = use.stock.model.spec
        values = (use.stock.model.name, use.cluster, spec.gpu_spec, spec.count, use.held_units, use.free_units, "-")
        sheet.add_row(*map(sanitize_value, values), sanitize_value(spec.tenant or ""))
    return Group(*stale_notices(clusters, now), sheet)


def render_details(
    row: ResourceStatus, consoles: Consoles, now: datetime.datetime, url: str | None = None
) -> RenderableType:
    """Return all known facts about one instance, storage or snapshot. `url` is the declared URL, for a resource without a reported URL."""
    resource = row.observed
    facts: list[tuple[str, object]] = [
        ("Cluster", row.resource.cluster),
        ("State", mark_state(row.displayed_state, is_marked=row.is_marked_for_deletion)),
        ("Since", f"{resource.since} ({format_age(resource.since, now)})" if resource else ""),
        ("Why", display_reason(row, row.explanation or (resource.reason if resource else ""))),
        ("What to do", row.stage.remedy),
        ("Declared by", row.path if row.resource.blob else "nothing any more"),
        ("Declaration", row.resource.blob),
        ("In the cluster", "" if row.is_current or resource is None else resource.observed_blob),
        ("URL", "" if isinstance(resource, Snapshot) else (resource.url if resource else "") or url or ""),
    ]
    if isinstance(resource, Instance):
        facts += [
            ("Links", " ".join(resource.links)),
            ("SSH", resource.ssh_command),
            *_console_facts(instance_links(consoles, row.resource.tenant, row.resource.cluster, resource)),
            ("Units", f"{resource.units} {resource.gpu_spec}"),
            ("Copies ready", _replicas_text(row, " of ")),
            ("Nodes", " ".join(resource.nodes)),
            ("Restarts", resource.restarts),
            ("Started", resource.start_time),
        ]
    elif isinstance(resource, Snapshot):
        facts += [
            ("Storage", resource.storage),
            ("Taken", resource.creation_time),
            ("Restores to", resource.restore_size),
        ]
    elif isinstance(resource, Storage):
        is_partial = resource.capacity and parse_quantity(resource.capacity) < parse_quantity(resource.size)
        size = f"{resource.capacity} of {resource.size} exist" if is_partial else resource.size
        facts += [("URL in the cluster", resource.in_cluster_url), ("Size", size), *_preparation_facts(resource)]
    facts += [
        (
            "Argo CD",
            f"{application.sync}, {application.health}, of source commit {application.source_commit or 'unknown'}",
        )
        for application in (row.status.applications if row.status is not None else ())
        if application.name == RESOURCE_KINDS[row.resource.kind].tree_part
    ]
    parts: list[RenderableType] = [sanitize_value(f"{row.resource.kind} {row.label}"), FactList(facts)]
    if resource is not None and resource.conditions:
        parts += [Text(), _condition_sheet(resource.conditions, now)]
    return Group(*parts)


def _console_facts(links: InstanceLinks) -> list[tuple[str, object]]:
    return [("Log", links.log), ("Terminal", links.terminal), ("Graphs", links.graphs)]


def _preparation_facts(storage: Storage) -> list[tuple[str, object]]:
    if storage.prepare is None:
        return []
    preparation = storage.prepare
    ended = f", ended {preparation.completion_time}" if preparation.completion_time else ""
    code = f", exit code {preparation.exit_code}" if preparation.exit_code is not None else ""
    begun = f", begun {preparation.start_time}" if preparation.start_time else ""
    summary = f"attempt {preparation.attempt}: {preparation.state}{begun}{ended}{code}"
    return [("Preparation", summary), ("Log", preparation.log)]


def _condition_sheet(conditions: Iterable[Condition], now: datetime.datetime) -> Sheet:
    sheet = Sheet("CONDITION", "STATUS", "REASON", "AGE", "MESSAGE", long=("MESSAGE",))
    for condition in conditions:
        style = {"True": "green", "False": "yellow"}.get(condition.status, "dim")
        sheet.add_row(
            sanitize_value(condition.type),
            Text(escape_unprintable(condition.status, 10), style=style),
            sanitize_value(condition.reason),
            sanitize_value(format_age(condition.last_transition_time, now)),
            sanitize_sentence(condition.message),
        )
    return sheet


def render_history(rows: Iterable[tuple[str, Transition]], now: datetime.datetime) -> RenderableType:
    """Return changes of state with their clusters, in the given order."""
    sheet = Sheet("TIME", "AGE", "CLUSTER", "KIND", "NAME", "FROM", "TO", "REASON")
    for cluster, transition in rows:
        states = [
            word.display_state(state, of_instance=transition.kind == INSTANCE.kind.name)
            for state in (transition.source or "-", transition.target or "gone")
        ]
        sheet.add_row(
            sanitize_value(transition.time),
            sanitize_value(format_age(transition.time, now)),
            sanitize_value(cluster),
            sanitize_value(transition.kind),
            sanitize_value(transition.name),
            *map(_state_text, states),
            sanitize_value(transition.reason),
        )
    return sheet
