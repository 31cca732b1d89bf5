"""What is known of a tenant beyond what it declares: which preparations have succeeded, and which units others held
first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

Job = tuple[str, str]  # a cluster, and the name of a Job there


class Standing(NamedTuple):
    """What is known of one tenant.

    `prepared` are its preparations that are known to have succeeded, None for all that it declares; `granted` has
    the units of each instance that gets fewer than it declares.
    """

    prepared: frozenset[Job] | None = frozenset()
    granted: Mapping[str, int] = MappingProxyType({})

    def has_succeeded(self, cluster: str, job: str) -> bool:
        """Return whether a preparation is known to have succeeded."""
        return self.prepared is None or (cluster, job) in self.prepared


NOTHING = Standing()
PREPARED = Standing(prepared=None)
Standings = Callable[[str], Standing]  # by the tenant's name


def nothing_known(_: str) -> Standing:
    """Return what is known of a tenant where nobody was asked: nothing."""
    return NOTHING


def all_prepared(_: str) -> Standing:
    """Return that whatever a tenant declares is prepared."""
    return PREPARED
