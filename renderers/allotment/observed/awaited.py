"""Whether what somebody waits for has come about: a state of an instance, storage or snapshot, or that it is gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from allotment import conditions as word
from allotment.declared.things import INSTANCE, SNAPSHOT, STORAGE
from allotment.observed.joined import Joined
from allotment.observed.status import Storage

Verdict = Literal["going", "reached", "failed"]

GONE = "Gone"
# What can be waited for, and of which kinds.
GOALS: dict[str, tuple[str, ...]] = {
    word.RUNNING: (INSTANCE.word,),
    word.READY: (INSTANCE.word, STORAGE.word, SNAPSHOT.word),
    word.STOPPED: (INSTANCE.word,),
    word.PREPARED: (STORAGE.word,),
    GONE: (INSTANCE.word, STORAGE.word, SNAPSHOT.word),
}


def verdict(rows: Sequence[Joined], goal: str, silent: Collection[str] = ()) -> Verdict:
    """Return how it stands with all things of a name; `rows` are those of the kinds that can reach the goal.

    It has failed where only another merge, or a person, can bring it about. What a `silent` cluster said last isn't
    believed.
    """
    if goal == GONE:
        failed = any(one.thing.blob or one.stage.progress == "failed" for one in rows)
        return "failed" if failed else "going" if rows else "reached"
    declared = [one for one in rows if one.thing.blob]
    if not declared:
        return "failed"
    found = [_of(one, goal, silent) for one in declared]
    return "failed" if "failed" in found else "going" if "going" in found else "reached"


def _of(one: Joined, goal: str, silent: Collection[str]) -> Verdict:
    if one.thing.cluster in silent and one.seen is not None:
        return "going"
    if one.is_current and _is_reached(one, goal):
        return "reached"
    return "going" if one.stage.progress == "going" else "failed"


def _is_reached(one: Joined, goal: str) -> bool:
    if goal == word.STOPPED:
        return one.state == word.STOPPED and one.stage.progress == "done"
    if goal == word.READY:
        return one.state in (word.READY, word.RUNNING)
    if goal == word.PREPARED and isinstance(one.seen, Storage):
        prepared = any((each.type, each.status) == (word.PREPARED, "True") for each in one.seen.conditions)
        return prepared or one.state == word.AVAILABLE_STORAGE
    return one.state == goal
