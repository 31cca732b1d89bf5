"""The interface of a forge, and its errors.

Allotment reads the head, the author and the approvers of a pull request only from the forge: never from a commit, a
file or another CI job.
"""

from __future__ import annotations

import datetime
import email.utils
import time
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from allotment.declared.people import Account
from allotment.problems import AllotmentError, escape_unprintable, hide_in_errors

TIMEOUT = 30  # seconds to wait for a response
PAGE = 50
_MAX_RETRY_SECONDS = 3600.0  # the longest wait that a forge may ask for
_TRANSPORT_STATUSES = (407, 408, 421, 425)  # 4xx statuses that a proxy or the connection causes, not the request
_REMEDIES = {
    401: ": renew the token",
    403: ": give the token more permissions",
    404: ": correct spec.git.url of the platform, or --forge-api, or let the token read the repository",
    **dict.fromkeys((500, 502, 503, 504), ": try again later"),
}
StatusState = Literal["pending", "success", "failure"]


class Token:
    """A secret that `repr` and errors do not show."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        hide_in_errors(secret)

    def __repr__(self) -> str:
        return "Token(…)"


class ForgeError(AllotmentError):
    """The forge can't carry out the request now."""

    exit_code = 2


class RateLimited(ForgeError):
    """The forge accepts no more requests for `seconds` seconds."""

    def __init__(self, seconds: float, forge: str = "the forge") -> None:
        super().__init__(f"{forge} takes no more requests for {seconds:.0f} seconds")
        self.seconds = seconds


class ForgeUnreachable(ForgeError):
    """The forge didn't answer, or answered incorrectly. The request may have taken effect."""


class InvalidToken(ForgeError):
    """The forge doesn't know the token, so no request can succeed."""


class RequestDeclined(ForgeError):
    """The forge declines this request. Other requests may still succeed."""


class NotFound(RequestDeclined):
    """The resource doesn't exist, or is not visible to this token."""


class Forbidden(RequestDeclined):
    """The token lacks the permission, the pull request is locked, or the author blocks the token's owner."""


class PullRequest(NamedTuple):
    """The data of a pull request at the forge.

    `head` is the commit to merge, and `base` is the target branch. `base_commit` is the commit of the target branch
    that the forge records for the pull request. `merge_commit` is the last commit that the merge added to the
    target branch, and `merged_at` is the time of the merge; both are empty before the merge.
    """

    number: int
    head: str
    base: str
    base_commit: str
    author: Account
    is_open: bool
    merge_commit: str
    is_locked: bool
    updated_at: str
    url: str
    is_draft: bool = False
    merged_at: str = ""


class Fork(NamedTuple):
    """A fork of the repository: its id at the forge, the name of its owner, and its clone URL without credentials."""

    id: int
    owner: str
    url: str


class PullRequestHead(NamedTuple):
    """The branch to merge. It is in `fork`, or in the repository itself if `fork` is None."""

    branch: str
    fork: Fork | None = None


class Comment(NamedTuple):
    """A comment: its id, its author's login and its text."""

    id: int
    author: str
    body: str


class CommitStatus(NamedTuple):
    """A status of a commit: its name (`context`), state, description, author, and the page that it links to."""

    context: str
    state: str
    description: str
    author: str
    url: str = ""


class Forge(Protocol):
    """A repository on a forge. Every method may raise ForgeError."""

    name: str
    comment_bytes: int

    def identity(self) -> str:
        """Return the login of the token's owner."""
        ...

    def pull_request(self, number: int) -> PullRequest:
        """Return a pull request. Raises NotFound."""
        ...

    def open_pull_requests(self, base: str) -> Iterator[PullRequest]:
        """Yield the open pull requests into a branch."""
        ...

    def create_pull_request(self, head: PullRequestHead, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request of a branch into `base`. Raises RequestDeclined, also if the branch has one already."""
        ...

    def close_pull_request(self, number: int) -> None:
        """Close a pull request without a merge."""
        ...

    def merge(self, number: int, head: str, title: str, message: str) -> None:
        """Merge a pull request with the head `head`: by a merge commit, or by a squash if the repository allows no merge commit.

        `title` and `message` are those of the new commit. Raises RequestDeclined, also if the head is another commit.
        """
        ...

    def find_pull_requests(self, head: PullRequestHead) -> Iterator[PullRequest]:
        """Yield the open, closed and merged pull requests of a branch, the newest first."""
        ...

    def fork(self) -> Fork:
        """Return the fork that the token's owner has of the repository. Create the fork if there is none.

        A new fork may still be empty, because forges copy the objects in the background. Raises Forbidden if the
        repository can't be forked.
        """
        ...

    def merged_since(self, base: str, since: datetime.datetime) -> Iterator[PullRequest]:
        """Yield the pull requests that were merged into `base` and updated since `since`, the latest update first."""
        ...

    def pushers(self, number: int, head: str) -> frozenset[Account] | None:
        """Return the accounts that pushed to a pull request after it was opened, up to the push of `head`.

        Pushes before the last force push may be left out, because the force push replaced their commits. Return None if
        the forge doesn't report every push. Return None also if the target branch was changed: after such a change, the
        pusher of some commits may be unknown.
        """
        ...

    def approvals(self, number: int, head: str) -> frozenset[Account]:
        """Return the accounts that approve exactly this head for the current target branch.

        Of each account, only the last review with a verdict counts; comments don't count. A review of another head is
        no approval. A review before the last change of the target branch is no approval either.
        """
        ...

    def members(self, team: str) -> frozenset[Account]:
        """Return the members of a team. `team` is `@organisation/team`. Raises NotFound and Forbidden."""
        ...

    def list_comments(self, number: int) -> Iterator[Comment]:
        """Yield all comments of a pull request, the oldest first."""
        ...

    def create_comment(self, number: int, body: str) -> None:
        """Create a comment."""
        ...

    def update_comment(self, number: int, comment: int, body: str) -> None:
        """Replace the text of a comment of the token's owner."""
        ...

    def delete_comment(self, number: int, comment: int) -> None:
        """Delete a comment of the token's owner."""
        ...

    def list_statuses(self, commit: str) -> Iterator[CommitStatus]:
        """Yield a commit's statuses, the newest first."""
        ...

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a status of a commit. The author of the status is the token's owner."""
        ...


def error_from_response(status: int, headers: Mapping[str, str], text: str, forge: str = "the forge") -> ForgeError:
    """Return the error for a response's HTTP status and headers. `forge` names the forge in the message."""
    lower_headers = {name.lower(): value for name, value in headers.items()}
    wait = _retry_seconds(lower_headers)
    if status == 429 or (status == 403 and (wait is not None or "rate limit" in text.lower())):
        return RateLimited(60.0 if wait is None else wait, forge)
    message = f"{forge} says {status}: {escape_unprintable(text, 200)}{_REMEDIES.get(status, '')}"
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
    """Return the seconds after which the forge accepts the next request; None if the headers don't say."""
    after = headers.get("retry-after")
    if after is not None:
        seconds = after.strip()
        if seconds.isascii() and seconds.isdecimal():
            return min(float(seconds), _MAX_RETRY_SECONDS)
        try:
            moment = email.utils.parsedate_to_datetime(after)
        except (ValueError, OverflowError):
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)  # -0000 stands for UTC
        return min(max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds()), _MAX_RETRY_SECONDS)
    for remaining, reset in (
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
        ("ratelimit-remaining", "ratelimit-reset"),
    ):
        end = headers.get(reset, "").strip()
        if headers.get(remaining) == "0" and end.isascii() and end.isdecimal():
            return min(max(1.0, float(end) - time.time()), _MAX_RETRY_SECONDS)
    return None
