"""What every tenant's part rests on: the priority classes that placeholders, storages and instances have."""

from __future__ import annotations

from allotment.manifests import names
from allotment.manifests.cluster.foundation import render_priority_classes

AUTOSCALER_CUTOFF = -10  # Cluster Autoscaler: --expendable-pods-priority-cutoff; it buys no node for a pod below
CLOSE_TO_EMPTY = -1_000  # far above where Karpenter takes a node for empty


def test_a_node_of_placeholders_is_empty_for_nobody() -> None:
    """Karpenter weighs a pod by its priority: from about −33.5 million on a node with such pods alone counts as empty, and is
    given back with the units that it was to keep warm."""
    values = {
        priority_class["metadata"]["name"]: priority_class["value"] for priority_class in render_priority_classes()
    }
    stock = {name: value for name, value in values.items() if name.startswith("allotment-stock-")}
    assert sorted(stock.values()) == list(range(-10, 0))
    assert min(stock.values()) >= AUTOSCALER_CUTOFF > CLOSE_TO_EMPTY
    assert {names.stock_priority(rank) for rank in range(1, 50)} == stock.keys(), "however many sizes a pool has"


def test_an_instance_pushes_placeholders_aside_and_nobody_else() -> None:
    others = {
        priority_class["metadata"]["name"]: priority_class
        for priority_class in render_priority_classes()
        if priority_class["value"] >= 0
    }
    assert others.keys() == {names.STORAGE_PRIORITY, names.INSTANCE_PRIORITY}
    assert others[names.INSTANCE_PRIORITY]["value"] > others[names.STORAGE_PRIORITY]["value"]
    assert others[names.STORAGE_PRIORITY]["preemptionPolicy"] == "Never"
