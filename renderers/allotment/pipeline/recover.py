"""Recovers a storage whose preparation failed: a commit with one more attempt, that says who wanted it and why."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from allotment import conditions as word
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.commits import Message, write_commit
from allotment.adapters.git.remote import Remote
from allotment.declared.attempt import raised
from allotment.declared.inventory import Declared
from allotment.declared.kinds.gpu_storage import GPUStorage, Prepare
from allotment.declared.layout import Meaning, Scope, path_of, spot_of
from allotment.declared.reading import read_declaration
from allotment.declared.values import size_text
from allotment.observed.status import Preparation as Attempt
from allotment.observed.status import Storage
from allotment.pipeline.report.statuses import Now
from allotment.problems import Refused, printable, quoted
from allotment.readiness.preparation import input_hash

MOST_ATTEMPTS = 9999


class Recovered(NamedTuple):
    """A commit that raises a storage's attempt: the branch it is to have, what it follows from, and what it may
    overwrite."""

    commit: str
    branch: str
    attempt: int
    because: str
    overwrites: str


def recovered(root: Path, ref: str, storage_path: str, reason: str, reported_status: Now, *, force: bool) -> Recovered:
    """Return a commit on top of `ref` that prepares a storage (`tenant/name`) again; nothing points at it yet.

    Raises Refused unless the last attempt was seen to fail, or `force`.
    """
    source = CommitSource(root, ref)
    tenant, _, name = storage_path.partition("/")
    declared = _declared(source, tenant, name)
    spec = declared.model.spec
    assert spec.prepare is not None
    seen = _seen(reported_status, spec.cluster, tenant, name)
    because = _because(f"{tenant}/{name}", spec.cluster, spec.prepare, seen, reported_status, force)
    attempt = spec.prepare.attempt + 1
    if attempt > MOST_ATTEMPTS:
        raise Refused(
            f"{tenant}/{name} is in attempt {spec.prepare.attempt}, the last there is: declare another storage"
        )
    repository = source.repository
    prefix = repository.top(root)
    path = f"{prefix}/{declared.path}" if prefix else declared.path
    text = f"Recover {tenant}/{name}: attempt {attempt}\n\n{reason.strip()}\n\n{because}.\n"
    message = Message(text, repository.committer())
    commit = write_commit(repository, [source.commit], {path: raised(declared.data, attempt)}, message)
    last = seen.prepare if seen is not None else None
    failed = last is not None and last.state == word.FAILED and last.reason != word.SUPERSEDED
    overwrites = "" if failed else f"what lies on its volume of {size_text(spec.size)} may be overwritten"
    return Recovered(commit, f"refs/heads/recover/{tenant}/{name}-{attempt}", attempt, because, overwrites)


def point(remote: Remote, recovery: Recovered) -> None:
    """Give the commit its branch. Raises Refused where one of that name is there already."""
    if not remote.push({recovery.branch: recovery.commit}):
        name = recovery.branch.removeprefix("refs/heads/")
        raise Refused(f"{quoted(str(remote))} has a branch {name} already: somebody recovers the storage, or delete it")


def _declared(source: CommitSource, tenant: str, name: str) -> Declared[GPUStorage]:
    path = path_of(GPUStorage.__name__, Scope("tenant", tenant), name)
    spot = spot_of(path)
    if not isinstance(spot, Meaning):
        raise Refused(f"{quoted(f'{tenant}/{name}')} is no storage: write TENANT/STORAGE")
    try:
        declared, problems = read_declaration(path, source.read(path), spot)
    except KeyError:
        raise Refused(f"{path} isn't there in {source.commit[:12]}: name a storage that is declared") from None
    if declared is None:
        raise Refused(f"{path} can't be read: {problems[0]}")
    assert isinstance(declared.model, GPUStorage)
    if declared.model.spec.prepare is None:
        raise Refused(f"{tenant}/{name} has no preparation: there is nothing to recover")
    return declared  # type: ignore[return-value]  # it is one, as was just seen


def _seen(reported_status: Now, cluster: str, tenant: str, name: str) -> Storage | None:
    for status in reported_status.tenants:
        if (status.tenant, status.cluster) == (tenant, cluster):
            return next((storage for storage in status.storages if storage.name == name), None)
    return None


def _because(
    storage_path: str, cluster: str, declared: Prepare, seen: Storage | None, reported_status: Now, force: bool
) -> str:
    """Return in words what the last attempt came to. Raises Refused where that is no reason for another, and nobody
    forces it."""
    last = seen.prepare if seen is not None else None
    doubt = reported_status.troubles.get(cluster)
    if last is None or doubt:
        why = doubt or f"{cluster} reports no preparation of it"
        return _forced(
            force, f"it isn't known how attempt {declared.attempt} of {storage_path} ended: {printable(why, 200)}"
        )
    if last.attempt != declared.attempt or last.input_hash != input_hash(declared):
        return _forced(
            force, f"attempt {declared.attempt} of {storage_path} as it is declared hasn't begun on {cluster} yet"
        )
    if last.state == word.SUCCEEDED:
        return _forced(
            force, f"attempt {last.attempt} of {storage_path} succeeded on {cluster} at {last.completion_time}"
        )
    if last.reason == word.SUPERSEDED:
        return _forced(
            force,
            f"attempt {last.attempt} of {storage_path} came too late: a later one has filled the volume on {cluster}",
        )
    if last.state != word.FAILED:
        return _forced(force, f"attempt {last.attempt} of {storage_path} on {cluster} is {last.state} ({last.reason})")
    return f"Attempt {last.attempt} failed on {cluster} at {last.completion_time}: {_how(last)}"


def _how(last: Attempt) -> str:
    code = f", exit code {last.exit_code}" if last.exit_code is not None else ""
    return f"{last.reason}{code}"


def _forced(force: bool, words: str) -> str:
    if not force:
        raise Refused(f"{words}; only what failed is recovered. With --force it is prepared again all the same")
    return f"Forced: {words}"
