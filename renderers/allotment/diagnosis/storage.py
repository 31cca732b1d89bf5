"""Checks storage classes and snapshot classes against the Cluster that declares them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterStorage
from allotment.declared.reading import suggest_name
from allotment.diagnosis.apis import is_bucket
from allotment.diagnosis.cluster_snapshot import (
    NODES,
    SNAPSHOT_CLASSES,
    STORAGE_CLASSES,
    ClusterSnapshot,
    Object,
    index_by_name,
    name_of,
)
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, warning
from allotment.problems import pluralize

# Provisioners of NFS, SMB and FUSE file systems. The kernel can't map the owners of files on such mounts, so a container
# with such a mount does not start in a pod with hostUsers: false. Sources: Kubernetes, "User Namespaces" (before you
# begin); Linux, FS_ALLOW_IDMAP in fs/nfs and fs/smb.
_FILE_SYSTEMS_WITHOUT_ID_MAPPING = {
    "blob.csi.azure.com": "FUSE or NFS",
    "efs.csi.aws.com": "NFS",
    "file.csi.azure.com": "SMB or NFS",
    "filestore.csi.storage.gke.io": "NFS",
    "fsx.openzfs.csi.aws.com": "NFS",
    "gcsfuse.csi.storage.gke.io": "FUSE",
    "nfs.csi.k8s.io": "NFS",
    "s3.csi.aws.com": "FUSE",
    "smb.csi.k8s.io": "SMB",
}
_FILE_SYSTEMS_BY_SUFFIX = {  # Rook and other installers put a prefix before the driver's name
    ".nfs.csi.ceph.com": "NFS",
    "nfs-subdir-external-provisioner": "NFS",
}
_CEPHFS = "cephfs.csi.ceph.com"
CEPHFS_KERNEL = (6, 7)  # the first kernel with FS_ALLOW_IDMAP in fs/ceph
_KERNEL = re.compile(r"(\d{1,3})\.(\d{1,3})\b")


def check_id_mapping(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield an error for each storage class with a file system that pods with a user namespace can't mount.

    All pods of tenants have a user namespace. Raises NotReadable.
    """
    place = cluster.get_singleton(Cluster)
    if place is None:
        return
    classes, spec = index_by_name(snapshot.list_objects(STORAGE_CLASSES)), place.model.spec
    volumes = [storage.storage_class_name for storage in spec.storages if not is_bucket(catalog, storage.storage_spec)]
    for name in dict.fromkeys((*volumes, spec.disk_storage_class_name)):
        provisioner = str(classes.get(name, {}).get("provisioner", ""))
        subject = f"StorageClass {name}"
        if system := _find_unmapped_file_system(provisioner):
            yield error(
                subject,
                f"has the provisioner {provisioner}, which mounts {system}: pods of tenants have user namespaces (hostUsers: false), and the"
                " kernel can't map owners on such mounts, so no container that mounts it starts",
                "declare a class with another file system: block storage with ext4 or xfs, or CephFS for ReadWriteMany",
            )
        elif provisioner.endswith(_CEPHFS):
            yield from _check_kernels(snapshot, subject)


def _find_unmapped_file_system(provisioner: str) -> str:
    """Return the file system of a provisioner if the kernel can't map owners on its mounts; empty for all others."""
    of_suffix = (system for suffix, system in _FILE_SYSTEMS_BY_SUFFIX.items() if provisioner.endswith(suffix))
    return _FILE_SYSTEMS_WITHOUT_ID_MAPPING.get(provisioner) or next(of_suffix, "")


def _check_kernels(snapshot: ClusterSnapshot, subject: str) -> Iterator[Diagnosis]:
    """Yield an error if nodes have a kernel that can't map owners on CephFS."""
    old = [
        name_of(node)
        for node in snapshot.list_objects(NODES)
        if (version := _kernel_of(node)) and version < CEPHFS_KERNEL
    ]
    if old:
        yield error(
            subject,
            f"mounts CephFS, but the kernel of {pluralize(len(old), 'node')} ({', '.join(sorted(old)[:8])}) is older than"
            f" {'.'.join(map(str, CEPHFS_KERNEL))}, and can't mount CephFS in a user namespace: no container that mounts it"
            " starts there",
            "upgrade the kernel of these nodes",
        )


def _kernel_of(node: Object) -> tuple[int, int] | None:
    """Return the version of a node's Linux kernel as numbers; None if the node doesn't report it."""
    reported = _KERNEL.match(str(node.get("status", {}).get("nodeInfo", {}).get("kernelVersion", "")))
    return (int(reported[1]), int(reported[2])) if reported else None


def check_classes(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each storage class: its existence, reclaim policy and expansion. Raises NotReadable."""
    place = cluster.get_singleton(Cluster)
    if place is None:
        return
    classes, spec = index_by_name(snapshot.list_objects(STORAGE_CLASSES)), place.model.spec
    for storage in spec.storages:
        yield from _check_class(storage, classes, volumes=not is_bucket(catalog, storage.storage_spec))
    name = spec.disk_storage_class_name
    storage_class = classes.get(name)
    if storage_class is None:
        yield _missing_class(f"StorageClass {name}", "diskStorageClassName names it", name, classes)
    elif (policy := storage_class.get("reclaimPolicy", "Delete")) != "Delete":
        yield error(
            f"StorageClass {name}",
            f"has reclaimPolicy {policy}: each stopped instance leaves a disk behind; diskStorageClassName needs Delete",
            _recreate_command(name, "Delete"),
        )
    else:
        yield ok(f"StorageClass {name}", "has reclaimPolicy Delete")


def _check_class(storage: ClusterStorage, classes: dict[str, Object], *, volumes: bool) -> Iterator[Diagnosis]:
    name = storage.storage_class_name
    storage_class, subject = classes.get(name), f"StorageClass {name}"
    if storage_class is None:
        yield _missing_class(subject, f"the storage {storage.storage_spec} names it", name, classes)
        return
    fine = True
    if (policy := storage_class.get("reclaimPolicy", "Delete")) != "Retain":
        fine = False
        yield error(
            subject,
            f"has reclaimPolicy {policy}: the data is lost if a claim is deleted by mistake; {storage.storage_spec} needs Retain",
            _recreate_command(name, "Retain"),
        )
    if volumes and not storage_class.get("allowVolumeExpansion"):
        fine = False
        yield warning(
            subject,
            f"has allowVolumeExpansion: false: a storage of {storage.storage_spec} can't be enlarged",
            f"kubectl patch storageclass {name} --patch 'allowVolumeExpansion: true', if its driver supports it",
        )
    if fine:
        binding = (
            f" and volumeBindingMode {storage_class['volumeBindingMode']}"
            if volumes and "volumeBindingMode" in storage_class
            else ""
        )
        yield ok(subject, f"has reclaimPolicy Retain{binding}")


def check_snapshots(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each snapshot class: its existence, deletion policy and driver. Raises NotReadable."""
    place = cluster.get_singleton(Cluster)
    snapshot_storages = (
        [storage for storage in place.model.spec.storages if storage.volume_snapshot_class_name] if place else []
    )
    if not snapshot_storages:
        return
    snapshot_classes = index_by_name(snapshot.list_objects(SNAPSHOT_CLASSES))
    classes = index_by_name(snapshot.list_objects(STORAGE_CLASSES))
    for storage in snapshot_storages:
        name = storage.volume_snapshot_class_name or ""
        subject, snapshot_class = f"VolumeSnapshotClass {name}", snapshot_classes.get(name)
        if snapshot_class is None:
            yield _missing_class(subject, f"the storage {storage.storage_spec} names it", name, snapshot_classes)
            continue
        policy, driver = snapshot_class.get("deletionPolicy"), snapshot_class.get("driver")
        provisioner = classes.get(storage.storage_class_name, {}).get("provisioner", driver)
        if policy != "Retain":
            yield error(
                subject,
                f"has deletionPolicy {policy}: the snapshot is deleted with its object; {storage.storage_spec} needs Retain",
                f"kubectl patch volumesnapshotclass {name} --type merge --patch 'deletionPolicy: Retain'",
            )
        if driver != provisioner:
            yield error(
                subject,
                f"has the driver {driver}, but StorageClass {storage.storage_class_name} has {provisioner}: snapshots fail",
                "name a class with the same driver in volumeSnapshotClassName",
            )
        if policy == "Retain" and driver == provisioner:
            yield ok(subject, "has deletionPolicy Retain")


def _missing_class(subject: str, why: str, name: str, candidates: dict[str, Object]) -> Diagnosis:
    return error(
        subject, f"doesn't exist, but {why}{suggest_name(name, candidates)}", "create it, or declare another class"
    )


def _recreate_command(name: str, policy: str) -> str:
    return f"create it again: kubectl get storageclass {name} -o yaml, reclaimPolicy: {policy}, kubectl replace --force --filename FILE"
