"""What every forge does for us: the same checks for GitHub's and GitLab's API, and for a real Gitea."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pytest
from tests.support.waiting import eventually

from allotment.adapters.forge.forge import (
    CommitStatus,
    Forge,
    Fork,
    NotFound,
    PullRequestHead,
    RequestDeclined,
)
from allotment.declared.people import Account


class World(Protocol):
    """A repository on a forge, with one open pull request, 1, of `people[0]`; the other two approve and comment."""

    bot: str
    people: tuple[str, str, str]

    @property
    def now(self) -> datetime.datetime: ...

    def open(self, number: int, *, base: str = "main") -> str:
        """Open the next pull request; return its head."""
        ...

    def push_branch(self, name: str, fork: Fork | None = None) -> str:
        """Push a new branch to the repository, or to the fork of our own; return its commit."""
        ...

    def remove_branch(self, name: str) -> None:
        """Remove a branch of the repository."""
        ...

    def push(self, number: int, *, login: str = "") -> str:
        """Push something new to one, as its author or somebody else; return its head."""
        ...

    def push_back(self, number: int, head: str) -> None:
        """Push an earlier head again."""
        ...

    def change_base(self, number: int, base: str) -> None:
        """Let the author change the branch that one is to be merged into."""
        ...

    def head(self, number: int) -> str: ...

    def approve(self, number: int, login: str, *, takes_back: bool = False) -> None:
        """Let somebody approve what the head is now, or take that back."""
        ...

    def say(self, number: int, login: str, body: str) -> Any: ...

    def bodies(self, number: int) -> list[str]:
        """Return what our comments say."""
        ...

    def merge(self, number: int) -> str:
        """Merge one; return the commit that this made."""
        ...

    def close_pull(self, number: int) -> None: ...

    def lock(self, number: int) -> None: ...

    def team(self, *logins: str) -> str:
        """Make a team of people; return its name."""
        ...


def who_we_are(world: World, forge: Forge) -> None:
    assert forge.identity() == world.bot


def a_pull_request_is_what_the_forge_says(world: World, forge: Forge) -> None:
    pull_request = forge.pull_request(1)
    assert (pull_request.head, pull_request.base, pull_request.author.login) == (world.head(1), "main", world.people[0])
    assert pull_request.author.id > 0
    assert len(pull_request.base_commit) == 40
    assert (pull_request.is_open, pull_request.merge_commit, pull_request.is_locked) == (True, "", False)
    commit = world.merge(1)
    world.lock(1)
    pull_request = forge.pull_request(1)
    assert (pull_request.is_open, pull_request.merge_commit, pull_request.is_locked) == (False, commit, True)
    with pytest.raises(NotFound):
        forge.pull_request(99)


def lists_are_read_to_their_last_page(world: World, forge: Forge) -> None:
    for number in range(2, 8):
        world.open(number, base="main" if number < 7 else "other")
    assert {pull_request.number for pull_request in forge.open_pull_requests("main")} == {1, 2, 3, 4, 5, 6}
    for at in range(5):
        world.say(1, world.bot if at == 4 else world.people[1], f"number {at}")
    assert [(comment.author, comment.body) for comment in forge.list_comments(1)] == [
        *((world.people[1], f"number {at}") for at in range(4)),
        (world.bot, "number 4"),
    ]


def what_was_merged_lately_is_found(world: World, forge: Forge) -> None:
    for number in (2, 3):
        world.open(number)
    world.merge(1)
    world.close_pull(2)
    since = world.now
    world.merge(3)
    assert 3 in {pull_request.number for pull_request in forge.merged_since("main", since)} <= {1, 3}
    assert {
        pull_request.number for pull_request in forge.merged_since("main", since - datetime.timedelta(hours=1))
    } == {1, 3}
    assert not list(forge.merged_since("main", since + datetime.timedelta(hours=1)))
    assert not list(forge.merged_since("other", since - datetime.timedelta(hours=1)))
    assert all(len(pull_request.base_commit) == 40 for pull_request in forge.merged_since("main", since))


def logins(accounts: frozenset[Account]) -> set[str]:
    assert all(account.id > 0 for account in accounts), "each has the id that stays"
    return {account.login for account in accounts}


def pushed(forge: Forge, head: str) -> set[str]:
    pushers = forge.pushers(1, head)
    assert pushers is not None
    return logins(pushers)


def all_who_pushed_since_it_was_opened_are_named(world: World, forge: Forge) -> None:
    author, ann, bob = world.people
    assert pushed(forge, world.head(1)) <= {author}, "whoever pushed the branch, the author opened it as it was"
    assert pushed(forge, world.push(1, login=ann)) - {author} == {ann}
    assert pushed(forge, world.push(1, login=author)) == {author, ann}, "what lies below is still hers"
    assert pushed(forge, world.push(1, login=bob)) == {author, ann, bob}
    assert forge.pushers(1, "0" * 40) is None


def a_change_of_the_base_leaves_nobodys_word(world: World, forge: Forge) -> None:
    _, ann, _ = world.people
    head = world.head(1)
    world.approve(1, ann)
    assert logins(forge.approvals(1, head)) == {ann}
    world.change_base(1, "other")
    assert forge.pushers(1, head) is None
    assert forge.approvals(1, head) == frozenset()
    world.approve(1, ann)
    assert logins(forge.approvals(1, head)) == {ann}, "of what it is now"


def an_approval_counts_for_the_head_that_it_was_given_on(world: World, forge: Forge) -> None:
    _, ann, bob = world.people
    old = world.head(1)
    world.approve(1, ann)
    assert logins(forge.approvals(1, old)) == {ann}
    new = world.push(1)
    assert forge.approvals(1, new) == frozenset()
    world.approve(1, bob)
    assert logins(forge.approvals(1, new)) == {bob}
    assert bob not in logins(forge.approvals(1, old))
    world.approve(1, bob, takes_back=True)
    assert forge.approvals(1, new) == frozenset()


def comments_are_written_edited_and_removed(world: World, forge: Forge) -> None:
    forge.create_comment(1, "first")
    (mine,) = [comment for comment in forge.list_comments(1) if comment.author == world.bot]
    forge.update_comment(1, mine.id, "second")
    assert world.bodies(1) == ["second"]
    forge.delete_comment(1, mine.id)
    assert world.bodies(1) == []
    with pytest.raises(NotFound):
        forge.update_comment(1, mine.id, "third")


def statuses_come_back_as_they_were_set_the_newest_first(world: World, forge: Forge) -> None:
    head = world.head(1)
    states: tuple[Any, ...] = ("pending", "failure", "success")
    for state in states:
        forge.set_status(head, CommitStatus("allot/plan", state, f"is {state}", world.bot, "https://forge.example/1"))
    assert list(forge.list_statuses(head)) == [
        CommitStatus("allot/plan", state, f"is {state}", world.bot, "https://forge.example/1")
        for state in reversed(states)
    ]
    for _ in range(2):
        forge.set_status(head, CommitStatus("allot/rollout", "pending", "goes", world.bot))


def a_teams_members(world: World, forge: Forge) -> None:
    name = world.team(*world.people)
    assert logins(forge.members(name)) == set(world.people)
    with pytest.raises(NotFound):
        forge.members(f"{name.split('/')[0]}/nobody")


def a_pull_request_of_a_branch_is_opened_and_found(world: World, forge: Forge) -> None:
    name = "allot/op-0123456789abcdef"
    head, commit = PullRequestHead(name), world.push_branch(name)
    assert list(forge.find_pull_requests(head)) == []
    opened = forge.create_pull_request(head, "main", "Stop solo-ada/webui", "The merge stops 1 instance.")
    assert (opened.head, opened.base, opened.is_open, opened.author.login) == (commit, "main", True, world.bot)
    assert forge.pull_request(opened.number).url == opened.url
    with pytest.raises(RequestDeclined):
        forge.create_pull_request(head, "main", "Stop solo-ada/webui", "")
    assert [pull.url for pull in forge.find_pull_requests(head)] == [opened.url]
    assert list(forge.find_pull_requests(PullRequestHead("allot/op-0123456789"))) == []
    merged = world.merge(opened.number)
    world.remove_branch(name)
    (pull,) = forge.find_pull_requests(head)
    assert (pull.number, pull.is_open, pull.merge_commit, pull.head) == (opened.number, False, merged, commit)


def _merge(forge: Forge, head: str) -> bool:
    forge.merge(1, head, "Merge #1", "Self-Service: tariff plan team")
    return True


def a_merge_takes_only_the_named_head(world: World, forge: Forge) -> None:
    old = world.head(1)
    head = world.push(1)
    with pytest.raises(RequestDeclined):
        forge.merge(1, old, "Merge #1", "Self-Service: tariff plan team")
    assert forge.pull_request(1).is_open
    # A forge that still checks for conflicts declines.
    eventually(partial(_merge, forge, head), "a merge")
    merged = forge.pull_request(1)
    assert (merged.is_open, bool(merged.merge_commit), merged.is_draft) == (False, True, False)
    with pytest.raises(RequestDeclined):
        forge.merge(1, head, "Merge #1", "again")


def a_closed_pull_request_of_a_branch_is_found(world: World, forge: Forge) -> None:
    head = PullRequestHead("allot/other")
    world.push_branch("allot/other")
    opened = forge.create_pull_request(head, "main", "Stop solo-ada/webui", "")
    forge.close_pull_request(opened.number)
    second = forge.create_pull_request(head, "main", "Stop solo-ada/webui", "")
    assert [(pull.number, pull.is_open) for pull in forge.find_pull_requests(head)] == [
        (second.number, True),
        (opened.number, False),
    ]


def a_pull_request_comes_from_a_fork(world: World, forge: Forge) -> None:
    fork = forge.fork()
    assert fork == forge.fork(), "and not another"
    assert (fork.owner, "@" in fork.url) == (world.bot, False)
    name = "allot/stop-solo-ada-webui"
    head, commit = PullRequestHead(name, fork), world.push_branch(name, fork)
    assert list(forge.find_pull_requests(head)) == []
    opened = forge.create_pull_request(head, "main", "Stop solo-ada/webui", "")
    assert (opened.head, opened.base, opened.is_open) == (commit, "main", True)
    assert [pull.url for pull in forge.find_pull_requests(head)] == [opened.url]
    assert list(forge.find_pull_requests(PullRequestHead(name))) == [], "that branch is in the repository itself"


CONTRACT: list[Callable[[World, Forge], None]] = [
    who_we_are,
    a_pull_request_is_what_the_forge_says,
    lists_are_read_to_their_last_page,
    what_was_merged_lately_is_found,
    all_who_pushed_since_it_was_opened_are_named,
    a_change_of_the_base_leaves_nobodys_word,
    an_approval_counts_for_the_head_that_it_was_given_on,
    comments_are_written_edited_and_removed,
    statuses_come_back_as_they_were_set_the_newest_first,
    a_teams_members,
    a_pull_request_of_a_branch_is_opened_and_found,
    a_closed_pull_request_of_a_branch_is_found,
    a_merge_takes_only_the_named_head,
    a_pull_request_comes_from_a_fork,
]
