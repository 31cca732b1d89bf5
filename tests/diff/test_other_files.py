"""What a file outside the declarations decides, by where it lies."""

from __future__ import annotations

import pytest

from allotment.diff.other_files import MAX_SHOWN_PER_TOPIC, TOPIC_TEXT, decision_topic, group_other_files

CASES = {
    ".allot/program.lock": "program",
    ".allot": "program",  # a link, or a repository, in its place
    "../.allot/requirements.lock": "program",
    ".Allot/program.lock": "program",
    ".github/workflows/allot.yaml": "ci",
    "../../.github/workflows/allot.yaml": "ci",
    ".github/actions/own/index.js": "ci",
    ".github": "ci",
    ".gitlab-ci.yml": "ci",
    ".gitlab/ci/plan.yml": "ci",
    ".gitea/workflows/allot.yaml": "ci",
    ".forgejo/workflows/allot.yaml": "ci",
    ".woodpecker.yaml": "ci",
    "ci/Jenkinsfile": "ci",
    ".pre-commit-config.yaml": "hooks",
    ".githooks/pre-push": "hooks",
    "CODEOWNERS": "approvals",
    ".github/CODEOWNERS": "approvals",
    "docs/CODEOWNERS": "approvals",
    "argo/bootstrap/eu-1.yaml": "setup",
    ".github/requirements.txt": "ci",
    ".github/scripts/run.txt": "ci",
    ".github/copilot-instructions.md": "ci",
    ".gitlab/notes.rst": "ci",
    ".gitmodules": "ci",
    "renovate.json": "ci",
    ".github/renovate.json5": "ci",
    ".renovaterc": "ci",
    "bitbucket-pipelines.yml": "ci",
    ".travis.yml": "ci",
    ".cirrus.yml": "ci",
    ".tekton/plan.yaml": "ci",
    ".gitattributes": "approvals",
    "tenants/acme/.gitattributes": "approvals",
    ".vscode/tasks.json": "machine",
    ".vscode/settings.json": "machine",  # names programs too, which an editor starts
    ".devcontainer/devcontainer.json": "machine",
    ".devcontainer.json": "machine",
    ".envrc": "machine",
    "../.mise.toml": "machine",
    "mise.toml": "machine",
    ".tool-versions": "machine",
    "argo/README.md": "",
    ".github/pull_request_template.md": "",
    "README.md": "",
    "docs/.allot/notes": "",
    "schemas/Plan.schema.json": "",
}


@pytest.mark.parametrize("path", CASES)
def test_decision_topic_depends_on_the_path_of_a_file(path: str) -> None:
    assert decision_topic(path) == CASES[path]


def test_group_other_files_limits_decisive_files_and_keeps_the_other_files() -> None:
    many = [(f".github/workflows/{at:05}.yaml", "changed") for at in range(9_998)]
    outside_files = group_other_files([("README.md", "changed"), *many, ("zz.txt", "added")])  # type: ignore[list-item]  # these words are meant
    assert outside_files.total == 10_000
    assert [(TOPIC_TEXT[decides], len(named), more) for decides, named, more in outside_files.decisive_topics] == [
        ("what runs in CI", MAX_SHOWN_PER_TOPIC, 9_998 - MAX_SHOWN_PER_TOPIC)
    ]
    named, more = outside_files.undecisive_files
    assert ([file.path for file in named], more) == (["README.md", "zz.txt"], 0)
