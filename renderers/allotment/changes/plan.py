"""A plan: what a change would do, in figures and words, before anybody merges it."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from allotment.problems import Problem

Action = Literal["added", "changed", "replaced", "removed"]
Step = tuple[str, str | None, str | None]  # a path, and its blob before and after


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that is destroyed: data, or what runs. `what` names it, `words` say how it is destroyed."""

    what: str
    words: str


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


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a tenant's quota is used: of `what`, before, after, and at most (None where nothing limits it)."""

    tenant: str
    what: str
    before: Fraction
    after: Fraction
    limit: int | None
    is_size: bool = False


@dataclass(frozen=True, slots=True)
class CostPart:
    """What a part of a tenant costs a month, before and after, in the platform's currency."""

    what: str
    before: Decimal
    after: Decimal


@dataclass(frozen=True, slots=True)
class CostChange:
    """What a tenant costs a month, before and after; the parts that differ, the largest difference first; its budget."""

    tenant: str
    before: Decimal
    after: Decimal
    parts: tuple[CostPart, ...]
    budget: Decimal | None

    @property
    def left(self) -> Decimal | None:
        """What the budget leaves after the change."""
        return None if self.budget is None else self.budget - self.after


@dataclass(frozen=True, slots=True)
class ThingChange:
    """An instance or storage of a tenant in a cluster that changes, and why."""

    tenant: str
    cluster: str
    kind: str
    name: str
    action: Action
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diff:
    """A file that changes, with its text before and after (None where there is none)."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change does. `base` and `head` are commits; `problems` are those that it causes, `standing` counts
    those that the base has already.

    `perhaps_lost` is what couldn't be compared, and may be destroyed too.
    `changed_files` counts all rendered files that change; `objects` holds the first of them, `declarations` those
    of the repository. `skipped` says in words which check didn't run.
    """

    base: str
    head: str
    day: datetime.date
    currency: str
    problems: tuple[Problem, ...] = ()
    standing: int = 0
    losses: tuple[Loss, ...] = ()
    perhaps_lost: tuple[Loss, ...] = ()
    units: tuple[Units, ...] = ()
    quota: tuple[Amount, ...] = ()
    costs: tuple[CostChange, ...] = ()
    things: tuple[ThingChange, ...] = ()
    platform: tuple[str, ...] = ()
    declarations: tuple[Diff, ...] = ()
    objects: tuple[Diff, ...] = ()
    changed_files: int = 0
    checksum: str = ""
    skipped: tuple[str, ...] = ()
    cost_before: Decimal = Decimal(0)
    cost_after: Decimal = Decimal(0)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that aren't warnings."""
        return tuple(one for one in self.problems if not one.warning)

    @property
    def allowed(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.errors

    @property
    def verdict(self) -> str:
        """What a person needs to know first, in a sentence."""
        if self.errors:
            count = f"{len(self.errors)} problem{'' if len(self.errors) == 1 else 's'}"
            return f"can't be merged: {count}"
        lost = len(self.losses)
        destroys = f", and destroys {lost} thing{'' if lost == 1 else 's'}" if lost else ""
        if self.perhaps_lost:
            destroys += ", perhaps more" if lost else ", and perhaps destroys something"
        return f"can be merged{destroys}" if self.changed_files or self.declarations else "changes nothing"


def checksum(steps: Iterable[Step]) -> str:
    """Return the checksum of what a plan changes: every file, declared or rendered, with its blob before and after."""
    return f"sha256:{hashlib.sha256(json.dumps(sorted(steps)).encode()).hexdigest()}"


@dataclass(slots=True)
class Files:
    """Files that change, gathered: each one's step, and the texts of the first `most`."""

    most: int
    steps: list[Step] = field(default_factory=list)
    diffs: list[Diff] = field(default_factory=list)

    def take(self, path: str, before: bytes | None, after: bytes | None, blobs: tuple[str | None, str | None]) -> None:
        """Note a file that changes."""
        self.steps.append((path, *blobs))
        if len(self.diffs) < self.most:
            self.diffs.append(Diff(path, before, after))


def caused(problems: Iterable[Problem], standing: Iterable[Problem], paths: Iterable[str]) -> list[Problem]:
    """Return the problems that a change causes: those that the base doesn't have, and those of the files it touches.

    A problem that only moved to another line is the same.
    """
    there = {(one.path, one.field, one.message, one.rule) for one in standing}
    touched = frozenset(paths)
    return [
        one
        for one in problems
        if (one.path, one.field, one.message, one.rule) not in there or (one.path in touched and not one.warning)
    ]
