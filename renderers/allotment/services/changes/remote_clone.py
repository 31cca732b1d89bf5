"""A cached bare clone of a remote repository, for commands that change a repository without a folder."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from allotment.adapters.checkout_paths import is_in_checkout
from allotment.adapters.file_cache import cache_folder
from allotment.adapters.git.commands import QUIET_SETTINGS, GitCommands
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused, quote_value

_MAX_OUTPUT = 400  # characters of Git's output
_AUTHORITY_END = re.compile("[/?#]")
_URL = re.compile(r"(?:https?|ssh|git|file)://[^\s]+")


def is_repository_url(text: str) -> bool:
    """Return whether a text is the URL of a repository and not the path of a folder."""
    return _URL.fullmatch(text) is not None


def name_clone_folder(url: str) -> Path:
    """Return the folder of the clone of a URL. The folder may not exist yet."""
    return cache_folder() / f"clone-{hashlib.sha256(url.encode()).hexdigest()[:24]}.git"


def open_remote_clone(url: str) -> tuple[Path, Remote]:
    """Return the folder of the clone of a URL, and the remote `origin` with this URL. Creates the clone if necessary.

    Each URL has its own clone in the user's cache folder. The clone keeps the fetched objects, so that the next command
    fetches only new objects. Raises OperationRefused if the URL is invalid or contains credentials, or if the remote
    doesn't answer.
    """
    _check_url(url)
    folder = name_clone_folder(url)
    if is_in_checkout(folder):
        raise OperationRefused(
            f"the cache folder {folder.parent} is in a work tree, and a stranger may have committed its files: set XDG_CACHE_HOME"
        )
    if not folder.exists():
        _create_clone(folder, url)
    repository = Repository(folder, GitCommands(folder, alone=True))
    remote = Remote(repository, "origin", keep=True)
    _point_head(repository, remote)
    return folder, remote


def _check_url(url: str) -> None:
    """Raise OperationRefused if the URL is invalid or contains credentials. Only an SSH URL may contain a user name."""
    scheme, _, rest = url.partition("://")
    user, at, host = _AUTHORITY_END.split(rest, maxsplit=1)[0].rpartition("@")
    if at and (scheme != "ssh" or ":" in user):
        raise OperationRefused(
            f"the URL contains a password or a token before {quote_value(f'@{host}')}, which other users of this computer"
            " can read: remove it, and give it to a credential helper of Git"
        )
    try:
        urlsplit(url).port  # noqa: B018 - the access checks the host and the port
    except ValueError as error:
        raise OperationRefused(f"{quote_value(url)} is no valid URL: {error}: write https://HOST/OWNER/NAME") from None


def _create_clone(folder: Path, url: str) -> None:
    """Create a bare repository with the remote `origin`. If another process is faster, keep its repository.

    Raises OperationRefused if the folder can't be written.
    """
    try:
        _write_clone(folder, url)
    except OSError as error:
        if not folder.is_dir():
            raise OperationRefused(
                f"the clone {quote_value(str(folder))} can't be written: {error.strerror}: correct the cache folder"
            ) from None


def _write_clone(folder: Path, url: str) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clone-", dir=folder.parent) as name:
        draft = Path(name) / "clone.git"
        GitCommands.init(draft)
        GitCommands(draft, alone=True).configure([("remote.origin.url", url)])
        draft.rename(folder)


def _point_head(repository: Repository, remote: Remote) -> None:
    """Point HEAD of the clone at the commit of the remote's HEAD."""
    head = remote.fetch("HEAD").get("HEAD")
    if head is None:
        raise OperationRefused(f"{remote.display_url} has no default branch: push a first commit")
    ended = repository.git.run("update-ref", "--no-deref", "HEAD", head, settings=QUIET_SETTINGS)
    if ended.exit_code and not repository.has_commits():  # another process may move HEAD at the same time
        raise OperationRefused(f"{repository.folder} can't be written: {ended.stderr.strip()[-_MAX_OUTPUT:]}")
