"""Forges as they are installed: below a path, moved, behind a proxy or a login. Each odd answer is one sentence with the host."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

import pytest
from tests.adapters.forge.site import Site, make_site

from allotment.adapters import forge as forges
from allotment.adapters.forge import github
from allotment.adapters.forge.forge import CommitStatus, Forge, ForgeError, PullRequestHead, Token

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
KINDS = ["GitHub", "GitLab", "Gitea"]
PAGE = "<!DOCTYPE html><title>Sign in</title>"
REMEDY = "correct spec.git.url of the platform, or --forge-api"
READS: dict[str, Callable[[Forge], object]] = {
    "pull_request": lambda forge: forge.pull_request(1),
    "open_pull_requests": lambda forge: list(forge.open_pull_requests("main")),
}
WRITES: dict[str, Callable[[Forge], object]] = {
    "create_pull_request": lambda forge: forge.create_pull_request(PullRequestHead("b"), "main", "Title", "Body"),
    "set_status": lambda forge: forge.set_status("a" * 40, CommitStatus("allot/plan", "success", "Planned", "")),
}


class Answer(NamedTuple):
    status: int
    body: str = ""
    content_type: str = "application/json"
    location: str = ""
    retry_after: str = ""


LOGIN_PAGE = Answer(200, PAGE, "text/html")


def give(site: Site, answer: Answer, *, only_first: bool = False, then: Answer = LOGIN_PAGE) -> None:
    """Let the server give an answer to each request. With `only_first`, paths below /moved get the answer `then`."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        chosen = then if only_first and handler.path.startswith("/moved") else answer
        data = chosen.body.encode()
        handler.send_response(chosen.status)
        headers = {"Content-Type": chosen.content_type, "Location": chosen.location, "Retry-After": chosen.retry_after}
        for name, value in headers.items():
            if value:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    site.respond = respond


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(github, "WRITE_SECONDS", 0.0)
    yield from make_site()


def connect(kind: str, site: Site) -> Forge:
    return forges.connect(kind, f"{site.url}/team/cloud.git", Token(TOKEN), site.url)


def read_error(call: Callable[[Forge], object], forge: Forge) -> str:
    with pytest.raises(ForgeError) as caught:
        call(forge)
    assert (TOKEN[:8] in str(caught.value), caught.value.exit_code) == (False, 2)
    return str(caught.value)


NO_JSON = "with {} instead of an object of its API, as a proxy or a page for logins does"
ANSWERS = {
    "login page": (Answer(200, PAGE, "text/html; charset=utf-8"), f"answers 200 {NO_JSON.format('text/html; charset=utf-8')}: {REMEDY}"),
    "page as JSON": (Answer(200, PAGE), f"answers 200 {NO_JSON.format('application/json')}: {REMEDY}"),
    "plain text": (Answer(200, "ok", "text/plain"), f"answers 200 {NO_JSON.format('text/plain')}: {REMEDY}"),
    "empty body": (Answer(200), f"answers 200 {NO_JSON.format('application/json')}: {REMEDY}"),
    "no content type": (Answer(200, "ok", ""), f"answers 200 {NO_JSON.format('no content type')}: {REMEDY}"),
    "text as JSON": (Answer(200, '"ok"'), f"answers 200 {NO_JSON.format('application/json')}: {REMEDY}"),
    "moved without an address": (Answer(301, "{}"), f"answers 301 {NO_JSON.format('application/json')}: {REMEDY}"),
    "not modified": (Answer(304, "", ""), f"answers 304 {NO_JSON.format('no content type')}: {REMEDY}"),
    "401": (Answer(401, '{"message": "Bad credentials"}'), "says 401: Bad credentials: renew the token"),
    "403": (Answer(403, '{"message": "Denied"}'), "says 403: Denied: give the token more permissions"),
    "404 page": (Answer(404, PAGE, "text/html"), f"says 404: Not Found: {REMEDY}, or let the token read the repository"),
    "429": (Answer(429, PAGE, "text/html", retry_after="7"), "takes no more requests for 7 seconds"),
    "502 page": (Answer(502, PAGE, "text/html"), "says 502: Bad Gateway: try again later"),
    "503": (Answer(503, "", ""), "says 503: Service Unavailable: try again later"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_answer_is_one_sentence_with_the_host_and_no_success(kind: str, name: str, site: Site) -> None:
    answer, text = ANSWERS[name]
    give(site, answer)
    for call in (*READS.values(), *WRITES.values()):
        assert read_error(call, connect(kind, site)) == f"the forge at {site.url} {text}"


@pytest.mark.parametrize("body", ["[]", "{}", '{"number": "x", "iid": "x"}'])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_request_of_another_shape_names_the_host(kind: str, body: str, site: Site) -> None:
    give(site, Answer(200, body))
    text = read_error(READS["pull_request"], connect(kind, site))
    assert text.startswith(f"the answer of the forge at {site.url} makes no sense: ")
    assert text.endswith(f": {REMEDY}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_of_the_token_without_a_name_is_no_identity(kind: str, site: Site) -> None:
    give(site, Answer(200, "{}"))
    assert f"the forge at {site.url} makes no sense" in read_error(lambda forge: forge.identity(), connect(kind, site))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("kind", KINDS)
def test_a_redirect_to_another_host_is_named_without_its_query(kind: str, status: int, site: Site) -> None:
    give(site, Answer(status, '{"message": "Moved"}', location=f"https://sso.example/login?ticket={TOKEN}"))
    for method, calls in (("GET", READS), ("POST", WRITES)):
        for call in calls.values():
            text = read_error(call, connect(kind, site))
            expected = f"redirects {method} requests to https://sso.example:443/login: {REMEDY}"
            assert text == f"the forge at {site.url} {expected}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("kind", KINDS)
def test_a_moved_project_is_read_at_its_new_path_and_not_written(kind: str, status: int, site: Site) -> None:
    give(site, Answer(status, "{}", location="/moved/1"), only_first=True, then=Answer(404, '{"message": "Gone"}'))
    for call in READS.values():
        text = read_error(call, connect(kind, site))
        assert text.startswith(f"the forge at {site.url} says 404: Gone: ")
    for call in WRITES.values():
        text = read_error(call, connect(kind, site))
        assert text == f"the forge at {site.url} redirects POST requests to {site.url}/moved/1: {REMEDY}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_redirect_to_a_login_page_of_the_host_gives_no_empty_list(kind: str, site: Site) -> None:
    give(site, Answer(302, location="/moved/login"), only_first=True)
    text = read_error(READS["open_pull_requests"], connect(kind, site))
    assert text == f"the forge at {site.url} answers 200 {NO_JSON.format('text/html')}: {REMEDY}"


@pytest.mark.parametrize("location", ["http://[", "", "/pulls"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_redirect_that_leads_nowhere_is_an_error(kind: str, location: str, site: Site) -> None:
    give(site, Answer(302, location=location))
    assert f"the forge at {site.url} " in read_error(READS["open_pull_requests"], connect(kind, site))


@pytest.mark.parametrize(
    ("kind", "repository", "api", "path"),
    [
        ("GitLab", "/team/cloud", None, "/api/v4/projects/team%2Fcloud/"),
        ("GitLab", "/team/cloud", "", "/api/v4/projects/team%2Fcloud/"),
        ("GitLab", "/team/cloud", "/api/v4", "/api/v4/projects/team%2Fcloud/"),
        ("GitLab", "/gitlab/group/team/cloud", "/gitlab", "/gitlab/api/v4/projects/group%2Fteam%2Fcloud/"),
        ("GitLab", "/gitlab/group/cloud", "/gitlab/", "/gitlab/api/v4/projects/group%2Fcloud/"),
        ("GitLab", "/gitlab/group/cloud", "/gitlab/api/v4", "/gitlab/api/v4/projects/group%2Fcloud/"),
        ("GitLab", "/gitlab/group/cloud", "/gitlab/api/v4/", "/gitlab/api/v4/projects/group%2Fcloud/"),
        ("Gitea", "/team/cloud", None, "/api/v1/repos/team/cloud/"),
        ("Gitea", "/gitea/team/cloud", None, "/gitea/api/v1/repos/team/cloud/"),
        ("Forgejo", "/code/forge/team/cloud", None, "/code/forge/api/v1/repos/team/cloud/"),
        ("Gitea", "/gitea/team/cloud", "/gitea/api/v1/", "/gitea/api/v1/repos/team/cloud/"),
        ("GitHub", "/team/cloud", None, "/api/v3/repos/team/cloud/"),
        ("GitHub", "/team/cloud", "/api/v3/", "/api/v3/repos/team/cloud/"),
    ],
)  # fmt: skip
def test_the_api_of_a_forge_below_a_path(kind: str, repository: str, api: str | None, path: str, site: Site) -> None:
    give(site, Answer(200, json.dumps([])))
    url = None if api is None else f"{site.url}{api}"
    forge = forges.connect(kind, f"{site.url}{repository}.git", Token(TOKEN), url)
    assert list(forge.open_pull_requests("main")) == []
    assert [requested.startswith(path) for _, requested, _ in site.requests] == [True]


def test_null_is_an_empty_list_of_gitea_and_no_success_of_a_write(site: Site) -> None:
    give(site, Answer(200, "null"))
    forge = connect("Gitea", site)
    assert forge.approvals(7, 40 * "a") == frozenset()
    assert "instead of an object of its API" in read_error(next(iter(WRITES.values())), forge)
