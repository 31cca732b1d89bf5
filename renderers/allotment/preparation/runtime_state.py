"""The state of a tenant beyond its declarations: its succeeded preparations, and its allocated units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

JobKey = tuple[str, str]  # the cluster and name of a Job


class RuntimeState(NamedTuple):
    """The runtime state of a tenant.

    `prepared_jobs` are the Jobs of the preparations that have succeeded; None means that all declared preparations have
    succeeded. `allocated_units` has the number of units of each instance that gets fewer units than it declares.
    """

    prepared_jobs: frozenset[JobKey] | None = frozenset()
    allocated_units: Mapping[str, int] = MappingProxyType({})

    def has_succeeded(self, cluster: str, job: str) -> bool:
        """Return whether a preparation has succeeded."""
        return self.prepared_jobs is None or (cluster, job) in self.prepared_jobs


UNKNOWN_STATE = RuntimeState()
ALL_PREPARED = RuntimeState(prepared_jobs=None)
RuntimeStates = Callable[[str], RuntimeState]  # takes the name of a tenant


def unknown_state(_: str) -> RuntimeState:
    """Return the state of a tenant that was never observed: no preparation has succeeded."""
    return UNKNOWN_STATE


def all_prepared_state(_: str) -> RuntimeState:
    """Return the state of a tenant after all its preparations have succeeded."""
    return ALL_PREPARED
