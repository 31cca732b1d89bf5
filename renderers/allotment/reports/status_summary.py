"""Summarize a status table: the number of resources in each state, and the reasons that several rows share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.observed.resource_status import ResourceStatus
from allotment.problems import pluralize
from allotment.reports.reason_pages import AS_DECLARED_REASONS

MAX_NAMES = 5  # of rows in a note, because each row has the mark


class SharedReason(NamedTuple):
    """A reason and remedy that several rows share.

    Each of these rows shows only `mark`, which refers to the reason. `labels` are the names of the rows.
    """

    mark: str
    text: str
    labels: tuple[str, ...]


def count_states(rows: Sequence[ResourceStatus]) -> str:
    """Return the number of resources of each kind by state: `3 instances: 2 Running, 1 Failed; 1 storage: 1 Ready`."""
    parts = []
    for kind in RESOURCE_KINDS:
        states = Counter(row.displayed_state for row in rows if row.resource.kind == kind)
        by_state = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items(), key=_count_order))
        parts += [f"{pluralize(states.total(), kind)}: {by_state}"] if states else []
    return "; ".join(parts)


def _count_order(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def shared_reasons(rows: Iterable[ResourceStatus]) -> dict[tuple[str, str], SharedReason]:
    """Return each pair of a reason and a remedy that several rows have, in the order of the first of these rows."""
    labels = defaultdict[tuple[str, str], list[str]](list)
    for row in rows:
        labels[reason_key(row)].append(row.label)
    shared = [(key, tuple(names)) for key, names in labels.items() if key[0] and len(names) > 1]
    return {
        key: SharedReason(f"({number})", _reason_text(*key), names) for number, (key, names) in enumerate(shared, 1)
    }


def reason_key(row: ResourceStatus) -> tuple[str, str]:
    """Return the reason and the remedy of a row."""
    return display_reason(row, row.explanation), row.stage.remedy


def display_reason(row: ResourceStatus, why: str) -> str:
    """Return the text of a reason; empty if the reason only confirms that the resource is as declared."""
    return "" if row.is_as_declared and why in AS_DECLARED_REASONS else why


def _reason_text(why: str, way_out: str) -> str:
    return f"{why}; {way_out}" if way_out and way_out not in why else why


def reason_notes(reasons: Iterable[SharedReason]) -> list[tuple[str, str]]:
    """Return each mark with its reason and the names of its first rows."""
    return [(reason.mark, f"{reason.text}; concerns {_list_first(reason.labels)}") for reason in reasons]


def _list_first(labels: Sequence[str]) -> str:
    names = ", ".join(labels[:MAX_NAMES])
    return names if len(labels) <= MAX_NAMES else f"{names} and {len(labels) - MAX_NAMES} more"
