"""A machine that lacks something: a stream, a folder, space, handles or a permission. Each is one sentence, never a bug report."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.published import Place

from allotment.cli.system_errors import explain_os_error

BUG = "this is a bug in Allotment"
COMMANDS = {
    "validate": ("validate",),
    "plan": ("plan", "--base", "HEAD"),
    "publish": ("publish", "--dry-run", "--to", "../remote.git"),
    "cost": ("cost", "solo-ada"),
}


def run(
    command: str, folder: Path, prefix: str = "", suffix: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    """Return how a command ended in a shell in a folder, with shell code around it."""
    words = " ".join(COMMANDS[command])
    script = f"{prefix} exec {sys.executable} -P -m allotment {words} {suffix}"
    return subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the output can't be written: No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "/x/y"), "/x/y can't be written: Read-only file system"),
        (OSError(errno.EACCES, "Permission denied", "/x"), "/x can't be opened: Permission denied"),
        (OSError(errno.EACCES, "Permission denied", b"/\xff"), "/\\udcff can't be opened: Permission denied"),
        (OSError(errno.ENOTDIR, "Not a directory", "/dev/null"), "/dev/null is no folder: name another"),
        (OSError(errno.EEXIST, "File exists", "/dev/null"), "/dev/null is no folder: name another"),
        (OSError(errno.EEXIST, "File exists", "/"), ""),
        (OSError(errno.EMFILE, "Too many open files"), "the system refuses: Too many open files"),
        (
            OSError(errno.ELOOP, "Too many levels of symbolic links", "a"),
            "a can't be opened: Too many levels of symbolic links",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
            "no temporary folder can be written: set TMPDIR to a folder with free space",
        ),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/x"), ""),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), ""),
        (OSError(errno.EINVAL, "Invalid argument"), ""),
    ],
)
def test_an_error_of_the_machine_is_a_sentence_and_any_other_a_bug(error: OSError, text: str) -> None:
    assert explain_os_error(error) == text


def test_a_deleted_current_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError) as raised:
        os.getcwd()
    assert explain_os_error(raised.value) == "the current folder no longer exists: go to another folder"


@pytest.mark.process
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_output_is_an_error_and_a_closed_error_stream_is_none(command: str, published: Place) -> None:
    closed = run(command, published.root, suffix=">&-")
    assert (closed.returncode, closed.stderr) == (
        2,
        "allot: the standard output is closed: send it to a file, or to /dev/null\n",
    )
    plain, silent = run(command, published.root), run(command, published.root, suffix="<&- 2>&-")
    assert (silent.returncode, silent.stdout) == (plain.returncode, plain.stdout)
    assert plain.stdout


@pytest.mark.process
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_of_the_output_is_a_sentence(command: str, published: Place) -> None:
    full = run(command, published.root, suffix=">/dev/full")
    assert (full.returncode, full.stderr.splitlines()[-1:]) == (
        2,
        ["allot: the output can't be written: No space left on device"],
    )


@pytest.mark.process
@pytest.mark.parametrize("command", COMMANDS)
def test_a_deleted_folder_is_a_sentence(command: str, published: Place, tmp_path: Path) -> None:
    gone = run(command, published.root, prefix=f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone;")
    assert (gone.returncode, gone.stdout, gone.stderr) == (
        2,
        "",
        "allot: the current folder no longer exists: go to another folder\n",
    )


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "shift_jis"])
def test_characters_that_an_encoding_lacks_are_escaped(encoding: str, published: Place) -> None:
    """The plan of a change has arrows between the old and the new value."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "allotment", "instance", "stop", "solo-ada/webui"],
        cwd=published.root,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    arrow = "→" if encoding == "shift_jis" else "\\u2192"
    assert arrow in ended.stdout.decode(encoding)


def few_handles() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))


def no_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.process
@pytest.mark.parametrize("limit", [few_handles, no_files])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_limit_of_the_process_is_a_sentence_or_has_no_effect(
    command: str, limit: Callable[[], None], published: Place
) -> None:
    ended = run(command, published.root, preexec_fn=limit)
    assert BUG not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0 or (ended.returncode, ended.stderr.startswith("allot: ")) == (2, True), ended


@pytest.mark.process
@pytest.mark.parametrize(
    "variables",
    [
        {"HOME": None},
        {"HOME": ""},
        {"HOME": "/dev/null"},
        {"XDG_CACHE_HOME": "relative"},
        {"XDG_CACHE_HOME": "/dev/null"},
        {"TMPDIR": "/nonexistent"},
        {"PYTHONOPTIMIZE": "2"},
        {"PYTHONWARNINGS": "error"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "xx_YY.Z"},
        {"COLUMNS": "-5"},
        {"COLUMNS": "x"},
        {"TERM": "nonsense"},
        {"TZ": "Nowhere/X"},
        {"SSL_CERT_FILE": "/nonexistent"},
        {"USER": "", "LOGNAME": ""},
    ],
    ids=lambda variables: " ".join(f"{name}={value}" for name, value in variables.items()),
)
def test_an_odd_environment_changes_nothing(variables: dict[str, str | None], published: Place) -> None:
    environment = {name: value for name, value in (os.environ | variables).items() if value is not None}
    for command in ("validate", "publish"):
        plain, odd = run(command, published.root), run(command, published.root, env=environment)
        assert (odd.returncode, odd.stdout) == (plain.returncode, plain.stdout), odd.stderr
        assert plain.stdout
