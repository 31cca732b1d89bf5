"""Deployments: of instances, accessors and placeholders."""

from __future__ import annotations

from allotment.observed.objects import Deployment
from allotment.observed.shapes.base import CUT, Metadata, ObjectCondition, Shape, named, number


class _Claim(Shape, frozen=True):
    claim_name: str = ""


class _Volume(Shape, frozen=True):
    persistent_volume_claim: _Claim | None = None


class _Container(Shape, frozen=True):
    image: str = ""


class _TemplateSpec(Shape, frozen=True):
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


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
        metadata.uid,
        metadata.name,
        metadata.tenant,
        labels.instance,
        labels.storage,
        metadata.stock,
        labels.gpu_spec,
        annotations.blob,
        number(annotations.units),
        annotations.reserved_for,
        annotations.waits_for,
        annotations.waits_reason,
        metadata.creation_timestamp,
        metadata.deletion_timestamp is not None,
        spec.replicas,
        status.replicas,
        status.ready_replicas,
        status.observed_generation >= metadata.generation,
        annotations.revision,
        pod.containers[0].image if pod.containers else "",
        tuple(volume.persistent_volume_claim.claim_name for volume in pod.volumes if volume.persistent_volume_claim),
        refused.message[:CUT] if refused.status == "True" else "",
    )
