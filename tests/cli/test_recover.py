"""`allot recover` makes a commit that says who and why, and only of what was seen to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot, checked
from tests.support.failed_preparation import WHAT, recover, seen
from tests.support.published import Place, git

from allotment.services.changes.recovery import with_attempt

BRANCH = "recover/studio-kite/model-cache-2"


def test_a_commit_that_says_who_and_why_and_changes_one_line(published: Place, allot: Allot) -> None:
    seen(published)
    edited = published.root / "tenants/solo-ada/README.md"
    edited.write_text("not committed\n")
    result = recover(published, allot)
    assert result.code == 0, result
    commit = git(published.root, "rev-parse", BRANCH)
    assert result.out == (
        f"{BRANCH}: {commit[:12]} raises {WHAT} to attempt 2."
        " Attempt 1 failed on eu-1 at 2026-11-21T10:00:00Z: NoSpace, exit code 75.\n"
        f"Push it, and open a pull request: git push origin {BRANCH}\n"
    )
    assert result.err == ""
    assert git(published.root, "log", "-1", "--format=%an %ae", BRANCH) == "allotment allotment@northlight.example"
    message = git(published.root, "log", "-1", "--format=%B", BRANCH)
    assert message == (
        f"Recover {WHAT}: attempt 2\n\nThe volume is larger now.\n\n"
        "Attempt 1 failed on eu-1 at 2026-11-21T10:00:00Z: NoSpace, exit code 75."
    )
    changed = git(published.root, "diff", "--unified=0", "main", BRANCH).splitlines()
    assert [line for line in changed if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        "-    attempt: 1",
        "+    attempt: 2",
    ]
    assert git(published.root, "status", "--porcelain") == "?? tenants/solo-ada/README.md"


def test_recover_pushes_the_branch_with_push(published: Place, allot: Allot) -> None:
    seen(published)
    result = recover(published, allot, "--push", "origin")
    assert (result.code, result.out.splitlines()[-1]) == (0, "Open a pull request for this branch.")
    assert git(published.remote, "rev-parse", f"{BRANCH}^") == git(published.root, "rev-parse", "main")
    second_result = recover(published, allot, "--push", "origin", "--reason", "Twice.")
    assert second_result.code == 2
    assert "already has a branch recover/studio-kite/model-cache-2" in second_result.err


def test_a_push_takes_no_commit_of_a_stranger_along(published: Place, allot: Allot) -> None:
    seen(published)
    (published.root / "evil").write_text("x\n")
    git(published.root, "add", "-A")
    git(published.root, "-c", "user.name=Eve", "-c", "user.email=eve@evil.test", "commit", "-qm", "A workflow")
    advice = recover(published, allot).out.splitlines()[-1]
    assert advice.startswith("Don't push it: ") and "is not merged" in advice
    git(published.root, "branch", "-q", "-D", BRANCH)
    refused = recover(published, allot, "--push", "origin")
    assert (refused.code, "is not merged, and a push of the new branch would also push" in refused.err) == (2, True)
    assert f"refs/heads/{BRANCH}" not in published.refs()
    assert recover(published, allot, "--push", "origin", "--commit", "origin/main").code == 0
    git(published.root, "remote", "rename", "origin", "upstream")
    for commit in ("HEAD", "upstream/main"):
        result = recover(published, allot, "--push", "upstream", "--from", str(published.remote), "--commit", commit)
        assert (result.code, "without the remote origin nothing is merged" in result.err) == (2, True)


def test_no_hook_of_a_folder_runs(published: Place, allot: Allot, tmp_path: Path) -> None:
    """A pull request can add the files of a bare repository to the folder of the declarations."""
    seen(published)
    top, folder = published.root, published.root / "cloud"
    folder.mkdir()
    for name in ("platform", "clusters", "tenants"):
        git(top, "mv", name, f"cloud/{name}")
    published.merge()
    for name, text in {"HEAD": "ref: refs/heads/main\n", "config": "[core]\n  bare = true\n"}.items():
        (folder / name).write_text(text)
    for name in ("objects/info", "refs/heads", "hooks"):
        (folder / name).mkdir(parents=True)
    for name in ("pre-receive", "reference-transaction", "update"):
        (folder / "hooks" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (folder / "hooks" / name).chmod(0o755)
    words = ("recover", WHAT, "--reason", "It is back.", "--repo", folder)
    assert allot(*words).code == 0
    assert git(top, "rev-parse", f"{BRANCH}^") == git(top, "rev-parse", "main")
    again = allot(*words)
    assert (again.code, f"this clone already has a branch {BRANCH}" in again.err) == (2, True)
    git(top, "branch", "-q", "-D", BRANCH)
    git(top, "branch", "-q", "recover")
    blocked = allot(*words)
    assert (blocked.code, f"Git can't create refs/heads/{BRANCH}: " in blocked.err) == (2, True)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("state", "more", "words"),
    [
        ("Succeeded", {}, f"attempt 1 of {WHAT} succeeded on eu-1 at 2026-11-21T10:00:00Z"),
        ("Running", {"reason": "PreparationRunning"}, f"attempt 1 of {WHAT} on eu-1 is Running (PreparationRunning)"),
        (
            "Failed",
            {"reason": "Superseded"},
            f"attempt 1 of {WHAT} was superseded: a later attempt has filled the volume on eu-1",
        ),
        ("Failed", {"attempt": 2}, f"attempt 1 of {WHAT}, as declared, hasn't started on eu-1 yet"),
        ("Failed", {"digest": "0" * 64}, f"attempt 1 of {WHAT}, as declared, hasn't started on eu-1 yet"),
    ],
)
def test_recover_requires_force_without_an_observed_failure(
    state: str, more: dict[str, Any], words: str, published: Place, allot: Allot
) -> None:
    seen(published, state, **more)
    refused = recover(published, allot)
    assert refused.code == 2
    assert (
        refused.err
        == f"allot: {words}; only a failed preparation is recovered. Add --force to prepare the storage again anyway\n"
    )
    forced = recover(published, allot, "--force")
    assert forced.code == 0
    assert f"Forced: {words}" in git(published.root, "log", "-1", "--format=%B", BRANCH)
    if state != "Failed" or "reason" in more:
        assert forced.err == "With it the data on its volume of 200Gi may be overwritten.\n"


def test_nothing_is_known(published: Place, allot: Allot) -> None:
    result = recover(published, allot)
    assert result.code == 2
    assert f"the result of attempt 1 of {WHAT} is unknown: no reporter has reported it yet" in result.err


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("studio-kite", "studio-kite is not in the format TENANT/STORAGE: name a storage such as solo-ada/models"),
        ("studio-kite/nothing", "tenants/studio-kite/storages/nothing.yaml doesn't exist in"),
        ("studio-kite/outputs", "studio-kite/outputs has no preparation: there is nothing to recover"),
        ("../../etc/passwd", "is not in the format TENANT/STORAGE: name a storage such as solo-ada/models"),
        ("studio-kite/--force", "is not in the format TENANT/STORAGE: name a storage such as solo-ada/models"),
    ],
)
def test_recover_refuses_an_invalid_storage(what: str, words: str, published: Place, allot: Allot) -> None:
    result = allot("recover", "--repo", published.root, "--reason", "Why not.", "--", what)
    assert result.code == 2
    assert words in result.err


def test_a_reason_is_needed(published: Place, allot: Allot) -> None:
    assert allot("recover", "--repo", published.root, WHAT).code == 2
    assert allot("recover", "--repo", published.root, WHAT, "--reason", "  ").code == 2


FILE = """\
# yaml-language-server: $schema=../../../schemas/GPUStorage.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUStorage
metadata:
  name: models
spec:
  cluster: eu-1
  storageSpec: block-ssd
  size: 20Gi
  prepare:
    # where it comes from
    source:
      image:
        image: busybox:1.37@sha256:aa
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (FILE, FILE + "    attempt: 2\n"),
        (FILE + "    attempt: 1  # the first\n", FILE + "    attempt: 2  # the first\n"),
        (FILE + "    attempt: 9\n    timeout: 1h\n", FILE + "    attempt: 2\n    timeout: 1h\n"),
        (
            FILE.replace("    source:\n", "    attempt: 1\n    source:\n"),
            FILE.replace("    # where it comes from\n", "").replace(
                "    source:\n", "    # where it comes from\n    source:\n"
            )
            + "    attempt: 2\n",
        ),
    ],
    ids=["absent", "beside a comment", "among others", "first"],
)
def test_one_line_changes_and_comments_stay(text: str, wanted: str) -> None:
    new_text = with_attempt(text.encode(), 2).decode()
    assert sorted(new_text.splitlines()) == sorted(wanted.splitlines())
    assert new_text == with_attempt(new_text.encode(), 2).decode()


def test_recover_prints_json(published: Place, allot: Allot) -> None:
    seen(published)
    output = checked("recover", recover(published, allot, "-o", "json").out)
    assert output["commit"] == git(published.root, "rev-parse", BRANCH)
    assert [output[key] for key in ("storage", "branch", "attempt", "pushed")] == [WHAT, BRANCH, 2, None]
