"""Reads the files that hold credentials, such as tokens, keys and logins. No error repeats their content."""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path
from typing import IO, Any

import yaml

from allotment.problems import OperationRefused, escape_unprintable

MAX_BYTES = 1 << 20  # of a file; usual files have some KB
PIPE_SECONDS = 30.0  # the longest wait for the next bytes of a pipe
_REQUIREMENT = f"it must be a text file in UTF-8 with at most {MAX_BYTES >> 20} MiB that this user may read"


def read_credential_file(path: Path, remedy: str = _REQUIREMENT, *, accepts_pipe: bool = False) -> str:
    """Return the text of a file, without a byte order mark. The error ends with `remedy`.

    With `accepts_pipe`, the file may be a pipe, such as the output of a password manager in a shell. Raises OperationRefused.
    """
    try:
        text = read_bytes(path, MAX_BYTES, accepts_pipe=accepts_pipe).decode("utf-8-sig")
        if "\0" in text:
            raise UnicodeError
    except UnicodeError:
        reason = "it is no text in UTF-8"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is invalid"
    else:
        return text
    raise OperationRefused(f"{escape_unprintable(str(path), 400)} can't be read: {reason}: {remedy}")


def read_bytes(path: Path, max_bytes: int, *, accepts_pipe: bool = True) -> bytes:
    """Return the content of a file of at most `max_bytes` bytes. Raises OSError or ValueError, also if nothing writes into a pipe."""
    with open(path, "rb", buffering=0, opener=_open_at_once) as file:
        if not (accepts_pipe or stat.S_ISREG(os.fstat(file.fileno()).st_mode)):
            raise OSError(0, "it is no regular file")
        return _read(file, max_bytes)


def read_if_exists(path: Path, remedy: str = _REQUIREMENT) -> str | None:
    """Return the text of a file; None if the file doesn't exist. Raises OperationRefused."""
    return read_credential_file(path, remedy) if os.path.lexists(path) else None


def load_yaml(text: str) -> Any:
    """Return the values in the YAML of another program. Raises YAMLError, for all that PyYAML raises."""
    try:
        return yaml.safe_load(text)  # the loader in C would end the process for deeply nested lists
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, yaml.YAMLError):
        raise yaml.YAMLError from None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file. A named pipe without a writer would block otherwise."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read(file: IO[bytes], max_bytes: int) -> bytes:
    data, waiting = b"", select.poll()
    waiting.register(file, select.POLLIN)
    while len(data) <= max_bytes:
        if not waiting.poll(PIPE_SECONDS * 1000):
            raise OSError(0, f"nothing arrived within {PIPE_SECONDS:.0f} s")
        if not (piece := os.read(file.fileno(), max_bytes)):
            return data
        data += piece
    raise OSError(0, f"it has more than {max_bytes:,} bytes")
