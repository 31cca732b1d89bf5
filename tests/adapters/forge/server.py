"""A forge's HTTP API on the loopback, answering as GitHub's and GitLab's documentation says, and failing on demand."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from allotment.adapters.forge import github as adapter
from allotment.adapters.forge.forge import Fork

TOKEN, BOT, REPOSITORY = "s3cret-token", "allot-bot", "acme/gpus"
FORK = 88  # the id of the bot's fork
START = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)


class Answer(NamedTuple):
    """What is answered: status, JSON, headers."""

    status: int
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


class Fault(NamedTuple):
    """What goes wrong once: with a request whose `METHOD path` a pattern matches, before or after it took effect.

    Without an answer the connection is cut.
    """

    pattern: str
    answer: Answer | None
    after: bool = False


class Pull:
    """A pull request on the server."""

    def __init__(self, number: int, head: str, author: str, base: str, now: datetime.datetime) -> None:
        self.number, self.head, self.author, self.base = number, head, author, base
        self.state, self.merged, self.locked, self.draft = "open", "", False, False
        self.merged_at = now
        self.created = self.updated = now
        self.comments: list[dict[str, Any]] = []
        self.approvals: list[tuple[str, str, datetime.datetime, bool]] = []
        self.versions: list[tuple[str, datetime.datetime]] = [(head, now)]
        self.pushes = [(head, author, now - datetime.timedelta(seconds=1))]  # commit, who and when
        self.forced: set[str] = set()
        self.based: list[datetime.datetime] = []  # when its base was changed
        self.branch, self.fork = f"change-{number}", 0  # the id of the fork that has the branch; 0 without a fork
        self.title = self.body = ""


class World:
    """A repository on a forge, and what happened there."""

    page = 2  # so few on a page that every list has several
    bot, people = BOT, ("ada", "ann", "bob")
    kind: str
    head_ref = "refs/pull/{number}/head"
    limited: Answer  # what a limit that ends at a time answers

    def __init__(self) -> None:
        self.pulls: dict[int, Pull] = {}
        self.statuses: dict[str, list[dict[str, Any]]] = {}
        self.teams: dict[str, list[str]] = {}
        self.accounts: dict[str, int] = {}
        self.hides_pushes = False  # as those of a private fork
        self.branches: dict[tuple[int, str], str] = {}  # the commits of branches, by the id of the fork and the name
        self.is_forked = self.declines_forks = False
        self.fork_url = f"https://forge.example/{BOT}/gpus.git"  # the clone URL of the bot's fork
        self.has_rival = (
            False  # another process opens a pull request of the same branch just before the next request does
        )
        self.repositories: dict[int, Path] = {}  # bare repositories with the branches, by the id of the fork
        self.merge_settings: dict[str, Any] = {}  # of the repository
        self.merge_requests: list[dict[str, Any]] = []  # the bodies of accepted merges
        self.on_merge: Callable[[int, str], str] | None = None  # merges the branch; returns the commit
        self.calls: list[str] = []
        self.faults: list[Fault] = []
        self.ids = 100
        self._lock = threading.Lock()
        self.now = START
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"world": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def api(self) -> str:
        raise NotImplementedError

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def tick(self) -> datetime.datetime:
        self.now += datetime.timedelta(seconds=1)
        return self.now

    def open(self, number: int, head: str = "", author: str = "ada", *, base: str = "main") -> str:
        self.pulls[number] = Pull(number, head or self.commit(), author, base, self.tick())
        return self.pulls[number].head

    def push_branch(self, name: str, fork: Fork | None = None) -> str:
        """Push a new branch to the repository, or to a fork; return its commit."""
        head = self.branches[fork.id if fork else 0, name] = self.commit()
        return head

    def remove_branch(self, name: str) -> None:
        del self.branches[0, name]

    def create(self, fork: int, branch: str, base: str, title: str, body: str) -> Pull | None:
        """Open a pull request of a branch as the bot; None if the branch is missing or has one."""
        with self._lock:
            return self._create_pull(fork, branch, base, title, body)

    def _create_pull(self, fork: int, branch: str, base: str, title: str, body: str) -> Pull | None:
        head = self.find_head(fork, branch)
        is_rival_first, self.has_rival = self.has_rival, False
        if is_rival_first:
            self._create_pull(fork, branch, base, title, body)
        elif head is None or any(
            (pull.fork, pull.branch, pull.state) == (fork, branch, "open") for pull in self.pulls.values()
        ):
            return None
        assert head is not None
        number = max(self.pulls, default=0) + 1
        self.open(number, head, BOT, base=base)
        pull = self.pulls[number]
        pull.fork, pull.branch, pull.title, pull.body = fork, branch, title, body
        if self.repositories:
            ref = f"{branch}:{self.head_ref.format(number=number)}"
            git = ["git", "-C", str(self.repositories[0]), "fetch", "-q", str(self.repositories[fork]), ref]
            subprocess.run(git, check=True, capture_output=True)
        return pull

    def find_head(self, fork: int, branch: str) -> str | None:
        """Return the commit of a branch; None if there is no such branch."""
        if not self.repositories:
            return self.branches.get((fork, branch))
        git = ["git", "-C", str(self.repositories[fork]), "rev-parse", "--verify", "-q", f"refs/heads/{branch}"]
        return subprocess.run(git, check=False, capture_output=True, text=True).stdout.strip() or None

    def push(self, number: int, head: str = "", *, login: str = "") -> str:
        pull = self.pulls[number]
        pull.head, pull.updated = head or self.commit(), self.tick()
        pull.versions.append((pull.head, pull.updated))
        pull.pushes.append((pull.head, login or pull.author, pull.updated))
        return pull.head

    def change_base(self, number: int, base: str) -> None:
        pull = self.pulls[number]
        pull.base, pull.updated = base, self.tick()
        pull.based.append(pull.updated)
        pull.versions.append((pull.head, pull.updated))

    def id(self, login: str) -> int:
        """Return a person's id; one whose account was renamed or deleted is taken from `accounts`."""
        return self.accounts.setdefault(login, 1000 + len(self.accounts))

    def push_back(self, number: int, head: str) -> None:
        self.push(number, head)

    def head(self, number: int) -> str:
        return self.pulls[number].head

    def commit(self) -> str:
        self.ids += 1
        return f"{self.ids:040x}"

    def close_pull(self, number: int) -> None:
        self.pulls[number].state = "closed"

    def lock(self, number: int) -> None:
        self.pulls[number].locked = True

    def team(self, *logins: str) -> str:
        self.teams["@acme/platform"] = list(logins)
        return "@acme/platform"

    def approve(self, number: int, login: str, *, takes_back: bool = False) -> None:
        pull = self.pulls[number]
        pull.approvals.append((login, pull.head, self.tick(), not takes_back))

    def say(self, number: int, login: str, body: str) -> dict[str, Any]:
        self.ids += 1
        comment = {"id": self.ids, "login": login, "body": body}
        self.pulls[number].comments.append(comment)
        self.pulls[number].updated = self.tick()
        return comment

    def merge(self, number: int, commit: str = "") -> str:
        pull = self.pulls[number]
        pull.state, pull.merged, pull.updated = "closed", commit or self.commit(), self.tick()
        pull.merged_at = pull.updated
        return pull.merged

    def merge_head(self, number: int, head: str, message: str, body: dict[str, Any]) -> Answer:
        """Merge a pull request as the bot, if its head is `head`."""
        pull = self.pulls[number]
        if pull.head != head:
            return Answer(409, {"message": "Head branch was modified"})
        if pull.state != "open":
            return Answer(405, {"message": "Pull Request is not mergeable"})
        self.merge_requests.append(body)
        commit = self.merge(number, self.on_merge(number, message) if self.on_merge else "")
        return _done({"sha": commit, "merged": True})

    def fail(self, pattern: str, answer: Answer | None, *, after: bool = False) -> None:
        self.faults.append(Fault(pattern, answer, after))

    def writes(self) -> list[str]:
        """Return the requests that change something, as `METHOD path`."""
        return [call for call in self.calls if not call.startswith("GET") and "graphql" not in call]

    def bodies(self, number: int, login: str = BOT) -> list[str]:
        return [comment["body"] for comment in self.pulls[number].comments if comment["login"] == login]

    def take_fault(self, call: str, *, after: bool) -> Fault | None:
        for fault in self.faults:
            if fault.after == after and re.search(fault.pattern, call):
                self.faults.remove(fault)
                return fault
        return None

    def respond(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        for route, act in self.routes():
            if match := re.fullmatch(route, f"{method} {path}"):
                return act(query, body, *match.groups())
        return Answer(404, {"message": "Not Found"})

    def routes(self) -> list[tuple[str, Callable[..., Answer]]]:
        raise NotImplementedError

    def authorised(self, headers: Any) -> bool:
        raise NotImplementedError

    def paged(self, path: str, query: dict[str, str], items: list[Any]) -> Answer:
        """Return one page, and in a Link header where the next one is."""
        page = int(query.get("page", "1"))
        size = min(self.page, int(query.get("per_page", "30")))
        more = {**query, "page": str(page + 1)}
        link = f'<{self.url}{path}?{"&".join(f"{key}={value}" for key, value in more.items())}>; rel="next"'
        has_more = page * size < len(items)
        return Answer(200, items[(page - 1) * size : page * size], {"Link": link} if has_more else {})


class _Handler(BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one segment: two would wait for each other's acknowledgement

    def _do(self) -> None:
        parts = urlsplit(self.path)
        path, query = parts.path, dict(parse_qsl(parts.query))
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        call = f"{self.command} {unquote(path)}"
        self.world.calls.append(call)
        if not self.world.authorised(self.headers):
            self._send(Answer(401, {"message": "Bad credentials"}))
            return
        fault = self.world.take_fault(call, after=False)
        if fault is None:
            answer = self.world.respond(self.command, path, query, body)
            fault = self.world.take_fault(call, after=True)
        if fault is not None:
            if fault.answer is None:
                self.close_connection = True
                self.connection.close()
                return
            answer = fault.answer
        self._send(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _do  # noqa: N815  # the library's names

    def _send(self, answer: Answer) -> None:
        data = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _done(body: Any, status: int = 200) -> Answer:
    return Answer(status, body)


class GitHubWorld(World):
    """https://docs.github.com/en/rest; it asks for no pause between writes."""

    kind = "GitHub"
    limited = Answer(403, {"message": "API rate limit exceeded for user"}, {"x-ratelimit-remaining": "0"})

    def __init__(self) -> None:
        super().__init__()
        adapter.WRITE_SECONDS = 0.0

    @property
    def api(self) -> str:
        return f"{self.url}/api/v3"

    def authorised(self, headers: Any) -> bool:
        return bool(headers.get("Authorization") == f"token {TOKEN}")

    def routes(self) -> list[tuple[str, Callable[..., Answer]]]:
        repo = f"/api/v3/repos/{REPOSITORY}"
        return [
            ("POST .*/graphql", lambda *_: _done({"data": {"viewer": {"login": BOT}}})),
            (f"GET {repo}/pulls", self._list),
            (f"POST {repo}/pulls", self._create),
            (f"POST {repo}/forks", self._fork),
            (f"GET {repo}/pulls/([0-9]+)", lambda _, __, number: self._one(number)),
            (f"PATCH {repo}/pulls/([0-9]+)", self._change),
            (f"PUT {repo}/pulls/([0-9]+)/merge", self._merge),
            (f"GET {repo}", lambda *_: _done({"full_name": REPOSITORY, **self.merge_settings})),
            (f"GET {repo}/pulls/([0-9]+)/reviews", self._reviews),
            (f"GET {repo}/activity", self._activity),
            (f"GET {repo}/issues/([0-9]+)/events", self._events),
            (f"GET {repo}/issues/([0-9]+)/comments", self._comments),
            (f"POST {repo}/issues/([0-9]+)/comments", self._say),
            (f"(GET|PATCH|DELETE) {repo}/issues/comments/([0-9]+)", self._comment),
            (
                f"GET {repo}/commits/([0-9a-f]+)",
                lambda _, __, sha: _done({"sha": sha, "url": f"{self.url}{repo}/commits/{sha}"}),
            ),
            (f"GET {repo}/statuses/([0-9a-f]+)", self._statuses),
            (f"POST {repo}/statuses/([0-9a-f]+)", self._status),
            ("GET /api/v3/orgs/([a-z]+)/teams/([a-z]+)/members", self._members),
        ]

    def _json(self, pull: Pull) -> dict[str, Any]:
        base = f"{self.api}/repos/{REPOSITORY}"
        return {
            "number": pull.number,
            "url": f"{base}/pulls/{pull.number}",
            "issue_url": f"{base}/issues/{pull.number}",
            "html_url": f"https://forge.example/{REPOSITORY}/pull/{pull.number}",
            "state": pull.state,
            "locked": pull.locked,
            "draft": pull.draft,
            "user": self._user(pull.author),
            "title": pull.title,
            "body": pull.body,
            "head": {"sha": pull.head, "ref": pull.branch, "repo": {"full_name": REPOSITORY}},
            "base": {"sha": "b" * 40, "ref": pull.base},
            "merged_at": _time(pull.merged_at) if pull.merged else None,
            "created_at": _time(pull.created),
            "merge_commit_sha": pull.merged or None,
            "updated_at": _time(pull.updated),
        }

    def _user(self, login: str) -> dict[str, Any]:
        return {"login": login, "id": self.id(login)}

    def _events(self, query: dict[str, str], _: Any, number: str) -> Answer:
        items = [
            {"id": at, "event": "base_ref_changed", "created_at": _time(moment)}
            for at, moment in enumerate(self.pulls[int(number)].based)
        ]
        return self.paged(f"/api/v3/repos/{REPOSITORY}/issues/{number}/events", query, items)

    def _activity(self, query: dict[str, str], _: Any) -> Answer:
        if self.hides_pushes:
            return Answer(404, {"message": "Not Found"})
        number = int(query["ref"].removeprefix("refs/heads/change-"))
        items = [
            {
                "after": head,
                "actor": self._user(login),
                "timestamp": _time(moment),
                "activity_type": "force_push" if head in self.pulls[number].forced else "push",
            }
            for head, login, moment in reversed(self.pulls[number].pushes)
        ]
        return _done(items)

    def _list(self, query: dict[str, str], _: Any) -> Answer:
        pulls = [
            pull
            for pull in self.pulls.values()
            if query["state"] in (pull.state, "all")
            and query.get("base", pull.base) == pull.base
            and query.get("head", self._label(pull)) == self._label(pull)
        ]
        created = query.get("sort") == "created"
        pulls.sort(key=lambda pull: pull.created if created else pull.updated, reverse=True)
        return self.paged(f"/api/v3/repos/{REPOSITORY}/pulls", query, [self._json(pull) for pull in pulls])

    def _label(self, pull: Pull) -> str:
        return f"{BOT if pull.fork else REPOSITORY.split('/', maxsplit=1)[0]}:{pull.branch}"

    def _create(self, _: Any, body: dict[str, str]) -> Answer:
        owner, _, branch = body["head"].partition(":")
        fork = FORK if owner == BOT else 0
        pull = self.create(fork, branch, body["base"], body["title"], body["body"])
        return _done(self._json(pull), 201) if pull else Answer(422, {"message": "Validation Failed"})

    def _fork(self, *_: Any) -> Answer:
        if self.declines_forks:
            return Answer(403, {"message": "Forking is disabled"})
        self.is_forked = True
        return _done(
            {"id": FORK, "owner": self._user(BOT), "clone_url": self.fork_url, "full_name": f"{BOT}/gpus"}, 202
        )

    def _change(self, _: Any, body: dict[str, str], number: str) -> Answer:
        assert body == {"state": "closed"}
        self.close_pull(int(number))
        return self._one(number)

    def _merge(self, _: Any, body: dict[str, str], number: str) -> Answer:
        message = f"{body['commit_title']}\n\n{body['commit_message']}"
        return self.merge_head(int(number), body["sha"], message, body)

    def _one(self, number: str) -> Answer:
        pull = self.pulls.get(int(number))
        return _done(self._json(pull)) if pull else Answer(404, {"message": "Not Found"})

    def _reviews(self, query: dict[str, str], _: Any, number: str) -> Answer:
        items = [
            {
                "id": at,
                "user": self._user(login),
                "commit_id": head,
                "state": "APPROVED" if good else "DISMISSED",
                "submitted_at": _time(moment),
            }
            for at, (login, head, moment, good) in enumerate(self.pulls[int(number)].approvals)
        ]
        return self.paged(f"/api/v3/repos/{REPOSITORY}/pulls/{number}/reviews", query, items)

    def _comment_json(self, comment: dict[str, Any]) -> dict[str, Any]:
        url = f"{self.api}/repos/{REPOSITORY}/issues/comments/{comment['id']}"
        return {"id": comment["id"], "url": url, "body": comment["body"], "user": self._user(comment["login"])}

    def _comments(self, query: dict[str, str], _: Any, number: str) -> Answer:
        items = [self._comment_json(comment) for comment in self.pulls[int(number)].comments]
        return self.paged(f"/api/v3/repos/{REPOSITORY}/issues/{number}/comments", query, items)

    def _say(self, _: Any, body: dict[str, str], number: str) -> Answer:
        return _done(self._comment_json(self.say(int(number), BOT, body["body"])), 201)

    def _comment(self, _: Any, body: dict[str, str], method: str, identity: str) -> Answer:
        for pull in self.pulls.values():
            for comment in pull.comments:
                if comment["id"] == int(identity):
                    if method == "PATCH":
                        comment["body"] = body["body"]
                    if method == "DELETE":
                        pull.comments.remove(comment)
                        return Answer(204, None)
                    return _done(self._comment_json(comment))
        return Answer(404, {"message": "Not Found"})

    def _statuses(self, query: dict[str, str], _: Any, sha: str) -> Answer:
        items = [{**status, "creator": {"login": status["login"]}} for status in reversed(self.statuses.get(sha, []))]
        return self.paged(f"/api/v3/repos/{REPOSITORY}/statuses/{sha}", query, items)

    def _status(self, _: Any, body: dict[str, str], sha: str) -> Answer:
        self.statuses.setdefault(sha, []).append({**body, "login": BOT})
        return _done(body, 201)

    def _members(self, query: dict[str, str], _: Any, organisation: str, slug: str) -> Answer:
        people = self.teams.get(f"@{organisation}/{slug}")
        if people is None:
            return Answer(404, {"message": "Not Found"})
        items = [self._user(login) for login in people]
        return self.paged(f"/api/v3/orgs/{organisation}/teams/{slug}/members", query, items)


class GitLabWorld(World):
    """https://docs.gitlab.com/api/"""

    kind = "GitLab"
    head_ref = "refs/merge-requests/{number}/head"
    limited = Answer(429, {"message": "Too Many Requests"}, {"RateLimit-Remaining": "0"})

    @property
    def api(self) -> str:
        return self.url

    def authorised(self, headers: Any) -> bool:
        return bool(headers.get("PRIVATE-TOKEN") == TOKEN)

    def routes(self) -> list[tuple[str, Callable[..., Answer]]]:
        project = "/api/v4/projects/acme%2Fgpus"
        merge_request = f"{project}/merge_requests/([0-9]+)"
        return [
            ("GET /api/v4/user", lambda *_: _done({"id": 1, "username": BOT})),
            (f"GET {project}/merge_requests", self._list),
            (f"GET {project}", lambda *_: _done({"id": 77, "path_with_namespace": REPOSITORY, **self.merge_settings})),
            (f"GET {project}/forks", self._forks),
            (f"POST {project}/fork", self._fork),
            (f"POST /api/v4/projects/(acme%2Fgpus|{FORK})/merge_requests", self._create),
            ("GET /api/v4/projects/77/events", self._events),
            (f"GET {merge_request}", lambda _, __, number: self._one(number)),
            (f"PUT {merge_request}", self._change),
            ("PUT /api/v4/projects/77/merge_requests/([0-9]+)/merge", self._merge),
            (f"GET {merge_request}/versions", self._versions),
            (f"GET {merge_request}/approvals", self._approvals),
            (f"GET {merge_request}/notes", self._notes),
            (f"POST {merge_request}/notes", self._say),
            (f"(PUT|DELETE) {merge_request}/notes/([0-9]+)", self._note),
            (f"GET {project}/repository/commits/([0-9a-f]+)/statuses", self._statuses),
            (f"POST {project}/statuses/([0-9a-f]+)", self._status),
            ("GET /api/v4/groups/([^/]+)/members", self._members),
        ]

    def _json(self, pull: Pull, *, whole: bool) -> dict[str, Any]:
        states = {"open": "opened", "closed": "merged" if pull.merged else "closed"}
        return {
            "id": 1000 + pull.number,
            "iid": pull.number,
            "sha": pull.head,
            "target_branch": pull.base,
            "author": self._user(pull.author),
            "source_project_id": pull.fork or 77,
            "target_project_id": 77,
            "source_branch": pull.branch,
            "title": pull.title,
            "description": pull.body,
            "created_at": _time(pull.created),
            "state": states[pull.state],
            "discussion_locked": pull.locked or None,
            "draft": pull.draft,
            "merge_commit_sha": pull.merged or None,
            "merged_at": _time(pull.merged_at) if pull.merged else None,
            "updated_at": _time(pull.updated),
            "web_url": f"https://forge.example/{REPOSITORY}/-/merge_requests/{pull.number}",
            **({"diff_refs": {"base_sha": "b" * 40}} if whole else {}),
        }

    def _list(self, query: dict[str, str], _: Any) -> Answer:
        merge_requests = [
            self._json(pull, whole=False)
            for pull in sorted(self.pulls.values(), key=lambda pull: pull.updated, reverse=True)
        ]
        since = query.get("updated_after", "")
        matches = [
            merge_request
            for merge_request in merge_requests
            if query["state"] in (merge_request["state"], "all")
            and query.get("target_branch", merge_request["target_branch"]) == merge_request["target_branch"]
            and query.get("source_branch", merge_request["source_branch"]) == merge_request["source_branch"]
            and datetime.datetime.fromisoformat(merge_request["updated_at"]) >= datetime.datetime.fromisoformat(since or "2000-01-01T00:00:00Z")
        ]  # fmt: skip
        return self.paged("/api/v4/projects/acme%2Fgpus/merge_requests", query, matches)

    def _create(self, _: Any, body: dict[str, Any], project: str) -> Answer:
        fork = FORK if project == str(FORK) else 0
        assert body.get("target_project_id") == (77 if fork else None)
        pull = self.create(fork, body["source_branch"], body["target_branch"], body["title"], body["description"])
        message = "Another open merge request already exists for this source branch"
        return _done(self._json(pull, whole=False), 201) if pull else Answer(409, {"message": [message]})

    @property
    def _fork_json(self) -> dict[str, Any]:
        return {"id": FORK, "namespace": {"path": BOT}, "http_url_to_repo": self.fork_url}

    def _forks(self, query: dict[str, str], _: Any) -> Answer:
        assert query["owned"] in ("True", "true", "1")
        forks = [self._fork_json] if self.is_forked else []
        return self.paged("/api/v4/projects/acme%2Fgpus/forks", query, forks)

    def _fork(self, *_: Any) -> Answer:
        if self.declines_forks:
            return Answer(403, {"message": "403 Forbidden"})
        if self.is_forked:
            return Answer(409, {"message": "Project has already been taken"})
        self.is_forked = True
        return _done(self._fork_json, 201)

    def _user(self, login: str) -> dict[str, Any]:
        return {"username": login, "id": self.id(login)}

    def _events(self, query: dict[str, str], _: Any) -> Answer:
        """Return the pushes of the days between two, the newest first; a push of several branches at once says less."""
        if self.hides_pushes:
            return Answer(404, {"message": "404 Project Not Found"})
        items = [
            {
                "action_name": "pushed to",
                "created_at": _time(moment),
                "author": self._user(login),
                "push_data": {"ref": pull.branch, "ref_type": "branch", "commit_to": head},
            }
            for pull in self.pulls.values()
            for head, login, moment in reversed(pull.pushes)
            if query["after"] < moment.date().isoformat() < query["before"]
        ]
        bulk = {"action_name": "pushed to", "push_data": {"ref": None, "ref_count": 5, "commit_to": None}}
        return self.paged("/api/v4/projects/77/events", query, [bulk, *items])

    def _change(self, _: Any, body: dict[str, str], number: str) -> Answer:
        assert body["state_event"] == "close"
        self.close_pull(int(number))
        return self._one(number)

    def _merge(self, _: Any, body: dict[str, str], number: str) -> Answer:
        message = body["squash_commit_message" if body["squash"] else "merge_commit_message"]
        return self.merge_head(int(number), body["sha"], message, body)

    def _one(self, number: str) -> Answer:
        pull = self.pulls.get(int(number))
        return _done(self._json(pull, whole=True)) if pull else Answer(404, {"message": "404 Not found"})

    def _versions(self, query: dict[str, str], _: Any, number: str) -> Answer:
        items = [
            {"id": at, "head_commit_sha": head, "created_at": _time(moment)}
            for at, (head, moment) in enumerate(self.pulls[int(number)].versions)
        ]
        return self.paged(f"/api/v4/projects/acme%2Fgpus/merge_requests/{number}/versions", query, items[::-1])

    def _approvals(self, _: Any, __: Any, number: str) -> Answer:
        last = {login: (moment, good) for login, _, moment, good in self.pulls[int(number)].approvals}
        approvals = [
            {"user": self._user(login), "approved_at": _time(moment)} for login, (moment, good) in last.items() if good
        ]
        return _done({"approved_by": approvals})

    def _notes(self, query: dict[str, str], _: Any, number: str) -> Answer:
        items = [
            {"id": comment["id"], "body": comment["body"], "author": {"username": comment["login"]}, "system": False}
            for comment in self.pulls[int(number)].comments
        ]
        joined = {"id": 1, "body": "approved this merge request", "author": {"username": BOT}, "system": True}
        return self.paged(f"/api/v4/projects/acme%2Fgpus/merge_requests/{number}/notes", query, [joined, *items])

    def _say(self, _: Any, body: dict[str, str], number: str) -> Answer:
        return _done(self.say(int(number), BOT, body["body"]), 201)

    def _note(self, _: Any, body: dict[str, str], method: str, number: str, identity: str) -> Answer:
        comments = self.pulls[int(number)].comments
        for comment in comments:
            if comment["id"] == int(identity):
                if method == "DELETE":
                    comments.remove(comment)
                    return Answer(204, None)
                comment["body"] = body["body"]
                return _done(comment)
        return Answer(404, {"message": "404 Not found"})

    def _statuses(self, query: dict[str, str], _: Any, sha: str) -> Answer:
        items = [
            {
                "id": at,
                "name": status["name"],
                "status": status["state"],
                "description": status["description"],
                "target_url": status.get("target_url"),
                "author": {"username": status["login"]},
            }
            for at, status in enumerate(self.statuses.get(sha, []))
        ]
        if query.get("all") != "True":  # the latest of each name
            items = list({item["name"]: item for item in items}.values())
        return self.paged(f"/api/v4/projects/acme%2Fgpus/repository/commits/{sha}/statuses", query, items)

    def _status(self, _: Any, body: dict[str, str], sha: str) -> Answer:
        statuses = self.statuses.setdefault(sha, [])
        if statuses and statuses[-1]["state"] == body["state"] == "pending":
            return Answer(400, {"message": "Cannot transition status via :enqueue from :pending"})
        statuses.append({**body, "login": BOT})
        return _done({"id": 1, **body}, 201)

    def _members(self, query: dict[str, str], _: Any, group: str) -> Answer:
        people = self.teams.get(f"@{unquote(group)}")
        if people is None:
            return Answer(404, {"message": "404 Group Not Found"})
        items = [{**self._user(login), "state": "active"} for login in people]
        return self.paged(f"/api/v4/groups/{group}/members", query, items)
