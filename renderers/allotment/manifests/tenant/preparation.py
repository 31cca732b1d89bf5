"""Render the Job that fills a GPUStorage's volume."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.gpu_storage import S3_KEYS, GPUStorage, ImageSource, S3Source
from allotment.declared.kinds.platform import Platform
from allotment.manifests import names, pods
from allotment.manifests.links import node_page_url
from allotment.manifests.tenant import programs
from allotment.manifests.yaml_text import Frozen, without_empty
from allotment.preparation.job_names import input_hash
from allotment.preparation.sources import foreign_source, is_cloned_by_driver, is_single_writer, own_source
from allotment.programs import ending

JOB_RESOURCES = Frozen(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "4", "memory": "8Gi"})
HELPER_RESOURCES = Frozen(requests={"cpu": "50m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "256Mi"})
NOT_ON_GPU_NODES = Frozen(
    requiredDuringSchedulingIgnoredDuringExecution={
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}]}
        ]
    }
)
# NVIDIA's runtime gives a container all GPUs of the node if its image sets NVIDIA_VISIBLE_DEVICES=all; "void" gives
# none.
HIDE_GPUS_ENV = Frozen(name="NVIDIA_VISIBLE_DEVICES", value="void")
# The containers of preparation Jobs. The source of a storage determines which of them its Job has.
CONTAINER_NAMES = ("prepare", "fetch", "copy", "check", "hold", "seal")
PYTHON_ENV = [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}, {"name": "PYTHONPATH", "value": "/allotment"}]
WORKSPACE_MOUNT = Frozen(name="workspace", mountPath="/workspace")
PROGRAMS_MOUNT = Frozen(name="programs", mountPath="/allotment/programs", readOnly=True)
SOURCE_MOUNT = Frozen(name="source", mountPath="/source", readOnly=True)
HELD_MOUNT = Frozen(name="held", mountPath="/held")
HELD_PROBE = Frozen(
    exec={"command": ["test", "-e", "/held/ready"]}, periodSeconds=2, timeoutSeconds=5, failureThreshold=300
)
# The policy has the form in which the API server stores it, so that Argo CD sees no difference.
CHECK_FAILURE_POLICY = Frozen(
    rules=[
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "check", "operator": "In", "values": [ending.ALREADY_COMPLETE]},
        }
    ]
)


def render(
    catalog: Catalog, tenant: ScopeDeclarations, storage: GPUStorage, metadata: dict[str, Any], name: str
) -> dict[str, Any]:
    """Return the Job, which mounts its programs from a ConfigMap (`programs`).

    `metadata` is the common metadata of the storage's objects. Argo CD never prunes or deletes the Job. If Argo CD
    pruned the Job and created it again, the new Job would run while instances use the storage.
    """
    prepare = storage.spec.prepare
    assert prepare is not None
    foreign = foreign_source(storage, tenant.name) is not None
    role = names.COPY_ROLE if foreign else names.PREPARE_ROLE
    annotations = {
        names.SYNC_OPTIONS: names.KEEP_OPTIONS,
        names.INPUT_HASH: input_hash(prepare),
        names.ATTEMPT: str(prepare.attempt),
        **_build_log_annotation(catalog, tenant, storage, name),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "name": name, "annotations": annotations},
        "spec": without_empty(
            {
                "activeDeadlineSeconds": prepare.timeout,
                "backoffLimit": 2,
                # If an earlier Job has completed the volume, the first container (`check`) ends this Job. A pod cannot
                # succeed before its last container has run, so the Job fails. We treat this failure as a success.
                "podFailurePolicy": CHECK_FAILURE_POLICY if prepare.source.image is not None else None,
                "template": {
                    "metadata": {"labels": {**metadata["labels"], names.ROLE: role}},
                    "spec": _build_pod(catalog, tenant, storage, name),
                },
            }
        ),
    }


def _build_pod(catalog: Catalog, tenant: ScopeDeclarations, storage: GPUStorage, job: str) -> dict[str, Any]:
    prepare = storage.spec.prepare
    assert prepare is not None
    source, image = prepare.source, _preparation_image(catalog)
    to = ["--volume=/workspace", f"--job={job}"]
    volumes: list[dict[str, Any]] = [{"name": "workspace", "persistentVolumeClaim": {"claimName": storage.name}}]
    more: dict[str, Any] = {}
    if source.image is not None:
        program = "seal"
        check = _build_container("check", image, "check", to, HELPER_RESOURCES)
        more["initContainers"] = [
            check,
            _build_lock_sidecar(image, job),
            _build_declared_container(catalog, storage, source.image),
        ]
        volumes.append({"name": "held", "emptyDir": {"sizeLimit": "1Mi"}})
        container = _build_container("seal", image, program, to, HELPER_RESOURCES)
    elif is_cloned_by_driver(catalog, tenant, storage):
        program = "seal"
        container = _build_container("seal", image, program, [*to, "--alone"], HELPER_RESOURCES)
    elif foreign := foreign_source(storage, tenant.name):
        program = "copy_shared"
        url = names.files_url(foreign.name, str(foreign.tenant))
        container = _build_container("copy", image, program, [*to, f"--source={url}"])
    elif source.storage is not None:
        program = "copy_folder"
        container = _build_container("copy", image, program, [*to, "--source=/source"])
        container["volumeMounts"].append(SOURCE_MOUNT)
        volumes.append(
            {"name": "source", "persistentVolumeClaim": {"claimName": source.storage.name, "readOnly": True}}
        )
    elif source.url is not None:
        program = "fetch_url"
        options = [f"--url={source.url.url}", f"--sha256={source.url.sha256}", f"--path={source.url.target}"]
        container = _build_container("fetch", image, program, [*to, *options])
    else:
        assert source.s3 is not None
        program = "fetch_s3"
        container = _build_container("fetch", image, program, [*to, *_build_s3_arguments(source.s3)])
        if source.s3.secret_ref is not None:
            secret = names.secret_name(source.s3.secret_ref.name)
            container["env"] = [*PYTHON_ENV, *(_build_secret_env(key, secret) for key in S3_KEYS)]
    affinity = _build_affinity(catalog, tenant, storage)
    volumes.append({"name": "programs", "configMap": {"name": programs.programs_name(program)}})
    if pods.storage_pools(catalog.clusters[storage.spec.cluster]):
        more["tolerations"] = [pods.GPU_TOLERATION]
    return pods.build_pod_spec(
        names.STORAGE_PRIORITY, [container], volumes, restartPolicy="Never", affinity=affinity, **more
    )


def _build_log_annotation(catalog: Catalog, tenant: ScopeDeclarations, storage: GPUStorage, job: str) -> dict[str, str]:
    """Return the annotation with the URL of the Job's log in Argo CD; empty if the platform declares no Argo CD URL."""
    platform = catalog.platform.get_singleton(Platform)
    if platform is None or platform.model.spec.argocd is None:
        return {}
    application = names.application(tenant.name, storage.spec.cluster, "storage")
    node = f"batch/Job/{names.namespace(tenant.name)}/{job}"
    return {names.LOG: node_page_url(platform.model.spec.argocd.url, application, node, "logs")}


def _preparation_image(catalog: Catalog) -> str:
    platform = catalog.platform.get_singleton(Platform)
    declared = platform.model.spec.images.prepare if platform is not None else None
    return declared or names.PREPARE_IMAGE


def _build_container(
    name: str, image: str, program: str, arguments: list[str], resources: Frozen = JOB_RESOURCES
) -> dict[str, Any]:
    # The kubelet expands `$(NAME)` in arguments; `$$` escapes `$`.
    return {
        "name": name,
        "image": image,
        "command": ["python3", "-m", f"programs.{program}"],
        "args": [argument.replace("$", "$$") for argument in arguments],
        "env": PYTHON_ENV,
        "resources": resources,
        "securityContext": pods.READ_ONLY_SECURITY,
        "volumeMounts": [WORKSPACE_MOUNT, PROGRAMS_MOUNT],
    }


def _build_lock_sidecar(image: str, job: str) -> dict[str, Any]:
    """Return the sidecar that holds the volume's lock while the tenant's own program writes to the volume."""
    arguments = ["--volume=/workspace", f"--job={job}", "--ready=/held/ready"]
    holder = _build_container("hold", image, "hold", arguments, HELPER_RESOURCES)
    return {
        **holder,
        "restartPolicy": "Always",
        "startupProbe": HELD_PROBE,
        "volumeMounts": [*holder["volumeMounts"], HELD_MOUNT],
    }


def _build_declared_container(catalog: Catalog, storage: GPUStorage, source: ImageSource) -> dict[str, Any]:
    """Return the container that runs the tenant's own program."""
    on_gpu_nodes = bool(pods.storage_pools(catalog.clusters[storage.spec.cluster]))
    return without_empty(
        {
            "name": "prepare",
            "image": source.image,
            "command": list(source.command),
            "args": list(source.args),
            "env": [HIDE_GPUS_ENV] if on_gpu_nodes else [],
            "resources": JOB_RESOURCES,
            "securityContext": pods.CONTAINER_SECURITY,
            "volumeMounts": [WORKSPACE_MOUNT],
        }
    )


def _build_s3_arguments(source: S3Source) -> list[str]:
    return [
        f"--{name}={value}"
        for name, value in (
            ("endpoint", source.endpoint),
            ("bucket", source.bucket),
            ("prefix", source.prefix),
            ("region", source.region),
        )
    ]


def _build_secret_env(key: str, secret: str) -> dict[str, Any]:
    return {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _build_affinity(catalog: Catalog, tenant: ScopeDeclarations, storage: GPUStorage) -> dict[str, Any]:
    """Return the affinity of the Job's pod, which must run on a node for storage pods.

    If the volume is ReadWriteOnce, the pod must run on the node of the storage's other pods. If the Job copies a
    ReadWriteOnce volume of the tenant, the pod prefers the node of the pods that prepare or serve that volume.
    """
    pools = pods.storage_pools(catalog.clusters[storage.spec.cluster])
    affinity: dict[str, Any] = {"nodeAffinity": pods.require_pools(pools) if pools else NOT_ON_GPU_NODES}
    terms: dict[str, Any] = pods.storage_pod_affinity(storage.name) if is_single_writer(catalog, storage) else {}
    source = own_source(tenant, storage)
    if (
        source is not None
        and is_single_writer(catalog, source.model)
        and not is_cloned_by_driver(catalog, tenant, storage)
    ):
        wish = {"weight": 100, "podAffinityTerm": pods.storage_affinity_term(source.model.name)}
        terms = {**terms, "preferredDuringSchedulingIgnoredDuringExecution": [wish]}
    if terms:
        affinity["podAffinity"] = terms
    return affinity
