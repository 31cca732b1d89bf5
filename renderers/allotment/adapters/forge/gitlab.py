"""Implements the forge for gitlab.com and self-managed GitLab, with python-gitlab."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

import gitlab
from gitlab.exceptions import GitlabError

from allotment.adapters.forge.forge import (
    PAGE,
    TIMEOUT,
    Comment,
    CommitStatus,
    Forbidden,
    Forge,
    Fork,
    NotFound,
    PullRequest,
    PullRequestHead,
    RequestDeclined,
    Token,
)
from allotment.adapters.forge.session import ForgeSession, to_text, translate_request_errors
from allotment.declared.people import Account

_TO_GITLAB = {"failure": "failed"}
_DAY = datetime.timedelta(days=1)
_FROM_GITLAB = {"failed": "failure", "canceled": "failure", "running": "pending"}


def connect(server: str, repository: str, token: Token, api: str | None) -> Forge:
    """Return a project on a server. `api` is with or without its end /api/v4, and can name a path that GitLab is below."""
    base = (api or server).rstrip("/").removesuffix("/api/v4")
    folder = urlsplit(base).path.strip("/")
    return GitLab(base, repository.removeprefix(f"{folder}/"), token)


class GitLab:
    """A project on GitLab."""

    name = "GitLab"
    comment_bytes = 200_000

    def __init__(self, server: str, project: str, token: Token) -> None:
        # At a rate limit, the session raises before the library sleeps.
        self._gitlab: Any = gitlab.Gitlab(server, private_token=token.secret, timeout=TIMEOUT, session=ForgeSession())
        self._api = server
        self._project: Any = self._gitlab.projects.get(project, lazy=True)
        self._identity = ""

    def _explain_errors(self) -> AbstractContextManager[None]:
        return translate_request_errors(self._api, GitlabError)

    def identity(self) -> str:
        """Return the login of the token's owner."""
        if not self._identity:
            with self._explain_errors():
                self._gitlab.auth()
                self._identity = str(self._gitlab.user.username)
        return self._identity

    def pull_request(self, number: int) -> PullRequest:
        """Return a merge request."""
        with self._explain_errors():
            return _to_pull_request(self._project.mergerequests.get(number).attributes)

    def open_pull_requests(self, base: str) -> Iterator[PullRequest]:
        """Yield the open merge requests into a branch."""
        yield from self._merge_requests(state="opened", target_branch=base)

    def merged_since(self, base: str, since: datetime.datetime) -> Iterator[PullRequest]:
        """Yield the merge requests that were merged into `base` and updated since `since`."""
        query = {"updated_after": since.isoformat(), "order_by": "updated_at", "sort": "desc"}
        yield from self._merge_requests(state="merged", target_branch=base, **query)

    def create_pull_request(self, head: PullRequestHead, base: str, title: str, body: str) -> PullRequest:
        """Open a merge request. GitLab creates it in the project with the branch."""
        fields: dict[str, Any] = {
            "source_branch": head.branch,
            "target_branch": base,
            "title": title,
            "description": body,
        }
        with self._explain_errors():
            source = self._project
            if head.fork:
                fields["target_project_id"] = self._project_id()
                source = self._gitlab.projects.get(head.fork.id, lazy=True)
            number = source.mergerequests.create(fields).iid
            return _to_pull_request(self._project.mergerequests.get(number).attributes)

    def close_pull_request(self, number: int) -> None:
        """Close a merge request."""
        with self._explain_errors():
            request = self._project.mergerequests.get(number, lazy=True)
            request.state_event = "close"
            request.save()

    def merge(self, number: int, head: str, title: str, message: str) -> None:
        """Merge a merge request. A fast-forward makes no commit of its own, so GitLab squashes the commits."""
        with self._explain_errors():
            project = self._gitlab.projects.get(self._project.get_id())
            text = f"{title}\n\n{message}"
            fields = {"sha": head, "merge_commit_message": text, "squash_commit_message": text}
            is_squash = (
                project.attributes.get("merge_method") == "ff" or project.attributes.get("squash_option") == "always"
            )
            path = f"/projects/{project.id}/merge_requests/{number}/merge"
            self._gitlab.http_put(path, post_data={**fields, "squash": is_squash})

    def find_pull_requests(self, head: PullRequestHead) -> Iterator[PullRequest]:
        """Yield the merge requests of a branch."""
        with self._explain_errors():
            query = {"state": "all", "source_branch": head.branch, "order_by": "created_at", "sort": "desc"}
            for request in self._project.mergerequests.list(iterator=True, per_page=PAGE, **query):
                source = head.fork.id if head.fork else request.target_project_id
                if request.source_project_id == source:
                    yield _to_pull_request(self._project.mergerequests.get(request.iid).attributes)

    def fork(self) -> Fork:
        """Return the fork of the token's owner."""
        existing = self._find_fork()
        if existing is not None:
            return existing
        try:
            with self._explain_errors():
                return _to_fork(self._project.forks.create({}).attributes)
        except RequestDeclined:  # another process created the fork at the same time
            if (existing := self._find_fork()) is None:
                raise
            return existing

    def _find_fork(self) -> Fork | None:
        login = self.identity()
        with self._explain_errors():
            for fork in self._project.forks.list(iterator=True, per_page=PAGE, owned=True):
                if fork.namespace["path"] == login:
                    return _to_fork(fork.attributes)
        return None

    def _project_id(self) -> int:
        return int(self._gitlab.projects.get(self._project.get_id()).id)

    def _merge_requests(self, **query: str) -> Iterator[PullRequest]:
        with self._explain_errors():
            for request in self._project.mergerequests.list(iterator=True, per_page=PAGE, **query):
                attributes = request.attributes
                if not attributes.get("diff_refs"):  # GitLab may omit diff_refs in a list of merge requests
                    attributes = self._project.mergerequests.get(request.iid).attributes
                yield _to_pull_request(attributes)

    def pushers(self, number: int, head: str) -> frozenset[Account] | None:
        """Return the accounts that pushed, from the events of the source project.

        Each push creates a version of the merge request. A change of the target branch creates a version too, with the
        same head as the version before. Return None if two versions have the same head, if the source project is not
        readable, or if the event of a push is missing.
        """
        with self._explain_errors():
            request = self._project.mergerequests.get(number)
            versions = _list_versions(request)
            heads = [to_text(version["head_commit_sha"]) for version in versions]
            if not heads or heads[-1] != head or len(set(heads)) < len(heads):
                return None
            if len(heads) == 1:
                return frozenset()
            source = self._gitlab.projects.get(request.source_project_id, lazy=True)
            days = {
                "after": _parse_time(versions[0]["created_at"]).date() - 2 * _DAY,  # both bounds are exclusive
                "before": _parse_time(versions[-1]["created_at"]).date() + 2 * _DAY,
            }
        query = {"action": "pushed", "sort": "desc", **{name: day.isoformat() for name, day in days.items()}}
        accounts: dict[str, Account] = {}
        try:
            with self._explain_errors():
                for event in source.events.list(iterator=True, per_page=PAGE, **query):
                    pushed = event.attributes.get("push_data") or {}
                    if pushed.get("ref") == request.source_branch and pushed.get("commit_to") in heads[1:]:
                        accounts.setdefault(pushed["commit_to"], _to_account(event.author))
        except (NotFound, Forbidden):
            return None
        return frozenset(accounts.values()) if len(accounts) == len(heads) - 1 else None

    def approvals(self, number: int, head: str) -> frozenset[Account]:
        """Return the accounts that approved after this head was pushed. An approval without a time is ignored.

        GitLab doesn't report which head an account approved, but it reports the times of approvals and of versions.
        """
        with self._explain_errors():
            request = self._project.mergerequests.get(number, lazy=True)
            versions = _list_versions(request)
            pushed = [_parse_time(version["created_at"]) for version in versions if version["head_commit_sha"] == head]
            if not pushed or versions[-1]["head_commit_sha"] != head:
                return frozenset()
            approvals = request.approvals.get().attributes.get("approved_by") or []
            return frozenset(
                _to_account(approval["user"])
                for approval in approvals
                if approval.get("approved_at") and _parse_time(approval["approved_at"]) > max(pushed)
            )

    def members(self, team: str) -> frozenset[Account]:
        """Return a group's direct members."""
        with self._explain_errors():
            group = self._gitlab.groups.get(team.removeprefix("@"), lazy=True)
            members = group.members.list(iterator=True, per_page=PAGE)
            return frozenset(
                _to_account(member.attributes)
                for member in members
                if member.attributes.get("state", "active") == "active"
            )

    def list_comments(self, number: int) -> Iterator[Comment]:
        """Yield all comments."""
        with self._explain_errors():
            notes = self._project.mergerequests.get(number, lazy=True).notes
            for note in notes.list(iterator=True, per_page=PAGE, sort="asc", order_by="created_at"):
                if not note.attributes.get("system"):
                    yield Comment(int(note.id), to_text(note.author["username"]), to_text(note.body))

    def create_comment(self, number: int, body: str) -> None:
        """Create a comment."""
        with self._explain_errors():
            self._project.mergerequests.get(number, lazy=True).notes.create({"body": body})

    def update_comment(self, number: int, comment: int, body: str) -> None:
        """Replace the text of a comment."""
        with self._explain_errors():
            self._project.mergerequests.get(number, lazy=True).notes.update(comment, {"body": body})

    def delete_comment(self, number: int, comment: int) -> None:
        """Delete a comment."""
        with self._explain_errors():
            self._project.mergerequests.get(number, lazy=True).notes.delete(comment)

    def list_statuses(self, commit: str) -> Iterator[CommitStatus]:
        """Yield a commit's statuses."""
        with self._explain_errors():
            statuses = self._project.commits.get(commit, lazy=True).statuses.list(get_all=True, per_page=PAGE, all=True)
            for status in sorted(statuses, key=lambda status: status.id, reverse=True):
                state = to_text(status.status)
                author = (status.author or {}).get("username", "")
                words = status.name, _FROM_GITLAB.get(state, state), status.description, author
                yield CommitStatus(*map(to_text, (*words, status.attributes.get("target_url"))))

    def set_status(self, commit: str, status: CommitStatus) -> None:
        """Set a commit's status. GitLab refuses a status that the commit already has; this refusal is not an error."""
        body = {
            "state": _TO_GITLAB.get(status.state, status.state),
            "name": status.context,
            "description": status.description,
            "target_url": status.url,
        }
        try:
            with self._explain_errors():
                self._project.commits.get(commit, lazy=True).statuses.create(body)
        except RequestDeclined as error:
            if "Cannot transition status" not in str(error):
                raise


def _list_versions(request: Any) -> list[dict[str, Any]]:
    """Return the versions of a merge request, the oldest first. The oldest was created with the merge request."""
    versions = [diff.attributes for diff in request.diffs.list(get_all=True, per_page=PAGE)]
    return sorted(versions, key=lambda version: _parse_time(version["created_at"]))


def _to_account(user: dict[str, Any] | None) -> Account:
    return Account(to_text(user["username"]), int(user["id"])) if user else Account("")


def _parse_time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _to_fork(attributes: dict[str, Any]) -> Fork:
    return Fork(int(attributes["id"]), str(attributes["namespace"]["path"]), str(attributes["http_url_to_repo"]))


def _to_pull_request(attributes: dict[str, Any]) -> PullRequest:
    merged = attributes["state"] == "merged"
    merge_commit = attributes.get("merge_commit_sha") or attributes.get("squash_commit_sha") or attributes["sha"]
    return PullRequest(
        number=int(attributes["iid"]),
        head=str(attributes["sha"]),
        base=str(attributes["target_branch"]),
        base_commit=to_text((attributes.get("diff_refs") or {}).get("base_sha")),
        author=_to_account(attributes.get("author")),
        is_open=attributes["state"] == "opened",
        merge_commit=to_text(merge_commit) if merged else "",
        is_locked=bool(attributes.get("discussion_locked")),
        updated_at=to_text(attributes["updated_at"]),
        url=str(attributes["web_url"]),
        is_draft=bool(attributes.get("draft")),
        merged_at=to_text(attributes.get("merged_at")) if merged else "",
    )
