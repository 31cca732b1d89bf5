"""The JSON output of `allot portal build`."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class PortalBuildOutput(Output, frozen=True, kw_only=True, tag="PortalBuildOutput"):
    """The pages that were built: the folder, the commit of the declarations, and the numbers of pages.

    `pages` counts all pages, `changed` those that were written because they are new or changed, and `removed` those that were
    removed from the folder. The pages of the `failed_tenants` stay as they were because of a bug in Allotment.
    """

    folder: str
    commit: str
    pages: int
    changed: int
    removed: int
    failed_tenants: tuple[str, ...]
