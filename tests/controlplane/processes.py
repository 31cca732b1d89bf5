"""Processes that outlive who started them, and are found again by a mark in their environment, also after a crash."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.support.waiting import Final, NotInTime, eventually

MARK = "ALLOT_CONTROLPLANE_OF"  # its value is the folder that the process belongs to; children inherit it
LOOPBACK = "127.0.0.1"
SHOWN = 20  # lines of a log
# Go programs collect garbage a third as often, up to a limit of memory: a test bed has more memory than cores.
GO = {"GOGC": "300", "GOMEMLIMIT": "1000MiB"}
_children: list[subprocess.Popen[bytes]] = []  # of this process; whom it forgets it would be warned about


class NotStarted(Final):
    """A program ended, or can't be started."""


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with the folder's mark, and `more`."""
    return {**GO, **os.environ, **(more or {}), MARK: str(folder)}


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Let one process of this machine at a time do something: who comes later waits."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def start(folder: Path, name: str, command: Sequence[str | Path], more: Mapping[str, str] | None = None) -> Started:
    """Start a program in a session of its own; what it says goes to `logs/<name>.log` in the folder."""
    log = folder / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as log_file:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
            env=environment(folder, more),
        )
    _children.append(process)
    return Started(name, process, log)


class Started(NamedTuple):
    """A program that was just started, and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, well: Callable[[], object], seconds: float = 60) -> None:
        """Return once `well` is true. Raises NotStarted if the program ends before, and NotInTime if that takes too long, each
        with the end of the log."""

        def is_well() -> bool:
            if self.process.poll() is not None:
                raise NotStarted(f"{self.name} ended with {self.process.returncode}")
            return bool(well())

        try:
            eventually(is_well, self.name, seconds)
        except (NotInTime, NotStarted) as error:
            last_lines = self.log.read_text(errors="replace").splitlines()[-SHOWN:]
            raise type(error)("\n".join([str(error), *last_lines])) from None


def running(folder: Path, name: str | None = None) -> list[psutil.Process]:
    """Return the processes that carry the folder's mark, those of one program or all."""
    marked = [process for process in psutil.process_iter() if _mark(process) == str(folder)]
    return marked if name is None else [process for process in marked if _has_name(process, name)]


def _has_name(process: psutil.Process, name: str) -> bool:
    """Return whether a process has a name; False if it ended in the meantime."""
    try:
        return bool(process.name() == name)
    except psutil.NoSuchProcess:
        return False


def _mark(process: psutil.Process) -> str | None:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return None
        mark: str | None = process.environ().get(MARK)
        return mark
    except (psutil.Error, OSError):  # gone meanwhile, or somebody else's
        return None


def listening(folder: Path) -> set[tuple[str, str]]:
    """Return who of the folder's processes listens where: program and address."""
    return {
        (process.name(), connection.laddr.ip)
        for process in running(folder)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }


def stop(folder: Path, seconds: float = 5, name: str | None = None) -> int:
    """End every process of the folder, or those of one program, and return how many there were; who doesn't end in time is
    killed."""
    processes = running(folder, name)
    if seconds:
        for process in processes:
            _quietly(process.terminate)
        psutil.wait_procs(processes, timeout=seconds)
    while left := running(folder, name):  # who didn't end, and whom those started meanwhile
        for process in left:
            _quietly(process.kill)
        psutil.wait_procs(left, timeout=5)
    _children[:] = [child for child in _children if child.poll() is None]
    return len(processes)


def _quietly(end: Callable[[], None]) -> None:
    try:
        end()
    except psutil.NoSuchProcess:
        return


def free_ports() -> Iterator[int]:
    """Yield ports of the loopback that nobody listens on, each once."""
    used_ports: set[int] = set()
    while True:
        with socket.socket() as probe_socket:
            probe_socket.bind((LOOPBACK, 0))
            port = probe_socket.getsockname()[1]
        if port not in used_ports:
            used_ports.add(port)
            yield port
