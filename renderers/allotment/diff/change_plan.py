"""Define a plan: the effects of a change, computed before anybody merges it."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import msgspec

from allotment.capacity.pricing import format_money, format_signed
from allotment.diff.cold_starts import ColdStart
from allotment.diff.cost_diff import CostChange, CostDay
from allotment.diff.declared_change import NEVER_TRUNCATED, TOPICS, DeclaredChange, Topic
from allotment.diff.file_diff import NO_FILES, FileDiff, FilesOutput
from allotment.diff.month_forecast import MonthForecast
from allotment.diff.other_files import NO_OTHER_FILES, TOPIC_TEXT, OtherFiles
from allotment.diff.self_service import SelfServiceFacts
from allotment.lifecycle.brake import BrakeExcess
from allotment.output_part import Part
from allotment.problems import Problem, pluralize

MAX_NAMED_TENANTS = 3  # a summary names at most this many tenants
_SEPARATOR = " · "
Action = Literal["added", "changed", "replaced", "removed"]
Effect = Literal["starts", "stops", "restarts", "keeps running", "waits", "stays stopped"]
ACTIONS: tuple[Action, ...] = ("added", "changed", "replaced", "removed")


Loss = Literal["Data", "OwnDisk", "Mark"]


class LossOutput(Part, frozen=True):
    """A destruction: its subject, and a description.

    `loss` is `OwnDisk` if an instance loses only its own disk, `Mark` if a later merge may delete the subject, and `Data`
    otherwise.
    """

    subject: str = msgspec.field(name="what")
    message: str = msgspec.field(name="words")
    loss: Loss = "Data"


class UnitsOutput(Part, frozen=True):
    """Units of a GPUSpec in a cluster: declared in stocks, and held by instances, before and after the change.

    `free` is the number of units that are free after the change; it is negative if more units are held than the stocks
    have.
    """

    cluster: str
    gpu_spec: str
    stock_before: int
    stock: int
    held_before: int
    held_units: int = msgspec.field(name="held")
    free: int


class QuotaOutput(Part, frozen=True):
    """A tenant's use of one part of its quota, before and after the change.

    `what` is the part, such as a GPU model. Sizes are in bytes. A limit is null if the tenant's tariff plan is
    absent or can't be read.
    """

    tenant: str
    dimension: str = msgspec.field(name="what")
    before: Fraction
    after: Fraction
    limit_before: int | None
    limit: int | None


class ResourceChange(Part, frozen=True, kw_only=True):
    """An instance, storage or snapshot that changes.

    `why` lists the causes: the changed fields in the file of the resource, or in the files that the resource depends
    on. `effect` is the effect on the pods of an instance, and null for a storage or snapshot.
    """

    tenant: str
    cluster: str
    kind: str
    name: str
    action: Action
    causes: tuple[str, ...] = msgspec.field(name="why")
    effect: Effect | None = None

    @property
    def subject(self) -> str:
        """The subject of the losses of the resource."""
        return f"{self.kind} {self.tenant}/{self.name} in {self.cluster}"


class WorkTree(Part, frozen=True):
    """The working tree that a plan compares with the base.

    `uncommitted` is the number of its declarations that differ from the checked-out commit.
    """

    uncommitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The effects of a change. `base` and `head` are commits.

    `problems` are the problems that the change causes. `preexisting_problems` is the number of problems that the base
    has too. `missing_approvals` has the entries of `problems` that an approval solves; None if approvals were not
    checked.

    Costs are computed with the prices of `day`, and with each later price from the day on which the price starts.
    `is_today` says whether `day` is the current date. If `work_tree` is set, the change is the content of a working
    tree, and `head` is the commit that is checked out in it. `base_name` is the name of the base.

    `declared_changes` has all changed fields that affect access or approvals, and the first changed fields of each
    other topic. `declared_count` is the number of all changed fields. `url_count` is the number of existing URLs that
    change or close although their resource remains.

    `month_forecasts` has the costs of these tenants in the current month; it is empty if no usage is recorded.
    `total_costs` is the total cost of the tenants in `cost_changes`. The costs of `unpriced_tenants` are unknown.
    `cold_starts` has the units that must wait for a node when they start. If a tenant or the platform is invalid at the
    base, its losses are unknown, and an entry of `possible_destructions` names it.

    `files` has the numbers of changed files. `object_diffs` has the first changed rendered files, and `declaration_diffs` has
    the first changed declarations. `other_files` are the other changed files of the repository. `brake_excess` is the first deletion that the brake will refuse;
    `problems` has all deletions that the brake will refuse. `skipped_checks` names the checks that did not run.
    `self_service` has the facts about a merge without a second person; None if the base declares no self service.
    """

    base: str
    head: str
    day: datetime.date
    currency: str
    base_name: str = ""
    is_today: bool = True
    work_tree: WorkTree | None = None
    problems: tuple[Problem, ...] = ()
    missing_approvals: tuple[Problem, ...] | None = None
    preexisting_problems: int = 0
    destructions: tuple[LossOutput, ...] = ()
    possible_destructions: tuple[LossOutput, ...] = ()
    declared_changes: tuple[DeclaredChange, ...] = ()
    declared_count: int = 0
    url_count: int = 0
    unit_changes: tuple[UnitsOutput, ...] = ()
    cold_starts: tuple[ColdStart, ...] = ()
    quota_changes: tuple[QuotaOutput, ...] = ()
    cost_changes: tuple[CostChange, ...] = ()
    total_costs: tuple[CostDay, ...] = ()
    month_forecasts: tuple[MonthForecast, ...] = ()
    unpriced_tenants: tuple[str, ...] = ()
    resource_changes: tuple[ResourceChange, ...] = ()
    declaration_diffs: tuple[FileDiff, ...] = ()
    other_files: OtherFiles = NO_OTHER_FILES
    brake_excess: BrakeExcess | None = None
    object_diffs: tuple[FileDiff, ...] = ()
    files: FilesOutput = NO_FILES
    checksum: str = ""
    skipped_checks: tuple[str, ...] = ()
    self_service: SelfServiceFacts | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Return the problems that are not warnings."""
        return tuple(problem for problem in self.problems if not problem.warning)

    @property
    def is_allowed(self) -> bool:
        """Return whether the plan has no errors."""
        return not self.errors

    @property
    def has_changes(self) -> bool:
        """Return whether any file changes."""
        return bool(self.files.total or self.declaration_diffs or self.other_files.total)

    @property
    def verdict(self) -> str:
        """Return whether the change can be merged, as text."""
        if self.errors:
            return f"can't be merged: {pluralize(len(self.errors), 'problem')}"
        return "can be merged" if self.has_changes or self.possible_destructions else "changes nothing"

    @property
    def summary(self) -> str:
        """Return the most important effects in one line."""
        return _SEPARATOR.join(summary_parts(self))

    @property
    def destruction_groups(self) -> list[tuple[str, tuple[LossOutput, ...]]]:
        """Return the destructions, the marks for deletion and the possible destructions, each with a title."""
        groups = (
            ("Destroyed", tuple(loss for loss in self.destructions if loss.loss != "Mark")),
            ("Marked for deletion", tuple(loss for loss in self.destructions if loss.loss == "Mark")),
            ("Perhaps destroyed", self.possible_destructions),
        )
        return [(title, losses) for title, losses in groups if losses]

    def summary_within(self, limit: int) -> str:
        """Return as many parts of the summary as fit into `limit` characters, at least the first."""
        parts = summary_parts(self)
        while len(parts) > 1 and len(_SEPARATOR.join(parts)) > limit:
            del parts[-1]
        return _SEPARATOR.join(parts)

    def changes_of_topics(self, *topics: Topic) -> tuple[DeclaredChange, ...]:
        """Return the declared changes that belong to one of the topics."""
        return tuple(change for change in self.declared_changes if change.topic in topics)


def summary_parts(plan: ChangePlan) -> list[str]:
    """Return the parts of a plan's summary, the most important first."""
    actions = Counter(change.action for change in plan.resource_changes)
    parts = [plan.verdict]
    if plan.brake_excess:
        effect = (
            f"retain tenant {plan.brake_excess.tenant}"
            if plan.brake_excess.tenant
            else "stop publishing for all tenants"
        )
        parts.append(f"⚠ the brake will stop it, and {effect}")
    parts += [f"{actions[action]:,} {action}" for action in ACTIONS if actions[action]]
    marks = sum(loss.loss == "Mark" for loss in plan.destructions)
    losses = len(plan.destructions) - marks
    parts += [
        f"{count:,} {effect}" for count, effect in ((losses, "destroyed"), (marks, "marked for deletion")) if count
    ]
    if plan.possible_destructions:
        parts.append("perhaps more destroyed" if losses else "perhaps something destroyed")
    parts += [f"⚠ {topic}" for topic in NEVER_TRUNCATED if plan.changes_of_topics(topic)]
    if decided := [TOPIC_TEXT[decision] for decision, *_ in plan.other_files.decisive_topics]:
        parts.append(f"⚠ changes {', '.join(decided)}")
    counted_apart = (*NEVER_TRUNCATED, "addresses")
    if topics := [topic for topic in TOPICS if topic not in counted_apart and plan.changes_of_topics(topic)]:
        parts.append(f"{', '.join(topics)} changed")
    if plan.url_count:
        parts.append(f"{pluralize(plan.url_count, 'URL')} changed")
    if plan.other_files.total:
        parts.append(f"{pluralize(plan.other_files.total, 'file')} outside the declarations")
    parts += _cost_summary(plan)
    over = [(cost, excess) for cost in plan.cost_changes if (excess := cost.over_budget)]
    for cost, excess in over[:MAX_NAMED_TENANTS]:
        since = "" if excess.day == cost.days[0].day else f" from {excess.day}"
        parts.append(f"{cost.tenant} {format_money(excess.amount)} over budget{since}")
    if len(over) > MAX_NAMED_TENANTS:
        parts.append(f"{len(over) - MAX_NAMED_TENANTS:,} more over budget")
    near = [each for each in plan.month_forecasts if each.is_near_budget and each.after > each.before]
    parts += [
        f"⚠ {each.tenant} uses {each.percent} % of its budget in {each.month}" for each in near[:MAX_NAMED_TENANTS]
    ]
    if len(near) > MAX_NAMED_TENANTS:
        parts.append(f"{len(near) - MAX_NAMED_TENANTS:,} more use most of their budget")
    return parts


def _cost_summary(plan: ChangePlan) -> Iterator[str]:
    """Yield the change of today's total cost. If this cost stays the same, yield the first later change and its day."""
    for at, cost_day in enumerate(plan.total_costs):
        if cost_day.before != cost_day.after:
            since = f" from {cost_day.day}" if at else ""
            yield f"{format_signed(cost_day.after - cost_day.before)} {plan.currency}/month{since}"
            return


def problems_caused(
    problems: Iterable[Problem], runtime_state: Iterable[Problem], paths: Iterable[str]
) -> list[Problem]:
    """Return the problems that a change causes: new problems, and all errors in the files that the change touches.

    A problem is new if `runtime_state`, the problems at the base, does not contain it. A problem that only moved to
    another line is not new.
    """
    base_keys = {(problem.path, problem.field, problem.message, problem.rule) for problem in runtime_state}
    touched = frozenset(paths)
    return [
        problem
        for problem in problems
        if (problem.path, problem.field, problem.message, problem.rule) not in base_keys
        or (problem.path in touched and not problem.warning)
    ]
