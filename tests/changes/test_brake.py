"""The brake counts what is deleted, by kind, and an approval is of exactly one deletion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.changes.brake import Counted, Judgement, foreseen, judge, things
from allotment.declared.kinds.platform import Brake

LIMITS = Brake(maxDeletedPercent=30, minObjects=10, approvedPlans=[])


def instances(*numbers: int) -> frozenset[Counted]:
    return frozenset(Counted("instance", "eu-1", "acme", f"i-{number}") for number in numbers)


def verdict(before: frozenset[Counted], now: frozenset[Counted], *approvals: str, **used: str) -> Judgement:
    return judge(LIMITS, before, before, now, approvals, used)


def test_what_a_tree_holds() -> None:
    files = [
        "control/argo/a/acme.rendered.yaml",
        "control/argo/a/allotment--marker.rendered.yaml",
        "platform/stock/l4.rendered.yaml",
        "tenants/acme/compute/allotment--marker.rendered.yaml",
        "tenants/acme/compute/webui.rendered.yaml",
        "tenants/acme/storage/allotment--marker.rendered.yaml",
        "tenants/acme/storage/allotment--programs-seal-0123456789abcdef.rendered.yaml",
        "tenants/acme/storage/models.rendered.yaml",
        "tenants/acme/storage/old--leaving.rendered.yaml",
        "tenants/gone/compute/allotment--leaving.rendered.yaml",
    ]
    assert things("eu-1", files) == {
        Counted("tenant", "", "acme", ""),
        Counted("instance", "eu-1", "acme", "webui"),
        Counted("storage", "eu-1", "acme", "models"),
    }


def test_thirty_percent_may_go() -> None:
    assert verdict(instances(*range(10)), instances(*range(3, 10))).stop is None
    assert verdict(instances(*range(10)), instances(*range(4, 10))).stop is not None
    assert verdict(instances(*range(9)), instances()).stop is None


def test_kinds_are_counted_apart() -> None:
    storages = frozenset(one._replace(kind="storage") for one in instances(*range(30)))
    before = instances(*range(10)) | storages
    assert verdict(before, instances(*range(5, 10)) | storages).stop is not None


def test_an_approval_is_of_exactly_that() -> None:
    before, now = instances(*range(10)), instances(*range(5, 10))
    checksum = verdict(before, now).checksum
    assert verdict(before, now, checksum) == Judgement(None, True, checksum)
    assert verdict(before, instances(*range(6, 10)), checksum).stop is not None
    assert verdict(before, now, checksum, **{"eu-1": "abc"}).stop is not None, "used before"
    assert verdict(before, now, checksum, **{"us-1": "abc"}).stop is None, "another cluster's use doesn't count"


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_who_deletes_nothing_is_never_stopped(before: set[int], published: set[int], more: set[int]) -> None:
    now = instances(*published, *more)
    assert judge(LIMITS, instances(*before), instances(*published), now, (), {}).stop is None


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_a_plan_foresees_what_the_brake_says(before: set[int], after: set[int]) -> None:
    was, is_now = instances(*before), instances(*after)
    found = foreseen(LIMITS, was, is_now, 0)
    assert (found is not None) == (verdict(was, is_now).stop is not None)
