"""Stores the tokens of a person in a file that only this person may read, by repository and cluster."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from allotment.adapters.checkout_paths import config_folder
from allotment.adapters.credential_files import read_if_exists
from allotment.problems import OperationRefused, escape_unprintable, hide_in_errors

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_REMEDY = "remove it, and log in again with `allot login`"


class LoginKey(NamedTuple):
    """The names of a login: the repository at origin, the cluster, its issuer, its client, and the domain of its hosts.

    `repository` is the URL of origin in the clone. At the login, the merged declarations there name the others. So files of a checkout select this login or none: they can't
    send its token to the hosts of another domain, of another cluster, or of the cloud of another repository.
    """

    repository: str
    cluster: str
    issuer: str
    client_id: str
    domain: str

    def __str__(self) -> str:
        return " ".join(self)  # only the first can contain a space


class StoredTokens(msgspec.Struct, frozen=True):
    """The tokens of a login. `expires_at` is the expiry of the ID token, in seconds since the epoch.

    `token_endpoint` is the URL that issued the tokens. Only this URL gets the refresh token.
    """

    id_token: str
    expires_at: float
    token_endpoint: str
    refresh_token: str = ""


class TokenStore:
    """The tokens in one file. Its methods raise OperationRefused if the file can't be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def open_default() -> TokenStore:
        """Return the store in the folder of the person's configuration. Raises OperationRefused if it is in a work tree."""
        return TokenStore(config_folder("allotment") / "tokens.json")

    def read(self, key: LoginKey) -> StoredTokens | None:
        """Return the stored tokens; None if there are none."""
        tokens = self._read_all().get(str(key))
        if tokens is not None:
            hide_in_errors(tokens.id_token, tokens.refresh_token)
        return tokens

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process changes the file, and keep other processes from changing it."""
        with self._explain_errors("locked"):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
            handle = os.open(
                self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE
            )
        try:
            with self._explain_errors("locked"):
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # the end of the process releases the lock, too

    def write(self, key: LoginKey, tokens: StoredTokens | None) -> None:
        """Store tokens, or remove them if `tokens` is None. The caller holds the lock."""
        # An older version stored logins by fewer names.
        entries = {name: entry for name, entry in self._read_all().items() if len(name.split(" ")) >= len(key)}
        entries.pop(str(key), None)
        if tokens is not None:
            entries[str(key)] = tokens
        with self._explain_errors("written"):
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f"{self.path.name}.")  # has mode 0600
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")
                os.replace(temporary, self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise

    def _read_all(self) -> dict[str, StoredTokens]:
        content = read_if_exists(self.path, _REMEDY)
        try:
            return {} if content is None else msgspec.json.decode(content, type=dict[str, StoredTokens])
        except (msgspec.MsgspecError, RecursionError) as error:
            reason = escape_unprintable(str(error), 200)
            raise OperationRefused(f"{self.path} is damaged: {reason}: {_REMEDY}") from None

    @contextlib.contextmanager
    def _explain_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OperationRefused(f"{self.path} can't be {action}: {error.strerror or error}") from None
