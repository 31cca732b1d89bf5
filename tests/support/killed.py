"""Runs a program that is killed at a step of its choosing: before it starts a command, or while a remote moves refs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# Before the `step`-th command that isn't one of Git's that only read is started, all of the program's group is killed; what the
# command was lies in a file then.
_SCRIPT = """
import os, runpy, signal, sys
step, output_file = int(sys.argv[1]), sys.argv[2]
os.environ["KILLED_GROUP"] = str(os.getpgrp())
seen = 0
reads = ("version", "cat-file", "rev-parse", "merge-base", "ls-remote")
def count(event, arguments):
    global seen
    if event == "subprocess.Popen" and arguments[1][1] not in reads:
        seen += 1
        if seen == step:
            with open(output_file, "w") as file:
                file.write(" ".join(map(os.fsdecode, arguments[1])))
            os.killpg(0, signal.SIGKILL)
sys.addaudithook(count)
sys.argv = sys.argv[3:]
if sys.argv[0] == "-c":
    exec(sys.argv.pop(1), {"__name__": "__main__"})
else:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
# Git talks to a remote in a session of its own, so the program is another group.
_HOOK = '#!/bin/sh\n[ "$1$KILLED_AT" = "{moment}0" ] || exit 0\nrm -- "$0"\nkill -KILL "-$KILLED_GROUP"\nkill -KILL 0\n'


class Run(NamedTuple):
    """How a run ended: its exit status, negative if it was killed, and the command that it was about to start then."""

    code: int
    command: str = ""

    @property
    def killed(self) -> bool:
        return self.code < 0


def killed_at(step: int, output_file: Path, *words: str) -> Run:
    """Run `python -m MODULE …`, or `-c TEXT …`, killed before its `step`-th command that may write; with 0 only where `kill_when` says.
    `output_file` is a file to write to."""
    output_file.unlink(missing_ok=True)
    command = [sys.executable, "-c", _SCRIPT, str(step), str(output_file), *words]
    own = {**os.environ, "KILLED_AT": str(step)}
    done = subprocess.run(command, capture_output=True, check=False, start_new_session=True, env=own)
    assert done.returncode in (0, -9), done.stderr.decode()
    return Run(done.returncode, output_file.read_text() if output_file.exists() else "")


def kill_when(remote: Path, moment: str) -> None:
    """Let a run of `killed_at(0, …)` that pushes to a bare repository be killed, with Git there: at `received`, before any ref
    moves, or `committed`, when all have."""
    name, argument = ("pre-receive", "") if moment == "received" else ("reference-transaction", moment)
    hook = remote / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_HOOK.format(moment=argument))
    os.chmod(hook, 0o755)


def kill_everywhere(remote: Path, killed: Callable[[int], tuple[Run, bool]]) -> None:
    """Kill a program that commits and pushes before each of its commands that may write, then at both ends of its push, and see
    that it takes effect with the push and not before. `killed` runs it with something new, killed at a step, and returns how it
    ended and whether that took effect."""
    seen: list[tuple[Run, bool]] = []
    while not seen or seen[-1][0].killed:
        seen.append(killed(len(seen) + 1))
    commands = [run.command for run, _ in seen]
    assert any("fast-import" in command for command in commands), "before the commits"
    assert any(" push " in command for command in commands), "between the commits and the push"
    assert [new for _, new in seen] == [False] * (len(seen) - 1) + [True]
    for moment, took_effect in (("received", False), ("committed", True)):
        kill_when(remote, moment)
        run, new = killed(0)
        assert (run.killed, run.command, new) == (True, "", took_effect), f"in the push, {moment}"
