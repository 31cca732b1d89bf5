"""Storage classes and snapshot classes against what the Cluster says of them."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.cluster import Cluster, ClusterStorage
from allotment.declared.reading import nearest
from allotment.diagnosis.apis import is_bucket
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, warning
from allotment.diagnosis.looked import SNAPSHOT_CLASSES, STORAGE_CLASSES, Looked, Object, by_name


def check_classes(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether each storage class is there, keeps or deletes what it should, and grows."""
    place = cluster.one(Cluster)
    if place is None:
        return
    classes, spec = by_name(looked.all(STORAGE_CLASSES)), place.model.spec
    for one in spec.storages:
        yield from _class_of(one, classes, volumes=not is_bucket(offers, one.storage_spec))
    name = spec.disk_storage_class_name
    found = classes.get(name)
    if found is None:
        yield _missing(f"StorageClass {name}", "diskStorageClassName names it", name, classes)
    elif (policy := found.get("reclaimPolicy", "Delete")) != "Delete":
        yield error(
            f"StorageClass {name}",
            f"has reclaimPolicy {policy}: each stopped instance leaves a disk behind, and diskStorageClassName wants Delete",
            _anew(name, "Delete"),
        )
    else:
        yield ok(f"StorageClass {name}", "deletes, as disks should")


def _class_of(one: ClusterStorage, classes: dict[str, Object], *, volumes: bool) -> Iterator[Diagnosis]:
    name = one.storage_class_name
    found, what = classes.get(name), f"StorageClass {name}"
    if found is None:
        yield _missing(what, f"the storage {one.storage_spec} names it", name, classes)
        return
    fine = True
    if (policy := found.get("reclaimPolicy", "Delete")) != "Retain":
        fine = False
        yield error(
            what,
            f"has reclaimPolicy {policy}: data go with a claim that is deleted by mistake, and {one.storage_spec} wants Retain",
            _anew(name, "Retain"),
        )
    if volumes and not found.get("allowVolumeExpansion"):
        fine = False
        yield warning(
            what,
            f"has allowVolumeExpansion: false: a storage of {one.storage_spec} whose size is raised doesn't grow",
            f"kubectl patch storageclass {name} --patch 'allowVolumeExpansion: true', where its driver expands volumes",
        )
    if fine:
        binding = f", and binds {found['volumeBindingMode']}" if volumes and "volumeBindingMode" in found else ""
        yield ok(what, f"retains{binding}")


def check_snapshots(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether each snapshot class is there, retains, and is of its storage class's driver."""
    place = cluster.one(Cluster)
    wanted = [one for one in place.model.spec.storages if one.volume_snapshot_class_name] if place else []
    if not wanted:
        return
    found = by_name(looked.all(SNAPSHOT_CLASSES))
    classes = by_name(looked.all(STORAGE_CLASSES))
    for one in wanted:
        name = one.volume_snapshot_class_name or ""
        what, there = f"VolumeSnapshotClass {name}", found.get(name)
        if there is None:
            yield _missing(what, f"the storage {one.storage_spec} names it", name, found)
            continue
        policy, driver = there.get("deletionPolicy"), there.get("driver")
        provisioner = classes.get(one.storage_class_name, {}).get("provisioner", driver)
        if policy != "Retain":
            yield error(
                what,
                f"has deletionPolicy {policy}: a snapshot goes with its object, and {one.storage_spec} wants Retain",
                f"kubectl patch volumesnapshotclass {name} --type merge --patch 'deletionPolicy: Retain'",
            )
        if driver != provisioner:
            yield error(
                what,
                f"is of the driver {driver}, and StorageClass {one.storage_class_name} of {provisioner}: no snapshot is taken",
                "name a class of the same driver in volumeSnapshotClassName",
            )
        if policy == "Retain" and driver == provisioner:
            yield ok(what, "retains")


def _missing(what: str, why: str, name: str, known: dict[str, Object]) -> Diagnosis:
    return error(what, f"isn't there, and {why}{nearest(name, known)}", "make it, or declare another")


def _anew(name: str, policy: str) -> str:
    return f"make it anew: kubectl get storageclass {name} -o yaml, reclaimPolicy: {policy}, kubectl replace --force --filename FILE"
