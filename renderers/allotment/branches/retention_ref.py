"""Reads and writes the retention record: the retained tenants of the last publish.

The ref `refs/allotment/retained` is in the repository of the rendered branches. It points at a commit that contains
only the file `retained.json`. A publish pushes this ref together with the rendered branches. The record only informs
people. Anyone with the right to push to that repository can forge the record, so no deletion and no allocation depends
on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from allotment.adapters.git.commits import NULL_COMMIT, CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.ssh_signatures import SignaturesUnavailable
from allotment.adapters.git.trees import REGULAR
from allotment.observed.retention import MAX_RECORD_BYTES, RetainedTenant, RetentionRecord, decode_record
from allotment.problems import OperationRefused, escape_unprintable

RETAINED = "refs/allotment/retained"
FILE = "retained.json"


class LastRecord(NamedTuple):
    """The retention record at the remote.

    `commit` is the target of the ref; None if the ref does not exist. `record` is the content; None if the ref does not
    exist or the record is invalid. If the record is invalid, `trouble` says why.
    """

    commit: str | None
    record: RetentionRecord | None
    trouble: str = ""

    def of_source(self, source: str | None) -> RetentionRecord | None:
        """Return the record if it describes the publish of the commit `source`, else None.

        An empty record names no source, so it is returned for each `source`.
        """
        record = self.record
        return record if record is not None and (record.is_empty or record.source == source) else None

    def tenants(self, source: str | None) -> dict[str, RetainedTenant]:
        """Return the retained tenants by name; empty if the record does not describe the publish of `source`."""
        record = self.of_source(source)
        return {tenant.tenant: tenant for tenant in record.tenants} if record is not None else {}


class _InvalidRecord(Exception):
    """The record is invalid. The message is the end of a sentence such as "the ref is at COMMIT, which has no file"."""


def fetch_record(remote: Remote, refs: Mapping[str, str]) -> None:
    """Fetch the commit of the record. `refs` maps the refs of the remote to their targets.

    A damaged record must not prevent the fetch of the rendered branches, so the two fetches are separate. If the fetch
    of the record fails, the local repository lacks the commit of the record. In this case, `last_record` returns no
    record, and a `trouble` that gives the reason.
    """
    commit = refs.get(RETAINED)
    if commit is not None and not remote.repository.has_object(commit):
        with contextlib.suppress(OperationRefused):
            remote.fetch(RETAINED, ours=True)


def last_record(repository: Repository, commit: str | None, key: str | None) -> LastRecord:
    """Return the record in `commit`, the target of the ref.

    With the public `key` of the publisher, a record is valid only if that key signed its commit.
    """
    if commit is None:
        return LastRecord(None, None)
    try:
        return LastRecord(commit, decode_record(_read_file(repository, commit, key)))
    except _InvalidRecord as error:
        fault = str(error)
    except SignaturesUnavailable:
        raise
    except OperationRefused as error:
        fault = f"cannot be read: {error}"
    except ValueError as error:
        fault = f"holds no record: {escape_unprintable(str(error), 400)}"
    return LastRecord(commit, None, f"{RETAINED} is at {commit[:12]}, which {fault}")


def _read_file(repository: Repository, commit: str, key: str | None) -> bytes:
    """Return the file of the record. Raises _InvalidRecord, or OperationRefused if Git fails."""
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
    """Return whether the target of the ref is absent or not a commit, so that it cannot be a parent of a new commit."""
    return repository.peel_to_commit(commit) != commit


def write_record_file(repository: Repository, last: str | None, data: bytes, message: CommitMessage) -> str:
    """Return a new commit that contains only the record.

    The parent of the commit is `last`, the target of the ref, unless `last` cannot be a parent. Raises
    OperationRefused.
    """
    parents = [] if last is None or is_stuck(repository, last) else [last]
    return write_commit(repository, parents, {FILE: data}, message, NULL_COMMIT)
