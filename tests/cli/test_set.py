"""`allot set` and the other editing commands: the files, the commit and the branch that they write, and nothing else."""

from __future__ import annotations

import json

import click
import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

from allotment.cli.change_options import ChangeOptions
from allotment.cli.change_run import run_change
from allotment.cli.set import command
from allotment.edits.instance_edits import set_states
from allotment.problems import OperationRefused

TARGET, PATH = "instance/solo-ada/webui", "tenants/solo-ada/instances/webui.yaml"


def test_the_folder_changes_and_the_difference_and_the_plan_are_shown(published: Place, allot: Allot) -> None:
    before = (published.root / PATH).read_text()
    result = allot("set", TARGET, "state=Stopped", "--repo", published.root)
    assert result.code == 0, result
    assert f"--- {PATH}\n+++ {PATH}\n" in result.out
    assert "\n+  state: Stopped\n" in result.out
    assert "instance webui  changed  stops" in result.out
    assert (published.root / PATH).read_text() == before.replace("spec:\n", "spec:\n  state: Stopped\n")
    assert git(published.root, "status", "--short") == f" M {PATH}".strip()


def test_quiet_writes_the_file_and_prints_nothing(published: Place, allot: Allot) -> None:
    result = allot("set", TARGET, "state=Stopped", "-q", "--repo", published.root)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert "\n  state: Stopped\n" in (published.root / PATH).read_text()
    refused = allot("set", TARGET, "gpuSpec=nope", "-q", "--repo", published.root)
    assert (refused.code, refused.out) == (2, "")
    assert "spec.gpuSpec: no GPUSpec is named 'nope'" in refused.err


def test_a_dry_run_and_an_invalid_value_change_nothing(published: Place, allot: Allot) -> None:
    result = allot("set", TARGET, "state=Stopped", "--dry-run", "--repo", published.root)
    assert (result.code, "1 file would change" in result.out) == (0, True)
    for assignment, message in (
        ("gpuSpec=nope", f"{PATH}:8:12: spec.gpuSpec: no GPUSpec is named 'nope'; known: "),
        ("replicas=zwei", "spec.replicas: 'zwei' is not a whole number"),
    ):
        result = allot("set", TARGET, assignment, "--repo", published.root)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
    assert git(published.root, "status", "--short") == ""


def test_a_commit_has_the_edited_file_only(published: Place, allot: Allot) -> None:
    other = published.root / "tenants/solo-ada/README.md"
    other.write_text("staged\n")
    git(published.root, "add", str(other))
    tenant = published.root / "tenants/solo-ada/tenant.yaml"
    tenant.write_text(tenant.read_text() + "# not mine\n")
    head = git(published.root, "rev-parse", "HEAD")
    result = allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root)
    assert result.code == 0, result
    assert git(published.root, "rev-parse", "HEAD~") == head
    assert git(published.root, "log", "-1", "--format=%s") == "Stop solo-ada/webui"
    assert git(published.root, "show", "--name-only", "--format=", "HEAD") == PATH
    status = git(published.root, "status", "--short").splitlines()
    assert [line.split() for line in status] == [
        ["A", "tenants/solo-ada/README.md"],
        ["M", "tenants/solo-ada/tenant.yaml"],
    ]


def test_nothing_runs_on_a_storage_that_nobody_has_committed(published: Place, allot: Allot) -> None:
    options = (
        "--cluster",
        "eu-1",
        "--gpu-spec",
        "l4-quarter",
        "--app",
        "jupyter",
        "--new-storage",
        "sets:50Gi:/workspace",
    )
    created = allot("instance", "create", "solo-ada/train", *options, "--repo", published.root)
    assert created.code == 0, created
    source = "prepare.source={s3: {endpoint: 'https://s3.test', bucket: %s}}"
    for bucket in ("open-data", "other-data"):
        result = allot("set", "storage/solo-ada/sets", source % bucket, "--repo", published.root)
        assert (result.code, result.err) == (0, "")
        assert "prepared again" not in result.out
    changed = allot("set", "storage/solo-ada/sets", "size=20Gi", "storageSpec=block-ssd", "--repo", published.root)
    assert (changed.code, changed.err) == (0, "")


def test_a_change_of_a_committed_resource_is_compared_with_the_commit(published: Place, allot: Allot) -> None:
    path = "tenants/solo-ada/storages/models.yaml"
    text = (published.root / path).read_text()
    grown = allot("set", "storage/solo-ada/models", "size=70Gi", "--repo", published.root)
    assert grown.code == 0, grown
    original = allot("set", "storage/solo-ada/models", "size=60Gi", "--repo", published.root)
    assert (original.code, (published.root / path).read_text()) == (0, text)
    shrunk = allot("set", "storage/solo-ada/models", "size=1Gi", "--repo", published.root)
    assert (shrunk.code, "[shrink]" in shrunk.err) == (2, True)


def test_an_uncommitted_change_of_somebody_else_is_not_touched(published: Place, allot: Allot) -> None:
    with (published.root / PATH).open("a") as file:
        file.write("# not mine\n")
    before = (published.root / PATH).read_bytes()
    result = allot("instance", "stop", "solo-ada/webui", "--repo", published.root)
    assert result.code == 2
    assert f"1 file with uncommitted changes: {PATH}: commit or discard" in result.err
    assert (published.root / PATH).read_bytes() == before


def test_an_edit_on_top_of_an_own_edit_is_allowed_until_somebody_else_changes_the_file(
    published: Place, allot: Allot
) -> None:
    assert allot("instance", "stop", "solo-ada/webui", "--repo", published.root).code == 0
    assert allot("set", TARGET, "displayName=UI", "--repo", published.root).code == 0
    text = (published.root / PATH).read_text()
    assert "state: Stopped" in text
    assert "displayName: UI" in text
    (published.root / PATH).write_text(text + "# mine\n")
    assert allot("instance", "start", "solo-ada/webui", "--repo", published.root).code == 2


def test_a_push_creates_one_branch_however_often(published: Place, allot: Allot) -> None:
    words = ("instance", "stop", "solo-ada/webui", "--push", "-o", "json", "--repo", published.root)
    first, second = allot(*words), allot(*words)
    assert first.code == 0, first
    assert first.out == second.out
    answer = json.loads(first.out)
    assert (answer["stage"], answer["files"]) == ("Branch", [{"path": PATH, "action": "Changed"}])
    remote = git(published.root, "remote", "get-url", "origin")
    assert git(published.root, "ls-remote", "--heads", remote, answer["branch"])
    git(published.root, "fetch", "-q", "origin", answer["branch"])
    assert git(published.root, "log", "--format=%s", "origin/main..FETCH_HEAD") == "Stop solo-ada/webui"
    assert git(published.root, "status", "--short") == ""


def test_a_repeated_edit_says_that_nothing_changes(published: Place, allot: Allot) -> None:
    result = allot("instance", "start", "solo-ada/webui", "--repo", published.root, "--commit")
    assert (result.code, result.out) == (0, "nothing changes: the declarations have these values already\n")
    answer = json.loads(allot("instance", "start", "solo-ada/webui", "--repo", published.root, "-o", "json").out)
    assert (answer["stage"], answer["files"]) == ("None", [])


def test_a_restart_is_planned_as_a_restart(published: Place, allot: Allot) -> None:
    result = allot("instance", "restart", "solo-ada/webui", "--repo", published.root)
    assert result.code == 0, result
    assert "instance webui  replaced  restarts" in result.out
    assert "\n+  restarts: 1\n" in result.out


def test_a_deletion_removes_the_file_of_the_instance(published: Place, allot: Allot) -> None:
    result = allot("instance", "delete", "solo-ada/webui", "--commit", "--repo", published.root)
    assert result.code == 0, result
    assert git(published.root, "show", "--name-status", "--format=%s", "HEAD") == f"Delete solo-ada/webui\n\nD\t{PATH}"


def test_a_change_that_is_in_the_folder_already_is_committed(published: Place, allot: Allot) -> None:
    assert allot("instance", "stop", "solo-ada/webui", "--repo", published.root).code == 0
    result = allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root)
    assert (result.code, "\n+  state: Stopped\n" in result.out) == (0, True), result
    assert git(published.root, "show", "--name-only", "--format=%s", "HEAD").split("\n\n") == [
        "Stop solo-ada/webui",
        PATH,
    ]
    assert git(published.root, "status", "--short") == ""


def test_a_commit_needs_a_branch_and_changes_nothing_without(published: Place, allot: Allot) -> None:
    git(published.root, "checkout", "-q", "--detach")
    result = allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root)
    assert (result.code, result.err) == (2, "allot: no branch is checked out: run `git switch BRANCH` first\n")
    assert git(published.root, "status", "--short") == ""


def test_a_commit_that_fails_can_be_repeated(published: Place, allot: Allot) -> None:
    lock = published.root / ".git/index.lock"
    lock.touch()
    result = allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root)
    assert (result.code, result.err) == (
        2,
        f"allot: another Git process writes the index: try again, or remove {lock} if no Git process runs. The changed files"
        " stay in the folder: repeat the command to commit them\n",
    )
    lock.unlink()
    assert allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root).code == 0
    assert git(published.root, "status", "--short") == ""


def test_commit_option_commits_a_prior_edit_by_the_same_command(published: Place, allot: Allot) -> None:
    for words in (
        ("instance", "create", "solo-ada/other", "--cluster", "eu-1", "--gpu-spec", "l4-quarter", "--app", "comfyui"),
        ("instance", "restart", "solo-ada/webui"),
        ("instance", "delete", "solo-ada/webui"),
    ):
        for more in ((), ("--commit",)):
            result = (
                allot(*words, "--no-input", *more, "--repo", published.root)
                if "create" in words
                else allot(*words, *more, "--repo", published.root)
            )
            assert result.code == 0, result
        assert git(published.root, "status", "--short") == ""
    assert git(published.root, "log", "-3", "--format=%s").splitlines() == [
        "Delete solo-ada/webui",
        "Restart solo-ada/webui",
        "Create instance solo-ada/other",
    ]
    assert "+  restarts: 1" in git(published.root, "show", "HEAD~")


def test_a_commit_has_the_other_edits_of_the_folder_too(published: Place, allot: Allot) -> None:
    assert allot("set", TARGET, "displayName=UI", "--repo", published.root).code == 0
    assert allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root).code == 0
    committed = git(published.root, "show", f"HEAD:{PATH}")
    assert "displayName: UI" in committed
    assert "state: Stopped" in committed


def test_changes_of_access_and_approvals_are_shown(published: Place, allot: Allot) -> None:
    eve = "users+={name: eve, role: Admin, subject: 00u1eve}"  # without a login, she approves nothing
    result = allot("set", "Members/solo-ada", eve, "users.ada.role=Member", "--dry-run", "--repo", published.root)
    assert result.code == 0, result
    assert "⚠ Approvals\n  tenants/solo-ada/members.yaml: " in result.out


def test_staged_ignored_and_hidden_changes_are_not_touched(published: Place, allot: Allot) -> None:
    file = published.root / PATH
    original, foreign = file.read_text(), file.read_text().replace("spec:\n", "spec:\n  displayName: mine\n")

    def refuses() -> bool:
        result = allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root)
        return result.code == 2 and f"1 file with uncommitted changes: {PATH}" in result.err

    file.write_text(foreign)
    git(published.root, "add", PATH)
    file.write_text(original)
    assert refuses()
    assert "displayName: mine" in git(published.root, "diff", "--cached")
    git(published.root, "reset", "-q")
    git(published.root, "update-index", "--skip-worktree", PATH)
    file.write_text(foreign)
    assert refuses()
    ignored = file.with_name("scratch.yaml")
    ignored.write_text(original.replace("name: webui", "name: scratch"))
    (published.root / ".git/info/exclude").write_text("scratch.yaml\n")
    assert allot("instance", "delete", "solo-ada/scratch", "--repo", published.root).code == 2
    assert ignored.exists()


def test_a_staged_edit_of_a_command_is_committed(published: Place, allot: Allot) -> None:
    assert allot("instance", "stop", "solo-ada/webui", "--repo", published.root).code == 0
    git(published.root, "add", PATH)
    assert allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root).code == 0
    assert git(published.root, "status", "--short") == ""


def test_a_commit_keeps_the_mode_of_a_file(published: Place, allot: Allot) -> None:
    (published.root / PATH).chmod(0o755)
    git(published.root, "-c", "user.name=ada", "-c", "user.email=ada@example", "commit", "-qam", "Mode")
    assert allot("instance", "stop", "solo-ada/webui", "--commit", "--repo", published.root).code == 0
    assert git(published.root, "status", "--short") == ""
    assert git(published.root, "ls-tree", "HEAD", PATH).startswith("100755")


def test_a_commit_does_not_hide_an_edit_that_it_would_revert(published: Place, allot: Allot) -> None:
    assert allot("set", TARGET, "displayName=UI", "--repo", published.root).code == 0
    result = allot("set", TARGET, "displayName-", "--commit", "--repo", published.root)
    assert (result.code, f"{PATH} has uncommitted changes of an earlier command" in result.err) == (2, True), result


def test_text_that_is_not_utf_8_and_a_second_value_are_refused(published: Place, allot: Allot) -> None:
    for assignment in ("displayName=\udcff", "container.env+={name: A, value: b}\nmore: {name: B}"):
        result = allot("set", TARGET, assignment, "--repo", published.root)
        assert result.code == 2, result
    assert git(published.root, "status", "--short") == ""


def test_a_start_in_a_suspended_tenant_names_the_way_out(published: Place, allot: Allot) -> None:
    assert allot("tenant", "suspend", "solo-ada", "--repo", published.root).code == 0
    result = allot("instance", "start", "solo-ada/webui", "--repo", published.root)
    assert (result.code, "Tenant solo-ada is Suspended" in result.out) == (0, True)
    assert "`allot tenant resume solo-ada`" in result.out


def test_a_file_that_changes_after_the_plan_is_not_written(published: Place) -> None:
    file = published.root / PATH

    def edit_meanwhile() -> None:
        file.write_text("# mine\n" + file.read_text())

    options = ChangeOptions(published.root, False, False, False, "text")
    with pytest.raises(OperationRefused, match=f"^{PATH} has changed meanwhile"), click.Context(command).scope():
        run_change(options, lambda files: set_states(files, [("solo-ada", "webui")], "Stopped"), edit_meanwhile)
    assert file.read_text().startswith("# mine\n")
    assert "state: Stopped" not in file.read_text()
