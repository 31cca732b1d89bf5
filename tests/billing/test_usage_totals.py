"""The sums of groups are the sum of all uses, however a period is split."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import HOUR, START, stored, unit

from allotment.billing.periods import Period, parse_moment
from allotment.billing.recorded_use import Use
from allotment.billing.usage_totals import DIMENSIONS, Total, clip_uses, sum_shares, to_gib_hours, to_hours
from allotment.declared.values import GIBI

BERLIN = ZoneInfo("Europe/Berlin")
DAY = Period(START, START + 24 * HOUR)


def add_up(uses: list[Use], *dimensions: str, period: Period = DAY) -> dict[tuple[str, ...], Total]:
    return {total.group: total for total in sum_shares(clip_uses(uses, period), dimensions, period, BERLIN)}


def test_uses_are_clipped_to_the_period() -> None:
    uses = [unit(-HOUR, HOUR), unit(23 * HOUR, 30 * HOUR), unit(-HOUR, 0), unit(24 * HOUR, 25 * HOUR)]
    shares = clip_uses(uses, DAY)
    assert [(share.start - START, share.end - START) for share in shares] == [(0, HOUR), (23 * HOUR, 24 * HOUR)]
    (total,) = add_up(uses).values()
    assert to_hours(total.units.certain) == 2


def test_the_unknown_part_is_clipped_too() -> None:
    use = unit(0, 10 * HOUR, certain_end=START + 4 * HOUR)
    (total,) = add_up([use], period=Period(START + 2 * HOUR, START + 5 * HOUR)).values()
    assert total.units == (2 * HOUR, HOUR)
    (total,) = add_up([use], period=Period(START + 6 * HOUR, START + 7 * HOUR)).values()
    assert total.units == (0, HOUR)


def test_each_dimension_has_its_groups() -> None:
    uses = [
        unit(0, HOUR, labels={"film": "7"}),
        unit(0, HOUR, tenant="ada", cluster="us-1", offer=""),
        stored(0, 2 * HOUR),
        stored(0, HOUR, kind="GPUStorageSnapshot", uid="v1"),
    ]
    assert set(add_up(uses, "tenant")) == {("ada",), ("kite",)}
    assert set(add_up(uses, "spec")) == {("-",), ("fast",), ("l4",)}
    assert set(add_up(uses, "instance")) == {("ada/webui",), ("kite/webui",)}
    assert set(add_up(uses, "storage")) == {("kite/models",), ("kite/models (snapshot)",)}
    assert set(add_up(uses, "cluster", "label:film")) == {("eu-1", "-"), ("eu-1", "7"), ("us-1", "-")}
    total = add_up(uses, "tenant")["kite",]
    assert (
        to_hours(total.units.certain),
        to_gib_hours(total.storages.certain),
        to_gib_hours(total.snapshots.certain),
    ) == (1, 20, 10)
    days = add_up(uses, "day")
    assert set(days) == {("2026-11-01",)}
    assert len(add_up([unit(0, 24 * HOUR)], "day", period=Period(START, START + 48 * HOUR))) == 2, (
        "Berlin is ahead of UTC"
    )
    hours = add_up([unit(0, 2 * HOUR)], "hour", "tenant")
    assert set(hours) == {("2026-11-01T01:00:00+01:00", "kite"), ("2026-11-01T02:00:00+01:00", "kite")}


def test_the_two_hours_of_a_clock_change_are_in_the_order_of_time() -> None:
    midnight = parse_moment("2026-10-24T22:00:00Z")
    period = Period(midnight, midnight + 5 * HOUR)
    use = unit(0, 0)._replace(start=period.start, certain_end=period.end, end=period.end)
    totals = sum_shares(clip_uses([use], period), ["tenant", "hour"], period, BERLIN)
    assert [total.group[1][11:] for total in totals] == [
        "00:00:00+02:00", "01:00:00+02:00", "02:00:00+02:00", "02:00:00+01:00", "03:00:00+01:00",
    ]  # fmt: skip


def test_a_share_continues_if_its_use_does() -> None:
    cut, ended = clip_uses([unit(0, 48 * HOUR), unit(0, HOUR)], DAY)
    (open_share,) = clip_uses([unit(0, HOUR, is_open=True)], DAY)
    assert (cut.continues, ended.continues, open_share.continues) == (True, False, True)


@st.composite
def any_use(draw: Any) -> Use:
    start, certain, unknown = (draw(st.integers(0, 60 * HOUR)) for _ in range(3))
    end = start + certain + unknown
    values = {
        "tenant": draw(st.sampled_from(["ada", "kite"])),
        "labels": draw(st.dictionaries(st.sampled_from(["film", "team"]), st.sampled_from("78"), max_size=2)),
        "certain_end": START + start + certain,
    }
    if draw(st.booleans()):
        return unit(start, end, **values)
    return stored(
        start, end, draw(st.integers(1, 9)), kind=draw(st.sampled_from(["GPUStorage", "GPUStorageSnapshot"])), **values
    )


@given(st.lists(any_use(), max_size=8), st.lists(st.sampled_from([*DIMENSIONS, "label:film"]), max_size=3, unique=True))
def test_the_groups_add_up_to_all_uses(uses: list[Use], dimensions: list[str]) -> None:
    if len({"day", "hour"} & set(dimensions)) == 2:
        dimensions.remove("hour")
    period = Period(START + HOUR, START + 70 * HOUR)
    whole, groups = add_up(uses, period=period), add_up(uses, *dimensions, period=period)

    def total(field: str, sums: dict[tuple[str, ...], Total]) -> list[int]:
        amounts = [getattr(each, field) for each in sums.values()]
        return [sum(each.certain for each in amounts), sum(each.unknown for each in amounts)]

    for field, left_out in (("units", "storage"), ("storages", "instance"), ("snapshots", "instance")):
        if left_out not in dimensions:
            assert total(field, groups) == total(field, whole)


@given(st.lists(any_use(), max_size=8), st.integers(1, 69 * HOUR))
def test_splitting_a_period_gives_the_same_sum(uses: list[Use], seconds: int) -> None:
    whole = Period(START, START + 70 * HOUR)
    parts = [Period(START, START + seconds), Period(START + seconds, whole.end)]

    def sums(*periods: Period) -> list[int]:
        totals = [total for period in periods for total in add_up(uses, period=period).values()]
        return [
            sum(getattr(getattr(total, kind), field) for total in totals)
            for kind in ("units", "storages", "snapshots")
            for field in ("certain", "unknown")
        ]

    assert sums(*parts) == sums(whole)


@pytest.mark.parametrize(("byte_seconds", "hours"), [(GIBI * HOUR, 1), (GIBI * HOUR // 2, Decimal("0.5"))])
def test_a_gib_hour_is_a_gib_for_an_hour(byte_seconds: int, hours: Decimal) -> None:
    assert to_gib_hours(byte_seconds) == hours
