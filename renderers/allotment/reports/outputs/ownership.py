"""The JSON output of `allot ownership`."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class OwnedOutput(Part, frozen=True):
    """A pattern of paths, as in platform/ownership.yaml, and the names of its owners on the forge, with `@`."""

    path: str
    owners: tuple[str, ...]


class OwnershipOutput(Output, frozen=True, kw_only=True, tag="OwnershipOutput"):
    """The owners of paths. If several patterns match a path, the last pattern applies.

    The first pattern, `**`, matches all paths.
    """

    paths: tuple[OwnedOutput, ...]
