"""Accessors: only an Admin or a Member of the tenant, and its pods, can change files through an accessor.

An accessor with `mode: ReadWrite` is not Public, and its storage is not shared with other tenants, because their copies
connect to the same port. It is refused for a ReadWriteOnce storage that a running instance mounts.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.preparation.sources import is_single_writer
from allotment.problems import Finding

RULE = "accessor"
MODE_FIELD = "spec.accessor.mode"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check the accessors of a tenant that may change files."""
    for storage in tenant.of_kind(GPUStorage).values():
        spec = storage.model.spec
        if spec.accessor is None or not spec.accessor.allows_writing:
            continue
        if spec.accessor.exposure == "Public":
            message = "anyone could change the files, because the exposure is Public: write exposure Members, or mode ReadOnly"
            yield storage.make_finding(MODE_FIELD, message, RULE)
        if spec.shared_with:
            message = (
                "other tenants connect to this accessor to copy the storage (spec.sharedWith), and could change its files: "
                "write mode ReadOnly, or remove sharedWith"
            )
            yield storage.make_finding(MODE_FIELD, message, RULE)
        if is_single_writer(catalog, storage.model):
            yield from _check_single_writer(tenant, storage)


def _check_single_writer(tenant: ScopeDeclarations, storage: DeclarationFile[GPUStorage]) -> Iterator[Finding]:
    """Check that no running instance mounts a ReadWriteOnce storage with a writing accessor.

    Such a volume is for a single writer, and its programs may not expect that another program changes the files. A
    mount that is read-only counts too, because the volume is attached to the node of the instance.
    """
    users = list_running_users(tenant, storage.model.name)
    if users:
        noun, verb = ("instance", "mounts") if len(users) == 1 else ("instances", "mount")
        message = (
            f"storage {storage.model.name} is ReadWriteOnce and running {noun} {', '.join(each.model.name for each in users)} {verb} it: "
            f"write state: Stopped in the {noun}, or mode ReadOnly, or use a ReadWriteMany storage{explain_copy(tenant.name, storage.model.name, users)}"
        )
        yield storage.make_finding(MODE_FIELD, message, RULE, related=tuple(each.path for each in users))


def list_running_users(tenant: ScopeDeclarations, storage: str) -> list[DeclarationFile[GPUInstance]]:
    """Return the running instances of a tenant that mount a storage."""
    return [
        instance
        for instance in tenant.of_kind(GPUInstance).values()
        if instance.model.spec.state == "Running" and instance.model.spec.mounts(storage)
    ]


def explain_copy(tenant: str, storage: str, users: list[DeclarationFile[GPUInstance]]) -> str:
    """Return an advice with the command that copies files to a storage through a running instance; empty if none can write."""
    for instance in sorted(users, key=lambda each: "SSH" not in each.model.spec.access):
        name, spec = f"{tenant}/{instance.model.name}", instance.model.spec
        for mount in spec.storages:
            if mount.name == storage and not mount.read_only:
                shell = f"$(allot instance open {name} --ssh)" if "SSH" in spec.access else f"allot exec {name} --"
                return f"; or copy files through the instance: `tar -c FILES | {shell} tar -C {mount.mount_path} -x`"
    return ""
