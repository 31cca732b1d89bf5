"""What a change does to the pods of each instance: it starts, stops, restarts, keeps running, or waits.

A Deployment of Strategy Recreate restarts its pods where their template changes, and nowhere else. An instance that moves to a
GPUSpec without a free unit keeps its published pods until a unit is free.

The published pods are derived from the declarations of the base. Where these claim more units than there are, some instances wait
for a unit, or for a change of their GPUSpec that was merged before, and the declarations do not tell which. Their effect is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from allotment.accounts.capacity import Claim
from allotment.accounts.resizes import InstanceKey, allocate, key_of, needed
from allotment.changes.plan import Effect, Loss, ThingChange
from allotment.declared.inventory import Offers
from allotment.declared.things import INSTANCE
from allotment.problems import counted

RESTARTS = "is replaced: it restarts, and"
Side = tuple[Offers, list[Claim]]


class Pods(NamedTuple):
    """The pods of an instance at one end of a change: how many, and their template."""

    copies: int
    template: Any


def effect_of(before: Pods, after: Pods, *, is_stopped: bool) -> Effect:
    """Return the effect of a change on an instance, which `is_stopped` by its declaration afterwards, or is removed."""
    if not before.copies and not after.copies:
        return "stays stopped" if is_stopped else "waits"
    if not before.copies:
        return "starts"
    if not after.copies:
        return "stops"
    return "restarts" if before.template != after.template else "keeps running"


class Unallocated(NamedTuple):
    """The instances that get no unit after a change: `retained` keep running with the words that say until when, `waiting`
    don't start. Of `unknown` instances the base does not tell whether they run as it declares them."""

    retained: Mapping[tuple[str, InstanceKey], str]  # by cluster, tenant and instance
    waiting: Mapping[tuple[str, InstanceKey], str]
    unknown: Collection[tuple[str, InstanceKey]]


def unallocated(before: Side, after: Side) -> Unallocated:
    """Return the instances that get no unit, if nothing else is published than the base allocates."""
    (offers, claims), (offers_after, claims_after) = before, after
    fewer = allocate(offers, claims, _nothing, _nothing, _no_pods).fewer
    old = {
        (claim.cluster, *key_of(claim)): claim._replace(units=units, rendered=min(units, claim.rendered))
        for claim in claims
        if (units := fewer.get(key_of(claim), claim.units))
    }

    def published(claim: Claim) -> Claim | None:
        return old.get((claim.cluster, *key_of(claim)))

    allocation = allocate(offers_after, claims_after, published, published, _no_pods)
    oversold = {claim[:2] for claim in claims if key_of(claim) in fewer}
    unknown = {(claim.cluster, key_of(claim)) for claim in claims if claim[:2] in oversold}
    retained, waiting = {}, {}
    for claim in claims_after:
        key = claim.cluster, key_of(claim)
        if (retained_claim := allocation.retained.get(key_of(claim))) is not None:
            retained[key] = f"until {_free(needed(claim, retained_claim), claim.gpu_spec)}"
        elif not allocation.fewer.get(key_of(claim), claim.units):
            waiting[key] = f"until {_free(1, claim.gpu_spec)}"
    return Unallocated(retained, waiting, unknown)


def _free(units: int, gpu_spec: str) -> str:
    return f"{counted(units, 'unit')} of {gpu_spec} {'is' if units == 1 else 'are'} free"


def _nothing(_: Claim) -> None:
    return None


def _no_pods(_: list[Claim]) -> list[Claim]:
    return []


def with_allocation(
    changes: Iterable[ThingChange], losses: Iterable[Loss], before: Side, after: Side
) -> tuple[tuple[ThingChange, ...], tuple[Loss, ...]]:
    """Return changes and losses; an instance that gets no unit neither starts nor restarts."""
    all_changes = tuple(changes)
    if not any(change.effect in ("starts", "restarts") for change in all_changes):
        return all_changes, tuple(losses)
    short = unallocated(before, after)
    return tuple(_allocated(change, short) for change in all_changes), tuple(_postponed(losses, short))


def _allocated(change: ThingChange, short: Unallocated) -> ThingChange:
    key = change.cluster, (change.tenant, change.name)
    if change.kind != INSTANCE.word:
        return change
    if change.effect == "restarts" and key in short.unknown:
        return replace(change, effect=None)
    if change.effect == "restarts" and key in short.retained:
        why = *change.why, f"it keeps its published unit {short.retained[key]}"
        return replace(change, effect="keeps running", why=why)
    if change.effect in ("starts", "restarts") and key in short.waiting:
        return replace(change, effect="waits", why=(*change.why, f"it waits {short.waiting[key]}"))
    return change


def _postponed(losses: Iterable[Loss], short: Unallocated) -> Iterator[Loss]:
    """Yield losses; of a retained instance with the words that say until when it keeps running, of an unknown instance with a
    condition."""
    unknown = {_loser(key) for key in short.unknown}
    words = {_loser(key): until for key, until in short.retained.items()}
    for loss in losses:
        if loss.words.startswith(RESTARTS) and loss.what in unknown:
            yield replace(loss, words=f"if it runs as declared before, {loss.words}")
        elif loss.words.startswith(RESTARTS) and (until := words.get(loss.what)):
            postponed = (
                f"keeps running {until}, and is replaced then: it restarts, and{loss.words.removeprefix(RESTARTS)}"
            )
            yield replace(loss, words=postponed)
        else:
            yield loss


def _loser(key: tuple[str, InstanceKey]) -> str:
    """Return the name of an instance as losses have it."""
    cluster, (tenant, name) = key
    return f"instance {tenant}/{name} in {cluster}"
