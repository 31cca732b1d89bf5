"""`--pr`: one pull request per change, from the repository or from a fork, on servers that answer as the forges do."""

from __future__ import annotations

import json
import os
import socketserver
import threading
from pathlib import Path

import pytest
from tests.adapters.forge.server import BOT, FORK, REPOSITORY, TOKEN, Answer, World
from tests.conftest import Allot, Result, edit
from tests.support.proposal_forge import world
from tests.support.published import Place, git
from tests.support.simulated_wait import Event, report_later, simulate_pauses
from tests.support.terminal import answer_questions, start_dialogue

from allotment.adapters import forge
from allotment.adapters.forge.forge import CommitStatus, Token

__all__ = ["world"]  # a fixture

ID = "deploy-2026.11_a"
STOP = ("instance", "stop", "solo-ada/webui", "--pr", "-o", "json")
REFUSAL = "#!/bin/sh\necho 'Permission to acme/gpus.git denied to allot-bot.'\nexit 1\n"


def propose(allot: Allot, place: Place, *words: object) -> Result:
    return allot(*STOP, "--repo", place.root, *words)


def refuse_pushes(place: Place) -> None:
    hook = place.remote / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(REFUSAL)
    os.chmod(hook, 0o755)


def test_a_pull_request_is_opened_once(published: Place, world: World, allot: Allot) -> None:
    first = propose(allot, published)
    assert first.code == 0, first
    answer = json.loads(first.out)
    (pull,) = world.pulls.values()
    assert answer["stage"] == "PullRequest"
    assert answer["url"].startswith("https://forge.example/acme/gpus/")
    assert answer["url"].endswith(f"/{pull.number}")
    assert (pull.title, pull.base, pull.branch) == ("Stop solo-ada/webui", "main", answer["branch"])
    assert answer["branch"].startswith("allot/stop-solo-ada-webui-")
    assert pull.body.splitlines()[2:] == [
        "The merge stops 1 instance.",
        "",
        "1 declared file and 4 rendered files change (4 changed, including 2 folder markers).",
    ]
    assert pull.body.startswith("This can be merged · 2 changed · 1 destroyed · ")
    assert propose(allot, published) == first
    assert len(world.pulls) == 1
    assert TOKEN not in first.out + first.err + (published.root / ".git/config").read_text()


def test_text_output_ends_with_the_url(published: Place, world: World, allot: Allot) -> None:
    result = allot(*STOP[:4], "--repo", published.root)
    number = next(iter(world.pulls))
    assert result.out.splitlines()[-1].startswith("https://forge.example/acme/gpus/")
    assert result.out.endswith(f"/{number}\n")


def test_without_a_token_nothing_is_pushed(
    published: Place, world: World, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALLOT_FORGE_TOKEN")
    result = propose(allot, published)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith("Error: The token of the forge is missing: set ALLOT_FORGE_TOKEN.\n")
    assert not world.pulls
    assert git(published.remote, "for-each-ref", "refs/heads/allot/") == ""


def test_an_answer_that_is_lost_opens_no_second_pull_request(published: Place, world: World, allot: Allot) -> None:
    world.fail("POST .*(pulls|merge_requests)$", None, after=True)
    result = propose(allot, published)
    assert (result.code, len(world.pulls)) == (0, 1)


def test_the_younger_of_two_pull_requests_is_closed(published: Place, world: World, allot: Allot) -> None:
    world.has_rival = True
    result = propose(allot, published)
    assert result.code == 0, result
    assert {number: pull.state for number, pull in world.pulls.items()} == {1: "open", 2: "closed"}
    assert json.loads(result.out)["url"].endswith("/1")


def test_a_change_that_was_merged_and_undone_gets_another_pull_request(
    published: Place, world: World, allot: Allot
) -> None:
    first = json.loads(propose(allot, published).out)
    (pull,) = world.pulls.values()
    world.merge(pull.number)  # as a squash merge: the branch is no ancestor of the target
    second = json.loads(propose(allot, published).out)
    assert second["branch"] == f"{first['branch']}-2"
    assert second["url"] != first["url"]


def test_a_refused_push_goes_to_a_fork(published: Place, world: World, allot: Allot) -> None:
    refuse_pushes(published)
    first = propose(allot, published)
    assert first.code == 0, first
    (pull,) = world.pulls.values()
    assert (pull.fork, pull.branch) == (FORK, json.loads(first.out)["branch"])
    assert git(world.repositories[FORK], "log", "-1", "--format=%s", pull.branch) == "Stop solo-ada/webui"
    assert git(published.remote, "for-each-ref", "refs/heads/allot/") == ""
    assert propose(allot, published) == first
    assert len(world.pulls) == 1


def test_a_remote_that_fails_otherwise_gets_no_fork(published: Place, world: World, allot: Allot) -> None:
    """origin forbids the push, and the declared URL refuses it for another reason."""
    refuse_pushes(published)
    other = published.root.parent / "other.git"
    git(published.root, "clone", "-q", "--bare", str(published.remote), str(other))
    hook = other / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'The disk is full.'\nexit 1\n")
    os.chmod(hook, 0o755)
    git(published.root, "config", "--unset", f"url.{published.remote}.insteadOf")
    git(published.root, "config", f"url.{other}.insteadOf", "https://forge.example/acme/gpus")
    result = propose(allot, published)
    assert (result.code, result.out, world.pulls) == (2, "", {}), result
    assert [call for call in world.writes() if "fork" in call] == []
    assert "'origin' took no push" in result.err
    assert "Permission to acme/gpus.git denied" in result.err
    assert "; then 'https://forge.example/acme/gpus' took no push" in result.err
    assert "The disk is full." in result.err


def test_a_forbidden_fork_is_named_with_the_refused_push(published: Place, world: World, allot: Allot) -> None:
    refuse_pushes(published)
    world.declines_forks = True
    result = propose(allot, published)
    assert (result.code, result.out, world.pulls) == (2, "", {}), result
    first, _, last = result.err.partition(f"; then the forge at {world.url} says 403: ")
    assert "'origin' took no push" in first
    assert "Permission to acme/gpus.git denied" in first
    assert ", for a fork: check the permissions of the token in ALLOT_FORGE_TOKEN" in last


def test_a_forbidden_push_to_each_destination_is_named(published: Place, world: World, allot: Allot) -> None:
    refuse_pushes(published)
    hook = world.repositories[FORK] / "hooks/pre-receive"
    hook.write_text(REFUSAL)
    os.chmod(hook, 0o755)
    result = propose(allot, published)
    assert (result.code, result.out, world.pulls) == (2, "", {}), result
    for name in ("origin", "https://forge.example/acme/gpus"):
        assert f"'{name}' took no push" in result.err
    assert result.err.count("took no push") == 3


def add_commit(place: Place, folder: Path, branch: str) -> str:
    """Add a commit with another file to a branch, and return the changed branch's commit."""
    git(place.root, "fetch", "-q", str(folder), branch)
    git(place.root, "checkout", "-q", "--detach", "FETCH_HEAD")
    (place.root / "tenants/solo-ada/extra.txt").write_text("extra\n")
    git(place.root, "add", "--all")
    identity = ("-c", "user.name=E", "-c", "user.email=e@northlight.example")
    git(place.root, *identity, "commit", "-q", "-m", "Extra")
    git(folder, "fetch", "-q", str(place.root), f"+HEAD:{branch}")
    git(place.root, "checkout", "-q", "main")
    return git(folder, "rev-parse", branch)


@pytest.mark.parametrize("words", [(), ("--operation-id", ID)])
def test_a_branch_with_more_commits_gets_no_pull_request(
    words: tuple[str, ...], published: Place, world: World, allot: Allot
) -> None:
    pushed = allot(*STOP[:3], "--push", "-o", "json", "--repo", published.root, *words)
    branch = json.loads(pushed.out)["branch"]
    add_commit(published, published.remote, branch)
    result = propose(allot, published, *words)
    assert (result.code, result.out, world.pulls) == (2, "", {}), result
    expected = "has commits after" if words else f"has a branch {branch} with other content than this change"
    assert expected in result.err
    assert "delete the branch" in result.err


@pytest.mark.parametrize("words", [(), ("--operation-id", ID)])
def test_a_commit_with_another_file_gets_no_pull_request(
    words: tuple[str, ...], published: Place, world: World, allot: Allot
) -> None:
    pushed = allot(*STOP[:3], "--push", "-o", "json", "--repo", published.root, *words)
    branch = json.loads(pushed.out)["branch"]
    message = git(published.remote, "log", "-1", "--format=%B", branch)
    extra = add_commit(published, published.remote, branch)
    identity = ("-c", "user.name=E", "-c", "user.email=e@northlight.example")
    squashed = git(published.remote, *identity, "commit-tree", f"{extra}^{{tree}}", "-p", "main", "-m", message)
    git(published.remote, "update-ref", f"refs/heads/{branch}", squashed)
    result = propose(allot, published, *words)
    assert (result.code, result.out, world.pulls) == (2, "", {}), result
    assert "with other content than this change: delete the branch" in result.err


def test_a_branch_that_only_the_folder_declares_chooses_no_host(published: Place, world: World, allot: Allot) -> None:
    """A checked-out pull request declares its own branch as the target, and there another host for the token."""
    refuse_pushes(published)
    connections: list[object] = []

    class Host(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connections.append(self.client_address)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Host) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        edit(published.root, "platform/platform.yaml", "forge.example/acme/gpus", f"{host}/acme/gpus")
        edit(published.root, "platform/platform.yaml", "branch: main", "branch: hostile")
        git(published.root, "checkout", "-q", "-b", "hostile")
        git(published.root, "-c", "user.name=E", "-c", "user.email=e@northlight.example", "commit", "-qam", "Hostile")
        git(published.remote, "fetch", "-q", str(published.root), "hostile:hostile")
        result = propose(allot, published)
        server.shutdown()
    assert result.code == 0, result
    assert [pull.base for pull in world.pulls.values()] == ["main"]
    assert connections == []


@pytest.mark.parametrize(
    "url", ["http://forge.example/me/gpus", "ssh://git@other.example/gpus", "{path}", "file://{path}"]
)
def test_a_fork_at_another_host_gets_nothing(
    url: str, published: Place, world: World, allot: Allot, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "--bare", "other.git")
    world.fork_url = url.format(path=tmp_path / "other.git")
    result = propose(allot, published, "--fork")
    assert (result.code, result.out) == (2, "")
    assert f"names '{world.fork_url}' for the fork, but spec.git.url is at https://forge.example: correct" in result.err
    assert git(tmp_path / "other.git", "for-each-ref") == ""


def test_a_folder_named_origin_is_not_the_remote(published: Place, world: World, allot: Allot, tmp_path: Path) -> None:
    """A pull request may add the files of a bare repository, whose declarations name another forge."""
    git(tmp_path, "clone", "-q", "--bare", str(published.remote), str(published.root / "origin"))
    git(published.root, "remote", "rename", "origin", "upstream")
    for words in (["--pr"], ["--push"]):
        result = allot("instance", "stop", "solo-ada/webui", *words, "--repo", published.root)
        assert (result.code, result.out) == (2, "")
        assert "this clone has no remote named 'origin': add it with `git remote add`" in result.err
    commented = allot("comment", "--number", "7", "--repo", published.root)
    assert (commented.code, "no remote named 'origin'" in commented.err) == (2, True)
    assert world.calls == []
    assert "allot/" not in git(published.root / "origin", "for-each-ref")


def test_a_repository_without_forks_says_that_the_push_was_refused(
    published: Place, world: World, allot: Allot
) -> None:
    refuse_pushes(published)
    world.declines_forks = True
    result = propose(allot, published)
    assert (result.code, result.out) == (2, "")
    assert f"the forge at {world.url} says 403" in result.err
    assert "check the permissions of the token in ALLOT_FORGE_TOKEN, and spec.git.url of the platform" in result.err


def test_a_fork_is_used_on_demand(published: Place, world: World, allot: Allot) -> None:
    first = propose(allot, published, "--fork", "--operation-id", ID)
    assert first.code == 0, first
    (pull,) = world.pulls.values()
    assert pull.fork == FORK
    assert f"Operation ID: `{ID}`" in pull.body
    assert propose(allot, published, "--fork", "--operation-id", ID) == first
    git(world.repositories[FORK], "update-ref", "-d", f"refs/heads/{pull.branch}")
    assert propose(allot, published, "--fork", "--operation-id", ID) == first, "the branch was deleted"
    other = allot("instance", "stop", "ml-orbit/lab", "--pr", "--fork", "--operation-id", ID, "--repo", published.root)
    assert other.code == 2
    assert f"the operation ID '{ID}' belongs to another change: 'Stop solo-ada/webui'" in other.err


def test_an_operation_has_one_pull_request(published: Place, world: World, allot: Allot, tmp_path: Path) -> None:
    words = ("--operation-id", ID)
    pushed = allot("instance", "stop", "solo-ada/webui", "--push", "--repo", published.root, *words)
    assert pushed.code == 0
    first = propose(allot, published, *words)
    (pull,) = world.pulls.values()
    assert json.loads(first.out)["branch"] == pull.branch
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(published.remote), str(clone))
    assert allot(*STOP, "--repo", clone, *words) == first
    git(published.remote, "update-ref", "-d", f"refs/heads/{pull.branch}")
    assert allot(*STOP, "--repo", clone, *words) == first, "the branch was deleted before the merge"
    world.close_pull(pull.number)
    closed = allot(*STOP, "--repo", clone, *words)
    assert (closed.code, closed.out) == (0, first.out)
    assert closed.err.startswith("The pull request is closed: open it again at the forge")
    assert len(world.pulls) == 1


def test_a_merged_operation_prints_its_pull_request(published: Place, world: World, allot: Allot) -> None:
    first = propose(allot, published, "--operation-id", ID)
    (pull,) = world.pulls.values()
    tip = git(published.remote, "rev-parse", pull.branch)
    git(published.remote, "update-ref", "refs/heads/main", tip)
    git(published.remote, "update-ref", "-d", f"refs/heads/{pull.branch}")
    world.merge(pull.number, tip)
    assert propose(allot, published, "--operation-id", ID) == first
    assert len(world.pulls) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--push",), "--push and --pr exclude each other: use only one of them"),
        (("--commit",), "--commit and --pr exclude each other: use only one of them"),
    ],
)
def test_options_that_exclude_each_other(
    words: tuple[str, ...], message: str, published: Place, world: World, allot: Allot
) -> None:
    result = propose(allot, published, *words)
    assert (result.code, result.err.splitlines()[-1]) == (2, f"Error: {message}")


@pytest.mark.parametrize("option", ["--wait", "--fork"])
def test_options_that_need_a_pull_request(option: str, published: Place, allot: Allot) -> None:
    result = allot("instance", "stop", "solo-ada/webui", option, "--repo", published.root)
    assert (result.code, result.err.splitlines()[-1]) == (2, f"Error: {option} needs --pr")


def test_the_bot_is_the_author(published: Place, world: World, allot: Allot) -> None:
    propose(allot, published)
    assert next(iter(world.pulls.values())).author == BOT


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Return the list of the events that happen in the pauses of a command, one in each pause."""
    return simulate_pauses(monkeypatch)


def plan_pull(world: World) -> None:
    """Set the status of the plan, and the status of a stranger's CI job."""
    (pull,) = world.pulls.values()
    connection = forge.connect(world.kind, f"https://forge.example/{REPOSITORY}", Token(TOKEN), world.api)
    connection.set_status(
        pull.head, CommitStatus("allot/plan", "success", "can be merged", BOT, "https://forge.example/")
    )
    connection.set_status(pull.head, CommitStatus("lint", "failure", "no", BOT, "https://forge.example/"))


def merge_pull(world: World) -> None:
    (pull,) = world.pulls.values()
    git(world.repositories[0], "update-ref", "refs/heads/main", pull.head)
    world.merge(pull.number, pull.head)


def report_stop(place: Place) -> None:
    """Publish the merged change, and let the cluster report that the instance is stopped."""
    git(place.root, "pull", "-q", "origin", "main")
    assert place.publish().code == 0
    report_later(place, "Stopped")()


def test_a_wait_ends_when_the_merged_change_has_taken_effect(
    published: Place, world: World, allot: Allot, steps: list[Event]
) -> None:
    steps += [lambda: plan_pull(world), lambda: merge_pull(world), lambda: report_stop(published)]
    result = propose(allot, published, "--wait")
    assert result.code == 0, result
    assert json.loads(result.out)["outcome"] == "Reached"
    (url,) = {json.loads(result.out)["url"]}
    lines = [line.partition("Z ")[2] for line in result.err.splitlines()]
    assert lines[:3] == [
        f"{url} is open",
        f"{url} is open; allot/plan is success: can be merged",
        f"{url} is merged",
    ]
    assert lines[-1].endswith("instance solo-ada/webui in eu-1: Stopped")


def test_a_wait_ends_when_the_pull_request_is_closed(
    published: Place, world: World, allot: Allot, steps: list[Event]
) -> None:
    steps.append(lambda: world.close_pull(next(iter(world.pulls))))
    world.fail("GET .*(pulls|merge_requests)/1", Answer(502, {"message": "Bad gateway"}))
    result = allot(*STOP[:4], "--repo", published.root, "--wait")
    assert result.code == 1
    assert result.out.splitlines()[-1].endswith(" was closed without a merge")


def test_a_wait_has_a_time_limit(published: Place, world: World, allot: Allot, steps: list[Event]) -> None:
    result = propose(allot, published, "--wait", "--timeout", "30s")
    assert (result.code, json.loads(result.out)["outcome"]) == (124, "TimedOut")
    assert result.err.endswith("time is up, and the pull request is not merged\n")


@pytest.mark.parametrize("url", ["nope", "https://[::1", "file:///etc/passwd", "https://host:x/"])
def test_a_wrong_url_of_the_api_is_refused(url: str, published: Place, allot: Allot) -> None:
    result = allot("instance", "stop", "solo-ada/webui", "--pr", "--forge-api", url, "--repo", published.root)
    assert (result.code, result.out) == (2, "")
    assert f"'{url}' is no URL of an API: write https://HOST/PATH" in result.err


def test_a_question_opens_the_pull_request_of_the_written_files(published: Place, world: World) -> None:
    words = (
        "instance",
        "create",
        "solo-ada/extra",
        "--cluster",
        "eu-1",
        "--gpu-spec",
        "l4-quarter",
        "--app",
        "jupyter",
    )
    child = start_dialogue(published.root, *words)
    answers = (("Storage (1", "none"), ("Create it? [Y/n]:", ""), ("Open a pull request now? [Y/n]:", ""))
    output, status = answer_questions(child, *answers)
    assert status == 0, output
    (pull,) = world.pulls.values()
    assert "+  gpuSpec" not in output, "the difference is shown once"
    assert "The folder no longer has tenants/solo-ada/instances/extra.yaml, so that" in output
    assert output.endswith(f"/{pull.number}\n")
    assert git(published.root, "status", "--short") == ""
