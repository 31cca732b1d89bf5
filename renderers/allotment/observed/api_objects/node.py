"""Nodes of the cluster: their names, their ages and their labels."""

from __future__ import annotations

import msgspec

from allotment.observed.api_objects.base import ApiObject, normalize_time
from allotment.observed.objects import Node


class _NodeMetadata(ApiObject, frozen=True):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class RawNode(ApiObject, frozen=True):
    """A Node. Only its metadata is needed."""

    metadata: _NodeMetadata


def summarize_node(raw: RawNode) -> Node:
    """Return the summary of a node."""
    metadata = raw.metadata
    return Node(
        metadata.uid, metadata.name, normalize_time(metadata.creation_timestamp), frozenset(metadata.labels.items())
    )
