"""`--pending` adds the instances and storages of open pull requests, with a forge that is a server of ours."""

from __future__ import annotations

import pytest
from tests.adapters.forge.server import REPOSITORY, TOKEN, GitHubWorld
from tests.adapters.git.malformed import write_commit
from tests.conftest import Allot, Result, checked, edit
from tests.support.comment_desk import AUTHOR, WEBUI, Desk, desk, on_each_forge
from tests.support.pending_proposals import find_urls, propose_new
from tests.support.published import EMPTY_STORAGE, INSTANCE, git

from allotment.adapters import forge
from allotment.adapters.forge.forge import Token
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused, pluralize
from allotment.services.pull_requests.pending_resources import DEFAULT_LIMITS, PendingLimits, PendingReader

__all__ = ["desk"]


@pytest.fixture
def run_pending(desk: Desk, allot: Allot) -> Allot:
    def run(kind: str, *words: object) -> Result:
        api = ("--pending", "--forge-api", desk.world.api)
        return allot(kind, "list", "--repo", desk.place.root, *api, *words)

    return run


def rows(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [" ".join(line.split()) for line in result.out.splitlines()][1:]


@on_each_forge
def test_an_added_and_a_changed_instance_have_their_pull_requests(desk: Desk, run_pending: Allot) -> None:
    propose_new(desk, 1, "tenants/solo-ada/instances/notebook.yaml", INSTANCE.format(name="notebook", labels=""))
    desk.propose(2, "l4-quarter", "l4-whole")
    urls = find_urls(desk)
    assert rows(run_pending("instance", "--tenant", "solo-ada")) == [
        f"solo-ada/notebook eu-1 Running - - l4-quarter 1 - 0.21 #1 add {urls[1]}",
        "solo-ada/webui eu-1 Running Merged - l4-quarter 1 - 0.21",
        f"solo-ada/webui eu-1 Running - - l4-whole 1 - 0.84 #2 change {urls[2]}",
    ]
    output = checked("instance list", run_pending("instance", "-o", "json", "--tenant", "solo-ada").out)
    assert output["instances"][0]["pullRequest"] == {"number": 1, "url": urls[1], "change": "add"}


def test_a_removed_instance_and_a_new_storage_are_listed(desk: Desk, run_pending: Allot) -> None:
    propose_new(desk, 1, "tenants/solo-ada/storages/scratch.yaml", EMPTY_STORAGE.format(name="scratch"))
    root = desk.place.root
    git(root, "checkout", "-q", "-B", "change-2")
    (root / WEBUI).unlink()
    desk.open(2, "ada-k")
    pending = [row for row in rows(run_pending("instance", "--tenant", "solo-ada")) if " #2 " in row]
    assert [row.partition(" #2 ")[2].split()[0] for row in pending] == ["remove"]
    (scratch,) = [row for row in rows(run_pending("storage", "--tenant", "solo-ada")) if "#" in row]
    assert scratch.startswith("solo-ada/scratch eu-1 block-ssd 20Gi - none - - 0.0027 #1 add ")


def test_a_merge_meanwhile_is_no_change_of_the_pull_request(desk: Desk, run_pending: Allot) -> None:
    desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    root = desk.place.root
    path = root / "tenants/uni-lab/instances/group-a.yaml"
    path.write_text(path.read_text().replace("state: Running", "state: Stopped"))
    git(root, *AUTHOR, "commit", "-q", "-am", "Meanwhile")
    git(root, "push", "-q", "origin", "main")
    changed = [row.split()[0] for row in rows(run_pending("instance")) if "#" in row]
    assert changed == ["solo-ada/webui"]


def test_without_a_token_it_is_an_error(desk: Desk, run_pending: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALLOT_FORGE_TOKEN")
    result = run_pending("instance")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == (
        "Error: The token of the forge is missing: set ALLOT_FORGE_TOKEN, or name a file with --forge-token-file."
    )


def test_a_forge_that_does_not_answer_is_an_error(desk: Desk, run_pending: Allot) -> None:
    assert isinstance(desk.world, GitHubWorld)
    desk.world.close()
    result = run_pending("storage")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(f"allot: the forge at {desk.world.url} doesn't answer: ")


def test_a_vanished_and_an_unsound_head_hide_no_other_pull_request(desk: Desk, run_pending: Allot) -> None:
    remote = desk.place.remote
    desk.world.open(1, "1" * 40, "ada-k")
    no_tree = write_commit(remote, "2" * 40, git(remote, "rev-parse", "main"))
    git(remote, "update-ref", "--no-deref", "refs/pull/2/head", no_tree)
    desk.world.open(2, no_tree, "ada-k")
    desk.propose(3, "l4-quarter", "l4-whole")
    result = run_pending("instance", "--tenant", "solo-ada")
    assert [row.split(" #")[1].split()[0] for row in rows(result) if "#" in row] == ["3"]
    vanished, unsound = [line for line in result.err.splitlines() if line.startswith("pull request ")]
    assert vanished == (
        "pull request #1 can't be read: the remote doesn't give its head 111111111111: if the pull request has changed,"
        " try again"
    )
    assert unsound.startswith("pull request #2 can't be read: ")


def test_a_head_without_the_folder_of_the_declarations_hides_no_other_pull_request(
    desk: Desk, run_pending: Allot
) -> None:
    root = desk.place.root
    (root / "cloud").mkdir()
    git(root, "mv", "platform", "tenants", "cloud")
    git(root, *AUTHOR, "commit", "-q", "-m", "Move the declarations")
    git(root, "push", "-q", "origin", "main")
    git(root, "checkout", "-q", "-B", "change-1")
    git(root, "rm", "-q", "-r", "cloud")
    desk.open(1, "ada-k")
    git(root, "checkout", "-q", "-B", "change-2")
    edit(root / "cloud", WEBUI, "l4-quarter", "l4-whole")
    desk.open(2, "ada-k")
    result = run_pending("instance", "--tenant", "solo-ada", "--repo", root / "cloud")
    assert [row.split(" #")[1].split()[0] for row in rows(result) if "#" in row] == ["2"]
    assert "pull request #1 can't be read: it has no folder cloud" in result.err.splitlines()


def test_a_remote_that_does_not_answer_is_an_error(desk: Desk, run_pending: Allot) -> None:
    root = desk.place.root
    desk.world.open(1, "1" * 40, "ada-k")
    with pytest.raises(OperationRefused, match="doesn't answer"):
        pending_reader(desk, Remote(Repository(root), str(root / "missing"))).read()


@pytest.mark.parametrize("limits", [PendingLimits(pull_requests=1), PendingLimits(seconds=0.0)])
def test_limits_end_the_reading_with_a_note(desk: Desk, limits: PendingLimits) -> None:
    for number, spec in ((1, "l4-whole"), (2, "l4-half")):
        desk.propose(number, "l4-quarter", spec)
    pending = pending_reader(desk, Remote(Repository(desk.place.root), "origin"), limits).read()
    read = limits.pull_requests if limits.seconds else 0
    assert len(pending.changes) == read
    assert pending.notes == [
        f"#{read + 1} and later: {pluralize(2 - read, 'pull request')} not read, because the limit is"
        f" {limits.pull_requests:,} pull requests or {limits.seconds:g} seconds: close old pull requests"
    ]


def pending_reader(desk: Desk, remote: Remote, limits: PendingLimits = DEFAULT_LIMITS) -> PendingReader:
    """Return a reader of the desk's pull requests."""
    root = desk.place.root
    declared = CommitSource(root, git(root, "rev-parse", "main"))
    connection = forge.connect(desk.world.kind, f"https://forge.example/{REPOSITORY}", Token(TOKEN), desk.world.api)
    return PendingReader(declared, "main", connection, remote, {}, limits)
