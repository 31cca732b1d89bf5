"""Compares a tenant before and after a change: what is added, changed, replaced or removed, what data is lost, and
what it costs.

What is compared is what is rendered, so that a change of an app or a plan shows at each tenant that it reaches. Why it
changes is read from the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from allotment.accounts.capacity import Claim, Holdings, holdings
from allotment.changes.addresses import Reached, clusters_moved, things_in
from allotment.changes.effects import RESTARTS, Pods, effect_of
from allotment.changes.fields import Noted
from allotment.changes.money import CostChange, cost_change
from allotment.changes.plan import Action, Amount, Effect, Loss, ThingChange, Units
from allotment.changes.reasons import End, reasons
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.things import INSTANCE, SNAPSHOT, STORAGE, THINGS
from allotment.declared.values import size_text
from allotment.manifests import paths
from allotment.manifests.published import job_names, volume_of
from allotment.manifests.text import Object, load_one, split
from allotment.rules.quota import limits_of, usage


class Side(NamedTuple):
    """A tenant at one end of a change: its folder, what is on offer, and its rendered files by `<cluster>/<path>`."""

    offers: Offers
    folder: Folder
    files: Mapping[str, bytes]


class Compared(NamedTuple):
    """What becomes of a tenant; `moved` is what it keeps in clusters that are reached, or lie, elsewhere afterwards."""

    things: list[ThingChange]
    losses: list[Loss]
    quota: list[Amount]
    cost: CostChange
    moved: list[Reached]


def compare(before: Side, after: Side, noted: Noted) -> Compared:
    """Return what becomes of a tenant."""
    changes: list[ThingChange] = []
    losses: list[Loss] = []
    for path in sorted(before.files.keys() | after.files.keys()):
        cluster, _, inner = path.partition("/")
        spot = paths.spot_of(inner)
        old, new = before.files.get(path), after.files.get(path)
        if spot is None or not spot.kind or old == new:
            continue
        subject = f"{spot.kind} {spot.tenant}/{spot.thing} in {cluster}"
        if lost := _LOSSES.get(spot.kind):
            volume = cluster, spot.tenant, spot.kind, spot.thing
            losses += (
                replace(loss, volume=volume) if new is None and spot.kind != INSTANCE.word else loss
                for loss in lost(subject, before, after, spot.thing, old, new)
            )
        action, why = _action(before, after, spot.kind, name=spot.thing, cluster=cluster, data=(old, new), noted=noted)
        effect = _effect(after, spot.thing, old, new) if spot.kind == INSTANCE.word else None
        changes.append(
            ThingChange(
                tenant=spot.tenant,
                cluster=cluster,
                kind=spot.kind,
                name=spot.thing,
                action=action,
                why=why,
                effect=effect,
            )
        )
    ends = (before.offers, before.folder), (after.offers, after.folder)
    moved = list(things_in(clusters_moved(before.offers, after.offers), before.files, after.files))
    return Compared(_renamed(before, after, changes), losses, list(_quota(before, after)), cost_change(*ends), moved)


def _action(
    before: Side,
    after: Side,
    kind: str,
    *,
    name: str,
    cluster: str,
    data: tuple[bytes | None, bytes | None],
    noted: Noted,
) -> tuple[Action, tuple[str, ...]]:
    old, new = data
    if old is None or new is None:
        return ("added" if old is None else "removed"), ()
    model = THINGS[kind].kind.model
    ends = End(before.offers, before.folder), End(after.offers, after.folder)
    why = tuple(reasons(*ends, model, name, cluster, noted))
    if kind != "instance":
        return ("replaced" if job_names(old) != job_names(new) and job_names(old) else "changed"), why
    was, is_now = _deployment(old), _deployment(new)
    both_run = _copies(was) and _copies(is_now)
    return ("replaced" if both_run and _template(was) != _template(is_now) else "changed"), why


def _effect(after: Side, name: str, *ends: bytes | None) -> Effect:
    declared = after.folder.of(GPUInstance).get(name)
    deployments = [None if data is None else _deployment(data) for data in ends]
    was, is_now = (
        Pods(_copies(deployment), _template(deployment)) if deployment is not None else Pods(0, None)
        for deployment in deployments
    )
    return effect_of(
        was, is_now, is_stopped=ends[1] is None or declared is None or declared.model.spec.state == "Stopped"
    )


def _deployment(data: bytes) -> Object:
    return load_one(split(data)[0])


def _copies(deployment: Object) -> int:
    copies: int = deployment["spec"]["replicas"]
    return copies


def _template(deployment: Object) -> Any:
    return deployment["spec"]["template"]


def _instance(
    subject: str, before: Side, after: Side, name: str, old: bytes | None, new: bytes | None
) -> Iterator[Loss]:
    """Yield what is lost of an instance: whatever lies on the unit's own disk goes at every stop."""
    copies = _copies(_deployment(old)) if old is not None else 0
    if not copies or old is None:
        return
    disk = f"what lies on its own disk ({_disk(before, name)}at /scratch) is lost"
    if new is None:
        yield Loss(subject, f"is removed: {disk}")
        return
    remaining = _copies(_deployment(new))
    if not remaining:
        yield Loss(subject, f"stops: {disk}")
    elif _template(_deployment(old)) != _template(_deployment(new)):
        yield Loss(subject, f"{RESTARTS} {disk}")
    elif remaining < copies:
        yield Loss(subject, f"{copies - remaining} of {copies} copies end: what lies on their own disks is lost")


def _disk(side: Side, name: str) -> str:
    instance = side.folder.of(GPUInstance).get(name)
    spec = side.offers.platform.of(GPUSpec).get(instance.model.spec.gpu_spec) if instance else None
    return f"{size_text(spec.model.spec.disk)} " if spec else ""


def _storage(
    subject: str, before: Side, after: Side, name: str, old: bytes | None, new: bytes | None
) -> Iterator[Loss]:
    """Yield what is lost, or is about to be, of a storage's data."""
    was = volume_of(old) if old is not None else None
    if old is None or was is None:
        return
    size = size_text(was.size)
    is_now = volume_of(new) if new is not None else None
    if new is None or is_now is None:
        yield Loss(subject, f"is deleted: its volume of {size} and all data on it are lost")
        return
    if was.deletion_policy != "Delete" and is_now.deletion_policy == "Delete":
        yield Loss(subject, f"is marked for deletion: once its file is removed its volume of {size} is deleted")
    if (jobs := job_names(old)) and job_names(new) - jobs:
        yield Loss(subject, f"is prepared again: what lies on its volume of {size} may be overwritten")


def _snapshot(
    subject: str, before: Side, after: Side, name: str, old: bytes | None, new: bytes | None
) -> Iterator[Loss]:
    """Yield what is lost, or is about to be, of a snapshot."""
    was = volume_of(old) if old is not None else None
    if was is None:
        return
    is_now = volume_of(new) if new is not None else None
    if is_now is None:
        yield Loss(subject, f"is deleted: storage {was.of} as it was then is lost")
    elif was.deletion_policy != "Delete" and is_now.deletion_policy == "Delete":
        yield Loss(subject, "is marked for deletion: once its file is removed it is deleted")


_LOSSES = {INSTANCE.word: _instance, STORAGE.word: _storage, SNAPSHOT.word: _snapshot}


def _renamed(before: Side, after: Side, changes: list[ThingChange]) -> list[ThingChange]:
    """Return the changes; one that is added with the spec of one that is removed says that it replaces it."""
    removed = [change for change in changes if change.action == "removed"]
    new_changes = []
    for change in changes:
        model = THINGS[change.kind].kind.model
        declared = after.folder.of(model).get(change.name)
        for removal in removed if change.action == "added" and declared is not None else ():
            old = before.folder.of(model).get(removal.name) if removal.kind == change.kind else None
            if (
                old is not None
                and declared is not None
                and (removal.name == change.name or old.model.spec == declared.model.spec)
            ):
                words = (
                    f"it replaces {removal.name} in {removal.cluster}: a rename or a move is a removal and an addition"
                )
                new_changes.append(replace(change, action="replaced", why=(words,)))
                break
        else:
            new_changes.append(change)
    return new_changes


def _quota(before: Side, after: Side) -> Iterator[Amount]:
    """Yield how much of its quota a tenant uses, where that or the quota differs."""
    name = (after.folder if after.folder.paths() else before.folder).name
    was, is_now = usage(before.offers, before.folder), usage(after.offers, after.folder)
    old_limits, limits = limits_of(before.offers, before.folder), limits_of(after.offers, after.folder)
    models = {*was.gpus, *is_now.gpus}
    if old_limits and limits:
        models |= {
            gpu_model
            for gpu_model in {*old_limits.gpus, *limits.gpus}
            if old_limits.gpus.get(gpu_model) != limits.gpus.get(gpu_model)
        }
    for model in sorted(models):
        most, most_before = (limit.gpus.get(model, 0) if limit else None for limit in (limits, old_limits))
        used, used_now = (side.gpus.get(model, Fraction(0)) for side in (was, is_now))
        yield from _differing(
            Amount(tenant=name, what=f"{model} GPUs", before=used, after=used_now, limit=most, limit_before=most_before)
        )
    for field in ("instances", "storages", "storage", "snapshots"):
        most, most_before = (getattr(limit, field) if limit else None for limit in (limits, old_limits))
        used, used_now = (Fraction(getattr(side, field)) for side in (was, is_now))
        yield from _differing(
            Amount(
                tenant=name,
                what=field,
                before=used,
                after=used_now,
                limit=most,
                limit_before=most_before,
                is_size=field == "storage",
            )
        )


def _differing(amount: Amount) -> Iterator[Amount]:
    """Yield an amount whose use, or limit where there was one and is one, differs."""
    limited = amount.limit is not None and amount.limit_before is not None
    if amount.before != amount.after or (limited and amount.limit != amount.limit_before):
        yield (
            amount if limited else replace(amount, limit=amount.limit_before if amount.limit is None else amount.limit)
        )


def pools_lost(before: Offers, after: Offers) -> Iterator[Loss]:
    """Yield the Karpenter pools whose NodePool object is deleted: their nodes go too.

    The nodes of a static pool are somebody else's, and stay with their pods. The pool's name is no label of them.
    """
    for name, cluster in before.clusters.items():
        remaining = after.clusters[name].of(NodePool) if name in after.clusters else {}
        for pool, declared in cluster.of(NodePool).items():
            new = remaining.get(pool)
            if declared.model.spec.karpenter is not None and (new is None or new.model.spec.karpenter is None):
                yield Loss(f"node pool {name}/{pool}", "is removed: its nodes go, and all that runs on them ends")


def units_changed(before: tuple[Offers, Iterable[Claim]], after: tuple[Offers, Iterable[Claim]]) -> Iterator[Units]:
    """Yield the clusters and specs whose stock, or units held, differ."""
    was, is_now = (
        {(unit_usage.cluster, unit_usage.gpu_spec): unit_usage for unit_usage in holdings(*side)}
        for side in (before, after)
    )
    for key in sorted(was.keys() | is_now.keys()):
        (stock_before, held_before), (stock, held) = _units(was.get(key)), _units(is_now.get(key))
        if (stock_before, held_before) != (stock, held):
            yield Units(*key, stock_before, stock, held_before, held)


def _units(unit_usage: Holdings | None) -> tuple[int, int]:
    """Return the units that are declared, and that are held."""
    if unit_usage is None:
        return 0, 0
    return sum(stock.model.spec.count for stock in unit_usage.stocks.all), sum(unit_usage.held.values())
