"""What every forge does for us, with GitHub's and GitLab's API, and what goes wrong with it: cases 42 and 43."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator

import pytest
from tests.adapters.forge import contract
from tests.adapters.forge.contract import CONTRACT, logins
from tests.adapters.forge.server import REPOSITORY, TOKEN, Answer, GitHubWorld, GitLabWorld, World

from allotment.adapters import forge as forges
from allotment.adapters.forge.forge import (
    CommitStatus,
    Forbidden,
    Forge,
    ForgeError,
    ForgeUnreachable,
    InvalidToken,
    NotFound,
    PullRequestHead,
    RateLimited,
    RequestDeclined,
    Token,
    error_from_response,
)


@pytest.fixture(params=[GitHubWorld, GitLabWorld], ids=["GitHub", "GitLab"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Return a forge's server with one open pull request."""
    forge_world: World = request.param()
    forge_world.open(1)
    yield forge_world
    forge_world.close()


@pytest.fixture
def forge(world: World) -> Forge:
    return connected(world)


def connected(world: World, token: str = TOKEN) -> Forge:
    return forges.connect(world.kind, f"https://forge.example/{REPOSITORY}", Token(token), world.api)


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_the_contract(check: Callable[[contract.World, Forge], None], world: World, forge: Forge) -> None:
    check(world, forge)


def test_a_repository_without_forks_says_so(world: World, forge: Forge) -> None:
    world.declines_forks = True
    with pytest.raises(Forbidden):
        forge.fork()


def test_a_pull_request_that_was_opened_before_the_answer_was_lost_is_found(world: World, forge: Forge) -> None:
    head = PullRequestHead("allot/stop")
    world.push_branch("allot/stop")
    world.fail("POST .*(pulls|merge_requests)$", None, after=True)
    with pytest.raises(ForgeUnreachable):
        forge.create_pull_request(head, "main", "Stop", "")
    assert len(list(forge.find_pull_requests(head))) == 1


def test_a_head_that_comes_back_brings_no_approval_along(world: World, forge: Forge) -> None:
    """What was approved, changed and put back: GitLab knows only times, so the approval before doesn't count there."""
    head = world.head(1)
    world.approve(1, "ann")
    world.push(1)
    world.push_back(1, head)
    assert logins(forge.approvals(1, head)) == ({"ann"} if forge.name == "GitHub" else set())


def test_forge_returns_no_pushers_of_a_hidden_repository(world: World, forge: Forge) -> None:
    head = world.push(1, login="ann")
    assert "ann" in logins(forge.pushers(1, head) or frozenset())
    world.hides_pushes = True
    assert forge.pushers(1, head) is None
    world.hides_pushes = False
    world.fail("GET .*(activity|events)$", world.limited)
    with pytest.raises(RateLimited):
        forge.pushers(1, head)


def test_github_alone_ignores_pushers_before_a_force_push(world: World, forge: Forge) -> None:
    world.push(1, login="ann")
    head = world.push(1, login="ada")
    world.pulls[1].forced.add(head)
    assert logins(forge.pushers(1, head) or frozenset()) == ({"ada"} if forge.name == "GitHub" else {"ada", "ann"})


def test_a_wrong_token_is_refused_and_never_shown(world: World) -> None:
    with pytest.raises(InvalidToken) as caught:
        connected(world, "wr0ng-token").pull_request(1)
    assert "wr0ng" not in str(caught.value)
    assert "wr0ng" not in repr(Token("wr0ng-token"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_an_error_that_repeats_the_token_does_not_show_it(status: int, world: World, forge: Forge) -> None:
    world.fail("GET .*(pulls|merge_requests)/1", Answer(status, {"message": f"'{TOKEN}' is no token\nof ours"}))
    with pytest.raises(ForgeError) as caught:
        forge.pull_request(1)
    assert str(caught.value).startswith(f"the forge at {world.url} says {status}: '***' is no token\\nof ours")


@pytest.mark.parametrize("body", [[], {}, "text", 7, {"number": []}, [[[]]]])
def test_an_answer_in_another_form_is_an_error_of_the_forge(body: object, world: World, forge: Forge) -> None:
    for method in ("GET", "POST"):
        world.fail(f"{method} .*", Answer(200, body))
        with pytest.raises(ForgeError):
            forge.create_pull_request(PullRequestHead("change-1"), "main", "Title", "Body")


VERSION = {"id": 1, "created_at": "2026-01-01T00:00:00Z"}
STATUS = {"id": 1, "context": "c", "name": "c", "state": "success", "status": "success", "description": ["x"]}


@pytest.mark.parametrize("fields", [{}, {"head_commit_sha": ["x"]}])
def test_pushes_of_another_form_are_an_error_of_the_forge(fields: dict[str, object]) -> None:
    world = GitLabWorld()
    world.open(1)
    world.fail("GET .*versions", Answer(200, [VERSION | fields]))
    with pytest.raises(ForgeUnreachable, match="makes no sense"):
        connected(world).pushers(1, "x")
    world.close()


def test_texts_of_another_type_are_an_error_of_the_forge(world: World, forge: Forge) -> None:
    world.fail("GET .*statuses", Answer(200, [STATUS]))
    with pytest.raises(ForgeUnreachable, match="makes no sense"):
        list(forge.list_statuses(world.head(1)))


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(429, {"message": "Too Many Requests"}, {"Retry-After": "17"}), (17, 17)),
        (Answer(403, {"message": "You have exceeded a secondary rate limit"}, {"Retry-After": "5"}), (5, 5)),
        (Answer(429, {"message": "slow down"}), (60, 60)),
        (Answer(429, {}, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}), (0, 0)),
    ],
)
def test_a_rate_limit_says_how_long(world: World, forge: Forge, answer: Answer, seconds: tuple[int, int]) -> None:
    world.fail("GET .*(pulls|merge_requests)/1", answer)
    with pytest.raises(RateLimited) as caught:
        forge.pull_request(1)
    assert seconds[0] <= caught.value.seconds <= seconds[1]
    assert forge.pull_request(1).head == world.head(1), "and goes on after it"


def test_a_limit_that_ends_at_a_time_says_how_long(world: World, forge: Forge) -> None:
    reset = str(int(datetime.datetime.now(datetime.UTC).timestamp()) + 90)
    limited = world.limited
    name = next(iter(limited.headers)).replace("emaining", "eset").replace("Remaining", "Reset")
    world.fail("GET .*(pulls|merge_requests)/1", limited._replace(headers={**limited.headers, name: reset}))
    with pytest.raises(RateLimited) as caught:
        forge.pull_request(1)
    assert 80 <= caught.value.seconds <= 91


@pytest.mark.parametrize("answer", [Answer(502, {"message": "Bad gateway"}), Answer(200, None), None])
def test_a_forge_that_is_away_or_says_nonsense_is_unreachable(
    world: World, forge: Forge, answer: Answer | None
) -> None:
    world.fail("GET .*(pulls|merge_requests)/1", answer)
    with pytest.raises(ForgeUnreachable):
        forge.pull_request(1)
    assert forge.pull_request(1).head == world.head(1)


def test_create_comment_raises_forbidden_for_a_locked_pull_request(world: World, forge: Forge) -> None:
    world.fail("POST .*(comments|notes)", Answer(403, {"message": "Unable to create comment because issue is locked."}))
    with pytest.raises(Forbidden):
        forge.create_comment(1, "text")


def test_set_status_raises_request_declined_for_a_refused_status(world: World, forge: Forge) -> None:
    message = "This SHA and context has reached the maximum number of statuses."
    world.fail("POST .*statuses/", Answer(422, {"message": message}))
    with pytest.raises(RequestDeclined, match=message):
        forge.set_status(world.head(1), CommitStatus("allot/plan", "success", "can be merged", world.bot))


@pytest.mark.parametrize(
    ("kind", "statuses"),
    {
        InvalidToken: (401,),
        NotFound: (404, 410),
        Forbidden: (403, 423),
        RequestDeclined: (400, 405, 409, 413, 422, 451),
        RateLimited: (429,),
        ForgeUnreachable: (407, 408, 425, 500, 502, 503, 504),
    }.items(),
)
def test_error_from_response_maps_each_status_to_an_error(kind: type[ForgeError], statuses: tuple[int, ...]) -> None:
    assert {type(error_from_response(status, {}, "no")) for status in statuses} == {kind}
