"""Defines the columns of the lists of instances and storages."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TypeVar

from allotment.capacity.pricing import format_hourly
from allotment.conditions import RUNNING
from allotment.observed.quantity import parse_quantity
from allotment.observed.resource_rows import InstanceRowOutput, PullRequestOutput, StorageRowOutput
from allotment.observed.status import parse_time
from allotment.reports.list_table import ListColumn
from allotment.reports.status_tables import format_age, mark_state, style_of_state

C = TypeVar("C", InstanceRowOutput, StorageRowOutput)


def instance_columns(now: datetime.datetime, currency: str, *, pending: bool) -> list[ListColumn[InstanceRowOutput]]:
    """Return the columns of a list of instances. `pending` adds the column of pull requests."""
    columns: list[ListColumn[InstanceRowOutput]] = [
        ListColumn("instance", lambda row: row.label),
        ListColumn("cluster", lambda row: row.cluster or "-"),
        ListColumn("declared", lambda row: row.state or "-"),
        ListColumn(
            "state", lambda row: row.reported_state or "-", style=lambda row: style_of_state(row.reported_state)
        ),
        ListColumn("ready", _ready_text, lambda row: row.ready),
        ListColumn("gpu-spec", lambda row: row.gpu_spec or "-"),
        ListColumn("model", lambda row: row.gpu_model or "-", wide=True),
        ListColumn("memory", lambda row: row.gpu_memory or "-", lambda row: parse_quantity(row.gpu_memory), wide=True),
        ListColumn("units", lambda row: str(row.units), lambda row: row.units),
        ListColumn("age", lambda row: format_age(row.since, now) or "-", lambda row: age_key(row.since, now)),
        cost_column(currency),
        ListColumn("app", lambda row: (row.app or "-").partition("@")[0], wide=True),
        ListColumn("storages", lambda row: ",".join(row.storages) or "-", wide=True),
        ListColumn("labels", lambda row: format_labels(row.labels), wide=True),
        ListColumn("node", lambda row: ",".join(row.nodes) or "-", wide=True),
        ListColumn("reason", lambda row: row.reason or "-", wide=True),
        ListColumn("maintenance", lambda row: row.maintenance or "-", wide=True),
        ListColumn("url", lambda row: (row.url or "") if row.reported_state == RUNNING else "", long=True),
    ]
    return [*columns[:-1], pending_column(), columns[-1]] if pending else columns


def storage_columns(now: datetime.datetime, currency: str, *, pending: bool) -> list[ListColumn[StorageRowOutput]]:
    """Return the columns of a list of storages. `pending` adds the column of pull requests."""
    columns: list[ListColumn[StorageRowOutput]] = [
        ListColumn("storage", lambda row: row.label),
        ListColumn("cluster", lambda row: row.cluster or "-"),
        ListColumn("spec", lambda row: row.storage_spec or "-"),
        ListColumn("size", lambda row: row.size or "-", lambda row: parse_quantity(row.size)),
        ListColumn("state", _storage_state_text, style=lambda row: style_of_state(row.reported_state)),
        ListColumn("preparation", _preparation_text),
        ListColumn("mounted-by", lambda row: ",".join(row.mounted_by) or "-", lambda row: len(row.mounted_by)),
        ListColumn("age", lambda row: format_age(row.since, now) or "-", lambda row: age_key(row.since, now)),
        cost_column(currency),
        ListColumn("capacity", lambda row: row.capacity or "-", wide=True),
        ListColumn("source", lambda row: row.source or "-", wide=True),
        ListColumn("labels", lambda row: format_labels(row.labels), wide=True),
        ListColumn("reason", lambda row: row.reason or "-", wide=True),
        ListColumn("url", lambda row: row.url or "", wide=True, long=True),
    ]
    return [*columns[:-1], pending_column(), columns[-1]] if pending else columns


def cost_column(currency: str) -> ListColumn[C]:
    """Return the column of the cost per hour. Its name for --sort-by is `cost`."""
    return ListColumn(
        "cost", lambda row: format_cost(row.cost_per_hour), lambda row: row.cost_per_hour, title=f"{currency}/HOUR"
    )


def pending_column() -> ListColumn[C]:
    """Return the column of open pull requests."""
    return ListColumn("pull-request", lambda row: _pull_request_text(row.pull_request), long=True)


def format_cost(amount: Decimal | None) -> str:
    """Return a cost per hour as text; a dash if it is unknown."""
    return "-" if amount is None else format_hourly(amount)


def format_labels(labels: dict[str, str]) -> str:
    """Return labels as text, as a label selector writes them; a dash for none."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "-"


def age_key(since: str | None, now: datetime.datetime) -> float | None:
    """Return the seconds since a time, to sort by age; None if the time is unknown."""
    moment = parse_time(since)
    return (now - moment).total_seconds() if moment is not None else None


def _ready_text(row: InstanceRowOutput) -> str:
    return f"{row.ready}/{row.replicas}" if row.ready is not None and row.units else "-"


def _storage_state_text(row: StorageRowOutput) -> str:
    return mark_state(row.reported_state or "", is_marked=row.is_marked_for_deletion) or "-"


def _preparation_text(row: StorageRowOutput) -> str:
    if row.preparation:
        return f"{row.preparation}, attempt {row.attempt}"
    return "-" if row.source else "none"


def _pull_request_text(pull_request: PullRequestOutput | None) -> str:
    return f"#{pull_request.number} {pull_request.change} {pull_request.url}" if pull_request is not None else ""
