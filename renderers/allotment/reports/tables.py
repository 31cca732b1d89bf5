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
    for one in clusters:
        seen = age(one.observed_at, now)
        name = printable(one.cluster)
        if one.silent_since:
            yield Text(f"{name}: STALE: it has not answered for {age(one.silent_since, now)}", style="bold red")
        elif is_stale(one, now):
            yield Text(f"{name}: STALE: its reporter has said nothing for {seen}", style="bold red")


def _edits(rows: Iterable[Joined]) -> Iterator[Text]:
    """Yield the conditions of tenants themselves: what isn't as published in their namespaces."""
    statuses = {(row.status.tenant, row.status.cluster): row.status for row in rows if row.status is not None}
    for _, status in sorted(statuses.items()):
        for one in status.conditions:
            place = f"{printable(status.tenant)} in {printable(status.cluster)}"
            yield Text.assemble(f"{place}: ", words(one.message), style="yellow")


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
        one = row.seen if isinstance(row.seen, Instance) else None
        sheet.add(
            plain(row.label),
            plain(row.thing.cluster or "-"),
            _state(row.displayed_state),
            plain(_replicas(row, "/")),
            plain((f"{one.units} {one.gpu_spec}" if one.units else "0") if one else "-"),
            plain(one.restarts if one else "-"),
            plain(age(one.since, now) if one else "-"),
            plain(one.url if one and one.state == word.RUNNING else ""),
            _why(row, shared),
        )
    return sheet


def _storages(rows: Iterable[Joined], shared: Shared, now: datetime.datetime) -> Sheet:
    sheet = Sheet("STORAGE", "CLUSTER", "STATE", "SIZE", "PREPARATION", "AGE", "WHY", long=("WHY",))
    for row in _of(rows, STORAGE):
        one = row.seen if isinstance(row.seen, Storage) else None
        prepare = one.prepare if one else None
        sheet.add(
            plain(row.label),
            plain(row.thing.cluster or "-"),
            _state(row.displayed_state),
            plain(one.capacity or one.size if one else "-"),
            plain(f"{prepare.state}, attempt {prepare.attempt}" if prepare else "none" if one else "-"),
            plain(age(one.since, now) if one else "-"),
            _why(row, shared),
        )
    return sheet


def _snapshots(rows: Iterable[Joined], shared: Shared) -> Sheet:
    sheet = Sheet("SNAPSHOT", "CLUSTER", "STATE", "STORAGE", "TAKEN", "WHY", long=("WHY",))
    for row in _of(rows, SNAPSHOT):
        one = row.seen if isinstance(row.seen, Snapshot) else None
        sheet.add(
            plain(row.label),
            plain(row.thing.cluster or "-"),
            _state(row.displayed_state),
            plain(one.storage if one else "-"),
            plain(one.creation_time if one else "-"),
            _why(row, shared),
        )
    return sheet


def _of(rows: Iterable[Joined], kind: TenantThing) -> Iterator[Joined]:
    return (row for row in rows if row.thing.kind == kind.word)


def stocks(clusters: Sequence[ClusterStatus], uses: Iterable[StockUse], now: datetime.datetime) -> RenderableType:
    """Return all stocks: units declared, held, free, and ready at once. `uses` are those of which nothing is reported."""
    sheet = Sheet("STOCK", "CLUSTER", "GPU SPEC", "UNITS", "HELD", "FREE", "READY", "TENANT")
    for cluster in clusters:
        for one in cluster.stocks:
            numbers = (plain(number) for number in (one.count, one.held, one.free, one.ready))
            sheet.add(plain(one.name), plain(cluster.cluster), plain(one.gpu_spec), *numbers, plain(one.tenant))
    for use in uses:
        spec = use.stock.model.spec
        values = (use.stock.model.name, use.cluster, spec.gpu_spec, spec.count, use.held, use.free, "-")
        sheet.add(*map(plain, values), plain(spec.tenant or ""))
    return Group(*notices(clusters, now), sheet)


def details(row: Joined, consoles: Consoles, now: datetime.datetime) -> RenderableType:
    """Return everything that is known of one instance, storage or snapshot."""
    one = row.seen
    facts: list[tuple[str, object]] = [
        ("Cluster", row.thing.cluster),
        ("State", row.displayed_state),
        ("Since", f"{one.since} ({age(one.since, now)})" if one else ""),
        ("Why", displayed_why(row, row.why or (one.reason if one else ""))),
        ("What to do", row.stage.way_out),
        ("Declared by", row.path if row.thing.blob else "nothing any more"),
        ("Declaration", row.thing.blob),
        ("In the cluster", "" if row.is_current or one is None else one.observed_blob),
        ("URL", "" if one is None or isinstance(one, Snapshot) else one.url),
    ]
    if isinstance(one, Instance):
        facts += [
            ("Links", " ".join(one.links)),
            *_consoles(instance_links(consoles, row.thing.tenant, row.thing.cluster, one)),
            ("Units", f"{one.units} {one.gpu_spec}"),
            ("Copies ready", _replicas(row, " of ")),
            ("Nodes", " ".join(one.nodes)),
            ("Restarts", one.restarts),
            ("Started", one.start_time),
        ]
    elif isinstance(one, Snapshot):
        facts += [("Storage", one.storage), ("Taken", one.creation_time), ("Restores to", one.restore_size)]
    elif isinstance(one, Storage):
        size = f"{one.capacity or 'none'} of {one.size}" if one.size else ""
        facts += [("URL in the cluster", one.in_cluster_url), ("Size", size), *_preparation(one)]
    facts += [
        ("Argo CD", f"{found.sync}, {found.health}, of source commit {found.source_commit or 'unknown'}")
        for found in (row.status.applications if row.status is not None else ())
        if found.name == THINGS[row.thing.kind].part
    ]
    parts: list[RenderableType] = [plain(f"{row.thing.kind} {row.label}"), Facts(facts)]
    if one is not None and one.conditions:
        parts += [Text(), _conditions(one.conditions, now)]
    return Group(*parts)


def _consoles(links: InstanceLinks) -> list[tuple[str, object]]:
    return [("Log", links.log), ("Terminal", links.terminal), ("Graphs", links.graphs)]


def _preparation(one: Storage) -> list[tuple[str, object]]:
    if one.prepare is None:
        return []
    found = one.prepare
    ended = f", ended {found.completion_time}" if found.completion_time else ""
    code = f", exit code {found.exit_code}" if found.exit_code is not None else ""
    begun = f", begun {found.start_time}" if found.start_time else ""
    said = f"attempt {found.attempt}: {found.state}{begun}{ended}{code}"
    return [("Preparation", said), ("Log", found.log)]


def _conditions(conditions: Iterable[Condition], now: datetime.datetime) -> Sheet:
    sheet = Sheet("CONDITION", "STATUS", "REASON", "AGE", "MESSAGE", long=("MESSAGE",))
    for one in conditions:
        style = {"True": "green", "False": "yellow"}.get(one.status, "dim")
        sheet.add(
            plain(one.type),
            Text(printable(one.status, 10), style=style),
            plain(one.reason),
            plain(age(one.last_transition_time, now)),
            words(one.message),
        )
    return sheet


def history(rows: Iterable[tuple[str, Transition]], now: datetime.datetime) -> RenderableType:
    """Return changes of state with their clusters, in the order given."""
    sheet = Sheet("TIME", "AGE", "CLUSTER", "KIND", "NAME", "FROM", "TO", "REASON")
    for cluster, one in rows:
        states = [
            word.displayed_state(state, of_instance=one.kind == INSTANCE.kind.name)
            for state in (one.source or "-", one.target or "gone")
        ]
        sheet.add(
            plain(one.time),
            plain(age(one.time, now)),
            plain(cluster),
            plain(one.kind),
            plain(one.name),
            *map(_state, states),
            plain(one.reason),
        )
    return sheet
