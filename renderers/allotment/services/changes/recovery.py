"""Creates a commit that repeats the failed preparation of a storage, and pushes the commit to a new branch.

A preparation fills the volume of a storage. Each try is an attempt with a number, and the declaration names the current
number. The commit raises this number. The message of the commit says why the user wants a new attempt.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from allotment import conditions as word
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.history import is_on_first_parents
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.status_reader import ReportedStatus
from allotment.declared.document_editor import SetField, edit_document
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.gpu_storage import MAX_ATTEMPTS, GPUStorage, Prepare
from allotment.declared.layout import DeclarationPath, Scope, parse_path, path_of
from allotment.declared.reading import read_declaration
from allotment.declared.values import format_size
from allotment.observed.status import Preparation as Attempt
from allotment.observed.status import Storage
from allotment.preparation.job_names import input_hash
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.reports.outputs.recover import RecoverOutput


def create_recovery_commit(
    root: Path, ref: str, storage_path: str, reason: str, reported_status: ReportedStatus, *, force: bool
) -> RecoverOutput:
    """Return a commit on top of `ref` that prepares a storage (`tenant/name`) again. The commit has no branch yet.

    Raises OperationRefused if `force` is false and the last attempt is not known to have failed. Even with
    `force`, raises it if the storage has no readable preparation, or if its attempt number is MAX_ATTEMPTS.
    """
    source = CommitSource(root, ref)
    tenant, _, name = storage_path.partition("/")
    declared = _read_storage(source, tenant, name)
    spec = declared.model.spec
    assert spec.prepare is not None
    observed_storage = _find_reported_storage(reported_status, spec.cluster, tenant, name)
    because = _explain_last_attempt(
        f"{tenant}/{name}", spec.cluster, spec.prepare, observed_storage, reported_status, force
    )
    attempt = spec.prepare.attempt + 1
    if attempt > MAX_ATTEMPTS:
        raise OperationRefused(
            f"{tenant}/{name} is in attempt {spec.prepare.attempt}, the highest number: declare another storage"
        )
    repository = source.repository
    prefix = repository.folder_prefix(root)
    path = f"{prefix}/{declared.path}" if prefix else declared.path
    text = f"Recover {tenant}/{name}: attempt {attempt}\n\n{reason.strip()}\n\n{because}.\n"
    message = CommitMessage(text, repository.committer())
    commit = write_commit(repository, [source.commit], {path: with_attempt(declared.data, attempt)}, message)
    last = observed_storage.prepare if observed_storage is not None else None
    failed = last is not None and last.state == word.FAILED and last.reason != word.SUPERSEDED
    overwrites = "" if failed else f"the data on its volume of {format_size(spec.size)} may be overwritten"
    return RecoverOutput(
        storage=storage_path,
        branch=f"recover/{tenant}/{name}-{attempt}",
        commit=commit,
        attempt=attempt,
        because=because,
        overwrites=overwrites,
        pushed=None,
    )


def require_merged(root: Path, ref: str) -> None:
    """Raise OperationRefused if a commit was no state of origin's branch of declarations. Without origin, nothing is merged."""
    clone = DeclarationsClone(root)
    if not clone.has_origin:
        raise OperationRefused(
            "a push of the new branch would also push the commits before it, and without the remote origin nothing is merged:"
            " run `git remote add origin URL`, or `git remote rename NAME origin`"
        )
    declared, commit = clone.fetch_declared_commit(), clone.repository.resolve_named_commit(ref)
    if not declared.branch or not is_on_first_parents(clone.repository, commit, declared.source.commit):
        raise OperationRefused(
            f"{commit[:12]} is not merged, and a push of the new branch would also push the commits before it: name a merged"
            f" commit with --commit, such as origin/{declared.branch or 'main'}"
        )


def create_branch(repository: Repository, recovery: RecoverOutput) -> None:
    """Create the branch in the clone. Raises OperationRefused if a branch of that name exists.

    This is no push to the folder. A stranger may have committed the files of a bare repository there, and Git would run its
    hooks.
    """
    if not repository.create_ref(f"refs/heads/{recovery.branch}", recovery.commit):
        raise OperationRefused(
            f"this clone already has a branch {recovery.branch}: merge it, or delete it and try again"
        )


def push_recovery(remote: Remote, recovery: RecoverOutput) -> RecoverOutput:
    """Push the commit to its branch, and return the pushed recovery. Raises OperationRefused if a branch of that name exists."""
    if not remote.push({f"refs/heads/{recovery.branch}": recovery.commit}):
        raise OperationRefused(
            f"{quote_value(str(remote))} already has a branch {recovery.branch}: merge it, or delete it and try again"
        )
    return msgspec.structs.replace(recovery, pushed=str(remote))


def with_attempt(data: bytes, attempt: int) -> bytes:
    """Return the content of a storage's file with a new value of `spec.prepare.attempt`, in canonical form.

    The file must declare a preparation.
    """
    return edit_document(data, GPUStorage, [SetField(("spec", "prepare", "attempt"), attempt)])


def _read_storage(source: CommitSource, tenant: str, name: str) -> DeclarationFile[GPUStorage]:
    path = path_of(GPUStorage.__name__, Scope("tenant", tenant), name)
    declaration_path = parse_path(path)
    if not isinstance(declaration_path, DeclarationPath):
        raise OperationRefused(
            f"{quote_value(f'{tenant}/{name}')} is not in the format TENANT/STORAGE: name a storage such as solo-ada/models"
        )
    try:
        declared, problems = read_declaration(path, source.read(path), declaration_path)
    except KeyError:
        raise OperationRefused(f"{path} doesn't exist in {source.commit[:12]}: name a declared storage") from None
    if declared is None:
        raise OperationRefused(f"{path} can't be read: {problems[0]}")
    assert isinstance(declared.model, GPUStorage)
    if declared.model.spec.prepare is None:
        raise OperationRefused(f"{tenant}/{name} has no preparation: there is nothing to recover")
    return declared  # type: ignore[return-value]  # the model was checked above


def _find_reported_storage(reported_status: ReportedStatus, cluster: str, tenant: str, name: str) -> Storage | None:
    for status in reported_status.tenants:
        if (status.tenant, status.cluster) == (tenant, cluster):
            return next((storage for storage in status.storages if storage.name == name), None)
    return None


def _explain_last_attempt(
    storage_path: str,
    cluster: str,
    declared: Prepare,
    observed_storage: Storage | None,
    reported_status: ReportedStatus,
    force: bool,
) -> str:
    """Return a description of the last attempt.

    Raises OperationRefused if `force` is false and the last attempt is not known to have failed.
    """
    last = observed_storage.prepare if observed_storage is not None else None
    doubt = reported_status.troubles.get(cluster)
    if last is None or doubt:
        why = doubt or f"{cluster} reports no preparation of this storage"
        return _require_force(
            force,
            f"the result of attempt {declared.attempt} of {storage_path} is unknown: {escape_unprintable(why, 200)}",
        )
    if last.attempt != declared.attempt or last.input_hash != input_hash(declared):
        return _require_force(
            force, f"attempt {declared.attempt} of {storage_path}, as declared, hasn't started on {cluster} yet"
        )
    if last.state == word.SUCCEEDED:
        return _require_force(
            force, f"attempt {last.attempt} of {storage_path} succeeded on {cluster} at {last.completion_time}"
        )
    if last.reason == word.SUPERSEDED:
        return _require_force(
            force,
            f"attempt {last.attempt} of {storage_path} was superseded: a later attempt has filled the volume on {cluster}",
        )
    if last.state != word.FAILED:
        return _require_force(
            force, f"attempt {last.attempt} of {storage_path} on {cluster} is {last.state} ({last.reason})"
        )
    return f"Attempt {last.attempt} failed on {cluster} at {last.completion_time}: {_describe_failure(last)}"


def _describe_failure(last: Attempt) -> str:
    code = f", exit code {last.exit_code}" if last.exit_code is not None else ""
    return f"{last.reason}{code}"


def _require_force(force: bool, message: str) -> str:
    if not force:
        raise OperationRefused(
            f"{message}; only a failed preparation is recovered. Add --force to prepare the storage again anyway"
        )
    return f"Forced: {message}"
