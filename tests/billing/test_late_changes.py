"""Prices that were merged after the time that they apply to, by the merges of the main branch."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.priced_uses import BERLIN, OCTOBER, at
from tests.support.sample_catalog import OFFERS

from allotment.billing.late_changes import LateChange, MergedTerms, find_late_changes
from allotment.billing.periods import Period
from allotment.billing.prices import PriceList
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.layout import PLATFORM
from allotment.declared.reading import read_folder

TEXT = OFFERS.platform.of_kind(GPUSpec)["l4-quarter"].data.decode()
HEAD = TEXT.partition("  prices:\n")[0]
BEGIN = "2026-09-01T10:00"


def merge(time: str, prices: Mapping[str, str] | None) -> MergedTerms:
    """Return the terms of a merge at a time in UTC, with one spec and its prices by day, or without specs."""
    listed = "".join(f'  - from: "{day}"\n    perHour: "{price}"\n' for day, price in (prices or {}).items())
    files = [] if prices is None else [("platform/specs/l4-quarter.yaml", f"{HEAD}  prices:\n{listed}".encode())]
    platform, problems = read_folder(PLATFORM, files)
    assert not problems
    return MergedTerms(f"commit-{time}", at(time), PriceList(platform, BERLIN), None)


def changes(*history: MergedTerms, period: Period = OCTOBER) -> list[tuple[str, str, str]]:
    return [(change.before, change.after, change.commit) for change in find_late_changes(history, period)]


def test_a_price_that_is_merged_before_its_day_is_in_time() -> None:
    later = {"2026-09-01": "0.21", "2026-10-15": "0.30"}
    assert changes(merge(BEGIN, {"2026-09-01": "0.21"}), merge("2026-10-14T21:59", later)) == []


def test_a_price_that_is_merged_on_its_day_is_late_until_its_merge() -> None:
    history = (
        merge(BEGIN, {"2026-09-01": "0.21"}),
        merge("2026-10-15T10:00", {"2026-09-01": "0.21", "2026-10-15": "0.30"}),
    )
    assert find_late_changes(history, OCTOBER) == [
        LateChange(
            kind="GPUInstance",
            offer="l4-quarter",
            field="",
            start=at("2026-10-14T22:00"),
            end=at("2026-10-15T10:00"),
            before="0.21",
            after="0.30",
            commit="commit-2026-10-15T10:00",
            merged_at=at("2026-10-15T10:00"),
        )
    ]


def test_a_removed_price_is_late() -> None:
    both = {"2026-09-01": "0.21", "2026-10-15": "0.30"}
    history = merge(BEGIN, both), merge("2026-10-20T10:00", {"2026-09-01": "0.21"})
    assert changes(*history) == [("0.30", "0.21", "commit-2026-10-20T10:00")]


def test_a_price_that_is_restored_is_in_time_again() -> None:
    first = {"2026-09-01": "0.21"}
    history = merge(BEGIN, first), merge("2026-11-02T10:00", {"2026-09-01": "9.99"}), merge("2026-11-03T10:00", first)
    assert changes(*history[:2]) == [("0.21", "9.99", "commit-2026-11-02T10:00")]
    assert changes(*history) == []


def test_a_price_that_is_restored_within_the_month_is_in_time_again() -> None:
    first, wrong = {"2026-09-01": "0.21"}, {"2026-09-01": "9.99"}
    later = {**first, "2026-10-20": "0.30"}
    history = [merge(BEGIN, first), merge("2026-10-05T10:00", wrong), merge("2026-10-05T11:00", first)]
    assert changes(*history[:2]) == [("0.21", "9.99", "commit-2026-10-05T10:00")]
    assert changes(*history) == []
    assert changes(*history, merge("2026-10-10T10:00", later)) == []
    assert changes(*history, merge("2026-10-25T10:00", later)) == [("0.21", "0.30", "commit-2026-10-25T10:00")]


def test_a_price_in_time_that_is_removed_later_is_late() -> None:
    both = {"2026-09-01": "0.21", "2026-10-05": "0.30"}
    history = (
        merge(BEGIN, {"2026-09-01": "0.21"}),
        merge("2026-10-01T10:00", both),
        merge("2026-10-10T10:00", {"2026-09-01": "0.21"}),
    )
    assert changes(*history) == [("0.30", "0.21", "commit-2026-10-10T10:00")]


def test_a_spec_that_is_declared_again_keeps_its_price() -> None:
    history = (
        merge(BEGIN, {"2026-09-01": "0.21"}),
        merge("2026-11-02T10:00", None),
        merge("2026-11-03T10:00", {"2026-09-01": "9.99"}),
    )
    assert changes(*history) == [("0.21", "9.99", "commit-2026-11-03T10:00")]


def test_the_first_price_of_a_spec_without_a_price_is_late() -> None:
    history = merge(BEGIN, {"2026-12-01": "0.21"}), merge("2026-11-02T10:00", {"2026-09-01": "0.21"})
    assert changes(*history) == [("", "0.21", "commit-2026-11-02T10:00")]


def test_a_new_spec_and_the_first_commit_change_no_price() -> None:
    assert changes(merge("2026-11-20T10:00", {"2026-09-01": "0.21"})) == []
    assert changes(merge(BEGIN, None), merge("2026-10-20T10:00", {"2026-09-01": "0.21"})) == []
