"""Namespaces of tenants, and whether a Namespace may be deleted."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import Namespace


class RawNamespace(ApiObject, frozen=True):
    """A Namespace. Only its metadata is needed."""

    metadata: Metadata


def summarize_namespace(raw: RawNamespace) -> Namespace:
    """Return the summary of a Namespace.

    The name of a tenant's Namespace follows from the name of the tenant. If the label of a Namespace names a tenant,
    but the Namespace has another name, the summary has no tenant.
    """
    metadata = raw.metadata
    tenant = metadata.get_label(names.TENANT)
    owner = tenant if tenant and metadata.name == names.namespace(tenant) else ""
    return Namespace(metadata.uid, metadata.name, owner, metadata.unprotected)
