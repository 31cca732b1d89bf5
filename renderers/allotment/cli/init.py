"""`allot init`: a repository of declarations for a team of its own."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

import click

from allotment import VERSION
from allotment.problems import Refused, quoted

FOLDERS = ("platform", "clusters", "tenants", "schemas")
WORKFLOWS = {
    "GitHub": (".github/workflows/allot.yaml", "github.yaml"),
    "GitLab": (".gitlab-ci.yml", "gitlab.yaml"),
    "Gitea": (".gitea/workflows/allot.yaml", "gitea.yaml"),
    "Forgejo": (".forgejo/workflows/allot.yaml", "gitea.yaml"),
}
BESIDE = {".git"}  # what a folder may hold already
LOCK = "requirements.lock"
LOCK_HEAD = """\
# All that CI installs: allotment and what it needs, by hashes; wheels alone, since what pip would build a package
# with has none. `allot init` wrote it.
--require-hashes
--only-binary :all:
"""
_HASH = re.compile(r"(?:--hash=)?(sha256:[0-9a-f]{64})")


def _hashes(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    found = [_HASH.fullmatch(one) for one in given]
    for text, one in zip(given, found, strict=True):
        if one is None:
            raise click.BadParameter(f"{quoted(text)} isn't sha256: and 64 hexadecimal digits, as `pip hash` prints it")
    return tuple(one[1] for one in found if one)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--forge", type=click.Choice(list(WORKFLOWS)), required=True, help="What kind of forge it will lie on.")
@click.option("--url", metavar="URL", required=True, help="Its address there, to clone, https://…")
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch that counts.")
@click.option(
    "--hash",
    "hashes",
    metavar="HASH",
    multiple=True,
    callback=_hashes,
    help=f"What `pip hash` prints of the wheel of allotment {VERSION}, sha256:…, for CI to install no other; several times for several.",
)
def command(folder: Path, forge: str, url: str, branch: str, hashes: tuple[str, ...]) -> None:
    """Write a repository of declarations to begin with: a sample platform, its schemas, and the forge's CI.

    DIR is empty, or a clone of an empty repository; nothing is ever overwritten. CI installs by requirements.lock, which needs
    --hash to be complete: no wheel holds its own hash.
    """
    from pydantic import ValidationError

    from allotment.declared.kinds.platform import Git

    try:
        Git.model_validate({"forge": forge, "url": url, "branch": branch})
    except ValidationError as error:
        raise click.UsageError(
            "; ".join(f"--{one['loc'][0]}: {one['msg']}" for one in error.errors(include_url=False))
        ) from None
    there = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if found := [name for name in there if name not in BESIDE]:
        raise Refused(f"{quoted(str(folder))} holds {quoted(found[0])}: name an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".allot-init-", dir=folder) as made:
        _write(Path(made), forge, url, branch)
        (Path(made) / LOCK).write_text(_lock(hashes), encoding="utf-8", newline="\n")
        for entry in sorted(Path(made).iterdir()):
            os.rename(entry, folder / entry.name)
    click.echo(
        f"{folder}: a sample platform, and CI for {forge}, which publishes whatever is pushed to {branch}. Before you push, make it"
        " yours: people in platform/ownership.yaml and tenants/*/members.yaml (the sample's logins are somebody's), then clusters/,"
        f" platform/ and tenants/. `cd {folder} && allot validate` says what is still wrong."
    )
    if not hashes:
        line = LOCK_HEAD.count("\n") + 1
        click.echo(
            f"CI installs nothing until line {line} of {folder / LOCK} has allotment's hash: run `pip download --no-deps "
            f"allotment=={VERSION}`, then `pip hash` on the file that it left, and add the --hash=… that it prints to the line."
        )


def _write(folder: Path, forge: str, url: str, branch: str) -> None:
    sample = _sample()
    for name in FOLDERS:
        shutil.copytree(sample / name, folder / name)
    path, workflow = WORKFLOWS[forge]
    for target, source in (
        (path, workflow),
        (".pre-commit-config.yaml", "pre-commit.yaml"),
        ("README.md", "README.md"),
    ):
        text = files("allotment.cli").joinpath("starter", source).read_text(encoding="utf-8")
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (folder / target).write_text(
            text.replace("@VERSION@", VERSION).replace("@BRANCH@", branch), encoding="utf-8", newline="\n"
        )
    _name_the_forge(folder / "platform/platform.yaml", forge, url, branch)


def _lock(hashes: tuple[str, ...]) -> str:
    """Return what CI installs: this version, first, and what this project itself is locked to."""
    ours = " \\\n    ".join([f"allotment=={VERSION}", *(f"--hash={one}" for one in hashes)])
    lines = (_sample() / "requirements-run.lock").read_text(encoding="utf-8").splitlines()
    return "\n".join([LOCK_HEAD + ours, *(line for line in lines if not line.lstrip().startswith("#")), ""])


def _name_the_forge(file: Path, forge: str, url: str, branch: str) -> None:
    """Write into the sample's platform where it lies; all three were found good."""
    from allotment.manifests.text import scalar

    values = {"forge": forge, "url": scalar(url), "branch": scalar(branch)}
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        key = line.strip().partition(":")[0]
        lines.append(f"    {key}: {values[key]}" if key in values and line.startswith("    ") else line)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _sample() -> Path:
    """Return where the sample lies: in the installed package, or in the checkout that this runs from."""
    packaged = Path(str(files("allotment"))) / "sample"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3]
