"""GitLab, gitlab.com or a server of one's own, by python-gitlab."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gitlab
import requests
from gitlab.exceptions import GitlabError

from allotment.adapters.forge.forge import (
    PAGE,
    TIMEOUT,
    Comment,
    Declined,
    Forbidden,
    Forge,
    ForgeError,
    Missing,
    PullRequest,
    Status,
    Token,
    Unreachable,
    answered,
    reached,
)
from allotment.declared.people import Account

_TO_GITLAB = {"failure": "failed"}
_DAY = datetime.timedelta(days=1)
_FROM_GITLAB = {"failed": "failure", "canceled": "failure", "running": "pending"}


def connect(server: str, repository: str, token: Token, api: str | None) -> Forge:
    """Return a project on a server."""
    return GitLab(api or server, repository, token)


class GitLab:
    """A project on GitLab."""

    name = "GitLab"
    comment_bytes = 200_000

    def __init__(self, server: str, project: str, token: Token) -> None:
        session = requests.Session()
        session.hooks["response"].append(answered)  # waiting is ours: the library would sleep through a limit
        self._gitlab: Any = gitlab.Gitlab(server, private_token=token.secret, timeout=TIMEOUT, session=session)
        self._project: Any = self._gitlab.projects.get(project, lazy=True)
        self._identity = ""

    def identity(self) -> str:
        """Return our own login."""
        if not self._identity:
            with _translated():
                self._gitlab.auth()
                self._identity = str(self._gitlab.user.username)
        return self._identity

    def pull_request(self, number: int) -> PullRequest:
        """Return a merge request."""
        with _translated():
            return _pull_request(self._project.mergerequests.get(number).attributes)

    def open_pull_requests(self, base: str) -> Iterator[PullRequest]:
        """Yield those that are open into a branch."""
        yield from self._merge_requests(state="opened", target_branch=base)

    def merged_since(self, base: str, since: datetime.datetime) -> Iterator[PullRequest]:
        """Yield those that were merged into a branch and have changed since a time."""
        query = {"updated_after": since.isoformat(), "order_by": "updated_at", "sort": "desc"}
        yield from self._merge_requests(state="merged", target_branch=base, **query)

    def _merge_requests(self, **query: str) -> Iterator[PullRequest]:
        with _translated():
            for one in self._project.mergerequests.list(iterator=True, per_page=PAGE, **query):
                found = one.attributes
                if not found.get("diff_refs"):  # a list doesn't have them
                    found = self._project.mergerequests.get(one.iid).attributes
                yield _pull_request(found)

    def pushers(self, number: int, head: str) -> frozenset[Account] | None:
        """Return who pushed, by the events of its project; another project's may not be ours to read. Each push
        makes a version, and so does a change of the base, of the same head."""
        with _translated():
            request = self._project.mergerequests.get(number)
            versions = _versions(request)
        heads = [one["head_commit_sha"] for one in versions]
        if not heads or heads[-1] != head or len(set(heads)) < len(heads):
            return None
        if len(heads) == 1:
            return frozenset()
        source = self._gitlab.projects.get(request.source_project_id, lazy=True)
        days = {
            "after": _time(versions[0]["created_at"]).date() - 2 * _DAY,  # neither counts itself
            "before": _time(versions[-1]["created_at"]).date() + 2 * _DAY,
        }
        query = {"action": "pushed", "sort": "desc", **{name: day.isoformat() for name, day in days.items()}}
        found: dict[str, Account] = {}
        try:
            with _translated():
                for one in source.events.list(iterator=True, per_page=PAGE, **query):
                    pushed = one.attributes.get("push_data") or {}
                    if pushed.get("ref") == request.source_branch and pushed.get("commit_to") in heads[1:]:
                        found.setdefault(pushed["commit_to"], _account(one.author))
        except (Missing, Forbidden):
            return None
        return frozenset(found.values()) if len(found) == len(heads) - 1 else None

    def approvals(self, number: int, head: str) -> frozenset[Account]:
        """Return who approved since this head was pushed; without a time an approval counts for nothing.

        GitLab doesn't say which head was approved, but when, and when each version of the request came.
        """
        with _translated():
            request = self._project.mergerequests.get(number, lazy=True)
            versions = _versions(request)
            pushed = [_time(one["created_at"]) for one in versions if one["head_commit_sha"] == head]
            if not pushed or versions[-1]["head_commit_sha"] != head:
                return frozenset()
            said = request.approvals.get().attributes.get("approved_by") or []
        return frozenset(
            _account(one["user"]) for one in said if one.get("approved_at") and _time(one["approved_at"]) > max(pushed)
        )

    def members(self, team: str) -> frozenset[Account]:
        """Return a group's own members."""
        with _translated():
            group = self._gitlab.groups.get(team.removeprefix("@"), lazy=True)
            there = group.members.list(iterator=True, per_page=PAGE)
            return frozenset(
                _account(one.attributes) for one in there if one.attributes.get("state", "active") == "active"
            )

    def comments(self, number: int) -> Iterator[Comment]:
        """Yield all comments."""
        with _translated():
            notes = self._project.mergerequests.get(number, lazy=True).notes
            for one in notes.list(iterator=True, per_page=PAGE, sort="asc", order_by="created_at"):
                if not one.attributes.get("system"):
                    yield Comment(one.id, one.author["username"], one.body)

    def comment(self, number: int, body: str) -> None:
        """Write a comment."""
        with _translated():
            self._project.mergerequests.get(number, lazy=True).notes.create({"body": body})

    def edit(self, number: int, comment: int, body: str) -> None:
        """Write a comment anew."""
        with _translated():
            self._project.mergerequests.get(number, lazy=True).notes.update(comment, {"body": body})

    def remove(self, number: int, comment: int) -> None:
        """Remove a comment."""
        with _translated():
            self._project.mergerequests.get(number, lazy=True).notes.delete(comment)

    def statuses(self, commit: str) -> Iterator[Status]:
        """Yield a commit's statuses."""
        with _translated():
            there = self._project.commits.get(commit, lazy=True).statuses.list(get_all=True, per_page=PAGE)
            for one in sorted(there, key=lambda one: one.id, reverse=True):
                state = _FROM_GITLAB.get(one.status, one.status)
                author = (one.author or {}).get("username", "")
                yield Status(one.name, state, one.description or "", author, one.attributes.get("target_url") or "")

    def set_status(self, commit: str, status: Status) -> None:
        """Set a commit's status. GitLab refuses to set what is set: then it is."""
        body = {
            "state": _TO_GITLAB.get(status.state, status.state),
            "name": status.context,
            "description": status.description,
            "target_url": status.url,
        }
        try:
            with _translated():
                self._project.commits.get(commit, lazy=True).statuses.create(body)
        except Declined as error:
            if "Cannot transition status" not in str(error):
                raise


def _versions(request: Any) -> list[dict[str, Any]]:
    """Return what a merge request was, the oldest first: the first is what it was opened with."""
    there = [one.attributes for one in request.diffs.list(get_all=True, per_page=PAGE)]
    return sorted(there, key=lambda one: _time(one["created_at"]))


def _account(one: dict[str, Any] | None) -> Account:
    return Account(one["username"], one["id"]) if one else Account("")


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _pull_request(one: dict[str, Any]) -> PullRequest:
    merged = one["state"] == "merged"
    made = one.get("merge_commit_sha") or one.get("squash_commit_sha") or one["sha"]
    return PullRequest(
        number=one["iid"],
        head=one["sha"],
        base=one["target_branch"],
        fork=(one.get("diff_refs") or {}).get("base_sha") or "",
        author=_account(one.get("author")),
        is_open=one["state"] == "opened",
        merged=made if merged else "",
        locked=bool(one.get("discussion_locked")),
        updated=one["updated_at"],
        url=one["web_url"],
    )


@contextmanager
def _translated() -> Iterator[None]:
    """Turn the library's exceptions into ours."""
    try:
        with reached():
            yield
    except ForgeError:
        raise
    except GitlabError as error:
        raise Unreachable(f"the forge's answer is none: {type(error).__name__}") from None
