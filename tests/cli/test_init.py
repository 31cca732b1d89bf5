"""`allot init`: what it writes is valid, its CI does what it says, and it overwrites nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import DAY, PROJECT, Allot, edit
from tests.published import git

from allotment import VERSION

WORKFLOWS = {
    "GitHub": ".github/workflows/allot.yaml",
    "GitLab": ".gitlab-ci.yml",
    "Gitea": ".gitea/workflows/allot.yaml",
    "Forgejo": ".forgejo/workflows/allot.yaml",
}
URL = "https://git.example/acme/gpus"


def init(allot: Allot, folder: Path, forge: str = "GitHub", *more: str) -> Any:
    return allot("init", folder, "--forge", forge, "--url", URL, *more)


def workflow(folder: Path, forge: str) -> dict[str, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((folder / WORKFLOWS[forge]).read_text())
    return {"on" if key is True else key: value for key, value in loaded.items()}


@pytest.mark.parametrize("forge", WORKFLOWS)
def test_what_it_writes_is_valid_and_says_where_it_lies(forge: str, allot: Allot, tmp_path: Path) -> None:
    folder = tmp_path / "gpus"
    said = init(allot, folder, forge, "--branch", "1.0")
    assert (said.code, said.err) == (0, "")
    assert allot("validate", "--repo", folder, "--as-of", DAY).code == 0
    assert allot("fmt", "--check", folder / "platform/platform.yaml", "--repo", folder).code in (0, 2)
    platform = yaml.safe_load((folder / "platform/platform.yaml").read_text())["spec"]["git"]
    assert platform == {"forge": forge, "url": URL, "branch": "1.0"}
    assert {path for path in WORKFLOWS.values() if (folder / path).exists()} == {WORKFLOWS[forge]}
    assert not list(folder.rglob("*.py"))
    text = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert "@VERSION@" not in text
    assert "@BRANCH@" not in text
    assert f"allotment=={VERSION}" in text


def test_nothing_is_overwritten(allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = init(allot, tmp_path)
    assert (said.code, said.out) == (2, "")
    assert f"'{tmp_path}' holds 'mine.txt': name an empty folder" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_clone_of_an_empty_repository_is_fine(allot: Allot, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert init(allot, tmp_path).code == 0
    assert (tmp_path / "platform/platform.yaml").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".allot-init")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--url", "git@git.example:acme/gpus"), "--url"),
        (("--url", "https://x y"), "--url"),
        (("--branch", "-x"), "--branch"),
        (("--branch", "a\nb: c"), "--branch"),
        (("--forge", "Bitbucket"), "Bitbucket"),
    ],
)
def test_a_wrong_option_is_told(words: tuple[str, ...], said: str, allot: Allot, tmp_path: Path) -> None:
    found = allot("init", tmp_path / "new", "--forge", "GitHub", "--url", URL, *words)
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("forge", "schema"),
    [
        ("GitHub", "github-workflows"),
        ("Gitea", "github-workflows"),
        ("Forgejo", "github-workflows"),
        ("GitLab", "gitlab-ci"),
    ],
)
def test_the_ci_fits_its_schema(forge: str, schema: str, allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path / "gpus", forge)
    checker = Path(sys.executable).with_name("check-jsonschema")
    run = [checker, "--builtin-schema", f"vendor.{schema}", tmp_path / "gpus" / WORKFLOWS[forge]]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("forge", ["GitHub", "Gitea", "Forgejo"])
def test_what_checks_a_pull_request_may_write_nothing(forge: str, allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path, forge)
    found = workflow(tmp_path, forge)
    assert found["permissions"] == {}
    assert "pull_request" in found["on"]
    validate, publish = found["jobs"]["validate"], found["jobs"]["publish"]
    assert validate["if"] == "github.event_name == 'pull_request'"
    assert validate["permissions"] == {"contents": "read"}
    assert validate["steps"][0]["with"]["persist-credentials"] is False
    assert "secrets" not in str(validate) + str(publish)
    assert publish["permissions"] == {"contents": "write"}
    assert publish["if"] == "github.event_name == 'push' || github.event_name == 'schedule'"


@pytest.mark.parametrize("forge", ["GitHub", "Gitea", "Forgejo"])
def test_what_holds_a_token_checks_out_and_runs_nothing_of_a_pull_request(
    forge: str, allot: Allot, tmp_path: Path
) -> None:
    init(allot, tmp_path, forge)
    found = workflow(tmp_path, forge)
    assert "pull_request_target" in found["on"], "its workflow is the base's"
    for name in ("plan", "follow"):
        job = found["jobs"][name]
        assert job["permissions"] == {"contents": "read", "pull-requests": "write", "statuses": "write"}
        checkout, run = job["steps"]
        assert checkout["with"] == {"fetch-depth": 0}, "no ref of a pull request's"
        assert "${{" not in run["run"], "what an event says is never a part of a script"
        assert " allot" not in run["run"].replace("/allot", ""), "the program is the installed one"
    assert found["jobs"]["plan"]["if"] == "github.event_name == 'pull_request_target'"


# The commands of the CI, run as they are, with the program as a wheel.


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the program's wheel."""
    out = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    return out


def test_the_wheel_holds_all_that_it_needs(wheels: Path) -> None:
    (wheel,) = wheels.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (
        "allotment/sample/platform/platform.yaml",
        "allotment/sample/schemas/GPUInstance.schema.json",
        "allotment/cli/starter/gitlab.yaml",
        "allotment/manifests/health/apps_Deployment.lua",
    ):
        assert path in names


def scripts(folder: Path, forge: str, job: str) -> str:
    found = workflow(folder, forge)
    if forge == "GitLab":
        lines = [*found["before_script"], *found[job]["script"]]
        return "\n".join(lines)
    return "\n".join(step["run"] for step in found["jobs"][job]["steps"] if "run" in step)


@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
def test_the_ci_checks_a_merge_result_and_publishes_what_is_merged(
    forge: str, allot: Allot, tmp_path: Path, wheels: Path
) -> None:
    source, remote = tmp_path / "gpus", tmp_path / "acme/gpus.git"
    init(allot, source, forge)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    git(source, "init", "-q", "-b", "main")
    git(source, "config", "user.name", "Ada")
    git(source, "config", "user.email", "ada@acme.example")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "Begin")
    git(source, "remote", "add", "origin", str(remote))
    git(source, "push", "-q", "origin", "main")
    install = 'pip" install' if forge == "GitHub" else "pip install"

    def job(name: str, clone: str, at: str) -> subprocess.CompletedProcess[str]:
        git(tmp_path, "clone", "-q", str(remote), clone)
        work = tmp_path / clone
        git(work, "-c", "advice.detachedHead=false", "checkout", "-q", at)
        text = scripts(source, forge, name).replace("/tmp/allot", str(tmp_path / f"venv-{clone}"))
        assert install in text
        temporary = tmp_path / f"runner-{clone}"
        temporary.mkdir()
        more = {
            "ALLOT": workflow(source, forge)["variables" if forge == "GitLab" else "env"]["ALLOT"],
            "RUNNER_TEMP": str(temporary),
            "PIP_FIND_LINKS": str(wheels),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_SERVER_HOST": "gitlab.example",
            "CI_PROJECT_PATH": "acme/gpus",
            "ALLOT_TOKEN": "t0ken",
            "GIT_CONFIG_COUNT": "1",  # the forge's address leads to the folder
            "GIT_CONFIG_KEY_0": f"url.{remote}.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://allotment:t0ken@gitlab.example/acme/gpus.git",
        }
        run = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(run, cwd=work, env={**os.environ, **more}, capture_output=True, text=True, check=False)
        if "No matching distribution found for" in done.stderr or "Temporary failure" in done.stderr:
            pytest.skip("needs a package registry for what the program depends on")
        return done

    git(source, "checkout", "-q", "-b", "change")
    edit(source, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    git(source, "commit", "-qam", "Wrong")
    git(source, "checkout", "-q", "main")
    edit(source, "tenants/uni-lab/instances/group-a.yaml", "state: Running", "state: Stopped")
    git(source, "commit", "-qam", "Meanwhile")
    git(source, "push", "-q", "origin", "main", "change")
    git(source, "checkout", "-q", "-b", "merged", "main")
    git(source, "merge", "-q", "--no-ff", "-m", "As the forge merges it", "change")
    git(source, "push", "-q", "origin", "merged")
    wrong = job("validate", "wrong", "origin/change" if forge == "GitLab" else "origin/merged")
    assert wrong.returncode == 1, wrong.stderr
    assert "no GPUSpec is named 'l4-quater'" in wrong.stdout
    published = job("publish", "publish", "main")
    assert published.returncode == 0, published.stderr
    assert "rendered/eu-1 is " in published.stdout
    assert "refs/heads/rendered/us-1" in git(remote, "for-each-ref")
