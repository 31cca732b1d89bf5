"""Render the placeholder object of a storage or snapshot that waits for another storage to be prepared."""

from __future__ import annotations

from typing import Any

from allotment import conditions
from allotment.manifests import names
from allotment.manifests.yaml_text import without_empty


def render_wait_marker(metadata: dict[str, Any], stem: str, source: str, blob: str, job: str = "") -> dict[str, Any]:
    """Return a ConfigMap that names the storage for which the resource waits.

    Its annotations are for people and for the next publish; its name is for the reporter. `job` is the Job that waits.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            **metadata,
            "name": names.wait_marker(stem, source),
            "annotations": without_empty(
                {
                    names.BLOB: blob,
                    names.WAITS_FOR: f"preparation of storage {source}",
                    names.WAITS_REASON: conditions.SOURCE_UNPREPARED,
                    names.PREPARES: job,
                }
            ),
        },
        "data": {"purpose": "Stands here until what it waits for is ready."},
    }
