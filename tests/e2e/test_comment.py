"""`allot comment` on a real Gitea: plans of people's pull requests, hostile ones among them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from allotment.adapters.forge.forge import Token
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.remote import Remote
from allotment.adapters.metrics import CommentMetrics
from allotment.cli.comment_options import create_pull_services
from allotment.services.pull_requests.comment_loop import CommentLoop
from tests.conftest import PROJECT, ROOTS, Allot, Result
from tests.controlplane.gitea import ADMIN, BOT, ORGANISATION, Gitea
from tests.e2e.pulls import Person, add_platform_team, name_people
from tests.support.comment_loop_bed import RecordedLog
from tests.support.published import git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
REPOSITORY = f"{ORGANISATION}/declarations"
WEBUI = "tenants/solo-ada/instances/webui.yaml"
STYLES = "tenants/solo-ada/storages/styles.yaml"
HOSTILE = "</details> @ada @everyone ![x](https://evil.example/x.png) <img src=https://evil.example/y.png> #1 ``` ~~~"


class Desk:
    """The repository on the forge, a trusted clone of it, and everybody."""

    def __init__(self, gitea: Gitea, folder: Path, allot: Allot) -> None:
        self.gitea = gitea
        self.root = folder / "trusted"
        self.allot = allot
        add_platform_team(gitea)
        gitea.create(REPOSITORY)
        for name in ROOTS:
            shutil.copytree(PROJECT / name, self.root / name)
        name_people(self.root)
        platform = self.root / "platform/platform.yaml"
        text = platform.read_text(encoding="utf-8")
        old = "forge: GitHub\n    url: https://github.com/northlight-example/gpus"
        assert old in text
        platform.write_text(text.replace(old, f"forge: Gitea\n    url: {gitea.url}/{REPOSITORY}"), encoding="utf-8")
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "remote", "add", "origin", gitea.remote(REPOSITORY, ORGANISATION))
        self.push()
        self.admin, self.ada, self.bob = (
            Person(gitea, name, REPOSITORY, folder / name) for name in (ADMIN, "ada", "bob")
        )

    def push(self) -> str:
        """Push what the trusted clone holds to main."""
        git(self.root, "add", "-A")
        git(self.root, "-c", "user.name=a", "-c", "user.email=a@northlight.example", "commit", "-q", "-m", "Merge")
        git(self.root, "push", "-q", "origin", "HEAD:main")
        return git(self.root, "rev-parse", "HEAD")

    def comment(self, *words: object) -> Result:
        """Run `allot comment` on the trusted side."""
        return self.allot("comment", "--repo", self.root, *words)

    def rendered(self, text: str) -> str:
        """Return the HTML that the forge makes of a text."""
        body = {"Text": text, "Mode": "comment", "Context": REPOSITORY, "Wiki": False}
        return str(self.gitea.api("markdown", body))

    def mentioned(self, user: str) -> list[Any]:
        return list(self.gitea.api("notifications?status-types=unread", user=user))


def theme(person: Person, colour: str) -> None:
    """Change ada's instance, so that it restarts."""
    text = f"spec:\n  container:\n    env:\n      - name: UI_THEME\n        value: {colour}\n"
    person.edit(WEBUI, "spec:\n", text)


@pytest.fixture
def desk(gitea: Gitea, tmp_path: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Return a repository that nothing was proposed to."""
    for name in ("GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, str(gitea.authority))
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", gitea.tokens[BOT])
    comment_desk = Desk(gitea, tmp_path, allot)
    yield comment_desk
    for person in (comment_desk.admin, comment_desk.ada, comment_desk.bob):
        person.forget()
    gitea.delete(REPOSITORY)


def test_a_tenants_change_gets_one_comment_that_follows_it(desk: Desk) -> None:
    theme(desk.ada, "light")
    number = desk.ada.open("lighter")
    head = git(desk.ada.root, "rev-parse", "HEAD")
    result = desk.comment("--number", number, "--head", head)
    assert (result.code, result.err) == (0, "")
    text = desk.ada.comment(number, "plan")
    assert "### ✅ This can be merged · 1 replaced · 1 destroyed" in text
    assert "`instance solo-ada/webui in eu-1` is replaced" in text
    assert "instances/webui.yaml: spec.container added: env[UI_THEME].value light`" in text
    assert desk.ada.status(number) == ("success", "can be merged · 1 replaced · 1 destroyed")
    desk.comment("--number", number)
    assert desk.ada.comment(number, "plan") == text, "nothing new, nothing written"
    desk.ada.edit(WEBUI, "l4-quarter", "l4-nothing")
    desk.ada.push("lighter")
    desk.comment("--number", number)
    assert "no GPUSpec is named 'l4-nothing'" in desk.ada.comment(number, "plan")
    assert desk.ada.status(number) == ("failure", "can't be merged: 1 problem · tenants changed")


def test_whose_it_is_not_needs_an_approval_of_the_newest_commit(desk: Desk) -> None:
    theme(desk.bob, "light")
    number = desk.bob.open("theirs")
    desk.comment("--number", number)
    text = desk.bob.comment(number, "plan")
    assert f"- **`{WEBUI}:1:1`** `(file)`: `'bob' may not change this file" in text
    assert "must come from Member of solo-ada: ada" in text
    desk.ada.approve(number)
    desk.comment("--all")
    assert desk.bob.status(number)[0] == "success"
    desk.bob.edit(WEBUI, "value: light", "value: dark")
    desk.bob.push("theirs")
    desk.comment("--all")
    assert desk.bob.status(number)[0] == "failure", "what was approved is not what is there"
    desk.ada.approve(number)
    desk.comment("--all")
    assert desk.bob.status(number)[0] == "success"


def test_a_push_to_the_fork_of_another_person_counts(desk: Desk) -> None:
    theme(desk.ada, "light")
    number = desk.ada.open("shared")
    desk.comment("--number", number)
    assert desk.ada.status(number)[0] == "success"
    desk.ada.invite(desk.bob)
    git(desk.bob.root, "fetch", "-q", desk.ada.fork(desk.bob), "shared")
    git(desk.bob.root, "checkout", "-q", "--detach", "FETCH_HEAD")
    desk.bob.edit(WEBUI, "value: light", "value: dark")
    desk.bob.push("shared", to=desk.ada.fork(desk.bob))
    eventually(lambda: desk.ada.status(number)[0] == "", "the new head to be known", 30)
    desk.comment("--all")
    assert desk.ada.status(number)[0] == "failure"
    assert "'bob', who pushed to it, may not change this file" in desk.ada.comment(number, "plan")
    git(desk.ada.root, "fetch", "-q", "origin", "shared")
    git(desk.ada.root, "checkout", "-q", "--detach", "FETCH_HEAD")
    desk.ada.edit(WEBUI, "spec:\n", "spec:\n  description: Mine.\n")
    desk.ada.push("shared", force=False)
    eventually(lambda: desk.ada.status(number)[0] == "", "the new head to be known", 30)
    desk.comment("--all")
    assert desk.ada.status(number)[0] == "failure", "what lies below is still bob's"
    git(desk.ada.root, "reset", "-q", "--hard", "HEAD~2")
    desk.ada.edit(WEBUI, "value: light", "value: grey")
    desk.ada.push("shared")
    eventually(lambda: desk.ada.status(number)[0] == "", "the new head to be known", 30)
    desk.comment("--all")
    assert desk.ada.status(number)[0] == "success", "ada replaced all of it"


def test_a_change_of_the_base_takes_an_approval_of_what_it_is_now(desk: Desk) -> None:
    """bob's change lies in a branch that his pull request is first for, so that what ada approves doesn't show it."""
    desk.gitea.api(f"repos/{REPOSITORY}/collaborators/bob", {"permission": "write"}, method="PUT")
    theme(desk.bob, "evil")
    desk.bob.push("feature", to=desk.gitea.remote(REPOSITORY, "bob"))
    desk.bob.edit(WEBUI, "spec:\n", "spec:\n  description: Harmless.\n")
    number = desk.bob.open("stack", base="feature")
    desk.ada.approve(number)
    desk.bob.api(f"pulls/{number}", {"base": "main"}, method="PATCH")
    desk.comment("--number", number)
    assert desk.bob.status(number)[0] == "failure"
    time.sleep(1.1)  # times are of seconds
    desk.ada.approve(number)
    desk.comment("--number", number)
    assert desk.bob.status(number)[0] == "success"


def test_a_hostile_pull_request_changes_nothing_about_its_verdict(desk: Desk, tmp_path: Path) -> None:
    """It rewrites the workflow, the ownership, the program and another tenant, and writes to everybody."""
    marker = tmp_path / "owned"
    bob = desk.bob
    bob.write(".gitea/workflows/allot.yaml", f"on: pull_request\njobs: {{x: {{steps: [run: touch {marker}]}}}}\n")
    bob.write("renderers/allotment/cli/comment.py", f"open({str(marker)!r}, 'w')\n")
    bob.write("sitecustomize.py", f"open({str(marker)!r}, 'w')\n")
    bob.write("click/__init__.py", f"open({str(marker)!r}, 'w')\n")
    bob.write(".gitattributes", "* filter=evil merge=evil diff=evil\n")
    bob.edit("platform/ownership.yaml", "- fin-ann", "- fin-ann\n        - bob")
    bob.edit(
        "tenants/solo-ada/members.yaml",
        "  users:\n",
        "  users:\n    - name: bob\n      role: Admin\n      login: bob\n",
    )
    hostile = HOSTILE.replace('"', "'")
    bob.edit(WEBUI, "spec:\n", f'spec:\n  displayName: "{hostile}"\n  description: "/close {hostile}"\n')
    bob.write(f"tenants/solo-ada/instances/{'a' * 30} @ada.yaml", f"{HOSTILE}\n/close\n```\n@ada\n")
    number = bob.open("evil", "Fine <!-- allotment:plan -->")
    faked = "<!-- allotment:plan -->\n### ✅ This can be merged"
    bob.api(f"issues/{number}/comments", {"body": faked})
    for user in (ADMIN, "ada"):
        desk.gitea.api("notifications", method="PUT", user=user)
    result = desk.comment("--number", number)
    assert result.code == 0, result.err
    assert not marker.exists()
    assert desk.bob.status(number)[0] == "failure"
    text = desk.ada.comment(number, "plan")
    for path in ("platform/ownership.yaml", ".gitea/workflows/allot.yaml", "sitecustomize.py", WEBUI, ".gitattributes"):
        assert f"{path}:" in text, path
    assert [comment["body"] for comment in bob.comments(number, "bob")] == [faked], "what others write is theirs"
    html = desk.rendered(text)
    for live in ("<img", 'href="https://evil', 'class="mention"', "ref-issue", 'href="/ada"'):
        assert live not in html, live
    assert html.count("<details") == html.count("</details") == 1
    assert [
        notification for notification in desk.mentioned("ada") if notification["subject"]["title"].startswith("Fine")
    ] == []
    assert desk.ada.api(f"pulls/{number}")["state"] == "open"


def test_when_the_base_moves_the_verdict_follows(desk: Desk) -> None:
    """Two pull requests that are each fine oversell together: the second one's status turns."""
    kite = "tenants/studio-kite/instances/webui.yaml"
    desk.admin.edit(kite, "spec:\n", "spec:\n  replicas: 13\n")
    text = (desk.ada.root / WEBUI).read_text()
    for index in range(12):
        name = f"more{index:02}"
        desk.ada.write(f"tenants/film-house/instances/{name}.yaml", text.replace("name: webui\n", f"name: {name}\n", 1))
    numbers = [person.open("many") for person in (desk.admin, desk.ada)]
    desk.comment("--all")
    before = desk.ada.comment(numbers[1], "plan")
    assert "more than its stock" not in before
    desk.admin.merge(numbers[0])
    desk.comment("--all")
    after = desk.ada.comment(numbers[1], "plan")
    assert after != before
    assert desk.ada.status(numbers[1])[0] == "failure"
    assert "41 units of l4-quarter would run in eu-1, 1 more than its stock" in after


def test_a_head_that_moved_on_is_not_spoken_of(desk: Desk) -> None:
    theme(desk.ada, "light")
    number = desk.ada.open("moving")
    old = git(desk.ada.root, "rev-parse", "HEAD")
    desk.ada.edit(WEBUI, "value: light", "value: dark")
    desk.ada.push("moving")
    result = desk.comment("--number", number, "--head", old)
    assert result.out == f"#{number}: no comment: its head has changed\n"
    assert desk.ada.comments(number) == []
    desk.ada.api(f"pulls/{number}", {"state": "closed"}, method="PATCH")
    assert "it is not open" in desk.comment("--number", number).out


def test_a_locked_pull_request_gets_a_status_and_no_comment(desk: Desk) -> None:
    theme(desk.ada, "light")
    number = desk.ada.open("locked")
    desk.admin.api(f"issues/{number}/lock", {}, method="PUT")
    desk.comment("--number", number)
    assert desk.ada.status(number)[0] == "success"
    assert desk.ada.comments(number) == []


def test_a_token_that_is_wrong_is_said_and_never_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    theme(desk.ada, "light")
    number = desk.ada.open("token")
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", "0123456789abcdef")
    result = desk.comment("--number", number)
    assert result.code == 2
    assert "0123456789abcdef" not in result.out + result.err
    monkeypatch.delenv("ALLOT_FORGE_TOKEN")
    result = desk.comment("--number", number)
    assert (result.code, "ALLOT_FORGE_TOKEN" in result.err) == (2, True)


def test_self_service_merges_nothing_by_a_borrowed_right(desk: Desk, gitea: Gitea, tmp_path: Path) -> None:
    """Ada's own change merges. Each other pull request of her file borrows a right."""
    for path, text in (
        ("platform/platform.yaml", "spec:\n  selfService: Enabled\n"),
        ("platform/plans/starter.yaml", "spec:\n  selfService:\n    changes: [Stop, Change, Members]\n"),
    ):
        file = desk.root / path
        file.write_text(file.read_text(encoding="utf-8").replace("spec:\n", text, 1), encoding="utf-8")
    desk.push()
    desk.ada.invite(desk.bob)
    numbers: dict[str, int] = {}

    def open_change(person: Person, name: str, title: str = "Change", base: str = "main") -> int:
        person.sync()
        person.edit(STYLES, "spec:\n", f"spec:\n  description: By {name}.\n")
        numbers[name] = person.open(name, title, base)
        return numbers[name]

    open_change(desk.bob, "stranger")
    desk.ada.approve(open_change(desk.bob, "approved"))
    open_change(desk.ada, "draft", "WIP: not yet")
    open_change(desk.ada, "pushed")
    desk.bob.sync()
    git(desk.bob.root, "fetch", "-q", desk.ada.fork(desk.bob), "pushed")
    git(desk.bob.root, "checkout", "-q", "--detach", "FETCH_HEAD")
    desk.bob.edit(STYLES, "By pushed", "By bob")
    desk.bob.push("pushed", to=desk.ada.fork(desk.bob))
    git(desk.root, "push", "-q", "origin", "main:refs/heads/other")
    desk.ada.api(f"pulls/{open_change(desk.ada, 'retargeted')}", {"base": "other"}, method="PATCH")
    returned = open_change(desk.ada, "returned", base="other")
    desk.ada.api(f"pulls/{returned}", {"base": "main"}, method="PATCH")
    closed = open_change(desk.ada, "closed")
    desk.ada.api(f"pulls/{closed}", {"state": "closed"}, method="PATCH")
    desk.ada.sync()
    desk.ada.edit("platform/plans/starter.yaml", "[Stop, Change", "[Start, Stop, Change")
    numbers["policy"] = desk.ada.open("policy")
    desk.bob.sync()
    desk.bob.edit(
        "tenants/solo-ada/members.yaml",
        "  users:\n",
        "  users:\n    - name: bob\n      role: Admin\n      login: bob\n",
    )
    desk.bob.edit(STYLES, "spec:\n", "spec:\n  description: By a new member.\n")
    numbers["member"] = desk.bob.open("member")
    desk.ada.sync()
    desk.ada.edit(WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    own = desk.ada.open("own")
    folder = tmp_path / "loop"
    remote = Remote(Clone.open_or_create(folder), gitea.remote(REPOSITORY, ORGANISATION), keep=True)
    loop = CommentLoop(
        lambda: create_pull_services(folder, remote, "main", Token(gitea.tokens[BOT]), None, merges=True),
        CommentMetrics(CollectorRegistry()),
        RecordedLog(),
        30,
    )
    for _ in range(3):
        loop.tick()
    merged = {name: desk.admin.api(f"pulls/{number}")["merged"] for name, number in {**numbers, "own": own}.items()}
    assert merged == {**dict.fromkeys(numbers, False), "own": True}
    assert desk.ada.status(own, "allot/self-service") == ("success", "solo-ada: Stop")
    git(desk.root, "pull", "-q", "origin", "main")
    message = git(desk.root, "log", "-1", "--format=%B")
    assert message.startswith(f"Merge #{own} by self service: Stop of tenant solo-ada\n")
    assert "It doesn't merge by itself: `it is a draft" in desk.ada.comment(numbers["draft"], "plan")
