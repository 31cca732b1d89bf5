"""Reads and writes usage logs: files of the status branch with the usage intervals that have ended.

A usage log has the lines of JSON Lines: a header, and then one interval per line, in the order in which they were recorded.
The reporter appends lines. In a new month, or when the file is large, a new file replaces it. The header of the new file
names the commit with the previous file. So the newest file and its predecessors have every interval that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from allotment.declared.kinds.declaration import API_VERSION
from allotment.manifests.yaml_text import Malformed
from allotment.observed.status import ImplausibleStatus, UsageInterval, check_times, parse_time
from allotment.problems import quote_value

MAX_LOG_BYTES = 1 << 20  # a larger log is continued in a new file
_MONTH_LENGTH = len("2026-11")


class UsageLogHeader(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The first line of a usage log.

    `tenant` is empty for the capacity of the cluster. `since` is when the file began, RFC 3339 in UTC. Intervals that
    were recorded earlier are in the file at the same path in the commit `previous`, which is empty for the first file.
    """

    cluster: str
    tenant: str
    since: str
    previous: str = ""
    kind: str = "UsageLog"
    api_version: str = API_VERSION


class UsageLog(NamedTuple):
    """A usage log and its intervals."""

    header: UsageLogHeader
    intervals: list[UsageInterval]


_HEADER_DECODER = msgspec.json.Decoder(UsageLogHeader)
_INTERVAL_DECODER = msgspec.json.Decoder(UsageInterval)


def append_usage(data: bytes | None, new_header: UsageLogHeader, intervals: Iterable[UsageInterval]) -> bytes:
    """Return a usage log with more intervals. `data` is its content; None if there is no file.

    The result is a new file with `new_header` if there is no file, if it can't be read, if it is from an earlier month, or if
    it is large.
    """
    if data is None or not _is_continued(data, new_header):
        data = msgspec.json.encode(new_header) + b"\n"
    return b"".join((data, *(msgspec.json.encode(interval) + b"\n" for interval in intervals)))


def _is_continued(data: bytes, new_header: UsageLogHeader) -> bool:
    try:
        since = parse_usage_log(data).header.since
    except Malformed:
        return False
    return since[:_MONTH_LENGTH] >= new_header.since[:_MONTH_LENGTH] and len(data) < MAX_LOG_BYTES


def parse_usage_log(data: bytes) -> UsageLog:
    """Return a usage log from its content.

    Raises Malformed if the content is invalid, and ImplausibleStatus if no reporter could have written it.
    """
    header = parse_usage_header(data)
    try:
        intervals = _INTERVAL_DECODER.decode_lines(data.partition(b"\n")[2])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"no UsageLog: {error}") from None
    for interval in intervals:
        check_times(interval)
        if not interval.start_time <= interval.end_time:
            raise ImplausibleStatus(f"the interval of {quote_value(interval.uid)} ends before it starts")
    return UsageLog(header, intervals)


def parse_usage_header(data: bytes) -> UsageLogHeader:
    """Return the header of a usage log, of which another line may be invalid. Raises as `parse_usage_log` does."""
    try:
        header = _HEADER_DECODER.decode(data.partition(b"\n")[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"no UsageLog: {error}") from None
    if (header.api_version, header.kind) != (API_VERSION, "UsageLog"):
        raise Malformed("no UsageLog")
    if parse_time(header.since) is None:
        raise ImplausibleStatus(
            f"it gives a time as {quote_value(header.since)}, which isn't RFC 3339 with a time zone"
        )
    return header
