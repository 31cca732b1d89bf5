"""The JSON output of `allot plan`."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec

from allotment import API_VERSION
from allotment.declared.kinds.plan import SelfServiceChange
from allotment.diff.change_plan import ChangePlan, LossOutput, QuotaOutput, ResourceChange, UnitsOutput, WorkTree
from allotment.diff.cold_starts import ColdStart
from allotment.diff.cost_diff import CostDay, CostPart, OverBudgetOutput
from allotment.diff.declared_change import DeclaredChange
from allotment.diff.file_diff import FileDiff, FilesOutput
from allotment.diff.merge_verdict import waiting_reasons
from allotment.diff.month_forecast import MonthForecast
from allotment.diff.other_files import OtherFile
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of
from allotment.reports.outputs.validate import ProblemOutput
from allotment.reports.plan.rows import diff_lines


class CostOutput(Part, frozen=True):
    """A tenant's monthly cost before and after the change.

    `before` and `after` are the cost at today's prices. `days` has the cost from today on, and the cost from each of
    the first later days on which the cost changes because a new price starts. `left` is the rest of the budget today, after the change.
    `overBudget` is null if the change causes no excess over the budget. If `valid` is false, the tenant has errors and
    stays at its last published manifests.
    """

    tenant: str
    before: Decimal
    after: Decimal
    budget_before: Decimal | None
    budget: Decimal | None
    remaining_budget: Decimal | None = msgspec.field(name="left")
    days: tuple[CostDay, ...]
    parts: tuple[CostPart, ...]
    over_budget: OverBudgetOutput | None
    is_valid: bool = msgspec.field(name="valid")


class DiffOutput(Part, frozen=True):
    """A changed file, with its changes as a unified diff."""

    path: str
    diff: str


class BrakeOutput(Part, frozen=True):
    """A deletion that the brake will refuse.

    If `tenant` is set, the brake retains this tenant: the tenant stays at its last published manifests. If `tenant` is
    null, the brake stops the publish for all tenants. `words` describe the refusal and the remedy. `checksum` is the
    checksum that approves the deletion; it is null if the command doesn't know the published branches.
    """

    kind_plural: str = msgspec.field(name="what")
    deleted_count: int = msgspec.field(name="deleted")
    total: int = msgspec.field(name="of")
    percent: int = msgspec.field(name="maxDeletedPercent")
    plan_message: str = msgspec.field(name="words")
    tenant: str | None = None
    checksum: str | None = None


class SelfServiceOutput(Part, frozen=True):
    """Whether the change merges without a second person, the kinds of change, and the reasons why it waits for a person."""

    merges: bool
    plan: str
    changes: tuple[SelfServiceChange, ...]
    reasons: tuple[str, ...]


class PlanOutput(Output, frozen=True, kw_only=True, tag="PlanOutput"):
    """The effects of merging `head`, or the work tree based on `head`, into `base`.

    `summary` describes the effects in a line. `asOf` is the day of the prices. `totals` is the cost of all tenants in
    `costs`; it excludes the tenants in `unpriced`, because their cost is unknown. `monthForecasts` has the cost of the current month; it is empty if no usage is
    recorded.

    Some lists are truncated. `declared` contains every change that affects access or approvals, but only the first
    changes of each other topic; `declaredCount` counts all changes. `outside` contains changed files outside the declarations.
    It contains only the first files of each topic, such as CI, with the most important topic first; `outsideCount`
    counts all changed files outside the declarations. `declarations` contains the diffs of the first changed
    declarations, and `objects` contains the diffs of the first changed rendered files; `files` counts all changed
    files. `selfService` is null if the base declares no self service.
    """

    verdict: str
    summary: str
    is_allowed: bool = msgspec.field(name="allowed")
    has_changes: bool = msgspec.field(name="changes")
    base: str
    base_name: str
    head: str
    work_tree: WorkTree | None
    day: datetime.date = msgspec.field(name="asOf")
    currency: str
    checksum: str
    problems: tuple[ProblemOutput, ...]
    preexisting_problems: int = msgspec.field(name="standing")
    skipped_checks: tuple[str, ...] = msgspec.field(name="skipped")
    brake_excess: BrakeOutput | None = msgspec.field(name="brake")
    destructions: tuple[LossOutput, ...] = msgspec.field(name="losses")
    possible_destructions: tuple[LossOutput, ...] = msgspec.field(name="perhapsLost")
    declared_changes: tuple[DeclaredChange, ...] = msgspec.field(name="declared")
    declared_count: int
    url_count: int = msgspec.field(name="urls")
    cost_changes: tuple[CostOutput, ...] = msgspec.field(name="costs")
    total_costs: tuple[CostDay, ...] = msgspec.field(name="totals")
    month_forecasts: tuple[MonthForecast, ...]
    unpriced_tenants: tuple[str, ...] = msgspec.field(name="unpriced")
    resource_changes: tuple[ResourceChange, ...] = msgspec.field(name="things")
    unit_changes: tuple[UnitsOutput, ...] = msgspec.field(name="units")
    cold_starts: tuple[ColdStart, ...] = msgspec.field(name="cold")
    quota_changes: tuple[QuotaOutput, ...] = msgspec.field(name="quota")
    outside: tuple[OtherFile, ...]
    outside_count: int
    files: FilesOutput
    declaration_diffs: tuple[DiffOutput, ...] = msgspec.field(name="declarations")
    object_diffs: tuple[DiffOutput, ...] = msgspec.field(name="objects")
    self_service: SelfServiceOutput | None


def plan_output(plan: ChangePlan) -> PlanOutput:
    """Return the output of a plan."""
    other, facts, reasons = plan.other_files, plan.self_service, waiting_reasons(plan)
    return output_of(
        PlanOutput,
        plan,
        api_version=API_VERSION,
        outside=other.files,
        outside_count=other.total,
        declaration_diffs=tuple(map(_diff_output, plan.declaration_diffs)),
        object_diffs=tuple(map(_diff_output, plan.object_diffs)),
        self_service=SelfServiceOutput(not reasons and facts.is_reviewed, facts.plan, facts.changes, reasons)
        if facts
        else None,
    )


def _diff_output(diff: FileDiff) -> DiffOutput:
    return DiffOutput(diff.path, "\n".join(diff_lines(diff)))
