"""Implements the forge for Gitea and Forgejo, through their HTTP API."""

from __future__ import annotations

import datetime
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from allotment.adapters.forge.forge import (
    PAGE,
    TIMEOUT,
    Comment,
    CommitStatus,
    Forbidden,
    Forge,
    ForgeUnreachable,
    Fork,
    NotFound,
    PullRequest,
    PullRequestHead,
    RequestDeclined,
    Token,
)
from allotment.adapters.forge.session import ForgeSession, to_text, translate_request_errors
from allotment.declared.people import Account

_DECISIVE_STATES = ("APPROVED", "REQUEST_CHANGES")
_MERGE_SETTINGS = (
    ("merge", "allow_merge_commits"),
    ("squash", "allow_squash_merge"),
    ("rebase-merge", "allow_rebase_explicit"),
)
_MAX_PAGES = 1000  # of a list; a list without end is an error of the forge
_MAX_SEARCHED = 1000  # pull requests that are searched for a branch: Gitea has no filter for branches
_TIMELINE_PAUSES = (0.5, 1.0, 2.0)  # seconds


def connect(server: str, repository: str, token: Token, api: str | None) -> Forge:
    """Return a repository on a server."""
    owner, _, name = repository.rpartition("/")
    prefix, _, owner = owner.rpartition("/")
    base = f"{server}/{prefix}" if prefix else server
    return Gitea(api or f"{base}/api/v1", f"{owner}/{name}", token)


class Gitea:
    """A repository on a Gitea or Forgejo server."""

    name = "Gitea"
    comment_bytes = 200_000

    def __init__(self, api: str, repository: str, token: Token) -> None:
        self._api = api.rstrip("/")
        self._full_name = repository
        self._repository = f"repos/{quote(repository)}"
        self._session = ForgeSession(token)
        self._identity = ""

    def identity(self) -> str:
        """Return the login of the token's owner."""
        if not self._identity:
            with translate_request_errors(self._api):
                self._identity = str(self._request("GET", "user")["login"])
        return self._identity

    def pull_request(self, number: int) -> PullRequest:
        """Return a pull request."""
        with translate_request_errors(self._api):
            return _to_pull_request(self._request("GET", f"{self._repository}/pulls/{number}"))

    def open_pull_requests(self, base: str) -> Iterator[PullRequest]:
        """Yield the open pull requests into a branch."""
        with translate_request_errors(self._api):
            for pull in self._list_pages(f"{self._repository}/pulls", state="open"):
                if pull["base"]["ref"] == base:
                    yield _to_pull_request(pull)

    def create_pull_request(self, head: PullRequestHead, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request."""
        label = f"{head.fork.owner}:{head.branch}" if head.fork else head.branch
        fields = {"head": label, "base": base, "title": title, "body": body}
        with translate_request_errors(self._api):
            return _to_pull_request(self._request("POST", f"{self._repository}/pulls", fields))

    def close_pull_request(self, number: int) -> None:
        """Close a pull request."""
        with translate_request_errors(self._api):
            self._request("PATCH", f"{self._repository}/pulls/{number}", {"state": "closed"})

    def merge(self, number: int, head: str, title: str, message: str) -> None:
        """Merge a pull request. If its check for conflicts still runs, the server declines."""
        with translate_request_errors(self._api):
            settings = self._request("GET", self._repository)
            method = next((name for name, setting in _MERGE_SETTINGS if settings.get(setting)), _MERGE_SETTINGS[0][0])
            fields = {"Do": method, "head_commit_id": head, "MergeTitleField": title, "MergeMessageField": message}
            try:
                self._request("POST", f"{self._repository}/pulls/{number}/merge", fields)
            except ForgeUnreachable:  # the answer to a merge has no content
                if not self.pull_request(number).merge_commit:
                    raise

    def find_pull_requests(self, head: PullRequestHead) -> Iterator[PullRequest]:
        """Yield the pull requests of a branch, among the newest _MAX_SEARCHED pull requests.

        If the branch was deleted, only the field `label` still has its name.
        """
        pulls = self._list_pages(f"{self._repository}/pulls", state="all")
        for pull in itertools.islice(pulls, _MAX_SEARCHED):
            with translate_request_errors(self._api):
                in_repository = pull["head"]["repo_id"] == pull["base"]["repo_id"]
                matches = pull["head"]["repo_id"] == head.fork.id if head.fork else in_repository
                if matches and head.branch in (pull["head"]["label"], pull["head"]["ref"]):
                    yield _to_pull_request(pull)

    def fork(self) -> Fork:
        """Return the fork of the token's owner."""
        existing = self._find_fork()
        if existing is not None:
            return existing
        try:
            with translate_request_errors(self._api):
                return _to_fork(self._request("POST", f"{self._repository}/forks", {}))
        except Forbidden:
            raise
        except RequestDeclined as error:  # another process created the fork at the same time
            if (existing := self._find_fork()) is None:
                raise Forbidden(str(error)) from None
            return existing

    def _find_fork(self) -> Fork | None:
        login = self.identity().lower()
        for fork in self._list_pages(f"{self._repository}/forks"):
            with translate_request_errors(self._api):
                if fork["owner"]["login"].lower() == login:
                    return _to_fork(fork)
        return None

    def merged_since(self, base: str, since: datetime.datetime) -> Iterator[PullRequest]:
        """Yield the pull requests that were merged into `base` and updated since `since`."""
        with translate_request_errors(self._api):
            for pull in self._list_pages(f"{self._repository}/pulls", state="closed", sort="recentupdate"):
                if datetime.datetime.fromisoformat(pull["updated_at"]) < since:
                    return
                if pull["merged"] and pull["base"]["ref"] == base:
                    yield _to_pull_request(pull)

    def pushers(self, number: int, head: str) -> frozenset[Account] | None:
        """Return the accounts that pushed, from the pull request's timeline.

        The server updates the timeline a moment after the head, so the timeline is read several times. Pushes before
        the last force push are left out, because the force push replaced their commits. Return None if the target
        branch was changed. After such a change, the timeline names the account that made the change as the pusher of
        all commits.
        """
        for wait in (*_TIMELINE_PAUSES, None):
            timeline = self._read_timeline(number)
            with translate_request_errors(self._api):
                if _base_changed_at(timeline):
                    return None
                pushed = [(event, json.loads(event["body"])) for event in timeline if event["type"] == "pull_push"]
                if pushed and pushed[-1][1]["commit_ids"][-1:] == [head]:
                    forced = [at for at, (_, push) in enumerate(pushed) if push["is_force_push"]]
                    return frozenset(_to_account(event["user"]) for event, _ in pushed[forced[-1] if forced else 0 :])
            if wait:
                time.sleep(wait)
        return None

    def approvals(self, number: int, head: str) -> frozenset[Account]:
        """Return the accounts that approve this head."""
        last: dict[Account, bool] = {}
        with translate_request_errors(self._api):
            based = _base_changed_at(self._read_timeline(number))
            for review in self._list_pages(f"{self._repository}/pulls/{number}/reviews"):
                if review["state"] in _DECISIVE_STATES and review["user"]:
                    good = review["state"] == "APPROVED" and not review["dismissed"] and not review["stale"]
                    good = good and (not based or _parse_time(review["submitted_at"]) > _parse_time(based))
                    last[_to_account(review["user"])] = good and review["commit_id"] == head
        return frozenset(who for who, good in last.items() if good)

    def _read_timeline(self, number: int) -> list[Any]:
        return list(self._list_pages(f"{self._repository}/issues/{number}/timeline", is_linked=False))

    def members(self, team: str) -> frozenset[Account]:
        """Return a team's members."""
        organisation, _, name = team.removeprefix("@").partition("/")
        with translate_request_errors(self._api):
            for org_team in self._list_pages(f"orgs/{quote(organisation)}/teams"):
                if org_team["name"].lower() == name.lower():
                    members = self._list_pages(f"teams/{org_team['id']}/members")
                    return frozenset(_to_account(member) for member in members)
        raise NotFound(f"the forge shows no team {team}")

    def list_comments(self, number: int) -> Iterator[Comment]:
        """Yield all comments."""
        with translate_request_errors(self._api):
            for comment in self._list_pages(f"{self._repository}/issues/{number}/comments"):
                yield Comment(int(comment["id"]), str(comment["user"]["login"]), str(comment["body"]))

    def create_comment(self, number: int, body: str) -> None:
        """Create a comment."""
        self._request("POST", f"{self._repository}/issues/{number}/comments", {"body": body})

    def update_comment(self, number: int, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        self._request("PATCH", f"{self._repository}/issues/comments/{comment}", {"body": body})

    def delete_comment(self, number: int, comment: int) -> None:
        """Delete a comment."""
        self._request("DELETE", f"{self._repository}/issues/comments/{comment}")

    def list_statuses(self, commit: str) -> Iterator[CommitStatus]:
        """Yield a commit's statuses, the newest first.

        This method sorts the statuses by id. The times of statuses are only in seconds, so they don't give the order.
        Gitea has two options that sort by index, but each option sorts in the order of the other option.
        """
        with translate_request_errors(self._api):
            statuses = list(self._list_pages(f"{self._repository}/commits/{commit}/statuses"))
            for status in sorted(statuses, key=lambda status: int(status["id"]), reverse=True):
                author = (status.get("creator") or {}).get("login", "")
                words = status["context"], status["status"], status["description"], author, status["target_url"]
                yield CommitStatus(*map(to_text, words))

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit's status."""
        body = {
            "state": status.state,
            "context": status.context,
            "description": status.description,
            "target_url": status.url,
        }
        self._request("POST", f"{self._repository}/statuses/{commit}", body)

    def _request(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        with translate_request_errors(self._api):
            answer = self._session.request(method, f"{self._api}/{path}", json=body, timeout=TIMEOUT)
            return answer.json() if answer.content else None

    def _list_pages(self, path: str, *, is_linked: bool = True, **query: str) -> Iterator[Any]:
        """Yield all entries of a list, which may have several pages.

        Each page except the last links to the next page. The pages of a timeline have no links (`is_linked` is False),
        so pages are requested until an empty page arrives.
        """
        for page in range(1, _MAX_PAGES + 1):
            with translate_request_errors(self._api):
                parameters: dict[str, str | int] = {**query, "page": page, "limit": PAGE}
                answer = self._session.get(f"{self._api}/{path}", params=parameters, timeout=TIMEOUT)
                entries = list(answer.json() or [])
            yield from entries
            if not entries or (is_linked and "next" not in answer.links):
                return
        raise ForgeUnreachable(f"the forge's list has more than {_MAX_PAGES} pages")


def _base_changed_at(timeline: list[Any]) -> str:
    """Return the time of the last change of a pull request's base; empty if it was never changed."""
    return max(
        [str(event["created_at"]) for event in timeline if event["type"] == "change_target_branch"],
        key=_parse_time,
        default="",
    )


def _parse_time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _to_account(user: Mapping[str, Any] | None) -> Account:
    """Return the account of a user. The id of a deleted user is negative and becomes 0."""
    return Account(to_text(user["login"]), max(0, int(user["id"]))) if user else Account("")


def _to_fork(repository: Mapping[str, Any]) -> Fork:
    return Fork(int(repository["id"]), str(repository["owner"]["login"]), str(repository["clone_url"]))


def _to_pull_request(pull: Mapping[str, Any]) -> PullRequest:
    return PullRequest(
        number=int(pull["number"]),
        head=str(pull["head"]["sha"]),
        base=str(pull["base"]["ref"]),
        base_commit=str(pull.get("merge_base") or pull["base"]["sha"]),
        author=_to_account(pull.get("user")),
        is_open=pull["state"] == "open",
        merge_commit=to_text(pull.get("merge_commit_sha")) if pull["merged"] else "",
        is_locked=bool(pull.get("is_locked")),
        updated_at=to_text(pull["updated_at"]),
        url=str(pull["html_url"]),
        is_draft=bool(pull.get("draft")),
        merged_at=to_text(pull.get("merged_at")),
    )
