"""Lists the options of the commands that declare a resource: their help, their columns in a file, and the fields that they set."""

from __future__ import annotations

from typing import NamedTuple


class OptionRow(NamedTuple):
    """An option, such as `gpu-spec`. A column of a file with several resources has the same name.

    - `field` is the declared field. An error about this field, or a field below it, names the option.
    - `valid` describes the valid values, if the command requires the option.
    - `parameter` is the Python name of the value. Default: the name, with underscores.
    - `choices` are all values; a list takes the option several times; a flag has no value.
    """

    name: str
    metavar: str
    help: str
    field: str = ""
    valid: str = ""
    parameter: str = ""
    choices: tuple[str, ...] = ()
    is_list: bool = False
    is_flag: bool = False
    default: str | None = None

    @property
    def key(self) -> str:
        """The Python name of the value."""
        return self.parameter or self.name.replace("-", "_")


Table = tuple[OptionRow, ...]

_LABEL = OptionRow("label", "KEY=VALUE", "A label for the bill.", "metadata.labels", parameter="labels", is_list=True)
_DISPLAY_NAME = OptionRow("display-name", "TEXT", "A name for people.", "spec.displayName")

INSTANCE_OPTIONS: Table = (
    OptionRow("cluster", "NAME", "The cluster.", "spec.cluster"),
    OptionRow("gpu-spec", "NAME", "The unit of a replica.", "spec.gpuSpec"),
    OptionRow("app", "NAME[:VERSION]", "An app. Default version: the newest Active version.", "spec.app"),
    OptionRow("image", "IMAGE@DIGEST", "Your own image, in place of an app.", "spec.container.image"),
    OptionRow(
        "port",
        "[NAME:]NUMBER[/tcp]",
        "A port of the image. Default: http.",
        "spec.container.ports",
        parameter="ports",
        is_list=True,
    ),
    OptionRow("exposure", "WHO", "The people or pods that can open the ports: Namespace, Members or Public."),
    OptionRow("storage", "NAME:/PATH[:ro]", "A storage to mount.", "spec.storages", parameter="storages", is_list=True),
    OptionRow("new-storage", "NAME:SIZE:/PATH", "Create and mount a storage.", parameter="new_storages", is_list=True),
    OptionRow("storage-spec", "NAME", "The StorageSpec of new storages."),
    OptionRow("source", "SOURCE", "The content of the new storage."),
    OptionRow("env", "KEY=VALUE", "An environment variable.", "spec.container.env", is_list=True),
    OptionRow(
        "secret",
        "VARIABLE=SECRET:KEY",
        "A key of a SecretReference, as an environment variable.",
        parameter="secrets",
        is_list=True,
    ),
    OptionRow("replicas", "COUNT", "The number of replicas. Default: 1."),
    _LABEL,
    _DISPLAY_NAME,
    OptionRow("access", "SSH", "SSH: log in with the SSH keys of members.", is_list=True),
    OptionRow("stopped", "", "Declare the instance as stopped: it holds no units.", is_flag=True),
)
STORAGE_OPTIONS: Table = (
    OptionRow("cluster", "NAME", "The cluster.", "spec.cluster"),
    OptionRow("size", "SIZE", "The size, such as 50Gi.", "spec.size"),
    OptionRow(
        "storage-spec",
        "NAME",
        "The kind of storage. Default: the volume for a single instance that the cluster offers, if it offers only this.",
        "spec.storageSpec",
    ),
    OptionRow("bucket", "", "A bucket: the only StorageSpec of the cluster for buckets.", is_flag=True),
    OptionRow("source", "SOURCE", "The content. Default: an empty storage.", "spec.prepare.source"),
    _LABEL,
    _DISPLAY_NAME,
)
SECRET_OPTIONS: Table = (
    OptionRow("cluster", "NAME", "The cluster with the secret store.", "spec.cluster"),
    OptionRow(
        "key",
        "NAME[=PATH[#FIELD]]",
        "A key, and the place of its value in the store. Default: the field NAME of the secret with the name of this secret.",
        "spec.keys",
        parameter="keys",
        is_list=True,
    ),
    OptionRow("image-pull", "", "A credential for private registries, as a Docker config JSON.", is_flag=True),
    OptionRow("refresh-interval", "DURATION", "How often the store is read. Default: 1h.", "spec.refreshInterval"),
    _LABEL,
    _DISPLAY_NAME,
)
STOCK_OPTIONS: Table = (
    OptionRow("spec", "GPUSPEC", "The GPUSpec of the units.", "spec.gpuSpec"),
    OptionRow(
        "count",
        "NUMBER",
        "The number of units that tenants may hold.",
        "spec.count",
        "a whole number of units such as 4",
    ),
    OptionRow("tenant", "TENANT", "Reserve the units for this tenant. Default: all.", "spec.tenant"),
    OptionRow(
        "node-pool",
        "POOL",
        "The NodePool of the units. Default: the only pool of the cluster that fits the GPUSpec.",
        "spec.nodePool",
    ),
    OptionRow("warm", "NUMBER", "The number of free units that placeholders keep warm. Default: all.", "spec.warm"),
)
CORDON_OPTIONS: Table = (
    OptionRow("pool", "POOL", "The NodePool of the node. Default: the only pool of the cluster.", "spec.nodePool"),
    OptionRow("reason", "TEXT", "The reason, which the tenants of the node read.", "spec.reason"),
    OptionRow("evidence", "TEXT", "The evidence for the reason, such as an alert.", "spec.evidence"),
    OptionRow("from", "DAY", "The first day of the cordon. Default: today.", "spec.from", parameter="start"),
    OptionRow("until", "DAY", "The first day without the cordon. Default: it ends with `uncordon`.", "spec.until"),
    OptionRow("name", "NAME", "The name of the Cordon. Default: the name of the node, without dots."),
)
RENEWAL_OPTIONS: Table = (
    OptionRow("from", "DAY", "The first day of the first node. Default: today.", parameter="start", default=""),
    OptionRow("days", "NUMBER", "The days for each node. Default: 1.", default="1"),
    OptionRow("reason", "TEXT", "The reason, which the tenants read. Default: Renewal.", default="Renewal"),
)
GPU_SPEC_OPTIONS: Table = (
    OptionRow(
        "gpu",
        "MODEL",
        "The model of the GPU, as in node pools, such as nvidia-l4.",
        "spec.gpu.model",
        parameter="model",
    ),
    OptionRow("gpu-count", "NUMBER", "The GPUs, or slices, of a unit. Default: 1.", "spec.gpu.count", default="1"),
    OptionRow(
        "gpu-memory",
        "SIZE",
        "The memory of the physical GPU.",
        "spec.gpu.memory",
        "the memory of the physical GPU, such as 24Gi",
    ),
    OptionRow("cuda-cores", "NUMBER", "The CUDA cores of the physical GPU, for comparison only.", "spec.gpu.cudaCores"),
    OptionRow(
        "cpu",
        "CORES",
        "The CPU cores of a unit: 8, or 500m.",
        "spec.cpu",
        "whole cores such as 8, or millicores such as 500m",
    ),
    OptionRow("memory", "SIZE", "The memory of a unit.", "spec.memory", "a size such as 32Gi"),
    OptionRow("disk", "SIZE", "The size of the disk of a unit at /scratch.", "spec.disk", "a size such as 100Gi"),
    OptionRow(
        "price",
        "AMOUNT",
        "The price of a unit per hour, in the currency of the platform.",
        "spec.prices[].perHour",
        "an amount per hour such as 0.80",
    ),
    OptionRow(
        "from",
        "DAY",
        "The first day of the price, such as 2027-01-01. Default: today.",
        "spec.prices[].from",
        parameter="start",
    ),
    OptionRow(
        "time-slicing",
        "UNITS",
        "This number of units shares a GPU in turn. Requires --tenancy.",
        "spec.sharing.timeSlicing",
    ),
    OptionRow(
        "mps", "UNITS", "This number of units shares a GPU concurrently. Requires --tenancy.", "spec.sharing.mps"
    ),
    OptionRow("mig", "PROFILE", "A unit is a MIG partition, such as 1g.10gb.", "spec.sharing.mig"),
    OptionRow("tenancy", "", "The tenants that may share a GPU.", choices=("Single", "Multi")),
    OptionRow("spot", "", "The cloud provider may reclaim the nodes.", is_flag=True),
    OptionRow("display-name", "TEXT", "The name that people see.", "spec.displayName"),
    OptionRow("description", "TEXT", "The purpose of the GPUSpec.", "spec.description"),
)
CLUSTER_OPTIONS: Table = (
    OptionRow(
        "domain",
        "DOMAIN",
        "The domain of the URLs of instances in this cluster.",
        "spec.domain",
        "a domain such as us-2.gpu.acme.dev",
    ),
    OptionRow(
        "oidc-issuer",
        "URL",
        "The OIDC issuer for logins, https://…",
        "spec.oidc.issuer",
        "the URL of the issuer such as https://id.acme.dev",
    ),
    OptionRow("destination", "NAME", "The name of the cluster in Argo CD. Default: NAME.", "spec.destination"),
    OptionRow(
        "disk-storage-class",
        "NAME",
        "The StorageClass of the disks of instances. Its reclaim policy is Delete.",
        "spec.diskStorageClassName",
    ),
)
POOL_OPTIONS: Table = (
    OptionRow("gpu", "MODEL", "The model of the GPUs, such as nvidia-l4.", "spec.node.gpu.model"),
    OptionRow("gpu-count", "NUMBER", "The number of GPUs of a node.", "spec.node.gpu.count", "the GPUs of a node"),
    OptionRow(
        "cpu",
        "CORES",
        "The CPU cores that pods may request on a node, without those of DaemonSets.",
        "spec.node.cpu",
        "whole cores such as 30",
    ),
    OptionRow("memory", "SIZE", "The same of the memory.", "spec.node.memory", "a size such as 120Gi"),
    OptionRow("nodes", "NUMBER", "The number of nodes.", "spec.static.nodes", "a whole number such as 2"),
    OptionRow(
        "node-selector",
        "KEY=VALUE",
        "A label that only these nodes have. Repeatable. Default: pool=NAME.",
        "spec.static.nodeSelector",
        is_list=True,
    ),
)
PLAN_OPTIONS: Table = (
    OptionRow(
        "gpu",
        "MODEL=NUMBER",
        "The most GPUs of a model. Other models are not allowed. Repeatable.",
        "spec.quota.gpus",
        "such as nvidia-l4=2",
        parameter="gpus",
        is_list=True,
    ),
    OptionRow("instances", "NUMBER", "The most instances.", "spec.quota.instances", "a whole number such as 10"),
    OptionRow("storages", "NUMBER", "The most storages.", "spec.quota.storages", "a whole number such as 10"),
    OptionRow("storage", "SIZE", "The most GiB of all storages.", "spec.quota.storage", "a size such as 1Ti"),
    OptionRow(
        "budget", "AMOUNT", "The most that a tenant costs in a month. Default: no limit.", "spec.budget.perMonth"
    ),
    OptionRow(
        "sharing",
        "MODE",
        "Exclusive, TimeSlicing, Mig, Mps or Dra. Repeatable. Default: Exclusive.",
        "spec.allow.sharing",
        is_list=True,
    ),
    OptionRow(
        "exposure",
        "WHO",
        "Members or Public. Repeatable. Default: Namespace only.",
        "spec.allow.exposure",
        parameter="exposures",
        is_list=True,
    ),
    OptionRow(
        "registry",
        "HOST/PATH/",
        "A registry of the tenants' own images. Repeatable. Default: only apps of the catalog.",
        "spec.allow.imageRegistries",
        parameter="registries",
        is_list=True,
    ),
    OptionRow("display-name", "TEXT", "The name that people see.", "spec.displayName"),
)


def list_inputs(table: Table) -> dict[str, str]:
    """Return the option of each field that an option sets, such as `--gpu-spec` for `spec.gpuSpec`."""
    return {row.field: f"--{row.name}" for row in table if row.field}
