"""The JSON output of `allot publish`."""

from __future__ import annotations

import msgspec

from allotment.observed.retention import RetentionReason
from allotment.output_part import Part
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.validate import ProblemOutput


class CommittedOutput(Part, frozen=True):
    """A commit that the publish made, or would make, on a cluster's rendered branch.

    `added`, `changed` and `removed` are paths of rendered files. `replaced` is the foreign commit that was at the tip
    of the branch; it is null if the tip was a commit by Allotment.
    """

    cluster: str
    branch: str
    commit: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    replaced: str | None


class KeptOutput(Part, frozen=True):
    """A tenant that stays at its last published manifests, the reason, and the problems that caused the retention."""

    tenant: str
    problems: tuple[ProblemOutput, ...]
    reason: RetentionReason


class RetainedClusterOutput(Part, frozen=True):
    """A cluster that stays at its last published manifests, with its problems.

    The tenants of the cluster are in `kept`.
    """

    cluster: str
    problems: tuple[ProblemOutput, ...]


class PublishOutput(Output, frozen=True, kw_only=True, tag="PublishOutput"):
    """A publish of the commit `source`. With `dryRun`, nothing was written.

    If `newer` is set, this newer commit was already published, so the command did not publish `source`. `committed` are
    the clusters with changes, and `unchanged` the clusters without changes. `kept` are the retained tenants.

    The other lists contain messages: `waiting` about instances and changes that aren't published as declared yet,
    `holding` about pods that hold units without a claim for them, and `leaving` about deletions that take several
    steps.
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
