"""`allot init`: what it writes is valid, its CI does what it says, and it overwrites nothing."""

from __future__ import annotations

import hashlib
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
HASH = "sha256:" + 64 * "a"
OTHER = "sha256:" + 64 * "b"


def init(allot: Allot, folder: Path, forge: str = "GitHub", *more: str) -> Any:
    return allot("init", folder, "--forge", forge, "--url", URL, *more)


def workflow(folder: Path, forge: str) -> dict[str, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((folder / WORKFLOWS[forge]).read_text())
    return {"on" if key is True else key: value for key, value in loaded.items()}


@pytest.mark.parametrize("forge", WORKFLOWS)
def test_what_it_writes_is_valid_and_says_where_it_lies(forge: str, allot: Allot, tmp_path: Path) -> None:
    folder = tmp_path / "gpus"
    said = init(allot, folder, forge, "--branch", "1.0", "--hash", HASH)
    assert (said.code, said.err) == (0, "")
    assert "Before you push, make it yours: people in platform/ownership.yaml" in said.out
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


def locked(text: str) -> dict[str, set[str]]:
    """Return what a file of requirements names, with the hashes of each."""
    requirements = [line.split() for line in text.replace("\\\n", " ").splitlines() if "==" in line and line[0] != "#"]
    return {
        words[0]: {word.removeprefix("--hash=") for word in words if word.startswith("--hash=")}
        for words in requirements
    }


def test_ci_installs_what_this_project_is_locked_to_and_the_program_by_the_hashes_given(
    allot: Allot, tmp_path: Path
) -> None:
    init(allot, tmp_path, "GitHub", "--hash", HASH, "--hash", OTHER)
    text = (tmp_path / "requirements.lock").read_text()
    assert [line for line in text.splitlines() if line.startswith("-")] == ["--require-hashes", "--only-binary :all:"]
    ours = locked((PROJECT / "requirements-run.lock").read_text())
    assert len(ours) > 40
    assert locked(text) == {f"allotment=={VERSION}": {HASH, OTHER}, **ours}
    assert all(locked(text).values())


def test_without_a_hash_the_last_line_says_what_completes_the_lock_file(allot: Allot, tmp_path: Path) -> None:
    said = init(allot, tmp_path)
    lines = (tmp_path / "requirements.lock").read_text().splitlines()
    number = lines.index(f"allotment=={VERSION}") + 1
    assert said.out.splitlines()[-1] == (
        f"CI installs nothing until line {number} of {tmp_path}/requirements.lock has allotment's hash: run `pip download --no-deps "
        f"allotment=={VERSION}`, then `pip hash` on the file that it left, and add the --hash=… that it prints to the line."
    )


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
        (("--hash", "sha256:" + 63 * "a"), "--hash"),
        (("--hash", "md5:" + 32 * "a"), "--hash"),
        (("--hash", HASH + " \\\nevil==1"), "--hash"),
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
        "allotment/sample/requirements-run.lock",
        "allotment/cli/starter/gitlab.yaml",
        "allotment/manifests/cluster/health/apps_Deployment.lua",
    ):
        assert path in names


def scripts(folder: Path, forge: str, job: str) -> str:
    found = workflow(folder, forge)
    if forge == "GitLab":
        lines = [*found[job].get("before_script", found["before_script"]), *found[job]["script"]]
        return "\n".join(lines)
    return "\n".join(step["run"] for step in found["jobs"][job]["steps"] if "run" in step)


class Site:
    """A repository that `allot init` wrote, pushed to a remote, and the machine that runs its CI's commands."""

    def __init__(self, tmp_path: Path, forge: str, wheels: Path) -> None:
        self.source, self.remote, self.machine = tmp_path / "gpus", tmp_path / "acme/gpus.git", tmp_path / "machine"
        self.forge, self.wheels = forge, wheels
        self.machine.mkdir()
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.remote)], check=True)
        git(self.source, "init", "-q", "-b", "main")
        git(self.source, "config", "user.name", "Ada")
        git(self.source, "config", "user.email", "ada@acme.example")
        git(self.source, "remote", "add", "origin", str(self.remote))
        self.push("Begin", "main")

    def push(self, subject: str, *branches: str) -> None:
        git(self.source, "add", "-A")
        git(self.source, "commit", "-q", "-m", subject)
        git(self.source, "push", "-q", "origin", *branches)

    def propose(self) -> None:
        """Push a pull request that is wrong and brings a lock file and a module `venv` of its own, and what a merge would be."""
        git(self.source, "checkout", "-q", "-b", "change")
        (self.source / "requirements.lock").write_text("# nothing\n")
        (self.source / "venv.py").write_text("raise SystemExit('imported from the pull request')\n")
        self.push("Take another program", "change")
        edit(self.source, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
        self.push("Wrong", "change")
        git(self.source, "checkout", "-q", "main")
        edit(self.source, "tenants/uni-lab/instances/group-a.yaml", "state: Running", "state: Runing")
        self.push("Meanwhile", "main")
        git(self.source, "checkout", "-q", "-b", "merged", "main")
        git(self.source, "merge", "-q", "--no-ff", "-m", "As the forge merges it", "change")
        git(self.source, "push", "-q", "origin", "merged")
        git(self.source, "checkout", "-q", "main")

    def venv(self, name: str) -> Path:
        """Return the environment that a job installed into."""
        return self.machine / (f"{name}-allot" if self.forge == "GitLab" else f"{name}/allot")

    def validate(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Check the pull request: GitHub has its merge result, the others its head."""
        return self.job("validate", "origin/merged" if self.forge == "GitHub" else "origin/change", **environment)

    def job(self, name: str, at: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a job's commands in a clone, as the forge does; its folder for what is temporary is named as the job."""
        git(self.machine, "clone", "-q", str(self.remote), f"{name}-work")
        work = self.machine / f"{name}-work"
        git(work, "-c", "advice.detachedHead=false", "checkout", "-q", "--detach", at)
        (self.machine / name).mkdir()
        more = {
            "RUNNER_TEMP": str(self.machine / name),
            "PIP_FIND_LINKS": str(self.wheels),
            "GITHUB_BASE_REF": "main",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_SERVER_HOST": "gitlab.example",
            "CI_PROJECT_PATH": "acme/gpus",
            "ALLOT_TOKEN": "t0ken",
            "GIT_CONFIG_COUNT": "1",  # the forge's address leads to the folder
            "GIT_CONFIG_KEY_0": f"url.{self.remote}.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://allotment:t0ken@gitlab.example/acme/gpus.git",
            **environment,
        }
        text = scripts(self.source, self.forge, name).replace("/tmp/", f"{self.machine}/{name}-")
        shell = ["bash", "-e", "-c", text] if self.forge != "GitLab" else ["bash", "-eo", "pipefail", "-c", text]
        done = subprocess.run(shell, cwd=work, env={**os.environ, **more}, capture_output=True, text=True, check=False)
        if "No matching distribution found for" in done.stderr or "Temporary failure" in done.stderr:
            pytest.skip("needs a package registry for what the program depends on")
        return done


@pytest.fixture(scope="session")
def wheel_hash(wheels: Path) -> str:
    """Return what --hash takes of the program's wheel."""
    (wheel,) = wheels.glob("*.whl")
    return "sha256:" + hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.install
@pytest.mark.parametrize("forge", ["GitHub", "GitLab", "Gitea"])
def test_the_ci_checks_a_merge_result_with_the_program_that_the_base_locks(
    forge: str, allot: Allot, tmp_path: Path, wheels: Path, wheel_hash: str
) -> None:
    init(allot, tmp_path / "gpus", forge, "--hash", wheel_hash)
    site = Site(tmp_path, forge, wheels)
    site.propose()
    wrong = site.validate()
    assert wrong.returncode == 1, wrong.stderr
    assert "no GPUSpec is named 'l4-quater'" in wrong.stdout
    assert "'Runing'" in wrong.stdout, "what was merged meanwhile counts too"


@pytest.mark.install
@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
def test_the_ci_publishes_what_is_merged(
    forge: str, allot: Allot, tmp_path: Path, wheels: Path, wheel_hash: str
) -> None:
    init(allot, tmp_path / "gpus", forge, "--hash", wheel_hash)
    site = Site(tmp_path, forge, wheels)
    published = site.job("publish", "main")
    assert published.returncode == 0, published.stderr
    assert "rendered/eu-1 is " in published.stdout
    assert "refs/heads/rendered/us-1" in git(site.remote, "for-each-ref")
    again = tmp_path / "again"
    write = [site.venv("publish") / "bin/allot", "init", again, "--forge", forge, "--url", URL, "--hash", wheel_hash]
    subprocess.run(write, check=True, capture_output=True)
    assert (again / "requirements.lock").read_bytes() == (site.source / "requirements.lock").read_bytes()


@pytest.mark.install  # needs no index, but an environment of its own for each job, each of 5 s
@pytest.mark.parametrize("forge", ["GitHub", "GitLab", "Gitea"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "Hashes are required in --require-hashes mode, but they are missing"),
        (("--hash", HASH), "THESE PACKAGES DO NOT MATCH THE HASHES"),
    ],
)
def test_without_the_hash_of_the_program_the_ci_installs_nothing(
    options: tuple[str, ...], said: str, forge: str, allot: Allot, tmp_path: Path, wheels: Path
) -> None:
    init(allot, tmp_path / "gpus", forge, *options)
    site = Site(tmp_path, forge, wheels)
    site.propose()
    jobs = {"validate": site.validate(PIP_NO_INDEX="1"), "publish": site.job("publish", "main", PIP_NO_INDEX="1")}
    for name, done in jobs.items():
        assert done.returncode != 0
        assert said in done.stderr
        assert f"allotment=={VERSION}" in done.stderr, "as the base has it: the pull request's file names nothing"
        assert (site.venv(name) / "bin/pip").exists()
        assert not (site.venv(name) / "bin/allot").exists()
    assert "refs/heads/rendered" not in git(site.remote, "for-each-ref")
