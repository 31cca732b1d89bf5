"""Turns the declarations in a work tree into a temporary commit.

Allotment lists and reads the files without Git, because Git would run the filters that this repository and nested
repositories configure. Git converts only the files that differ from the commit, in a sandbox (`sandbox_repository.py`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from allotment.adapters.declaration_source import MAX_FILES
from allotment.adapters.git.commands import READ_SETTINGS
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import NO_COMMIT_TEXT, Repository
from allotment.adapters.git.trees import LINK, REGULAR, SUBMODULE, Entry
from allotment.adapters.git.uncommitted import list_ignored
from allotment.declared.layout import ROOTS
from allotment.problems import OperationRefused, quote_value

_IDENTITY_ENVIRONMENT = {
    f"GIT_{who}_{field}": "allotment" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")
}
# The settings by which Git itself converts the line endings of a file for a commit. They start no other program.
_CONVERSION_SETTINGS = ("core.autocrlf", "core.eol")
_FILE_MODE_SETTING = "core.filemode"
_SETTINGS_PATTERN = r"^core\.(autocrlf|eol|filemode)$"
_UNQUOTED_BYTES = frozenset(range(0x20, 0x7F)) - set(b'"\\')  # bytes that need no escape in Git's quotes
_IGNORED_WARNING = "Ignoring path"  # the warning of update-index about a name that it skips
_MAX_OUTPUT = 400  # characters of Git's output


class _FolderFile(NamedTuple):
    """A file, symbolic link or nested repository in the folder. `mode` is as in a tree, `size` is in bytes."""

    path: str
    mode: str
    size: int


def checked_out_commit(repository: Repository) -> str:
    """Return the commit that is checked out. Raises OperationRefused if there is none."""
    if repository.git.work_tree is None:
        raise OperationRefused("this repository has no work tree: name the commit to plan with --head")
    return repository.resolve("HEAD", NO_COMMIT_TEXT)


def commit_of_folder(repository: Repository, sandbox: Repository, root: Path, commit: str, most: int) -> str:
    """Create, in `sandbox`, a child of `commit` that has the current declarations of the folder `root`, and return it.

    A declaration that Git ignores is included, any other ignored file is not. Files outside of the declarations are as in `commit`. Raises OperationRefused,
    and LimitExceeded if the differing files have more than `most` bytes.
    """
    prefix = sandbox.folder_prefix(root)
    tree = sandbox.tree_of(commit, prefix)
    committed_entries = (
        {file.path: Entry(file.mode, file.id) for file in sandbox.trees.walk(tree, MAX_FILES, ROOTS)} if tree else {}
    )
    reading = _FolderReader(repository, sandbox, root, f"{prefix}/" if prefix else "", committed_entries, len(commit))
    try:
        entries = reading.entries(most)
    except OSError as error:
        raise OperationRefused(f"{error.filename} can't be read: {error.strerror}") from None
    sparse_paths = reading.skipped_files() if committed_entries.keys() - entries.keys() else set()
    lines = [
        f"0 {'0' * len(commit)}\t{reading.inside}{path}"
        for path in committed_entries.keys() - entries.keys() - sparse_paths
    ]
    lines += [
        f"{entry.mode} {entry.id}\t{reading.inside}{path}"
        for path, entry in entries.items()
        if committed_entries.get(path) != entry
    ]
    _run_git(sandbox, "read-tree", commit)
    _run_git(sandbox, "update-index", "-z", "--index-info", data="\0".join([*sorted(lines), ""]))
    return _run_git(sandbox, "commit-tree", "-p", commit, "-m", "Work tree", _run_git(sandbox, "write-tree"))


class _FolderReader:
    """Reads the declarations in the folder `root`.

    `inside` is the path of the folder in its repository, with a slash at the end; empty for the root.
    `committed_entries` are the entries of the committed declarations, by path. `digits` is the length of an object id.
    """

    def __init__(
        self,
        repository: Repository,
        sandbox: Repository,
        root: Path,
        inside: str,
        committed_entries: Mapping[str, Entry],
        digits: int,
    ) -> None:
        self._repository, self._sandbox = repository, sandbox
        self._root, self.inside = root, inside
        self._committed_entries, self._digits = committed_entries, digits
        self._settings = dict(_read_settings(repository))

    def entries(self, most: int) -> dict[str, Entry]:
        """Return a tree entry for each file in the folder, by path. Raises OperationRefused and OSError."""
        entries: dict[str, Entry] = {}
        differing: dict[str, str] = {}
        size = 0
        files = {file.path: file for file in self._walk()}
        for path in list_ignored(self._root, files.keys() - self._committed_entries.keys()):
            del files[path]
        for file in files.values():
            if file.mode not in REGULAR:
                entries[file.path] = self._irregular_entry(file)
                continue
            if file.size > most:
                raise LimitExceeded(f"{quote_value(file.path)} has {file.size:,} bytes: keep data elsewhere")
            blob, mode = _blob_id(_read_file(self._root / file.path, file.size), self._digits), self._file_mode(file)
            entries[file.path] = Entry(mode, blob)
            if (old := self._committed_entries.get(file.path)) is None or old.id != blob:
                differing[file.path] = mode
                size += file.size
            if size > most:
                raise LimitExceeded(f"the change writes more than {most >> 20} MiB of files: split it")
        return entries | {path: Entry(differing[path], blob) for path, blob in self._write_blobs(list(differing))}

    def skipped_files(self) -> set[str]:
        """Return the files that a sparse checkout leaves out of the work tree. They are not treated as deleted."""
        folders = [self.inside + root for root in sorted(ROOTS)]
        output = self._repository.git.run_text("ls-files", "-t", "-z", "--", *folders, settings=READ_SETTINGS)
        prefix = f"S {self.inside}"
        return {line.removeprefix(prefix) for line in output.split("\0") if line.startswith(prefix)}

    def _walk(self) -> Iterator[_FolderFile]:
        """Yield all files below the roots.

        A nested repository is yielded as a single submodule, unless the outer repository has committed files in its
        folder.
        """
        folders = {part for path in self._committed_entries for part in _parent_folders(path)}
        waiting, count = sorted(ROOTS, reverse=True), 0
        while waiting:
            path = waiting.pop()
            try:
                status = os.lstat(self._root / path)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                names = os.listdir(self._root / path)
                if self._is_committed_as(path, SUBMODULE) or (".git" in names and path not in folders):
                    yield _FolderFile(path, SUBMODULE, 0)
                else:
                    waiting += [f"{path}/{name}" for name in sorted(names, reverse=True) if name != ".git"]
                continue
            count += 1
            if count > MAX_FILES:
                raise LimitExceeded(f"more than {MAX_FILES:,} files: this is not a repository of declarations")
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                raise OperationRefused(f"{quote_value(path)} is not a regular file: remove it")
            mode = LINK if stat.S_ISLNK(status.st_mode) else REGULAR[bool(status.st_mode & stat.S_IXUSR)]
            yield _FolderFile(path, mode, status.st_size)

    def _irregular_entry(self, file: _FolderFile) -> Entry:
        """Return the entry of a symbolic link or nested repository. The commit of a nested repository is not read."""
        if file.mode == SUBMODULE:
            return (
                self._committed_entries[file.path]
                if self._is_committed_as(file.path, SUBMODULE)
                else Entry(SUBMODULE, _blob_id(b"", self._digits))
            )
        target = os.fsencode(os.readlink(self._root / file.path))
        if self._committed_entries.get(file.path) == (LINK, _blob_id(target, self._digits)):
            return self._committed_entries[file.path]
        return Entry(LINK, _run_git(self._sandbox, "hash-object", "-w", "--stdin", data=os.fsdecode(target)))

    def _write_blobs(self, paths: list[str]) -> Iterator[tuple[str, str]]:
        """Write the blobs that Git would commit for some files, and yield each path with its blob."""
        if not paths:
            return
        top = self._repository.git.work_tree
        self._check_attributes([self.inside + path for path in paths], Path(str(top)))
        conversion = [f"{name}={self._settings[name]}" for name in _CONVERSION_SETTINGS if name in self._settings]
        names = "".join([f"{_quote_path(self.inside + path)}\n" for path in paths])
        environment = {"GIT_WORK_TREE": str(top)}
        output = _run_git(
            self._sandbox,
            "hash-object",
            "-w",
            "--stdin-paths",
            data=names,
            settings=conversion,
            environment=environment,
        )
        yield from zip(paths, output.splitlines(), strict=True)

    def _check_attributes(self, paths: list[str], top: Path) -> None:
        """Check that .gitattributes files for these paths are regular files or symbolic links. Raises OperationRefused.

        If a .gitattributes file were a named pipe, Git would wait for it forever.
        """
        for folder in {parent for path in paths for parent in PurePosixPath(path).parents}:
            file = folder / ".gitattributes"
            try:
                mode = (top / file).lstat().st_mode
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
                raise OperationRefused(f"{quote_value(str(file))} is not a regular file: remove it")

    def _is_committed_as(self, path: str, mode: str) -> bool:
        return path in self._committed_entries and self._committed_entries[path].mode == mode

    def _file_mode(self, file: _FolderFile) -> str:
        """Return a file's mode. If the file system doesn't record modes (core.fileMode), return the committed mode."""
        if self._settings.get(_FILE_MODE_SETTING, "true") != "false":
            return file.mode
        old = self._committed_entries.get(file.path)
        return old.mode if old is not None and old.mode in REGULAR else REGULAR[0]


def _read_settings(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield the repository's settings for the conversion of committed files.

    If a setting is repeated, its last value is the effective value.
    """
    output = repository.git.run("config", "-z", "--get-regexp", _SETTINGS_PATTERN).stdout.decode("utf-8", "replace")
    for setting in output.split("\0"):
        name, newline, value = setting.partition("\n")
        if name:
            yield name, value if newline else "true"


def _run_git(
    sandbox: Repository,
    command: str,
    *arguments: str,
    data: str = "",
    settings: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a Git command. Raises OperationRefused with Git's message if it fails."""
    ended = sandbox.git.run(
        command,
        *arguments,
        data=os.fsencode(data),
        settings=[*READ_SETTINGS, *settings],
        environment={**_IDENTITY_ENVIRONMENT, **(environment or {})},
    )
    if ended.exit_code or ended.stderr.startswith(_IGNORED_WARNING):
        raise OperationRefused(f"Git can't read the work tree: {' '.join(ended.stderr.split())[:_MAX_OUTPUT]}")
    return ended.stdout.decode("ascii").strip()


def _parent_folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _read_file(path: Path, size: int) -> bytes:
    """Return the bytes of a file that has `size` bytes. Raises OSError if the file is a symbolic link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        return file.read(size + 1)


def _blob_id(data: bytes, digits: int) -> str:
    """Return the id of a blob with these bytes."""
    digest = hashlib.sha256 if digits == 64 else hashlib.sha1  # an id of SHA-256 has 64 digits
    return digest(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _quote_path(path: str) -> str:
    """Return a path in quotes, in the form that Git accepts in a list with one path per line."""
    letters = [chr(byte) if byte in _UNQUOTED_BYTES else f"\\{byte:03o}" for byte in os.fsencode(path)]
    return f'"{"".join(letters)}"'
