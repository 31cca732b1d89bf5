"""Adds tariff plans: the edits of `allot tariff`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.plan import Plan
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import suggest_name
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, check_declaration, parse_number
from allotment.edits.option_values import OptionParser
from allotment.manifests.yaml_text import without_empty
from allotment.problems import OperationRefused, quote_value


def add_plan(declarations: Declarations, name: str, values: Mapping[str, Any]) -> ChangeSet:
    """Return the change that declares a tariff plan. `values` has the values of PLAN_OPTIONS.

    Raises OperationRefused if the plan exists, or if a field is invalid.
    """
    path = declarations.create_path(Plan, PLATFORM, name)
    parser = OptionParser()
    pairs = parser.parse_pairs("--gpu", values["gpus"], "MODEL=NUMBER")
    gpus = {model: parse_number(count) for model, count in pairs.items()}
    parser.raise_problems()
    quota = {"gpus": gpus, "instances": parse_number(values["instances"]), "storages": parse_number(values["storages"])}
    allow = {"sharing": values["sharing"], "exposure": values["exposures"], "imageRegistries": values["registries"]}
    spec = {
        "displayName": values["display_name"],
        "quota": quota | {"storage": values["storage"]},
        "budget": values["budget"] and {"perMonth": values["budget"]},
        "allow": without_empty({key: list(items) for key, items in allow.items()}),
    }
    data = check_declaration(path, build_declaration(path, without_empty(spec)))
    notes = [f"`allot tenant create TENANT --plan {name}` puts a tenant on the plan."]
    if not values["budget"]:
        notes.insert(0, f"No budget limits its tenants: `allot set Plan/{name} budget.perMonth=AMOUNT` sets a budget.")
    models = list_gpu_models(declarations)
    notes += [
        f"No node pool and no GPUSpec has the model {quote_value(model)}, so its quota has no effect{suggest_name(model, models)}"
        for model in gpus
        if model not in models
    ]
    return ChangeSet(f"Add tariff plan {name}", {path: data}, (f"Plan {name}",), tuple(notes))


def list_gpu_models(declarations: Declarations) -> set[str]:
    """Return the GPU models of all GPUSpecs and node pools that can be read."""
    models = set()
    for name in declarations.list_names(GPUSpec):
        with contextlib.suppress(OperationRefused):
            models.add(declarations.find(GPUSpec, PLATFORM, name).model.spec.gpu.model)
    for scope in (Scope("cluster", cluster) for cluster in declarations.list_scopes("cluster")):
        for name in declarations.list_names(NodePool, scope):
            with contextlib.suppress(OperationRefused):
                models.add(declarations.find(NodePool, scope, name).model.spec.node.gpu.model)
    return models
