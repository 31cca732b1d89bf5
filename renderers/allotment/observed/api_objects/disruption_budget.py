"""PodDisruptionBudgets, which protect the instances of a tenant when a node is drained."""

from __future__ import annotations

from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import DisruptionBudget


class RawDisruptionBudget(ApiObject, frozen=True):
    """A PodDisruptionBudget. Only its metadata is needed.

    The rest is known, because the isolation gate allows only PodDisruptionBudgets with fixed content in a tenant's
    namespace.
    """

    metadata: Metadata


def summarize_disruption_budget(raw: RawDisruptionBudget) -> DisruptionBudget:
    """Return the summary of a PodDisruptionBudget."""
    metadata = raw.metadata
    return DisruptionBudget(metadata.uid, metadata.name, metadata.tenant, metadata.deletion_timestamp is not None)
