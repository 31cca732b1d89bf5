"""The JSON output of `allot publish`."""

from __future__ import annotations

import msgspec

from allotment.observed.retention import RetentionReason
from allotment.output_part import Part
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.validate import ProblemOutput


class CommittedOutput(Part, frozen=True):
    """A cluster's branch that the publish moved, or would move. The lists contain rendered files. `replaced` is a
    commit that Allotment didn't write."""

    cluster: str
    branch: str
    commit: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    replaced: str | None


class KeptOutput(Part, frozen=True):
    """A tenant that keeps its last published manifests, with the reason and its problems."""

    tenant: str
    problems: tuple[ProblemOutput, ...]
    reason: RetentionReason


class RetainedClusterOutput(Part, frozen=True):
    """A cluster that keeps its last published manifests, with its problems. Its tenants are among `kept`."""

    cluster: str
    problems: tuple[ProblemOutput, ...]


class PublishOutput(Output, frozen=True, kw_only=True, tag="PublishOutput"):
    """A publish of the commit `source`, unless the newer commit `newer` was published already. With `dryRun`, nothing
    was written.

    `unchanged` are the clusters without changes. The other lists are messages: `waiting` about instances and changes
    that aren't published as declared, `holding` about pods that hold units without a claim, and `leaving` about
    deletions that take several steps.
    """

    source: str
    newer: str | None
    dry_run: bool
    committed: tuple[CommittedOutput, ...]
    unchanged: tuple[str, ...]
    retained_tenants: tuple[KeptOutput, ...] = msgspec.field(name="kept")
    waiting: tuple[str, ...]
    holding: tuple[str, ...]
    leaving: tuple[str, ...]
    warnings: tuple[ProblemOutput, ...]
    retained_clusters: tuple[RetainedClusterOutput, ...] = ()
