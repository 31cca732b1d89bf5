"""Deployments of instances, of placeholders, and of accessors (web pages that show the files of a storage)."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import (
    MAX_MESSAGE_LENGTH,
    ApiObject,
    Metadata,
    ObjectCondition,
    find_condition,
    parse_count,
)
from allotment.observed.objects import Deployment


class _Claim(ApiObject, frozen=True):
    claim_name: str = ""


class _Volume(ApiObject, frozen=True):
    persistent_volume_claim: _Claim | None = None


class _Container(ApiObject, frozen=True):
    image: str = ""


class _Expression(ApiObject, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class _Term(ApiObject, frozen=True):
    match_expressions: tuple[_Expression, ...] = ()


class _NodeSelector(ApiObject, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(ApiObject, frozen=True, rename={"required": "requiredDuringSchedulingIgnoredDuringExecution"}):
    required: _NodeSelector = _NodeSelector()


class _Affinity(ApiObject, frozen=True):
    node_affinity: _NodeAffinity = _NodeAffinity()


class _TemplateSpec(ApiObject, frozen=True):
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()
    affinity: _Affinity = _Affinity()


class _Template(ApiObject, frozen=True):
    spec: _TemplateSpec = _TemplateSpec()


class _DeploymentSpec(ApiObject, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _DeploymentStatus(ApiObject, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    conditions: tuple[ObjectCondition, ...] = ()


class RawDeployment(ApiObject, frozen=True):
    """A Deployment."""

    metadata: Metadata
    spec: _DeploymentSpec = _DeploymentSpec()
    status: _DeploymentStatus = _DeploymentStatus()


def summarize_deployment(raw: RawDeployment) -> Deployment:
    """Return the summary of a Deployment."""
    metadata, spec, status = raw.metadata, raw.spec, raw.status
    annotations, pod = metadata.annotations, spec.template.spec
    refused = find_condition(status.conditions, "ReplicaFailure")
    pool_labels = _find_pool_labels(pod) if metadata.stock else frozenset()
    return Deployment(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        instance=metadata.get_label(names.INSTANCE),
        storage=metadata.get_label(names.STORAGE),
        stock=metadata.stock,
        gpu_spec=metadata.get_label(names.GPU_SPEC),
        blob=annotations.blob,
        units=parse_count(annotations.units),
        reserved_for=annotations.reserved_for,
        ssh_command=annotations.ssh_command,
        waits_for=annotations.waits_for,
        waits_reason=annotations.waits_reason,
        created=metadata.created,
        terminating=metadata.deletion_timestamp is not None,
        replicas=spec.replicas,
        current_replicas=status.replicas,
        ready_replicas=status.ready_replicas,
        generation_observed=status.observed_generation >= metadata.generation,
        revision=annotations.revision,
        image=pod.containers[0].image if pod.containers else "",
        mounts=tuple(
            volume.persistent_volume_claim.claim_name for volume in pod.volumes if volume.persistent_volume_claim
        ),
        creation_failure=refused.message[:MAX_MESSAGE_LENGTH] if refused.status == "True" else "",
        karpenter_pool=dict(pool_labels).get(names.POOL, ""),
        pool=annotations.node_pool if metadata.stock else "",
        pool_labels=pool_labels,
    )


def _find_pool_labels(pod: _TemplateSpec) -> frozenset[tuple[str, str]]:
    """Return the labels that the node affinity of a placeholder requires."""
    terms = pod.affinity.node_affinity.required.node_selector_terms
    return frozenset(
        (expression.key, value)
        for term in terms[:1]
        for expression in term.match_expressions
        for value in expression.values[:1]
    )
