"""The output of `allot usage` as JSON, and the rows of its output as CSV."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal

import msgspec

from allotment.billing.periods import Period, format_moment
from allotment.billing.recorded_use import ClusterRecord
from allotment.billing.usage_totals import Share, Total, to_gib_hours, to_hours
from allotment.declared.values import GIBI
from allotment.output_part import Part
from allotment.reports.outputs.output import Output

_DIGITS = Decimal("0.000001")
_CONTEXT = Context(prec=100)  # the sums of a forged status may be huge


class PeriodOutput(Part, frozen=True):
    """The time from `start` until `end`, without `end`. `timeZone` is the billing time zone."""

    start: str
    end: str
    time_zone: str


class GapOutput(Part, frozen=True):
    """A time in which nobody observed a cluster."""

    start: str
    end: str


class ClusterRecordOutput(Part, frozen=True, kw_only=True):
    """The record of a cluster.

    `observedUntil` is the time of the last observation; `recordedSince` is the time of the first, as far as the capacity
    is concerned. Both are null if the cluster was never observed. `isSigned` is false if the cluster declares no key of its
    reporter, and everyone with write access to the branch can write the record. `commit` is the commit of the status branch.
    `gaps` are the gaps within the period. `problems` say why a part of the record is missing.
    """

    cluster: str
    observed_until: str | None
    recorded_since: str | None
    is_signed: bool
    commit: str | None
    gaps: tuple[GapOutput, ...]
    problems: tuple[str, ...]


class UsageIntervalOutput(Part, frozen=True, kw_only=True):
    """A use of a unit, a storage or a snapshot, as far as it lies in the period.

    - `resourceKind` and `name` identify the resource, and `uid` identifies its pod, claim or VolumeSnapshot.
    - `spec` is the GPUSpec or StorageSpec; it is null if an older version of Allotment rendered the resource.
    - `sizeGiB` is the size of a storage or snapshot, and null for a unit.
    - The use is certain from `start` until `certainEnd`, which are `hours`. Between `certainEnd` and `end`, nobody observed
      it; these are `unknownHours`. `isOpen` says that it continued at `end`, which is the end of the
      period or the time of the last observation.
    - `commit` is the commit of the status branch that has the interval, in `tenants/<tenant>.yaml` if it is open, or else in
      `usage/<tenant>.jsonl`.
    """

    tenant: str
    cluster: str
    resource_kind: str
    name: str
    uid: str
    node: str | None
    spec: str | None
    size_gib: Decimal | None = msgspec.field(name="sizeGiB")
    labels: dict[str, str]
    start: str
    certain_end: str
    end: str
    is_open: bool
    hours: Decimal
    unknown_hours: Decimal
    commit: str


class UsageTotalOutput(Part, frozen=True, kw_only=True):
    """The sums of a group. `group` has a value for each dimension; the value of a missing label is a dash.

    Storages and snapshots are in GiB × hours.
    """

    group: dict[str, str]
    unit_hours: Decimal
    unknown_unit_hours: Decimal
    storage_gib_hours: Decimal = msgspec.field(name="storageGiBHours")
    unknown_storage_gib_hours: Decimal = msgspec.field(name="unknownStorageGiBHours")
    snapshot_gib_hours: Decimal = msgspec.field(name="snapshotGiBHours")
    unknown_snapshot_gib_hours: Decimal = msgspec.field(name="unknownSnapshotGiBHours")


class UsageOutput(Output, frozen=True, kw_only=True, tag="UsageOutput"):
    """The recorded usage within a period: the intervals, or, with --by, the sums of each group. Numbers have six digits."""

    period: PeriodOutput
    clusters: tuple[ClusterRecordOutput, ...]
    intervals: tuple[UsageIntervalOutput, ...]
    totals: tuple[UsageTotalOutput, ...]


def period_output(period: Period, zone: datetime.tzinfo) -> PeriodOutput:
    """Return the output of a period."""
    return PeriodOutput(format_moment(period.start), format_moment(period.end), str(zone))


def cluster_record_outputs(records: Iterable[ClusterRecord], period: Period) -> tuple[ClusterRecordOutput, ...]:
    """Return the output of the records of clusters."""
    return tuple(
        ClusterRecordOutput(
            cluster=record.cluster,
            observed_until=None if record.observed_until is None else format_moment(record.observed_until),
            recorded_since=None if record.recorded_since is None else format_moment(record.recorded_since),
            is_signed=record.is_signed,
            commit=record.commit or None,
            gaps=tuple(GapOutput(format_moment(start), format_moment(end)) for start, end in record.find_gaps(period)),
            problems=record.problems,
        )
        for record in records
    )


def usage_interval_output(share: Share) -> UsageIntervalOutput:
    """Return the output of an interval."""
    use = share.use
    return UsageIntervalOutput(
        tenant=use.tenant,
        cluster=use.cluster,
        resource_kind=use.kind,
        name=use.name,
        uid=use.uid,
        node=use.node or None,
        spec=use.offer or None,
        size_gib=round_number(Decimal(use.size) / GIBI) if use.size else None,
        labels=dict(use.labels),
        start=format_moment(share.start),
        certain_end=format_moment(share.certain_end),
        end=format_moment(share.end),
        is_open=share.continues,
        hours=round_number(to_hours(share.certain_end - share.start)),
        unknown_hours=round_number(to_hours(share.end - share.certain_end)),
        commit=use.commit,
    )


def usage_total_output(total: Total, dimensions: Sequence[str]) -> UsageTotalOutput:
    """Return the output of the sums of a group."""
    return UsageTotalOutput(
        group=dict(zip(dimensions, total.group, strict=True)),
        unit_hours=round_number(to_hours(total.units.certain)),
        unknown_unit_hours=round_number(to_hours(total.units.unknown)),
        storage_gib_hours=round_number(to_gib_hours(total.storages.certain)),
        unknown_storage_gib_hours=round_number(to_gib_hours(total.storages.unknown)),
        snapshot_gib_hours=round_number(to_gib_hours(total.snapshots.certain)),
        unknown_snapshot_gib_hours=round_number(to_gib_hours(total.snapshots.unknown)),
    )


def round_number(number: Decimal) -> Decimal:
    """Return a number with at most six decimal places, rounded half up."""
    return number.quantize(_DIGITS, rounding="ROUND_HALF_UP", context=_CONTEXT)
