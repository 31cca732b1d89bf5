"""Writes the record of the retained tenants. A publish writes it only if it differs from the last record."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.remote import Remote, RemoteTimeout
from allotment.adapters.git.repository import Repository
from allotment.branches.retention_ref import RETAINED, LastRecord, is_stuck, write_record_file
from allotment.observed.retention import RetentionRecord, record_name, retained_tenant
from allotment.problems import OperationRefused, pluralize

if TYPE_CHECKING:
    from allotment.services.publish.release import Release

MAX_LINES = 50  # tenants that a commit message names


def moved_record(repository: Repository, source: str, assembly: Release, last: LastRecord) -> str | None:
    """Return the commit that the record's ref points at after a publish of `source`; None if there is no record.

    If the record has not changed, returns the commit of the last record. Raises OperationRefused.
    """
    if not assembly.retained_tenants and not assembly.retained_clusters and (last.commit is None or _is_empty(last)):
        return last.commit
    record = _record(repository, source, assembly, last.record)
    data = record.encode()
    if last.record is not None and data == last.record.encode():
        return last.commit
    message = CommitMessage(_message(record), repository.author(source))
    return write_record_file(repository, last.commit, data, message)


def _is_empty(last: LastRecord) -> bool:
    return last.record is not None and last.record.is_empty


def _record(repository: Repository, source: str, assembly: Release, last: RetentionRecord | None) -> RetentionRecord:
    """Return the record of a publish. The start of a retention is taken from the last record if the tenant is in it."""
    seconds = int(repository.committer().rsplit(maxsplit=2)[1])
    now = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = {tenant.tenant: tenant.since for tenant in last.tenants} if last else {}
    tenants = (
        retained_tenant(tenant, retention, since.get(record_name(tenant), now))
        for tenant, retention in sorted(assembly.retained_tenants.items())
    )
    return RetentionRecord(source, tuple(tenants), tuple(sorted(map(record_name, assembly.retained_clusters))))


def _message(record: RetentionRecord) -> str:
    lines = [f"{tenant.tenant}: {tenant.reason}" for tenant in record.tenants]
    more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    body = "\n".join([*lines[:MAX_LINES], *more])
    return f"Retain {pluralize(len(record.tenants), 'tenant')}\n" + (f"\n{body}\n" if body else "")


class RecordMove(NamedTuple):
    """The move of the record's ref in a push.

    - `moves` maps the ref to its target after the push, which may be its old target; empty if there is no target.
    - `lease` maps the ref to its old target if the old target cannot be a parent of a new commit, so that the push
      replaces the old target.
    - `trouble` is the reason why the record could not be written, otherwise empty.
    """

    moves: Mapping[str, str]
    lease: Mapping[str, str]
    trouble: str = ""


def record_move(repository: Repository, source: str, assembly: Release, last: LastRecord) -> RecordMove:
    """Return the move of the record's ref after a publish of `source`.

    If the record can't be written, returns a move with a `trouble`, because the record must not stop a publish.
    """
    try:
        commit = moved_record(repository, source, assembly, last)
        stuck = last.commit is not None and is_stuck(repository, last.commit)
    except OperationRefused as error:
        return RecordMove({}, {}, f"{RETAINED} was not moved: {error}")
    lease = {RETAINED: last.commit} if last.commit is not None and stuck else {}
    return RecordMove({RETAINED: commit} if commit is not None else {}, lease)


class Pushed(NamedTuple):
    """Whether the remote accepted the refs of a publish.

    `trouble` is the reason why the ref of the record was not moved; empty if there is no such reason.
    """

    done: bool
    trouble: str = ""


def push_with_record(remote: Remote, moves: Mapping[str, str], over: Mapping[str, str], record: RecordMove) -> Pushed:
    """Push refs together with the record of the retained tenants.

    If the remote does not accept this push, push the other refs without the record, because no decision depends on the
    record. Raises OperationRefused. If the first push times out, raises the error without a second push.
    """
    if not record.moves:
        return Pushed(remote.push(moves, over), record.trouble)
    try:
        if remote.push({**moves, **record.moves}, {**over, **record.lease}):
            return Pushed(True)
        fault = "another push moved it"
    except RemoteTimeout:
        raise
    except OperationRefused as error:
        fault = str(error)
    return Pushed(remote.push(moves, over), f"{RETAINED} was not moved: {fault}")
