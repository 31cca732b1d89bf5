"""Writes blobs, commits and signed tags without a work tree: `git fast-import` turns files into blobs and trees, without an
index or a checkout.

Only a tag points at a new commit, and `delete_tag` removes it. Git's maintenance later removes commits that were never
pushed.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from allotment.adapters.git.commands import QUIET_SETTINGS, complete
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused

FILE_MODE, EXECUTABLE_MODE = "100644", "100755"
NULL_COMMIT = "0" * 40
_TEMPORARY_AUTHOR = b"allot <> 0 +0000"
_MAX_OUTPUT = 800  # characters of Git's output


class CommitMessage(NamedTuple):
    """The message of a commit, and its author in the form of the commit's header: `name <mail> time zone`."""

    text: str
    author: bytes


def write_commit(
    repository: Repository,
    parents: Sequence[str],
    changes: Mapping[str, bytes | str | None],
    message: CommitMessage,
    base: str = "",
    *,
    keeps_modes: bool = False,
) -> str:
    """Write a new commit and return its id. The commit has the files of its first parent with `changes` applied.

    `changes` maps each changed path to its new bytes, to the id of its new blob in the repository, or to None if the
    path is removed. A removed path may be a folder.

    With `base`, the commit has the files of the commit `base` with `changes` applied, and the files of the first parent
    are not used. If `base` is NULL_COMMIT, `changes` are applied to an empty tree.

    With `keeps_modes`, a changed file that is executable in the first parent stays executable.

    The commit is signed if Git is configured to sign commits.
    Raises OperationRefused if Git has no identity to commit with, or if a blob is missing.
    """
    committer = repository.committer()
    start = b""
    if base:
        tree = repository.tree_of(base, "") if base != NULL_COMMIT else None
        start = b'M 040000 %s ""\n' % tree.encode("ascii") if tree else b"deleteall\n"
    executable = _find_executable(repository, parents[0], changes) if keeps_modes else frozenset()
    stream = _fast_import_stream(
        parents, changes, message, committer, start, executable, null_id=repository.git.null_id
    )
    commit = _import_commit(repository, b"".join(stream))
    return _sign_commit(repository, commit, parents, message) if repository.is_signing_configured() else commit


def _find_executable(repository: Repository, commit: str, paths: Iterable[str]) -> frozenset[str]:
    root = repository.trees.root(commit)
    entries = {path: repository.trees.find_entry(root, path) for path in paths}
    return frozenset(path for path, entry in entries.items() if entry is not None and entry.mode == EXECUTABLE_MODE)


def write_temporary_commit(repository: Repository, parent: str, changes: Mapping[str, bytes | str | None]) -> str:
    """Write a child of `parent` that nobody signs, and return its id. Git needs no identity for it."""
    message = CommitMessage("Temporary", _TEMPORARY_AUTHOR)
    stream = _fast_import_stream([parent], changes, message, _TEMPORARY_AUTHOR, b"", null_id=repository.git.null_id)
    return _import_commit(repository, b"".join(stream))


def _import_commit(repository: Repository, stream: bytes) -> str:
    """Write the commit of a stream of fast-import, and return its id."""
    options = ("--quiet", "--done", "--date-format=raw")
    ended = repository.git.run("fast-import", *options, data=stream, settings=QUIET_SETTINGS)
    if ended.exit_code:
        raise OperationRefused(f"Git made no commit: {ended.message[-_MAX_OUTPUT:]}")
    return ended.stdout.decode("ascii").strip()


def _sign_commit(repository: Repository, commit: str, parents: Sequence[str], message: CommitMessage) -> str:
    """Return a signed copy of a commit. A copy is necessary because `git fast-import` can't sign."""
    name, _, rest = message.author.decode("utf-8", "replace").partition(" <")
    mail, _, date = rest.partition("> ")
    environment = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": f"@{date}"}
    onto = [word for parent in parents for word in ("-p", parent)]
    ended = repository.git.run(
        "commit-tree",
        *("-S", *onto, "-F", "-", f"{commit}^{{tree}}"),
        data=message.text.encode(),
        settings=repository.signing,
        environment=environment,
    )
    if ended.exit_code:
        raise OperationRefused(f"Git couldn't sign the commit: {ended.message[-_MAX_OUTPUT:]}")
    return ended.stdout.decode("ascii").strip()


def _fast_import_stream(
    parents: Sequence[str],
    changes: Mapping[str, bytes | str | None],
    message: CommitMessage,
    committer: bytes,
    start: bytes,
    executable: Collection[str] = (),
    *,
    null_id: str,
) -> Iterator[bytes]:
    """Yield the input of `git fast-import`. At the end, the input deletes the ref that fast-import requires."""
    draft = b"refs/allotment/draft-" + secrets.token_hex(8).encode()
    text = message.text.encode()
    yield b"commit %s\nmark :1\nauthor %s\ncommitter %s\ndata %d\n%s\n" % (
        draft,
        message.author,
        committer,
        len(text),
        text,
    )
    for word, parent in zip((b"from", *(b"merge",) * len(parents)), parents, strict=False):
        yield b"%s %s\n" % (word, parent.encode("ascii"))
    yield start
    for path, data in sorted(changes.items()):
        raw, mode = _encode_path(path), (EXECUTABLE_MODE if path in executable else FILE_MODE).encode("ascii")
        if data is None:
            yield b"D %s\n" % raw
        elif isinstance(data, str):
            yield b"M %s %s %s\n" % (mode, data.encode("ascii"), raw)
        else:
            yield b"M %s inline %s\ndata %d\n%s\n" % (mode, raw, len(data), data)
    yield b"\nget-mark :1\nreset %s\nfrom %s\n\ndone\n" % (draft, null_id.encode())


def _encode_path(path: str) -> bytes:
    """Return a path in the unquoted form that fast-import accepts. The paths of rendered files never need quotes."""
    raw = path.encode("utf-8")
    if not path or path[0] in '"/' or "\n" in path or "\0" in path:
        raise ValueError(f"no path of a rendered file: {path!r}")
    return raw


def write_signed_tag(repository: Repository, name: str, commit: str, message: str) -> str:
    """Write a tag of a commit into the repository with the configured signing key, and return its id.

    Replaces a tag with this name. Raises OperationRefused if Git can't sign.
    """
    options = ("--sign", "--force", "--cleanup=verbatim", "--file=-", "--end-of-options")
    settings = (*QUIET_SETTINGS, *repository.signing)
    ended = repository.git.run("tag", *options, name, commit, data=message.encode(), settings=settings)
    if ended.exit_code:
        reason = ended.message[-_MAX_OUTPUT:]
        raise OperationRefused(
            f"Git couldn't sign the tag {name}: name a key with --signing-key, or set user.signingKey with git config: {reason}"
        )
    ref = f"refs/tags/{name}"
    target = repository.find_ref_targets(ref).get(ref)
    if target is None:
        raise OperationRefused(f"another command deleted the tag {name} in this clone: run the command again")
    return target


def delete_tag(repository: Repository, name: str) -> None:
    """Delete a tag of the repository, if it exists."""
    repository.git.run("tag", "--delete", name, settings=QUIET_SETTINGS)


class BlobWriter:
    """Writes blobs to a repository. Git runs from the first `write` to `close` or `abort`.

    Nothing references the blobs until a commit does. Git's maintenance removes blobs that stay without a reference.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._process: Any = None

    def write(self, data: bytes) -> None:
        """Write a blob. It can be read after `close`. Raises OperationRefused if Git fails."""
        if self._process is None:
            self._process = self._repository.git.start_import()
        try:
            self._process.stdin.write(b"blob\ndata %d\n%s\n" % (len(data), data))
        except BrokenPipeError:
            self._end()

    def close(self) -> None:
        """Store the blobs. Raises OperationRefused if Git fails. Does nothing if no blob was written."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):  # `_end` raises with Git's message
                self._process.stdin.write(b"done\n")
                self._process.stdin.flush()
            self._end()

    def abort(self) -> None:
        """End Git without storing the blobs."""
        if self._process is not None:
            started, self._process = self._process, None
            started.kill()
            complete(started)

    def _end(self) -> None:
        """Wait for the end of Git. Raises OperationRefused if Git has failed."""
        started, self._process = self._process, None
        ended = complete(started)
        if ended.exit_code:
            raise OperationRefused(f"Git stored no blobs: {ended.message[-_MAX_OUTPUT:]}")
