"""The JSON output of `allot plan`."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import msgspec

from allotment import API_VERSION
from allotment.diff.change_plan import ChangePlan, QuotaChange, ResourceChange, WorkTree
from allotment.diff.cold_starts import ColdStart
from allotment.diff.cost_diff import CostDay, CostPart
from allotment.diff.declaration_diff import DeclaredChange
from allotment.diff.file_diff import FileDiff
from allotment.diff.other_files import OtherFile
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of
from allotment.reports.outputs.validate import ProblemOutput
from allotment.reports.plan.rows import diff_lines

_DIGITS = 12  # decimal places of a fraction


class LossOutput(Part, frozen=True):
    """A destruction: its subject, and a description."""

    subject: str = msgspec.field(name="what")
    message: str = msgspec.field(name="words")


class UnitsOutput(Part, frozen=True):
    """Units of a GPUSpec in a cluster. `free` is the number left after the change, negative if it oversells."""

    cluster: str
    gpu_spec: str
    stock_before: int
    stock: int
    held_before: int
    held_units: int = msgspec.field(name="held")
    free: int


class QuotaOutput(Part, frozen=True):
    """A tenant's use of a part of its quota. Sizes are in bytes. A limit is null if no plan sets it."""

    tenant: str
    dimension: str = msgspec.field(name="what")
    before: Decimal
    after: Decimal
    limit_before: int | None
    limit: int | None


class OverBudgetOutput(Part, frozen=True):
    """The first day on which the cost exceeds the budget, and by how much. `denied` is true if the budget refuses
    that."""

    day: datetime.date
    amount: Decimal
    is_denied: bool = msgspec.field(name="denied")


class CostOutput(Part, frozen=True):
    """A tenant's monthly cost: today, which is the first of `days`, and from each later day on which a price changes
    it.

    `left` is the rest of its budget today. `overBudget` is the first day on which the change exceeds the budget, or
    null. If `valid` is false, the tenant keeps its last published manifests.
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
    """A changed file, as a unified diff."""

    path: str
    diff: str


class BrakeOutput(Part, frozen=True):
    """A deletion that the brake will refuse. It retains `tenant`, or stops the publish for all tenants if `tenant`
    is null. `words` describe the remedy. `checksum` approves the deletion; it is null if the published branches are
    unknown here."""

    kind_plural: str = msgspec.field(name="what")
    deleted_count: int = msgspec.field(name="deleted")
    total: int = msgspec.field(name="of")
    percent: int = msgspec.field(name="maxDeletedPercent")
    plan_message: str = msgspec.field(name="words")
    tenant: str | None = None
    checksum: str | None = None


class FilesOutput(Part, frozen=True):
    """The numbers of changed files: declarations, files outside the declarations, and rendered files. `markers`
    counts the rendered files that only mark a change of their folder."""

    declared: int
    outside: int
    added: int
    changed: int
    removed: int
    markers: int


class PlanOutput(Output, frozen=True, kw_only=True, tag="PlanOutput"):
    """The effects of merging `head`, or the work tree based on it, into `base`.

    `summary` describes them in a line. `asOf` is the day of the prices. `declared` has the first of `declaredCount`
    changes, and all changes of access and approvals. `outside` has the first of `outsideCount` files outside the
    declarations, the most influential files first. `totals` excludes the tenants of `unpriced`, whose cost is unknown.
    `declarations` and `objects` have the first of the files that `files` counts.
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


def plan_output(plan: ChangePlan) -> PlanOutput:
    """Return the output of a plan."""
    other, files = plan.other_files, plan.file_counts
    return output_of(
        PlanOutput,
        plan,
        api_version=API_VERSION,
        quota_changes=tuple(map(_quota_output, plan.quota_changes)),
        outside=other.files,
        outside_count=other.total,
        files=output_of(FilesOutput, files, declared=plan.declared_files, outside=other.total),
        declaration_diffs=tuple(map(_diff_output, plan.declaration_diffs)),
        object_diffs=tuple(map(_diff_output, plan.object_diffs)),
    )


def _quota_output(amount: QuotaChange) -> QuotaOutput:
    before, after = _decimal_number(amount.before), _decimal_number(amount.after)
    return output_of(QuotaOutput, amount, before=before, after=after)


def _decimal_number(amount: Fraction) -> Decimal:
    return round(Decimal(amount.numerator) / Decimal(amount.denominator), _DIGITS).normalize()


def _diff_output(diff: FileDiff) -> DiffOutput:
    return DiffOutput(diff.path, "\n".join(diff_lines(diff)))
