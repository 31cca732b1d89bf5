"""Writes the pages of a website into a folder, each page atomically, and removes the pages that are gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from allotment.adapters.checkout_paths import refuse_committed_links
from allotment.problems import OperationRefused, quote_value

MARKER = ".allotment-portal"
_MARKER_TEXT = b"`allot portal build` and `allot run --portal` write this folder. They remove all other files: keep nothing of your own here.\n"


class PageFolder:
    """A folder of pages. Several processes may write different pages at once.

    Raises OperationRefused if the folder holds files of somebody else, or if it can't be read or written.
    """

    def __init__(self, out: Path) -> None:
        refuse_committed_links(out)
        self.out = out.absolute()
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            if self.out.is_symlink():
                raise OperationRefused(f"{quote_value(str(out))} is a link: name the folder itself")
            names = os.listdir(self.out)
            if names and MARKER not in names:
                raise OperationRefused(
                    f"{quote_value(str(out))} holds files that `allot portal build` did not write: name an empty or a new folder"
                )
            marker = os.open(self.out / MARKER, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
            with open(marker, "wb") as file:
                file.write(_MARKER_TEXT)
        except OSError as error:
            raise self._describe(error) from None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from building pages in the folder. Raises OperationRefused if one does already."""
        try:
            marker = open(self.out / MARKER, "rb")  # noqa: SIM115  # closed below, after the lock is taken
        except OSError as error:
            raise self._describe(error) from None
        with marker:
            try:
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OperationRefused(f"another process writes {self.out}: name another folder, or wait") from None
            except OSError as error:
                raise OperationRefused(f"{self.out} can't be locked: {error.strerror}") from None
            yield

    def write(self, path: str, content: bytes) -> bool:
        """Write the page at a path below the folder. Return whether this changed the page."""
        target = os.path.join(self.out, path)
        try:
            try:
                with open(target, "rb") as file:
                    if file.read() == content:
                        return False
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)
            except (IsADirectoryError, NotADirectoryError):
                self._clear_way(path)
            place, name = os.path.split(target)
            temporary = os.path.join(place, f".{name}.{os.getpid()}.tmp")  # the server shows no file of such a name
            with open(temporary, "wb") as file:
                file.write(content)
            os.replace(temporary, target)
        except OSError as error:
            raise self._describe(error) from None
        return True

    def _clear_way(self, path: str) -> None:
        """Remove a folder at the path of a page, and files at the paths of its folders, and make these folders."""
        target = self.out / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        for folder in reversed(target.relative_to(self.out).parents[:-1]):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # another process was faster
                if not (self.out / folder).is_dir():
                    (self.out / folder).unlink()
        target.parent.mkdir(parents=True, exist_ok=True)

    def remove_links(self) -> int:
        """Remove all links, so that no page is written outside of the folder. Return their number."""
        removed = 0
        try:
            for folder, children, names in os.walk(self.out, onerror=_raise):
                for name in (*children, *names):
                    path = os.path.join(folder, name)
                    if os.path.islink(path):
                        os.unlink(path)
                        removed += 1
        except OSError as error:
            raise self._describe(error) from None
        return removed

    def remove_others(self, paths: Collection[str], kept_folders: Collection[str] = (), below: str = "") -> int:
        """Remove all files and links of the folder except `paths` and the files in `kept_folders`. Return their number.

        `below` limits this to the files below a folder of the folder.
        """
        removed = 0
        folders_to_keep = tuple(f"{folder}/" for folder in kept_folders)
        try:
            for folder, children, names in os.walk(os.path.join(self.out, below), topdown=False, onerror=_raise):
                place = os.path.relpath(folder, self.out)
                links = [child for child in children if os.path.islink(os.path.join(folder, child))]
                for name in (*names, *links):
                    path = name if place == "." else f"{place}/{name}"
                    if path not in paths and path != MARKER and not path.startswith(folders_to_keep):
                        os.unlink(os.path.join(folder, name))
                        removed += 1
                if place != "." and not os.listdir(folder):
                    os.rmdir(folder)
        except OSError as error:
            raise self._describe(error) from None
        return removed

    def remove(self, paths: Iterable[str]) -> int:
        """Remove some files that were written, and the folders that become empty. Return the number of files."""
        removed = 0
        try:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.out, path))
                    removed += 1
                with contextlib.suppress(OSError):  # the folder still has files
                    os.removedirs(os.path.dirname(os.path.join(self.out, path)))
        except OSError as error:
            raise self._describe(error) from None
        return removed

    def _describe(self, error: OSError) -> OperationRefused:
        return OperationRefused(f"{error.filename or self.out} can't be written: {error.strerror}")


def _raise(error: OSError) -> None:
    """Raise the error of a folder that can't be listed, unless the folder doesn't exist."""
    if not isinstance(error, FileNotFoundError):
        raise error
