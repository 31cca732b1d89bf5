"""The JSON output of `allot app list`."""

from __future__ import annotations

from collections.abc import Mapping

from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.app import App
from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class AppVersionPart(Part, frozen=True):
    """A declared version of an app."""

    version: str
    lifecycle: str
    replaced_by: str | None
    image: str


class DeclaredAppPart(Part, frozen=True):
    """A declared app, with its versions in the order of its file."""

    name: str
    path: str
    display_name: str | None
    versions: tuple[AppVersionPart, ...]


class CatalogAppPart(Part, frozen=True):
    """An app of the built-in catalog. `isDeclared` says whether an app with this name is declared.

    `image` has no digest: `allot app add` asks the registry for it. `sources` are the URLs of its documentation.
    """

    name: str
    display_name: str
    description: str
    version: str
    image: str
    is_declared: bool
    sources: tuple[str, ...]


class AppOutput(Output, frozen=True, kw_only=True, tag="AppOutput"):
    """The declared apps, and the built-in catalog."""

    apps: tuple[DeclaredAppPart, ...]
    catalog: tuple[CatalogAppPart, ...]


def app_output(declared: Mapping[str, DeclarationFile[App]], catalog: tuple[CatalogAppPart, ...]) -> AppOutput:
    """Return the output for some declared apps, by name, and the apps of the catalog."""
    return AppOutput(apps=tuple(map(_declared_part, declared.values())), catalog=catalog)


def _declared_part(app: DeclarationFile[App]) -> DeclaredAppPart:
    versions = tuple(
        AppVersionPart(version.version, version.lifecycle, version.replaced_by, version.container.image)
        for version in app.model.spec.versions
    )
    return DeclaredAppPart(app.model.name, app.path, app.model.spec.display_name, versions)
