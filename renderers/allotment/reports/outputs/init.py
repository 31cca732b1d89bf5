"""The JSON output of `allot init`."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class BlankOutput(Part, frozen=True):
    """A value that a person still has to fill in, and its purpose."""

    path: str
    line: int
    field: str
    description: str


class MissingImageOutput(Part, frozen=True):
    """An image without a declaration, because its registry gave no digest: the reason, and how to declare it later."""

    image: str
    reason: str
    remedy: str


class InitOutput(Output, frozen=True, kw_only=True, tag="InitOutput"):
    """A new repository in `folder`: its files, the values to fill in, and the next commands.

    After an upgrade of an existing repository, `files` are the changed files, and `changes` has the diff of each file.
    `missingImages` are the chosen images that are not declared.
    """

    folder: str
    files: tuple[str, ...]
    blanks: tuple[BlankOutput, ...]
    next: tuple[str, ...]
    changes: dict[str, str] | None = None
    missing_images: tuple[MissingImageOutput, ...] = ()
