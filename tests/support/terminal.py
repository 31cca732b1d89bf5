"""What a person sees: a command, or a session of a shell, on a terminal of so many columns."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pexpect  # type: ignore[import-untyped]  # it has no types

ALLOT = (sys.executable, "-P", "-m", "allotment")
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_PROMPT = "next> "


class Shown(NamedTuple):
    """What a terminal shows, with its colours, and the exit status."""

    raw: str
    status: int

    @property
    def text(self) -> str:
        """What is read, without colours."""
        return _STYLE.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        """The lines that are read."""
        return self.text.splitlines()


def run_in_terminal(
    words: Sequence[str], cwd: Path, columns: int = 80, environment: Mapping[str, str] | None = None, wait: float = 60
) -> Shown:
    """Return what a command shows on a terminal."""
    here = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    more = {**here, "TERM": "xterm", **(environment or {})}
    child = pexpect.spawn(
        words[0], list(words[1:]), cwd=str(cwd), env=more, dimensions=(50, columns), encoding="utf-8", timeout=wait
    )
    child.expect(pexpect.EOF)
    child.close()
    return Shown(str(child.before).replace("\r\n", "\n"), child.exitstatus if child.exitstatus is not None else -1)


class Session:
    """A shell that a person types into."""

    def __init__(self, cwd: Path, environment: Mapping[str, str], columns: int = 80) -> None:
        more = {**os.environ, "TERM": "xterm", "PS1": _PROMPT, **environment}
        self._child = pexpect.spawn(
            "bash",
            ["--norc"],
            cwd=str(cwd),
            env=more,
            dimensions=(50, columns),
            encoding="utf-8",
            echo=False,
            timeout=60,
        )
        self._child.sendline(f"PS1='{_PROMPT}'; bind 'set enable-bracketed-paste off'; stty -echo")
        self._child.expect_exact(_PROMPT)
        self.types("true")

    def types(self, command: str, status: int = 0) -> str:
        """Type a command, and return what it shows, once the shell asks for the next; check how it ended."""
        self._child.sendline(f"{command}; echo ended:$?:")
        self._child.expect(r"ended:(\d+):\r\n")
        output, ended = _STYLE.sub("", str(self._child.before)).replace("\r\n", "\n"), int(self._child.match.group(1))
        self._child.expect_exact(_PROMPT)
        output = output.removeprefix(_PROMPT)
        assert ended == status, f"{command} ended with {ended}:\n{output}"
        return output

    def asks(self, question: str, answer: str) -> None:
        """Wait for a question of a command that was sent, and answer it."""
        self._child.expect_exact(question)
        self._child.sendline(answer)

    def begins(self, command: str) -> None:
        """Type a command that asks, without waiting for its end."""
        self._child.sendline(f"{command}; echo ended:$?:")

    def ended(self) -> str:
        """Return what a command that `begins` began shows at last, once it has ended well."""
        self._child.expect(r"ended:(\d+):\r\n")
        output = _STYLE.sub("", str(self._child.before)).replace("\r\n", "\n")
        assert self._child.match.group(1) == "0", output
        self._child.expect_exact(_PROMPT)
        return output

    def close(self) -> None:
        """End the shell."""
        self._child.close(force=True)


def start_dialogue(folder: Path, *words: str) -> pexpect.spawn:
    """Start `allot` with some words on a terminal, in a folder."""
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "110"}
    command = [*ALLOT, *words]
    return pexpect.spawn(
        command[0], command[1:], cwd=str(folder), env=environment, dimensions=(50, 110), encoding="utf-8", timeout=60
    )


def answer_questions(child: pexpect.spawn, *answers: tuple[str, str]) -> tuple[str, int]:
    """Wait for each question, and type its answer. Return the output after the last answer, and the exit status."""
    for question, answer in answers:
        child.expect_exact(question)
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before).replace("\r\n", "\n"), child.exitstatus
