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
from allotment.observed.retention import MAX_RECORD_BYTES
from allotment.problems import OperationRefused

RETAINED = "refs/allotment/retained"
FILE = "retained.json"


class RecordFile(NamedTuple):
    """The file of the record, None if there is none that counts; `trouble` is the reason, empty if there is no record."""

    data: bytes | None
    trouble: str = ""


def fetch_record(remote: Remote, refs: Mapping[str, str]) -> None:
    """Fetch the record at its ref in `refs`, separately from the branches: a damaged record must not stop their
    readers.

    A failed fetch leaves the commit absent, and `read_record_file` reports that.
    """
    commit = refs.get(RETAINED)
    if commit is not None and not remote.repository.has_object(commit):
        with contextlib.suppress(OperationRefused):
            remote.fetch(RETAINED, ours=True)


def read_record_file(repository: Repository, commit: str | None, key: str | None) -> RecordFile:
    """Return the record at the commit of the ref. `key` is the publisher's declared public SSH key, or None."""
    if commit is None:
        return RecordFile(None)
    try:
        data, fault = _data(repository, commit, key)
    except OperationRefused as error:
        data, fault = None, f"cannot be read: {error}"
    return RecordFile(data, f"{RETAINED} is at {commit[:12]}, which {fault}" if data is None else "")


def _data(repository: Repository, commit: str, key: str | None) -> tuple[bytes | None, str]:
    """Return the file of the record, or the reason that it does not count. Raises OperationRefused."""
    if is_stuck(repository, commit):
        return None, "is no commit" if repository.has_object(commit) else "cannot be fetched"
    if key is not None and not repository.is_signed_by(commit, key):
        return None, "the publisher's key did not sign"
    entry = repository.trees.find_entry(repository.trees.root(commit), FILE)
    if entry is None or entry.mode not in REGULAR:
        return None, f"has no file {FILE}"
    info = repository.objects.info([entry.id])[entry.id]
    if info.kind != "blob":
        return None, f"has no readable file {FILE}"
    if info.size > MAX_RECORD_BYTES:
        return None, f"has a file {FILE} of more than {MAX_RECORD_BYTES:,} bytes"
    return repository.read(entry.id), ""


def is_stuck(repository: Repository, commit: str) -> bool:
    """Return whether the ref points at an object that no commit can follow."""
    return repository.peel_to_commit(commit) != commit


def write_record_file(repository: Repository, last: str | None, data: bytes, message: CommitMessage) -> str:
    """Return a commit that holds only the record and follows `last`, the target of the ref. Raises OperationRefused."""
    parents = [] if last is None or is_stuck(repository, last) else [last]
    return write_commit(repository, parents, {FILE: data}, message, NULL_COMMIT)
