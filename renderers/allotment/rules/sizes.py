"""Sizes: a storage's size is within the bounds of its StorageSpec, and a container's shared memory fits the unit's
memory."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.values import format_size
from allotment.preparation.start_gates import app_version
from allotment.problems import Finding

RULE = "size"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's sizes against the specs that it chose."""
    storage_specs, specs = catalog.platform.of_kind(StorageSpec), catalog.platform.of_kind(GPUSpec)
    for storage in tenant.of_kind(GPUStorage).values():
        offer = storage_specs.get(storage.model.spec.storage_spec)
        if offer is None:
            continue
        size, bounds = storage.model.spec.size, offer.model.spec.size
        if not bounds.min <= size <= bounds.max:
            message = f"{format_size(size)} is outside the range of {offer.model.name}: write {format_size(bounds.min)} to {format_size(bounds.max)}"
            yield storage.make_finding("spec.size", message, RULE, related=(offer.path,))
    for instance in tenant.of_kind(GPUInstance).values():
        spec = specs.get(instance.model.spec.gpu_spec)
        version, own = app_version(catalog, instance.model), instance.model.spec.container
        container = version.container if version is not None else own
        if spec is None or container is None or container.shm_size is None:
            continue
        if container.shm_size > spec.model.spec.memory:
            field = "spec.app" if version is not None else "spec.container.shmSize"
            message = (
                f"the container's /dev/shm of {format_size(container.shm_size)} is more than the memory of a unit of"
                f" {spec.model.name}, {format_size(spec.model.spec.memory)}: choose a larger GPUSpec"
            )
            yield instance.make_finding(field, message, RULE, related=(spec.path,))
