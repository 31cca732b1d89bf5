"""Namespaces: of a tenant each one, whether it may go."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import Namespace


class RawNamespace(ApiObject, frozen=True):
    """A Namespace, of which the metadata is enough."""

    metadata: Metadata


def summarize_namespace(raw: RawNamespace) -> Namespace:
    """Return what is kept of a Namespace; it is nobody's where its name isn't that of its label's tenant."""
    metadata = raw.metadata
    tenant = metadata.labels.tenant
    owner = tenant if tenant and metadata.name == names.namespace(tenant) else ""
    return Namespace(metadata.uid, metadata.name, owner, metadata.unprotected)
