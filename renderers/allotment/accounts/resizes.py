"""Allocates units where an instance moves to another GPUSpec: it keeps its published units until the new ones are free.

Else a merge that finds no unit of the new size would stop an instance that runs. A tenant gains no GPU by that: while an
instance keeps its published units, the tenant's other instances get no new units beyond the GPUs of each model that the tenant
declares, or was published with if that is more. Prices are not compared: a tenant may exceed its budget by the difference
between its published and its declared units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from allotment.accounts.capacity import Claim, physical_gpus
from allotment.accounts.grants import Before, Pair, by_pair, grants, kept_units
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
    rounds = _Rounds(offers, claims, published, held, live)
    while (lost := rounds.first_loser()) is not None:
        rounds.retain(*lost)
    return rounds.allocation()


class _Rounds:
    """The claims and units of each round. A round allocates only the units of GPUSpecs with changed claims again."""

    def __init__(
        self,
        offers: Offers,
        claims: Iterable[Claim],
        published: Before,
        held: Before,
        live: Callable[[list[Claim]], list[Claim]],
    ) -> None:
        self._offers, self._published, self._held, self._live = offers, cache(published), cache(held), live
        self._claims = {key_of(claim): claim for claim in sorted(claims, key=key_of)}
        self._of_tenants: dict[str, list[Claim]] = defaultdict(list)
        self._wanted = dict(self._claims)
        self._of_pairs: dict[Pair, dict[InstanceKey, Claim]] = defaultdict(dict)
        for key, claim in self._claims.items():
            self._of_tenants[claim.tenant].append(claim)
            self._of_pairs[claim[:2]][key] = claim
        self._retained: dict[InstanceKey, Claim] = {}
        self._limits: dict[InstanceKey, int] = {}
        self._beyond: dict[Pair, list[Claim]] = {}
        self._fewer: dict[Pair, dict[InstanceKey, int]] = {}
        self._share_out(set(self._of_pairs))

    def first_loser(self) -> tuple[InstanceKey, Claim] | None:
        """Return the first instance that would lose units, with its published claim."""
        for key, units in self._short().items():
            claim = self._claims[key]
            old = self._published(claim)
            if old is not None and _would_lose(claim, units, old):
                return key, old
        return None

    def retain(self, key: InstanceKey, old: Claim) -> None:
        """Have an instance keep its published units, and limit its tenant's other instances."""
        self._retained[key] = old
        claims, changed = self._of_tenants[old.tenant], set()
        limits = _limits_of_tenant(self._offers, claims, self._retained, self._published)
        for claim in claims:
            self._limits.pop(key_of(claim), None)
            changed |= self._want(_wanted(claim, self._retained, limits))
        self._limits |= limits
        self._share_out(changed)

    def allocation(self) -> Allocation:
        """Return the allocation after the rounds so far."""
        fewer = self._short()
        limited = frozenset(key for key, units in fewer.items() if units == self._limits.get(key))
        return Allocation(
            self._retained, fewer, [claim for claims in self._beyond.values() for claim in claims], limited
        )

    def _want(self, claim: Claim) -> set[Pair]:
        """Replace an instance's claim; return the clusters and GPUSpecs with changed claims."""
        key = key_of(claim)
        old = self._wanted[key]
        if claim == old:
            return set()
        self._wanted[key] = claim
        del self._of_pairs[old[:2]][key]
        self._of_pairs[claim[:2]][key] = claim
        return {old[:2], claim[:2]}

    def _share_out(self, changed: set[Pair]) -> None:
        """Share out the units of some GPUSpecs, and of those that pods hold otherwise than in the last round."""
        beyond = by_pair(self._live(list(self._wanted.values())))
        moved = {pair for pair in beyond.keys() | self._beyond.keys() if beyond.get(pair) != self._beyond.get(pair)}
        self._beyond = beyond
        for pair in changed | moved:
            claims = self._of_pairs[pair].values()
            self._fewer[pair] = grants(self._offers, pair, claims, self._held, beyond.get(pair, ()))

    def _short(self) -> dict[InstanceKey, int]:
        """Return the units of each instance that isn't retained and gets fewer than it declares, in the order of names."""
        units = {key: more for fewer in self._fewer.values() for key, more in fewer.items()}
        units = {**self._limits, **units}
        return {
            key: units[key]
            for key in sorted(units)
            if key not in self._retained and units[key] < self._claims[key].units
        }


def key_of(claim: Claim) -> InstanceKey:
    """Return whose claim it is."""
    return claim.tenant, claim.instance


def needed(claim: Claim, old: Claim) -> int:
    """Return how many units of its new GPUSpec an instance needs before it gives up its published units."""
    return min(claim.units, old.units)


def _would_lose(claim: Claim, units: int, old: Claim) -> bool:
    """Return whether an instance that runs, and may run as it is declared now, would run fewer copies than before."""
    runs = old.rendered > 0 and claim.rendered > 0
    return runs and old.gpu_spec != claim.gpu_spec and units < needed(claim, old)


def _wanted(claim: Claim, retained: Mapping[InstanceKey, Claim], limits: Mapping[InstanceKey, int]) -> Claim:
    key = key_of(claim)
    return retained[key] if key in retained else claim._replace(units=limits.get(key, claim.units))


def _limits_of_tenant(
    offers: Offers, claims: list[Claim], retained: Mapping[InstanceKey, Claim], published: Before
) -> dict[InstanceKey, int]:
    """Return how many units each instance of one tenant may have that isn't retained."""
    old = {key_of(claim): was for claim in claims if (was := published(claim)) is not None}
    declared, old_gpus = _gpus(offers, claims), _gpus(offers, old.values())
    current_claims = {
        key: claim._replace(units=kept_units(claim, old.get(key))) for claim in claims if (key := key_of(claim))
    }
    used = _gpus(offers, (retained.get(key, claim) for key, claim in current_claims.items()))
    limits = {}
    for claim in claims:
        key = key_of(claim)
        model, gpus = _gpus_of_unit(offers, claim)
        more = claim.units - current_claims[key].units
        if key in retained or not more or not gpus:
            continue
        room = max(declared[model], old_gpus[model]) - used[model]
        more = min(more, max(0, room // gpus))
        used[model] += more * gpus
        limits[key] = current_claims[key].units + more
    return limits


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
