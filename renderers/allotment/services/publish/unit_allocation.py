"""Allocates the units of a release.

An instance claims the units that it declares. An instance of a retained tenant claims its published units instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from allotment.capacity.allocation import InstanceKey, allocate_units, instance_key, required_units
from allotment.capacity.units import UnitClaim
from allotment.services.publish.observed_state import ObservedState
from allotment.services.publish.published_units import PodUnits
from allotment.services.publish.rendered_tenant import ReducedUnits

if TYPE_CHECKING:
    from allotment.declared.inventory import Catalog


_TENANT_OVERUSE_MESSAGE = "the tenant must first release published units"


class RetainedInstance(NamedTuple):
    """An instance that keeps its published Deployment until units of its new GPUSpec are free.

    `claim` is the published claim of the instance. `message` names the units for which the instance waits.
    """

    claim: UnitClaim
    message: str


class Allocation(NamedTuple):
    """The allocated units.

    - `claims` are the claims by tenant.
    - `leaked_claims` are the units that running pods hold beyond the claims of their instances.
    - `reduced_units` has the units of each instance that gets fewer units than it claims.
    - `waiting_instances` are messages, one for each retained instance and for each instance with reduced units.
    - `leaked_units` are messages, one for each leaked claim.
    - `retained_instances` are the instances that keep their published Deployments until units of their new GPUSpec are
      free.
    """

    claims: dict[str, tuple[UnitClaim, ...]]
    leaked_claims: list[UnitClaim]
    reduced_units: ReducedUnits
    waiting_instances: list[str]
    leaked_units: list[str]
    retained_instances: Mapping[InstanceKey, RetainedInstance] = MappingProxyType({})

    def list_claims(self, instead: Mapping[str, tuple[UnitClaim, ...]]) -> list[UnitClaim]:
        """Return the claims of all instances and the leaked claims.

        `instead` has claims by tenant that replace `claims`, for example after a tenant was rendered again with fewer
        units. For a retained instance, the list has the published claim.
        """
        claims = {**self.claims, **instead}
        everything = [claim for name in sorted(claims) for claim in claims[name]]
        published = {key: instance.claim for key, instance in self.retained_instances.items()}
        return [*(published.get(instance_key(claim), claim) for claim in everything), *self.leaked_claims]


def build_allocation(
    catalog: Catalog,
    claims: Mapping[str, tuple[UnitClaim, ...]],
    pods: PodUnits,
    observed_state: ObservedState,
    published: Callable[[UnitClaim], UnitClaim | None],
) -> Allocation:
    """Return the allocation of units to the `claims` of all tenants.

    `pods` are the units that running pods hold (`published_units`). `published` takes a claim and returns the published
    claim of the same instance; None if the instance has no published claim.
    """
    everything = [claim for name in sorted(claims) for claim in claims[name]]

    def find_held_claim(claim: UnitClaim) -> UnitClaim | None:
        return _find_previous_claim(claim, pods.count_units(claim), published(claim))

    old, fewer, live, limited = allocate_units(catalog, everything, published, find_held_claim, pods.find_leaked_claims)
    retained = {
        key: RetainedInstance(old[key], _format_waiting_message(claim, old[key]))
        for claim in everything
        if (key := instance_key(claim)) in old
    }
    waiting = [
        f"{tenant}/{name}: {retained_instance.message}"
        for (tenant, name), retained_instance in sorted(retained.items())
    ]
    waiting += [
        f"{reduced_claim.tenant}/{reduced_claim.instance}: gets {fewer[reduced_claim.tenant, reduced_claim.instance]} of {reduced_claim.units} units of"
        f" {reduced_claim.gpu_spec} on {reduced_claim.cluster}, {_TENANT_OVERUSE_MESSAGE if instance_key(reduced_claim) in limited else 'other instances hold the rest'}"
        for reduced_claim in everything
        if instance_key(reduced_claim) in fewer
    ]
    holding = [
        f"{live_claim.cluster}: instance {live_claim.tenant}/{live_claim.instance}: its pods still run and hold"
        f" {live_claim.rendered} unit{'' if live_claim.rendered == 1 else 's'} of {live_claim.gpu_spec},"
        f" according to the status of {observed_state.observed_at.get(live_claim.cluster, 'an unknown time')}"
        for live_claim in live
    ]
    return Allocation(dict(claims), live, fewer, waiting, holding, retained)


def _format_waiting_message(claim: UnitClaim, old: UnitClaim) -> str:
    """Return the message about the units for which a retained instance waits."""
    units = required_units(claim, old)
    are = "unit" if units == 1 else "units"
    return (
        f"keeps {old.units} {'unit' if old.units == 1 else 'units'} of {old.gpu_spec} on {old.cluster}, as published,"
        f" until {units} {are} of {claim.gpu_spec} {'is' if units == 1 else 'are'} free"
    )


def _find_previous_claim(claim: UnitClaim, pods: int, published: UnitClaim | None) -> UnitClaim | None:
    """Return the claim that an instance already holds.

    Usually, this is the published claim. If the pods of the instance hold more units (`pods`) than are published for
    the cluster and GPUSpec of `claim`, return `claim` with the units of the pods instead. Return None if nothing is
    published and no pod holds a unit.
    """
    here = claim.cluster, claim.gpu_spec
    published_units = (
        published.units if published is not None and (published.cluster, published.gpu_spec) == here else 0
    )
    return claim._replace(units=pods) if pods > published_units else published
