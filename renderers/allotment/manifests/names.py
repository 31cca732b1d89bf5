"""Define the names that we use in clusters: labels, annotations, namespaces, priority classes, hosts."""

from __future__ import annotations

import re

MANAGED_BY = "app.kubernetes.io/managed-by"
PROGRAM_NAME = "allotment"
MANAGED_BY_SELECTOR = f"{MANAGED_BY}={PROGRAM_NAME}"  # selects the objects that we created
PLATFORM_PREFIX = f"{PROGRAM_NAME}--"  # prefix of the names of Applications that belong to no tenant

TENANT = "allotment.dev/tenant"
CLUSTER = "allotment.dev/cluster"
PLAN = "allotment.dev/plan"
INSTANCE = "allotment.dev/instance"
STORAGE = "allotment.dev/storage"
SNAPSHOT = "allotment.dev/snapshot"
CORDON = "allotment.dev/cordon"  # the annotation of a cordoned Node: the names of its Cordons
CORDONED_BEFORE = "allotment.dev/cordoned-before"  # the Node was unschedulable before its Cordons began
STOCK = "allotment.dev/stock"
GPU_SPEC = "allotment.dev/gpu-spec"
STORAGE_SPEC = "allotment.dev/storage-spec"
LIFECYCLE = "allotment.dev/lifecycle"
ADD_ON = "allotment.dev/add-on"
POOL = "allotment.dev/node-pool"
GENERATION = "allotment.dev/generation"
ROLE = "allotment.dev/role"
BILL_PREFIX = "bill.allotment.dev/"
SECRET_SUFFIX = "--secret"  # noqa: S105  # suffix of the name of a SecretReference's Secret

# Stakater Reloader restarts a Deployment when one of these Secrets changes; the names are separated by commas.
RELOAD_SECRETS = "secret.reloader.stakater.com/reload"
IMAGE_PULL_SUFFIX = "--image-pull"  # suffix of the name of the Secret of a SecretReference with the type ImagePull
# The Secret with the platform's pull credential in each tenant's namespace. No declared name contains '--', so no
# SecretReference and no bucket has a Secret of this name, and no variable of an instance can read it.
PLATFORM_PULL_SECRET = "image-pull--platform"  # noqa: S105  # a name, not a password
SERVICE_ACCOUNT = "default"  # the ServiceAccount of all pods of a tenant

BLOB = "allotment.dev/declared-blob"
WAITS_FOR = "allotment.dev/waits-for"
WAITS_REASON = "allotment.dev/waits-reason"
PREDECESSOR = "allotment.dev/predecessor"
RESERVED_FOR = "allotment.dev/reserved-for"
UNITS = "allotment.dev/units"
RESTARTS = "allotment.dev/restarts"  # in the pod template of an instance: a new number replaces its pods
SSH_COMMAND = "allotment.dev/ssh-command"
PROTECTED = "allotment.dev/protected"
DELETION_POLICY = "allotment.dev/deletion-policy"
INPUT_HASH = "allotment.dev/input-hash"
ATTEMPT = "allotment.dev/attempt"
# On a volume: the name of the Job that fills the volume. If a wait marker (`wait_marker`) replaces this Job, the marker
# has the same annotation.
PREPARES = "allotment.dev/prepares"
# On a volume: the name of the Job that has filled the volume. The next publish reads this name. Therefore instances may
# use the volume even if the status of the Job is lost.
PREPARED = "allotment.dev/prepared"
LOG = "allotment.dev/log"

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
SYNC_WAVE = "argocd.argoproj.io/sync-wave"
GENERATE_PATHS = "argocd.argoproj.io/manifest-generate-paths"
COMPARE_OPTIONS = "argocd.argoproj.io/compare-options"
EXTERNAL_LINK = "link.argocd.argoproj.io/external-link"
KEEP_OPTIONS = "Prune=false,Delete=false"
KEEP_ON_APPLICATION_DELETION = (
    "Delete=false"  # Argo CD deletes the object if Git removes it, but not if somebody deletes the Application
)

ARGO_NAMESPACE = "argocd"
STOCK_NAMESPACE = "allotment-stock"
DEVICE_PLUGIN_NAMESPACE = "nvidia-device-plugin"

INSTANCE_PRIORITY = "allotment-instance"
STORAGE_PRIORITY = "allotment-storage"
STOCK_PRIORITIES = 10  # allotment-stock-1 has the value −10, and so on up to allotment-stock-10 with −1

PORTAL = "allot-portal"  # the Service of the portal
SYSTEM_NAMESPACE = "allotment"  # has the programs that `argo/add-ons` deploys
SSH_GATEWAY = (
    "allot-ssh"  # the ServiceAccount of `allot ssh-gateway`, and the objects in tenants' namespaces that it reads
)
SSH_GATEWAY_ROLE = "allotment-ssh"

FILES_ROLE = "files"
PREPARE_ROLE = "prepare"
COPY_ROLE = "copy"  # a Job that copies another tenant's files; no pod that runs a tenant's own program has this role
WAIT_MARKER_INFIX = "--waits-for--"

GPU_TAINT = "nvidia.com/gpu"
DEVICE_PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
# If this label has the value "false", the GPU operator starts no device plugin on the node.
DEVICE_PLUGIN_DEPLOYED = "nvidia.com/gpu.deploy.device-plugin"
MIG_CONFIG = "nvidia.com/mig.config"
MPS_CAPABLE = "nvidia.com/mps.capable"

PAUSE_IMAGE = "registry.k8s.io/pause:3.10@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
# The image of preparation Jobs if the platform declares no other: Python 3.13 for amd64 and arm64.
PREPARE_IMAGE = (
    "docker.io/library/python:3.13-slim@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91"
)
FILES_PORT = 5000


def namespace(tenant: str) -> str:
    """Return a tenant's namespace. It is the same in every cluster."""
    return f"t-{tenant}"


def scoped_name(namespace_name: str, name: str) -> str:
    """Return NAMESPACE/NAME for an object outside tenants' namespaces. Else return the name, which is unique in its scope."""
    is_elsewhere = namespace_name and not namespace_name.startswith(namespace(""))
    return f"{namespace_name}/{name}" if is_elsewhere else name


def stock_priority(rank: int) -> str:
    """Return the priority class of placeholders. `rank` orders a pool's units by size; the smallest unit has rank 1."""
    return f"allotment-stock-{min(rank, STOCK_PRIORITIES)}"


def project(tenant: str, cluster: str) -> str:
    """Return the name of a tenant's AppProject for a cluster."""
    return f"{tenant}--{cluster}"


def application(tenant: str, cluster: str, part: str) -> str:
    """Return the name of a tenant's Application; `part` is storage or compute."""
    return f"{tenant}--{cluster}--{part}"


def platform_application(part: str, cluster: str) -> str:
    """Return the name of an Application that belongs to no tenant and no add-on, such as that of the part `stock`."""
    return f"{PLATFORM_PREFIX}{part}--{cluster}"


def add_on(name: str, cluster: str) -> str:
    """Return the name of an add-on's AppProject and Application."""
    return f"{PLATFORM_PREFIX}add-on-{name}--{cluster}"


def instance_host(instance: str, port: str, tenant: str, domain: str) -> str:
    """Return the host of an instance's port: one label below the domain.

    The host is unique because no declared name contains '--'.
    """
    label = f"{instance}--{tenant}" if port == "http" else f"{instance}--{port}--{tenant}"
    return f"{label}.{domain}"


def files_host(storage: str, tenant: str, domain: str) -> str:
    """Return the host of a storage's files. No instance has the same host, because no port is named `files`."""
    return f"{storage}--files--{tenant}.{domain}"


def files_service(storage: str) -> str:
    """Return the name of the Service and the other objects of a storage's file server."""
    return f"{storage}--files"


def files_url(storage: str, tenant: str) -> str:
    """Return the URL of a storage's file server inside the cluster."""
    return f"http://{files_service(storage)}.{namespace(tenant)}.svc:{FILES_PORT}/"


def secret_name(reference: str) -> str:
    """Return the name of the Secret and the ExternalSecret of a SecretReference.

    The name contains '--', so it differs from the Secret of every bucket, which has the name of a declared storage.
    """
    return f"{reference}{SECRET_SUFFIX}"


def image_pull_name(reference: str) -> str:
    """Return the name of the Secret and the ExternalSecret of a SecretReference with the type ImagePull.

    It differs from `secret_name`: Kubernetes can't change the type of a Secret, and no variable of an instance may read a
    pull credential.
    """
    return f"{reference}{IMAGE_PULL_SUFFIX}"


def secret_folder(prefix: str, tenant: str) -> str:
    """Return the beginning of all paths in the secret store that a tenant may read. It ends with '/'."""
    return f"{prefix}/{tenant}/"


def ssh_user(instance: str, tenant: str) -> str:
    """Return the user name with which people log in to an instance at the SSH gateway."""
    return f"{instance}--{tenant}"


def ssh_command(instance: str, tenant: str, host: str, port: int) -> str:
    """Return the command with which people log in to an instance at the SSH gateway."""
    option = "" if port == 22 else f"-p {port} "
    return f"ssh {option}{ssh_user(instance, tenant)}@{host}"


_SSH_COMMAND = re.compile(r"ssh (?:-p [1-9][0-9]{0,4} )?([a-z0-9-]{1,130})@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


def is_ssh_command(text: str, instance: str, tenant: str) -> bool:
    """Return whether a text is an SSH command of an instance as `ssh_command` returns it, for any host."""
    match = _SSH_COMMAND.fullmatch(text)
    return match is not None and match[1] == ssh_user(instance, tenant)


def wait_marker(stem: str, source: str) -> str:
    """Return the name of a wait marker: the ConfigMap of a resource that waits until the storage `source` is prepared."""
    return f"{stem}{WAIT_MARKER_INFIX}{source}"


def rendered_branch(cluster: str) -> str:
    """Return the full ref of the branch with a cluster's manifests."""
    return f"refs/heads/rendered/{cluster}"


def status_branch(cluster: str) -> str:
    """Return the full ref of the branch with a cluster's status."""
    return f"refs/heads/status/{cluster}"


def label_of(word: str) -> str:
    """Return the label key for a word, such as `allotment.dev/gpu-spec` for `gpu_spec`."""
    return f"allotment.dev/{word.replace('_', '-')}"


def labels(**more: str) -> dict[str, str]:
    """Return the labels of one of our objects. Each keyword becomes the label `allotment.dev/<keyword>`."""
    return {MANAGED_BY: PROGRAM_NAME, **{label_of(key): value for key, value in more.items()}}
