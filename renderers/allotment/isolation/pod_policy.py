"""Check tenants' pods against lists of allowed fields, independently of the patterns in `allowed/tenant.yaml`.

A new field of pods or containers must be added to these lists and to the patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from allotment.isolation.field_policy import check_allowed_keys, check_equal
from allotment.isolation.secret_policy import PULL_SECRET
from allotment.manifests import names, paths
from allotment.manifests.tenant.programs import hash_programs
from allotment.manifests.yaml_text import Object
from allotment.problems import escape_unprintable
from allotment.programs import ending

_POD_FIELDS = frozenset(
    "automountServiceAccountToken enableServiceLinks hostUsers priorityClassName securityContext containers volumes affinity tolerations"
    " restartPolicy terminationGracePeriodSeconds topologySpreadConstraints".split()
)
_JOB_POD_FIELDS = (_POD_FIELDS | {"initContainers"}) - {"topologySpreadConstraints"}
_CONTAINER_FIELDS = frozenset(
    "name image command args env ports resources startupProbe readinessProbe securityContext volumeMounts".split()
)
_SIDECAR_FIELDS = _CONTAINER_FIELDS | {"restartPolicy"}
_PRIORITIES = (names.INSTANCE_PRIORITY, names.STORAGE_PRIORITY)
_TOLERATIONS = ({"key": names.GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"},)
_POD_SECURITY = {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"}
_CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
COPY_COMMAND = ["python3", "-m", "programs.copy_shared"]
_CHECK = "check"
_CHECK_COMMAND = ["python3", "-m", "programs.check"]
_ENDED_BY_CHECK = {"containerName": _CHECK, "operator": "In", "values": [ending.ALREADY_COMPLETE]}
_FAILURE_POLICY = {"rules": [{"action": "FailJob", "onExitCodes": _ENDED_BY_CHECK}]}
_HIDE_GPUS_ENV = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
_VOLUMES = frozenset(("name", "ephemeral", "emptyDir", "persistentVolumeClaim", "configMap"))
_RESTARTS = re.compile(r"[0-9]{1,7}")
_HASH = re.compile(r"-[0-9a-f]{16}")  # the end of the name of a ConfigMap with programs


def judge_template(tenant: str, template: Any, job: str) -> Iterator[str]:
    """Yield the violations in a tenant's pod template; `job` is the name of the Job, empty for a Deployment.

    Only a Job's pod may have init containers, and a volume with programs. The programs are in a ConfigMap that the
    tenant's Jobs share, or, if an older version of Allotment published the Job, in a ConfigMap with the Job's name.
    """
    yield from check_allowed_keys("template", template, frozenset(("metadata", "spec")))
    metadata = template.get("metadata")
    yield from check_allowed_keys(
        "template.metadata", metadata, frozenset(("labels",) if job else ("labels", "annotations"))
    )
    annotations = metadata.get("annotations", {}) if isinstance(metadata, dict) else {}
    yield from check_allowed_keys("template.metadata.annotations", annotations, frozenset((names.RESTARTS,)))
    if annotations and not _RESTARTS.fullmatch(str(annotations.get(names.RESTARTS))):
        yield f"template annotation {names.RESTARTS} must be a number"
    yield from check_equal("template tenant", template.get("metadata", {}).get("labels", {}).get(names.TENANT), tenant)
    pod = template.get("spec", {})
    if template.get("metadata", {}).get("labels", {}).get(names.ROLE) == names.COPY_ROLE:
        # A pod with this role can read the files of other tenants, so it may not run a program that the tenant defines.
        programs = [
            pod_container.get("command")
            for pod_container in (*pod.get("initContainers", ()), *pod.get("containers", ()))
        ]
        yield from check_equal("pod that copies", programs, [COPY_COMMAND] if job else [])
    yield from check_allowed_keys("pod", pod, _JOB_POD_FIELDS if job else _POD_FIELDS)
    yield from check_equal("pod.automountServiceAccountToken", pod.get("automountServiceAccountToken"), False)
    yield from check_equal("pod.hostUsers", pod.get("hostUsers"), False)
    yield from check_equal("pod.securityContext", pod.get("securityContext"), _POD_SECURITY)
    if pod.get("priorityClassName") not in _PRIORITIES:
        yield f"pod.priorityClassName {escape_unprintable(str(pod.get('priorityClassName')))} is not allowed"
    yield from check_equal("pod.terminationGracePeriodSeconds", pod.get("terminationGracePeriodSeconds", 1), 1)
    for toleration in pod.get("tolerations", ()):
        if toleration not in _TOLERATIONS:
            yield f"toleration {escape_unprintable(str(toleration))} is not allowed"
    for container in pod.get("containers", ()):
        yield from _judge_container(container, _CONTAINER_FIELDS)
    for container in pod.get("initContainers", ()):
        yield from _judge_container(container, _SIDECAR_FIELDS)
    for volume in pod.get("volumes", ()):
        yield from check_allowed_keys("volume", volume, _VOLUMES)
        if "configMap" in volume:
            yield from _judge_programs_source(volume["configMap"], job)
        yield from check_allowed_keys("volume.emptyDir", volume.get("emptyDir", {}), frozenset(("medium", "sizeLimit")))
        yield from check_allowed_keys(
            "volume.persistentVolumeClaim",
            volume.get("persistentVolumeClaim", {}),
            frozenset(("claimName", "readOnly")),
        )


def _judge_programs_source(source: Any, job: str) -> Iterator[str]:
    name = str(source.get("name")) if isinstance(source, dict) else ""
    is_program = name.startswith(paths.PROGRAMS_PREFIX) and _HASH.fullmatch(name[-17:])
    yield from check_equal("volume.configMap", source, {"name": name if job and is_program else job})


def judge_programs(resource_name: str, manifest: Object) -> Iterator[str]:
    """Yield the violations of a ConfigMap with programs, or of any object in a file for programs.

    `resource_name` is the stem of the file. A file for programs contains one ConfigMap, which has the name of the file.
    The name ends in a hash of the content, in every version of Allotment. No other content can have the same name, so
    nobody can change the programs of a Job.
    """
    name = str(manifest.get("metadata", {}).get("name"))
    if not resource_name.startswith(paths.PROGRAMS_PREFIX) and not (
        manifest.get("kind") == "ConfigMap" and name.startswith(paths.PROGRAMS_PREFIX)
    ):
        return
    yield from check_equal("programs' kind", manifest.get("kind"), "ConfigMap")
    yield from check_equal("programs' metadata.name", name, resource_name)
    yield from check_equal("programs' immutable", manifest.get("immutable"), True)
    yield from check_equal(
        "the hash in the name of programs", name[-17:], f"-{hash_programs(manifest.get('data', {}))}"
    )


def judge_failure_policy(spec: Any) -> Iterator[str]:
    """Yield the violations of a Job's podFailurePolicy, which may let only our container `check` end the Job.

    If `check` ends the Job with the exit status ALREADY_COMPLETE, an earlier Job has completed the volume, so we treat
    this failure as a success.
    """
    if "podFailurePolicy" not in spec:
        return
    yield from check_equal("spec.podFailurePolicy", spec["podFailurePolicy"], _FAILURE_POLICY)
    first: Any = next(iter(spec.get("template", {}).get("spec", {}).get("initContainers", ())), {})
    values = [first.get(key) for key in ("name", "command", "restartPolicy")]
    yield from check_equal("spec.podFailurePolicy: the first container", values, [_CHECK, _CHECK_COMMAND, None])


def _judge_container(container: Any, fields: frozenset[str]) -> Iterator[str]:
    yield from check_allowed_keys("container", container, fields)
    security = dict(container.get("securityContext", {}))
    if security.pop("readOnlyRootFilesystem", True) is not True:
        yield "container.securityContext.readOnlyRootFilesystem is not allowed to be false"
    yield from check_equal("container.securityContext", security, _CONTAINER_SECURITY)
    for variable in container.get("env", ()):
        yield from check_allowed_keys("env", variable, frozenset(("name", "value", "valueFrom")))
        if "valueFrom" in variable:
            yield from _judge_reference(variable["valueFrom"])
        if str(variable.get("name")).startswith(("NVIDIA_", "CUDA_MPS_")) and variable != _HIDE_GPUS_ENV:
            yield f"env {escape_unprintable(str(variable.get('name')))} is not allowed"
    for port in container.get("ports", ()):
        yield from check_allowed_keys("container.ports", port, frozenset(("name", "containerPort", "protocol")))
    for mount in container.get("volumeMounts", ()):
        yield from check_allowed_keys("volumeMounts", mount, frozenset(("name", "mountPath", "subPath", "readOnly")))


def _judge_reference(source: Any) -> Iterator[str]:
    """Yield the violations of a variable's source, which must be one key of a Secret or ConfigMap of the namespace."""
    yield from check_allowed_keys("env.valueFrom", source, frozenset(("secretKeyRef", "configMapKeyRef")))
    yield from check_equal("env.valueFrom", len(source), 1)
    for reference in source.values():
        yield from check_allowed_keys("env.valueFrom", reference, frozenset(("name", "key")))
        if PULL_SECRET.fullmatch(str(reference.get("name"))):
            yield f"env.valueFrom reads the pull credential {reference['name']}"
