"""Who gets which units: what is declared of those that are published, what was published of those that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from allotment.accounts.capacity import Claim
from allotment.accounts.grants import grants
from allotment.pipeline.publish.published_units import PodUnits
from allotment.pipeline.publish.rendered import Fewer

if TYPE_CHECKING:
    from allotment.declared.inventory import Offers


class Granted(NamedTuple):
    """Who gets which units: `claims` by tenant, as they are declared or were published, `live` what pods hold
    beyond them.

    `fewer` has the units of each instance that gets fewer than it declares, `waiting` says so in words, and
    `holding` whose pods keep units that nobody declares any more.
    """

    claims: dict[str, tuple[Claim, ...]]
    live: list[Claim]
    fewer: Fewer
    waiting: list[str]
    holding: list[str]

    def all(self, instead: Mapping[str, tuple[Claim, ...]]) -> list[Claim]:
        """Return every claim; `instead` has what some tenants claim now that they get fewer units."""
        claims = {**self.claims, **instead}
        return [*(claim for name in sorted(claims) for claim in claims[name]), *self.live]


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
    live = pods.beyond(everything)
    fewer = grants(offers, everything, lambda claim: _had(claim, pods.of(claim), published(claim)), live)
    waiting = [
        f"{one.tenant}/{one.instance}: gets {fewer[one.tenant, one.instance]} of {one.units} units of"
        f" {one.gpu_spec} on {one.cluster}, others held them first"
        for one in everything
        if (one.tenant, one.instance) in fewer
    ]
    holding = [
        f"{one.cluster}: instance {one.tenant}/{one.instance}: its pods still run, and keep"
        f" {one.rendered} unit{'' if one.rendered == 1 else 's'} of {one.gpu_spec},"
        f" by its status of {observed.get(one.cluster, 'no known time')}"
        for one in live
    ]
    return Granted(dict(claims), live, fewer, waiting, holding)


def _had(claim: Claim, pods: int, published: Claim | None) -> Claim | None:
    """Return the published claim of an instance, or the units that its `pods` hold, if that is more; None if neither."""
    here = claim.cluster, claim.gpu_spec
    before = published.units if published is not None and (published.cluster, published.gpu_spec) == here else 0
    return claim._replace(units=pods) if pods > before else published
