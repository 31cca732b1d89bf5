"""`allot app list`: shows the declared apps and the built-in catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options import find_repository, repository_option

if TYPE_CHECKING:
    from allotment.declared.inventory import DeclarationFile
    from allotment.declared.kinds.app import App
    from allotment.starter.apps import CatalogApp


@click.command("list")
@click.option(
    "-o",
    "--output",
    "style",
    type=click.Choice(["table", "json", "name"], case_sensitive=False),
    default="table",
    show_default=True,
    help="The output format; schemas/output/ has the JSON Schemas.",
)
@repository_option
def list_all(style: str, repo: Path | None) -> None:
    """Show the declared apps with their versions, and the apps of the built-in catalog that are not declared.

    The format `name` prints the names of the declared apps. The command reports unreadable files on standard error, and
    the exit status is then 1.

    \b
    Examples:
      allot app list
      allot app list -o json
    """
    from allotment.starter.apps import APPS

    declared, problems = _read_apps(find_repository(repo))
    if style == "json":
        _print_json(declared, list(APPS.values()))
    elif style == "name":
        for name in declared:
            click.echo(name)
    else:
        _print_table(declared, [app for app in APPS.values() if app.name not in declared])
    for problem in problems:
        click.echo(problem, err=True)
    raise click.exceptions.Exit(1 if problems else 0)


def _read_apps(root: Path) -> tuple[dict[str, DeclarationFile[App]], list[str]]:
    """Return the readable apps by name, and the problems of the unreadable apps."""
    from allotment.adapters.folder_source import FolderSource
    from allotment.declared.kinds.app import App
    from allotment.declared.layout import PLATFORM
    from allotment.declared.reading import read_folder

    source = FolderSource(root)
    paths = [path for path in source.files(PLATFORM).paths if path.startswith("platform/apps/")]
    folder, problems = read_folder(PLATFORM, [(path, source.read(path)) for path in paths])
    return dict(folder.of_kind(App)), [str(problem) for problem in sorted(problems)]


def _print_json(declared: dict[str, DeclarationFile[App]], catalog: list[CatalogApp]) -> None:
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.app import CatalogAppPart, app_output

    parts = tuple(
        CatalogAppPart(
            name=app.name,
            display_name=app.display_name,
            description=app.description,
            version=app.version,
            image=app.image,
            is_declared=app.name in declared,
            sources=app.sources,
        )
        for app in catalog
    )
    click.echo(as_json(app_output(declared, parts)), nl=False)


def _print_table(declared: dict[str, DeclarationFile[App]], available: list[CatalogApp]) -> None:
    from allotment.reports.sheets import Sheet, print_output, sanitize_value

    sheet = Sheet("APP", "VERSION", "LIFECYCLE", "IMAGE", long=("IMAGE",))
    rows = [
        (name, version.version, str(version.lifecycle), version.container.image)
        for name, app in declared.items()
        for version in app.model.spec.versions
    ]
    rows += [(entry.name, entry.version, "not declared", entry.image) for entry in available]
    for row in rows:
        sheet.add_row(*map(sanitize_value, row))
    print_output(sheet)
