"""Ten processes with one operation ID, each killed at a random step and started again, apply one change."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.adapters.forge.server import TOKEN, GitHubWorld
from tests.conftest import edit
from tests.support.killed import kill_when, killed_at
from tests.support.published import Place, git

pytestmark = pytest.mark.process


ID = "deploy-2026.11_a"
PROCESSES = 10
MOST_STEPS = 5  # commands of Git that may write, in a run that pushes


def command(clone: Path, option: str) -> list[str]:
    path = next((clone / "tenants").glob("*/instances/*.yaml")).relative_to(clone)
    target = f"{path.parts[1]}/{path.stem}"
    words = ["allotment", "instance", "stop", target, option, "--operation-id", ID, "-o", "json"]
    return [*words, "--repo", str(clone)]


def run_until_done(clone: Path, steps: list[int], option: str = "--push") -> str:
    """Run the command, killed at each of some steps, and then to its end; return its answer.

    Step 0 is the moment at which the remote has the branch.
    """
    for step in steps:
        killed_at(step, clone.with_suffix(f".{step}"), *command(clone, option))
    done = subprocess.run([sys.executable, "-m", *command(clone, option)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def clone_remote(place: Place, folder: Path, count: int) -> list[Path]:
    folders = [folder / f"clone-{number}" for number in range(count)]
    for clone in folders:
        git(folder, "clone", "-q", str(place.remote), str(clone))
    return folders


@pytest.fixture
def clones(small: Place, tmp_path: Path) -> list[Path]:
    """Return clones of one remote."""
    return clone_remote(small, tmp_path, PROCESSES)


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


def test_killed_processes_open_one_pull_request(small: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(small.root, "platform/platform.yaml", "github.com/northlight-example/gpus", "forge.example/acme/gpus")
    small.merge()
    world = GitHubWorld()
    world.repositories = {0: small.remote}
    monkeypatch.setenv("ALLOT_FORGE_API", world.api)
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", TOKEN)
    kill_when(small.remote, "committed")
    clones = clone_remote(small, tmp_path, 4)
    with ThreadPoolExecutor(len(clones)) as pool:
        answers = list(pool.map(run_until_done, clones, [[0], [0, 3], [2], []], ["--pr"] * len(clones)))
    world.close()
    (pull,) = world.pulls.values()
    assert len(set(answers)) == 1
    assert f'"branch": "{pull.branch}"' in answers[0]
    assert git(small.remote, "for-each-ref", "--format=%(refname)", "refs/heads/allot/") == f"refs/heads/{pull.branch}"
