"""Implements the forge for github.com and GitHub Enterprise Server, with PyGithub."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import quote

import github
from github.Auth import Token as AuthToken
from github.GithubException import BadAttributeException, GithubException
from github.NamedUser import NamedUser
from github.PullRequest import PullRequest as Pull
from github.Repository import Repository
from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester

from allotment.adapters.forge.forge import (
    TIMEOUT,
    Comment,
    CommitStatus,
    Forbidden,
    Forge,
    Fork,
    NotFound,
    PullRequest,
    PullRequestHead,
    RateLimited,
    RequestDeclined,
    Token,
)
from allotment.adapters.forge.session import ForgeSession, foreign_host_error, translate_request_errors
from allotment.declared.people import Account

WRITE_SECONDS = 1.0  # seconds between two writes, as GitHub requires
_VIEWER_QUERY = "query { viewer { login } }"  # also works for the token of an app, which has no user
_DECISIVE_STATES = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")
_BASE_EVENTS = ("base_ref_changed", "automatic_base_change_succeeded")


def connect(server: str, repository: str, token: Token, api: str | None) -> Forge:
    """Return a repository on a server."""
    usual = "https://api.github.com" if server == "https://github.com" else f"{server}/api/v3"
    return GitHub((api or usual).rstrip("/"), repository, token)


def _prepare_connection(connection: HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass, options: Any) -> None:
    """Give a connection of the library a time limit for each request. Raises ForgeUnreachable if it leads to another host.

    The library follows links of the API to subdomains of its host. It names a timeout only for the host of the API.
    """
    if "timeout" not in options:
        raise foreign_host_error(f"{connection.protocol}://{connection.host}:{connection.port}")
    connection.session = ForgeSession()


class _HTTPConnection(HTTPRequestsConnectionClass):
    """Connections of the library to the host of the API."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _prepare_connection(self, options)


class _HTTPSConnection(HTTPSRequestsConnectionClass):
    """Connections of the library with TLS to the host of the API."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _prepare_connection(self, options)


class GitHub:
    """A repository on GitHub."""

    name = "GitHub"
    comment_bytes = 60_000  # GitHub accepts 65,536 characters

    def __init__(self, api: str, repository: str, token: Token) -> None:
        Requester.injectConnectionClasses(_HTTPConnection, _HTTPSConnection)
        # With `retry`, the library would sleep at a rate limit, in the middle of a call. Without `retry`, the caller
        # decides when to try again. The library waits only WRITE_SECONDS between two writes.
        self._github = github.Github(
            auth=AuthToken(token.secret),
            base_url=api,
            timeout=TIMEOUT,
            retry=None,
            per_page=100,
            seconds_between_requests=0,
            seconds_between_writes=WRITE_SECONDS,
            lazy=True,
        )
        self._repository: Repository = self._github.get_repo(repository)
        self._api = api
        self._owner = repository.partition("/")[0]
        self._identity = ""

    def _explain_errors(self) -> AbstractContextManager[None]:
        return translate_request_errors(self._api, BadAttributeException, GithubException)

    def identity(self) -> str:
        """Return the login of the token's owner."""
        if not self._identity:
            with self._explain_errors():
                try:
                    _, response = self._github.requester.graphql_query(_VIEWER_QUERY, {})
                    self._identity = str(response["data"]["viewer"]["login"])
                except (GithubException, KeyError, RateLimited, RequestDeclined, TypeError):
                    self._identity = str(self._github.get_user().raw_data["login"])
        return self._identity

    def pull_request(self, number: int) -> PullRequest:
        """Return a pull request."""
        with self._explain_errors():
            return _to_pull_request(self._repository.get_pull(number))

    def open_pull_requests(self, base: str) -> Iterator[PullRequest]:
        """Yield the open pull requests into a branch."""
        with self._explain_errors():
            for pull in self._repository.get_pulls(state="open", base=base):
                yield _to_pull_request(pull)

    def create_pull_request(self, head: PullRequestHead, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request."""
        with self._explain_errors():
            return _to_pull_request(self._repository.create_pull(base, self._label(head), title=title, body=body))

    def close_pull_request(self, number: int) -> None:
        """Close a pull request."""
        with self._explain_errors():
            self._repository.get_pull(number).edit(state="closed")

    def merge(self, number: int, head: str, title: str, message: str) -> None:
        """Merge a pull request. A token without write access sees no settings of merges."""
        with self._explain_errors():
            settings = self._repository.raw_data
            is_squash = settings.get("allow_merge_commit") is False and settings.get("allow_squash_merge") is not False
            method = "squash" if is_squash else "merge"
            self._read_pull(number).merge(commit_message=message, commit_title=title, merge_method=method, sha=head)

    def find_pull_requests(self, head: PullRequestHead) -> Iterator[PullRequest]:
        """Yield the pull requests of a branch."""
        with self._explain_errors():
            for pull in self._repository.get_pulls(
                state="all", head=self._label(head), sort="created", direction="desc"
            ):
                yield _to_pull_request(pull)

    def _label(self, head: PullRequestHead) -> str:
        return f"{head.fork.owner if head.fork else self._owner}:{head.branch}"

    def fork(self) -> Fork:
        """Return the fork of the token's owner. If the owner has a fork already, GitHub answers with it."""
        with self._explain_errors():
            fork = self._repository.create_fork()
            return Fork(fork.id, fork.owner.login, fork.clone_url)

    def merged_since(self, base: str, since: datetime.datetime) -> Iterator[PullRequest]:
        """Yield the pull requests that were merged into `base` and updated since `since`."""
        with self._explain_errors():
            for pull in self._repository.get_pulls(state="closed", base=base, sort="updated", direction="desc"):
                if pull.updated_at is None or pull.updated_at < since:
                    return
                if pull.merged_at is not None:
                    yield _to_pull_request(pull)

    def pushers(self, number: int, head: str) -> frozenset[Account] | None:
        """Return the accounts that pushed, from the latest activities of the branch.

        Pushes before the last force push are left out, because the force push replaced their commits. Return None if
        the branch is in another repository that the token can't read.
        """
        with self._explain_errors():
            pull = self._read_pull(number)
            if pull.head.repo is None or _base_changed_at(pull) is not None:
                return None
            path = f"/repos/{quote(pull.head.repo.full_name)}/activity"
        query = {"ref": f"refs/heads/{pull.head.ref}", "per_page": "100"}
        accounts: set[Account] = set()
        try:
            with self._explain_errors():
                _, activities = self._github.requester.requestJsonAndCheck("GET", path, parameters=query)
                if not activities or activities[0]["after"] != head:
                    return None
                for activity in activities:
                    if datetime.datetime.fromisoformat(activity["timestamp"]) < pull.created_at:
                        return frozenset(accounts)
                    if not activity["actor"]:
                        return None
                    accounts.add(Account(activity["actor"]["login"], activity["actor"]["id"]))
                    if activity["activity_type"] == "force_push":
                        return frozenset(accounts)
        except (NotFound, Forbidden):
            return None
        return None

    def approvals(self, number: int, head: str) -> frozenset[Account]:
        """Return the accounts that approve this head."""
        last: dict[Account, bool] = {}
        with self._explain_errors():
            pull = self._read_pull(number)
            based = _base_changed_at(pull)
            for review in pull.get_reviews():
                if review.state in _DECISIVE_STATES and review.user is not None:
                    good = review.state == "APPROVED" and (based is None or (review.submitted_at or based) > based)
                    last[_to_account(review.user)] = good and review.commit_id == head
        return frozenset(who for who, good in last.items() if good)

    def members(self, team: str) -> frozenset[Account]:
        """Return a team's members."""
        organisation, _, slug = team.removeprefix("@").partition("/")
        with self._explain_errors():
            github_team = self._github.get_organization(organisation).get_team_by_slug(slug)
            return frozenset(_to_account(member) for member in github_team.get_members())

    def list_comments(self, number: int) -> Iterator[Comment]:
        """Yield all comments."""
        with self._explain_errors():
            for comment in self._read_pull(number).get_issue_comments():
                yield Comment(comment.id, comment.user.login if comment.user else "", comment.body or "")

    def create_comment(self, number: int, body: str) -> None:
        """Create a comment."""
        with self._explain_errors():
            self._read_pull(number).create_issue_comment(body)

    def update_comment(self, number: int, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        with self._explain_errors():
            self._read_pull(number).get_issue_comment(comment).edit(body)

    def delete_comment(self, number: int, comment: int) -> None:
        """Delete a comment."""
        with self._explain_errors():
            self._read_pull(number).get_issue_comment(comment).delete()

    def list_statuses(self, commit: str) -> Iterator[CommitStatus]:
        """Yield a commit's statuses."""
        with self._explain_errors():
            for status in self._repository.get_commit(commit).get_statuses():
                author = status.creator.login if status.creator else ""
                yield CommitStatus(
                    status.context, status.state, status.description or "", author, status.target_url or ""
                )

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit's status."""
        with self._explain_errors():
            self._repository.get_commit(commit).create_status(
                status.state, target_url=status.url, description=status.description, context=status.context
            )

    def _read_pull(self, number: int) -> Pull:
        return self._repository.get_pull(number)


def _base_changed_at(pull: Pull) -> datetime.datetime | None:
    """Return the time of the last change of a pull request's base; None if it was never changed."""
    return max([event.created_at for event in pull.get_issue_events() if event.event in _BASE_EVENTS], default=None)


def _to_account(user: NamedUser | None) -> Account:
    return Account(user.login, user.id) if user else Account("")


def _to_pull_request(pull: Pull) -> PullRequest:
    return PullRequest(
        number=pull.number,
        head=pull.head.sha,
        base=pull.base.ref,
        base_commit=pull.base.sha,
        author=_to_account(pull.user),
        is_open=pull.state == "open",
        merge_commit=(pull.merge_commit_sha or "") if pull.merged_at is not None else "",
        is_locked=bool(pull.locked),
        updated_at=pull.updated_at.isoformat() if pull.updated_at else "",
        url=str(pull.html_url or ""),
        is_draft=bool(pull.draft),
        merged_at=pull.merged_at.isoformat() if pull.merged_at else "",
    )
