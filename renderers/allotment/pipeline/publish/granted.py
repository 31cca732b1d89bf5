"""Who gets which units: what is declared of those that are published, what was published of those that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from allotment.accounts.capacity import Claim
from allotment.accounts.resizes import InstanceKey, allocate, key_of, needed
from allotment.pipeline.publish.published_units import PodUnits
from allotment.pipeline.publish.rendered import Fewer

if TYPE_CHECKING:
    from allotment.declared.inventory import Offers


_TENANT_FIRST = "the tenant has to give back published units first"


class RetainedInstance(NamedTuple):
    """An instance that keeps its published Deployment: the `claim` of that, and a message about the units that it awaits."""

    claim: Claim
    words: str


class Granted(NamedTuple):
    """Who gets which units: `claims` by tenant, as they are declared or were published, `live` what pods hold
    beyond them.

    `fewer` has the units of each instance that gets fewer than it declares. `retained` are the instances that keep their
    published Deployments until units of another GPUSpec are free. `waiting` are messages about both, `holding` about pods that
    keep units without a claim.
    """

    claims: dict[str, tuple[Claim, ...]]
    live: list[Claim]
    fewer: Fewer
    waiting: list[str]
    holding: list[str]
    retained: Mapping[InstanceKey, RetainedInstance] = MappingProxyType({})

    def all(self, instead: Mapping[str, tuple[Claim, ...]]) -> list[Claim]:
        """Return every claim; `instead` has what some tenants claim now that they get fewer units."""
        claims = {**self.claims, **instead}
        everything = [claim for name in sorted(claims) for claim in claims[name]]
        published = {key: instance.claim for key, instance in self.retained.items()}
        return [*(published.get(key_of(claim), claim) for claim in everything), *self.live]


def grant(
    offers: Offers,
    claims: Mapping[str, tuple[Claim, ...]],
    pods: PodUnits,
    observed: Mapping[str, str],
    published: Callable[[Claim], Claim | None],
) -> Granted:
    """Allocate units. `pods` are the units that pods hold (`published_units`); `published` returns the claim
    that an instance was published with, None where it was not."""
    everything = [claim for name in sorted(claims) for claim in claims[name]]

    def held(claim: Claim) -> Claim | None:
        return _had(claim, pods.of(claim), published(claim))

    old, fewer, live, limited = allocate(offers, everything, published, held, pods.beyond)
    retained = {
        key: RetainedInstance(old[key], _waiting_words(claim, old[key]))
        for claim in everything
        if (key := key_of(claim)) in old
    }
    waiting = [
        f"{tenant}/{name}: {retained_instance.words}" for (tenant, name), retained_instance in sorted(retained.items())
    ]
    waiting += [
        f"{reduced_claim.tenant}/{reduced_claim.instance}: gets {fewer[reduced_claim.tenant, reduced_claim.instance]} of {reduced_claim.units} units of"
        f" {reduced_claim.gpu_spec} on {reduced_claim.cluster}, {_TENANT_FIRST if key_of(reduced_claim) in limited else 'others held them first'}"
        for reduced_claim in everything
        if key_of(reduced_claim) in fewer
    ]
    holding = [
        f"{live_claim.cluster}: instance {live_claim.tenant}/{live_claim.instance}: its pods still run, and keep"
        f" {live_claim.rendered} unit{'' if live_claim.rendered == 1 else 's'} of {live_claim.gpu_spec},"
        f" by its status of {observed.get(live_claim.cluster, 'no known time')}"
        for live_claim in live
    ]
    return Granted(dict(claims), live, fewer, waiting, holding, retained)


def _waiting_words(claim: Claim, old: Claim) -> str:
    """Return the message of a retained instance."""
    units = needed(claim, old)
    are = "unit" if units == 1 else "units"
    return (
        f"keeps {old.units} {'unit' if old.units == 1 else 'units'} of {old.gpu_spec} on {old.cluster}, as published,"
        f" until {units} {are} of {claim.gpu_spec} {'is' if units == 1 else 'are'} free"
    )


def _had(claim: Claim, pods: int, published: Claim | None) -> Claim | None:
    """Return the published claim of an instance, or the units that its `pods` hold, if that is more; None if neither."""
    here = claim.cluster, claim.gpu_spec
    published_units = (
        published.units if published is not None and (published.cluster, published.gpu_spec) == here else 0
    )
    return claim._replace(units=pods) if pods > published_units else published
