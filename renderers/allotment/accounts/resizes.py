"""Allocates units where an instance moves to another GPUSpec: it keeps its published units until the new ones are free.

Else a merge that finds no unit of the new size would stop an instance that runs. A tenant gains nothing by that: while an
instance keeps its published units, the tenant's other instances get no new ones beyond the GPUs that the tenant declares, or
was published with if that is more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from allotment.accounts.capacity import Claim, physical_gpus
from allotment.accounts.grants import Before, grants
from allotment.declared.inventory import Offers
from allotment.declared.kinds.gpu_spec import GPUSpec

InstanceKey = tuple[str, str]  # tenant and instance


class Allocation(NamedTuple):
    """Who gets units: `retained` has the published claim of each instance that waits for units of another GPUSpec, `fewer`
    the units of each other instance that gets fewer than it claims, `live` what pods hold beyond all claims. `limited` are
    those of `fewer` whose tenant has to give back published units first."""

    retained: dict[InstanceKey, Claim]
    fewer: dict[InstanceKey, int]
    live: list[Claim]
    limited: frozenset[InstanceKey]


def allocate(
    offers: Offers,
    claims: Iterable[Claim],
    published: Before,
    held: Before,
    live: Callable[[list[Claim]], list[Claim]],
) -> Allocation:
    """Allocate units. `published` returns the claim that an instance was published with in the same cluster, `held` the
    same or what its pods hold; `live` returns what pods hold beyond some claims.

    Each round retains the first instance that would lose units, in the order in which units are given. What it was given of
    the new GPUSpec is then free for the next.
    """
    ordered = sorted(claims, key=key_of)
    retained: dict[InstanceKey, Claim] = {}
    while True:
        limits = _limits(offers, ordered, retained, published)
        wanted = [_wanted(claim, retained, limits) for claim in ordered]
        beyond = live(wanted)
        fewer = grants(offers, wanted, held, beyond)
        units = {key_of(claim): fewer.get(key_of(claim), claim.units) for claim in wanted}
        short = [claim for claim in ordered if key_of(claim) not in retained and units[key_of(claim)] < claim.units]
        lost = next((claim for claim in short if _would_lose(claim, units[key_of(claim)], published(claim))), None)
        old = published(lost) if lost is not None else None
        if lost is None or old is None:
            less = {key_of(claim): units[key_of(claim)] for claim in short}
            return Allocation(retained, less, beyond, frozenset(key for key in less if less[key] == limits.get(key)))
        retained[key_of(lost)] = old


def key_of(claim: Claim) -> InstanceKey:
    """Return whose claim it is."""
    return claim.tenant, claim.instance


def needed(claim: Claim, old: Claim) -> int:
    """Return how many units of its new GPUSpec an instance needs before it gives up its published units."""
    return min(claim.units, old.units)


def _would_lose(claim: Claim, units: int, old: Claim | None) -> bool:
    """Return whether an instance that runs, and may run as it is declared now, would run fewer copies than before."""
    runs = old is not None and old.rendered > 0 and claim.rendered > 0
    return old is not None and runs and old.gpu_spec != claim.gpu_spec and units < needed(claim, old)


def _wanted(claim: Claim, retained: Mapping[InstanceKey, Claim], limits: Mapping[InstanceKey, int]) -> Claim:
    key = key_of(claim)
    return retained[key] if key in retained else claim._replace(units=limits.get(key, claim.units))


def _limits(
    offers: Offers, claims: Iterable[Claim], retained: Mapping[InstanceKey, Claim], published: Before
) -> dict[InstanceKey, int]:
    """Return how many units the other instances of each tenant with a retained instance may have."""
    of_tenants: dict[str, list[Claim]] = defaultdict(list)
    tenants = {tenant for tenant, _ in retained}
    for claim in claims:
        if claim.tenant in tenants:
            of_tenants[claim.tenant].append(claim)
    return {
        key: units
        for several in of_tenants.values()
        for key, units in _limits_of_tenant(offers, several, retained, published).items()
    }


def _limits_of_tenant(
    offers: Offers, claims: list[Claim], retained: Mapping[InstanceKey, Claim], published: Before
) -> dict[InstanceKey, int]:
    """Return how many units each instance of one tenant may have that isn't retained."""
    old = {key_of(claim): was for claim in claims if (was := published(claim)) is not None}
    declared, before = _gpus(offers, claims), _gpus(offers, old.values())
    kept = {key: claim._replace(units=_kept_units(claim, old.get(key))) for claim in claims if (key := key_of(claim))}
    used = _gpus(offers, (retained.get(key, claim) for key, claim in kept.items()))
    limits = {}
    for claim in claims:
        key = key_of(claim)
        model, gpus = _gpus_of_unit(offers, claim)
        more = claim.units - kept[key].units
        if key in retained or not more or not gpus:
            continue
        room = max(declared[model], before[model]) - used[model]
        more = min(more, max(0, room // gpus))
        used[model] += more * gpus
        limits[key] = kept[key].units + more
    return limits


def _kept_units(claim: Claim, old: Claim | None) -> int:
    """Return how many units an instance claims that it was published with."""
    return min(claim.units, old.units) if old is not None and old.gpu_spec == claim.gpu_spec else 0


def _gpus(offers: Offers, claims: Iterable[Claim]) -> defaultdict[str, Fraction]:
    """Return the physical GPUs of some claims, by model."""
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for claim in claims:
        model, gpus = _gpus_of_unit(offers, claim)
        total[model] += claim.units * gpus
    return total


def _gpus_of_unit(offers: Offers, claim: Claim) -> tuple[str, Fraction]:
    """Return the model and the physical GPUs of a unit; none of a GPUSpec that isn't declared."""
    spec = offers.platform.of(GPUSpec).get(claim.gpu_spec)
    return (spec.model.spec.gpu.model, physical_gpus(spec.model.spec)) if spec is not None else ("", Fraction(0))
