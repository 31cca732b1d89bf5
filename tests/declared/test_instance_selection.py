"""A selector selects instances by declared facts; a label selector has four forms."""

from __future__ import annotations

import pytest

from allotment.declared.instance_selection import InstanceSelector, parse_label_requirements, select_instances
from allotment.declared.tenant_facts import InstanceFacts
from allotment.problems import OperationRefused

MODELS = {"l4-quarter": "nvidia-l4", "h100-one": "nvidia-h100-80gb"}


def instance(name: str, *, spec: str = "l4-quarter", state: str = "Running", **labels: str) -> InstanceFacts:
    return InstanceFacts(
        tenant="solo-ada",
        name=name,
        cluster="eu-1",
        gpu_spec=spec,
        state=state,
        replicas=1,
        app="jupyter 4.5.0",
        storages=(),
        labels=labels,
    )


INSTANCES = [
    instance("webui", team="x"),
    instance("train", spec="h100-one", team="y"),
    instance("idle", state="Stopped"),
    instance("other", spec="unknown"),
]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (InstanceSelector(), "webui train idle other"),
        (InstanceSelector(gpu_models=["nvidia-l4"]), "webui idle"),
        (InstanceSelector(gpu_models=["nvidia-l4"], states=["Running"]), "webui"),
        (InstanceSelector(gpu_specs=["h100-one", "unknown"]), "train other"),
        (InstanceSelector(labels=parse_label_requirements("team")), "webui train"),
        (InstanceSelector(labels=parse_label_requirements("team!=x")), "train idle other"),
        (InstanceSelector(labels=parse_label_requirements("team==y")), "train"),
        (InstanceSelector(labels=parse_label_requirements("!team")), "idle other"),
        (InstanceSelector(tenants=["uni-lab"]), ""),
        (InstanceSelector(clusters=["us-1"]), ""),
    ],
)
def test_an_instance_must_satisfy_every_condition(selector: InstanceSelector, names: str) -> None:
    assert [selected.name for selected in select_instances(INSTANCES, selector, MODELS)] == names.split()


@pytest.mark.parametrize("text", ["", "a,", "=x", "a=b=c", "!", "!a=b=c", "a b=c"])
def test_an_invalid_label_selector_is_refused(text: str) -> None:
    with pytest.raises(OperationRefused, match="is not a label selector: write key=value"):
        parse_label_requirements(text)
