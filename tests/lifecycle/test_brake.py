"""The brake counts deletions by kind, of one tenant and across tenants, and an approval is of exactly one deletion."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.declared.kinds.platform import Brake
from allotment.lifecycle.brake import (
    BrakeItem,
    BrakeItems,
    BrakeVerdict,
    BrakeWindow,
    brake_items,
    group_items_by_tenant,
    judge_release,
    judge_tenant,
)

LIMITS = Brake(maxDeletedPercent=30, minObjects=10, approvedPlans=[])


def instances(*numbers: int, tenant: str = "acme") -> BrakeItems:
    return frozenset(BrakeItem("instance", "eu-1", tenant, f"i-{number}") for number in numbers)


def verdict(before: BrakeItems, now: BrakeItems, *approvals: str, **used: str) -> BrakeVerdict:
    return judge_tenant(LIMITS, "acme", before, now, BrakeWindow({}, approvals, used))


def amount(judgement: BrakeVerdict) -> str | None:
    return judgement.excess.deleted_text if judgement.excess else None


def test_items_of_a_tree() -> None:
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
    assert brake_items(f"eu-1/{path}" for path in files) == {
        BrakeItem("tenant", "", "acme", ""),
        BrakeItem("instance", "eu-1", "acme", "webui"),
        BrakeItem("storage", "eu-1", "acme", "models"),
    }


def test_thirty_percent_may_go() -> None:
    assert verdict(instances(*range(10)), instances(*range(3, 10))).excess is None
    assert verdict(instances(*range(10)), instances(*range(4, 10))).excess is not None
    assert verdict(instances(*range(9)), instances()).excess is None


def test_kinds_are_counted_apart() -> None:
    storages = frozenset(brake_item._replace(kind="storage") for brake_item in instances(*range(30)))
    before = instances(*range(10)) | storages
    assert verdict(before, instances(*range(5, 10)) | storages).excess is not None


def test_an_approval_is_of_exactly_that() -> None:
    before, now = instances(*range(10)), instances(*range(5, 10))
    stop = verdict(before, now).excess
    assert stop is not None
    checksum = stop.checksum
    assert verdict(before, now, checksum) == BrakeVerdict(None, frozenset({"eu-1"}))
    assert verdict(before, instances(*range(6, 10)), checksum).excess is not None
    assert verdict(before, now, checksum, **{"eu-1": "abc"}).excess is not None, "used before"
    assert verdict(before, now, checksum, **{"us-1": "abc"}).excess is None, "another cluster's use doesn't count"
    window = BrakeWindow({}, (checksum,), {}, lambda item: item.name != "i-3")
    assert judge_tenant(LIMITS, "acme", before, now, window).excess is not None, "merged together with the deletion"


def test_one_tenant_never_stops_the_others() -> None:
    others = instances(*range(10), tenant="other")
    window = BrakeWindow(group_items_by_tenant(instances(*range(16)) | others))
    published = instances(*range(9, 16)) | others
    assert amount(judge_tenant(LIMITS, "acme", instances(*range(9, 16)), frozenset(), window)) == "16 of 16 instances"
    assert judge_release(LIMITS, published, others, window).excess is None


def test_deletions_across_tenants_stop_the_publish() -> None:
    before = frozenset().union(*(instances(*range(3), tenant=f"t-{number}") for number in range(6)))
    lost = frozenset().union(*(instances(*range(3), tenant=f"t-{number}") for number in range(3)))
    assert amount(judge_release(LIMITS, before, before - lost, BrakeWindow())) == "9 of 18 instances"
    for tenant, items in group_items_by_tenant(before).items():
        assert judge_tenant(LIMITS, tenant, items, frozenset(), BrakeWindow()).excess is None
    two = before - frozenset().union(*(instances(*range(3), tenant=f"t-{number}") for number in range(2)))
    assert judge_release(LIMITS, before, two, BrakeWindow()).excess is None, "3 of 15 without either of the two"


OWNED = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.integers(0, 12)), max_size=6)


def of_all(owned: dict[str, set[int]]) -> BrakeItems:
    return frozenset().union(*(instances(*numbers, tenant=tenant) for tenant, numbers in owned.items()))


@given(OWNED, OWNED, st.sampled_from("abcdef"))
def test_no_single_tenant_decides_over_a_release(
    before: dict[str, set[int]], now: dict[str, set[int]], tenant: str
) -> None:
    stop = judge_release(LIMITS, of_all(before), of_all(now), BrakeWindow()).excess
    if stop is not None:
        back = now | {tenant: before.get(tenant, set())}
        of = len(of_all(before)) - len(before.get(tenant, ()))
        assert len(of_all(before) - of_all(back)) * 100 > 30 * of, "the others exceed the limit by themselves"
        assert of >= LIMITS.min_objects


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_the_brake_never_stops_a_release_without_deletions(
    before: set[int], published: set[int], more: set[int]
) -> None:
    now, window = instances(*published, *more), BrakeWindow(group_items_by_tenant(instances(*before)))
    assert judge_tenant(LIMITS, "acme", instances(*published), now, window).excess is None
    assert judge_release(LIMITS, instances(*published), now, window).excess is None
