"""A Git repository on this machine: opened once a process, names resolved, nothing checked out."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import weakref
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import git

from allotment.problems import Refused

# Nobody is asked for a password, messages are Git's own, no transport runs a command of a URL's, a path is no pattern.
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_LITERAL_PATHSPECS": "1",
}


_ASKED = 500  # blobs asked for at once: their ids fit a pipe
_IDENTITY = re.compile(rb"[^<>\0]+ <[^<>\0]*> [0-9]{1,11} [+-][0-9]{4}")


class Repository:
    """The repository around a folder. Raises Refused, when it is first used, where there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: tuple[int, git.Repo] | None = None
        self._committer: bytes | None = None
        self._signs: bool | None = None
        self._reader: tuple[int, Any, Any] | None = None

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """Return the repository at a folder, a new one without a work tree where there is none."""
        if not (folder / "HEAD").exists():
            git.Repo.init(folder, bare=True)
        return cls(folder)

    def tidy(self) -> None:
        """Let Git's housekeeping run, if it is due, and wait for it."""
        self.open().git(c="gc.autoDetach=false").gc("--auto", "--quiet")

    def open(self) -> git.Repo:
        """Return GitPython's object, one a process: the pipe to Git's object reader can't be shared after a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                found = git.Repo(self.folder, search_parent_directories=True)
            except (git.InvalidGitRepositoryError, git.NoSuchPathError):
                raise Refused(f"{self.folder} is in no Git repository, so there is no commit to read") from None
            found.git.update_environment(**ENVIRONMENT)
            self._opened = (os.getpid(), found)
        return self._opened[1]

    def without_hooks(self) -> Any:
        """Return GitPython's command, for one call, in which no hook of the repository runs.

        What it fetches or writes comes as a pack, whole or not at all: single objects, of one that was killed, could lack
        others. That is quicker too; housekeeping brings packs together.
        """
        packs = ["fetch.unpackLimit=1", "fastimport.unpackLimit=1"]
        return self.open().git(c=[f"core.hooksPath={os.devnull}", *packs])

    def resolve(self, name: str, otherwise: str) -> str:
        """Return the id of the commit or tree that a name means. Raises Refused with the words of `otherwise`."""
        if "\n" in name or "\0" in name:
            raise Refused(otherwise)
        process = self.open().git.cat_file("--batch-check", as_process=True, istream=-1)
        out, _ = process.communicate(name.encode() + b"\n")
        answer = out.decode("utf-8", "replace").split()
        if len(answer) != 3 or answer[1] not in ("commit", "tree"):
            raise Refused(otherwise)
        return str(answer[0])

    def fields(self, command: str, *arguments: str) -> Generator[bytes, None, None]:
        """Yield what a command of Git's says, split at its zero bytes, as it comes; who has enough just stops reading.

        Raises Refused with Git's words where it fails.
        """
        process = getattr(self.open().git, command)(*arguments, as_process=True)
        rest, whole = b"", False
        try:
            while chunk := process.stdout.read(1 << 16):
                *several, rest = (rest + chunk).split(b"\0")
                yield from several
            whole = True
        finally:
            process.stdout.close()
            if not whole:
                process.proc.terminate()
            status = process.proc.wait()
        if status:
            raise Refused(f"git {command.replace('_', '-')} ended with {status}: the repository may be damaged")

    def top(self, folder: Path) -> str:
        """Return where a folder lies in the repository's commits, empty for their top."""
        tree = self.open().working_tree_dir  # a bare repository has none
        found = folder.resolve().relative_to(Path(tree).resolve()).as_posix() if tree else "."
        return "" if found == "." else found

    def listing(self, commit: str, folder: str = "") -> dict[str, str]:
        """Return the blob id of every file of a commit, or of one of its folders, by its path. Raises Refused where it isn't here."""
        try:
            entries = self.open().git.ls_tree("-r", "-z", "--full-tree", f"{commit}:{folder}")
        except git.GitCommandError:
            raise Refused(f"commit {commit} can't be read here: fetch the whole repository") from None
        prefix = f"{folder}/" if folder else ""
        split = (entry.partition("\t") for entry in entries.split("\0") if entry)
        return {prefix + path: meta.split()[2] for meta, _, path in split}

    def read(self, blob: str) -> bytes:
        """Return a blob's bytes."""
        data: bytes = self.open().git.get_object_data(blob)[3]
        return data

    def read_all(self, blobs: Sequence[str]) -> list[bytes]:
        """Return the bytes of some blobs, asked for at once: one turn to Git's object reader, not one a blob.

        They are so few that Git isn't kept from reading on by what it has answered. Raises Refused where one isn't here.
        """
        if self._reader is None or self._reader[0] != os.getpid():
            process = self.open().git.cat_file("--batch", as_process=True, istream=-1)
            self._reader = os.getpid(), process, weakref.finalize(self, _end, os.getpid(), process)
        _, process, end = self._reader
        try:
            return self._answers(process, blobs)
        except BaseException:  # what it would still say is no answer to whatever is asked next
            self._reader = None
            end()
            raise

    def _answers(self, process: Any, blobs: Sequence[str]) -> list[bytes]:
        found = []
        for at in range(0, len(blobs), _ASKED):
            some = blobs[at : at + _ASKED]
            process.stdin.write("".join(f"{blob}\n" for blob in some).encode("ascii"))
            process.stdin.flush()
            for blob in some:
                header = process.stdout.readline().split()
                if len(header) != 3:
                    raise Refused(f"object {blob} isn't here: fetch the whole repository")
                found.append(process.stdout.read(int(header[2])))
                process.stdout.read(1)
        return found

    def sizes(self, blobs: Sequence[str]) -> dict[str, int]:
        """Return the size of each blob in bytes."""
        process = self.open().git.cat_file("--batch-check", as_process=True, istream=-1)
        out, _ = process.communicate("".join(f"{blob}\n" for blob in blobs).encode("ascii"))
        lines = [line.split() for line in out.decode("ascii").splitlines()]
        return {blob: int(line[2]) for blob, line in zip(blobs, lines, strict=True)}

    def read_at(self, commit: str, path: str) -> bytes | None:
        """Return the bytes of a file in a commit; None where there is no such file, or the commit isn't here."""
        try:
            data: bytes = self.open().git.get_object_data(f"{commit}:{path}")[3]
        except ValueError:
            return None
        return data

    def has(self, commit: str) -> bool:
        """Return whether the object of an id is here."""
        return self._said("cat_file", "-e", commit) is not None

    def is_ancestor(self, one: str, other: str) -> bool:
        """Return whether commit `one` is `other` or comes before it."""
        return self._said("merge_base", "--is-ancestor", one, other) is not None

    def author(self, commit: str) -> bytes:
        """Return who wrote a commit and when, as its header has it: `name <mail> time zone`.

        Whoever pushed it wrote that line; where it isn't of that form, it is whom commits of now are by.
        """
        line = next(line for line in self._header(commit) if line.startswith(b"author "))
        author = line.removeprefix(b"author ")
        return author if _IDENTITY.fullmatch(author) else self.committer()

    def _header(self, commit: str) -> list[bytes]:
        header: bytes = self.open().git.get_object_data(commit)[3].partition(b"\n\n")[0]
        return header.split(b"\n")

    def parents(self, commit: str) -> list[str]:
        """Return a commit's parents."""
        return [line.split()[1].decode("ascii") for line in self._header(commit) if line.startswith(b"parent ")]

    def committed_at(self, commit: str) -> int:
        """Return when a commit was made, in seconds since 1970."""
        line = next(line for line in self._header(commit) if line.startswith(b"committer "))
        return int(line.split()[-2])

    def tree_of(self, commit: str, folder: str) -> str | None:
        """Return the id of a folder's tree in a commit; None where there is no such folder."""
        try:
            header: Any = self.open().git.get_object_header(f"{commit}:{folder}")  # of bytes, whatever its types say
        except ValueError:
            return None
        return header[0].decode("ascii") if header[1] == b"tree" else None

    def last_message(self, commit: str, folder: str) -> str:
        """Return what the last commit up to `commit` that changed a folder says; empty where none did."""
        return str(self.open().git.log("-1", "--format=%B", commit, "--", folder))

    def sign_with(self, key: Path) -> str:
        """Sign every commit that is made here with a private SSH key; return its public key."""
        done = subprocess.run(  # noqa: S603  # Git signs by the same program, and its arguments are ours
            ["ssh-keygen", "-y", "-P", "", "-f", str(key.resolve())],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Refused(f"{key} is no private SSH key without a passphrase: {done.stderr.strip()[-200:]}")
        with self.open().config_writer() as settings:
            settings.set_value("gpg", "format", "ssh")
            settings.set_value("user", "signingKey", str(key.resolve()))
            settings.set_value("commit", "gpgSign", "true")
        self._signs = None
        return done.stdout.strip()

    def is_signed_by(self, commit: str, key: str) -> bool:
        """Return whether a commit has a good signature of the owner of a public SSH key."""
        with tempfile.NamedTemporaryFile("w", suffix=".signers", encoding="utf-8") as signers:
            signers.write(f'reporter namespaces="git" {key}\n')
            signers.flush()
            settings = [f"gpg.ssh.allowedSignersFile={signers.name}", "gpg.format=ssh", "gpg.minTrustLevel=fully"]
            try:
                self.open().git(c=settings).verify_commit(commit)
            except git.GitCommandError:
                return False
        return True

    def is_shallow(self) -> bool:
        """Return whether a part of the history isn't here."""
        return self._said("rev_parse", "--is-shallow-repository") == "true"

    def committer(self) -> bytes:
        """Return whom commits of now are by, and when. Raises Refused where Git doesn't know.

        Who it is Git is asked once; when it is, where GIT_COMMITTER_DATE says so.
        """
        if self._committer is None or "GIT_COMMITTER_DATE" in os.environ:
            said = self._said("var", "GIT_COMMITTER_IDENT")
            if said is None:
                raise Refused(
                    "Git knows no name to commit under: set user.name and user.email with git config,"
                    " or GIT_COMMITTER_NAME and GIT_COMMITTER_EMAIL"
                )
            self._committer = said.encode().rpartition(b"> ")[0]
            return said.encode()
        return b"%s> %d +0000" % (self._committer, time.time())

    def signs(self) -> bool:
        """Return whether Git is configured to sign commits (commit.gpgSign); it is asked once."""
        if self._signs is None:
            self._signs = self._said("config", "--type=bool", "--get", "commit.gpgsign") == "true"
        return self._signs

    def _said(self, command: str, *arguments: str) -> str | None:
        """Return what Git says, or None where it says no."""
        try:
            said: str = getattr(self.open().git, command)(*arguments)
        except git.GitCommandError:
            return None
        return said


def _end(owner: int, process: Any) -> None:
    """End an object reader, in the process that began it."""
    if os.getpid() == owner:
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        process.proc.wait()
