"""Manages the program's own clone, which is locked while it is used and replaced when it is damaged.

The remotes hold everything that the clone holds, so a damaged clone is emptied and fetched again. A marker file records
that the program made the clone. Nothing is ever deleted in a repository that has no marker.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from allotment.adapters.backoff import Backoff
from allotment.adapters.checkout_paths import find_work_trees, is_in_checkout
from allotment.adapters.git.commands import GitCommands
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused, escape_unprintable

CLONE_MARKER = "allotment-clone"
# The entries that Git writes into a bare repository. A replacement of the clone deletes only these entries and Git's
# lock files.
GIT_ENTRIES = (
    "HEAD FETCH_HEAD ORIG_HEAD branches config description gc.log gc.pid hooks index info logs objects packed-refs"
    " refs shallow"
).split()
REPLACEMENT_BACKOFF = Backoff(600.0, 7200.0, jitter=(1, 1))  # the seconds between two replacements of a clone
SAME_ERROR_SECONDS = 600.0  # the minimum time between two checks because of the same error
_LOCKABLE_FILES = ("HEAD", "config", "index", "packed-refs", "shallow")
_MAX_OUTPUT = 500  # characters of the output of git fsck
# A line of git fsck with one of these prefixes is about an object that somebody may have pushed, and reports no damage
# of the clone.
_HARMLESS_PREFIXES = ("error in ", "warning in ", "notice: ", "dangling ", "unreachable ", "Checking ")
CHECK_SHARE = 10  # checks take at most 1 / CHECK_SHARE of the time
_clones: dict[Path, Clone] = {}  # the open clones by folder; each is locked until the command ends

T = TypeVar("T")


class CloneDamage(NamedTuple):
    """The output of git fsck, and whether the clone was replaced.

    If the clone wasn't replaced, the next replacement is possible in `retry_seconds`.
    """

    fsck_output: str
    is_replaced: bool
    retry_seconds: float = 0.0


class Clone(Repository):
    """The program's own clone at a folder."""

    def __init__(self, folder: Path, lock: int) -> None:
        super().__init__(folder, GitCommands(folder, alone=True))
        self.lock = lock
        self._signing_key: Path | None = None
        self._errors: dict[str, float] = {}  # the time of the last check for each error
        self._replacements = 0
        self._next_check = self._next_replacement = float("-inf")

    @classmethod
    def open_or_create(cls, folder: Path) -> Clone:
        """Return the clone at a folder, and lock it until the command ends. Creates the clone if there is none.

        In one process, all calls for the same folder return the same object. Raises OperationRefused if another process
        uses the clone, or if the folder holds another repository, belongs to another user, or lies in a work tree: a
        stranger may have committed it there. The person's home may be a work tree.
        """
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        # Their owner could write settings of Git that name programs.
        owned = [path for path in (folder, folder / "config", folder / CLONE_MARKER) if os.path.lexists(path)]
        if any(path.lstat().st_uid not in (0, os.geteuid()) for path in owned):
            raise OperationRefused(
                f"{folder} belongs to another user of this machine: name a folder of your own with --data"
            )
        clone = _clones.get(folder)
        if clone is None:
            if not (folder / CLONE_MARKER).exists():
                _check_ownership(folder)
            _check_place(folder)
            clone = _clones[folder] = cls(folder, _lock_folder(folder))
        if not clone._is_usable():
            clone._recreate()
        clone.remove_locks()
        return clone

    def close(self) -> None:
        """End Git's object reader, and unlock the clone. The process must no longer use the clone."""
        super().close()
        if _clones.get(self.folder) is self:
            del _clones[self.folder]
            os.close(self.lock)

    def sign_with(self, key: Path, *, keep: bool = True) -> str:
        """Sign every later commit in this clone. With `keep`, this setting outlives a replacement of the clone."""
        self._signing_key = key if keep else None
        return super().sign_with(key, keep=keep)

    def repair(self, errors: Iterable[str]) -> CloneDamage | None:
        """Check the clone with git fsck, and replace it if it is damaged. Return the damage, or None if none was found.

        `errors` are the messages of the caller's recent errors. The clone is checked only if one of these messages
        led to no check in the last SAME_ERROR_SECONDS, if the last check was long enough ago, and if no Git process
        runs in the clone. If the last replacement was too recent, a damaged clone is not replaced, and `is_replaced` is
        False.
        """
        self.remove_locks()
        now = time.monotonic()
        new = [message for message in errors if now - self._errors.get(message, float("-inf")) > SAME_ERROR_SECONDS]
        if not new or now < self._next_check or self._has_running_git():
            return None
        self._errors = {message: at for message, at in self._errors.items() if now - at <= SAME_ERROR_SECONDS}
        self._errors |= dict.fromkeys(new, now)
        message = self._run_fsck()
        end = time.monotonic()
        self._next_check = end + CHECK_SHARE * (end - now)
        if not message:
            return None
        if now < self._next_replacement:
            return CloneDamage(message, is_replaced=False, retry_seconds=self._next_replacement - now)
        self._replacements += 1
        self._next_replacement = now + REPLACEMENT_BACKOFF.delay(self._replacements)
        self._recreate()
        self._errors.clear()
        return CloneDamage(message, is_replaced=True)

    def run_with_repair(self, act: Callable[[], T]) -> T:
        """Call `act` and return its result. If it fails and the clone is damaged, replace the clone and try once more."""
        try:
            return act()
        except Exception as error:
            damage = self.repair([str(error)])
            if damage is None or not damage.is_replaced:
                raise
            return act()

    def remove_locks(self) -> None:
        """Remove the lock files of a killed Git process.

        Only this process and its Git processes use the clone. If no Git process runs in the clone, no process holds the
        locks.
        """
        locks = list(_lock_files(self.folder))
        if locks and not self._has_running_git():
            for path in locks:
                path.unlink(missing_ok=True)

    def _is_usable(self) -> bool:
        """Return whether Git accepts the folder as a bare repository."""
        try:
            ended = self.git.run("rev-parse", "--is-bare-repository")
        except OperationRefused:
            return False
        return ended.exit_code == 0 and ended.stdout.strip() == b"true"

    def _run_fsck(self) -> str:
        """Return the damage that git fsck reports; empty if there is none."""
        if not self._is_usable():
            return "Git doesn't take the folder for a repository"
        ended = self.git.run("fsck", "--full", "--no-dangling", "--no-progress")
        if ended.exit_code <= 0:  # a negative code means that a signal ended git fsck
            return ""
        lines = f"{ended.stderr}\n{ended.stdout.decode('utf-8', 'replace')}".splitlines()
        return escape_unprintable(
            "; ".join(line for line in lines if line and not line.startswith(_HARMLESS_PREFIXES)), _MAX_OUTPUT
        )

    def _recreate(self) -> None:
        """Delete Git's entries, and create an empty clone. If the configuration is readable, it is kept."""
        self.objects.close()
        config = self.folder / "config"
        text = config.read_bytes() if self._is_usable() else None
        for path in [self.folder / name for name in GIT_ENTRIES] + list(_lock_files(self.folder)):
            _delete(path)
        GitCommands.init(self.folder)
        if text is not None:
            config.write_bytes(text)
        self.clear_cache()
        if self._signing_key is not None:
            self.sign_with(self._signing_key)

    def _has_running_git(self) -> bool:
        """Return whether a Git process that may hold a lock runs in the clone. `git cat-file` takes no lock."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # reading fails if the process ended or is another user's
                words = (process / "cmdline").read_bytes()
                name = (process / "comm").read_text(encoding="utf-8", errors="replace")
                if name.startswith("git") and b"cat-file" not in words and (process / "cwd").readlink() == self.folder:
                    return True
        return False


def list_clones() -> list[Clone]:
    """Return the clones that this process has locked."""
    return list(_clones.values())


def release_clones() -> None:
    """Unlock the clones of this process. The process must no longer use them."""
    for clone in list_clones():
        clone.close()


def _check_place(folder: Path) -> None:
    """Raise OperationRefused if a folder lies in a work tree, except for a work tree that is the person's home."""
    if is_in_checkout(folder):
        raise OperationRefused(
            f"{folder} lies in the work tree {next(find_work_trees(folder))}, and a stranger may have committed it: name a folder elsewhere with --data"
        )


def _check_ownership(folder: Path) -> None:
    """Raise OperationRefused if a folder without a marker holds a repository that Allotment did not create."""
    is_empty = not any(os.path.lexists(folder / name) for name in ("HEAD", ".git", "objects", "refs"))
    if not is_empty and not _is_old_clone(folder):
        raise OperationRefused(
            f"{folder} holds a Git repository that Allotment didn't make: name another folder with --data."
            " If it is a clone of an earlier version of Allotment, delete the folder"
        )


def _is_old_clone(folder: Path) -> bool:
    """Return whether a repository is a clone from a version of Allotment that wrote no marker.

    Such a clone is bare and has no remote. It has either only refs of Allotment, or neither refs nor objects.
    """
    if (folder / ".git").exists() or not (folder / "HEAD").is_file():
        return False
    with contextlib.suppress(OSError):
        if "[remote " in (folder / "config").read_text(encoding="utf-8", errors="replace"):
            return False
    refs = list(_ref_names(folder))
    if refs:
        return all(name.startswith("refs/allotment/") for name in refs)
    return not any(path.is_file() for path in (folder / "objects").rglob("*"))


def _ref_names(folder: Path) -> Iterator[str]:
    """Yield the names of all refs, even if Git can't read the repository."""
    for path in (folder / "refs").rglob("*"):
        if not path.is_dir() and path.suffix != ".lock":
            yield path.relative_to(folder).as_posix()
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / "packed-refs").read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith(("#", "^")):
                yield line.rpartition(" ")[2]


def _lock_folder(folder: Path) -> int:
    """Return the descriptor of the locked marker file. Closing it releases the lock.

    Raises OperationRefused if another process holds the lock, or if the file is a symbolic link.
    """
    if (folder / CLONE_MARKER).is_symlink():
        raise OperationRefused(
            f"{folder / CLONE_MARKER} is a symbolic link: delete it, or name another folder with --data"
        )
    file = os.open(folder / CLONE_MARKER, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise OperationRefused(
            f"{folder} is used by another process of Allotment, and a clone has one user at a time: end that process, or name"
            " another folder with --data"
        ) from None
    if os.fstat(file).st_size == 0:
        os.write(file, b"Allotment made this clone and deletes it when it is damaged. Keep nothing in it.\n")
    return file


def _lock_files(folder: Path) -> Iterator[Path]:
    yield from (path for name in _LOCKABLE_FILES if (path := folder / f"{name}.lock").exists())
    if (folder / "gc.pid").exists():
        yield folder / "gc.pid"
    for name in ("refs", "objects"):
        yield from (folder / name).rglob("*.lock")


def _delete(path: Path) -> None:
    """Delete a file or folder. If it is a symbolic link, delete only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
