"""Defines the status of tenants and clusters, and reads and writes it as YAML."""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from allotment.declared.kinds.declaration import API_VERSION
from allotment.manifests import names
from allotment.manifests.yaml_text import Malformed, dump, load_one, split
from allotment.problems import quote_value

MAX_COLD_START_SECONDS = 30 * 86_400  # the longest cold start that a status records
TIME_FIELDS = frozenset(
    {
        "completion_time",
        "creation_time",
        "end_time",
        "last_observed_at",
        "last_transition_time",
        "observed_at",
        "silent_since",
        "since",
        "start_time",
        "time",
    }
)
GAP = "Gap"  # the kind of an interval in which nobody observed the cluster
STOCK = "Stock"  # the kind of an interval of a stock
# Half of a character; a status has characters beyond U+FFFF as they are. An escaped backslash before the u is no escape.
_SURROGATE = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")
_STALE_SECONDS = 3900  # a reporter writes its status at least every 3600 seconds
_FIRST_YEAR, _LAST_YEAR = 1971, 9998  # every time zone can represent all times of these years
S = TypeVar("S", bound="_StatusPart")


class ImplausibleStatus(Malformed):
    """A status that no reporter writes, because it repeats a name or has a time without a time zone."""


class _StatusPart(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A part of a status. Times (`TIME_FIELDS`) are RFC 3339 in UTC, from the API server's clock, or empty."""


class Condition(_StatusPart, frozen=True):
    """A condition that is "True", "False" or "Unknown", with its time and reason."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""


class Instance(_StatusPart, frozen=True):
    """An instance: its state and the reason. `observed_blob` is the Git blob of the declaration that the cluster has.

    `pods` counts the pods that hold a unit: pods that haven't ended, except terminating pods that other pods replace.
    `running_pod` is the name of a pod with a running container; it is empty if there is none. `ssh_command` logs in to the
    instance; it is empty if the instance has no SSH.
    """

    name: str
    observed_blob: str
    state: str
    reason: str
    message: str = ""
    since: str = ""
    gpu_spec: str = ""
    units: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    nodes: tuple[str, ...] = ()
    pods: int = 0
    running_pod: str = ""
    restarts: int = 0
    start_time: str = ""
    url: str = ""
    links: tuple[str, ...] = ()
    ssh_command: str = ""
    conditions: tuple[Condition, ...] = ()


class Preparation(_StatusPart, frozen=True):
    """One attempt to prepare a storage.

    `uid` is the uid of the attempt's Job, and identifies the attempt. `log` is the location of the log; the status
    never contains the log itself. `is_prune_protected` means that Argo CD doesn't prune the Job.
    """

    uid: str
    attempt: int
    input_hash: str
    state: str
    start_time: str = ""
    completion_time: str = ""
    exit_code: int | None = None
    reason: str = ""
    log: str = ""
    is_prune_protected: bool = msgspec.field(name="kept", default=False)


class Storage(_StatusPart, frozen=True):
    """A storage.

    `claim` is the uid of the PersistentVolumeClaim or ObjectBucketClaim of the storage; a recreated claim has another
    uid. `url` is the URL of the files for people, and `in_cluster_url` is the URL for the tenant's own pods.
    """

    name: str
    observed_blob: str
    state: str
    reason: str
    message: str = ""
    since: str = ""
    claim: str = ""
    size: str = ""
    capacity: str = ""
    url: str = ""
    in_cluster_url: str = msgspec.field(default="", name="inClusterURL")
    prepare: Preparation | None = None
    conditions: tuple[Condition, ...] = ()


class Snapshot(_StatusPart, frozen=True):
    """A snapshot of a storage.

    A volume that is restored from the snapshot has at least the size `restore_size`. `creation_time` is the time when
    the snapshot was taken.
    """

    name: str
    observed_blob: str
    state: str
    reason: str
    message: str = ""
    since: str = ""
    uid: str = ""
    storage: str = ""
    restore_size: str = ""
    creation_time: str = ""
    conditions: tuple[Condition, ...] = ()


class ApplicationStatus(_StatusPart, frozen=True):
    """The state that Argo CD reports for one part (storage or compute) of a tenant.

    `source_commit` is the commit of the declarations from which the applied manifests were rendered. `tree` is the Git
    tree of these manifests on the rendered branch.
    """

    name: str
    sync: str
    health: str
    source_commit: str = ""
    tree: str = ""


class Transition(_StatusPart, frozen=True):
    """A change of the state of the instance, storage or snapshot `name`.

    `source` is the state before the change; it is empty if the resource is new. `target` is the state after the change;
    it is empty if the resource is gone.
    """

    kind: str
    name: str
    source: str
    target: str
    reason: str
    time: str


class UsageInterval(_StatusPart, frozen=True):
    """The time in which a live object uses a unit or a size, or in which capacity exists (`observed.usage`).

    - `kind` and `name` identify the instance, storage or snapshot, and `uid` the pod, the claim or the VolumeSnapshot. A
      pod uses a unit of `gpu_spec` on its `node`; the others use `size`, a quantity, of `storage_spec`. `labels` are the
      labels of the declaration.
    - For a node, `kind` and `name` identify its NodePool, `uid` the Node, and `node` its name.
    - For a stock, `uid` identifies its Deployment of placeholders. The stock has `units` of `gpu_spec`, and is reserved for
      `tenant`, if this is not empty.
    - For a gap in the observation, `kind` is Gap and `name` is the cluster.
    - `end_time` is empty while the use continues. If nobody observed the cluster when the use ended, `last_observed_at` is
      the last time at which it was certain.
    """

    kind: str
    name: str
    uid: str
    start_time: str
    end_time: str = ""
    last_observed_at: str = ""
    gpu_spec: str = ""
    size: str = ""
    node: str = ""
    storage_spec: str = ""
    units: int = 0
    tenant: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)

    def end(self, end_time: str, last_observed_at: str = "") -> UsageInterval:
        """Return this interval with its end."""
        return msgspec.structs.replace(self, end_time=end_time, last_observed_at=last_observed_at)


class TenantStatus(_StatusPart, frozen=True):
    """The status of a tenant in one cluster.

    `namespace` is Protected or Unprotected; it is empty if there is no namespace. `disruption` is Protected if the
    tenant's instances have a PodDisruptionBudget, and empty otherwise. `previous` is the commit with the previous
    version of this file. `transitions` are the changes of state since that version, so the chain of versions contains the
    whole history. `usage` are the intervals of use that continue. `conditions` report manual edits of objects that belong to
    no instance, storage or snapshot, such as the namespace.
    """

    tenant: str
    cluster: str
    applications: tuple[ApplicationStatus, ...] = ()
    instances: tuple[Instance, ...] = ()
    storages: tuple[Storage, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    namespace: str = ""
    disruption: str = ""
    transitions: tuple[Transition, ...] = ()
    previous: str = ""
    conditions: tuple[Condition, ...] = ()
    usage: tuple[UsageInterval, ...] = ()


class Stock(_StatusPart, frozen=True):
    """The units of a GPUSpec in a stock: declared, held by instances, free, and ready on a running node.

    `node_pool` is the Karpenter NodePool that buys the nodes on demand; it is empty for static nodes.
    """

    name: str
    gpu_spec: str
    count: int
    held_units: int = msgspec.field(name="held")
    free: int
    ready: int
    tenant: str = ""
    node_pool: str = ""


class ColdStart(_StatusPart, frozen=True):
    """A start of an instance that found no free unit.

    `instance` is `<tenant>/<name>`. `time` is when all its pods had a node, and `seconds` is how long the instance had
    waited for the nodes.
    """

    gpu_spec: str
    instance: str
    time: str
    seconds: Annotated[int, msgspec.Meta(ge=0, le=MAX_COLD_START_SECONDS)]


class DepartedTenant(_StatusPart, frozen=True):
    """A tenant without anything left in the cluster. `commit` has the last version of its file."""

    tenant: str
    commit: str


class ClusterStatus(_StatusPart, frozen=True):
    """The stocks of one cluster, and the time of its last observation.

    If the cluster doesn't respond, `silent_since` is the time when its silence began, and `message` says that the
    status may be outdated. `cold_starts` are the last cold starts of each GPUSpec (`observed.cold_starts`). `departed` are
    the tenants without a file on the branch, because nothing of them is left in the cluster. `conditions` describe objects of
    the platform that a person edited by hand.
    """

    cluster: str
    observed_at: str
    stocks: tuple[Stock, ...] = ()
    silent_since: str = ""
    message: str = ""
    cold_starts: tuple[ColdStart, ...] = ()
    departed: tuple[DepartedTenant, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def is_stale(self, now: datetime.datetime) -> bool:
        """Return whether the reporter, or the cluster itself, has been silent for too long."""
        observed_time = parse_time(self.observed_at)
        if self.silent_since or observed_time is None:
            return True
        return (now - observed_time).total_seconds() > _STALE_SECONDS


class CapacityUsage(_StatusPart, frozen=True):
    """The stocks of a cluster and the nodes of its NodePools.

    `since` is the time when the first reporter began to record, and `usage` are the intervals that continue.
    """

    cluster: str
    since: str = ""
    usage: tuple[UsageInterval, ...] = ()


def parse_time(text: str | None) -> datetime.datetime | None:
    """Return the time in a text; None if the text is None or not a time, has no time zone, or is in no year from 1971 to 9998."""
    try:
        moment = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and _FIRST_YEAR <= moment.year <= _LAST_YEAR else None


def dump_status(status: TenantStatus | ClusterStatus | CapacityUsage) -> bytes:
    """Return a status as the content of its file."""
    content = msgspec.to_builtins(status, builtin_types=())
    name = content.pop("tenant", status.cluster)
    header = {"apiVersion": API_VERSION, "kind": type(status).__name__, "metadata": {"name": name}}
    return dump([{**header, "status": _to_plain(content)}])


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(element) for key, element in value.items()}
    return [_to_plain(element) for element in value] if isinstance(value, tuple | list) else value


def parse_tenant_status(data: bytes) -> TenantStatus:
    """Return a tenant's status from its file. It has no SSH command that could run anything but a login to the instance.

    Raises Malformed if the file is invalid, and ImplausibleStatus if no reporter could have written it.
    """
    status = _parse_status(data, TenantStatus, "tenant")
    check_times(status)
    for kind, resources in (
        ("instance", status.instances),
        ("storage", status.storages),
        ("snapshot", status.snapshots),
    ):
        _check_names(kind, resources)
    return msgspec.structs.replace(
        status, instances=tuple(_check_ssh_command(instance, status.tenant) for instance in status.instances)
    )


def _check_ssh_command(instance: Instance, tenant: str) -> Instance:
    """Return an instance without its SSH command if the command isn't one of the SSH gateway: people copy it to their shells."""
    if not instance.ssh_command or names.is_ssh_command(instance.ssh_command, instance.name, tenant):
        return instance
    return msgspec.structs.replace(instance, ssh_command="")


def parse_cluster_status(data: bytes) -> ClusterStatus:
    """Return a cluster's status from its file.

    Raises Malformed if the file is invalid, and ImplausibleStatus if no reporter could have written it.
    """
    status = _parse_status(data, ClusterStatus, "cluster")
    check_times(status)
    _check_names("stock", status.stocks)
    return status


def parse_capacity_usage(data: bytes) -> CapacityUsage:
    """Return the stocks and nodes of a cluster from their file.

    Raises Malformed if the file is invalid, and ImplausibleStatus if no reporter could have written it.
    """
    usage = _parse_status(data, CapacityUsage, "cluster")
    check_times(usage)
    return usage


def _check_names(kind: str, entries: Sequence[Instance | Storage | Snapshot | Stock]) -> None:
    """Raise ImplausibleStatus if two entries have the same name."""
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            raise ImplausibleStatus(f"it names {kind} {quote_value(name)} {count} times")


def check_times(part: _StatusPart) -> None:
    """Raise ImplausibleStatus if this part, or a part of it, contains an invalid time."""
    for name in _list_time_fields(type(part)):
        value = getattr(part, name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, _StatusPart):
                check_times(inner)
        if name in TIME_FIELDS and value and parse_time(value) is None:
            raise ImplausibleStatus(f"it gives a time as {quote_value(value)}, which isn't RFC 3339 with a time zone")
    if isinstance(part, UsageInterval) and not part.start_time:
        raise ImplausibleStatus(f"the interval of {quote_value(part.uid)} has no start")


@functools.cache
def _list_time_fields(kind: type[_StatusPart]) -> tuple[str, ...]:
    """Return the fields of a part that are times, or that may contain parts."""
    plain = str, int, bool, tuple[str, ...], dict[str, str]
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if field.name in TIME_FIELDS or field.type not in plain)


def _parse_status(data: bytes, kind: type[S], key: str) -> S:
    if _SURROGATE.search(data):
        raise Malformed(f"no {kind.__name__}: a character that no encoding has")
    try:
        document = load_one(split(data)[0])
        if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, kind.__name__):
            raise Malformed(f"no {kind.__name__}")
        return msgspec.convert({**document["status"], key: document["metadata"]["name"]}, kind)
    except (KeyError, TypeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise Malformed(f"no {kind.__name__}: {error}") from None
