"""Render the CI configuration of a new repository: it checks pull requests, comments on them, and publishes merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from allotment.declared.forges import FORGES
from allotment.starter.program import FOLDER, PROGRAM_LOCK, REQUIREMENTS_LOCK, Program, install_commands

CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"
CACHE = "actions/cache@5a3ec84eff668545956fd18022155c47e93e2684 # v4.2.3"
PYTHON = "docker.io/library/python:3.13.14@sha256:36f5673ec01bd1001d7cbb8f12215101aa4ee5d70ddbbb72e01b2930d7c12f19"
_TEMP_FOLDER = "/tmp"  # noqa: S108  # this folder is in the container of a GitLab job
_NO_LINES: list[str] = []
_PULL_HEAD_REF = "refs/pull/${{ github.event.number }}/head"


def render_workflow(forge: str, branch: str, program: Program) -> tuple[str, str]:
    """Return the path and the text of a forge's CI configuration.

    On GitHub and GitLab, the jobs cache the downloads of pip. pip verifies the hash of a cached download at each use.
    pip does not verify wheels that pip built, so a job deletes these wheels from the cache first. On Gitea and
    Forgejo, the jobs use no cache, because the runners of these forges may share one cache among all jobs. With a
    shared cache, a job of a pull request could change the cache of a publish job.
    """
    kind = FORGES[forge]
    is_gitlab = kind.pipeline == "GitLab"
    blocks = _gitlab_blocks(program) if is_gitlab else _actions_blocks(program, cached=kind.caches_downloads)
    values = {
        "@BRANCH@": branch,
        "@EMAIL@": kind.email,
        "@ALLOT@": "allot" if program.is_image else _program_command(is_gitlab, "allot"),
    }
    return kind.workflow, fill_template(starter_file("gitlab.yaml" if is_gitlab else "actions.yaml"), blocks, values)


def _program_command(is_gitlab: bool, name: str) -> str:
    """Return the command that calls a program in the job's virtual environment."""
    return f"{_TEMP_FOLDER}/allot/bin/{name}" if is_gitlab else f'"$RUNNER_TEMP/allot/bin/{name}"'


def starter_file(name: str) -> str:
    """Return the text of a template for new repositories. `fill_template` fills in its blocks and values."""
    return files("allotment.starter").joinpath("files", name).read_text(encoding="utf-8")


def fill_template(text: str, blocks: Mapping[str, Sequence[str]], values: Mapping[str, str]) -> str:
    """Return a template with its blocks and values filled in.

    The lines of a block replace the line that has only the name of the block, at the same indentation. Each key of
    `values` is replaced by its value.
    """
    lines: list[str] = []
    for line in text.splitlines():
        name = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        lines += (
            [indent + block_line if block_line else "" for block_line in blocks[name]] if name in blocks else [line]
        )
    content = "\n".join([*lines, ""])
    for word, value in values.items():
        content = content.replace(word, value)
    return content


def _actions_blocks(program: Program, *, cached: bool) -> dict[str, list[str]]:
    """Return the blocks of the workflow for GitHub, Gitea and Forgejo.

    If the program is an image, the workflow uses no actions, because actions need Node.js, which the image lacks.
    """
    if program.is_image:
        return {
            "@SHELL@": ["defaults:", "  run:", "    shell: bash"],
            "@CONTAINER@": ["container:", f"  image: {program.address}", "  options: --user 0"],
            "@CHECKOUT_HEAD@": _checkout_step(_PULL_HEAD_REF),
            "@CHECKOUT@": _checkout_step("refs/heads/@BRANCH@"),
            **dict.fromkeys(("@CACHE@", "@TAKE_LOCKS@", "@INSTALL_TAKEN@", "@INSTALL@"), _NO_LINES),
        }
    pip = _program_command(False, "pip")
    environment = [
        'python3 -I -m venv "$RUNNER_TEMP/allot" # -I: Python imports no module from the checkout',
        *(["rm -rf ~/.cache/pip/wheels # pip does not verify these wheels"] if cached else ()),
    ]
    targets = {path: f'"$RUNNER_TEMP/{path.removeprefix(f"{FOLDER}/")}"' for path in (REQUIREMENTS_LOCK, PROGRAM_LOCK)}
    return {
        "@SHELL@": [],
        "@CONTAINER@": [],
        "@CHECKOUT_HEAD@": [
            f"- uses: {CHECKOUT}",
            "  with:",
            f"    ref: {_PULL_HEAD_REF}",
            "    fetch-depth: 0",
            "    persist-credentials: false",
        ],
        "@CHECKOUT@": [
            f"- uses: {CHECKOUT}, of the branch",
            "  with:",
            "    fetch-depth: 0 # a publish needs the whole history to order commits",
        ],
        "@CACHE@": [
            f"- uses: {CACHE}; downloads; pip verifies their hashes each time",
            "  with:",
            "    path: ~/.cache/pip",
            f"    key: allot-${{{{ runner.os }}}}-${{{{ hashFiles('{FOLDER}/*') }}}}",
        ]
        if cached
        else _NO_LINES,
        "@TAKE_LOCKS@": [f'git show "$base:{path}" > {target}' for path, target in targets.items()],
        "@INSTALL_TAKEN@": [*environment, *install_commands(pip, *targets.values())],
        "@INSTALL@": [
            "- name: Install",
            "  run: |",
            *(f"    {command}" for command in (*environment, *install_commands(pip))),
        ],
    }


def _checkout_step(ref: str) -> list[str]:
    """Return the step that checks out a ref with Git only, in the same way as the forge's action."""
    return [
        "- name: Check out",
        "  run: |",
        '    git config --global --add safe.directory "$PWD" # the folder is the runner\'s',
        "    git init --quiet .",
        '    git remote add origin "${GITHUB_SERVER_URL%/}/$GITHUB_REPOSITORY"',
        "    # Git sends the token to the forge alone. printf is the shell's own command, so no process has the token as an argument.",
        """    printf '[http "%s"]\\n\\textraHeader = Authorization: Basic %s\\n' "${GITHUB_SERVER_URL%/}" \\""",
        """      "$(printf 'x-access-token:%s' "$TOKEN" | base64 --wrap 0)" >> .git/config""",
        "    git fetch --quiet origin '+refs/heads/*:refs/remotes/origin/*'",
        '    git fetch --quiet origin "$REF"',
        "    git -c advice.detachedHead=false checkout --quiet --detach FETCH_HEAD",
        "  env:",
        "    TOKEN: ${{ github.token }}",
        f"    REF: {ref}",
    ]


def _gitlab_blocks(program: Program) -> dict[str, list[str]]:
    """Return the blocks of the pipeline for GitLab."""
    if program.is_image:
        return {
            "@IMAGE@": ["image:", f"  name: {program.address}", '  entrypoint: [""]'],
            "@SAFE@": ['- git config --global --add safe.directory "$CI_PROJECT_DIR"'],
            **dict.fromkeys(("@CACHE_VARIABLE@", "@CACHE@", "@TAKE_LOCKS@", "@INSTALL_TAKEN@", "@INSTALL@"), _NO_LINES),
        }
    pip = _program_command(True, "pip")
    environment = [
        f"python3 -I -m venv {_TEMP_FOLDER}/allot # -I: Python imports no module from the checkout",
        "rm -rf .cache/pip/wheels # pip does not verify these wheels",
    ]
    targets = {path: f"{_TEMP_FOLDER}/{path.removeprefix(f'{FOLDER}/')}" for path in (REQUIREMENTS_LOCK, PROGRAM_LOCK)}
    return {
        "@IMAGE@": [f"image: {PYTHON} # includes git"],
        "@SAFE@": [],
        "@CACHE_VARIABLE@": ["PIP_CACHE_DIR: $CI_PROJECT_DIR/.cache/pip"],
        "@CACHE@": [
            "cache: # downloads; pip verifies their hashes each time",
            "  key:",
            "    files:",
            f"      - {REQUIREMENTS_LOCK}",
            "  paths:",
            "    - .cache/pip",
        ],
        "@TAKE_LOCKS@": [f"- git show FETCH_HEAD:{path} > {target}" for path, target in targets.items()],
        "@INSTALL_TAKEN@": [f"- {command}" for command in (*environment, *install_commands(pip, *targets.values()))],
        "@INSTALL@": [f"- {command}" for command in (*environment, *install_commands(pip))],
    }
