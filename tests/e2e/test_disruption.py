"""Whatever replaces, moves or takes away nodes leaves a running instance's pod where it is, and gets its node once that stops."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from allotment.manifests import names
from tests.controlplane import programs
from tests.controlplane.client import Object
from tests.e2e.growing import KARPENTER, MIXED, SLICED, SPACE, Growing, condition, events
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
TAKEN = "karpenter.sh/disrupted"  # the taint of a node that Karpenter empties


@pytest.fixture(autouse=True)
def given_back(growing: Growing) -> Iterator[None]:
    """Begin each test with no node, and the budget of instances where the tenant has its own."""
    budget = growing.client.get("policy/v1", "PodDisruptionBudget", "instances", SPACE)["spec"]
    assert budget["maxUnavailable"] == 0
    yield
    growing.give_back(SLICED, MIXED)


def where(pod: Object) -> tuple[str, str]:
    """Return which pod it is and its node: what must not change."""
    return pod["metadata"]["uid"], pod["spec"]["nodeName"]


def list_disrupted(growing: Growing) -> list[str]:
    """Return the nodes that Karpenter is emptying."""
    nodes = growing.nodes(SLICED).items()
    return [name for name, node in nodes if any(taint["key"] == TAKEN for taint in node["spec"].get("taints", ()))]


def generations(growing: Growing) -> dict[str, str | None]:
    """Return each node's generation label."""
    return {name: node["metadata"]["labels"].get(names.GENERATION) for name, node in growing.nodes(SLICED).items()}


def drain(growing: Growing, node: str, seconds: int = 3) -> tuple[int, str]:
    """Return how `kubectl drain` of a node ended, and what it said; the node takes pods again afterwards."""
    kubectl = [str(programs.program("kubectl")), f"--kubeconfig={growing.client.kubeconfig}"]
    run = [*kubectl, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={seconds}s"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    growing.client.patch("v1", "Node", node, {"spec": {"unschedulable": None}})
    return done.returncode, done.stdout + done.stderr


def test_a_new_generation_replaces_free_nodes_one_at_a_time_and_an_instances_last(growing: Growing) -> None:
    growing.scale("large-slice", 2)
    growing.holds(large_slice=2)
    growing.instance("held", "large-slice")
    held = where(growing.running("held"))
    growing.holds(large_slice=2)
    before = generations(growing)
    assert (len(before), set(before.values())) == (3, {None})
    growing.declare_pool(SLICED, generation=2)
    growing.render()
    growing.apply("platform/node-pools")
    started, emptied, most = time.monotonic(), set[str](), 0

    def turned_over() -> bool:
        nonlocal most
        assert [where(pod) for pod in growing.pods_of("held")] == [held]
        now = list_disrupted(growing)
        emptied.update(now)
        most = max(most, len(now))
        new = [pod for pod in growing.placeholders("large-slice") if generations(growing).get(where(pod)[1]) == "2"]
        return len(new) == 2 and len(growing.claims(SLICED)) == 3

    eventually(turned_over, "free nodes to be replaced", 150)
    print(f"\ntwo free nodes replaced: {time.monotonic() - started:.1f} s")
    assert (emptied, most) == (set(before) - {held[1]}, 1)
    assert generations(growing)[held[1]] is None
    drifted = {claim["status"]["nodeName"] for claim in growing.claims(SLICED) if condition(claim, "Drifted") == "True"}
    assert drifted == {held[1]}
    assert where(growing.running("held")) == held
    growing.stop("held")
    started = time.monotonic()
    eventually(lambda: held[1] not in growing.nodes(SLICED), "the instance's node to be replaced", 60)
    print(f"the instance's node went after it: {time.monotonic() - started:.1f} s")
    assert set(generations(growing).values()) == {"2"}


def test_draining_a_node_is_refused_while_an_instance_runs_there(growing: Growing) -> None:
    growing.instance("held", "slice")
    held = where(growing.running("held"))
    code, output = drain(growing, held[1])
    assert code == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget" in output
    assert where(growing.running("held")) == held


def test_draining_is_refused_too_while_an_instance_is_unwell_and_not_before_it_started(growing: Growing) -> None:
    """A budget that lets no pod be away has none to spare for one that isn't Ready. One without a container yet is no loss."""
    growing.instance("unwell", "slice", labels="simulate: probe-fails")
    growing.instance("unborn", "slice", labels="simulate: image-missing")

    def pod(name: str, phase: str) -> Object | None:
        (live_pod,) = growing.pods_of(name)
        return (
            live_pod if live_pod["status"]["phase"] == phase and live_pod["status"].get("containerStatuses") else None
        )

    unwell = eventually(lambda: pod("unwell", "Running"), "a container that isn't Ready")
    unborn = eventually(lambda: pod("unborn", "Pending"), "a pod without a container")
    assert condition(unwell, "Ready") == "False"
    assert where(unwell)[1] == where(unborn)[1]
    code, output = drain(growing, where(unwell)[1])
    assert code == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget" in output
    (now,) = growing.pods_of("unwell")
    assert where(now) == where(unwell)
    assert f"pod/{unborn['metadata']['name']} evicted" in output


def test_copies_of_an_instance_leave_a_drained_node_one_after_the_other(growing: Growing) -> None:
    growing.instance("copied", "slice", copies=2)

    def ready(number: int) -> list[Object]:
        ready_pods = [pod for pod in growing.pods_of("copied") if condition(pod, "Ready") == "True"]
        return ready_pods if len(ready_pods) == number else []

    before = eventually(lambda: ready(2), "both copies to be ready")
    (node,) = {where(pod)[1] for pod in before}
    code, output = drain(growing, node, seconds=60)
    assert code == 0, output
    assert "Cannot evict pod as it would violate the pod's disruption budget" in output, (
        "the second waits for the first"
    )
    after = eventually(lambda: ready(2), "both copies to be ready elsewhere")
    assert node not in {where(pod)[1] for pod in after}
    budgets = growing.client.list("policy/v1", "PodDisruptionBudget", SPACE)
    assert {budget["metadata"]["name"] for budget in budgets} >= {"instances", "copies--copied"}


def test_consolidation_moves_no_instance(growing: Growing) -> None:
    """Two instances have a node each, and one would do; so have two placeholders, of which Karpenter moves one."""
    moving = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}
    for pool in (SLICED, MIXED):
        growing.patch_pool(pool, {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}})
    growing.instance("one", "slice")
    growing.scale("mig-small", 1)
    instance_location, (free,) = where(growing.running("one")), growing.holds(mig_small=1)
    for node in (instance_location[1], where(free)[1]):
        growing.client.patch("v1", "Node", node, {"spec": {"unschedulable": True}})
    growing.instance("two", "slice")
    growing.scale("mig-small", 2)
    two, _ = where(growing.running("two")), growing.holds(mig_small=2)
    for node in (instance_location[1], where(free)[1]):
        growing.client.patch("v1", "Node", node, {"spec": {"unschedulable": None}})
    assert (len(growing.nodes(SLICED)), len(growing.nodes(MIXED))) == (2, 2)
    for pool in (SLICED, MIXED):
        growing.patch_pool(pool, {"disruption": moving})
    started = time.monotonic()
    eventually(lambda: len(growing.claims(MIXED)) == 1, "Karpenter to put placeholders together", 120)
    print(f"\nplaceholders put together: {time.monotonic() - started:.1f} s")
    assert [where(growing.running(name)) for name in ("one", "two")] == [instance_location, two]
    assert set(growing.nodes(SLICED)) == {instance_location[1], two[1]}
    assert list_disrupted(growing) == []


def test_a_node_that_expires_takes_no_more_and_waits_for_its_instance(growing: Growing) -> None:
    """Karpenter buys none in its place before, which is why nodes don't expire unless somebody declares it."""
    growing.patch_pool(SLICED, {"template": {"spec": {"expireAfter": "15s"}}})
    growing.instance("held", "slice")
    held = where(growing.running("held"))
    eventually(lambda: list_disrupted(growing) == [held[1]], "the node to expire", 60)
    eventually(
        lambda: any(event.startswith("FailedDraining") for event in events(growing.client, held[1])),
        "Karpenter to say that it can't empty the node",
        60,
    )
    (claim,) = growing.claims(SLICED)
    assert "deletionTimestamp" in claim["metadata"]
    assert where(growing.running("held")) == held
    growing.stop("held")
    started = time.monotonic()
    eventually(lambda: not growing.nodes(SLICED), "the expired node to go", 60)
    print(f"\nthe expired node went after its instance: {time.monotonic() - started:.1f} s")


def test_no_pool_has_what_evicts_whatever_protects(growing: Growing) -> None:
    """With a termination grace period drift and expiry evict in the end; and pools expire only where that is declared."""
    pool_specs = {
        node_pool["metadata"]["name"]: node_pool["spec"]["template"]["spec"]
        for node_pool in growing.client.list(KARPENTER, "NodePool")
    }
    assert {"h100", "l40s-spot", SLICED} <= set(pool_specs)
    assert {
        (pool_spec["expireAfter"], pool_spec.get("terminationGracePeriod")) for pool_spec in pool_specs.values()
    } == {("Never", None)}
