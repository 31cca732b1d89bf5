"""A plan: what a change would do, in figures and words, before anybody merges it."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from allotment.accounts.pricing import money_text, signed
from allotment.changes.brake import Excess
from allotment.changes.cold import ColdUnits
from allotment.changes.declared import NEVER_CUT, TOPICS, DeclaredChange, Topic
from allotment.changes.files import NO_FILES, Diff, FileCounts
from allotment.changes.money import CostChange, CostDay
from allotment.changes.outside import NOTHING_OUTSIDE, WORDS, Outside
from allotment.problems import Problem, counted

NAMED = 3  # tenants in a summary
_JOINT = " · "
Action = Literal["added", "changed", "replaced", "removed"]
Effect = Literal["starts", "stops", "restarts", "keeps running", "waits", "stays stopped"]
ACTIONS: tuple[Action, ...] = ("added", "changed", "replaced", "removed")


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that is destroyed: data, or what runs. `what` names it, `words` say how it is destroyed. `volume` is the
    cluster, tenant, kind and name of a volume that is deleted."""

    what: str
    words: str
    volume: tuple[str, str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Units:
    """Units of a GPUSpec in a cluster: declared stock, and held by instances, before and after."""

    cluster: str
    gpu_spec: str
    stock_before: int
    stock: int
    held_before: int
    held: int

    @property
    def free(self) -> int:
        """The units that are left after the change; below zero where it oversells."""
        return self.stock - self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of a tenant's quota is used: of `what`, before, after, and at most (None where nothing limits it), now and
    before."""

    tenant: str
    what: str
    before: Fraction
    after: Fraction
    limit: int | None
    limit_before: int | None
    is_size: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ThingChange:
    """An instance or storage of a tenant in a cluster that changes, and why. `effect` is on the pods of an instance."""

    tenant: str
    cluster: str
    kind: str
    name: str
    action: Action
    why: tuple[str, ...] = ()
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The folder that was planned, as it is: how many of its declared files differ from the commit that is checked out."""

    uncommitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a change does. `base` and `head` are commits; `problems` are those that it causes, `standing` counts
    those that the base has already.

    `missing_approvals` are those of `problems` that an approval solves, None where nobody's approval was asked for.

    `is_today` says whether `day`, whose prices count, is today.
    Where `work_tree` is given, `head` is the commit that is checked out there. `base_name` is what the base is called.
    `declared` has what is declared otherwise: all that opens something to somebody or says who approves, and of the rest the
    first; `declared_count` counts all. `urls` counts the URLs, of what stays, that are gone, lie elsewhere or open to others.
    `totals` is what the tenants of `costs` pay together; what `unpriced` tenants pay isn't known.
    `cold` has the units that start where none is kept warm. `perhaps_lost` is what couldn't be compared, and may be destroyed too.
    `files` counts all rendered files that change; `objects` holds the first of them, `declarations` those of the
    repository, `outside` what it writes beside them. `brake` is the deletion that the
    brake will stop; `problems` has all of them. `skipped` says in words which check didn't run.
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
    standing: int = 0
    losses: tuple[Loss, ...] = ()
    perhaps_lost: tuple[Loss, ...] = ()
    declared: tuple[DeclaredChange, ...] = ()
    declared_count: int = 0
    urls: int = 0
    units: tuple[Units, ...] = ()
    cold: tuple[ColdUnits, ...] = ()
    quota: tuple[Amount, ...] = ()
    costs: tuple[CostChange, ...] = ()
    totals: tuple[CostDay, ...] = ()
    unpriced: tuple[str, ...] = ()
    things: tuple[ThingChange, ...] = ()
    declarations: tuple[Diff, ...] = ()
    declared_files: int = 0
    outside: Outside = NOTHING_OUTSIDE
    brake: Excess | None = None
    objects: tuple[Diff, ...] = ()
    files: FileCounts = NO_FILES
    checksum: str = ""
    skipped: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that aren't warnings."""
        return tuple(problem for problem in self.problems if not problem.warning)

    @property
    def allowed(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.errors

    @property
    def changes(self) -> bool:
        """Whether anything is another afterwards."""
        return bool(self.files.total or self.declarations or self.outside.total)

    @property
    def verdict(self) -> str:
        """Whether it can be merged."""
        if self.errors:
            return f"can't be merged: {counted(len(self.errors), 'problem')}"
        return "can be merged" if self.changes or self.perhaps_lost else "changes nothing"

    @property
    def summary(self) -> str:
        """What a person needs to know first, in a line."""
        return _JOINT.join(summary_of(self))

    def summary_within(self, limit: int) -> str:
        """Return as many of the summary's parts as so many characters hold, the first at least."""
        parts = summary_of(self)
        while len(parts) > 1 and len(_JOINT.join(parts)) > limit:
            del parts[-1]
        return _JOINT.join(parts)

    def of_topics(self, *topics: Topic) -> tuple[DeclaredChange, ...]:
        """Return what is declared otherwise of some topics."""
        return tuple(change for change in self.declared if change.topic in topics)


def summary_of(plan: Plan) -> list[str]:
    """Return the parts of a plan's summary, what decides first."""
    actions = Counter(change.action for change in plan.things)
    parts = [plan.verdict]
    if plan.brake:
        effect = f"retain tenant {plan.brake.tenant}" if plan.brake.tenant else "publish nothing for anybody"
        parts.append(f"⚠ the brake will stop it, and {effect}")
    parts += [f"{actions[action]:,} {action}" for action in ACTIONS if actions[action]]
    if plan.losses:
        parts.append(f"{len(plan.losses):,} destroyed")
    if plan.perhaps_lost:
        parts.append("perhaps more destroyed" if plan.losses else "perhaps something destroyed")
    parts += [f"⚠ {topic}" for topic in NEVER_CUT if plan.of_topics(topic)]
    if decided := [WORDS[decision] for decision, *_ in plan.outside.decisive]:
        parts.append(f"⚠ changes {', '.join(decided)}")
    counted_apart = (*NEVER_CUT, "addresses")
    if topics := [topic for topic in TOPICS if topic not in counted_apart and plan.of_topics(topic)]:
        parts.append(f"{', '.join(topics)} changed")
    if plan.urls:
        parts.append(f"{counted(plan.urls, 'URL')} changed")
    if plan.outside.total:
        parts.append(f"{counted(plan.outside.total, 'file')} outside the declarations")
    parts += _money(plan)
    over = [excess for cost in plan.costs if (excess := cost.excess)]
    for excess in over[:NAMED]:
        since = "" if excess.is_now else f" from {excess.day}"
        parts.append(f"{excess.tenant} {money_text(excess.amount)} over budget{since}")
    if len(over) > NAMED:
        parts.append(f"{len(over) - NAMED:,} more over budget")
    return parts


def _money(plan: Plan) -> Iterator[str]:
    """Yield by how much the cost changes today, or else from when on it does."""
    for at, cost_day in enumerate(plan.totals):
        if cost_day.before != cost_day.after:
            since = f" from {cost_day.day}" if at else ""
            yield f"{signed(cost_day.after - cost_day.before)} {plan.currency}/month{since}"
            return


def caused(problems: Iterable[Problem], standing: Iterable[Problem], paths: Iterable[str]) -> list[Problem]:
    """Return the problems that a change causes: those that the base doesn't have, and those of the files it touches.

    A problem that only moved to another line is the same.
    """
    base_keys = {(problem.path, problem.field, problem.message, problem.rule) for problem in standing}
    touched = frozenset(paths)
    return [
        problem
        for problem in problems
        if (problem.path, problem.field, problem.message, problem.rule) not in base_keys
        or (problem.path in touched and not problem.warning)
    ]
