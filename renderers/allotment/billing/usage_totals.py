"""Clips recorded uses to a period, and adds them up by tenant, label, day or other dimensions."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from allotment.billing.periods import (
    HOUR_SECONDS,
    Period,
    find_day,
    format_moment,
    split_days,
    split_hours,
    split_interval,
)
from allotment.billing.recorded_use import USED_KINDS, Use
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.declared.values import GIBI

LABEL_PREFIX = "label:"
NO_VALUE = "-"  # the group of uses without a value in a dimension


class Share(NamedTuple):
    """The part of a use within a period: certain from `start` until `certain_end`, and unknown from then until `end`."""

    use: Use
    start: int
    certain_end: int
    end: int

    @property
    def continues(self) -> bool:
        """Whether the use continued at the end of the share."""
        return self.use.is_open or self.end < self.use.end


class Amounts(NamedTuple):
    """The certain and the unknown use of a kind: unit × seconds, or bytes × seconds."""

    certain: int = 0
    unknown: int = 0

    def add(self, certain: int, unknown: int) -> Amounts:
        """Return the sums."""
        return Amounts(self.certain + certain, self.unknown + unknown)


class Total(NamedTuple):
    """The sums of a group, which has a value for each dimension."""

    group: tuple[str, ...]
    units: Amounts
    storages: Amounts
    snapshots: Amounts


def clip_uses(uses: Iterable[Use], period: Period) -> list[Share]:
    """Return the shares of uses within a period. A use outside it has none."""
    shares = []
    for use in uses:
        start, end = period.clip(use.start, use.end)
        if start < end:
            shares.append(Share(use, start, min(max(start, use.certain_end), end), end))
    return shares


def sum_shares(
    shares: Iterable[Share], dimensions: Sequence[str], period: Period, zone: datetime.tzinfo
) -> list[Total]:
    """Return the sums of each group, sorted. Without dimensions, the only group is `()`.

    A dimension is tenant, instance, spec, storage, cluster, day, hour or label:KEY. The sums of all groups are those of the
    shares, except that `instance` has only units, and `storage` has only storages and snapshots.
    """
    find_values = [find_value(name) for name in dimensions if name not in _TIMES]
    totals: dict[tuple[str, ...], Total] = {}
    order: dict[tuple[str, ...], tuple[int, ...]] = {}  # two hours of a clock change sort in the order of time
    for share, index, time in _split_by_time(shares, dimensions, period, zone):
        if not counts_in(share.use.kind, dimensions):
            continue
        values = iter([find(share.use.tenant, share.use) for find in find_values])
        group = tuple(time if name in _TIMES else next(values) for name in dimensions)
        total = totals.get(group) or Total(group, Amounts(), Amounts(), Amounts())
        field = _FIELDS[share.use.kind]
        certain = (share.certain_end - share.start) * share.use.weight
        unknown = (share.end - share.certain_end) * share.use.weight
        totals[group] = total._replace(**{field: getattr(total, field).add(certain, unknown)})
        order[group] = tuple(index if name in _TIMES else 0 for name in dimensions)
    keys = {
        group: tuple((number, "" if number else value) for number, value in zip(order[group], group, strict=True))
        for group in totals
    }
    return [totals[group] for group in sorted(totals, key=keys.__getitem__)]


def to_hours(seconds: int) -> Decimal:
    """Return the hours of some seconds."""
    return Decimal(seconds) / HOUR_SECONDS


def to_gib_hours(byte_seconds: int) -> Decimal:
    """Return GiB × hours of bytes × seconds."""
    return Decimal(byte_seconds) / GIBI / HOUR_SECONDS


def _split_by_time(
    shares: Iterable[Share], dimensions: Sequence[str], period: Period, zone: datetime.tzinfo
) -> Iterator[tuple[Share, int, str]]:
    """Yield the parts of shares, each with the number and name of its day or hour; 0 and an empty name without a dimension."""
    unit = next((name for name in dimensions if name in _TIMES), "")
    if not unit:
        yield from ((share, 0, "") for share in shares)
        return
    starts = (split_days if unit == "day" else split_hours)(period, zone)
    labels = [str(find_day(start, zone)) if unit == "day" else format_moment(start, zone) for start in starts]
    for share in shares:
        for index, start, end in split_interval(share.start, share.end, starts):
            certain_end = min(max(start, share.certain_end), end)
            yield Share(share.use, start, certain_end, end), index + 1, labels[index]


class Charged(Protocol):
    """A use, a declared resource or a line, which costs money. `offer` is its GPUSpec or StorageSpec."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def cluster(self) -> str: ...

    @property
    def offer(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


def find_value(dimension: str) -> Callable[[str, Charged], str]:
    """Return the function that returns the value of a tenant's use or resource in a dimension other than day and hour."""
    return _VALUES[dimension] if dimension in _VALUES else _find_label(dimension)


def counts_in(kind: str, dimensions: Iterable[str]) -> bool:
    """Return whether resources of a kind are part of sums by these dimensions."""
    return all(kind in _KINDS.get(name, USED_KINDS) for name in dimensions)


def _find_label(dimension: str) -> Callable[[str, Charged], str]:
    key = dimension.removeprefix(LABEL_PREFIX)
    return lambda _, charged: charged.labels.get(key, NO_VALUE)


_TIMES = frozenset({"day", "hour"})
_VALUES: dict[str, Callable[[str, Charged], str]] = {
    "tenant": lambda tenant, _: tenant,
    "cluster": lambda _, charged: charged.cluster,
    "spec": lambda _, charged: charged.offer or NO_VALUE,
    "instance": lambda tenant, charged: f"{tenant}/{charged.name}",
    "storage": lambda tenant, charged: (
        f"{tenant}/{charged.name}" + (" (snapshot)" if charged.kind == SNAPSHOT.kind.name else "")
    ),
}
DIMENSIONS = (*_VALUES, *sorted(_TIMES))
_STORED_KINDS = frozenset({STORAGE.kind.name, SNAPSHOT.kind.name})
_KINDS = {"instance": frozenset({INSTANCE.kind.name}), "storage": _STORED_KINDS}
_FIELDS = {INSTANCE.kind.name: "units", STORAGE.kind.name: "storages", SNAPSHOT.kind.name: "snapshots"}
