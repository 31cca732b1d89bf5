"""Buckets: a bucket is object storage and not a volume, so it has no files to mount, prepare, share or show.

An instance lists its buckets under spec.buckets. The buckets must be in the cluster of the instance.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.preparation.sources import is_bucket
from allotment.problems import Finding

RULE = "bucket"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's buckets, and the instances that use them."""
    storages = tenant.of_kind(GPUStorage)
    for storage in storages.values():
        if is_bucket(catalog, storage.model):
            spec = storage.model.spec
            for field, is_set in (
                ("prepare", spec.prepare is not None),
                ("accessor", spec.accessor is not None),
                ("sharedWith", bool(spec.shared_with)),
            ):
                if is_set:
                    message = f"{spec.storage_spec} is a bucket, which has no files: remove {field}, or choose a volume"
                    yield storage.make_finding(f"spec.{field}", message, RULE)
    buckets = [name for name, declared_storage in storages.items() if is_bucket(catalog, declared_storage.model)]
    for instance in tenant.of_kind(GPUInstance).values():
        yield from _check_instance(catalog, tenant, instance, buckets)


def _check_instance(
    catalog: Catalog, tenant: ScopeDeclarations, instance: DeclarationFile[GPUInstance], buckets: list[str]
) -> Iterator[Finding]:
    storages, spec = tenant.of_kind(GPUStorage), instance.model.spec
    for index, mount in enumerate(spec.storages):
        if mount.name in buckets:
            message = f"storage {mount.name} is a bucket, which can't be mounted: list it under spec.buckets"
            yield instance.make_finding(
                f"spec.storages.{index}.name", message, RULE, related=(storages[mount.name].path,)
            )
    for index, use in enumerate(spec.buckets):
        field, storage = f"spec.buckets.{index}.name", storages.get(use.name)
        if storage is None:
            continue
        elif not is_bucket(catalog, storage.model):
            message = f"storage {use.name} is a volume: list it under spec.storages, with a mountPath"
            yield instance.make_finding(field, message, RULE, related=(storage.path,))
        elif storage.model.spec.cluster != spec.cluster:
            message = f"bucket {use.name} is in cluster {storage.model.spec.cluster}, and the instance is in {spec.cluster}: use the same cluster for both"
            yield instance.make_finding(field, message, RULE, related=(storage.path,))
