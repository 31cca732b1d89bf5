"""Whole objects in tenants' namespaces. Allotment compares each object with its manifest."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, OwnerReference, normalize_time
from allotment.observed.objects import PLATFORM_OWNER, LiveObject

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
    """An object of a kind that has at most metadata, spec, status and the fields of a RoleBinding."""

    metadata: _Metadata
    spec: dict[str, Any] | None = None
    role_ref: dict[str, Any] | None = None
    subjects: list[dict[str, Any]] | None = None


def make_summarizer(kind: str) -> Callable[[RawObject], LiveObject]:
    """Return a function that summarizes an object of `kind`, including the fields that are compared with its manifest.

    The summary of an object that belongs neither to a tenant nor to the platform has no tenant and no content.
    """

    def read(raw: RawObject) -> LiveObject:
        metadata = raw.metadata
        key, _, value = names.MANAGED_BY_SELECTOR.partition("=")
        is_managed = metadata.labels.get(key) == value
        tenant = _find_owner(kind, metadata, is_managed=is_managed)
        return LiveObject(
            uid=f"{metadata.uid}/{kind}" if metadata.uid else "",
            kind=kind,
            name=names.scoped_name(metadata.namespace, metadata.name),
            tenant=tenant,
            created=normalize_time(metadata.creation_timestamp),
            terminating=metadata.deletion_timestamp is not None,
            owned=bool(metadata.owner_references),
            managed=is_managed,
            content=_compress_compared_fields(raw) if tenant else b"",
        )

    return read


def _find_owner(kind: str, metadata: _Metadata, *, is_managed: bool) -> str:
    """Return the tenant of an object, PLATFORM_OWNER, or an empty text if the object is not compared.

    In other namespaces than those of tenants, only objects with Allotment's label are compared. In the namespace of Argo
    CD, an object belongs to the tenant in its label.
    """
    namespace = metadata.name if kind == "Namespace" else metadata.namespace
    if namespace.startswith(_NAMESPACE_PREFIX):
        return namespace.removeprefix(_NAMESPACE_PREFIX)
    if not is_managed and namespace:
        return ""
    return (metadata.labels.get(names.TENANT) if namespace == names.ARGO_NAMESPACE else "") or PLATFORM_OWNER


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
        "roleRef": raw.role_ref,
        "subjects": raw.subjects,
    }
    return zlib.compress(msgspec.json.encode(compared, order="sorted"), _COMPRESSION_LEVEL)


def read_compared_fields(live_object: LiveObject) -> dict[str, Any]:
    """Return the fields of an object that are compared with its manifest."""
    return msgspec.json.decode(zlib.decompress(live_object.content), type=dict[str, Any])
