"""Status as tables on a terminal, in kubectl's manner: a row a thing, its age, and why it isn't where it should be."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from allotment import conditions as word
from allotment.accounts.capacity import StockUse
from allotment.declared.things import INSTANCE, SNAPSHOT, STORAGE, THINGS, TenantThing
from allotment.observed.joined import Joined
from allotment.observed.status import ClusterStatus, Condition, Instance, Snapshot, Storage, Transition, moment_of
from allotment.problems import printable
from allotment.reports.links import Consoles, InstanceLinks, instance_links
from allotment.reports.sheets import Facts, Sheet, plain, words
from allotment.reports.status_summary import SharedReason, counts, displayed_why, notes, reason_key, shared_reasons

Shared = Mapping[tuple[str, str], SharedReason]
NEVER_CUT = 1_000_000  # characters of a list of names
STALE_SECONDS = 3900  # a reporter says hourly that it looked
_STYLES = {
    word.RUNNING: "green",
    word.AVAILABLE_STORAGE: "green",
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


def age(since: str, now: datetime.datetime) -> str:
    """Return how long ago a time was, as kubectl says it: 45s, 12m, 3h5m, 2d4h; empty where it isn't known."""
    moment = moment_of(since)
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


def is_stale(cluster: ClusterStatus, now: datetime.datetime) -> bool:
    """Return whether a cluster's reporter, or the cluster itself, has been silent for too long."""
    if cluster.silent_since:
        return True
    seen = moment_of(cluster.observed_at)
    return seen is None or (now - seen).total_seconds() > STALE_SECONDS


def overview(clusters: Sequence[ClusterStatus], rows: Sequence[Joined], now: datetime.datetime) -> RenderableType:
    """Return all instances, storages and snapshots: first their counts and the clusters whose status may be old, last the
    reasons that several rows share."""
    parts: list[RenderableType] = [*([words(counts(rows))] if rows else []), *notices(clusters, now), *_edits(rows)]
    shared = shared_reasons(rows)
    for sheet in (_instances(rows, shared, now), _storages(rows, shared, now), _snapshots(rows, shared)):
        if sheet:
            parts += [*([Text()] if parts and isinstance(parts[-1], Sheet) else []), sheet]
    if shared:
        parts += [Text(), Facts(notes(shared.values()), longest=NEVER_CUT)]
    return Group(*parts)


def notices(clusters: Iterable[ClusterStatus], now: datetime.datetime) -> Iterator[Text]:
    """Yield which clusters' words may be old."""
    for status in clusters:
        seen = age(status.observed_at, now)
        name = printable(status.cluster)
        if status.silent_since:
            yield Text(f"{name}: STALE: it has not answered for {age(status.silent_since, now)}", style="bold red")
        elif is_stale(status, now):
            yield Text(f"{name}: STALE: its reporter has said nothing for {seen}", style="bold red")


def _edits(rows: Iterable[Joined]) -> Iterator[Text]:
    """Yield the conditions of tenants themselves: what isn't as published in their namespaces."""
    statuses = {(row.status.tenant, row.status.cluster): row.status for row in rows if row.status is not None}
    for _, status in sorted(statuses.items()):
        for condition in status.conditions:
            place = f"{printable(status.tenant)} in {printable(status.cluster)}"
            yield Text.assemble(f"{place}: ", words(condition.message), style="yellow")


def _state(state: str) -> Text:
    return Text(printable(state, 30), style=_STYLES.get(state, ""))


def _replicas(row: Joined, between: str) -> str:
    return between.join(map(str, row.ready_replicas)) if row.ready_replicas is not None else "-"


def _why(row: Joined, shared: Shared) -> Text:
    """Return the reason of a row, or the mark of a reason that it shares."""
    reason = shared.get(reason_key(row))
    return words(reason.mark if reason is not None else displayed_why(row, row.why))


def _instances(rows: Iterable[Joined], shared: Shared, now: datetime.datetime) -> Sheet:
    heads = "INSTANCE", "CLUSTER", "STATE", "READY", "UNITS", "RESTARTS", "AGE", "URL", "WHY"
    sheet = Sheet(*heads, long=("URL", "WHY"))
    for row in _of(rows, INSTANCE):
        instance = row.seen if isinstance(row.seen, Instance) else None
        sheet.add(
            plain(row.label),
            plain(row.thing.cluster or "-"),
            _state(row.displayed_state),
            plain(_replicas(row, "/")),
            plain((f"{instance.units} {instance.gpu_spec}" if instance.units else "0") if instance else "-"),
            plain(instance.restarts if instance else "-"),
            plain(age(instance.since, now) if instance else "-"),
            plain(instance.url if instance and instance.state == word.RUNNING else ""),
            _why(row, shared),
        )
    return sheet


def _storages(rows: Iterable[Joined], shared: Shared, now: datetime.datetime) -> Sheet:
    sheet = Sheet("STORAGE", "CLUSTER", "STATE", "SIZE", "PREPARATION", "AGE", "WHY", long=("WHY",))
    for row in _of(rows, STORAGE):
        storage = row.seen if isinstance(row.seen, Storage) else None
        prepare = storage.prepare if storage else None
        sheet.add(
            plain(row.label),
            plain(row.thing.cluster or "-"),
            _state(row.displayed_state),
            plain(storage.capacity or storage.size if storage else "-"),
            plain(f"{prepare.state}, attempt {prepare.attempt}" if prepare else "none" if storage else "-"),
            plain(age(storage.since, now) if storage else "-"),
            _why(row, shared),
        )
    return sheet


def _snapshots(rows: Iterable[Joined], shared: Shared) -> Sheet:
    sheet = Sheet("SNAPSHOT", "CLUSTER", "STATE", "STORAGE", "TAKEN", "WHY", long=("WHY",))
    for row in _of(rows, SNAPSHOT):
        snapshot = row.seen if isinstance(row.seen, Snapshot) else None
        sheet.add(
            plain(row.label),
            plain(row.thing.cluster or "-"),
            _state(row.displayed_state),
            plain(snapshot.storage if snapshot else "-"),
            plain(snapshot.creation_time if snapshot else "-"),
            _why(row, shared),
        )
    return sheet


def _of(rows: Iterable[Joined], kind: TenantThing) -> Iterator[Joined]:
    return (row for row in rows if row.thing.kind == kind.word)


def stocks(clusters: Sequence[ClusterStatus], uses: Iterable[StockUse], now: datetime.datetime) -> RenderableType:
    """Return all stocks: units declared, held, free, and ready at once. `uses` are those of which nothing is reported."""
    sheet = Sheet("STOCK", "CLUSTER", "GPU SPEC", "UNITS", "HELD", "FREE", "READY", "TENANT")
    for cluster in clusters:
        for stock in cluster.stocks:
            numbers = (plain(number) for number in (stock.count, stock.held, stock.free, stock.ready))
            sheet.add(plain(stock.name), plain(cluster.cluster), plain(stock.gpu_spec), *numbers, plain(stock.tenant))
    for use in uses:
        spec = use.stock.model.spec
        values = (use.stock.model.name, use.cluster, spec.gpu_spec, spec.count, use.held, use.free, "-")
        sheet.add(*map(plain, values), plain(spec.tenant or ""))
    return Group(*notices(clusters, now), sheet)


def details(row: Joined, consoles: Consoles, now: datetime.datetime) -> RenderableType:
    """Return everything that is known of one instance, storage or snapshot."""
    resource = row.seen
    facts: list[tuple[str, object]] = [
        ("Cluster", row.thing.cluster),
        ("State", row.displayed_state),
        ("Since", f"{resource.since} ({age(resource.since, now)})" if resource else ""),
        ("Why", displayed_why(row, row.why or (resource.reason if resource else ""))),
        ("What to do", row.stage.way_out),
        ("Declared by", row.path if row.thing.blob else "nothing any more"),
        ("Declaration", row.thing.blob),
        ("In the cluster", "" if row.is_current or resource is None else resource.observed_blob),
        ("URL", "" if resource is None or isinstance(resource, Snapshot) else resource.url),
    ]
    if isinstance(resource, Instance):
        facts += [
            ("Links", " ".join(resource.links)),
            *_consoles(instance_links(consoles, row.thing.tenant, row.thing.cluster, resource)),
            ("Units", f"{resource.units} {resource.gpu_spec}"),
            ("Copies ready", _replicas(row, " of ")),
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
        size = f"{resource.capacity or 'none'} of {resource.size}" if resource.size else ""
        facts += [("URL in the cluster", resource.in_cluster_url), ("Size", size), *_preparation(resource)]
    facts += [
        (
            "Argo CD",
            f"{application.sync}, {application.health}, of source commit {application.source_commit or 'unknown'}",
        )
        for application in (row.status.applications if row.status is not None else ())
        if application.name == THINGS[row.thing.kind].part
    ]
    parts: list[RenderableType] = [plain(f"{row.thing.kind} {row.label}"), Facts(facts)]
    if resource is not None and resource.conditions:
        parts += [Text(), _conditions(resource.conditions, now)]
    return Group(*parts)


def _consoles(links: InstanceLinks) -> list[tuple[str, object]]:
    return [("Log", links.log), ("Terminal", links.terminal), ("Graphs", links.graphs)]


def _preparation(storage: Storage) -> list[tuple[str, object]]:
    if storage.prepare is None:
        return []
    preparation = storage.prepare
    ended = f", ended {preparation.completion_time}" if preparation.completion_time else ""
    code = f", exit code {preparation.exit_code}" if preparation.exit_code is not None else ""
    begun = f", begun {preparation.start_time}" if preparation.start_time else ""
    summary = f"attempt {preparation.attempt}: {preparation.state}{begun}{ended}{code}"
    return [("Preparation", summary), ("Log", preparation.log)]


def _conditions(conditions: Iterable[Condition], now: datetime.datetime) -> Sheet:
    sheet = Sheet("CONDITION", "STATUS", "REASON", "AGE", "MESSAGE", long=("MESSAGE",))
    for condition in conditions:
        style = {"True": "green", "False": "yellow"}.get(condition.status, "dim")
        sheet.add(
            plain(condition.type),
            Text(printable(condition.status, 10), style=style),
            plain(condition.reason),
            plain(age(condition.last_transition_time, now)),
            words(condition.message),
        )
    return sheet


def history(rows: Iterable[tuple[str, Transition]], now: datetime.datetime) -> RenderableType:
    """Return changes of state with their clusters, in the order given."""
    sheet = Sheet("TIME", "AGE", "CLUSTER", "KIND", "NAME", "FROM", "TO", "REASON")
    for cluster, transition in rows:
        states = [
            word.displayed_state(state, of_instance=transition.kind == INSTANCE.kind.name)
            for state in (transition.source or "-", transition.target or "gone")
        ]
        sheet.add(
            plain(transition.time),
            plain(age(transition.time, now)),
            plain(cluster),
            plain(transition.kind),
            plain(transition.name),
            *map(_state, states),
            plain(transition.reason),
        )
    return sheet
