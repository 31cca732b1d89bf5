"""Runs Git's commands in one repository. This is the only module that imports GitPython.

A command refers to untrusted content, such as a pull request, only by object IDs and full ref names. These follow
`--end-of-options` if the command supports this option. Therefore no text of a pull request can become an option of Git.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import git

from allotment.adapters.checkout_paths import is_in_checkout
from allotment.adapters.processes import Patience, communicate_within
from allotment.problems import OperationRefused, hide_secrets

# With these variables, Git prompts for no password, doesn't translate its messages, runs no command that a URL
# contains, and takes paths literally, not as patterns.
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_LITERAL_PATHSPECS": "1",
    # Objects and the parents of commits are read as stored, regardless of replace refs and grafts.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": f"{os.devnull}/none",
    "ALLOT_FORGE_TOKEN": "",  # Git needs no token of the forge's API, and its helpers and hooks get none
}
# With these settings, no hook of the repository runs. Git stores the objects of a fetch or an import as one pack, so it
# stores either all of them or none. If Git stored loose objects and was killed, a stored object could refer to a
# missing object. A pack is also faster. Git's maintenance merges the packs.
QUIET_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "fetch.unpackLimit=1",
    "fastimport.unpackLimit=1",
)
# With these settings, a command that reads a work tree starts no file system monitor, and prints no warnings about line
# endings.
READ_SETTINGS = (*QUIET_SETTINGS, "core.fsmonitor=false", "core.safecrlf=false")
# A line of progress from the remote or from Git: `remote: Counting objects: 100% (3/3), done.`
_PROGRESS = re.compile(
    r"(?:remote: )?[A-Z][a-z]+(?: [a-z]+)*: +(?:\d+%|\d+,? )|(?:remote: )?Total \d|Delta compression "
)
_GIT_ERRORS = (git.GitCommandError, git.UnsafeOptionError, git.UnsafeProtocolError)


class GitFailed(Exception):
    """Git ended with an error. The message is Git's output on one line, without secrets."""

    def __init__(self, output: str) -> None:
        super().__init__(hide_secrets(output))


class GitResult(NamedTuple):
    """The exit status, output and errors of a Git command. The errors contain no secrets."""

    exit_code: int
    stdout: bytes
    stderr: str


class GitCommands:
    """Runs Git in the repository around a folder. If there is no repository, the first command raises OperationRefused.

    - With `sandbox`, Git uses the folder `sandbox` as its `.git` folder (`sandbox_repository.py`), and also reads the
      objects of the repository around `folder`.
    - `offline` or `sandbox` prevents requests to other repositories. Without them, Git fetches the missing objects of a
      partial clone, and may start a program that the configuration of the repository names.
    - `alone` restricts Git to the folder itself: if the folder is damaged, Git must not use a repository around it.
    """

    def __init__(
        self, folder: Path, sandbox: Path | None = None, *, offline: bool = False, alone: bool = False
    ) -> None:
        self._start_folder = folder
        self._sandbox = sandbox
        self._is_repository = alone
        self._environment = {"GIT_ALLOW_PROTOCOL": "none"} if offline or sandbox is not None else {}
        if alone:
            self._environment["GIT_DIR"] = str(folder)
        self._open_repository: tuple[int, git.Repo] | None = None

    @staticmethod
    def init(folder: Path) -> None:
        """Create a bare repository."""
        git.Repo.init(folder, bare=True)

    def reset(self) -> None:
        """Open the repository again when it is next used."""
        self._open_repository = None

    def run_text(self, command: str, *arguments: str, settings: Iterable[str] = ()) -> str:
        """Return the output of a command without its last newline. Raises GitFailed."""
        try:
            return str(self._bind_command(command, settings)(*arguments))
        except _GIT_ERRORS as error:
            raise GitFailed(_error_text(error)) from None

    def run(
        self,
        command: str,
        *arguments: str,
        data: bytes = b"",
        settings: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> GitResult:
        """Run a command with `data` as its input, and return its result. Does not raise if the command fails."""
        more = {"env": dict(environment)} if environment else {}
        process = self._bind_command(command, settings)(*arguments, as_process=True, istream=-1, **more)
        try:
            out, errors = process.communicate(data)
        except BaseException:  # also after an interrupt, Git must end before the caller removes Git's folder
            process.proc.kill()
            process.proc.wait()
            raise
        return GitResult(process.returncode, out, hide_secrets(errors.decode("utf-8", "replace")))

    def run_network(
        self,
        command: str,
        *arguments: str,
        patience: Patience,
        settings: Iterable[str] = QUIET_SETTINGS,
        environment: Mapping[str, str] | None = None,
        on_silence: Callable[[], None] = lambda: None,
    ) -> str:
        """Run a command that contacts another repository, and return its output. If Git is silent for long, call `on_silence` once.

        Raises GitFailed, and ProcessLimitExceeded if the other side exceeds `patience`. Git and its transport programs
        run in their own session, so that all of them end together and none can prompt on the terminal.
        """
        repository = self._repo().git
        configured = [word for setting in settings for word in ("-c", setting)]
        words = [repository.GIT_PYTHON_GIT_EXECUTABLE, *configured, command, *arguments]
        # The variable `started` must exist until Git ends: GitPython kills Git when Python finalizes the object.
        more: dict[str, Any] = {"env": dict(environment)} if environment else {}
        started = repository.execute(words, as_process=True, start_new_session=True, **more)
        process = started.proc
        assert process is not None
        out, errors = communicate_within(process, patience, on_silence)
        if process.returncode:
            lines = [line.rpartition("\r")[2] for line in _decode(out + b"\n" + errors).split("\n")]
            raise GitFailed(" ".join(" ".join(line for line in lines if not _PROGRESS.match(line)).split()))
        return _decode(out).removesuffix("\n")

    def start_object_reader(self) -> Any:
        """Start Git's object reader, a process with pipes. Parent and child must not share the pipes after a fork."""
        return self._repo().git.cat_file("--batch-command", "--buffer", as_process=True, istream=-1)

    def start_import(self) -> Any:
        """Start `git fast-import`, a process with pipes. Its input ends with the line `done`."""
        return self._bind_command("fast_import", QUIET_SETTINGS)("--quiet", "--done", as_process=True, istream=-1)

    def configure(self, settings: Iterable[tuple[str, str, str]]) -> None:
        """Write settings (section, name, value) into the repository's own configuration."""
        with self._repo().config_writer() as configuration:
            for setting in settings:
                configuration.set_value(*setting)

    @property
    def folder(self) -> Path:
        """The folder to run Git in."""
        return Path(self._repo().working_dir)

    @property
    def work_tree(self) -> Path | None:
        """The folder of the work tree; None in a bare repository."""
        folder = self._repo().working_tree_dir
        return Path(folder) if folder else None

    @property
    def work_tree_data(self) -> Path:
        """The folder with Git's data about this work tree, such as its index."""
        return Path(self._repo().git_dir).resolve()

    @property
    def common_folder(self) -> Path:
        """The folder that all work trees of the repository share."""
        return Path(self._repo().common_dir).resolve()

    @property
    def objects_folder(self) -> Path:
        """The folder of Git's objects."""
        return self.common_folder / "objects"

    @property
    def remotes(self) -> list[str]:
        """The names of the remotes."""
        return [git_remote.name for git_remote in self._repo().remotes]

    def url_of(self, remote: str) -> str | None:
        """Return the URL of a named remote, the first of several; None if there is none."""
        return next(iter(self._list_urls(remote)), None)

    def has_several_urls(self, remote: str) -> bool:
        """Return whether a named remote has more than one URL, or another URL for pushes."""
        remotes = [each for each in self._repo().remotes if each.name == remote]
        return len(self._list_urls(remote)) > 1 or any(each.config_reader.has_option("pushurl") for each in remotes)

    def _list_urls(self, remote: str) -> list[str]:
        """Return the configured URLs of a named remote, without the rewriting of `url.*.insteadOf`."""
        remotes = [each for each in self._repo().remotes if each.name == remote]
        values = [each.config_reader.config.get_values(f'remote "{remote}"', "url", "") for each in remotes]
        return [str(url) for urls in values for url in urls if url]

    def _bind_command(self, command: str, settings: Iterable[str]) -> Any:
        options = list(settings)
        return getattr(self._repo().git(c=options) if options else self._repo().git, command)

    def _repo(self) -> git.Repo:
        """Return GitPython's object, created once per process."""
        if self._open_repository is None or self._open_repository[0] != os.getpid():
            try:
                root = self._find_repository()
                repo = git.Repo(root, search_parent_directories=False)
                # GitPython may take a folder with an empty `.git` for a bare repository.
                if (root / ".git").exists() and Path(repo.git_dir).resolve() == root.resolve():
                    raise git.InvalidGitRepositoryError(root)
            except (git.InvalidGitRepositoryError, git.NoSuchPathError):
                raise OperationRefused(
                    f"{self._start_folder} is not in a Git repository, so there is no commit to read"
                ) from None
            repo.git.update_environment(
                **{**ENVIRONMENT, **self._environment, **self._sandbox_environment(Path(repo.common_dir))}
            )
            self._open_repository = (os.getpid(), repo)
        return self._open_repository[1]

    def _find_repository(self) -> Path:
        """Return the nearest folder with `.git`, or the start folder if it is a bare repository without declarations.

        A pull request may contain the files of a bare repository, but no `.git`. Their configuration could name programs, and
        another `origin`. So a folder in a work tree, or with declarations, is no bare repository. Raises
        git.InvalidGitRepositoryError.
        """
        folder = self._start_folder if self._is_repository else self._start_folder.resolve()
        is_bare = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
        if self._is_repository or (
            is_bare
            and not any(os.path.lexists(folder / name) for name in (".git", "platform"))
            and not is_in_checkout(folder)
        ):
            return folder
        root = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
        if root is None:
            raise git.InvalidGitRepositoryError(folder)
        return root

    def _sandbox_environment(self, shared: Path) -> dict[str, str]:
        """Return the environment variables of the sandbox; empty without a sandbox."""
        if self._sandbox is None:
            return {}
        return {
            "GIT_DIR": str(self._sandbox),
            "GIT_COMMON_DIR": str(self._sandbox),
            "GIT_INDEX_FILE": str(self._sandbox / "index"),
            "GIT_OBJECT_DIRECTORY": str(self._sandbox / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(
                [quote_list_path(shared.resolve() / "objects"), *_alternate_object_folders()]
            ),
        }


def _alternate_object_folders() -> list[str]:
    """Return the object folders in the environment variables that Git sets for a hook that checks a push."""
    own, alternates = (os.environ.get(f"GIT_{name}") for name in ("OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES"))
    return [*([quote_list_path(Path(own).resolve())] if own else []), *([alternates] if alternates else [])]


def quote_list_path(path: Path) -> str:
    """Return a path with quotes and escapes, for Git's colon-separated lists of paths."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _error_text(error: Exception) -> str:
    """Return Git's message: its standard output and its standard error."""
    if not isinstance(error, git.GitCommandError):
        return str(error)
    output = f"{error.stdout}\n{error.stderr}".replace("stdout: ", "").replace("stderr: ", "")
    return " ".join(output.split())
