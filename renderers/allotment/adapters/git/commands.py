"""Runs Git's commands in one repository, with an environment in which no configuration of a person changes their meaning.

A command refers to untrusted content, such as a pull request, only by object IDs and full ref names. These follow
`--end-of-options` if the command supports this option. Therefore no text of a pull request can become an option of Git.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.checkout_paths import is_in_checkout
from allotment.adapters.processes import Patience, communicate_within
from allotment.problems import OperationRefused, escape_unprintable, hide_secrets, quote_value

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
# With these settings, a person's configuration changes nothing. A push sends only the refs of its arguments: no signature or
# options, which a server can refuse. Logs are complete, in UTF-8 and in the order of paths. A merge has the result of a forge.
NEUTRAL_SETTINGS = (
    "push.gpgSign=false",
    "push.pushOption=",
    "push.followTags=false",
    "color.ui=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "log.showRoot=true",
    "diff.orderFile=/dev/null",
    "diff.renames=true",
    "merge.renames=true",
    "merge.directoryRenames=conflict",
)
# A line of progress from the remote or from Git: `remote: Counting objects: 100% (3/3), done.`
_PROGRESS = re.compile(
    r"(?:remote: )?[A-Z][a-z]+(?: [a-z]+)*: +(?:\d+%|\d+,? )|(?:remote: )?Total \d|Delta compression "
)
# The variables by which Git finds a repository. A hook of Git has those of its own repository, which may be another.
_PLACE_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX")
_PATHSPEC_VARIABLES = (
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)  # literal paths exclude them
_PLACE_COMMAND = (
    "rev-parse",
    "--path-format=absolute",
    "--show-object-format",
    "--git-dir",
    "--git-common-dir",
    "--show-toplevel",
)


class GitFailed(Exception):
    """Git ended with an error. The message is Git's output on one line, without secrets."""

    def __init__(self, output: str) -> None:
        super().__init__(hide_secrets(output))


class NotInRepository(OperationRefused):
    """The folder is not in a Git repository."""


class GitResult(NamedTuple):
    """The exit status, output and errors of a Git command. The errors contain no secrets."""

    exit_code: int
    stdout: bytes
    stderr: str

    @property
    def message(self) -> str:
        """The errors on one line."""
        return _join_words(self.stderr)


class _OpenRepository(NamedTuple):
    """The folder to run Git in, Git's data folder of the work tree, and that of all work trees, as Git reports them.

    `work_tree` is None in a bare repository. `environment` is that of Git. `object_format` is `sha1` or `sha256`.
    """

    folder: Path
    data: Path
    common: Path
    work_tree: Path | None
    environment: Mapping[str, str]
    object_format: str


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
        self._open_repository: _OpenRepository | None = None
        self._remote_settings: dict[tuple[str, str], list[str]] | None = None

    @staticmethod
    def init(folder: Path) -> None:
        """Create a bare repository without the hooks of the user's template. Raises OperationRefused if Git fails."""
        words = ("init", "--quiet", "--bare", "--template=", str(folder))
        ended = complete(_start_git(words, (), folder.parent, git_environment()))
        if ended.exit_code:
            raise OperationRefused(f"Git can't create the repository {folder}: {ended.message}")

    def reset(self) -> None:
        """Open the repository again when it is next used."""
        self._open_repository = self._remote_settings = None

    def run_text(self, command: str, *arguments: str, settings: Iterable[str] = ()) -> str:
        """Return the output of a command without its last newline. Raises GitFailed."""
        ended = self.run(command, *arguments, settings=settings)
        if ended.exit_code:
            raise GitFailed(_join_words(f"{_decode(ended.stdout)}\n{ended.stderr}"))
        return _decode(ended.stdout).removesuffix("\n")

    def run(
        self,
        command: str,
        *arguments: str,
        data: bytes = b"",
        settings: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> GitResult:
        """Run a command with `data` as its input, and return its result. Does not raise if the command fails."""
        return complete(self._start(command, *arguments, settings=settings, environment=environment), data)

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
        process = self._start(command, *arguments, settings=settings, environment=environment, is_session=True)
        out, errors = communicate_within(process, patience, on_silence)
        if process.returncode:
            lines = [line.rpartition("\r")[2] for line in _decode(out + b"\n" + errors).split("\n")]
            raise GitFailed(_join_words(" ".join(line for line in lines if not _PROGRESS.match(line))))
        return _decode(out).removesuffix("\n")

    def start_object_reader(self) -> subprocess.Popen[bytes]:
        """Start Git's object reader, a process with pipes. Parent and child must not share the pipes after a fork."""
        return self._start("cat-file", "--batch-command", "--buffer")

    def start_import(self) -> subprocess.Popen[bytes]:
        """Start `git fast-import`, a process with pipes. Its input ends with the line `done`."""
        return self._start("fast-import", "--quiet", "--done", settings=QUIET_SETTINGS)

    def configure(self, settings: Iterable[tuple[str, str]]) -> None:
        """Write settings (name, value) into the repository's own configuration. Raises GitFailed."""
        for name, value in settings:
            self.run_text("config", "--local", name, value)
        self._remote_settings = None

    @property
    def folder(self) -> Path:
        """The folder to run Git in."""
        return self._open().folder

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of Git in this repository."""
        return self._open().environment

    @property
    def work_tree(self) -> Path | None:
        """The folder of the work tree; None in a bare repository."""
        return self._open().work_tree

    @property
    def work_tree_data(self) -> Path:
        """The folder with Git's data about this work tree, such as its index."""
        return self._open().data

    @property
    def common_folder(self) -> Path:
        """The folder that all work trees of the repository share."""
        return self._open().common

    @property
    def objects_folder(self) -> Path:
        """The folder of Git's objects."""
        return self.common_folder / "objects"

    @property
    def null_id(self) -> str:
        """The id that stands for no object."""
        return "0" * (64 if self._open().object_format == "sha256" else 40)

    @property
    def origin_remedy(self) -> str:
        """The command that gives this repository a remote named origin."""
        other = next(iter(self.remotes), None)
        return f"`git remote rename {shlex.quote(other)} origin`" if other else "`git remote add origin URL`"

    @property
    def remotes(self) -> list[str]:
        """The names of the remotes with a URL."""
        return [name for name, key in self._read_remotes() if key == "url"]

    def url_of(self, remote: str) -> str | None:
        """Return the configured URL of a named remote, the first of several; None if there is none. `url.*.insteadOf` has no
        effect."""
        return next(iter(self._read_remotes().get((remote, "url"), [])), None)

    def has_several_urls(self, remote: str) -> bool:
        """Return whether a named remote has more than one URL, or another URL for pushes."""
        settings = self._read_remotes()
        return len(settings.get((remote, "url"), [])) > 1 or (remote, "pushurl") in settings

    def _read_remotes(self) -> dict[tuple[str, str], list[str]]:
        """Return the values of the settings of remotes by remote and setting. They are read once."""
        if self._remote_settings is None:
            self._remote_settings = {}
            listed = self.run("config", "-z", "--get-regexp", r"^remote\..*\.(url|pushurl)$")
            for setting in _decode(listed.stdout).split("\0"):
                name, _, value = setting.partition("\n")
                remote, _, key = name.removeprefix("remote.").rpartition(".")
                if value:
                    self._remote_settings.setdefault((remote, key), []).append(value)
        return self._remote_settings

    def _start(
        self,
        command: str,
        *arguments: str,
        settings: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        is_session: bool = False,
    ) -> subprocess.Popen[bytes]:
        place = self._open()
        variables = {**place.environment, **(environment or {})}
        return _start_git((command, *arguments), settings, place.folder, variables, is_session=is_session)

    def _open(self) -> _OpenRepository:
        """Return Git's answer about the repository. Raises OperationRefused if there is none, or if Git can't read it."""
        if self._open_repository is None:
            root = self._find_repository()
            if root is None:
                raise NotInRepository(f"{self._start_folder} is not in a Git repository, so there is no commit to read")
            if "\n" in str(root):
                raise OperationRefused(
                    f"{quote_value(str(root))} has a line break in its name, which Git's output can't contain"
                )
            environment = git_environment() | self._environment
            ended = complete(_start_git(_PLACE_COMMAND, (), root, environment))
            # In a bare repository, the last argument is an error.
            object_format, *folders = _decode(ended.stdout).removesuffix("\n").split("\n")
            if not object_format:
                raise self._opening_error(root, ended.stderr)
            data, common, *tops = map(Path, folders)
            # Git skips a damaged `.git` folder, and takes a repository around it, or the folder itself for a bare repository.
            if data.resolve() != (root / ".git").resolve() and (root / ".git").is_dir():
                raise OperationRefused(f"Git can't open the repository {root}: the folder .git is damaged")
            if tops and not root.is_relative_to(tops[0].resolve()):
                raise OperationRefused(
                    f"the setting core.worktree of {root} names the work tree {tops[0]}: name this folder, or run"
                    f" `git config --unset core.worktree`"
                )
            self._open_repository = _OpenRepository(
                root,
                data.resolve(),
                common.resolve(),
                next(iter(tops), None),
                environment | self._sandbox_environment(common.resolve()),
                object_format,
            )
        return self._open_repository

    def _opening_error(self, root: Path, message: str) -> OperationRefused:
        """Return the error about a repository that Git refuses, with Git's message, or with the way out."""
        if "dubious ownership" in message:
            return OperationRefused(
                f"{root} belongs to another user, and Git reads the configuration of no other user: if you trust this user, run"
                f" `git config --global --add safe.directory {shlex.quote(str(root))}`"
            )
        if "safe.bareRepository" in message:
            return OperationRefused(
                f"Git opens no bare repository here, because safe.bareRepository is explicit: name a work tree instead of {root}"
            )
        return OperationRefused(
            f"Git can't open the repository {root}: {escape_unprintable(_join_words(message), 400)}"
        )

    def _find_repository(self) -> Path | None:
        """Return the nearest folder with `.git`, or the start folder if it is a bare repository without declarations.

        A pull request may contain the files of a bare repository, but no `.git`. Their configuration could name programs, and
        another `origin`. So a folder in a work tree, or with declarations, is no bare repository. Returns None if there is no
        repository.
        """
        folder = self._start_folder if self._is_repository else self._start_folder.resolve()
        is_bare = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
        if self._is_repository or (
            is_bare
            and not any(os.path.lexists(folder / name) for name in (".git", "platform"))
            and not is_in_checkout(folder)
        ):
            return folder
        return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)

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


def _join_words(text: str) -> str:
    return " ".join(text.split())


def git_environment() -> dict[str, str]:
    """Return the environment of Git: that of this process without the variables that name a repository, and ENVIRONMENT."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in (*_PLACE_VARIABLES, *_PATHSPEC_VARIABLES)
    }
    return inherited | ENVIRONMENT


def _start_git(
    words: Iterable[str],
    settings: Iterable[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    is_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start Git in a folder. In its own session, it has no input. Raises OperationRefused if Git or the folder is missing."""
    configured = [word for setting in (*settings, *NEUTRAL_SETTINGS) for word in ("-c", setting)]
    try:
        return subprocess.Popen(  # noqa: S603  # no text of a stranger is an option
            ["git", *configured, *words],  # noqa: S607  # the user's Git
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL if is_session else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=is_session,
        )
    except FileNotFoundError as error:
        if error.filename == "git":
            raise OperationRefused("Git is not installed, or not in PATH: install Git 2.39 or newer") from None
        raise OperationRefused(f"{folder} can't be opened: {error.strerror}") from None


def complete(process: subprocess.Popen[bytes], data: bytes = b"") -> GitResult:
    """Give Git its input, wait for its end, and return its result."""
    with process:
        try:
            out, errors = process.communicate(data)
        except BaseException:  # also after an interrupt, Git must end before the caller removes Git's folder
            process.kill()
            raise
    message = errors.decode("utf-8", "replace")
    if not message and process.returncode < 0:
        message = f"a signal ended Git: {signal.strsignal(-process.returncode)}"
    return GitResult(process.returncode, out, hide_secrets(message))
