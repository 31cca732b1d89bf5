"""References: the annotation alone makes a field checked, and tells the cluster of a tenant's resource."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date
from types import ModuleType
from typing import Any, Literal, get_args

import pytest
from pydantic import BaseModel, Field

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds import KINDS, Kind
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.references import ClusterReference, GPUStorageReference, ReferenceTo, reference_fields
from allotment.declared.tenant_resources import RESOURCE_KINDS, ResourceKind
from allotment.rules import references
from allotment.rules.tally import build_tally_entry

# From a declaration of each scope, the scopes whose declarations it can name; a Tenant is named by clusters alone.
REACH = {"platform": {"platform"}, "cluster": {"platform", "cluster"}, "tenant": {"platform", "tenant"}}


class Input(StrictModel):
    name: GPUStorageReference


class JobSpec(Spec):
    cluster: ClusterReference
    inputs: list[Input] = Field(default=[])


class GPUJob(Declaration):
    kind: Literal["GPUJob"]
    spec: JobSpec


def job(cluster: str, *inputs: str) -> ScopeDeclarations:
    """Return the folder of a tenant with a single job."""
    spec: dict[str, Any] = {"cluster": cluster, "inputs": [{"name": name} for name in inputs]}
    envelope = {"apiVersion": "allotment.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": "train"}}
    model = GPUJob.model_validate({**envelope, "spec": spec})
    return ScopeDeclarations(Scope("tenant", "acme"), [DeclarationFile("tenants/acme/jobs/train.yaml", b"", model)])


def catalog() -> Catalog:
    clusters = {name: ScopeDeclarations(Scope("cluster", name)) for name in ("eu-1", "us-1")}
    return Catalog(ScopeDeclarations(PLATFORM), clusters, date(2026, 11, 21))


def test_a_new_kind_is_checked_by_its_annotations() -> None:
    findings = [
        finding for finding in references.check_tenant(catalog(), job("eu-9", "data")) if finding.rule != "required"
    ]
    assert [(finding.field, finding.message) for finding in findings] == [
        (("spec", "cluster"), "no Cluster is named 'eu-9'; did you mean 'eu-1'?"),
        (("spec", "inputs", 0, "name"), "no GPUStorage is named 'data' in tenants/acme"),
    ]


def test_a_new_kind_alone_in_a_cluster_is_counted_there(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("allotment.declared.kinds.gpu_job")
    module.GPUJob = GPUJob  # type: ignore[attr-defined]  # a module of a kind that only this test has
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kind = Kind("GPUJob", "gpu_job", "tenants/{tenant}/jobs/{name}.yaml")
    monkeypatch.setitem(RESOURCE_KINDS, "job", ResourceKind("job", "jobs", kind, "jobs"))
    assert build_tally_entry(catalog(), job("us-1")).clusters == ("us-1",)


def kinds_named(model: type[BaseModel]) -> Iterator[str]:
    """Yield the kinds that the fields of a model name."""
    for field in reference_fields(model):
        if field.to is not None:
            yield field.to.kind
        for part in parts(model.model_fields[field.name].annotation):
            yield from kinds_named(part)


def parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from parts(part)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_names_only_kinds_that_can_be_looked_up(kind: Kind) -> None:
    """The rule finds targets in the platform, among the clusters, in the own folder, and, for offers, among tenants."""
    for target in kinds_named(kind.model):
        own_tenant = target == "Tenant" and kind.scope != "tenant"
        assert target == "Cluster" or own_tenant or KINDS[target].scope in REACH[kind.scope], target


@pytest.mark.parametrize("resource_kind", RESOURCE_KINDS.values(), ids=RESOURCE_KINDS)
def test_the_references_of_a_tenants_resource_lead_to_a_cluster(resource_kind: ResourceKind) -> None:
    named = set(kinds_named(resource_kind.kind.model))
    while "Cluster" not in named:
        more = {target for kind in named for target in kinds_named(KINDS[kind].model)} - named
        assert more, f"{resource_kind.kind.name} names no Cluster, nor a resource that does"
        named |= more


def test_optional_fields_and_lists_hold_references() -> None:
    class Sample(BaseModel):
        clusters: list[ClusterReference] = []
        storage: GPUStorageReference | None = None
        other: str = ""

    assert [(field.name, field.to) for field in reference_fields(Sample)] == [
        ("clusters", ReferenceTo("Cluster")),
        ("storage", ReferenceTo("GPUStorage")),
    ]
