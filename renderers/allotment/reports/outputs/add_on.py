"""The JSON output of `allot add-on`."""

from __future__ import annotations

from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.add_on import AddOn
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class AddOnPart(Part, frozen=True):
    """An add-on.

    `source` is the chart, or the folder of manifests; `version` is the chart's version, or the commit of the manifests.
    `clusters` is null if all clusters have the add-on. `was` is the version before an upgrade.
    """

    name: str
    path: str
    type: str
    source: str
    version: str
    digest: str | None
    namespace: str
    clusters: tuple[str, ...] | None
    wave: int
    was: str | None = None


class AddOnOutput(Output, frozen=True, kw_only=True, tag="AddOnOutput"):
    """The declared add-ons, or the upgraded add-on."""

    add_ons: tuple[AddOnPart, ...]


def add_on_part(add_on: DeclarationFile[AddOn], was: str | None = None) -> AddOnPart:
    """Return the output of an add-on."""
    spec = add_on.model.spec
    if spec.chart is not None:
        kind, source, digest = "Chart", f"{spec.chart.repo_url.rstrip('/')}/{spec.chart.name}", spec.chart.digest
    else:
        assert spec.manifests is not None
        kind, source, digest = "Manifests", f"{spec.manifests.repo_url.rstrip('/')}/{spec.manifests.path}", None
    clusters = tuple(spec.clusters) or None
    return output_of(
        AddOnPart,
        spec,
        name=add_on.model.name,
        path=add_on.path,
        type=kind,
        source=source,
        digest=digest,
        clusters=clusters,
        was=was,
    )
