"""Describes the requests of a tenant: a larger quota, or more units of a GPUSpec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import TEBI, format_size
from allotment.portal.pages.page_action import Action, ActionField, set_field
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import TenantArea

_REASON = ActionField("reason", "Reason", "a sentence for the approver, at most 2000 characters", pattern=".{1,2000}")
_APPROVAL = "The owners of the file approve the request, by default the platform team."
_FORGE = "At the forge, write the reason into the description of the pull request."

_NODES = "The command refuses units that don't fit on the nodes of the cluster: then ask the platform team for nodes."
_POSSIBLE = "No quota and no stock prevents this number of units: write a larger number, or declare an instance."
_WAITING_REASON = "no tenant changes its quota alone"


def list_requests(site: SiteFacts, area: TenantArea) -> Iterator[Action]:
    """Yield the requests. A tenant without a readable tariff plan has none."""
    declared, limits = area.allowance.declarations.get_singleton(Tenant), area.allowance.limits
    if declared is None or limits is None:
        return
    current = {
        **{f"gpus.{model}": str(count) for model, count in sorted(limits.gpus.items())},
        "instances": str(limits.instances),
        "storages": str(limits.storages),
        "storage": format_size(limits.storage),
        "snapshots": str(limits.snapshots),
    }
    command = ("allot", "request", "quota", area.name, "{quota}={amount}", "--reason", "{reason}", "--pr")
    action = Action(
        "quota", "Ask for a larger quota", command, notes=(_APPROVAL, _FORGE), waiting_reason=_WAITING_REASON
    )
    variants = {}
    for field in current:
        text, instruction = set_field(declared.data.decode(), ("quota", *field.split(".")), "{amount}")
        minimum = _require_more(field, limits.gpus.get(field.removeprefix("gpus."), getattr(limits, field, 0)))
        variants[field] = action._replace(text=text, instruction=instruction, minimum=minimum)
    yield action._replace(
        fields=(
            ActionField(
                "quota", "Quota", options=tuple((field, f"{field}, now {limit}") for field, limit in current.items())
            ),
            ActionField(
                "amount",
                "New value",
                "a number such as 30, or for storage a size such as 1Ti, above the present value",
                pattern="[1-9][0-9]{0,6}(?:Mi|Gi|Ti)?",
            ),
            _REASON,
        ),
        variants=variants,
    )
    yield from _list_spec_requests(site, area)


def _require_more(field: str, limit: int) -> dict[str, Any]:
    """Return the condition that the new value of a quota is above its limit."""
    is_size = field == "storage"
    now, example = (format_size(limit), format_size(limit + TEBI)) if is_size else (limit, limit + 1)
    text = f"The quota {field} is {now}: write more, such as {example}."
    return {"field": "amount", "limit": limit, "isSize": is_size, "text": text}


def _list_spec_requests(site: SiteFacts, area: TenantArea) -> Iterator[Action]:
    """Yield the request for units. The command decides which files it changes, so the form has no lines."""
    plan = area.allowance.plan
    allowed = plan.model.spec.allow.sharing if plan is not None else []
    action = Action(
        "spec", "Ask for units of a GPU spec", notes=(_APPROVAL, _NODES), instruction="", waiting_reason=_WAITING_REASON
    )
    variants = {
        f"{spec.name} in {spec.cluster}": action._replace(
            command=(
                *("allot", "request", "spec", area.name, spec.name, "--cluster", spec.cluster),
                *("--count", "{count}", "--reason", "{reason}", "--pr"),
            ),
            minimum={"field": "count", "gpuSpec": [spec.cluster, spec.name], "limit": 0, "text": _POSSIBLE},
            barriers=(
                ()
                if spec.sharing in allowed
                else (f"Your tariff plan {area.plan} doesn't allow {spec.sharing} units.",)
            ),
        )
        for spec in site.gpu_specs
        if spec.lifecycle == "Active"
    }
    if variants:
        yield action._replace(
            command=("allot", "request", "spec", area.name, "{spec}", "--reason", "{reason}", "--pr"),
            fields=(
                ActionField("spec", "GPU spec", options=tuple((name, name) for name in variants)),
                ActionField("count", "Further units", "a number such as 2", "1", pattern="[1-9][0-9]{0,4}"),
                _REASON,
            ),
            variants=variants,
        )
