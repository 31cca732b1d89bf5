"""Who approves what, as JSON."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class OwnedOutput(Part, frozen=True):
    """A pattern of paths, as platform/ownership.yaml has them, and the forge's names of who owns them, with `@`."""

    path: str
    owners: tuple[str, ...]


class OwnershipOutput(Output, frozen=True, kw_only=True, tag="OwnershipOutput"):
    """Who owns what: of the patterns that match a path the last counts, and the first, `**`, matches all."""

    paths: tuple[OwnedOutput, ...]
