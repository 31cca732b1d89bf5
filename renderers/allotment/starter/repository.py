"""Build the files of a new repository, except the schemas and the sample, which are copied."""

from __future__ import annotations

import json
from collections.abc import Sequence

from allotment import VERSION
from allotment.declared.kinds import KINDS
from allotment.edits.blanks import Blank
from allotment.manifests.yaml_text import dump_scalar
from allotment.starter import ci
from allotment.starter.program import Program, install_commands, lock_files

_ENVIRONMENT = "~/.local/share/allot/${PWD##*/}"
_GITIGNORE = """\
# the output of `allot render --out out`
/out/
# files of systems and editors, which no declaration is
.DS_Store
Thumbs.db
*~
.*.swp
"""
# A file has the same bytes in each checkout, so no command rewrites it.
_GITATTRIBUTES = "* text=auto eol=lf\n"


def support_files(
    forge: str, branch: str, program: Program, *, runs: str, builds: str, blanks: Sequence[Blank], docs_url: str
) -> dict[str, bytes]:
    """Return the files that are not declarations: CI, hooks, editor settings, pins of the program, a README.

    `runs` and `builds` are the requirements, with hashes, for running and for building this program. The README lists
    the `blanks`, and links to the documentation if `docs_url` is not empty.
    """
    path, workflow = ci.render_workflow(forge, branch, program)
    values = {"@VERSION@": VERSION, "@BRANCH@": branch, "@ALLOT@": "allot", "@LANGUAGE@": "system"}
    if program.is_image:
        values |= {"@ALLOT@": program.address, "@LANGUAGE@": "docker_image"}
    blocks = {"@INSTALL@": _install_notes(program), "@PINNED@": _pin_notes(program), "@BLANKS@": _blank_notes(blanks)}
    blocks["@DOCS@"] = [f"The documentation of Allotment: <{docs_url}>.", ""] if docs_url else []
    texts = {
        path: workflow,
        ".pre-commit-config.yaml": ci.fill_template(ci.starter_file("pre-commit.yaml"), {}, values),
        ".gitignore": _GITIGNORE,
        ".gitattributes": _GITATTRIBUTES,
        ".vscode/settings.json": _editor_settings(),
        "README.md": ci.fill_template(ci.starter_file("README.md"), blocks, values),
        **lock_files(program, runs, builds),
    }
    return {path: text.encode() for path, text in texts.items()}


def tenants_page(admin: str) -> bytes:
    """Return the README of the folder of tenants, with instructions to declare the first tenant."""
    return ci.fill_template(ci.starter_file("tenants.md"), {}, {"@ADMIN@": dump_scalar(admin)}).encode()


def _pin_notes(program: Program) -> list[str]:
    """Return the part of the README that says which files pin the program's version, and how to upgrade."""
    where = "the CI and `.pre-commit-config.yaml`" if program.is_image else "`.allot/`"
    also = "" if program.is_image else " and the CI"
    return [
        f"CI installs the `allot` that {where} pin{'' if program.is_image else 's'}. A pull request is checked with the version of its",
        "target branch. To upgrade, run `allot init --upgrade . --program SOURCE` of the new version: it updates",
        f"{where}{also}, and shows the difference.",
    ]


def _blank_notes(blanks: Sequence[Blank]) -> list[str]:
    """Return the list of values that the team must supply. It has no line numbers, because line numbers change."""
    if not blanks:
        return []
    return [
        "## Still to be filled in",
        "",
        "`allot init` wrote examples for these values. Replace each value, tick it off, and remove this list at the end:",
        "",
        *(f"- [ ] [{blank.path}]({blank.path}), `{blank.field}`: {blank.description}" for blank in blanks),
        "",
    ]


def count_open_blanks(readme: str) -> int:
    """Return the number of values in the list of a README that nobody has ticked off."""
    return sum(line.startswith("- [ ] [") for line in readme.splitlines())


def _install_notes(program: Program) -> list[str]:
    """Return the commands with which a person installs the program."""
    if program.is_image:
        mounted = '--volume "$PWD:/work" --workdir /work --user "$(id -u)"'
        return [f"    alias allot='podman run --rm {mounted} {program.address}'"]
    return [
        f"    python3 -I -m venv {_ENVIRONMENT}",
        *(f"    {command}" for command in install_commands(f"{_ENVIRONMENT}/bin/pip")),
        f"    . {_ENVIRONMENT}/bin/activate",
        "",
        "The environment is outside the clone, because a pull request can add files to each folder of the clone.",
    ]


def _editor_settings() -> str:
    """Return VS Code's settings for its YAML extension: the schema for each pattern of file names."""
    schemas = {f"./schemas/{kind.name}.schema.json": kind.pattern for kind in KINDS.values()}
    return json.dumps({"yaml.schemas": schemas, "files.insertFinalNewline": True}, indent=2) + "\n"
