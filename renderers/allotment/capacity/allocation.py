"""Allocates units to all instances.

If an instance changes its GPUSpec, it keeps the units of the last publish (its published units) until units of the new
GPUSpec are free. Without this rule, the change would stop a running instance if no unit of the new GPUSpec is free.

A tenant cannot use this rule to get more GPUs. While one of its instances keeps published units, its other instances
get additional units only up to a limit for each GPU model. The limit is the larger of two numbers: the GPUs that the
tenant declares, and the GPUs of the tenant's published units. The limit does not depend on prices. The tenant may
therefore exceed its budget by the price difference between its published and its declared units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from allotment.capacity.oversold_allocation import (
    ClusterSpecKey,
    PublishedClaim,
    group_by_cluster_and_spec,
    reduced_allocations,
    retained_units,
)
from allotment.capacity.units import UnitClaim, physical_gpus
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec

InstanceKey = tuple[str, str]  # tenant and instance


class AllocationResult(NamedTuple):
    """The result of an allocation.

    - `retained_claims` has the published claim of each retained instance. A retained instance keeps its published units
      while it waits for units of another GPUSpec.
    - `reduced` has the number of allocated units of each other instance that gets fewer units than it claims.
    - `excess_usage` are the units that pods hold in addition to the claims of their instances.
    - `limited_instances` are the instances in `reduced` that get no more units until a retained instance of their
      tenant gives up its published units.
    """

    retained_claims: dict[InstanceKey, UnitClaim]
    reduced: dict[InstanceKey, int]
    excess_usage: list[UnitClaim]
    limited_instances: frozenset[InstanceKey]


def allocate_units(
    catalog: Catalog,
    claims: Iterable[UnitClaim],
    published: PublishedClaim,
    held_claim: PublishedClaim,
    live: Callable[[list[UnitClaim]], list[UnitClaim]],
) -> AllocationResult:
    """Allocate units to instances.

    - `published` takes a claim and returns the published claim of the same instance in the same cluster, or None.
    - `held_claim` takes a claim and returns the published claim of the same instance. If the pods of the instance hold
      more units than the published claim has, `held_claim` returns a claim of the units of the pods instead. It returns
      None if no claim is published and no pod holds a unit.
    - `live` takes claims and returns the units that pods hold in addition to these claims.

    The allocation runs in rounds. Each round finds the first instance, by tenant and name, that would lose units. The
    round retains this instance: the instance keeps its published units, and gives up its claim on the new GPUSpec.
    """
    rounds = _AllocationRounds(catalog, claims, published, held_claim, live)
    while (lost := rounds.first_loser()) is not None:
        rounds.retain_instance(*lost)
    return rounds.allocation_result()


class _AllocationRounds:
    """The claims and the allocated units after each round.

    After a round, the units of a GPUSpec are allocated again only if its claims or its excess usage have changed.
    """

    def __init__(
        self,
        catalog: Catalog,
        claims: Iterable[UnitClaim],
        published: PublishedClaim,
        held_claim: PublishedClaim,
        live: Callable[[list[UnitClaim]], list[UnitClaim]],
    ) -> None:
        self._offers, self._published_claim, self._held_claim, self._live_usage = (
            catalog,
            cache(published),
            cache(held_claim),
            live,
        )
        self._claims = {instance_key(claim): claim for claim in sorted(claims, key=instance_key)}
        self._claims_by_tenant: dict[str, list[UnitClaim]] = defaultdict(list)
        self._effective_claims = dict(self._claims)
        self._claims_by_spec: dict[ClusterSpecKey, dict[InstanceKey, UnitClaim]] = defaultdict(dict)
        for key, claim in self._claims.items():
            self._claims_by_tenant[claim.tenant].append(claim)
            self._claims_by_spec[claim[:2]][key] = claim
        self._retained_claims: dict[InstanceKey, UnitClaim] = {}
        self._limits: dict[InstanceKey, int] = {}
        self._excess_by_spec: dict[ClusterSpecKey, list[UnitClaim]] = {}
        self._reduced_by_spec: dict[ClusterSpecKey, dict[InstanceKey, int]] = {}
        self._reallocate_units(set(self._claims_by_spec))

    def first_loser(self) -> tuple[InstanceKey, UnitClaim] | None:
        """Return the first instance that would lose units, with its published claim; None if no instance would."""
        for key, units in self._reduced_units().items():
            claim = self._claims[key]
            old = self._published_claim(claim)
            if old is not None and _would_lose(claim, units, old):
                return key, old
        return None

    def retain_instance(self, key: InstanceKey, old: UnitClaim) -> None:
        """Let an instance keep its published claim `old`, and limit the units of its tenant's other instances."""
        self._retained_claims[key] = old
        claims, changed = self._claims_by_tenant[old.tenant], set()
        limits = _tenant_unit_limits(self._offers, claims, self._retained_claims, self._published_claim)
        for claim in claims:
            self._limits.pop(instance_key(claim), None)
            changed |= self._replace_claim(_effective_claim(claim, self._retained_claims, limits))
        self._limits |= limits
        self._reallocate_units(changed)

    def allocation_result(self) -> AllocationResult:
        """Return the allocation after the rounds so far."""
        fewer = self._reduced_units()
        limited = frozenset(key for key, units in fewer.items() if units == self._limits.get(key))
        return AllocationResult(
            self._retained_claims,
            fewer,
            [claim for claims in self._excess_by_spec.values() for claim in claims],
            limited,
        )

    def _replace_claim(self, claim: UnitClaim) -> set[ClusterSpecKey]:
        """Replace the claim of an instance. Return the pairs of cluster and GPUSpec that have changed claims."""
        key = instance_key(claim)
        old = self._effective_claims[key]
        if claim == old:
            return set()
        self._effective_claims[key] = claim
        del self._claims_by_spec[old[:2]][key]
        self._claims_by_spec[claim[:2]][key] = claim
        return {old[:2], claim[:2]}

    def _reallocate_units(self, changed: set[ClusterSpecKey]) -> None:
        """Allocate again the units of the `changed` GPUSpecs, and of all GPUSpecs with changed excess usage."""
        beyond = group_by_cluster_and_spec(self._live_usage(list(self._effective_claims.values())))
        moved = {
            pair
            for pair in beyond.keys() | self._excess_by_spec.keys()
            if beyond.get(pair) != self._excess_by_spec.get(pair)
        }
        self._excess_by_spec = beyond
        for pair in changed | moved:
            claims = self._claims_by_spec[pair].values()
            self._reduced_by_spec[pair] = reduced_allocations(
                self._offers, pair, claims, self._held_claim, beyond.get(pair, ())
            )

    def _reduced_units(self) -> dict[InstanceKey, int]:
        """Return the units of each instance that gets fewer than it claims, sorted by tenant and name.

        The result leaves out the retained instances.
        """
        units = {key: more for fewer in self._reduced_by_spec.values() for key, more in fewer.items()}
        units = {**self._limits, **units}
        return {
            key: units[key]
            for key in sorted(units)
            if key not in self._retained_claims and units[key] < self._claims[key].units
        }


def instance_key(claim: UnitClaim) -> InstanceKey:
    """Return the tenant and instance of a claim."""
    return claim.tenant, claim.instance


def required_units(claim: UnitClaim, old: UnitClaim) -> int:
    """Return the number of units of the new GPUSpec that an instance needs before it gives up its published units."""
    return min(claim.units, old.units)


def _would_lose(claim: UnitClaim, units: int, old: UnitClaim) -> bool:
    """Return whether an instance would run too few replicas if it changed to its new GPUSpec with `units` units.

    The result is true only if the instance may run pods now, both by its published claim and by its new claim.
    """
    runs = old.rendered > 0 and claim.rendered > 0
    return runs and old.gpu_spec != claim.gpu_spec and units < required_units(claim, old)


def _effective_claim(
    claim: UnitClaim, retained: Mapping[InstanceKey, UnitClaim], limits: Mapping[InstanceKey, int]
) -> UnitClaim:
    key = instance_key(claim)
    return retained[key] if key in retained else claim._replace(units=limits.get(key, claim.units))


def _tenant_unit_limits(
    catalog: Catalog, claims: list[UnitClaim], retained: Mapping[InstanceKey, UnitClaim], published: PublishedClaim
) -> dict[InstanceKey, int]:
    """Return the maximum units of each instance of a tenant while the tenant has retained instances.

    An instance has a limit only if it is not retained, and if it claims more units than it already has.
    """
    old = {instance_key(claim): before for claim in claims if (before := published(claim)) is not None}
    declared, old_gpus = _count_gpus(catalog, claims), _count_gpus(catalog, old.values())
    current_claims = {
        key: claim._replace(units=retained_units(claim, old.get(key)))
        for claim in claims
        if (key := instance_key(claim))
    }
    used = _count_gpus(catalog, (retained.get(key, claim) for key, claim in current_claims.items()))
    limits = {}
    for claim in claims:
        key = instance_key(claim)
        model, gpus = _gpus_of_unit(catalog, claim)
        more = claim.units - current_claims[key].units
        if key in retained or not more or not gpus:
            continue
        room = max(declared[model], old_gpus[model]) - used[model]
        more = min(more, max(0, room // gpus))
        used[model] += more * gpus
        limits[key] = current_claims[key].units + more
    return limits


def _count_gpus(catalog: Catalog, claims: Iterable[UnitClaim]) -> defaultdict[str, Fraction]:
    """Return the number of physical GPUs in some claims, by GPU model."""
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for claim in claims:
        model, gpus = _gpus_of_unit(catalog, claim)
        total[model] += claim.units * gpus
    return total


def _gpus_of_unit(catalog: Catalog, claim: UnitClaim) -> tuple[str, Fraction]:
    """Return the GPU model and the number of physical GPUs of a claim's unit; 0 if the GPUSpec is not declared."""
    spec = catalog.platform.of_kind(GPUSpec).get(claim.gpu_spec)
    return (spec.model.spec.gpu.model, physical_gpus(spec.model.spec)) if spec is not None else ("", Fraction(0))
