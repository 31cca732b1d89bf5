"""`allot add-on`: lists, declares and upgrades the programs that clusters run beside Allotment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.adapters.folder_source import FolderSource, write_checkout_file
from allotment.cli.completers import complete_add_ons, complete_ready_made_add_ons
from allotment.cli.options import find_repository, find_sample_folder, output_option, print_note, repository_option
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.declared.inventory import DeclarationFile
    from allotment.declared.kinds.add_on import AddOn

SHORT_COMMIT_LENGTH = 12  # a table shows this many digits of a commit's hash


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Show the programs that clusters run beside Allotment, add a program, and pin it to another version.

    \b
    Examples:
      allot add-on list
      allot add-on add cert-manager
      allot add-on upgrade cert-manager v1.21.3
    """


@command.command("list")
@output_option()
@repository_option
def list_all(style: str, repo: Path | None) -> None:
    """Show the declared add-ons and their pinned versions.

    The command reports unreadable files on standard error, and the exit status is then 1.

    \b
    Examples:
      allot add-on list
      allot add-on list -o json
    """
    declared_add_ons, problems = _read_add_ons(find_repository(repo))
    if style == "json":
        _print_json(*declared_add_ons.values())
    elif declared_add_ons:
        _print_table(declared_add_ons)
    else:
        print_note("no add-on is declared: declare an add-on in platform/add-ons/NAME.yaml, see `allot explain AddOn`")
    for problem in problems:
        click.echo(problem, err=True)
    raise click.exceptions.Exit(1 if problems else 0)


@command.command("add")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_ready_made_add_ons)
@output_option()
@repository_option
def add(names: tuple[str, ...], style: str, repo: Path | None) -> None:
    """Declare ready-made add-ons: write their files into platform/add-ons/, pinned to a version.

    Each is as Allotment needs it. Look at `spec.values`, and at `spec.clusters` where the file has it: both may name
    things of the sample. Nothing is committed: open a pull request with the files.

    \b
    Examples:
      allot add-on add cert-manager envoy-gateway nvidia-device-plugin
      allot add-on add karpenter
    """
    from allotment.declared.reading import suggest_name

    root, ready = find_repository(repo), list_ready_made()
    if unknown := next((name for name in names if name not in ready), None):
        raise OperationRefused(f"no ready-made add-on is named {quote_value(unknown)}{suggest_name(unknown, ready)}")
    paths = {name: f"platform/add-ons/{name}.yaml" for name in dict.fromkeys(names)}
    if existing_path := next((path for path in paths.values() if os.path.lexists(root / path)), None):
        raise OperationRefused(f"{existing_path} exists: `allot add-on upgrade` writes another version into it")
    for name, path in paths.items():
        write_checkout_file(root, path, ready[name].read_bytes())
    declared_add_ons = _read_add_ons(root)[0]
    if style == "json":
        _print_json(*(declared_add_ons[name] for name in paths))
        return
    for name, path in paths.items():
        spec = declared_add_ons[name].model.spec
        clusters = (
            f"; it names the clusters {', '.join(spec.clusters)}: replace them with yours" if spec.clusters else ""
        )
        print_note(f"{path}: {spec.version}{clusters}")


@command.command("upgrade")
@click.argument("name", shell_complete=complete_add_ons)
@click.argument("version")
@click.option(
    "--digest", metavar="sha256:…", help="The digest of the chart in its registry; required if the file has a digest."
)
@click.option(
    "--force",
    is_flag=True,
    help="Also accept an older version, which the kinds of a chart may not support, or a version with a different prefix v.",
)
@output_option()
@repository_option
def upgrade(name: str, version: str, digest: str | None, force: bool, style: str, repo: Path | None) -> None:
    """Write another version into the file of an add-on: an exact version of a chart, or a commit of manifests.

    The command changes nothing else in the file and commits nothing: open a pull request with the change. It does not check
    that the version exists and accepts the values; Argo CD and `helm template` do.

    \b
    Examples:
      allot add-on upgrade cert-manager v1.21.3
      allot add-on upgrade karpenter 1.14.2 --digest sha256:…
    """
    from allotment.declared.edit_version import check_version, is_older, with_version
    from allotment.declared.reading import suggest_name

    root = find_repository(repo)
    declared_add_ons, _ = _read_add_ons(root)
    if name not in declared_add_ons:
        raise OperationRefused(f"no add-on is named {quote_value(name)}{suggest_name(name, declared_add_ons)}")
    add_on = declared_add_ons[name]
    spec, was = add_on.model.spec, add_on.model.spec.version
    check_version(spec, version, digest)
    if spec.chart is not None and not force:
        if is_older(version, was):
            raise OperationRefused(f"{version} is older than {was}: add --force if its chart supports a downgrade")
        if version.startswith("v") != was.startswith("v"):
            like = version.removeprefix("v") if version.startswith("v") else f"v{version}"
            raise OperationRefused(
                f"{version} has a different prefix than {was}: write {like}, or add --force if the chart has version {version}"
            )
    write_checkout_file(root, add_on.path, with_version(add_on.data, version, digest))
    after = _read_add_ons(root)[0][name]
    if style == "json":
        _print_json(after, was=was)
    elif after.data == add_on.data:
        print_note(f"{add_on.path}: is {was} already")
    else:
        print_note(f"{add_on.path}: {was} → {version}")


def list_ready_made() -> dict[str, Path]:
    """Return the files of the ready-made add-ons, which come with Allotment, by name."""
    return {path.stem: path for path in sorted((find_sample_folder() / "platform/add-ons").glob("*.yaml"))}


def _read_add_ons(root: Path) -> tuple[dict[str, DeclarationFile[AddOn]], list[str]]:
    """Return the readable add-ons by name, and the problems of the unreadable add-ons."""
    from allotment.declared.kinds.add_on import AddOn
    from allotment.declared.layout import PLATFORM
    from allotment.declared.reading import read_folder

    source = FolderSource(root)
    paths = [path for path in source.files(PLATFORM).paths if path.startswith("platform/add-ons/")]
    folder, problems = read_folder(PLATFORM, [(path, source.read(path)) for path in paths])
    return dict(folder.of_kind(AddOn)), [str(problem) for problem in sorted(problems)]


def _print_json(*declared_add_ons: DeclarationFile[AddOn], was: str | None = None) -> None:
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.add_on import AddOnOutput, add_on_part

    click.echo(as_json(AddOnOutput(add_ons=tuple(add_on_part(add_on, was) for add_on in declared_add_ons))), nl=False)


def _print_table(declared_add_ons: dict[str, DeclarationFile[AddOn]]) -> None:
    from allotment.reports.outputs.add_on import add_on_part
    from allotment.reports.sheets import Sheet, print_output, sanitize_value

    sheet = Sheet("NAME", "VERSION", "WAVE", "NAMESPACE", "CLUSTERS", "SOURCE", long=("SOURCE",))
    for part in map(add_on_part, declared_add_ons.values()):
        version = part.version if part.type == "Chart" else part.version[:SHORT_COMMIT_LENGTH]
        clusters = ", ".join(part.clusters) if part.clusters else "all"
        cells = (part.name, version, part.wave, part.namespace, clusters, part.source)
        sheet.add_row(*map(sanitize_value, cells))
    print_output(sheet)
