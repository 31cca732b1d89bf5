"""Selects instances by tenant, cluster, GPUSpec, GPU model, declared state and labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from allotment.declared.reading import suggest_name
from allotment.problems import OperationRefused, quote_value


class Labelled(Protocol):
    """A declaration with labels."""

    @property
    def labels(self) -> Mapping[str, str]: ...


class SelectableInstance(Labelled, Protocol):
    """The facts of an instance that a selector compares, such as `InstanceFacts`. `state` is the declared state."""

    @property
    def tenant(self) -> str: ...
    @property
    def cluster(self) -> str: ...
    @property
    def gpu_spec(self) -> str: ...
    @property
    def state(self) -> str | None: ...


L = TypeVar("L", bound=Labelled)
S = TypeVar("S", bound=SelectableInstance)


class LabelRequirement(NamedTuple):
    """A requirement on a label: `key`, `key=value`, `key!=value` or `!key`.

    `value` is None if only the presence of the label counts. An object without the label satisfies `key!=value`.
    """

    key: str
    value: str | None
    negated: bool = False

    def is_satisfied(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy the requirement."""
        matches = self.key in labels if self.value is None else labels.get(self.key) == self.value
        return matches != self.negated


class InstanceSelector(NamedTuple):
    """The conditions on an instance. An empty condition selects all; an instance must satisfy every condition."""

    tenants: Collection[str] = ()
    clusters: Collection[str] = ()
    gpu_specs: Collection[str] = ()
    gpu_models: Collection[str] = ()
    states: Collection[str] = ()
    labels: Collection[LabelRequirement] = ()


def parse_label_requirements(text: str) -> list[LabelRequirement]:
    """Return the requirements in a text such as `team=x,!temporary`. Raises OperationRefused if the text is invalid."""
    return [_parse_requirement(part.strip(), text) for part in text.split(",")]


def _parse_requirement(part: str, text: str) -> LabelRequirement:
    for operator, negated in (("!=", True), ("==", False), ("=", False)):
        key, separator, value = part.partition(operator)
        if separator and key and not set(key + value) & set("!=, "):
            return LabelRequirement(key, value, negated)
    key = part.removeprefix("!")
    if not key or set(key) & set("!=, "):
        raise OperationRefused(
            f"{quote_value(text)} is not a label selector: write key=value, key!=value, key or !key, separated by commas"
        )
    return LabelRequirement(key, None, part.startswith("!"))


def check_label_names(requirements: Iterable[LabelRequirement], objects: Iterable[Labelled]) -> None:
    """Raise OperationRefused if no object has the label, or the value of the label, that a requirement names."""
    values: dict[str, set[str]] = {}
    for labelled in objects:
        for key, value in labelled.labels.items():
            values.setdefault(key, set()).add(value)
    for requirement in requirements:
        if requirement.key not in values:
            suggestion = suggest_name(requirement.key, values) or "; nothing here has labels"
            raise OperationRefused(f"nothing has the label {quote_value(requirement.key)}{suggestion}")
        if requirement.value is not None and requirement.value not in values[requirement.key]:
            raise OperationRefused(
                f"no label {quote_value(requirement.key)} has the value {quote_value(requirement.value)}"
                f"{suggest_name(requirement.value, values[requirement.key])}"
            )


def select_labelled(objects: Iterable[L], requirements: Collection[LabelRequirement]) -> list[L]:
    """Return the objects with labels that satisfy all requirements, in the given order."""
    return [
        labelled
        for labelled in objects
        if all(requirement.is_satisfied(labelled.labels) for requirement in requirements)
    ]


def select_instances(instances: Iterable[S], selector: InstanceSelector, models_by_spec: Mapping[str, str]) -> list[S]:
    """Return the instances that a selector selects, in the given order.

    `models_by_spec` maps each declared GPUSpec to its GPU model.
    """
    selected = [
        instance
        for instance in instances
        if (not selector.tenants or instance.tenant in selector.tenants)
        and (not selector.clusters or instance.cluster in selector.clusters)
        and (not selector.gpu_specs or instance.gpu_spec in selector.gpu_specs)
        and (not selector.gpu_models or models_by_spec.get(instance.gpu_spec) in selector.gpu_models)
        and (not selector.states or instance.state in selector.states)
    ]
    return select_labelled(selected, selector.labels)
