"""Ten processes with one operation ID, each killed at a random step and started again, apply one change."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.killed import kill_when, killed_at
from tests.published import Place, git

ID = "deploy-2026.11_a"
PROCESSES = 10
MOST_STEPS = 5  # commands of Git that may write, in a run that pushes


def command(clone: Path) -> list[str]:
    path = next((clone / "tenants").glob("*/instances/*.yaml")).relative_to(clone)
    target = f"{path.parts[1]}/{path.stem}"
    words = ["allotment", "instance", "stop", target, "--push", "--operation-id", ID, "-o", "json"]
    return [*words, "--repo", str(clone)]


def run_until_done(clone: Path, steps: list[int]) -> str:
    """Run the command, killed at each of some steps, and then to its end; return its answer.

    Step 0 is the moment at which the remote has the branch.
    """
    for step in steps:
        killed_at(step, clone.with_suffix(f".{step}"), *command(clone))
    done = subprocess.run([sys.executable, "-m", *command(clone)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def clones(small: Place, tmp_path: Path) -> list[Path]:
    """Return clones of one remote."""
    folders = [tmp_path / f"clone-{number}" for number in range(PROCESSES)]
    for folder in folders:
        git(tmp_path, "clone", "-q", str(small.remote), str(folder))
    return folders


@pytest.mark.parametrize("seed", [20261126])
def test_ten_killed_processes_push_one_branch_and_give_one_answer(seed: int, small: Place, clones: list[Path]) -> None:
    schedule = random.Random(seed)
    steps = [[schedule.randint(0, MOST_STEPS) for _ in range(schedule.randint(0, 2))] for _ in clones]
    kill_when(small.remote, "committed")
    with ThreadPoolExecutor(PROCESSES) as pool:
        answers = list(pool.map(run_until_done, clones, steps))
    assert len(set(answers)) == 1
    (ref,) = git(small.remote, "for-each-ref", "--format=%(refname)", "refs/heads/allot/").split()
    assert f'"branch": "{ref.removeprefix("refs/heads/")}"' in answers[0]
    assert git(small.remote, "rev-list", "--count", f"main..{ref}") == "1"
    assert f"Operation-ID: {ID}" in git(small.remote, "log", "-1", "--format=%B", ref)
    git(small.remote, "update-ref", "refs/heads/main", ref)
    git(small.remote, "update-ref", "-d", ref)
    assert run_until_done(clones[0], []) == answers[0], "after the merge"
    assert git(small.remote, "for-each-ref", "refs/heads/allot/") == ""
