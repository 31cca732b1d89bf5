"""PodDisruptionBudgets: whose instances a cluster protects from drained nodes."""

from __future__ import annotations

from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import DisruptionBudget


class RawDisruptionBudget(ApiObject, frozen=True):
    """A PodDisruptionBudget, of which the metadata is enough: the gate says what one of a tenant's namespace holds."""

    metadata: Metadata


def summarize_disruption_budget(raw: RawDisruptionBudget) -> DisruptionBudget:
    """Return what is kept of a PodDisruptionBudget."""
    metadata = raw.metadata
    return DisruptionBudget(metadata.uid, metadata.name, metadata.tenant, metadata.deletion_timestamp is not None)
