"""Compare a tenant before and after a change: changed resources, lost data, quota and cost.

The comparison uses rendered files, so a change of an app or a tariff plan is reported for each tenant that it affects.
The causes of a change are found in the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from allotment.capacity.units import UnitClaim, UnitUsage, compute_unit_usage
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.tenant_resources import INSTANCE, RESOURCE_KINDS, SNAPSHOT, STORAGE
from allotment.declared.values import format_size
from allotment.diff.causes import find_causes
from allotment.diff.change_plan import Action, Effect, Loss, LossOutput, QuotaOutput, ResourceChange, UnitsOutput
from allotment.diff.cluster_moves import Reachable, find_moved_clusters, reachable_resources
from allotment.diff.cost_diff import CostChange, compare_cost
from allotment.diff.field_diff import DiffCache
from allotment.diff.pod_effects import RESTART_PREFIX, PodSet, predict_effect
from allotment.diff.tenant_side import TenantSide
from allotment.lifecycle.published_manifests import read_job_names, read_volume
from allotment.manifests import paths
from allotment.manifests.yaml_text import Object, load_one, split
from allotment.rules.quota import compute_quota_usage, limits_of
from allotment.rules.unsaved_folders import describe_folder, find_unsaved_folders


class TenantDiff(NamedTuple):
    """The effects of a change on a tenant.

    `moved_resources` are the instances and storages in clusters that get another domain, Gateway or destination.
    """

    resource_changes: list[ResourceChange]
    losses: list[LossOutput]
    quota_changes: list[QuotaOutput]
    cost_change: CostChange
    moved_resources: list[Reachable]


def compare_tenant(before: TenantSide, after: TenantSide, cache: DiffCache) -> TenantDiff:
    """Return the effects of a change on a tenant."""
    changes: list[ResourceChange] = []
    losses: list[LossOutput] = []
    for path in sorted(before.files.keys() | after.files.keys()):
        cluster, _, inner = path.partition("/")
        tree_path = paths.parse_tree_path(inner)
        old, new = before.files.get(path), after.files.get(path)
        if tree_path is None or not tree_path.kind or old == new:
            continue
        subject = f"{tree_path.kind} {tree_path.tenant}/{tree_path.resource_name} in {cluster}"
        if lost := _LOSSES_BY_KIND.get(tree_path.kind):
            losses += lost(subject, before, after, tree_path.resource_name, old, new)
        action, why = _resource_action(
            before, after, tree_path.kind, name=tree_path.resource_name, cluster=cluster, data=(old, new), cache=cache
        )
        effect = None
        if tree_path.kind == INSTANCE.word:
            effect = _pod_effect(after, tree_path.resource_name, old, new)
            why += _describe_replicas(before, after, tree_path.resource_name)
        changes.append(
            ResourceChange(
                tenant=tree_path.tenant,
                cluster=cluster,
                kind=tree_path.kind,
                name=tree_path.resource_name,
                action=action,
                causes=why,
                effect=effect,
            )
        )
    moved = list(reachable_resources(find_moved_clusters(before.catalog, after.catalog), before.files, after.files))
    return TenantDiff(
        _mark_replacements(before, after, changes),
        losses,
        list(_quota_changes(before, after)),
        compare_cost(before, after),
        moved,
    )


def _resource_action(
    before: TenantSide,
    after: TenantSide,
    kind: str,
    *,
    name: str,
    cluster: str,
    data: tuple[bytes | None, bytes | None],
    cache: DiffCache,
) -> tuple[Action, tuple[str, ...]]:
    old, new = data
    if old is None or new is None:
        return ("added" if old is None else "removed"), ()
    model = RESOURCE_KINDS[kind].kind.model
    why = tuple(find_causes(before, after, model, name, cluster, cache))
    if kind != "instance":
        old_jobs, new_jobs = read_job_names(old), read_job_names(new)
        return ("replaced" if old_jobs and new_jobs and old_jobs != new_jobs else "changed"), why
    old_deployment, new_deployment = _load_deployment(old), _load_deployment(new)
    both_run = _replica_count(old_deployment) and _replica_count(new_deployment)
    return (
        "replaced" if both_run and _pod_template(old_deployment) != _pod_template(new_deployment) else "changed"
    ), why


def _describe_replicas(before: TenantSide, after: TenantSide, name: str) -> tuple[str, ...]:
    """Return a note about the replicas of an instance that becomes several; empty for other changes."""
    old, new = (
        declared.model.spec.replicas if (declared := side.folder.of_kind(GPUInstance).get(name)) else 1
        for side in (before, after)
    )
    if old > 1 or new <= 1:
        return ()
    return (
        f"its {new} replicas are independent copies: each has its own unit and disk, and a request reaches any of them",
    )


def _pod_effect(after: TenantSide, name: str, *ends: bytes | None) -> Effect:
    declared = after.folder.of_kind(GPUInstance).get(name)
    deployments = [None if data is None else _load_deployment(data) for data in ends]
    old, new = (
        PodSet(_replica_count(deployment), _pod_template(deployment)) if deployment is not None else PodSet(0, None)
        for deployment in deployments
    )
    is_stopped = ends[1] is None or declared is None or not declared.model.spec.is_running
    return predict_effect(old, new, is_stopped=is_stopped)


def _load_deployment(data: bytes) -> Object:
    return load_one(split(data)[0])


def _replica_count(deployment: Object) -> int:
    copies: int = deployment["spec"]["replicas"]
    return copies


def _pod_template(deployment: Object) -> Any:
    return deployment["spec"]["template"]


def _instance_losses(
    subject: str, before: TenantSide, after: TenantSide, name: str, old: bytes | None, new: bytes | None
) -> Iterator[LossOutput]:
    """Yield the loss of an instance: whenever it stops, the data on the disk of its unit is lost."""
    copies = _replica_count(_load_deployment(old)) if old is not None else 0
    if not copies or old is None:
        return
    folders = _lost_folders_text(before, name)
    disk = f"everything on its own disk ({_disk_size_text(before, name)}at /scratch) is lost{folders}"
    loss: Loss = "Data" if folders else "OwnDisk"
    if new is None:
        yield LossOutput(subject, f"is removed: {disk}", loss)
        return
    remaining = _replica_count(_load_deployment(new))
    if not remaining:
        yield LossOutput(subject, f"stops: {disk}", loss)
    elif _pod_template(_load_deployment(old)) != _pod_template(_load_deployment(new)):
        yield LossOutput(subject, f"{RESTART_PREFIX} {disk}", loss)
    elif remaining < copies:
        yield LossOutput(
            subject,
            f"{copies - remaining} of {copies} copies end: everything on their own disks is lost{folders}",
            loss,
        )


def _disk_size_text(side: TenantSide, name: str) -> str:
    instance = side.folder.of_kind(GPUInstance).get(name)
    spec = side.catalog.platform.of_kind(GPUSpec).get(instance.model.spec.gpu_spec) if instance else None
    return f"{format_size(spec.model.spec.disk)} " if spec else ""


def _lost_folders_text(side: TenantSide, name: str) -> str:
    instance = side.folder.of_kind(GPUInstance).get(name)
    folders = find_unsaved_folders(side.catalog, instance.model) if instance else []
    return f", including {', '.join(map(describe_folder, folders))}" if folders else ""


def _storage_losses(
    subject: str, before: TenantSide, after: TenantSide, name: str, old: bytes | None, new: bytes | None
) -> Iterator[LossOutput]:
    """Yield how a change affects the data of a storage: it is lost, may be deleted, or may be overwritten."""
    old_volume = read_volume(old) if old is not None else None
    if old is None or old_volume is None:
        return
    size = format_size(old_volume.size)
    new_volume = read_volume(new) if new is not None else None
    if new is None or new_volume is None:
        yield LossOutput(subject, f"is deleted with its volume of {size} and all data on it")
        return
    if old_volume.deletion_policy != "Delete" and new_volume.deletion_policy == "Delete":
        message = f"is marked for deletion: if you remove its file, its volume of {size} is deleted"
        yield LossOutput(subject, message, "Mark")
    jobs = read_job_names(old)
    if read_job_names(new) - jobs:
        again = " again" if jobs else ""
        yield LossOutput(subject, f"is prepared{again}: the data on its volume of {size} may be overwritten")


def _snapshot_losses(
    subject: str, before: TenantSide, after: TenantSide, name: str, old: bytes | None, new: bytes | None
) -> Iterator[LossOutput]:
    """Yield how a change affects a snapshot: it is lost, or may be deleted."""
    old_volume = read_volume(old) if old is not None else None
    if old_volume is None:
        return
    new_volume = read_volume(new) if new is not None else None
    if new_volume is None:
        yield LossOutput(subject, f"is deleted: this state of storage {old_volume.source_volume} is lost")
    elif old_volume.deletion_policy != "Delete" and new_volume.deletion_policy == "Delete":
        yield LossOutput(subject, "is marked for deletion: if you remove its file, the snapshot is deleted", "Mark")


_LOSSES_BY_KIND = {INSTANCE.word: _instance_losses, STORAGE.word: _storage_losses, SNAPSHOT.word: _snapshot_losses}


def _mark_replacements(before: TenantSide, after: TenantSide, changes: list[ResourceChange]) -> list[ResourceChange]:
    """Return the changes, with the action `replaced` for an added resource that replaces a removed resource.

    The two resources have the same kind, and the same name or spec.
    """
    removed = [change for change in changes if change.action == "removed"]
    new_changes = []
    for change in changes:
        model = RESOURCE_KINDS[change.kind].kind.model
        declared = after.folder.of_kind(model).get(change.name)
        for removal in removed if change.action == "added" and declared is not None else ():
            old = before.folder.of_kind(model).get(removal.name) if removal.kind == change.kind else None
            if (
                old is not None
                and declared is not None
                and (removal.name == change.name or old.model.spec == declared.model.spec)
            ):
                message = f"it replaces {removal.name} in {removal.cluster}: a rename or a move removes the old resource and adds a new one"
                new_changes.append(msgspec.structs.replace(change, action="replaced", causes=(message,)))
                break
        else:
            new_changes.append(change)
    return new_changes


def _quota_changes(before: TenantSide, after: TenantSide) -> Iterator[QuotaOutput]:
    """Yield a QuotaOutput for each dimension of a tenant's quota if its use or its limit changes."""
    name = (after.folder if after.folder.paths() else before.folder).name
    old, new = compute_quota_usage(before.catalog, before.folder), compute_quota_usage(after.catalog, after.folder)
    old_limits, limits = limits_of(before.catalog, before.folder), limits_of(after.catalog, after.folder)
    models = {*old.gpus, *new.gpus}
    if old_limits and limits:
        models |= {
            gpu_model
            for gpu_model in {*old_limits.gpus, *limits.gpus}
            if old_limits.gpus.get(gpu_model) != limits.gpus.get(gpu_model)
        }
    for model in sorted(models):
        most, most_before = (limit.gpus.get(model, 0) if limit else None for limit in (limits, old_limits))
        used, used_now = (side.gpus.get(model, Fraction(0)) for side in (old, new))
        yield from _changed_usage(
            QuotaOutput(
                tenant=name,
                dimension=f"{model} GPUs",
                before=used,
                after=used_now,
                limit=most,
                limit_before=most_before,
            )
        )
    for field in ("instances", "storages", "storage", "snapshots"):
        most, most_before = (getattr(limit, field) if limit else None for limit in (limits, old_limits))
        used, used_now = (Fraction(getattr(side, field)) for side in (old, new))
        yield from _changed_usage(
            QuotaOutput(
                tenant=name,
                dimension=field,
                before=used,
                after=used_now,
                limit=most,
                limit_before=most_before,
            )
        )


def _changed_usage(amount: QuotaOutput) -> Iterator[QuotaOutput]:
    """Yield `amount` if the use of its dimension changes, or if the limits before and after the change differ.

    If the limit after the change is unknown, the limit before the change replaces it.
    """
    limited = amount.limit is not None and amount.limit_before is not None
    if amount.before != amount.after or (limited and amount.limit != amount.limit_before):
        limit = amount.limit_before if amount.limit is None else amount.limit
        yield amount if limited else msgspec.structs.replace(amount, limit=limit)


def node_pool_losses(before: Catalog, after: Catalog) -> Iterator[LossOutput]:
    """Yield a loss for each pool that loses its NodePool object, because Karpenter then deletes the nodes of the pool.

    The nodes of a static pool do not belong to Allotment: the nodes and their pods stay.
    """
    for name, cluster in before.clusters.items():
        remaining = after.clusters[name].of_kind(NodePool) if name in after.clusters else {}
        for pool, declared in cluster.of_kind(NodePool).items():
            new = remaining.get(pool)
            if declared.model.spec.karpenter is not None and (new is None or new.model.spec.karpenter is None):
                yield LossOutput(
                    f"node pool {name}/{pool}", "is removed: its nodes are deleted, and everything on them stops"
                )


def compare_units(
    before: tuple[Catalog, Iterable[UnitClaim]], after: tuple[Catalog, Iterable[UnitClaim]]
) -> Iterator[UnitsOutput]:
    """Yield the units of each GPUSpec in a cluster if its units in stock or its held units change."""
    old, new = (
        {(unit_usage.cluster, unit_usage.gpu_spec): unit_usage for unit_usage in compute_unit_usage(*side)}
        for side in (before, after)
    )
    for key in sorted(old.keys() | new.keys()):
        (stock_before, held_before), (stock, held_units) = (
            _stock_and_held_units(old.get(key)),
            _stock_and_held_units(new.get(key)),
        )
        if (stock_before, held_before) != (stock, held_units):
            yield UnitsOutput(*key, stock_before, stock, held_before, held_units, stock - held_units)


def _stock_and_held_units(unit_usage: UnitUsage | None) -> tuple[int, int]:
    """Return the number of units in stock, and the number of held units."""
    if unit_usage is None:
        return 0, 0
    return sum(stock.model.spec.count for stock in unit_usage.stocks.all_stocks), sum(
        unit_usage.held_by_tenant.values()
    )
