"""What every forge can do for us, and what can go wrong with it.

A pull request, its head, its author and who approved come from here alone: never from a commit, a file or another job.
"""

from __future__ import annotations

import datetime
import email.utils
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple, Protocol

import requests

from allotment.declared.people import Account
from allotment.problems import AllotmentError, escape_unprintable

TIMEOUT = 30  # seconds without an answer
PAGE = 50
_TRANSPORT_STATUSES = (407, 408, 421, 425)  # of a proxy or a connection: 4xx too, and about nothing that was asked
StatusState = Literal["pending", "success", "failure"]


class Token:
    """A secret that no text shows."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return "Token(…)"


class ForgeError(AllotmentError):
    """The forge can't do what was asked for now."""

    exit_code = 2


class RateLimited(ForgeError):
    """The forge takes no more for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the forge takes no more requests for {seconds:.0f} seconds")
        self.seconds = seconds


class ForgeUnreachable(ForgeError):
    """The forge didn't answer, or not as it should; what was asked for may have happened all the same."""


class InvalidToken(ForgeError):
    """The forge doesn't know the token, so nothing can be asked."""


class RequestDeclined(ForgeError):
    """The forge won't do what was asked, and that is about this one thing: other requests go on."""


class NotFound(RequestDeclined):
    """There is no such thing, or none that this token may see."""


class Forbidden(RequestDeclined):
    """The token may not do this, the pull request is locked, or its author blocks us."""


class PullRequest(NamedTuple):
    """A pull request as the forge has it.

    `head` is the commit that would be merged, `base` the branch it would be merged into and `fork_repository` the newest
    commit of the base that it knows. `merge_commit` is the commit that its merge made on the base, empty while there is
    none.
    """

    number: int
    head: str
    base: str
    fork_repository: str
    author: Account
    is_open: bool
    merge_commit: str
    is_locked: bool
    updated_at: str
    url: str


class Comment(NamedTuple):
    """A comment: its author's login and its text."""

    id: int
    author: str
    body: str


class CommitStatus(NamedTuple):
    """A commit status under a context: who set it, and the page that it links to."""

    context: str
    state: str
    description: str
    author: str
    url: str = ""


class Forge(Protocol):
    """One repository on a forge. Every method raises ForgeError."""

    name: str
    comment_bytes: int

    def identity(self) -> str:
        """Return our own login."""
        ...

    def pull_request(self, number: int) -> PullRequest:
        """Return a pull request. Raises NotFound."""
        ...

    def open_pull_requests(self, base: str) -> Iterator[PullRequest]:
        """Yield those that are open into a branch."""
        ...

    def merged_since(self, base: str, since: datetime.datetime) -> Iterator[PullRequest]:
        """Yield those that were merged into a branch and have changed since a time, the newest first."""
        ...

    def pushers(self, number: int, head: str) -> frozenset[Account] | None:
        """Return who pushed to a pull request since it was opened, up to this head; what it was opened with is its
        author's. None where the forge doesn't say, or its base was changed since: then it holds what nobody speaks
        for."""
        ...

    def approvals(self, number: int, head: str) -> frozenset[Account]:
        """Return who approves exactly this head, into the base that it has: the last word of each counts, and what
        was said of another head or before the base was changed doesn't."""
        ...

    def members(self, team: str) -> frozenset[Account]:
        """Return a team's members; @organisation/team. Raises NotFound, Forbidden."""
        ...

    def list_comments(self, number: int) -> Iterator[Comment]:
        """Yield all comments of a pull request, the oldest first."""
        ...

    def create_comment(self, number: int, body: str) -> None:
        """Write a comment."""
        ...

    def update_comment(self, number: int, comment: int, body: str) -> None:
        """Write a comment of ours anew."""
        ...

    def delete_comment(self, number: int, comment: int) -> None:
        """Remove a comment of ours."""
        ...

    def list_statuses(self, commit: str) -> Iterator[CommitStatus]:
        """Yield a commit's statuses, the newest first."""
        ...

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit's status; its author is us."""
        ...


def error_from_response(status: int, headers: Mapping[str, str], words: str) -> ForgeError:
    """Return the error that an answer's HTTP status and headers mean."""
    lower_headers = {name.lower(): value for name, value in headers.items()}
    wait = _retry_seconds(lower_headers)
    if status == 429 or (status == 403 and (wait is not None or "rate limit" in words.lower())):
        return RateLimited(60.0 if wait is None else wait)
    message = f"the forge says {status}: {escape_unprintable(words, 200)}"
    if status == 401:
        return InvalidToken(message)
    if status in (404, 410):
        return NotFound(message)
    if status in (403, 423):
        return Forbidden(message)
    return (
        RequestDeclined(message)
        if 400 <= status < 500 and status not in _TRANSPORT_STATUSES
        else ForgeUnreachable(message)
    )


def _retry_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait, None where it doesn't."""
    after = headers.get("retry-after")
    if after is not None:
        if after.strip().isdigit():
            return float(after)
        moment = email.utils.parsedate_to_datetime(after)
        return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())
    for remaining, reset in (
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
        ("ratelimit-remaining", "ratelimit-reset"),
    ):
        if headers.get(remaining) == "0" and headers.get(reset, "").isdigit():
            return max(1.0, float(headers[reset]) - time.time())
    return None


def raise_for_response(answer: requests.Response, *_: object, **__: object) -> None:
    """Raise what an answer means that isn't one of success; a hook of `requests`."""
    if answer.status_code >= 400:
        try:
            words = str(answer.json().get("message", ""))
        except (ValueError, AttributeError):
            words = answer.reason or ""
        raise error_from_response(answer.status_code, answer.headers, words)


@contextmanager
def translate_request_errors() -> Iterator[None]:
    """Turn what goes wrong on the way, or an answer of another shape, into an Unreachable, in words that hold no token."""
    try:
        yield
    except requests.RequestException as error:
        raise ForgeUnreachable(f"the forge doesn't answer: {type(error).__name__}") from None
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ForgeUnreachable(
            f"the forge's answer makes no sense: {type(error).__name__} {escape_unprintable(str(error), 80)}"
        ) from None
