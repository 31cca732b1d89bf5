"""Deployments: of instances, accessors and placeholders."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.objects import Deployment
from allotment.observed.shapes.base import CUT, Metadata, ObjectCondition, Shape, named, number


class _Claim(Shape, frozen=True):
    claim_name: str = ""


class _Volume(Shape, frozen=True):
    persistent_volume_claim: _Claim | None = None


class _Container(Shape, frozen=True):
    image: str = ""


class _Expression(Shape, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class _Term(Shape, frozen=True):
    match_expressions: tuple[_Expression, ...] = ()


class _NodeSelector(Shape, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(Shape, frozen=True, rename={"required": "requiredDuringSchedulingIgnoredDuringExecution"}):
    required: _NodeSelector = _NodeSelector()


class _Affinity(Shape, frozen=True):
    node_affinity: _NodeAffinity = _NodeAffinity()


class _TemplateSpec(Shape, frozen=True):
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()
    affinity: _Affinity = _Affinity()


class _Template(Shape, frozen=True):
    spec: _TemplateSpec = _TemplateSpec()


class _DeploymentSpec(Shape, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _DeploymentStatus(Shape, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    conditions: tuple[ObjectCondition, ...] = ()


class RawDeployment(Shape, frozen=True):
    """A Deployment."""

    metadata: Metadata
    spec: _DeploymentSpec = _DeploymentSpec()
    status: _DeploymentStatus = _DeploymentStatus()


def deployment(raw: RawDeployment) -> Deployment:
    """Return what is kept of a Deployment."""
    metadata, spec, status = raw.metadata, raw.spec, raw.status
    labels, annotations, pod = metadata.labels, metadata.annotations, spec.template.spec
    refused = named(status.conditions, "ReplicaFailure")
    return Deployment(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        instance=labels.instance,
        storage=labels.storage,
        stock=metadata.stock,
        gpu_spec=labels.gpu_spec,
        blob=annotations.blob,
        units=number(annotations.units),
        reserved_for=annotations.reserved_for,
        waits_for=annotations.waits_for,
        waits_reason=annotations.waits_reason,
        created=metadata.created,
        ending=metadata.deletion_timestamp is not None,
        replicas=spec.replicas,
        there=status.replicas,
        ready=status.ready_replicas,
        observed=status.observed_generation >= metadata.generation,
        revision=annotations.revision,
        image=pod.containers[0].image if pod.containers else "",
        mounts=tuple(
            volume.persistent_volume_claim.claim_name for volume in pod.volumes if volume.persistent_volume_claim
        ),
        refused=refused.message[:CUT] if refused.status == "True" else "",
        node_pool=_pool(pod) if metadata.stock else "",
    )


def _pool(pod: _TemplateSpec) -> str:
    """Return the Karpenter NodePool whose nodes a placeholder takes, by the label that we give them."""
    terms = pod.affinity.node_affinity.required.node_selector_terms
    wanted = (each for term in terms for each in term.match_expressions if each.key == names.POOL)
    return next((value for each in wanted for value in each.values), "")
