"""Sizes: a storage's size is one its StorageSpec has; shared memory fits the unit's memory."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.values import size_text
from allotment.problems import Finding
from allotment.readiness.instances import app_version

RULE = "size"


def check(offers: Offers, tenant: Folder) -> Iterator[Finding]:
    """Check a tenant's sizes against what it chose."""
    storage_specs, specs = offers.platform.of(StorageSpec), offers.platform.of(GPUSpec)
    for storage in tenant.of(GPUStorage).values():
        offer = storage_specs.get(storage.model.spec.storage_spec)
        if offer is None:
            continue
        size, bounds = storage.model.spec.size, offer.model.spec.size
        if not bounds.min <= size <= bounds.max:
            message = f"{size_text(size)} is not what {offer.model.name} has: write {size_text(bounds.min)} to {size_text(bounds.max)}"
            yield storage.finding("spec.size", message, RULE, related=(offer.path,))
    for instance in tenant.of(GPUInstance).values():
        spec = specs.get(instance.model.spec.gpu_spec)
        version, own = app_version(offers, instance.model), instance.model.spec.container
        container = version.container if version is not None else own
        if spec is None or container is None or container.shm_size is None:
            continue
        if container.shm_size > spec.model.spec.memory:
            field = "spec.app" if version is not None else "spec.container.shmSize"
            message = (
                f"the container's /dev/shm of {size_text(container.shm_size)} is more than the memory of a unit of"
                f" {spec.model.name}, {size_text(spec.model.spec.memory)}: choose a larger GPUSpec"
            )
            yield instance.finding(field, message, RULE, related=(spec.path,))
