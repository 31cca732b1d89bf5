"""Defines the facts that the pages for the providers of clusters show."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.batch_totals import add_totals
from allotment.billing.capacity_totals import CapacityTotal
from allotment.portal.pages.site_facts import ClusterEntry


class NodeTime(NamedTuple):
    """A node, and the time since when it exists, as RFC 3339."""

    name: str
    since: str


class NodePoolTimes(NamedTuple):
    """The nodes of a node pool, sorted by name."""

    name: str
    nodes: tuple[NodeTime, ...]


class CapacityNow(NamedTuple):
    """The nodes and the units in stock that a cluster has now."""

    pools: tuple[NodePoolTimes, ...]
    units: int

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return sum(len(pool.nodes) for pool in self.pools)


class ProviderDay(NamedTuple):
    """The unit × seconds and the exact income of a day."""

    day: datetime.date
    units: CapacityTotal
    income: Fraction


class ProviderOffer(NamedTuple):
    """The unit × seconds and the exact income of a GPUSpec or StorageSpec. `units` is None without a stock and without uses."""

    name: str
    units: CapacityTotal | None
    income: Fraction


class ProviderCluster(NamedTuple):
    """A cluster in the current month. `capacity` is None if the status branch has no readable capacity.

    `problems` say which part of the record can't be read.
    """

    cluster: ClusterEntry
    capacity: CapacityNow | None
    days: tuple[ProviderDay, ...]
    offers: tuple[ProviderOffer, ...]
    problems: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether the record of the month has a node, a stock or a use."""
        return self.capacity is not None or bool(self.offers)

    @property
    def units(self) -> CapacityTotal:
        """The unit × seconds of the month so far."""
        return add_totals((day.units for day in self.days), self.cluster.name)

    @property
    def income(self) -> Fraction:
        """The exact income of the month so far."""
        return sum((day.income for day in self.days), Fraction())


class ProviderArea(NamedTuple):
    """The clusters in the current month, such as 2026-11."""

    month: str
    clusters: tuple[ProviderCluster, ...]
