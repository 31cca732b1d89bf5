"""Render a wait marker: a ConfigMap of a storage or snapshot that waits until another storage is prepared."""

from __future__ import annotations

from typing import Any

from allotment import conditions
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.manifests import names
from allotment.manifests.yaml_text import without_empty


def render_wait_marker(
    metadata: dict[str, Any],
    stem: str,
    source: str,
    declared: DeclarationFile[GPUStorage | GPUStorageSnapshot],
    job: str = "",
) -> dict[str, Any]:
    """Return the wait marker of a resource that waits for the storage `source`; `stem` is the stem of its file.

    People and the next publish read the annotations. `allot report` reads `stem` and `source` from the name of the
    ConfigMap. The next publish also reads the deletion policy, because the resource may exist already. `job` is the Job that will fill the waiting storage; it is empty for a snapshot.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            **metadata,
            "name": names.wait_marker(stem, source),
            "annotations": without_empty(
                {
                    names.BLOB: declared.blob,
                    names.WAITS_FOR: f"preparation of storage {source}",
                    names.WAITS_REASON: conditions.SOURCE_UNPREPARED,
                    names.PREPARES: job,
                    names.DELETION_POLICY: declared.model.spec.deletion_policy,
                }
            ),
        },
        "data": {"purpose": "Stands here until what it waits for is ready."},
    }
