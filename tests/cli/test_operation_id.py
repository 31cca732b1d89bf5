"""`--operation-id`: a repeated command changes nothing more, and prints the same answer."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from tests.conftest import Allot
from tests.support.operation import ID, STOP, WEBUI, branches, merge, push
from tests.support.published import Place, git

from allotment.cli import options
from allotment.services.changes.remote_clone import name_clone_folder


@pytest.fixture
def clone(published: Place, tmp_path: Path) -> Path:
    """Return another clone of the remote."""
    folder = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(published.remote), str(folder))
    return folder


def change_file(place: Place, text: str) -> None:
    """Push a commit to the target branch that changes the file of the instance."""
    git(place.root, "fetch", "-q", "origin")
    git(place.root, "reset", "-q", "--hard", "origin/main")
    (place.root / WEBUI).write_text(text.format((place.root / WEBUI).read_text()))
    git(place.root, "-c", "user.name=Ada", "-c", "user.email=a@northlight.example", "commit", "-qam", "Another change")
    git(place.root, "push", "-q", "origin", "HEAD:main")


def test_the_file_and_the_commit_have_the_id(published: Place, allot: Allot) -> None:
    before = (published.root / WEBUI).read_text()
    result = allot(*STOP, "--commit", "--repo", published.root)
    assert result.code == 0, result
    after = before.replace("  name: webui\n", f"  name: webui\n  operationID: {ID}\n", 1)
    assert (published.root / WEBUI).read_text() == after.replace("spec:\n", "spec:\n  state: Stopped\n")
    assert git(published.root, "log", "-1", "--format=%B") == f"Stop solo-ada/webui\n\nOperation-ID: {ID}"
    head = git(published.root, "rev-parse", "HEAD")
    assert allot(*STOP, "--commit", "--repo", published.root) == result
    assert git(published.root, "rev-parse", "HEAD") == head


def test_the_plan_does_not_show_the_id(published: Place, allot: Allot) -> None:
    words = (*STOP[:3], "--dry-run", "--repo", published.root)
    plain, stamped = allot(*words), allot(*words, "--operation-id", ID)
    plan = stamped.out.partition("\n\n")[2]
    assert plan == plain.out.partition("\n\n")[2]
    assert "operationID" not in plan


def test_a_folder_keeps_the_first_change_until_it_is_committed(published: Place, allot: Allot) -> None:
    first = allot(*STOP, "--repo", published.root)
    assert (first.code, json.loads(first.out)["stage"]) == (0, "Folder")
    assert allot(*STOP, "--repo", published.root) == first
    other = allot("set", "instance/solo-ada/webui", "replicas=1", "--operation-id", ID, "--repo", published.root)
    assert other.code == 2
    assert f"the operation ID '{ID}' belongs to another change, in the uncommitted file {WEBUI}" in other.err
    committed = allot(*STOP, "--commit", "--repo", published.root)
    assert json.loads(committed.out)["stage"] == "Commit"
    assert git(published.root, "status", "--short") == ""
    assert allot(*STOP, "--commit", "--repo", published.root) == committed


def test_a_dry_run_commits_nothing(published: Place, allot: Allot) -> None:
    first = allot(*STOP, "--repo", published.root)
    head = git(published.root, "rev-parse", "HEAD")
    assert allot(*STOP, "--commit", "--dry-run", "--repo", published.root) == first, "the stage is Folder"
    assert git(published.root, "rev-parse", "HEAD") == head
    committed = allot(*STOP, "--commit", "--repo", published.root)
    assert allot(*STOP, "--commit", "--dry-run", "--repo", published.root) == committed, "the stage is Commit"


def test_an_id_that_begins_with_another_id_is_another_operation(published: Place, allot: Allot) -> None:
    words = ("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root, "--operation-id")
    assert allot(*words, "run-12345678").code == 0
    lab = ("instance", "stop", "ml-orbit/lab", *words[3:])
    assert allot(*lab, "run-1234567").code == 0
    assert git(published.root, "log", "-1", "--format=%s") == "Stop ml-orbit/lab"
    assert allot(*words, "run-1234567").code == 2
    assert allot(*words, "run-12345678").code == 0
    assert git(published.root, "log", "-1", "--format=%s") == "Stop ml-orbit/lab"


def test_a_push_is_repeated_from_another_clone(published: Place, clone: Path, allot: Allot) -> None:
    first = push(allot, published.root)
    assert first.code == 0, first
    answer = json.loads(first.out)
    assert branches(published) == [answer["branch"]]
    assert push(allot, clone) == first
    assert branches(published) == [answer["branch"]]


@pytest.mark.parametrize("options", [("--no-ff",), ("--squash",)])
def test_a_merged_change_is_not_repeated(options: tuple[str, ...], published: Place, clone: Path, allot: Allot) -> None:
    first = push(allot, published.root)
    merge(published, *options)
    assert push(allot, clone) == first, "the branch is merged and deleted"
    change_file(published, "# later\n{}")
    assert push(allot, clone) == first, "and the file was changed later"
    git(published.root, "rm", "-q", WEBUI)
    git(published.root, "-c", "user.name=Ada", "-c", "user.email=a@northlight.example", "commit", "-qm", "Remove it")
    git(published.root, "push", "-q", "origin", "HEAD:main")
    assert push(allot, clone) == first, "and the file was removed"
    assert branches(published) == []


def test_a_squash_that_keeps_the_message_and_adds_a_number_is_not_repeated(
    published: Place, clone: Path, allot: Allot
) -> None:
    first = push(allot, published.root)
    (branch,) = branches(published)
    git(published.root, "fetch", "-q", "origin")
    git(published.root, "checkout", "-q", "--detach", "origin/main")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example")
    git(published.root, "merge", "-q", "--squash", f"origin/{branch}")
    message = f"Stop solo-ada/webui (#12)\n\nOperation-ID: {ID}\n"
    git(published.root, *identity, "commit", "-q", "-m", message)
    git(published.root, "push", "-q", "origin", "HEAD:main", f":{branch}")
    git(published.root, "checkout", "-q", "main")
    assert push(allot, clone) == first
    assert branches(published) == []


@pytest.mark.parametrize(
    "words",
    [
        ("instance", "stop", "ml-orbit/lab"),
        ("instance", "start", "solo-ada/webui"),
        ("set", "instance/solo-ada/webui", "state=Stopped"),
        ("set", "instance/solo-ada/webui", "replicas=2"),
    ],
)
def test_the_id_of_another_change_is_refused(
    words: tuple[str, ...], published: Place, clone: Path, allot: Allot
) -> None:
    push(allot, published.root)
    repeated = push(allot, clone, *words, "--operation-id", ID)
    (branch,) = branches(published)
    message = f"the operation ID '{ID}' belongs to another change: 'Stop solo-ada/webui' in branch {branch}:"
    assert (repeated.code, repeated.out) == (2, "")
    assert message in repeated.err
    merge(published, "--no-ff")
    repeated = push(allot, clone, *words, "--operation-id", ID)
    assert (repeated.code, message.replace(branch, "main") in repeated.err) == (2, True), repeated


@pytest.mark.parametrize(
    "text", ["short", "-begins-with-a-hyphen", "with space", "x" * 64, "a/../../b", "deploy\n-1234"]
)
def test_a_wrong_format_is_refused(text: str, published: Place, allot: Allot) -> None:
    result = push(allot, published.root, *STOP[:3], f"--operation-id={text}")
    assert (result.code, result.out) == (2, "")
    assert "is invalid: write 8 to 63 letters, digits, dots, underscores and hyphens" in result.err
    assert branches(published) == []


def test_the_environment_gives_the_id(published: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_OPERATION_ID", ID)
    assert push(allot, published.root, *STOP[:3], "-o", "json") == push(allot, published.root)


def test_an_id_that_looks_like_a_number_is_found(published: Place, clone: Path, allot: Allot) -> None:
    words = ("instance", "stop", "solo-ada/webui", "--operation-id", "12345678", "-o", "json")
    first = push(allot, published.root, *words)
    assert 'operationID: "12345678"' in git(published.remote, "show", f"{branches(published)[0]}:{WEBUI}")
    merge(published, "--squash")
    assert push(allot, clone, *words) == first


def test_a_url_takes_the_place_of_a_folder(published: Place, allot: Allot, tmp_path: Path) -> None:
    url = published.remote.as_uri()
    first = allot(*STOP, "--push", "--repo", url)
    assert first.code == 0, first
    assert allot(*STOP, "--push", "--repo", url) == first
    assert push(allot, published.root) == first
    result = allot(*STOP, "--repo", url)
    assert (result.code, "--repo URL has no folder to change: add --push or --pr" in result.err) == (2, True)
    result = allot(*STOP, "--push", "--repo", "https://ada:s3cret@forge.example/acme/gpus")
    assert (result.code, "the URL contains a password" in result.err, "s3cret" in result.err) == (2, True, False)


@pytest.mark.parametrize("scheme", ["https", "http", "git", "file"])
@pytest.mark.parametrize("credentials", ["s3cret", "ada:s3cret", ":s3cret"])
def test_a_url_with_credentials_is_refused(scheme: str, credentials: str, allot: Allot) -> None:
    result = allot(*STOP, "--push", "--repo", f"{scheme}://{credentials}@forge.example/acme/gpus")
    assert (result.code, "s3cret" in result.err) == (2, False)
    assert "the URL contains a password or a token before '@forge.example'" in result.err


@pytest.mark.parametrize("url", ["https://[bad/x", "https://forge.example:99999999/x"])
def test_an_invalid_url_is_refused(url: str, allot: Allot) -> None:
    result = allot(*STOP, "--push", "--repo", url)
    assert (result.code, f"'{url}' is no valid URL: " in result.err) == (2, True), result


def test_a_clone_that_cannot_be_written_is_refused(published: Place, allot: Allot) -> None:
    url = published.remote.as_uri()
    folder = name_clone_folder(url)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(folder.parent / "missing")
    result = allot(*STOP, "--push", "--repo", url)
    assert (result.code, "can't be written: Not a directory: correct the cache folder" in result.err) == (2, True), (
        result
    )
    folder.unlink()


def test_the_id_changes_no_manifest_and_restarts_nothing(published: Place, allot: Allot) -> None:
    before = published.tree("eu-1")
    for path in published.root.glob("tenants/solo-ada/*/*.yaml"):
        path.write_text(path.read_text().replace("metadata:\n", f"metadata:\n  operationID: {ID}\n", 1))
    plan = allot("plan", "--repo", published.root)
    assert "restarts" not in plan.out.replace("No instance restarts.", "")
    assert "operationID" not in plan.out
    assert published.merged().code == 0
    after = published.tree("eu-1")
    assert before.keys() == after.keys()
    changed = {
        line
        for path, text in after.items()
        for line in set(text.splitlines()) ^ set(before[path].splitlines())
        if not path.startswith("published")
    }
    # As after a change of a comment: only the ids of the declared files differ.
    ids = {"allotment.dev/declared-blob", "content"}
    assert {line.split(":")[0].strip() for line in changed} == ids


@pytest.mark.parametrize(("options", "is_found"), [(("--no-ff",), True), (("--squash",), False)])
def test_a_removal_is_found_in_the_message_of_its_commit(
    options: tuple[str, ...], is_found: bool, published: Place, clone: Path, allot: Allot
) -> None:
    """A squash merge that drops the message leaves no trace of the ID of a removed file."""
    words = ("stock", "remove", "eu-1/spare", "--operation-id", ID, "-o", "json")
    stock = published.root / "clusters/eu-1/stocks/spare.yaml"
    stock.write_text((stock.parent / "l4-whole.yaml").read_text().replace("name: l4-whole", "name: spare"))
    published.merge()
    git(clone, "pull", "-q")
    first = push(allot, published.root, *words)
    assert first.code == 0, first
    assert json.loads(first.out)["files"] == [{"path": "clusters/eu-1/stocks/spare.yaml", "action": "Removed"}]
    assert push(allot, clone, *words) == first
    merge(published, *options)
    repeated = push(allot, clone, *words)
    assert (repeated == first) is is_found
    if not is_found:
        assert (repeated.code, "eu-1 has no Stock named 'spare'" in repeated.err) == (2, True)


def test_a_commit_that_its_pull_request_reverts_took_no_id(published: Place, clone: Path, allot: Allot) -> None:
    """Nobody reviewed it, and the change isn't in the branch."""
    identity = ("-c", "user.name=Mallory", "-c", "user.email=m@evil.example")
    git(clone, "checkout", "-q", "-b", "feature")
    assert allot(*STOP, "--commit", "--repo", clone).code == 0
    git(clone, *identity, "revert", "--no-edit", "HEAD")
    (clone / "README.md").write_text("more\n")
    git(clone, "add", "--all")
    git(clone, *identity, "commit", "-q", "-m", "More")
    git(clone, "checkout", "-q", "main")
    git(clone, *identity, "merge", "-q", "--no-ff", "-m", "Merge", "feature")
    git(clone, "push", "-q", "origin", "main")
    result = push(allot, clone)
    assert (result.code, json.loads(result.out)["files"]) == (0, [{"path": WEBUI, "action": "Changed"}]), result
    (branch,) = branches(published)
    assert "state: Stopped" in git(published.remote, "show", f"{branch}:{WEBUI}")


def test_an_operation_whose_commit_a_merge_reverted_is_not_merged(published: Place, clone: Path, allot: Allot) -> None:
    """A reader of the repository can build upon the branch of an operation and revert it in the same pull request."""
    assert push(allot, published.root).code == 0
    (branch,) = branches(published)
    identity = ("-c", "user.name=Mallory", "-c", "user.email=m@evil.example")
    git(clone, "fetch", "-q", "origin")
    git(clone, "checkout", "-q", "-b", "feature", f"origin/{branch}")
    git(clone, *identity, "revert", "--no-edit", "HEAD")
    git(clone, "checkout", "-q", "main")
    git(clone, *identity, "merge", "-q", "--no-ff", "-m", "Fix a typo", "feature")
    git(clone, "push", "-q", "origin", "main")
    shown = allot("operation", "show", ID, "--repo", published.root, "-o", "json")
    assert (shown.code, json.loads(shown.out)["state"]) == (0, "Branch"), shown


def test_an_operation_is_merged_although_its_branch_has_more_commits(
    published: Place, clone: Path, allot: Allot
) -> None:
    """A forge updates a branch by a merge of the target, and a reviewer may add a commit."""
    assert push(allot, published.root).code == 0
    (branch,) = branches(published)
    identity = ("-c", "user.name=Ada", "-c", "user.email=a@northlight.example")
    git(clone, "fetch", "-q", "origin")
    git(clone, "checkout", "-q", "-b", "feature", f"origin/{branch}")
    (clone / "README.md").write_text("more\n")
    git(clone, "add", "README.md")
    git(clone, *identity, "commit", "-q", "-m", "More")
    git(clone, "checkout", "-q", "main")
    git(clone, *identity, "merge", "-q", "--no-ff", "-m", "Merge", "feature")
    git(clone, "push", "-q", "origin", "main")
    shown = allot("operation", "show", ID, "--repo", published.root, "-o", "json")
    assert (shown.code, json.loads(shown.out)["state"]) == (0, "Merged"), shown


def test_a_cache_folder_in_a_work_tree_is_refused(
    published: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may have committed a clone there. The clone around it stays as it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(published.root / ".cache"))
    before = (published.root / ".git/config").read_bytes(), git(published.root, "symbolic-ref", "HEAD")
    result = allot(*STOP, "--push", "--repo", published.remote.as_uri())
    assert (result.code, "is in a work tree, and a stranger may have committed its files" in result.err) == (2, True)
    assert ((published.root / ".git/config").read_bytes(), git(published.root, "symbolic-ref", "HEAD")) == before


def test_a_price_is_repeated_after_its_first_day(
    published: Place, clone: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("spec", "price", "l4-quarter", "0.18", "--from", "2031-01-01", "--operation-id", ID, "-o", "json")
    first = push(allot, published.root, *words)
    assert (first.code, len(branches(published))) == (0, 1), first.err
    merge(published, "--squash")
    monkeypatch.setattr(options, "today", lambda zone: datetime.date(2031, 2, 1))
    again = push(allot, clone, *words)
    assert (again.code, again.out, branches(published)) == (0, first.out, [])
    other = push(allot, clone, *words[:3], "0.19", *words[4:])
    assert (other.code, other.out) == (2, "")
