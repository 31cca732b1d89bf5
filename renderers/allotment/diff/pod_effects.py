"""Predict the effect of a change on the pods of each instance: start, stop, restart, keep running, or wait.

A Deployment with the strategy Recreate restarts its pods only if their template changes. If an instance changes to a
GPUSpec without a free unit, it keeps its published pods until a unit is free.

The published pods are derived from the declarations of the base. If these declarations claim more units than exist,
some instances wait for a unit, and others keep the units of an earlier GPUSpec. The declarations do not show which
instances wait, and which keep earlier units. For all these instances, the effect of a change is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from allotment.capacity.allocation import InstanceKey, allocate_units, instance_key, required_units
from allotment.capacity.units import UnitClaim
from allotment.declared.inventory import Catalog
from allotment.declared.tenant_resources import INSTANCE
from allotment.diff.change_plan import Effect, LossOutput, ResourceChange
from allotment.problems import pluralize

RESTART_PREFIX = "is replaced: it restarts, and"
ClaimsSide = tuple[Catalog, list[UnitClaim]]


class PodSet(NamedTuple):
    """The pods of an instance on one side of a change: their number and their template."""

    replicas: int
    template: Any


def predict_effect(before: PodSet, after: PodSet, *, is_stopped: bool) -> Effect:
    """Return the effect of a change on an instance. `is_stopped` says that the instance is Stopped or removed after the
    change."""
    if not before.replicas and not after.replicas:
        return "stays stopped" if is_stopped else "waits"
    if not before.replicas:
        return "starts"
    if not after.replicas:
        return "stops"
    return "restarts" if before.template != after.template else "keeps running"


class UnallocatedInstances(NamedTuple):
    """The instances that possibly do not get their declared units after a change.

    `retained_instances` keep running on their published units, and `waiting_instances` do not start. Both map an
    instance to a text that says until when. The base does not show whether `unknown_instances` run as declared.
    """

    retained_instances: Mapping[tuple[str, InstanceKey], str]  # by cluster, tenant and instance
    waiting_instances: Mapping[tuple[str, InstanceKey], str]
    unknown_instances: Collection[tuple[str, InstanceKey]]


def find_unallocated_instances(before: ClaimsSide, after: ClaimsSide) -> UnallocatedInstances:
    """Return the instances that possibly do not get their declared units after a change.

    The allocation of the base is assumed to be the published allocation.
    """
    (catalog, claims), (offers_after, claims_after) = before, after
    fewer = allocate_units(catalog, claims, _no_published_claim, _no_published_claim, _no_pod_claims).reduced
    old = {
        (claim.cluster, *instance_key(claim)): claim._replace(units=units, rendered=min(units, claim.rendered))
        for claim in claims
        if (units := fewer.get(instance_key(claim), claim.units))
    }

    def published(claim: UnitClaim) -> UnitClaim | None:
        return old.get((claim.cluster, *instance_key(claim)))

    allocation = allocate_units(offers_after, claims_after, published, published, _no_pod_claims)
    oversold = {claim[:2] for claim in claims if instance_key(claim) in fewer}
    unknown = {(claim.cluster, instance_key(claim)) for claim in claims if claim[:2] in oversold}
    retained, waiting = {}, {}
    for claim in claims_after:
        key = claim.cluster, instance_key(claim)
        if (retained_claim := allocation.retained_claims.get(instance_key(claim))) is not None:
            retained[key] = f"until {_free_units_text(required_units(claim, retained_claim), claim.gpu_spec)}"
        elif not allocation.reduced.get(instance_key(claim), claim.units):
            waiting[key] = f"until {_free_units_text(1, claim.gpu_spec)}"
    return UnallocatedInstances(retained, waiting, unknown)


def _free_units_text(units: int, gpu_spec: str) -> str:
    return f"{pluralize(units, 'unit')} of {gpu_spec} {'is' if units == 1 else 'are'} free"


def _no_published_claim(_: UnitClaim) -> None:
    return None


def _no_pod_claims(_: list[UnitClaim]) -> list[UnitClaim]:
    return []


def with_allocation(
    changes: Iterable[ResourceChange], losses: Iterable[LossOutput], before: ClaimsSide, after: ClaimsSide
) -> tuple[tuple[ResourceChange, ...], tuple[LossOutput, ...]]:
    """Return the changes and losses, corrected for instances that get no unit.

    Such an instance neither starts nor restarts.
    """
    all_changes = tuple(changes)
    if not any(change.effect in ("starts", "restarts") for change in all_changes):
        return all_changes, tuple(losses)
    short = find_unallocated_instances(before, after)
    return tuple(_with_allocation_effect(change, short) for change in all_changes), tuple(
        _postpone_losses(losses, short)
    )


def _with_allocation_effect(change: ResourceChange, short: UnallocatedInstances) -> ResourceChange:
    key = change.cluster, (change.tenant, change.name)
    if change.kind != INSTANCE.word:
        return change
    if change.effect == "restarts" and key in short.unknown_instances:
        return msgspec.structs.replace(change, effect=None)
    if change.effect == "restarts" and key in short.retained_instances:
        why = *change.causes, f"it keeps its published unit {short.retained_instances[key]}"
        return msgspec.structs.replace(change, effect="keeps running", causes=why)
    if change.effect in ("starts", "restarts") and key in short.waiting_instances:
        return msgspec.structs.replace(
            change, effect="waits", causes=(*change.causes, f"it waits {short.waiting_instances[key]}")
        )
    return change


def _postpone_losses(losses: Iterable[LossOutput], short: UnallocatedInstances) -> Iterator[LossOutput]:
    """Yield the losses, with other messages for instances that possibly do not restart.

    The message about a retained instance says until when it keeps running. The message about an unknown instance says
    that the loss occurs only if the instance runs at present.
    """
    unknown = {_loss_subject(key) for key in short.unknown_instances}
    words = {_loss_subject(key): until for key, until in short.retained_instances.items()}
    for loss in losses:
        if loss.message.startswith(RESTART_PREFIX) and loss.subject in unknown:
            yield msgspec.structs.replace(
                loss,
                message=f"is replaced if it runs at present: it restarts, and{loss.message.removeprefix(RESTART_PREFIX)}",
            )
        elif loss.message.startswith(RESTART_PREFIX) and (until := words.get(loss.subject)):
            postponed = f"keeps running {until}, and is replaced then: it restarts, and{loss.message.removeprefix(RESTART_PREFIX)}"
            yield msgspec.structs.replace(loss, message=postponed)
        else:
            yield loss


def _loss_subject(key: tuple[str, InstanceKey]) -> str:
    """Return the `subject` that the losses of an instance have."""
    cluster, (tenant, name) = key
    return f"instance {tenant}/{name} in {cluster}"
