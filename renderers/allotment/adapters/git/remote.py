"""Fetches refs from another repository, and pushes refs to it: all of them atomically, each as a fast-forward.

The remote refuses a push that isn't a fast-forward, so a push cannot undo another push that arrived first. No branch is
ever force-pushed. Only a ref under `refs/allotment/` that points at an object of somebody else is overwritten, and only
if it still points at this object (`--force-with-lease`). If the process is killed, the remote has either all old or all
new targets.
"""

from __future__ import annotations

import copy
import logging
import re
import time
from collections.abc import Mapping
from functools import partial
from urllib.parse import unquote

from allotment.adapters.checkout_paths import refuse_committed_repository
from allotment.adapters.git import quarantine
from allotment.adapters.git.commands import QUIET_SETTINGS, GitFailed
from allotment.adapters.git.http_login import HttpLogin
from allotment.adapters.git.repository import Repository
from allotment.adapters.processes import Limit, Patience, ProcessLimitExceeded
from allotment.problems import OperationRefused, escape_unprintable, hide_in_errors, hide_secrets, quote_value

_LOG = logging.getLogger(__name__)  # without a handler, Python prints warnings to standard error

# If Git's output contains one of _LOCK_FAILURE_TEXTS, a ref is only locked. Otherwise, if it contains one of
# _OVERTAKEN_TEXTS, another push has moved a ref. Any other answer with _REJECTED_TEXT is permanent.
_OVERTAKEN_TEXTS = (
    "fetch first",
    "non-fast-forward",
    "cannot lock ref",
    "failed to update ref",
    "incorrect old value",
    "stale info",
)
# The words with which Git, SSH and the forges refuse a push for lack of a permission or of a login.
_FORBIDDEN_TEXTS = (
    "error: 401",
    "error: 403",
    "HTTP 401",
    "HTTP 403",
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "Permission denied",
    "Permission to ",
    "permission denied",
    "not allowed to push",
)
_REJECTED_TEXT = (
    "[remote rejected]"  # after the name of a ref, for example because a hook of the server declined the push
)
# A forge also gives these answers about a private repository, if the token has expired or has no access.
_NOT_FOUND_TEXTS = ("Repository not found", "could not be found")
_LOCK_FAILURE_TEXTS = ("Unable to create", "exists; cannot create")
# The seconds to wait before each retry of a push that failed because of a lock. A running push holds a lock for less
# than a second. A lock that is still there after all pauses is therefore a leftover of a killed process.
_LOCK_PAUSES = (0.25, 0.5, 1.0)
_HTTP = ("http://", "https://")
_BARE_NAME = re.compile(r"[^/:]*[^/:.][^/:]*")  # a word that is neither a URL nor a path
_MIN_TOKEN_LENGTH = 16  # characters; the name of a person is shorter than the token of a forge
_REDIRECT_PATTERN = re.compile(r"returned error: 30[1278]\b")
_USERINFO_PATTERN = re.compile(r"://[^/\s'\"]*@")
_UNESCAPED_PASSWORD = re.compile(r"https?://[^/@:\s]+:(?![0-9]*/)([^@/\s]*/[^@\s]*)@")
_LOCK_PATTERN = re.compile(r"Unable to create '([^']*\.lock)': File exists")
# During a fetch or push, Git prints its progress every second while data arrives. `git ls-remote` prints no progress.
# The liveness probe of a publisher fails only after a longer silence than these limits allow.
TRANSFER_PATIENCE = Patience(silent_seconds=300, total_seconds=3600)
LOOK_PATIENCE = Patience(silent_seconds=120, total_seconds=120)
_MAX_OUTPUT = 800  # characters of Git's output
_MAX_PATH = 1_000  # characters of a path that an operator must find
_TRACKING_PREFIX = "refs/allotment/seen/"
_FSCK_TEXTS = ("fsck error", "git fsck")
# A fetch fails if git fsck finds a fault in an object, except for these faults. Early versions of Git, and converters
# from other systems, wrote them. Allotment tolerates the faults of commits and tags. Only zeroPaddedFilemode is a fault
# of a tree: the fetch accepts such a tree, but `trees.parse_entries` refuses it.
_HARMLESS_FSCK_ERRORS = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)
_FETCH_OPTIONS = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--end-of-options")
_STRICT_SETTINGS = (
    "fetch.fsckObjects=true",
    "fetch.fsck.badFilemode=error",
    *(f"fetch.fsck.{message_id}=ignore" for message_id in _HARMLESS_FSCK_ERRORS),
)


def tracking_ref(ref: str) -> str:
    """Return the local ref that points at the target of a remote's ref after a fetch with `keep`."""
    return f"{_TRACKING_PREFIX}{ref}"


class UnsoundObjects(OperationRefused):
    """The remote has malformed objects, which Git itself doesn't write. Nothing was fetched."""


class RemoteUnavailable(OperationRefused):
    """The remote doesn't answer, or it answers without the end of a transfer. A later try may succeed."""


class RemoteTimeout(RemoteUnavailable):
    """The remote did not answer within a time limit, so Git was killed."""


class RemoteLocked(RemoteUnavailable):
    """A lock at the remote still prevents a push after the last retry. A killed process left the lock."""


class AccessDenied(OperationRefused):
    """The remote refuses the login, or the user lacks the right to the request."""


class PushForbidden(AccessDenied):
    """The remote refuses the push, because the user may not push there."""


class FetchTooCostly(OperationRefused):
    """The fetch exceeded its limits. Nothing was fetched."""


class Remote:
    """Another repository. `url` is its URL, its path, or its name as a remote of `repository`.

    By default, no ref in `repository` points at the fetched commits, so Git's maintenance removes them later. With
    `keep`, tracking refs point at them, so that they stay and the next fetch transfers only new objects. `transfer` is
    the time limit of a fetch or push, and `look` is the time limit of a request that only lists refs. With `login`, Git
    logs in at the URL with a token. A password in the URL is such a login, which follows no redirect: other users can see the
    arguments of Git. If a named remote has several URLs, Git itself handles their passwords.

    Raises OperationRefused for a bare name that is no remote of `repository`: Git would take a folder of this name, which a
    stranger may have committed.
    """

    def __init__(
        self,
        repository: Repository,
        url: str,
        *,
        keep: bool = False,
        transfer: Patience = TRANSFER_PATIENCE,
        look: Patience = LOOK_PATIENCE,
        login: HttpLogin | None = None,
    ) -> None:
        self.repository = repository
        location = repository.git.url_of(url) or url
        if location == url and _BARE_NAME.fullmatch(url):
            raise OperationRefused(
                f"this clone has no remote named {quote_value(url)}: add it with `git remote add`, or write a URL, or a path with a slash"
            )
        if match := _UNESCAPED_PASSWORD.match(location):
            hide_in_errors(match[1])
            raise OperationRefused(
                "the password in the URL of the remote has a character to escape: write %2F for a slash"
            )
        hide_in_errors(*_list_secrets(location))
        self._name, self._userinfo = url, _userinfo(location)
        if login is None and not repository.git.has_several_urls(url) and (login := _find_login(location)) is not None:
            url = without_userinfo(location)
        self._environment = login.environment(url) if login else None
        self._transfer_patience, self._look_patience = transfer, look
        self._keeps_refs = keep
        self._snapshot: dict[str, str] | None = None
        self.url = url

    def __str__(self) -> str:
        """Return the name of the remote, or its URL without a user's name and password."""
        return self._redact(self._name)

    def _redact(self, text: str) -> str:
        """Return a text without names and passwords in URLs. Git may have rewritten the URL by `url.*.insteadOf`."""
        return _USERINFO_PATTERN.sub("://", text.replace(self._userinfo, "") if self._userinfo else text)

    def _shorten(self, text: str) -> str:
        """Return the end of Git's output without secrets. The function hides them before the cut, which could leave a part."""
        return hide_secrets(self._redact(text))[-_MAX_OUTPUT:]

    @property
    def display_url(self) -> str:
        """The URL without credentials; for a named remote, its name and URL."""
        url = self.repository.git.url_of(self._name)
        return f"{self._name} ({without_userinfo(url)})" if url else str(self)

    def without_refs(self) -> Remote:
        """Return the same remote without the snapshot; its fetches leave no ref in the repository, such as those of pull requests."""
        remote = copy.copy(self)
        remote._keeps_refs, remote._snapshot = False, None
        return remote

    def take_snapshot(self) -> None:
        """List the refs of the remote now, in one request. Later reads get these targets, until the next snapshot or push.

        Raises OperationRefused if the remote doesn't answer.
        """
        self._snapshot = None
        self._snapshot = self._list_refs()

    def fetch(self, *refs: str, ours: bool = False, unfetched: tuple[str, ...] = ()) -> dict[str, str]:
        """Fetch the targets of refs, and return these targets by the full names of the refs.

        A ref that the remote doesn't have is left out. The result also has the targets of the `unfetched` refs, which
        are not fetched. Git checks each fetched object, and the fetch fails if an object is malformed.

        Set `ours` for the branches and refs that Allotment itself writes. Allotment must be able to publish on top of
        any commit there, so a fetch that fails because of malformed objects is repeated without the check. When a
        malformed tree is read later, `trees.py` refuses it.

        Raises UnsoundObjects, and OperationRefused, with Git's message, if the remote doesn't answer.
        """
        commits = self.look(*refs, *unfetched)
        new = [name for name in refs if name in commits and not self.repository.has_object(commits[name])]
        refspecs = list(dict.fromkeys(commits[name] for name in new))
        if self._keeps_refs:
            refspecs = [f"+{commits[name]}:{tracking_ref(name)}" for name in new]
        try:
            if refspecs:
                self._fetch_commits(refspecs, ours)
        except GitFailed as error:
            raise self._access_error(self._shorten(str(error))) from None
        return commits

    def look(self, *refs: str) -> dict[str, str]:
        """Return the targets of refs by the full names of the refs, without a fetch. Raises OperationRefused."""
        return {name: commit for name, commit in self._list_refs(*refs).items() if name in refs}

    def list_below(self, prefix: str) -> list[str]:
        """Return the full names of the refs that begin with `prefix`, without a fetch. Raises OperationRefused."""
        return [name for name in self._list_refs(f"{prefix}*") if name.startswith(prefix)]

    def _list_refs(self, *patterns: str) -> dict[str, str]:
        """Return the targets of the refs that match patterns of `git ls-remote`, or all refs of the snapshot."""
        if self._snapshot is not None:
            return self._snapshot
        try:
            output = self._run("ls-remote", "--end-of-options", self.url, *patterns, patience=self._look_patience)
        except GitFailed as error:
            raise self._access_error(self._shorten(str(error))) from None
        # The name of a ref may have other line separators than a newline.
        commits = {name: commit for commit, _, name in (line.partition("\t") for line in output.split("\n") if line)}
        if any(len(commit) != len(self.repository.git.null_id) for commit in commits.values()):
            raise OperationRefused(
                f"{quote_value(str(self))} and the clone {self.repository.folder} have object IDs of different lengths (SHA-1 and"
                " SHA-256), and Git fetches nothing between them: the services need a source with SHA-1"
            )
        return commits

    def _run_transfer(self, command: str, *arguments: str, settings: tuple[str, ...] = ()) -> None:
        self._run(
            command, "--progress", *arguments, patience=self._transfer_patience, settings=(*QUIET_SETTINGS, *settings)
        )

    def _run(self, command: str, *arguments: str, patience: Patience, settings: tuple[str, ...] = ()) -> str:
        """Return the output of a command. Raises GitFailed, and RemoteTimeout if the remote exceeds `patience`."""
        try:
            return self.repository.git.run_network(
                command,
                *arguments,
                patience=patience,
                settings=settings,
                environment=self._environment,
                on_silence=partial(_LOG.warning, "waiting for %s, which does not answer", quote_value(str(self))),
            )
        except ProcessLimitExceeded as error:
            raise RemoteTimeout(
                f"{quote_value(str(self))} keeps git {command} waiting: {error}. See whether the server and the network to it"
                " work, then try again"
            ) from None

    def _access_error(self, message: str) -> OperationRefused:
        """Return the error of a request that failed with a message of Git. Raises OperationRefused if a ref of this clone is broken."""
        if "refs" in message:
            self.repository.check_refs()
        if any(reason in message for reason in (*_FORBIDDEN_TEXTS, *_NOT_FOUND_TEXTS)):
            return AccessDenied(f"{quote_value(str(self))} denies access: {message}")
        remedy = "; write the URL to which the server redirects" if _REDIRECT_PATTERN.search(message) else ""
        return RemoteUnavailable(f"{quote_value(str(self))} doesn't answer: {message}{remedy}")

    def fetch_limited(self, limit: Limit, ref: str, commit: str) -> None:
        """Fetch the commit of a stranger, such as the author of a pull request, unless `repository` has it.

        `ref` is the ref of the remote that points at the commit. The limit is necessary because a small pack can expand
        to any size. Raises OperationRefused, UnsoundObjects, and FetchTooCostly if Git exceeds `limit`.
        """
        if self.repository.has_object(commit):
            return
        try:
            ended = quarantine.fetch(
                self.repository,
                _STRICT_SETTINGS,
                ("--quiet", *_FETCH_OPTIONS, self.url, commit),
                limit,
                self._environment or {},
            )
        except ProcessLimitExceeded as error:
            raise FetchTooCostly(f"fetching it: {error}") from None
        if ended.exit_code:
            message = self._shorten(" ".join(ended.stderr.split()))
            raise self._unsound_error(message) if _is_fsck_error(message) else self._access_error(message)
        if self._keeps_refs:
            self.repository.git.run_text("update-ref", tracking_ref(ref), commit, settings=QUIET_SETTINGS)

    def _unsound_error(self, message: str) -> UnsoundObjects:
        return UnsoundObjects(f"{quote_value(str(self))} holds objects that Git doesn't write: {message}")

    def _fetch_commits(self, commits: list[str], ours: bool) -> None:
        try:
            self._run_transfer("fetch", *_FETCH_OPTIONS, self.url, *commits, settings=_STRICT_SETTINGS)
        except GitFailed as error:
            message = self._shorten(str(error))
            if not _is_fsck_error(message):
                raise
            if not ours:
                raise self._unsound_error(message) from None
            self._run_transfer("fetch", *_FETCH_OPTIONS, self.url, *commits, settings=("fetch.fsckObjects=false",))

    def push(self, refs: Mapping[str, str], over: Mapping[str, str] | None = None) -> bool:
        """Point all refs at their commits, and return True. If another push was faster, move no ref and return False.

        `refs` may contain refs that already point at their commits. If another push has moved one of these refs,
        return False. `over` has the refs that may be moved without a fast-forward, each with its current target. Raises
        RemoteLocked, PushForbidden, OperationRefused if the remote rejects the push for another reason, and RemoteUnavailable if it
        doesn't answer, each with Git's message.
        """
        self._snapshot = None
        if self.repository.git.url_of(self._name) is None:  # the person's configuration vouches for a named remote
            refuse_committed_repository(self.url, self.repository.git.folder)
        moves = [f"{commit}:{name}" for name, commit in sorted(refs.items())]
        leases = [f"--force-with-lease={name}:{old}" for name, old in sorted((over or {}).items())]
        options = ("--atomic", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")
        arguments = (*options, *leases, "--end-of-options", self.url, *moves)
        # A remote that mirrors the whole repository takes no single refs.
        settings = (f"remote.{self.url}.mirror=false",) if self.repository.git.url_of(self.url) else ()
        message, lock = "", None
        for pause in (*_LOCK_PAUSES, 0.0):
            try:
                self._run_transfer("push", *arguments, settings=settings)
            except GitFailed as error:
                message, lock = str(error), _LOCK_PATTERN.search(str(error))
            else:
                return True
            if lock is None:
                break
            time.sleep(pause)
        if lock is not None:
            raise RemoteLocked(
                self._redact(
                    f"{quote_value(str(self))} took no push to {', '.join(sorted(refs))}: the lock '{escape_unprintable(lock[1], _MAX_PATH)}' is held there, still after"
                    f" {len(_LOCK_PAUSES) + 1} tries. Where no other push runs, a process that was killed left it: have this file"
                    " removed at the server, then try again"
                )
            )
        if any(reason in message for reason in _OVERTAKEN_TEXTS) and not any(
            reason in message for reason in _LOCK_FAILURE_TEXTS
        ):
            return False
        refusal: type[OperationRefused] = RemoteUnavailable
        if any(reason in message for reason in _FORBIDDEN_TEXTS):
            refusal = PushForbidden
        elif _REJECTED_TEXT in message:
            refusal = OperationRefused
        raise refusal(f"{quote_value(str(self))} took no push to {', '.join(sorted(refs))}: {self._shorten(message)}")


def _is_fsck_error(message: str) -> bool:
    return any(sign in message for sign in _FSCK_TEXTS)


def _userinfo(url: str) -> str:
    """Return `name:password@` of a URL; empty if it has none."""
    _, slashes, rest = url.partition("://")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    return f"{user}@" if slashes and at else ""


def _list_secrets(url: str) -> list[str]:
    """Return the password of a URL, and the token in place of the name, as they are written and as they are sent."""
    name, colon, password = _userinfo(url).removesuffix("@").partition(":")
    secrets = [password] if colon else []
    secrets += [name] if _is_token(name, url) else []
    return [text for secret in secrets for text in (secret, unquote(secret))]


def _is_token(name: str, url: str) -> bool:
    """Return whether the user's name in a URL is a token. The name of an organisation that is also in the path is none."""
    return url.startswith(_HTTP) and len(name) >= _MIN_TOKEN_LENGTH and name not in without_userinfo(url)


def _find_login(url: str) -> HttpLogin | None:
    """Return the name and the password in an HTTP URL, or the token in place of both; None if it has neither."""
    name, colon, password = _userinfo(url).removesuffix("@").partition(":")
    is_login = _is_token(name, url) or (bool(colon) and url.startswith(_HTTP))
    return HttpLogin(unquote(name), unquote(password)) if is_login else None


def without_userinfo(url: str) -> str:
    """Return a URL without a user's name and password."""
    secret = _userinfo(url)
    return url.replace(secret, "") if secret else url
