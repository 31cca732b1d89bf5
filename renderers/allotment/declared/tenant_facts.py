"""Summarizes the declarations of a tenant as facts that lists show and filters compare."""

from __future__ import annotations

from typing import Literal, NamedTuple

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.members import Members, Role
from allotment.declared.kinds.tenant import Tenant

ON_HOLD = "OnHold"  # the declared state of an instance on hold


class InstanceFacts(NamedTuple):
    """A declared instance.

    `state` is the declared state: Running, Stopped, or OnHold. `app` is the app with its version, or the image of a custom
    container. `storages` are the names of the mounted storages.
    """

    tenant: str
    name: str
    cluster: str
    gpu_spec: str
    state: str
    replicas: int
    app: str
    storages: tuple[str, ...]
    labels: dict[str, str]


class StorageFacts(NamedTuple):
    """A declared storage.

    `size` is in bytes. `source` is the kind of source that fills the storage, such as image or url; it is empty if
    nothing fills it. `mounted_by` are the names of the tenant's instances that mount the storage. `exposure` is that of its
    accessor; empty without an accessor. `deletion_policy` is Delete if the storage is marked for deletion.
    """

    tenant: str
    name: str
    cluster: str
    storage_spec: str
    size: int
    source: str
    mounted_by: tuple[str, ...]
    labels: dict[str, str]
    exposure: str = ""
    deletion_policy: str = "Retain"


class SnapshotFacts(NamedTuple):
    """A declared snapshot, and the name of its storage. `deletion_policy` is as in `StorageFacts`."""

    name: str
    storage: str
    deletion_policy: str = "Retain"


class MemberFacts(NamedTuple):
    """A user or a group of a tenant.

    `login` and `subject` are empty if the user declares none. A group has no login, no subject and no SSH keys.
    """

    kind: Literal["User", "Group"]
    name: str
    role: Role
    login: str
    ssh_keys: int
    subject: str = ""


class TenantFacts(NamedTuple):
    """The declarations of a tenant, without its invalid files.

    `plan` and `lifecycle` are empty if the declaration of the tenant can't be read.
    """

    tenant: str
    plan: str
    lifecycle: str
    labels: dict[str, str]
    instances: tuple[InstanceFacts, ...]
    storages: tuple[StorageFacts, ...]
    snapshots: tuple[SnapshotFacts, ...]
    members: tuple[MemberFacts, ...]

    @property
    def is_active(self) -> bool:
        """Whether the instances of the tenant may run. If its declaration can't be read, its published instances run on."""
        return self.lifecycle in ("Active", "")


def summarize_tenant(folder: ScopeDeclarations) -> TenantFacts:
    """Return the facts of a tenant."""
    tenant, members = folder.get_singleton(Tenant), folder.get_singleton(Members)
    instances = tuple(
        summarize_instance(folder.name, declared.model) for declared in folder.of_kind(GPUInstance).values()
    )
    storages = tuple(
        summarize_storage(folder.name, declared.model, instances) for declared in folder.of_kind(GPUStorage).values()
    )
    return TenantFacts(
        tenant=folder.name,
        plan=tenant.model.spec.plan if tenant is not None else "",
        lifecycle=tenant.model.spec.lifecycle if tenant is not None else "",
        labels=dict(tenant.model.metadata.labels) if tenant is not None else {},
        instances=instances,
        storages=storages,
        snapshots=tuple(
            SnapshotFacts(
                declared.model.metadata.name, declared.model.spec.storage, declared.model.spec.deletion_policy
            )
            for declared in folder.of_kind(GPUStorageSnapshot).values()
        ),
        members=_summarize_members(members.model) if members is not None else (),
    )


def summarize_instance(tenant: str, model: GPUInstance) -> InstanceFacts:
    """Return the facts of an instance."""
    spec = model.spec
    image = spec.container.image if spec.container is not None else None
    return InstanceFacts(
        tenant=tenant,
        name=model.metadata.name,
        cluster=spec.cluster,
        gpu_spec=spec.gpu_spec,
        state=spec.state if spec.hold is None else ON_HOLD,
        replicas=spec.replicas,
        app=f"{spec.app.name} {spec.app.version}" if spec.app is not None else image or "",
        storages=tuple(dict.fromkeys(mount.name for mount in spec.storages)),
        labels=dict(model.metadata.labels),
    )


def summarize_storage(tenant: str, model: GPUStorage, instances: tuple[InstanceFacts, ...]) -> StorageFacts:
    """Return the facts of a storage. `instances` are the instances of its tenant."""
    spec = model.spec
    return StorageFacts(
        tenant=tenant,
        name=model.metadata.name,
        cluster=spec.cluster,
        storage_spec=spec.storage_spec,
        size=spec.size,
        source=(spec.prepare.source.chosen_member or "") if spec.prepare is not None else "",
        mounted_by=tuple(instance.name for instance in instances if model.metadata.name in instance.storages),
        labels=dict(model.metadata.labels),
        exposure=spec.accessor.exposure if spec.accessor is not None else "",
        deletion_policy=spec.deletion_policy,
    )


def _summarize_members(model: Members) -> tuple[MemberFacts, ...]:
    groups = [MemberFacts("Group", group.name, group.role, "", 0) for group in model.spec.groups]
    users = [
        MemberFacts("User", user.name, user.role, user.login or "", len(user.ssh_keys), user.subject or "")
        for user in model.spec.users
    ]
    return (*users, *groups)
