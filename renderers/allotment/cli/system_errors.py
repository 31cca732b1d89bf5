"""Prepares the standard streams of the process, and explains errors of the operating system that the user can correct."""

from __future__ import annotations

import errno
import os
import sys

from allotment.problems import OperationRefused, escape_unprintable

_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF, errno.EROFS})
# Errors of the machine or of permissions. Any other OSError that no module handles is a bug.
_ACCESS_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
_FOLDER_ERRORS = frozenset({errno.ENOTDIR, errno.EEXIST})  # also of mkdir, for a pipe or a link that leads nowhere
_NO_TEMPORARY_FOLDER = "No usable temporary directory found"  # the text of the module tempfile


def prepare_streams() -> None:
    """Let each standard stream exist, and print a character that an encoding lacks as its escape.

    If a stream is closed, the next file that the process opens would take its place. Raises OperationRefused if the
    output is closed, because the result would be lost.
    """
    is_output_closed = sys.stdout is None
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the system gives it the lowest free number, that of the stream
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a test replaces the streams
            stream.reconfigure(errors="backslashreplace")
    if is_output_closed:
        raise OperationRefused("the standard output is closed: send it to a file, or to /dev/null")


def explain_os_error(error: OSError) -> str:
    """Return a sentence about an error of the operating system, with the way out; empty if the error is a bug."""
    if _NO_TEMPORARY_FOLDER in str(error):
        return "no temporary folder can be written: set TMPDIR to a folder with free space"
    if error.filename is None and not _has_current_folder():
        return "the current folder no longer exists: go to another folder"
    place = escape_unprintable(os.fsdecode(error.filename), 400) if isinstance(error.filename, str | bytes) else ""
    if error.errno in _WRITE_ERRORS:
        return f"{place or 'the output'} can't be written: {error.strerror}"
    if error.errno in _FOLDER_ERRORS and place and not os.path.isdir(error.filename):
        return f"{place} is no folder: name another"
    if error.errno in _ACCESS_ERRORS:
        return f"{place} can't be opened: {error.strerror}" if place else f"the system refuses: {error.strerror}"
    return ""


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
