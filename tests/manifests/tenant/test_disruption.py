"""A tenant's instances are protected from whatever drains a node, each pod by exactly one budget."""

from __future__ import annotations

from typing import Any

from tests.conftest import PROJECT

from allotment.manifests.yaml_text import load

GOLDEN = PROJECT / "tests/manifests/golden"


def budgets(data: bytes) -> dict[str, dict[str, Any]]:
    return {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in load(data)
        if manifest["kind"] == "PodDisruptionBudget"
    }


def selects(spec: dict[str, Any], instance: str) -> bool:
    """Return whether a budget selects the pods of an instance, by the rules of label selectors."""
    wanted = spec["selector"].get("matchLabels", {}).get("allotment.dev/instance", instance)
    forbidden = [
        value
        for expression in spec["selector"].get("matchExpressions", ())
        if expression["operator"] == "NotIn"
        for value in expression["values"]
    ]
    return wanted == instance and instance not in forbidden


def test_every_namespace_protects_its_instances() -> None:
    files = [path for path in GOLDEN.rglob("control/namespaces/*/*.rendered.yaml") if "--" not in path.name]
    assert len(files) > 5
    for file in files:
        all_of_them = budgets(file.read_bytes())["instances"]
        assert all_of_them["maxUnavailable"] == 0, file
        assert all_of_them["selector"]["matchExpressions"][0] == {"key": "allotment.dev/instance", "operator": "Exists"}


def test_copies_move_one_after_the_other() -> None:
    budgets_by_name = budgets((GOLDEN / "eu-1/control/namespaces/f/film-house.rendered.yaml").read_bytes())
    assert budgets_by_name["copies--preview"]["minAvailable"] == 1, "of two; of one that alone has a unit, none goes"
    six = budgets((GOLDEN / "us-1/control/namespaces/a/acme-robotics.rendered.yaml").read_bytes())
    assert six["copies--simulate"]["minAvailable"] == 5
    chosen = {
        instance: [name for name, spec in budgets_by_name.items() if selects(spec, instance)]
        for instance in ("preview", "grade")
    }
    assert chosen == {"preview": ["copies--preview"], "grade": ["instances"]}
