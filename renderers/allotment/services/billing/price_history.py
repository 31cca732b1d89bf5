"""Reads the prices and the settings of billing after each merge of the main branch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.history import list_first_parents
from allotment.billing.late_changes import LateChange, MergedTerms, find_late_changes
from allotment.billing.periods import Period
from allotment.billing.prices import PriceList
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import PLATFORM
from allotment.declared.reading import read_folder
from allotment.services.billing.billing_source import BillingSource
from allotment.services.check.workers import read_scope

_MAX_MERGES = 100_000  # that changed the platform


def list_late_changes(source: BillingSource, period: Period) -> list[LateChange]:
    """Return the changes of prices and settings that apply to a time of the period before their merge.

    The first commit of the repository counts as known from the beginning. A shallow clone has only the merges since its oldest
    commit. `is_history_complete` says whether that is enough.
    """
    return find_late_changes(list(_read_history(source, period)), period)


def is_history_complete(source: BillingSource, period: Period) -> bool:
    """Return whether the clone has the merges since the start of a period."""
    repository = source.clone.repository
    if not repository.is_shallow():
        return True
    times = [time for _, time in _list_merges(source, "")]
    return bool(times) and times[0] <= period.start


def _read_history(source: BillingSource, period: Period) -> Iterator[MergedTerms]:
    """Yield the terms at the start of a period, and after each later merge that changed the platform."""
    merges = _list_merges(source, PLATFORM.kind)
    first = max((index for index, (_, time) in enumerate(merges) if time <= period.start), default=0)
    similar = source.declared.source
    for commit, time in merges[first:]:
        similar = CommitSource(source.clone.root, commit, source.clone.repository, like=similar)
        platform = read_folder(PLATFORM, read_scope(similar, PLATFORM).files)[0]
        declared = platform.get_singleton(Platform)
        yield MergedTerms(
            commit, time, PriceList(platform, source.zone), declared.model.spec.billing if declared else None
        )


def _list_merges(source: BillingSource, folder: str) -> list[tuple[str, int]]:
    """Return the commits on the line of first parents that changed a folder, and their times, the oldest commit first.

    A commit can have a date before that of its parent. Its time is not before that of its parent.
    """
    commits = list_first_parents(
        source.clone.repository, source.declared.source.commit, [folder] if folder else [], _MAX_MERGES
    )[::-1]
    times = accumulate((each.time for each in commits), max)
    return [(each.commit, time) for each, time in zip(commits, times, strict=True)]
