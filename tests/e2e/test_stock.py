"""Stock on the real scheduler: placeholders hold capacity, and a starting instance takes a placeholder's place at once.

A pool of its own, two nodes of four GPUs that small (1 GPU) and large (4 GPUs) units share, and nothing is free in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from allotment.manifests import names
from tests.controlplane import rendered
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import Render
from tests.e2e.trial import STOCK, Trial, trial_pool
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
TRIALS = 5


@pytest.fixture(scope="module")
def trial(empty_cluster: Cluster, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """Return the pool, full of placeholders: four small ones on one node, a large one on the other."""
    with trial_pool(tmp_path_factory.mktemp("trial"), render, empty_cluster.client) as stock_trial:
        yield stock_trial


def test_an_instance_takes_a_placeholders_place_although_the_nodes_are_full(trial: Trial) -> None:
    """Small and large units share the pool, and each instance takes the place of a placeholder of its own size."""
    took: list[float] = []
    for _ in range(TRIALS):
        large = trial.running("trial-four")
        took.append(trial.starts("ml-orbit", "one", "trial-one"))
        assert trial.running("trial-four") == large, "a small instance took a large unit's place"
        trial.apply_stock()
        trial.wait_until_settled(3, 1)

        small = trial.running("trial-one")
        took.append(trial.starts("film-house", "four", "trial-four"))
        assert trial.running("trial-one") == small, "a large instance took a small unit's place"
        trial.apply_stock()
        trial.wait_until_settled(3, 0)

        trial.stops("film-house", "four", "trial-four")
        trial.stops("ml-orbit", "one", "trial-one")
        trial.wait_until_settled(4, 1)
    print(f"\n{len(took)} starts: {sorted(took)[len(took) // 2]:.1f} s in the middle, {max(took):.1f} s at most")
    assert len(took) == 2 * TRIALS


def test_a_large_placeholder_pushes_small_ones_together(trial: Trial) -> None:
    """Small placeholders lie on both nodes; the large one gets a whole node all the same."""
    trial.stops("film-house", "four", "trial-four")
    trial.stops("ml-orbit", "one", "trial-one")
    trial.scale("trial-four", 0)
    trial.wait_until_settled(4, 0)
    (full,) = {pod["spec"]["nodeName"] for pod in trial.pods("trial-one").values()}
    trial.client.patch("v1", "Node", full, {"spec": {"unschedulable": True}})
    for pod in list(trial.pods("trial-one").values())[:2]:
        trial.client.delete("v1", "Pod", pod["metadata"]["name"], STOCK)
    trial.wait_until_settled(4, 0)
    trial.client.patch("v1", "Node", full, {"spec": {"unschedulable": None}})
    assert len({pod["spec"]["nodeName"] for pod in trial.pods("trial-one").values()}) == 2
    trial.apply_stock()
    trial.wait_until_settled(4, 1)


def test_instances_of_two_tenants_never_preempt_each_other(trial: Trial) -> None:
    """The pool is full of two tenants' instances; a third tenant's finds nobody that it may push aside, and waits."""
    trial.starts("ml-orbit", "one", "trial-one")
    trial.starts("film-house", "four", "trial-four")
    trial.apply_stock()
    trial.wait_until_settled(3, 0)
    trial.scale("trial-one", 0)
    trial.wait_until_settled(0, 0)
    runs_before = (trial.runs("ml-orbit", "one"), trial.runs("film-house", "four"))
    # No declaration says this: review refuses what is oversold. So the film house's rendered instance is given to another.
    late = next(iter(rendered.objects(trial.tree, "tenants/film-house/compute/four.rendered.yaml")))
    space = names.namespace("studio-kite")
    late["metadata"] = {"name": "late", "namespace": space}
    trial.client.apply(late)

    def why_it_waits() -> str | None:
        for pod in trial.client.list("v1", "Pod", space):
            for condition in pod["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition["message"])
        return None

    eventually(lambda: "No preemption victims found" in (why_it_waits() or ""), "the scheduler to find no victims")
    time.sleep(5)  # whatever it might still try
    assert [pod["status"].get("nominatedNodeName") for pod in trial.client.list("v1", "Pod", space)] == [None]
    assert (trial.runs("ml-orbit", "one"), trial.runs("film-house", "four")) == runs_before
