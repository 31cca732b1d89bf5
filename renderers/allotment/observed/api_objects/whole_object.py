"""Whole objects in tenants' namespaces. Allotment compares each object with its manifest."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, OwnerReference, normalize_time
from allotment.observed.objects import LiveObject

_NAMESPACE_PREFIX = names.namespace("")
_COMPRESSION_LEVEL = 1  # for zlib: faster than the default level, and the result is only 1 % larger


class _Metadata(ApiObject, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class RawObject(ApiObject, frozen=True):
    """An object of a kind that has at most metadata, spec and status."""

    metadata: _Metadata
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


def make_summarizer(kind: str) -> Callable[[RawObject], LiveObject]:
    """Return a function that summarizes an object of `kind`, including the fields that are compared with its manifest.

    The summary of an object outside tenants' namespaces has no tenant and no content.
    """

    def read(raw: RawObject) -> LiveObject:
        metadata = raw.metadata
        namespace = metadata.name if kind == "Namespace" else metadata.namespace
        tenant = namespace.removeprefix(_NAMESPACE_PREFIX) if namespace.startswith(_NAMESPACE_PREFIX) else ""
        key, _, value = names.MANAGED_BY_SELECTOR.partition("=")
        return LiveObject(
            uid=f"{metadata.uid}/{kind}" if metadata.uid else "",
            kind=kind,
            name=metadata.name,
            tenant=tenant,
            created=normalize_time(metadata.creation_timestamp),
            terminating=metadata.deletion_timestamp is not None,
            owned=bool(metadata.owner_references),
            managed=metadata.labels.get(key) == value,
            content=_compress_compared_fields(raw) if tenant else b"",
        )

    return read


def _compress_compared_fields(raw: RawObject) -> bytes:
    """Return the fields of an object that are compared with its manifest, in compressed form.

    A reporter has the fields of all tenants' objects in memory, so they must be small. The compressed fields of a
    Deployment take about 1 KB.
    """
    metadata = raw.metadata
    compared = {
        "metadata": {
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "finalizers": metadata.finalizers,
        },
        "spec": raw.spec,
    }
    return zlib.compress(msgspec.json.encode(compared, order="sorted"), _COMPRESSION_LEVEL)


def read_compared_fields(live_object: LiveObject) -> dict[str, Any]:
    """Return the fields of an object that are compared with its manifest."""
    return msgspec.json.decode(zlib.decompress(live_object.content), type=dict[str, Any])
