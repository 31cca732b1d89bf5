"""Namespaces: a tenant's namespace, and whether it may be deleted."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import Namespace


class RawNamespace(ApiObject, frozen=True):
    """A Namespace. Only its metadata is needed."""

    metadata: Metadata


def summarize_namespace(raw: RawNamespace) -> Namespace:
    """Return the summary of a Namespace.

    The summary has no tenant if the name of the Namespace isn't that of the tenant in its label.
    """
    metadata = raw.metadata
    tenant = metadata.labels.tenant
    owner = tenant if tenant and metadata.name == names.namespace(tenant) else ""
    return Namespace(metadata.uid, metadata.name, owner, metadata.unprotected)
