"""Describes why a bill is not certain: the limits of the recorded usage, and changes of prices after their day."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import NamedTuple

from allotment.billing.late_changes import LateChange
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period, format_moment
from allotment.billing.recorded_use import ClusterRecord
from allotment.billing.usage_totals import to_hours
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.problems import pluralize
from allotment.reports.usage_columns import format_hours

_SHOWN_GAPS = 5
UNSIGNED = (
    "the status is not signed, so everyone with write access to its branch can write the usage: declare spec.reporter.publicKey"
    " of the Cluster"
)
SHALLOW_HISTORY = (
    "the clone is shallow, so nobody knows whether each price was merged before its day: run `git fetch --unshallow`, in CI"
    " fetch the whole history (fetch-depth: 0, GIT_DEPTH: 0)"
)
_PRICES = {
    INSTANCE.kind.name: "price",
    STORAGE.kind.name: "price",
    SNAPSHOT.kind.name: "snapshot price",
}


class RecordNote(NamedTuple):
    """A sentence about a record. A problem means that a part of the record can't be read."""

    text: str
    is_problem: bool = False


def describe_late_change(change: LateChange, zone: datetime.tzinfo) -> str:
    """Return a sentence about a price or a setting that a merge changed for a time before it."""
    merge = f"commit {change.commit[:12]} of {format_moment(change.merged_at, zone)}"
    if change.field:
        return f"{change.field} was {change.before} when the month began, and {merge} made it {change.after}"
    start, end = format_moment(change.start, zone), format_moment(change.end, zone)
    return (
        f"the {_PRICES[change.kind]} of {change.offer} from {start} to {end} was {change.before or 'not declared'}, and {merge}"
        f" made it {change.after} afterwards"
    )


def describe_record(
    record: ClusterRecord, period: Period, zone: datetime.tzinfo, *, about_signature: bool = True
) -> Iterator[RecordNote]:
    """Yield the notes about the record of a cluster, problems first."""
    for problem in record.problems:
        yield RecordNote(problem, is_problem=True)
    if not record.commit:
        if not record.problems:
            yield RecordNote("no reporter has reported it yet")
        return
    if about_signature and not record.is_signed:
        yield RecordNote(UNSIGNED)
    if record.recorded_since is not None and period.start < record.recorded_since:
        yield RecordNote(f"usage is recorded since {format_moment(record.recorded_since, zone)}")
    if record.observed_until is not None and record.observed_until < period.end:
        yield RecordNote(f"observed until {format_moment(record.observed_until, zone)}")
    gaps = record.find_gaps(period)
    if gaps:
        hours = format_hours(to_hours(sum(end - start for start, end in gaps)))
        first_gaps = [
            f"{format_moment(start, zone)} to {format_moment(end, zone)}" for start, end in gaps[:_SHOWN_GAPS]
        ]
        more = f" and {len(gaps) - _SHOWN_GAPS} more" if len(gaps) > _SHOWN_GAPS else ""
        yield RecordNote(
            f"nobody observed the cluster for {hours} hours in {pluralize(len(gaps), 'gap')}: {', '.join(first_gaps)}{more}; a use"
            " that began and ended in a gap is not recorded"
        )


def list_price_doubts(bill: MonthlyBill) -> list[str]:
    """Return a sentence about each price of a bill that was merged after its day, or that nobody can compare with its merge."""
    doubts = [describe_late_change(change, bill.zone) for change in bill.late_changes]
    if not bill.has_price_history:
        doubts.append(SHALLOW_HISTORY)
    if bill.future_commit:
        doubts.append(
            f"commit {bill.future_commit[:12]} has a date in the future, so nobody knows when the later prices and reservations were"
            " merged"
        )
    return doubts
