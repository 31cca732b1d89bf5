"""Reads the prices and the settings of billing after each merge of the main branch."""

from __future__ import annotations

import datetime
import posixpath
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal

from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.history import list_first_parent_times, list_first_parents
from allotment.billing.late_changes import LateChange, MergedTerms, find_late_changes
from allotment.billing.periods import Period
from allotment.billing.prices import PriceList
from allotment.branches.platform_settings import list_cluster_names
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.stock import Stock
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.layout import PLATFORM, Scope, path_of
from allotment.declared.reading import read_folder
from allotment.declared.tenant_resources import INSTANCE
from allotment.problems import OperationRefused
from allotment.services.billing.billing_source import BillingSource
from allotment.services.check.workers import read_scope

_MAX_MERGES = 100_000  # that changed the platform
_CLOCK_TOLERANCE = 86_400  # seconds that a clock may be ahead


def list_late_changes(source: BillingSource, period: Period) -> list[LateChange]:
    """Return the changes of prices and settings that apply to a time of the period before their merge."""
    return find_late_changes(read_merged_terms(source.declared.source, source.zone, period.start), period)


def is_history_complete(source: CommitSource, period: Period) -> bool:
    """Return whether the clone has the merges since the start of a period."""
    if not source.repository.is_shallow():
        return True
    return min(list_first_parent_times(source.repository, source.commit).values()) <= period.start


def find_future_commit(source: CommitSource) -> str:
    """Return the oldest merge with a date more than a day after the present; empty if there is none."""
    limit = int(time.time()) + _CLOCK_TOLERANCE
    merges = list_first_parent_times(source.repository, source.commit)
    return next((commit for commit, moment in merges.items() if moment > limit), "")


def read_merged_terms(source: CommitSource, zone: datetime.tzinfo, start: int) -> list[MergedTerms]:
    """Return the terms at a time, and after each later merge that changed the platform or a cluster, up to a commit.

    Offers, stocks and settings that can't be read at the time have the terms of the last merge with them. The first commit of the
    repository counts as known from the beginning. A shallow clone has only the merges since its oldest commit. `is_history_complete`
    says whether that is enough.
    """
    repository, prefix = source.repository, source.repository.folder_prefix(source.root)
    folders = [posixpath.join(prefix, folder) for folder in (PLATFORM.kind, "clusters")]
    times = list_first_parent_times(repository, source.commit)
    terms: list[MergedTerms] = []
    similar: TreeSource = source
    missing: Set[str] | None = None  # the files to find; None before the first merge up to the time
    for merge in list_first_parents(repository, source.commit, folders, _MAX_MERGES):  # the newest first
        if missing is not None and missing.isdisjoint(path for _, path in merge.files):
            continue
        try:
            similar = here = CommitSource(source.root, merge.commit, repository, like=similar)
            terms.append(_read_terms(here, zone, times[merge.commit]))
        except OperationRefused:  # a commit without the folder of the declarations, or with a tree that nobody can read
            continue
        if before := [each for each in terms if each.time <= start]:
            missing = {posixpath.join(prefix, path) for path in _list_missing_files(before, terms[0])}
            if not missing:
                break
    return list(_complete_reservations(terms[::-1]))


def _list_missing_files(before: Sequence[MergedTerms], newest: MergedTerms) -> Iterator[str]:
    """Yield the files of each offer, stock and setting that the terms before a time, the latest first, lack."""
    if all(each.billing is None for each in before):
        yield path_of(Platform.__name__, PLATFORM, PLATFORM.kind)
    for kind, offer in newest.prices.keys - {key for each in before for key in each.prices.keys}:
        spec = GPUSpec if kind == INSTANCE.kind.name else StorageSpec
        yield path_of(spec.__name__, PLATFORM, offer)
    for (cluster, stock), fraction in before[0].reservations.items():
        if fraction is None and all(each.reservations.get((cluster, stock)) is None for each in before):
            yield path_of(Stock.__name__, Scope("cluster", cluster), stock)


def _complete_reservations(terms: Iterable[MergedTerms]) -> Iterator[MergedTerms]:
    """Yield terms in which a stock with an invalid file has its last reservation."""
    last: Mapping[tuple[str, str], Decimal | None] = {}
    for each in terms:
        last = {
            stock: last.get(stock) if fraction is None else fraction for stock, fraction in each.reservations.items()
        }
        yield each._replace(reservations=last)


def _read_terms(source: CommitSource, zone: datetime.tzinfo, time: int) -> MergedTerms:
    platform = read_folder(PLATFORM, read_scope(source, PLATFORM).files)[0]
    declared = platform.get_singleton(Platform)
    return MergedTerms(
        source.commit,
        time,
        PriceList(platform, zone),
        declared.model.spec.billing if declared else None,
        dict(_list_reservations(source)),
    )


def _list_reservations(source: CommitSource) -> Iterator[tuple[tuple[str, str], Decimal | None]]:
    """Yield the fraction of the price of each stock that declares a reservation; None if the file of a stock is invalid."""
    for cluster in list_cluster_names(source):
        scope = Scope("cluster", cluster)
        folder = read_folder(scope, read_scope(source, scope).files)[0]
        yield from (((cluster, name), None) for kind, name in folder.invalid if kind == Stock.__name__)
        for name, stock in folder.of_kind(Stock).items():
            if (reservation := stock.model.spec.reservation) is not None:
                yield (cluster, name), reservation.fraction
