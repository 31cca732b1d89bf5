"""The head and the foot of a status table: the count of each state, and each reason that several rows share, once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.declared.things import THINGS
from allotment.observed.joined import Joined
from allotment.problems import counted
from allotment.reports.reason_pages import AS_DECLARED


class SharedReason(NamedTuple):
    """A reason, and the way out, of several rows; `mark` refers to it in each of them."""

    mark: str
    words: str
    labels: tuple[str, ...]


def counts(rows: Sequence[Joined]) -> str:
    """Return the count of each kind by state: `3 instances: 2 Running, 1 Failed; 1 storage: 1 Ready`."""
    parts = []
    for kind in THINGS:
        states = Counter(row.displayed_state for row in rows if row.thing.kind == kind)
        by_state = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items(), key=_most_first))
        parts += [f"{counted(states.total(), kind)}: {by_state}"] if states else []
    return "; ".join(parts)


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def shared_reasons(rows: Iterable[Joined]) -> dict[tuple[str, str], SharedReason]:
    """Return the reasons that several rows have together with their way out, in the order of their first rows."""
    labels = defaultdict[tuple[str, str], list[str]](list)
    for row in rows:
        labels[reason_key(row)].append(row.label)
    shared = [(key, tuple(names)) for key, names in labels.items() if key[0] and len(names) > 1]
    return {key: SharedReason(f"({number})", _words(*key), names) for number, (key, names) in enumerate(shared, 1)}


def reason_key(row: Joined) -> tuple[str, str]:
    """Return the reason and the way out of a row."""
    return displayed_why(row, row.why), row.stage.way_out


def displayed_why(row: Joined, why: str) -> str:
    """Return the words of a reason; empty for a reason that only confirms the declaration."""
    return "" if row.is_as_declared and why in AS_DECLARED else why


def _words(why: str, way_out: str) -> str:
    return f"{why}; {way_out}" if way_out and way_out not in why else why


def notes(reasons: Iterable[SharedReason]) -> list[tuple[str, str]]:
    """Return each mark with its reason and the names of its rows."""
    return [(reason.mark, f"{reason.words}; concerns {', '.join(reason.labels)}") for reason in reasons]
