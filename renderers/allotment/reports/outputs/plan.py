"""What a change would do, as JSON."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from allotment.diff.change_plan import (
    Action,
    ChangePlan,
    Destruction,
    Effect,
    QuotaChange,
    ResourceChange,
    UnitChange,
)
from allotment.diff.cold_starts import ColdStart
from allotment.diff.cost_diff import CostChange, CostDay
from allotment.diff.declaration_diff import DeclaredChange, Topic
from allotment.diff.file_diff import FileDiff
from allotment.diff.other_files import DecisionTopic, FileAction, OtherFile
from allotment.lifecycle.brake import BrakeExcess
from allotment.reports.outputs.output import Output, Part
from allotment.reports.outputs.stock import ColdStartOutput, cold_start_output
from allotment.reports.outputs.validate import ProblemOutput, problem_output
from allotment.reports.plan.rows import diff_lines

_DIGITS = 12  # of a fraction that has no end


class WorkTreeOutput(Part, frozen=True):
    """The folder that was planned: how many of its declared files differ from the commit that is checked out."""

    uncommitted: int


class LossOutput(Part, frozen=True):
    """Something that is destroyed: what, and how."""

    what: str
    words: str


class DeclaredOutput(Part, frozen=True):
    """A field that is declared otherwise; null where it has no value. Without `field` the whole file comes or goes.

    Of an address `field` is its URL, and the values say who may open it: Members or Public. An instance without
    an address has the `field` `address`, and both values are null.
    """

    topic: Topic
    path: str
    field: str
    before: str | None
    after: str | None
    note: str


class UnitsOutput(Part, frozen=True):
    """Units of a GPUSpec in a cluster; `free` is what is left after the change, below zero where it oversells."""

    cluster: str
    gpu_spec: str
    stock_before: int
    stock: int
    held_before: int
    held: int
    free: int


class ColdUnitsOutput(Part, frozen=True):
    """Units of a GPUSpec that instances take more of a cluster's stocks on nodes that Karpenter buys: so many start, and `warm` of
    them are kept ready by placeholders or lie on static nodes. For the rest a node comes first; where it isn't `alone`, a node that others use may
    have room. `coldStart` is how long such nodes took, null where that isn't known here."""

    cluster: str
    gpu_spec: str
    instances: tuple[str, ...]
    units: int
    warm: int
    alone: bool
    cold_start: ColdStartOutput | None


class QuotaOutput(Part, frozen=True):
    """How much of a quota a tenant uses; sizes are bytes; a limit is null where no plan says one."""

    tenant: str
    what: str
    before: Decimal
    after: Decimal
    limit_before: int | None
    limit: int | None


class CostDayOutput(Part, frozen=True):
    """What is paid a month from a day on."""

    day: str
    before: Decimal
    after: Decimal


class CostPartOutput(Part, frozen=True):
    """What a part of a tenant costs a month, today."""

    what: str
    before: Decimal
    after: Decimal


class OverBudgetOutput(Part, frozen=True):
    """From which day a budget is exceeded, and by how much; `denied` says whether that is refused."""

    day: str
    amount: Decimal
    denied: bool


class CostOutput(Part, frozen=True):
    """What a tenant pays a month: today, which is the first of `days`, and from each later day that a price changes it.

    `left` is what its budget leaves today; `overBudget` the first day on which the change exceeds it, or null. Where it isn't
    `valid`, what is published of it stays as it is.
    """

    tenant: str
    before: Decimal
    after: Decimal
    budget_before: Decimal | None
    budget: Decimal | None
    left: Decimal | None
    days: tuple[CostDayOutput, ...]
    parts: tuple[CostPartOutput, ...]
    over_budget: OverBudgetOutput | None
    valid: bool


class ThingOutput(Part, frozen=True):
    """An instance, storage or snapshot that changes, and why: the field of each file that makes it so. `effect` is on the pods
    of an instance, and null for a storage or snapshot."""

    tenant: str
    cluster: str
    kind: str
    name: str
    action: Action
    why: tuple[str, ...]
    effect: Effect | None = None


class DiffOutput(Part, frozen=True):
    """A file that changes, as a unified diff."""

    path: str
    diff: str


class BrakeOutput(Part, frozen=True):
    """A deletion that the brake will stop: it retains the tenant, or where that is null stops the publish for everybody.
    `words` say what to do. `checksum` approves the deletion; it is null where the published branches are not known here."""

    what: str
    deleted: int
    of: int
    max_deleted_percent: int
    words: str
    tenant: str | None = None
    checksum: str | None = None


class OutsideOutput(Part, frozen=True):
    """A file that changes outside the declarations, and what it decides: which program runs, what runs in CI, whom the forge
    asks to approve or shows them, what runs when somebody commits (hooks) or on a person's machine, what Argo CD and
    `allot run` are set up with; or nothing."""

    path: str
    written: FileAction
    decides: DecisionTopic


class FilesOutput(Part, frozen=True):
    """How many files change: declared ones, those outside the declarations, and rendered ones; `markers` of these only say
    that their folder changed."""

    declared: int
    outside: int
    added: int
    changed: int
    removed: int
    markers: int


class PlanOutput(Output, frozen=True, kw_only=True, tag="PlanOutput"):
    """What merging `head`, or the work tree on it, into `base` would change.

    `summary` says it in a line. `asOf` is the day whose prices count. `declared` has the first of `declaredCount` changes, and
    all of the topics access and approvals; `outside` the first of `outsideCount` files outside the declarations, those that
    decide something first; `totals` is without the tenants of `unpriced`, whose cost isn't known. `declarations` and `objects` have the first of the files that `files` counts.
    """

    verdict: str
    summary: str
    allowed: bool
    changes: bool
    base: str
    base_name: str
    head: str
    work_tree: WorkTreeOutput | None
    as_of: str
    currency: str
    checksum: str
    problems: tuple[ProblemOutput, ...]
    standing: int
    skipped: tuple[str, ...]
    brake: BrakeOutput | None
    losses: tuple[LossOutput, ...]
    perhaps_lost: tuple[LossOutput, ...]
    declared: tuple[DeclaredOutput, ...]
    declared_count: int
    urls: int
    costs: tuple[CostOutput, ...]
    totals: tuple[CostDayOutput, ...]
    unpriced: tuple[str, ...]
    things: tuple[ThingOutput, ...]
    units: tuple[UnitsOutput, ...]
    cold: tuple[ColdUnitsOutput, ...]
    quota: tuple[QuotaOutput, ...]
    outside: tuple[OutsideOutput, ...]
    outside_count: int
    files: FilesOutput
    declarations: tuple[DiffOutput, ...]
    objects: tuple[DiffOutput, ...]


def plan_output(plan: ChangePlan) -> PlanOutput:
    """Return a plan as it is printed."""
    files = plan.file_counts
    return PlanOutput(
        verdict=plan.verdict,
        summary=plan.summary,
        allowed=plan.is_allowed,
        changes=plan.has_changes,
        base=plan.base,
        base_name=plan.base_name,
        head=plan.head,
        work_tree=None if plan.work_tree is None else WorkTreeOutput(plan.work_tree.uncommitted),
        as_of=plan.day.isoformat(),
        currency=plan.currency,
        checksum=plan.checksum,
        problems=tuple(map(problem_output, plan.problems)),
        standing=plan.preexisting_problems,
        skipped=plan.skipped_checks,
        brake=None if plan.brake_excess is None else _brake_output(plan.brake_excess),
        losses=tuple(map(_loss_output, plan.destructions)),
        perhaps_lost=tuple(map(_loss_output, plan.possible_destructions)),
        declared=tuple(map(_declared_output, plan.declared_changes)),
        declared_count=plan.declared_count,
        urls=plan.url_count,
        costs=tuple(map(_cost_output, plan.cost_changes)),
        totals=tuple(map(_cost_day_output, plan.total_costs)),
        unpriced=plan.unpriced_tenants,
        things=tuple(map(_thing_output, plan.resource_changes)),
        units=tuple(map(_units_output, plan.unit_changes)),
        cold=tuple(map(_cold_units_output, plan.cold_starts)),
        quota=tuple(map(_quota_output, plan.quota_changes)),
        outside=tuple(map(_outside_output, plan.other_files.files)),
        outside_count=plan.other_files.total,
        files=FilesOutput(
            plan.declared_files, plan.other_files.total, files.added, files.changed, files.removed, files.markers
        ),
        declarations=tuple(map(_diff_output, plan.declaration_diffs)),
        objects=tuple(map(_diff_output, plan.object_diffs)),
    )


def _loss_output(loss: Destruction) -> LossOutput:
    return LossOutput(loss.subject, loss.message)


def _declared_output(change: DeclaredChange) -> DeclaredOutput:
    return DeclaredOutput(change.topic, change.path, change.field, change.before, change.after, change.note)


def _brake_output(excess: BrakeExcess) -> BrakeOutput:
    return BrakeOutput(
        what=excess.kind_plural,
        deleted=excess.deleted_count,
        of=excess.total,
        max_deleted_percent=excess.percent,
        words=excess.plan_message,
        tenant=excess.tenant or None,
        checksum=excess.checksum or None,
    )


def _outside_output(file: OtherFile) -> OutsideOutput:
    return OutsideOutput(file.path, file.action, file.topic)


def _cost_day_output(cost_day: CostDay) -> CostDayOutput:
    return CostDayOutput(cost_day.day.isoformat(), cost_day.before, cost_day.after)


def _cost_output(cost: CostChange) -> CostOutput:
    over = cost.over_budget
    return CostOutput(
        tenant=cost.tenant,
        before=cost.before,
        after=cost.after,
        budget_before=cost.budget_before,
        budget=cost.budget,
        left=cost.remaining_budget,
        days=tuple(map(_cost_day_output, cost.days)),
        parts=tuple(CostPartOutput(part.label, part.before, part.after) for part in cost.parts),
        over_budget=None if over is None else OverBudgetOutput(over.day.isoformat(), over.amount, over.is_denied),
        valid=cost.is_valid,
    )


def _thing_output(change: ResourceChange) -> ThingOutput:
    return ThingOutput(
        tenant=change.tenant,
        cluster=change.cluster,
        kind=change.kind,
        name=change.name,
        action=change.action,
        why=change.causes,
        effect=change.effect,
    )


def _units_output(units: UnitChange) -> UnitsOutput:
    return UnitsOutput(
        cluster=units.cluster,
        gpu_spec=units.gpu_spec,
        stock_before=units.stock_before,
        stock=units.stock,
        held_before=units.held_before,
        held=units.held,
        free=units.free,
    )


def _cold_units_output(cold_units: ColdStart) -> ColdUnitsOutput:
    return ColdUnitsOutput(
        cluster=cold_units.cluster,
        gpu_spec=cold_units.gpu_spec,
        instances=cold_units.instances,
        units=cold_units.unit_count,
        warm=cold_units.warm_units,
        alone=cold_units.is_one_per_node,
        cold_start=cold_start_output(cold_units.cold_start_time),
    )


def _quota_output(amount: QuotaChange) -> QuotaOutput:
    return QuotaOutput(
        amount.tenant,
        amount.dimension,
        _decimal_number(amount.before),
        _decimal_number(amount.after),
        amount.limit_before,
        amount.limit,
    )


def _decimal_number(amount: Fraction) -> Decimal:
    return round(Decimal(amount.numerator) / Decimal(amount.denominator), _DIGITS).normalize()


def _diff_output(diff: FileDiff) -> DiffOutput:
    return DiffOutput(diff.path, "\n".join(diff_lines(diff)))
