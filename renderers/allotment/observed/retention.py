"""Defines the retention of a tenant, and the retention record.

A retained tenant stays at its last published manifests. A publish writes the reasons for all its retained tenants into
the retention record, which other commands read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from allotment.observed.status import parse_time
from allotment.problems import Problem, escape_unprintable

MAX_PROBLEMS = 20  # the record has at most this many lines for a tenant
MAX_LINE = 1000  # a line has at most this many characters, before the suffix
MAX_RECORD_BYTES = 4 << 20
_SUFFIX = 40  # the most characters that `escape_unprintable` appends to a text that it cuts


class RetentionReason(StrEnum):
    """The reason why a publish retains a tenant."""

    INVALID = "Invalid"
    REFUSED_TRANSITION = "RefusedTransition"
    ISOLATION_GATE = "IsolationGate"
    TIME_BUDGET = "TimeBudget"
    BRAKE = "Brake"
    INVALID_CLUSTER = "InvalidCluster"
    PROGRAM_ERROR = "ProgramError"


WAYS_OUT = {
    RetentionReason.INVALID: "run `allot validate`, and correct the declarations",
    RetentionReason.REFUSED_TRANSITION: "restore the declaration, or follow its message",
    RetentionReason.ISOLATION_GATE: "report the message",
    RetentionReason.TIME_BUDGET: "declare less, or split it into several tenants",
    RetentionReason.BRAKE: "restore the declarations, or have the deletion approved",
    RetentionReason.INVALID_CLUSTER: "the platform team corrects the cluster",
    RetentionReason.PROGRAM_ERROR: "report the trace in the log",
}


class Retention(NamedTuple):
    """The retention of a tenant in a publish: the reason, and the problems that caused it."""

    reason: RetentionReason
    problems: list[Problem]


_Line = Annotated[str, msgspec.Meta(max_length=MAX_LINE + _SUFFIX)]
_Lines = Annotated[tuple[_Line, ...], msgspec.Meta(max_length=MAX_PROBLEMS)]


class RetainedTenant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tenant in the retention record.

    `since` is the time when the retention began. `problems` has one line for each problem. `omitted`
    counts the problems that the record leaves out.
    """

    tenant: _Line
    reason: RetentionReason
    since: Annotated[str, msgspec.Meta(max_length=40)]
    problems: _Lines = ()
    omitted: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0

    @property
    def words(self) -> str:
        """The reason, the first problem, and the number of other problems, on one line."""
        others = len(self.problems[1:]) + self.omitted
        more = f" (and {others:,} more)" if others else ""
        return f"{self.reason}: {self.problems[0]}{more}" if self.problems else self.reason


class RetentionRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The retention record: the tenants and the clusters that the publish of the commit `source` retains.

    `omitted_tenants` counts the retained tenants that the record leaves out because of its size limit.
    """

    source: _Line
    tenants: tuple[RetainedTenant, ...] = ()
    clusters: tuple[_Line, ...] = ()
    omitted_tenants: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is retained."""
        return not self.tenants and not self.clusters

    def encode(self) -> bytes:
        """Return the record as a file of at most MAX_RECORD_BYTES.

        If the record is too large, the file leaves out problems first, and then tenants.
        """
        for most in (MAX_PROBLEMS, 5, 1, 0):
            record = msgspec.structs.replace(self, tenants=tuple(_shortened(tenant, most) for tenant in self.tenants))
            data = _encode(record)
            if len(data) <= MAX_RECORD_BYTES:
                return data
        while record.tenants and len(data) > MAX_RECORD_BYTES:
            tenants = record.tenants[: len(record.tenants) * 19 // 20]
            omitted = record.omitted_tenants + len(record.tenants) - len(tenants)
            record = msgspec.structs.replace(record, tenants=tenants, omitted_tenants=omitted)
            data = _encode(record)
        return data


def _encode(record: RetentionRecord) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def _shortened(tenant: RetainedTenant, most: int) -> RetainedTenant:
    omitted = tenant.omitted + len(tenant.problems[most:])
    return msgspec.structs.replace(tenant, problems=tenant.problems[:most], omitted=omitted)


def retained_tenant(tenant: str, retention: Retention, since: str = "") -> RetainedTenant:
    """Return a tenant's entry in the record.

    Members of the tenant can read the entry, so it leaves out problems in the folders of other tenants.
    """
    lines = [str(problem) for problem in retention.problems if _concerns(problem, tenant)]
    displayed_lines = tuple(_line(line) for line in lines[:MAX_PROBLEMS])
    return RetainedTenant(record_name(tenant), retention.reason, since, displayed_lines, len(lines[MAX_PROBLEMS:]))


def record_name(tenant: str) -> str:
    """Return the name of a tenant in the form of the record: escaped and cut if the name is unprintable or too long."""
    return _line(tenant)


def _concerns(problem: Problem, tenant: str) -> bool:
    owner = f"/{problem.path}".partition("/tenants/")[2]
    return not owner or owner.split("/")[0] == tenant


def _line(text: str) -> str:
    displayed_text = text if text.isprintable() and len(text) <= MAX_LINE else escape_unprintable(text, MAX_LINE)
    return displayed_text[: MAX_LINE + _SUFFIX]  # cut again: escaping can make a text ten times as long


def decode_record(data: bytes) -> RetentionRecord:
    """Return the record in a file. Raises ValueError if the record is invalid, too large, or has unprintable text."""
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f"it has more than {MAX_RECORD_BYTES:,} bytes")
    try:
        record = msgspec.json.decode(data, type=RetentionRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not all(text.isprintable() for text in _texts(record)):
        raise ValueError("it has text that is not printable")
    if any(parse_time(tenant.since) is None for tenant in record.tenants):
        raise ValueError("it has a `since` that is not a valid time")
    return record


def _texts(record: RetentionRecord) -> Iterator[str]:
    yield from (record.source, *record.clusters)
    for tenant in record.tenants:
        yield from (tenant.tenant, tenant.since, *tenant.problems)
