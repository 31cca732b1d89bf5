"""What a tenant uses is recorded with its times, also what began and ended between two reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import live
from tests.support.placeholders import placeholder

from allotment.observed.objects import Deployment, Node
from allotment.observed.status import (
    CapacityUsage,
    ImplausibleStatus,
    TenantStatus,
    UsageInterval,
    dump_status,
    parse_capacity_usage,
    parse_tenant_status,
)
from allotment.observed.tenants import TenantObjects
from allotment.observed.usage import Usage, derive_capacity_usage, derive_usage, merge_ended

AT = live.AT.format
Objects = tuple[dict[str, Any], ...]
RUNNING: Objects = (live.deployment(), live.replica_set())


class Seen(NamedTuple):
    """The usage of a tenant after an observation."""

    usage: tuple[UsageInterval, ...]
    ended_usage: tuple[UsageInterval, ...]


def see(
    *objects: dict[str, Any],
    before: Seen | None = None,
    now: int = 10,
    time: str = "",
    last_observed_at: str = "",
) -> Seen:
    live_objects = TenantObjects.from_objects(live.seen(*objects))
    return Seen(*derive_usage(live_objects, before.usage if before else (), time or AT(now), last_observed_at))


def pod(number: int = 1, *, scheduled: int = 1, **more: Any) -> dict[str, Any]:
    return live.pod(number=number, node="n1", scheduled=scheduled, **more)


def unit(number: int = 1, start: int = 1, end: int | None = None, **more: str) -> UsageInterval:
    end_time, uid = "" if end is None else AT(end), f"p-webui-{number}"
    return UsageInterval("GPUInstance", "webui", uid, AT(start), end_time, gpu_spec="l4-quarter", node="n1", **more)


def terminating(live_pod: dict[str, Any]) -> dict[str, Any]:
    return {**live_pod, "metadata": {**live_pod["metadata"], "deletionTimestamp": AT(5)}}


def test_a_pod_uses_a_unit_from_its_node_until_it_is_gone() -> None:
    waiting = see(*RUNNING, live.pod())
    assert waiting.usage == ()
    begun = see(*RUNNING, pod(scheduled=12), before=waiting, now=14)
    assert (begun.usage, begun.ended_usage) == ((unit(start=12),), ())
    ending = see(live.deployment(replicas=0), live.replica_set(), terminating(pod(scheduled=12)), before=begun, now=20)
    assert (ending.usage, ending.ended_usage) == ((unit(start=12),), ())
    gone = see(live.deployment(replicas=0), before=ending, now=24)
    assert (gone.usage, gone.ended_usage) == ((), (unit(start=12, end=24),))


def test_a_pod_without_its_deployment_uses_its_unit_until_it_is_gone() -> None:
    begun = see(*RUNNING, pod())
    assert see(terminating(pod()), before=begun).usage == (unit(),)


def test_a_pod_that_has_ended_used_its_unit_until_then() -> None:
    begun = see(*RUNNING, pod())
    over = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": live.run(1, 6)}}]}
    ended = see(*RUNNING, pod(status=over), before=begun, now=30)
    assert (ended.usage, ended.ended_usage) == ((), (unit(end=7),))
    assert see(*RUNNING, pod(status=over), before=ended, now=40).ended_usage == ()


def test_a_terminating_pod_that_stays_is_counted_no_longer_and_never_again() -> None:
    """Its node is lost, so nobody deletes it."""
    begun = see(*RUNNING, pod())
    stuck = terminating(pod())
    assert see(*RUNNING, stuck, before=begun, time="2026-11-21T10:05:00Z").usage == (unit(),)
    ended = see(*RUNNING, stuck, before=begun, time="2026-11-21T11:00:00Z")
    interval = unit().end("2026-11-21T10:05:05Z")
    assert (ended.usage, ended.ended_usage) == ((), (interval,)), "the grace period ended five minutes before"
    later = see(*RUNNING, stuck, before=ended, time="2026-11-21T12:00:00Z")
    assert (later.usage, later.ended_usage) == ((), ())


def with_spec(gpu_spec: str, revision: str) -> dict[str, Any]:
    deployment = live.deployment(**{"deployment.kubernetes.io/revision": revision})
    deployment["metadata"]["labels"]["allotment.dev/gpu-spec"] = gpu_spec
    return deployment


def test_a_pod_retains_the_spec_that_it_began_with() -> None:
    begun = see(*RUNNING, pod())
    changed = with_spec("h100", "2"), live.replica_set(), live.replica_set(revision="2")
    status = see(*changed, terminating(pod()), pod(2, revision="2", scheduled=15), before=begun, now=20)
    assert [(each.uid, each.gpu_spec) for each in status.usage] == [("p-webui-1", "l4-quarter"), ("p-webui-2", "h100")]


def test_a_pod_that_arrives_before_its_deployment_has_the_right_spec_and_start() -> None:
    """Each kind has its own watch, and any of them may be late."""
    new_pod, new_set = pod(2, revision="2", scheduled=15), live.replica_set(revision="2")
    for early in ((), (new_set,), RUNNING, (*RUNNING, new_set), (with_spec("h100", "2"),)):
        status = see(*early, new_pod, now=16)
        assert status.usage == ()
        complete = see(with_spec("h100", "2"), new_set, new_pod, before=status, now=20)
        assert [(each.gpu_spec, each.start_time) for each in complete.usage] == [("h100", AT(15))]


def test_the_clock_of_a_node_gives_no_end_in_the_future() -> None:
    begun = see(*RUNNING, pod())
    over = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": live.run(1, 50)}}]}
    assert see(*RUNNING, pod(status=over), before=begun, now=30).ended_usage == (unit(end=30),)


def test_another_number_of_replicas_is_one_interval_for_each_pod() -> None:
    begun = see(*RUNNING, pod(1, scheduled=1), pod(2, scheduled=3))
    assert begun.usage == (unit(1, 1), unit(2, 3))
    fewer = see(*RUNNING, pod(2, scheduled=3), before=begun, now=20)
    assert (fewer.usage, fewer.ended_usage) == ((unit(2, 3),), (unit(1, 1, 20),))


def test_pods_of_preparations_use_no_unit() -> None:
    assert [each.kind for each in see(live.claim(), live.job(), live.job_pod()).usage] == ["GPUStorage"]


def test_a_storage_uses_its_size_while_it_is_bound() -> None:
    assert see(live.claim(phase="Pending")).usage == ()
    bound = see(live.claim())
    first = UsageInterval("GPUStorage", "models", "c1", AT(10), size="20Gi")
    assert bound.usage == (first,)
    grown = live.claim()
    grown["spec"]["resources"]["requests"]["storage"] = "40Gi"
    larger = see(grown, before=bound, now=20)
    assert larger.usage == (UsageInterval("GPUStorage", "models", "c1", AT(20), size="40Gi"),)
    assert larger.ended_usage == (first.end(AT(20)),)
    recreated = see(live.claim(uid="c2"), before=bound, now=20)
    assert [each.uid for each in recreated.usage] == ["c2"]
    assert recreated.ended_usage == (first.end(AT(20)),)


def test_a_bucket_uses_its_size_while_it_is_bound() -> None:
    assert see(live.bucket()).usage == ()
    assert see(live.bucket(phase="Bound")).usage == (UsageInterval("GPUStorage", "data", "o-data", AT(10), size="1Ti"),)


def test_a_snapshot_uses_its_size_from_the_time_it_was_taken() -> None:
    status = {"readyToUse": True, "creationTime": AT(4), "restoreSize": "20Gi"}
    taken = see(live.snapshot(**status))
    expected = UsageInterval("GPUStorageSnapshot", "keep", "v-keep", AT(4), size="20Gi")
    assert taken.usage == (expected,)
    unready = see(live.snapshot(readyToUse=False), before=taken, now=20)
    assert (unready.usage, unready.ended_usage) == ((expected,), ())
    assert see(before=taken, now=20).ended_usage == (expected.end(AT(20)),)


def test_an_end_that_nobody_observed_has_the_time_of_the_last_observation() -> None:
    begun = see(*RUNNING, pod(1), pod(2))
    after = see(*RUNNING, pod(2), before=begun, now=50, last_observed_at=AT(20))
    assert after.usage == (unit(2),), "a pod with the same uid has lasted through the gap"
    assert after.ended_usage == (unit(1, end=50, last_observed_at=AT(20)),)


def test_no_interval_ends_before_it_starts() -> None:
    """The clock of the cluster was set back."""
    begun = see(*RUNNING, pod(scheduled=40), now=41)
    gone = see(live.deployment(replicas=0), before=begun, now=2)
    assert gone.ended_usage == (unit(start=40, end=40),)


def test_usage_that_ends_in_a_gap_has_the_time_of_the_last_observation() -> None:
    begun = see(*RUNNING, pod(1), pod(2), live.claim())
    after = see(*RUNNING, pod(1), before=begun, now=30, last_observed_at=AT(20))
    assert [each.uid for each in after.usage] == ["p-webui-1"]
    assert [(each.uid, each.last_observed_at) for each in after.ended_usage] == [("p-webui-2", AT(20)), ("c1", AT(20))]


@given(st.lists(st.sets(st.integers(0, 3), max_size=4), max_size=12))
def test_each_second_of_a_pod_is_in_exactly_one_interval(observations: list[set[int]]) -> None:
    """Each observation has some of the pods. A pod that is gone never returns, so each has a new number then."""
    status, alive, numbers = None, dict[int, int](), iter(range(100))
    expected: dict[str, list[int]] = {}
    ended: list[UsageInterval] = []
    for at, slots in enumerate(observations):
        for slot in set(alive) - slots:
            expected[f"p-webui-{alive.pop(slot)}"].append(at)
        for slot in slots - set(alive):
            alive[slot] = next(numbers)
            expected[f"p-webui-{alive[slot]}"] = [at]
        status = see(
            *RUNNING, *(pod(n, scheduled=expected[f"p-webui-{n}"][0]) for n in alive.values()), before=status, now=at
        )
        ended += status.ended_usage
    current = status.usage if status else ()
    observed = {each.uid: [each.start_time, *filter(None, [each.end_time])] for each in (*ended, *current)}
    assert len(observed) == len(ended) + len(current)
    assert observed == {uid: [AT(time) for time in times] for uid, times in expected.items()}


STOCKS = placeholder("shared", 4, pool="l4", gpu="l4"), placeholder("kite", 2, "kite", pool="l4", gpu="l4")


def see_nodes(
    *objects: dict[str, Any], before: CapacityUsage | None = None, now: int = 10, last_observed_at: str = ""
) -> Usage:
    """Return the usage of the nodes."""
    live_objects = live.seen(*objects)
    usage = derive_capacity_usage(
        [each for each in live_objects if isinstance(each, Node)],
        [each for each in live_objects if isinstance(each, Deployment)],
        before or CapacityUsage("eu-1"),
        AT(now),
        last_observed_at,
    )
    return Usage(*(tuple(each for each in intervals if each.kind == "NodePool") for intervals in usage))


def node_interval(name: str, start: int) -> UsageInterval:
    return UsageInterval("NodePool", "l4", f"n-{name}", AT(start), node=name)


def test_a_node_counts_from_its_creation_until_it_is_gone() -> None:
    first = see_nodes(*STOCKS, live.node("a", gpu="l4", zone="b"), live.node("cpu"), live.node("t4", gpu="t4"))
    assert first.current == (node_interval("a", 10),), "nothing was recorded before"
    before = CapacityUsage("eu-1", AT(10), first.current)
    more = see_nodes(*STOCKS, live.node("a", gpu="l4"), live.node("b", created=14, gpu="l4"), before=before, now=15)
    assert more == Usage((node_interval("a", 10), node_interval("b", 14)), ())
    gone = see_nodes(
        *STOCKS, live.node("b", created=14, gpu="l4"), before=CapacityUsage("eu-1", AT(10), more.current), now=20
    )
    assert gone == Usage((node_interval("b", 14),), (node_interval("a", 10).end(AT(20)),))


def test_a_node_stays_in_its_pool_when_the_stock_is_gone() -> None:
    before = CapacityUsage("eu-1", AT(10), see_nodes(*STOCKS, live.node("a", gpu="l4")).current)
    assert see_nodes(live.node("a", gpu="l4"), before=before, now=20) == Usage((node_interval("a", 10),), ())
    assert see_nodes(live.node("b", gpu="l4"), before=CapacityUsage("eu-1", AT(10))) == Usage((), ())
    assert see_nodes(placeholder("none", 1, pool="l4"), live.node("b", gpu="l4")) == Usage((), ())


def test_the_end_of_a_node_that_nobody_observed_has_the_last_certain_time() -> None:
    before = CapacityUsage("eu-1", AT(10), see_nodes(*STOCKS, live.node("a", gpu="l4")).current)
    gone = see_nodes(*STOCKS, before=before, now=50, last_observed_at=AT(12))
    assert gone.ended == (node_interval("a", 10).end(AT(50), AT(12)),)


def see_stocks(*objects: dict[str, Any], before: CapacityUsage | None = None, now: int = 10) -> Usage:
    placeholders = [each for each in live.seen(*objects) if isinstance(each, Deployment)]
    return derive_capacity_usage([], placeholders, before or CapacityUsage("eu-1"), AT(now))


def stock_interval(name: str, units: int, start: int, tenant: str = "") -> UsageInterval:
    uid, spec = f"d-{name}", "l4-quarter"
    return UsageInterval("Stock", name, uid, AT(start), gpu_spec=spec, units=units, tenant=tenant)


def test_a_stock_has_its_units_until_it_has_others() -> None:
    first = see_stocks(*STOCKS)
    assert first.current == (stock_interval("kite", 2, 10, "kite"), stock_interval("shared", 4, 10))
    before = CapacityUsage("eu-1", AT(10), first.current)
    changed = see_stocks(STOCKS[0], placeholder("kite", 3, "kite", pool="l4", gpu="l4"), before=before, now=20)
    assert changed.current == (stock_interval("kite", 3, 20, "kite"), stock_interval("shared", 4, 10))
    assert changed.ended == (stock_interval("kite", 2, 10, "kite").end(AT(20)),)
    shared = see_stocks(STOCKS[0], placeholder("kite", 2, pool="l4", gpu="l4"), before=before, now=20)
    assert [each.tenant for each in shared.current] == ["", ""]
    assert shared.ended == (stock_interval("kite", 2, 10, "kite").end(AT(20)),)


def with_labels(live_object: dict[str, Any], **labels: str) -> dict[str, Any]:
    """Return a live object with labels that Allotment writes, by short keys."""
    keys = {"spec": "allotment.dev/storage-spec", "team": "bill.allotment.dev/team", "film": "bill.allotment.dev/film"}
    more = {keys[key]: value for key, value in labels.items()}
    metadata = live_object["metadata"]
    return {**live_object, "metadata": {**metadata, "labels": {**metadata["labels"], **more}}}


@pytest.mark.parametrize(
    "live_object",
    [live.claim(), live.bucket(phase="Bound"), live.snapshot(readyToUse=True, restoreSize="20Gi")],
    ids=["claim", "bucket", "snapshot"],
)
def test_another_label_or_spec_begins_another_interval(live_object: dict[str, Any]) -> None:
    begun = see(with_labels(live_object, spec="fast", team="art", film="up"))
    (interval,) = begun.usage
    assert (interval.storage_spec, interval.labels) == ("fast", {"film": "up", "team": "art"})
    assert see(with_labels(live_object, spec="fast", film="up", team="art"), before=begun, now=20).usage == begun.usage
    moved = see(with_labels(live_object, spec="fast", team="sound"), before=begun, now=20)
    assert moved.ended_usage == (interval.end(AT(20)),)
    assert [(each.labels, each.start_time, each.size) for each in moved.usage] == [
        ({"team": "sound"}, AT(20), interval.size)
    ]
    status = TenantStatus(live.TENANT, "eu-1", usage=moved.usage)
    assert parse_tenant_status(dump_status(status)) == status


def test_a_pod_has_the_labels_of_its_instance() -> None:
    begun = see(*RUNNING, with_labels(pod(), team="art"))
    assert [each.labels for each in begun.usage] == [{"team": "art"}]
    assert see(*RUNNING, with_labels(pod(), team="art"), before=begun, now=20).usage == begun.usage


def test_the_capacity_is_read_back() -> None:
    interval = node_interval("a", 10)
    stock = stock_interval("shared", 4, 10, "kite")
    usage = CapacityUsage("eu-1", AT(10), (interval, stock))
    assert parse_capacity_usage(dump_status(usage)) == usage
    with pytest.raises(ImplausibleStatus, match="isn't RFC 3339"):
        parse_capacity_usage(dump_status(CapacityUsage("eu-1", "yesterday")))


def test_merge_ended_prefers_exact_ends_and_omits_recorded_intervals() -> None:
    derived = unit(1).end(AT(50), AT(2)), unit(2).end(AT(50), AT(2))
    observed = unit(1).end(AT(20)), unit(3).end(AT(30)), unit(4).end(AT(30))
    recorded = (unit(4).end(AT(30)),)
    assert merge_ended(derived, observed, recorded) == (unit(1).end(AT(20)), derived[1], unit(3).end(AT(30)))
