"""Render a tenant's PodDisruptionBudgets, which stop Karpenter and `kubectl drain` from evicting running instances.

At most one PodDisruptionBudget may select a pod: if two select it, the API server answers an eviction with an error.
Therefore one PodDisruptionBudget selects all instances with one replica, and blocks every eviction. Each instance with
several replicas has its own PodDisruptionBudget. It allows the eviction of one replica while all replicas of the
instance run.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.manifests import names

ALL_INSTANCES_BUDGET = "instances"
ANY_INSTANCE_EXPRESSION = {"key": names.INSTANCE, "operator": "Exists"}
_REPLICAS_BUDGET_PREFIX = "copies--"


def render(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return a tenant's PodDisruptionBudgets: one for all instances with one replica, one for each other instance."""
    copied = {
        instance.model.name: instance.model.spec.replicas
        for instance in tenant.of_kind(GPUInstance).values()
        if instance.model.spec.cluster == cluster.name and instance.model.spec.replicas > 1
    }
    chosen: list[dict[str, Any]] = [ANY_INSTANCE_EXPRESSION]
    if copied:
        chosen.append({"key": names.INSTANCE, "operator": "NotIn", "values": sorted(copied)})
    budgets = [_build_all_instances_budget(tenant.name, chosen)]
    for name, replicas in sorted(copied.items()):
        # `maxUnavailable: 1` would allow the eviction of the last running replica if the other replicas have no unit.
        spec = {"minAvailable": replicas - 1, "selector": {"matchLabels": {names.INSTANCE: name}}}
        budgets.append(
            _build_budget(tenant.name, f"{_REPLICAS_BUDGET_PREFIX}{name}", names.KEEP_ON_APPLICATION_DELETION, spec)
        )
    return budgets


def render_all_instances_budget(tenant: str) -> dict[str, Any]:
    """Return the PodDisruptionBudget of a retained tenant, which blocks the eviction of all its instances."""
    return _build_all_instances_budget(tenant, [ANY_INSTANCE_EXPRESSION])


def _build_all_instances_budget(tenant: str, chosen: list[dict[str, Any]]) -> dict[str, Any]:
    return _build_budget(
        tenant,
        ALL_INSTANCES_BUDGET,
        names.KEEP_OPTIONS,
        {"maxUnavailable": 0, "selector": {"matchExpressions": chosen}},
    )


def _build_budget(tenant: str, name: str, options: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "namespace": names.namespace(tenant),
            "labels": names.labels(tenant=tenant),
            "annotations": {names.SYNC_OPTIONS: options},
        },
        "spec": spec,
    }
