"""Mounts: an instance mounts only storages of its own cluster, and no mount path is inside another mount path.

At most one running instance mounts a ReadWriteOnce storage, and this instance has a single replica. A mount of a storage
that is marked for deletion is a warning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance, Mount
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.preparation.sources import is_single_writer
from allotment.problems import Finding

RULE = "mount"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's mounts."""
    storages = tenant.of_kind(GPUStorage)
    users: dict[str, list[tuple[DeclarationFile[GPUInstance], str]]] = defaultdict(list)
    for instance in tenant.of_kind(GPUInstance).values():
        spec = instance.model.spec
        yield from _check_paths(instance)
        for index, mount in enumerate(spec.storages):
            storage = storages.get(mount.name)
            if storage is None:
                continue
            field = f"spec.storages.{index}.name"
            if storage.model.spec.cluster != spec.cluster:
                message = f"storage {mount.name} is in cluster {storage.model.spec.cluster}, and the instance is in {spec.cluster}: use the same cluster for both"
                yield instance.make_finding(field, message, RULE, related=(storage.path,))
            if storage.model.spec.deletion_policy == "Delete":
                command = f"allot set storage/{tenant.name}/{mount.name} deletionPolicy-"
                message = f"storage {mount.name} is marked for deletion: keep it with `{command}`, or mount another"
                yield instance.make_finding(field, message, RULE, warning=True, related=(storage.path,))
            if spec.state != "Running" or not is_single_writer(catalog, storage.model):
                continue
            if spec.replicas > 1:
                message = f"storage {mount.name} is ReadWriteOnce and the instance has {spec.replicas} replicas: write replicas: 1, or use a ReadWriteMany storage"
                yield instance.make_finding(field, message, RULE, related=(storage.path,))
            users[mount.name].append((instance, field))
    for name, mounts in users.items():
        yield from _check_shared(storages[name], mounts)


def _check_shared(
    storage: DeclarationFile[GPUStorage], mounts: list[tuple[DeclarationFile[GPUInstance], str]]
) -> Iterator[Finding]:
    """Check that only a single running instance mounts a ReadWriteOnce storage.

    If several instances mount it, each of these instances gets an error.
    """
    for instance, field in mounts:
        other_instances = {other.path: other.model.name for other, _ in mounts if other.path != instance.path}
        if other_instances:
            noun = "instance" if len(other_instances) == 1 else "instances"
            verb = "mounts" if len(other_instances) == 1 else "mount"
            message = (
                f"storage {storage.model.name} is ReadWriteOnce and {noun} {', '.join(other_instances.values())} {verb} it too: "
                "run only one instance, or use a ReadWriteMany storage"
            )
            yield instance.make_finding(field, message, RULE, related=(storage.path,))


def _check_paths(instance: DeclarationFile[GPUInstance]) -> Iterator[Finding]:
    """Check that no mount path is inside another, because the inner mount would hide a part of the outer mount."""
    mounts: list[Mount] = instance.model.spec.storages
    for index, mount in enumerate(mounts):
        outer = next(
            (
                other_mount.mount_path
                for other_mount in mounts
                if mount.mount_path.startswith(f"{other_mount.mount_path}/")
            ),
            None,
        )
        if outer is not None:
            yield instance.make_finding(
                f"spec.storages.{index}.mountPath",
                f"{mount.mount_path} is inside {outer}, another mount: choose a path outside it",
                RULE,
            )
