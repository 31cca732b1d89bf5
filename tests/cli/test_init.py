"""`allot init`: what it writes is valid, its CI does what it says, and it overwrites nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import DAY, PROJECT, Allot, checked, edit
from tests.support.new_repository import CLOUD, COMMIT, IMAGE, URL, WHEEL, files, init, sample
from tests.support.published import git
from tests.support.terminal import ALLOT, Session

from allotment.cli.init import find_default_answer
from allotment.declared.kinds import KINDS

WORKFLOWS = {
    "GitHub": ".github/workflows/allot.yaml",
    "GitLab": ".gitlab-ci.yml",
    "Gitea": ".gitea/workflows/allot.yaml",
    "Forgejo": ".forgejo/workflows/allot.yaml",
}
OPEN_BLANKS = "README.md lists 15 values of `allot init` as not filled in: replace them, and tick them off there\n"


def workflow(folder: Path, forge: str) -> dict[str, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((folder / WORKFLOWS[forge]).read_text())
    return {"on" if key is True else key: value for key, value in loaded.items()}


@pytest.mark.parametrize("program", [COMMIT, WHEEL, IMAGE], ids=["commit", "wheel", "image"])
@pytest.mark.parametrize("forge", WORKFLOWS)
def test_init_writes_a_minimal_valid_repository(forge: str, program: str, allot: Allot, tmp_path: Path) -> None:
    folder = tmp_path / "gpus"
    result = init(allot, folder, forge.upper(), "--branch", "1.0", program=program)
    assert (result.code, result.err) == (0, "")
    checked = allot("validate", "--repo", folder, "--as-of", DAY)
    assert (checked.code, checked.out) == (0, f"8 files of 0 tenants: fine\n{OPEN_BLANKS}"), (
        "and nothing in it is a placeholder"
    )
    readme = folder / "README.md"
    readme.write_text(readme.read_text().replace("- [ ]", "- [x]"))
    assert allot("validate", "--repo", folder, "--as-of", DAY).out == "8 files of 0 tenants: fine\n"
    assert allot("fmt", "--check", "--repo", folder).code == 0
    assert allot("schema", "--check", "--repo", folder).code == 0
    written = files(folder)
    assert {path for path in written if not path.startswith("schemas/")} == {
        *([] if program == IMAGE else [".allot/program.lock", ".allot/requirements.lock"]),
        WORKFLOWS[forge],
        ".gitattributes",
        ".gitignore",
        ".pre-commit-config.yaml",
        ".vscode/settings.json",
        "README.md",
        "clusters/eu-1/cluster.yaml",
        "clusters/eu-1/node-pools/l4-nodes.yaml",
        "clusters/eu-1/stocks/l4-whole.yaml",
        "platform/ownership.yaml",
        "platform/plans/team.yaml",
        "platform/platform.yaml",
        "platform/specs/l4-whole.yaml",
        "platform/storage-specs/block-ssd.yaml",
        "tenants/README.md",
    }
    platform = yaml.safe_load(written["platform/platform.yaml"])["spec"]
    assert platform["git"] == {"forge": forge, "url": URL, "branch": "1.0"}
    assert "argocd" not in platform, "the forge's address is none of Argo CD's"
    assert yaml.safe_load(written["platform/ownership.yaml"])["spec"]["teams"] == [
        {"name": "platform", "logins": ["alice"]}
    ]
    assert yaml.safe_load(written["clusters/eu-1/cluster.yaml"])["spec"]["domain"] == "eu-1.gpu.acme.dev"
    assert not [path for path, text in written.items() if "@BRANCH@" in text or "@ALLOT@" in text or "@INSTALL" in text]
    assert (
        program.removeprefix("allotment @ ").split("#")[0]
        in written[WORKFLOWS[forge] if program == IMAGE else ".allot/program.lock"]
    )


def test_init_lists_the_values_to_replace(allot: Allot, tmp_path: Path) -> None:
    lines = init(allot, tmp_path).out.splitlines()
    begin = lines.index("Replace these values in this folder:") + 1
    blanks = [line.split("  ")[1:] for line in lines[begin : lines.index("", begin)]]
    assert len(blanks) == 15
    for place, field, words in blanks:
        path, line = place.split(":")
        last = field.split(".")[-1].split("[")[0]
        assert f"{last}:" in (tmp_path / path).read_text().splitlines()[int(line) - 1], (place, field)
        assert words
    assert [f"  {word}" for word in ("allot validate", "git init --initial-branch main")] == lines[-8:-6]
    assert (
        lines[-3]
        == "  allot bootstrap | kubectl apply --server-side --force-conflicts --filename -     # where Argo CD runs"
    )


def test_the_readme_keeps_what_is_still_to_be_filled_in(allot: Allot, tmp_path: Path) -> None:
    blanks = checked("init", init(allot, tmp_path / "gpus", "GitHub", "-o", "json").out)["blanks"]
    lines = [line for line in (tmp_path / "gpus/README.md").read_text().splitlines() if line.startswith("- [ ] ")]
    assert lines == [
        f"- [ ] [{blank['path']}]({blank['path']}), `{blank['field']}`: {blank['description']}" for blank in blanks
    ]
    sample(allot, tmp_path / "sample")
    assert "filled in" not in (tmp_path / "sample/README.md").read_text()


def test_init_prints_json(allot: Allot, tmp_path: Path) -> None:
    output = checked("init", init(allot, tmp_path, "GitHub", "-o", "json").out)
    assert output["files"] == sorted(files(tmp_path))
    assert len(output["blanks"]) == 15
    assert output["next"][0] == f"cd {tmp_path}"
    text_output = init(allot, tmp_path / "again").out
    assert [f"  {command}" for command in output["next"][1:]] == text_output.split("Next:\n")[1].split("\n\n")[
        0
    ].splitlines()[1:]


def test_its_tenants_page_makes_the_first_tenant(allot: Allot, tmp_path: Path) -> None:
    """Word for word: each block goes into the file that is named above it."""
    init(allot, tmp_path)
    parts = (tmp_path / "tenants/README.md").read_text().split("```")
    for above, block in zip(parts[::2], parts[1::2], strict=False):
        path = tmp_path / above.strip().splitlines()[-1].strip("`")
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.removeprefix("yaml\n"))
    checked = allot("validate", "--repo", tmp_path, "--as-of", DAY)
    assert (checked.code, checked.out) == (0, f"10 files of 1 tenant: fine\n{OPEN_BLANKS}")
    assert allot("fmt", "--check", "--repo", tmp_path).code == 0

    edit(
        tmp_path,
        "platform/plans/team.yaml",
        "  allow:\n",
        "  allow:\n    imageRegistries:\n      - registry.acme.dev/\n",
    )
    instance = tmp_path / "tenants/studio-kite/instances/webui.yaml"
    instance.parent.mkdir()
    instance.write_text(MEMBERS_PORT)
    checked = allot("validate", "--repo", tmp_path, "--as-of", DAY)
    assert (checked.code, checked.out) == (0, f"11 files of 1 tenant: fine\n{OPEN_BLANKS}"), (
        "its first member may log in"
    )


MEMBERS_PORT = f"""\
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: webui
spec:
  cluster: eu-1
  gpuSpec: l4-whole
  container:
    image: registry.acme.dev/webui@sha256:{"a" * 64}
    ports:
      - name: http
        containerPort: 7860
        protocol: HTTP
        exposure: Members
"""


def test_a_sample_is_todays_cloud_of_seven_tenants(allot: Allot, tmp_path: Path) -> None:
    result = sample(allot, tmp_path, "Forgejo", "--branch", "1.0")
    assert (result.code, result.err) == (0, "")
    checked = allot("validate", "--repo", tmp_path, "--as-of", DAY)
    assert checked.code == 0
    assert "of 7 tenants" in checked.out
    assert "[placeholder]" in checked.out
    platform = yaml.safe_load((tmp_path / "platform/platform.yaml").read_text())["spec"]
    assert platform["git"] == {"forge": "Forgejo", "url": URL, "branch": "1.0"}
    assert platform["argocd"] == {"url": "https://argocd.northlight.example"}
    assert allot("bootstrap", "--repo", tmp_path).code == 0
    refused = allot(
        "init", tmp_path / "more", "--sample", "--program", COMMIT, "--forge", "gitea", "--url", URL, *CLOUD
    )
    assert (refused.code, "--cluster: the sample has its own" in refused.err) == (2, True)


def test_an_editor_finds_each_kinds_schema(allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path)
    schemas = json.loads((tmp_path / ".vscode/settings.json").read_text())["yaml.schemas"]
    assert len(schemas) == len(KINDS)
    for schema, pattern in schemas.items():
        assert (tmp_path / schema).is_file()
        texts = [path.read_text() for path in PROJECT.glob(pattern)]
        kind = Path(schema).name.split(".")[0]
        assert texts, pattern
        assert all(f"\nkind: {kind}\n" in text for text in texts)


def locked(text: str) -> dict[str, set[str]]:
    """Return what a file of requirements names, with the hashes of each."""
    requirements = [line.split() for line in text.replace("\\\n", " ").splitlines() if "==" in line and line[0] != "#"]
    return {
        words[0]: {word.removeprefix("--hash=") for word in words if word.startswith("--hash=")}
        for words in requirements
    }


@pytest.mark.parametrize("program", [COMMIT, WHEEL], ids=["commit", "wheel"])
def test_ci_installs_what_this_project_is_locked_to(program: str, allot: Allot, tmp_path: Path) -> None:
    """And what builds the program, where it is built."""
    init(allot, tmp_path, program=program)
    text = (tmp_path / ".allot/requirements.lock").read_text()
    assert [line for line in text.splitlines() if line.startswith("-")] == ["--require-hashes", "--only-binary :all:"]
    runs, builds = (locked((PROJECT / f"requirements-{what}.lock").read_text()) for what in ("run", "build"))
    assert len(runs) > 40
    assert locked(text) == ({**builds, **runs} if program == COMMIT else runs)
    assert all(locked(text).values())
    own = [line for line in (tmp_path / ".allot/program.lock").read_text().splitlines() if line[0] != "#"]
    wheel = WHEEL.replace("#sha256=", " \\\n    --hash=sha256:")
    assert "\n".join(own) == (COMMIT if program == COMMIT else f"--require-hashes\nallotment @ {wheel}")


def test_nothing_is_overwritten(allot: Allot, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = init(allot, tmp_path)
    assert (result.code, result.out) == (2, "")
    assert f"'{tmp_path}' holds 'mine.txt': name an empty folder" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_clone_of_an_empty_repository_is_fine(allot: Allot, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    result = init(allot, tmp_path)
    assert result.code == 0
    assert "git init" not in result.out
    assert (tmp_path / "platform/platform.yaml").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".allot-init")]


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (("--url", "git@git.example:acme/gpus"), "--url"),
        (("--url", "https://x y"), "--url"),
        (("--branch", "-x"), "--branch"),
        (("--branch", "release.lock"), "--branch: 'release.lock' is not allowed here: write a branch such as main"),
        (("--branch", "a\nb: c"), "--branch: 'a\\nb: c' is not allowed here: write a branch such as main"),
        (("--forge", "Bitbucket"), "Bitbucket"),
        (("--cluster", "EU"), "--cluster: 'EU' is not allowed"),
        (("--domain", "-"), "--domain"),
        (("--oidc-issuer", "http://id.acme.dev"), "--oidc-issuer"),
        (("--admin", "alice bob"), "--admin: 'alice bob' is not allowed here: write a login"),
        (("--currency", "euro"), "--currency"),
        (("--time-zone", "CET+1"), "--time-zone"),
        (("--time-zone", "Europe/Berlln"), "--time-zone: 'Europe/Berlln' is not allowed here: write an IANA time zone"),
        (
            ("--program", f"git+https://ghp_1234@github.com/a/b@{40 * '0'}"),
            "a token, which a commit would publish: omit it",
        ),
        (("--program", "allotment==0.1.0"), "--program: 'allotment==0.1.0' names nothing that stays the same"),
        (("--program", "git+https://git.acme.dev/allotment@main"), "--program"),
        (("--program", f"git+https://git.acme.dev/allotment@{39 * 'a'}"), "--program"),
        (("--program", f"git+http://git.acme.dev/allotment@{40 * 'a'}"), "--program"),
        (("--program", f"git+https://git.acme.dev/allotment@{40 * 'a'}#egg=evil"), "--program"),
        (("--program", WHEEL.split("#", maxsplit=1)[0]), "--program"),
        (("--program", WHEEL.replace("https://", "https://user:pass@")), "--program"),
        (("--program", WHEEL + " --index-url https://evil"), "--program"),
        (("--program", IMAGE.split("@", maxsplit=1)[0]), "--program"),
        (("--program", IMAGE + "\nevil: true"), "--program"),
    ],
)
def test_a_wrong_option_is_told(words: tuple[str, ...], expected_error: str, allot: Allot, tmp_path: Path) -> None:
    result = init(allot, tmp_path / "new", "GitHub", *words)
    assert (result.code, result.out) == (2, "")
    assert expected_error in result.err
    assert not (tmp_path / "new").exists()


def test_all_that_is_wrong_or_missing_is_told_at_once(allot: Allot, tmp_path: Path) -> None:
    wrong = init(allot, tmp_path, "GitHub", "--program", "x", "--url", "x", "--admin", " ", "--currency", "x")
    assert [line.split(":")[0] for line in wrong.err.splitlines()[3:]] == [
        "Error",
        "--url",
        "--admin",
        "--currency",
    ], wrong.err
    missing = allot("init", tmp_path, "--forge", "gitlab")
    assert [line.split(":")[0].strip() for line in missing.err.splitlines()[4:]] == [
        "--url",
        "--cluster",
        "--domain",
        "--oidc-issuer",
        "--admin",
        "--program",
    ]
    assert (
        "  --forge: The kind of forge that hosts the repository (GitHub, GitLab, Gitea, Forgejo)\n"
        in allot("init", tmp_path).err
    )
    both = allot("init", tmp_path, "--forge", "gitlab", "--program", "x", "--cluster", "EU")
    assert [line.split(":")[0].strip() for line in both.err.splitlines()[3:]] == [
        "Error", "--url", "--domain", "--oidc-issuer", "--admin", "these options are invalid", "--program", "--cluster"
    ]  # fmt: skip
    fine = allot("init", tmp_path, "--domain", "gpu.acme.dev", "--cluster", "EU")
    assert [line.split(":")[0].strip() for line in fine.err.splitlines()[-2:]] == [
        "these options are invalid",
        "--cluster",
    ]
    assert "wrong" not in allot("init", tmp_path, "--domain", "gpu.acme.dev").err
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_each_answer_is_checked_as_it_is_given(tmp_path: Path) -> None:
    session = Session(tmp_path, {})
    session.begins(shlex.join([*ALLOT, "init", "gpus", "--forge", "gitea", "--admin", "alice"]))
    session.asks("clone URL of the repository, https://…:", "git@git.acme.dev:acme/gpus")
    session.asks("Error: ", URL)
    session.asks("The first cluster's name [eu-1]:", "EU")
    session.asks("'EU' is not allowed", "us-1")
    session.asks("parent domain of all instances:", "gpu..dev")
    session.asks("Error: ", "gpu.acme.dev")
    session.asks("https://…:", "https://id.acme.dev")
    session.asks("an image@sha256:…", "allotment")
    session.asks("names nothing that stays the same", COMMIT)
    for question in ("apps to offer", "add-ons that the cluster lacks", "file server of storages"):
        session.asks(question, "none")
    assert "Next:" in session.ended()
    session.close()
    cluster = yaml.safe_load((tmp_path / "gpus/clusters/us-1/cluster.yaml").read_text())
    assert cluster["spec"]["domain"] == "us-1.gpu.acme.dev"


def test_on_a_terminal_what_is_given_wrong_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    session = Session(tmp_path, {})
    output = session.types(shlex.join([*ALLOT, "init", "gpus", "--program", "x"]), status=2)
    assert "Error: --program: 'x' names nothing that stays the same" in output
    session.close()


def test_on_a_terminal_the_first_line_counts_the_questions_and_a_question_mark_explains_each(tmp_path: Path) -> None:
    session = Session(tmp_path, {})
    words = [
        "init",
        "gpus",
        "--url",
        URL,
        "--cluster",
        "eu-1",
        "--oidc-issuer",
        "https://id.acme.dev",
        "--app",
        "jupyter",
    ]
    session.begins(shlex.join([*ALLOT, *words, "--admin", "alice"]))
    session.asks("Answer 5 questions (? explains each), and the command writes the repository to 'gpus'.", "")
    session.asks("This question needs an answer; ? explains it.\r\nThe kind of forge", "?")
    session.asks("The service or server for Git repositories and pull requests.", "gitea")
    session.asks("parent domain of all instances:", "?")
    session.asks("A domain with DNS records that you can set, such as gpu.acme.dev.", "gpu.acme.dev")
    session.asks("The pinned source of Allotment for CI", "?")
    session.asks("a commit of a Git repository that CI can read without a password", COMMIT)
    session.asks("add-ons that the cluster lacks", "?")
    session.asks("Argo CD installs them", "none")
    session.asks("file server of storages", "?")
    session.asks("The container image that shows the files of a storage", "none")
    session.close()


def test_the_program_is_by_default_the_installed_source(
    allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.adapters.installed.installed_address", lambda: COMMIT)
    words = ("--forge", "gitea", "--url", URL, "--cluster", "eu-1", "--domain", "gpu.acme.dev")
    result = allot("init", tmp_path / "gpus", *words, "--oidc-issuer", "https://id.acme.dev", "--admin", "alice")
    assert result.code == 0, result.err
    assert COMMIT in (tmp_path / "gpus/.allot/program.lock").read_text()


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("acme", "'acme' has no dot: write a domain of yours, such as gpu.acme.dev"),
        (
            "https://gpu.acme.dev",
            "'https://gpu.acme.dev' has a scheme: write the domain without it, such as gpu.acme.dev",
        ),
        ("gpu..dev", "'gpu..dev' is not allowed here: write a domain name in lower case, at most 189 characters"),
    ],
)
def test_a_wrong_domain_is_quoted_as_typed(domain: str, message: str, allot: Allot, tmp_path: Path) -> None:
    words = ("--program", COMMIT, "--forge", "gitea", "--url", URL, "--cluster", "eu-1", "--domain", domain)
    result = allot("init", tmp_path / "gpus", *words, "--oidc-issuer", "https://id.acme.dev", "--admin", "alice")
    assert result.code == 2
    assert f"--domain: {message}\n" in result.err


def test_doctor_counts_the_values_that_nobody_ticked_off(allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(readme.read_text().replace("- [ ] [", "- [x] [", 1))
    assert "README.md lists 14 values of `allot init` as not filled in" in allot("doctor", "--repo", tmp_path).out


def test_on_a_terminal_it_asks(tmp_path: Path) -> None:
    """With choices and defaults, as a person has it; what is given isn't asked for."""
    session = Session(tmp_path, {})
    words = ["init", "gpus", "--program", COMMIT, "--url", URL, "--admin", "alice"]
    session.begins(shlex.join([*ALLOT, *words]))
    session.asks("(GitHub, GitLab, Gitea, Forgejo):", "bitbucket")
    session.asks("'bitbucket' is not one of", "gitea")
    session.asks("The first cluster's name [eu-1]:", "")
    session.asks("The parent domain of all instances:", "gpu.acme.dev")
    session.asks("https://…:", "https://id.acme.dev")
    for question in ("apps to offer", "add-ons that the cluster lacks", "file server of storages"):
        session.asks(question, "none")
    assert "Next:" in session.ended()
    session.close()
    platform = yaml.safe_load((tmp_path / "gpus/platform/platform.yaml").read_text())
    assert platform["spec"]["git"]["forge"] == "Gitea"


@pytest.mark.process
@pytest.mark.parametrize("program", [COMMIT, IMAGE], ids=["commit", "image"])
@pytest.mark.parametrize(
    ("forge", "schema"),
    [
        ("GitHub", "github-workflows"),
        ("Gitea", "github-workflows"),
        ("Forgejo", "github-workflows"),
        ("GitLab", "gitlab-ci"),
    ],
)
def test_the_ci_fits_its_schema(forge: str, schema: str, program: str, allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path / "gpus", forge, program=program)
    checker = Path(sys.executable).with_name("check-jsonschema")
    run = [checker, "--builtin-schema", f"vendor.{schema}", tmp_path / "gpus" / WORKFLOWS[forge]]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("forge", ["GitHub", "Gitea", "Forgejo"])
def test_init_grants_no_write_permission_to_the_validate_job(forge: str, allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path, forge)
    ci_workflow = workflow(tmp_path, forge)
    assert ci_workflow["permissions"] == {}
    assert "pull_request" in ci_workflow["on"]
    validate, publish = ci_workflow["jobs"]["validate"], ci_workflow["jobs"]["publish"]
    assert validate["if"] == "github.event_name == 'pull_request'"
    assert validate["permissions"] == {"contents": "read"}
    checkout = {"ref": "refs/pull/${{ github.event.number }}/head", "fetch-depth": 0, "persist-credentials": False}
    assert validate["steps"][0]["with"] == checkout
    assert "secrets" not in str(validate) + str(publish)
    assert publish["permissions"] == {"contents": "write"}
    assert publish["if"] == "github.event_name != 'pull_request' && github.event_name != 'pull_request_target'"


@pytest.mark.parametrize("forge", ["GitHub", "Gitea", "Forgejo"])
def test_init_separates_jobs_with_a_token_from_the_code_of_a_pull_request(
    forge: str, allot: Allot, tmp_path: Path
) -> None:
    init(allot, tmp_path, forge)
    ci_workflow = workflow(tmp_path, forge)
    assert "pull_request_target" in ci_workflow["on"], "its workflow is the base's"
    for name in ("plan", "follow"):
        job = ci_workflow["jobs"][name]
        assert job["permissions"] == {"contents": "read", "pull-requests": "write", "statuses": "write"}
        checkout, *cache, install, run = job["steps"]
        assert checkout["with"] == {"fetch-depth": 0}, "no ref of a pull request's"
        assert [step["with"]["path"] for step in cache] == (["~/.cache/pip"] if forge == "GitHub" else []), (
            "one that is its own"
        )
        assert ("rm -rf ~/.cache/pip/wheels" in install["run"]) == (forge == "GitHub"), (
            "which pip holds against no hash"
        )
        assert "${{" not in install["run"] + run["run"], "what an event says is never a part of a script"
        assert " allot" not in run["run"].replace("/allot", ""), "the program is the installed one"
    assert ci_workflow["jobs"]["plan"]["if"] == "github.event_name == 'pull_request_target'"


@pytest.mark.parametrize("forge", WORKFLOWS)
def test_the_ci_runs_hourly_and_what_is_merged_at_once(forge: str, allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path, forge)
    ci_workflow = workflow(tmp_path, forge)
    if forge == "GitLab":
        assert "a schedule, hourly" in (tmp_path / WORKFLOWS[forge]).read_text()
    else:
        assert ci_workflow["on"]["schedule"] == [{"cron": "7 * * * *"}]
        assert ci_workflow["on"]["push"] == {"branches": ["main"]}


# The commands of the CI, run as they are: with the program as a wheel, as a commit, and as an image has it.


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the program's wheel."""
    out = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    return out


@pytest.fixture(scope="session")
def wheel(wheels: Path) -> str:
    """Return what --program takes of that wheel, served from its folder."""
    (file,) = wheels.glob("*.whl")
    return f"{file.as_uri()}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}"


@pytest.fixture(scope="session")
def commit(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what --program takes of a commit of this project as it is now, whose address leads to a folder."""
    place = tmp_path_factory.mktemp("program") / "allotment"
    for path in git(PROJECT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (PROJECT / path).is_file() and not path.startswith("tests/"):
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes((PROJECT / path).read_bytes())
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "-c", "user.name=A", "-c", "user.email=a@acme.dev", "commit", "-q", "-m", "As it is")
    GIT[f"url.{place}.insteadOf"] = "https://git.acme.dev/allotment"
    return f"allotment @ git+https://git.acme.dev/allotment@{git(place, 'rev-parse', 'HEAD').strip()}"


@pytest.mark.process
def test_the_wheel_holds_all_that_it_needs(wheels: Path) -> None:
    (file,) = wheels.glob("*.whl")
    names = set(zipfile.ZipFile(file).namelist())
    for path in (
        "allotment/sample/platform/platform.yaml",
        "allotment/sample/schemas/GPUInstance.schema.json",
        "allotment/sample/requirements-run.lock",
        "allotment/sample/requirements-build.lock",
        "allotment/starter/files/gitlab.yaml",
        "allotment/manifests/cluster/health/apps_Deployment.lua",
    ):
        assert path in names


class Site:
    """A repository that `allot init` wrote, pushed to a remote, and the machine that runs its CI's commands."""

    def __init__(self, tmp_path: Path, forge: str) -> None:
        self.source, self.remote, self.machine = tmp_path / "gpus", tmp_path / "acme/gpus.git", tmp_path / "machine"
        self.forge = forge
        self.machine.mkdir()
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.remote)], check=True)
        git(self.source, "init", "-q", "-b", "main")
        git(self.source, "config", "user.name", "Ada")
        git(self.source, "config", "user.email", "ada@acme.example")
        git(self.source, "remote", "add", "origin", str(self.remote))
        self.push("Begin", "main")

    def push(self, subject: str, *refs: str) -> None:
        git(self.source, "add", "-A")
        git(self.source, "commit", "-q", "-m", subject)
        git(self.source, "push", "-q", "origin", *refs)

    def propose(self) -> None:
        """Push a pull request that is wrong, deletes data in two commits, and brings lock files and a module `venv` of
        its own; meanwhile the branch moves on."""
        git(self.source, "checkout", "-q", "-b", "change")
        (self.source / ".allot").mkdir(exist_ok=True)
        for name in ("requirements", "program"):
            (self.source / f".allot/{name}.lock").write_text("# nothing\n")
        (self.source / "venv.py").write_text("raise SystemExit('imported from the pull request')\n")
        self.push("Take another program", "change")
        with (self.source / STYLES).open("a") as file:
            file.write("  deletionPolicy: Delete\n")
        self.push("Mark it", "change")
        (self.source / STYLES).unlink()
        edit(self.source, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
        self.push("Remove it", "change", "change:refs/pull/7/head")
        git(self.source, "checkout", "-q", "main")
        edit(self.source, "tenants/uni-lab/instances/group-a.yaml", "state: Running", "state: Runing")
        self.push("Meanwhile", "main")

    def venv(self, name: str) -> Path:
        """Return the environment that a job installed into."""
        return self.machine / (f"{name}-allot" if self.forge == "GitLab" else f"{name}/allot")

    def job(self, name: str, ref: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a job's commands as the forge does: each step by itself, in a clone at `ref` that its action made, or that
        its own commands make; its folder for what is temporary is named as the job."""
        work = self.machine / f"{name}-work"
        job_config = workflow(self.source, self.forge)["jobs" if self.forge != "GitLab" else name]
        (self.machine / name).mkdir()
        if self.forge == "GitLab":
            lines = [line for line in (*job_config["before_script"], *job_config["script"]) if " comment " not in line]
            steps = [{"run": "\n".join(lines)}]  # without what talks to the forge: none is there
        else:
            steps = job_config[name]["steps"]
        if "uses" in steps[0] or self.forge == "GitLab":
            git(self.machine, "clone", "-q", str(self.remote), work.name)
            git(work, "fetch", "-q", "origin", ref)
            git(work, "-c", "advice.detachedHead=false", "checkout", "-q", "--detach", "FETCH_HEAD")
        else:
            work.mkdir()
        known = {
            "HOME": str(self.machine),
            "PATH": os.environ["PATH"],
            "RUNNER_TEMP": str(self.machine / name),
            "GITHUB_BASE_REF": "main",
            "GITHUB_SERVER_URL": "https://forge.example",
            "GITHUB_REPOSITORY": "acme/gpus",
            "CI_PROJECT_DIR": str(work),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_SERVER_URL": "https://gitlab.example",
            "CI_PROJECT_URL": "https://gitlab.example/acme/gpus",
            "ALLOT_TOKEN": "t0ken",
            **{key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "REQUESTS_", "UV_"))},
            **environment,
        }
        self._map_addresses()
        return self._run(steps, work, known, name)

    def _map_addresses(self) -> None:
        """Let Git find the forge's addresses, and the program's, in folders."""
        pairs = [
            *GIT.items(),
            (f"url.{self.remote}.insteadOf", "https://gitlab.example/acme/gpus.git"),
            (f"url.{self.remote}.insteadOf", "https://forge.example/acme/gpus"),
        ]
        for key, value in pairs:
            git(self.machine, "config", "--file", ".gitconfig", "--add", key, value)

    def _run(
        self, steps: list[dict[str, Any]], work: Path, known: dict[str, str], name: str
    ) -> subprocess.CompletedProcess[str]:
        out = err = ""
        shell = ["bash", "-eo", "pipefail", "-c"]
        for step in steps:
            if "run" not in step:
                continue
            more = {key: EVENT.get(str(value), str(value)) for key, value in step.get("env", {}).items()}
            text = step["run"].replace("/tmp/", f"{self.machine}/{name}-") if self.forge == "GitLab" else step["run"]
            done = subprocess.run(
                [*shell, text], cwd=work, env={**known, **more}, capture_output=True, text=True, check=False
            )
            out, err = out + done.stdout, err + done.stderr
            if done.returncode:
                break
        if "No matching distribution found for" in err or "Temporary failure" in err:
            pytest.skip("needs a package registry for what the program depends on")
        return subprocess.CompletedProcess([], done.returncode, out, err)


GIT: dict[str, str] = {}  # what has Git find the program's address
EVENT = {
    "refs/pull/${{ github.event.number }}/head": "refs/pull/7/head",
    "${{ github.token }}": "t0ken",
}
STYLES = "tenants/solo-ada/storages/styles.yaml"


def is_checked(wrong: subprocess.CompletedProcess[str]) -> None:
    """Assert what CI says of the pull request of `propose`."""
    assert wrong.returncode == 1, wrong.stderr
    assert "no GPUSpec is named 'l4-quater'" in wrong.stdout
    assert "'Runing'" in wrong.stdout, "what was merged meanwhile counts too"
    assert any("styles.yaml" in line and "deletion" in line for line in wrong.stdout.splitlines()), wrong.stdout


@pytest.mark.install
@pytest.mark.parametrize("forge", ["GitHub", "GitLab", "Gitea"])
def test_the_ci_checks_a_merge_result_with_the_program_that_the_base_names(
    forge: str, allot: Allot, tmp_path: Path, wheel: str
) -> None:
    sample(allot, tmp_path / "gpus", forge, program=wheel)
    site = Site(tmp_path, forge)
    site.propose()
    is_checked(site.job("validate", "refs/pull/7/head"))
    if forge == "GitLab":
        report = json.loads((site.machine / "validate-work/gl-code-quality-report.json").read_text())
        assert "tenants/solo-ada/instances/webui.yaml" in {issue["location"]["path"] for issue in report}


@pytest.mark.install
@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
def test_the_ci_publishes_what_is_merged(forge: str, allot: Allot, tmp_path: Path, commit: str) -> None:
    sample(allot, tmp_path / "gpus", forge, program=commit)
    site = Site(tmp_path, forge)
    published = site.job("publish", "main", ALLOT_FORGE_TOKEN="")
    assert "rendered/eu-1 is " in published.stdout, published.stderr
    assert "refs/heads/rendered/us-1" in git(site.remote, "for-each-ref")
    second_folder = tmp_path / "again"
    program = site.venv("publish") / "bin/allot"
    words = ["--sample", "--program", commit, "--forge", forge, "--url", URL]
    subprocess.run([program, "init", second_folder, *words], check=True, capture_output=True)
    assert files(second_folder / ".allot") == files(site.source / ".allot")


@pytest.mark.process
@pytest.mark.parametrize("forge", ["GitHub", "GitLab", "Gitea"])
def test_the_ci_runs_the_program_of_an_image(forge: str, allot: Allot, tmp_path: Path) -> None:
    """What the image has is Git and `allot`; here they are this environment's."""
    sample(allot, tmp_path / "gpus", forge, program=IMAGE)
    site = Site(tmp_path, forge)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    published = site.job("publish", "main", PATH=path)
    assert "rendered/eu-1 is " in published.stdout, published.stderr
    site.propose()
    is_checked(site.job("validate", "refs/pull/7/head", PATH=path))


@pytest.mark.process
@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
def test_an_invalid_tenant_is_a_warning_of_the_publish(forge: str, allot: Allot, tmp_path: Path) -> None:
    sample(allot, tmp_path / "gpus", forge, program=IMAGE)
    site = Site(tmp_path, forge)
    edit(site.source, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    site.push("Wrong", "main")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    published = site.job("publish", "main", PATH=path)
    assert "rendered/eu-1 is " in published.stdout, published.stderr
    assert "retained: tenant solo-ada" in published.stderr
    if forge == "GitLab":
        assert published.returncode in workflow(site.source, forge)["publish"]["allow_failure"]["exit_codes"]
    else:
        assert (published.returncode, "::warning title=allot publish::" in published.stdout) == (0, True)
    git(site.remote, "update-ref", "-d", "refs/heads/rendered/eu-1")
    for folder in ("publish", "publish-work"):
        shutil.rmtree(site.machine / folder)
    restored = site.job("publish", "main", PATH=path)
    assert restored.returncode == 1, "a branch that somebody deleted is an error, although it is restored"
    assert "restored: rendered/eu-1, which is gone" in restored.stderr
    assert ("::error title=allot publish::" in restored.stdout) == (forge == "GitHub")
    assert "refs/heads/rendered/eu-1" in git(site.remote, "for-each-ref")


@pytest.mark.install
@pytest.mark.parametrize(
    ("forge", "job", "ref"), [("GitHub", "validate", "refs/pull/7/head"), ("GitLab", "publish", "main")]
)
def test_another_program_than_the_one_that_is_named_is_never_run(
    forge: str, job: str, ref: str, allot: Allot, tmp_path: Path, wheel: str
) -> None:
    other = f"{wheel.split('#', maxsplit=1)[0]}#sha256={64 * 'b'}"
    sample(allot, tmp_path / "gpus", forge, program=other)
    site = Site(tmp_path, forge)
    site.propose()
    done = site.job(job, ref)
    assert done.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr, "the base's, not the pull request's"
    assert not (site.venv(job) / "bin/allot").exists()
    assert "refs/heads/rendered" not in git(site.remote, "for-each-ref")


GITHUB = f"git+https://github.com/acme/allotment@{40 * 'a'}"


@pytest.mark.parametrize(
    ("program", "more", "address"),
    [
        (GITHUB, (), f"https://github.com/acme/allotment/tree/{40 * 'a'}/docs"),
        (f"git+https://gitlab.acme.dev/a/b.git@{40 * 'a'}", (), f"https://gitlab.acme.dev/a/b/-/tree/{40 * 'a'}/docs"),
        (f"git+ssh://git@codeberg.org/a/b@{40 * 'a'}", (), f"https://codeberg.org/a/b/src/commit/{40 * 'a'}/docs"),
        (f"git+https://code.acme.dev/a@{40 * 'a'}", (), "https://code.acme.dev/a"),
        (COMMIT, (), f"https://git.acme.dev/allotment/tree/{COMMIT[-40:]}/docs"),
        (WHEEL, ("--docs-url", "https://docs.acme.dev"), "https://docs.acme.dev"),
    ],
    ids=["GitHub", "GitLab", "Codeberg", "another forge", "the forge of the cloud", "given"],
)
def test_the_readme_names_the_documentation(
    program: str, more: tuple[str, ...], address: str, allot: Allot, tmp_path: Path
) -> None:
    init(allot, tmp_path, "GitHub", *more, program=program)
    assert f"The documentation of Allotment: <{address}>." in (tmp_path / "README.md").read_text().splitlines()


def test_a_wheel_has_no_documentation_of_its_own(allot: Allot, tmp_path: Path) -> None:
    init(allot, tmp_path, program=WHEEL)
    assert "documentation" not in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(("address", "offered"), [(GITHUB, GITHUB), ("", None), ("git+file:///x@HEAD", None)])
def test_the_running_program_is_offered_where_it_is_pinned(
    address: str, offered: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.adapters.installed.installed_address", lambda: address)
    assert find_default_answer("program") == offered
