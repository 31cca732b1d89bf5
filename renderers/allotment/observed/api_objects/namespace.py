"""Namespaces: a tenant's namespace, and whether it may be deleted."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import Namespace


class RawNamespace(ApiObject, frozen=True):
    """A Namespace. Its metadata is enough."""

    metadata: Metadata


def summarize_namespace(raw: RawNamespace) -> Namespace:
    """Return the summary of a Namespace. It has no tenant if its name isn't the namespace of its label's tenant."""
    metadata = raw.metadata
    tenant = metadata.labels.tenant
    owner = tenant if tenant and metadata.name == names.namespace(tenant) else ""
    return Namespace(metadata.uid, metadata.name, owner, metadata.unprotected)
