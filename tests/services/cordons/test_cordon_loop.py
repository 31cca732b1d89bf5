"""The loop moves an instance at a time, and leaves alone what another program or a lost node decides."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.published import Place

from allotment.adapters.cluster.nodes import Node, Nodes
from allotment.adapters.git.clone import Clone
from allotment.adapters.git.remote import Remote
from allotment.adapters.metrics import CordonMetrics
from allotment.observed.objects import Pod
from allotment.services.cordons.cordon_loop import MOVE_SECONDS, CordonLoop, CordonTarget

DAY = datetime.date(2026, 11, 21)
CORDON = """\
apiVersion: allotment.dev/v1alpha1
kind: Cordon
metadata:
  name: driver
spec:
  nodePool: l4-ts4
  reason: New driver
  from: "2026-11-21"
  drain: Now
"""


def pod(tenant: str, name: str, node: str = "gpu-7", **fields: Any) -> Pod:
    """Return a ready pod of an instance; the name of the instance is the name before the hyphen."""
    values: dict[str, Any] = dict.fromkeys(Pod._fields, "") | {
        "uid": f"uid-{name}",
        "name": name,
        "tenant": tenant,
        "instance": name.partition("-")[0],
        "node": node,
        "phase": "Running",
        "ready": True,
        "terminating": False,
        "node_lost": False,
    }
    return Pod(**(values | fields))


class RecordingLog:
    """A log whose warnings a test reads."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def info(self, event: str, **about: Any) -> None:
        return

    def warning(self, event: str, **about: Any) -> None:
        self.warnings.append(f"{event}: {about['message']}")

    def error(self, event: str, **about: Any) -> None:
        raise AssertionError(event, about)


class FakeNodes(Nodes):
    """A cluster with two nodes, whose pods and accepted changes a test decides."""

    def __init__(self, *pods: Pod) -> None:
        self.nodes = {name: Node(name, "1", {"pool": "l4-ts4"}, False, (), False) for name in ("gpu-7", "gpu-8")}
        self.pods = list(pods)
        self.deleted: list[str] = []
        self.accepts = True

    @property
    def url(self) -> str:
        return "https://eu-1.example"

    def list_nodes(self) -> list[Node]:
        return list(self.nodes.values())

    def list_pods(self, query: Mapping[str, str], namespace: str = "") -> list[Pod]:
        if "stock" in query["labelSelector"]:
            return []
        node = query.get("fieldSelector", "").rpartition("=")[2]
        instance = query["labelSelector"].partition("=")[2]
        return [
            each
            for each in self.pods
            if each.node == (node or each.node)
            and each.instance == (instance or each.instance)
            and namespace in ("", f"t-{each.tenant}")
        ]

    def set_cordons(
        self, node: Node, cordons: tuple[str, ...], *, is_unschedulable: bool, is_cordoned_before: bool
    ) -> Node | None:
        if not self.accepts:
            return None
        self.nodes[node.name] = node._replace(cordons=cordons, is_unschedulable=is_unschedulable)
        return self.nodes[node.name]

    def delete_pod(self, namespace: str, name: str, uid: str) -> bool:
        self.deleted.append(name)
        self.pods = [each._replace(terminating=True) if each.uid == uid else each for each in self.pods]
        return True


class Bed:
    """A loop over a repository with a cordon of the whole pool, and a clock."""

    def __init__(self, place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch, *pods: Pod) -> None:
        (place.root / "clusters/eu-1/cordons/driver.yaml").write_text(CORDON)
        place.merge()
        self.cluster, self.seconds = FakeNodes(*pods), 0.0
        clone = Clone.open_or_create(folder / "clone")
        target = CordonTarget("eu-1", clone, Remote(clone, place.remote.as_uri(), keep=True), "main")
        self.log = RecordingLog()
        metrics = CordonMetrics("eu-1", CollectorRegistry())
        self.loop = CordonLoop(target, self.cluster, lambda _: DAY, metrics, self.log, 1)
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)

    def turns(self, count: int = 1, seconds: float = 1) -> list[str]:
        """Run turns, and return the names of the pods that they delete."""
        earlier = len(self.cluster.deleted)
        for _ in range(count):
            self.seconds += seconds
            self.loop.run_once()
        return self.cluster.deleted[earlier:]


CreateBed = Callable[..., Bed]


@pytest.fixture
def create_bed(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CreateBed:
    return lambda *pods: Bed(place, tmp_path, monkeypatch, *pods)


def test_instances_move_in_turn(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"), pod("kite", "webui-2", "gpu-8"))
    assert bed.turns(3) == ["webui-1"]
    bed.cluster.pods[0] = pod("ada", "webui-3", "gpu-9", ready=False)
    assert bed.turns(3) == []
    bed.cluster.pods[0] = pod("ada", "webui-3", "gpu-9")
    assert bed.turns(2) == ["webui-2"]


def test_nothing_is_deleted_on_a_node_that_is_not_cordoned(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"))
    bed.cluster.accepts = False
    assert bed.turns(5) == []


def test_a_node_that_another_program_returns_loses_no_more_pods(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"))
    deleted = []
    for _ in range(12):
        bed.cluster.pods[0] = pod("ada", "webui-1")  # the pod returns to the node
        deleted += bed.turns(seconds=MOVE_SECONDS + 1)
        for name, node in bed.cluster.nodes.items():
            bed.cluster.nodes[name] = node._replace(is_unschedulable=False)
    assert len(deleted) == 3
    assert any("gpu-7: cordoned 3 times" in line for line in bed.log.warnings)


def test_an_instance_that_never_becomes_ready_does_not_hold_up_the_others(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"), pod("kite", "webui-2"))
    assert bed.turns() == ["webui-1"]
    bed.cluster.pods[0] = pod("ada", "webui-3", "gpu-9", ready=False)
    assert bed.turns(2, MOVE_SECONDS) == ["webui-2"]
    assert any("instance ada/webui was not ready 10 minutes" in line for line in bed.log.warnings)


def test_an_instance_with_fewer_replicas_has_moved(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"), pod("ada", "webui-2", "gpu-9"), pod("kite", "webui-3"))
    assert bed.turns() == ["webui-1"]
    del bed.cluster.pods[0]  # its owner declares a single replica
    assert bed.turns(2, 40) == ["webui-3"]


def test_a_replica_stays_while_another_is_not_ready(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"), pod("ada", "webui-2", "gpu-9", ready=False))
    assert bed.turns(3) == []
    bed.cluster.pods[1] = pod("ada", "webui-2", "gpu-9")
    assert bed.turns() == ["webui-1"]


def test_a_pod_that_ends_on_a_lost_node_does_not_hold_up_the_others(create_bed: CreateBed) -> None:
    lost = pod("ada", "webui-1", terminating=True, node_lost=True, ready=False)
    bed = create_bed(lost, pod("kite", "webui-2", "gpu-8"))
    assert bed.turns() == ["webui-2"]


def test_a_pod_that_failed_does_not_count(create_bed: CreateBed) -> None:
    bed = create_bed(pod("ada", "webui-1"), pod("ada", "webui-0", phase="Failed", ready=False))
    assert bed.turns() == ["webui-1"]
