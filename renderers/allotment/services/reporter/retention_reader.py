"""Reads the record of the retained tenants, and checks whether it is valid."""

from __future__ import annotations

from typing import NamedTuple

from allotment.adapters.git.repository import Repository
from allotment.branches.retention_ref import RETAINED, read_record_file
from allotment.observed.retention import RetainedTenant, RetentionRecord, decode_record
from allotment.problems import escape_unprintable


class LastRecord(NamedTuple):
    """The record at the remote: the commit of its ref, and its content, or the reason why it is not valid."""

    commit: str | None
    record: RetentionRecord | None
    trouble: str = ""

    def of_source(self, source: str | None) -> RetentionRecord | None:
        """Return the record if it belongs to a published source commit. An empty record belongs to every source."""
        record = self.record
        return record if record is not None and (record.is_empty or record.source == source) else None

    def tenants(self, source: str | None) -> dict[str, RetainedTenant]:
        """Return the retained tenants by name, if the record belongs to a published source commit."""
        record = self.of_source(source)
        return {tenant.tenant: tenant for tenant in record.tenants} if record is not None else {}


def last_record(repository: Repository, commit: str | None, key: str | None) -> LastRecord:
    """Return the record that the ref points at. With the publisher's `key`, only a record that it signed is valid."""
    data, trouble = read_record_file(repository, commit, key)
    if data is None:
        return LastRecord(commit, None, trouble)
    try:
        return LastRecord(commit, decode_record(data))
    except ValueError as error:
        fault = escape_unprintable(str(error), 400)
        return LastRecord(commit, None, f"{RETAINED} is at {(commit or '')[:12]}, which holds no record: {fault}")
