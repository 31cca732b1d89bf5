"""The record of the retained tenants at the remote of the rendered branches.

`refs/allotment/retained` points at a commit with one file. It moves with the branches in one push, forwards only. The
right to push refs is enough to write it, so it decides nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from allotment.adapters.git.commits import NULL_COMMIT, CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import REGULAR
from allotment.observed.retention import MAX_RECORD_BYTES, RetainedTenant, RetentionRecord, decode_record
from allotment.problems import OperationRefused, escape_unprintable

RETAINED = "refs/allotment/retained"
FILE = "retained.json"


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


class _InvalidRecord(Exception):
    """The record does not count; the message completes a sentence about its commit."""


def fetch_record(remote: Remote, refs: Mapping[str, str]) -> None:
    """Fetch the record at its ref in `refs`, separately from the branches: a damaged record must not stop their
    readers.

    A failed fetch leaves the commit absent, and `last_record` reports that.
    """
    commit = refs.get(RETAINED)
    if commit is not None and not remote.repository.has_object(commit):
        with contextlib.suppress(OperationRefused):
            remote.fetch(RETAINED, ours=True)


def last_record(repository: Repository, commit: str | None, key: str | None) -> LastRecord:
    """Return the record that the ref points at. With the publisher's `key`, only a record that it signed is valid."""
    if commit is None:
        return LastRecord(None, None)
    try:
        return LastRecord(commit, decode_record(_read_file(repository, commit, key)))
    except _InvalidRecord as error:
        fault = str(error)
    except OperationRefused as error:
        fault = f"cannot be read: {error}"
    except ValueError as error:
        fault = f"holds no record: {escape_unprintable(str(error), 400)}"
    return LastRecord(commit, None, f"{RETAINED} is at {commit[:12]}, which {fault}")


def _read_file(repository: Repository, commit: str, key: str | None) -> bytes:
    """Return the file of the record. Raises _InvalidRecord and OperationRefused."""
    if is_stuck(repository, commit):
        raise _InvalidRecord("is no commit" if repository.has_object(commit) else "cannot be fetched")
    if key is not None and not repository.is_signed_by(commit, key):
        raise _InvalidRecord("the publisher's key did not sign")
    entry = repository.trees.find_entry(repository.trees.root(commit), FILE)
    if entry is None or entry.mode not in REGULAR:
        raise _InvalidRecord(f"has no file {FILE}")
    info = repository.objects.info([entry.id])[entry.id]
    if info.kind != "blob":
        raise _InvalidRecord(f"has no readable file {FILE}")
    if info.size > MAX_RECORD_BYTES:
        raise _InvalidRecord(f"has a file {FILE} of more than {MAX_RECORD_BYTES:,} bytes")
    return repository.read(entry.id)


def is_stuck(repository: Repository, commit: str) -> bool:
    """Return whether the ref points at an object that no commit can follow."""
    return repository.peel_to_commit(commit) != commit


def write_record_file(repository: Repository, last: str | None, data: bytes, message: CommitMessage) -> str:
    """Return a commit that holds only the record and follows `last`, the target of the ref. Raises OperationRefused."""
    parents = [] if last is None or is_stuck(repository, last) else [last]
    return write_commit(repository, parents, {FILE: data}, message, NULL_COMMIT)
