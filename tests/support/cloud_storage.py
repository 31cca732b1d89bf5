"""A storage of a cloud that becomes ready, and the declaration of its snapshot."""

from __future__ import annotations

from allotment.observed.status import Storage
from tests.e2e.cloud import Cloud
from tests.support.cloud_status import TENANT, storage
from tests.support.waiting import eventually

SNAPSHOT = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUStorageSnapshot
metadata:
  name: {name}
spec:
  storage: {storage}
"""


def ready(cloud: Cloud, name: str, tenant: str = TENANT) -> Storage:
    """Return a storage's status once it is ready."""

    def find_storage() -> Storage:
        storage_status = storage(cloud, name, tenant)
        assert storage_status.state == "Ready", (storage_status.state, storage_status.reason, storage_status.message)
        return storage_status

    return eventually(find_storage, f"{tenant}/{name} to be ready", 180, pause=1)
