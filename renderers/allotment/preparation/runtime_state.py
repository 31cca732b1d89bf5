"""What is known of a tenant beyond what it declares: which preparations have succeeded, and which units others held
first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

JobKey = tuple[str, str]  # a cluster, and the name of a Job there


class RuntimeState(NamedTuple):
    """What is known of one tenant.

    `prepared_jobs` are its preparations that are known to have succeeded, None for all that it declares; `allocated_units` has
    the units of each instance that gets fewer than it declares.
    """

    prepared_jobs: frozenset[JobKey] | None = frozenset()
    allocated_units: Mapping[str, int] = MappingProxyType({})

    def has_succeeded(self, cluster: str, job: str) -> bool:
        """Return whether a preparation is known to have succeeded."""
        return self.prepared_jobs is None or (cluster, job) in self.prepared_jobs


UNKNOWN_STATE = RuntimeState()
ALL_PREPARED = RuntimeState(prepared_jobs=None)
RuntimeStates = Callable[[str], RuntimeState]  # by the tenant's name


def unknown_state(_: str) -> RuntimeState:
    """Return what is known of a tenant where nobody was asked: nothing."""
    return UNKNOWN_STATE


def all_prepared_state(_: str) -> RuntimeState:
    """Return that whatever a tenant declares is prepared."""
    return ALL_PREPARED
