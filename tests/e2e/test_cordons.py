"""Cordons on the real scheduler and API server, applied by a process with the rights of its add-on alone."""

from __future__ import annotations

import datetime
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.manifests import names
from tests.conftest import PROJECT
from tests.controlplane.client import Client, Object, refusal
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import Render
from tests.e2e.trial import POOL, STOCK, Trial, trial_pool
from tests.support.published import Running, git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
ACCOUNT = "allot-cordons"
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example")
FIRST, SECOND = f"{POOL}-1", f"{POOL}-2"
ONE = ("ml-orbit", "one")


def day(offset: int) -> str:
    """Return a day relative to today, two days apart from the change of the day in any time zone."""
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(offset)).date().isoformat()


def state(node: Object) -> tuple[bool, str | None]:
    """Return whether a node is unschedulable, and the names of its cordons."""
    annotations = node["metadata"].get("annotations", {})
    return node["spec"].get("unschedulable", False), annotations.get(names.CORDON)


class Maintenance:
    """A repository of declarations, and the process that applies its cordons."""

    def __init__(self, trial: Trial, folder: Path, *options: str) -> None:
        self.trial, self.client = trial, trial.client
        self._root, self._remote, self._folder, self._options = trial.root, folder / "remote.git", folder, options
        git(folder, "init", "-q", "--bare", "-b", "main", str(self._remote))
        git(self._root, "init", "-q", "-b", "main")
        self.merge()
        self.start()

    def start(self) -> None:
        """Start the process with a clone of its own."""
        data = self._folder / f"data-{len(list(self._folder.iterdir()))}"
        services = ("--cordons", "eu-1")
        self.running = Running(self._remote.as_uri(), data, 1, *self._options, services=services)

    def merge(self) -> None:
        """Push what is declared to main."""
        git(self._root, "add", "-A")
        git(self._root, *IDENTITY, "commit", "-q", "--allow-empty", "-m", "Merge")
        git(self._root, "push", "-q", str(self._remote), "HEAD:main")

    def cordon(self, name: str, node: str, *fields: str, first: int = -2) -> None:
        """Merge a cordon of a node."""
        lines = (f"nodePool: {POOL}", f"node: {node}", "reason: Test", f'from: "{day(first)}"', *fields)
        spec = "".join(f"  {line}\n" for line in lines)
        self.trial.write(
            f"clusters/eu-1/cordons/{name}.yaml", f"kind: Cordon\nmetadata: {{name: {name}}}\nspec:\n{spec}"
        )
        self.merge()

    def uncordon(self, name: str) -> None:
        """Merge the end of a cordon."""
        (self._root / f"clusters/eu-1/cordons/{name}.yaml").unlink()
        self.merge()

    def node(self, name: str) -> Object:
        """Return a node."""
        return self.client.get("v1", "Node", name)

    def wait_for(self, name: str, *expected: object) -> None:
        """Wait until a node has this state."""

        def has_state() -> bool:
            assert state(self.node(name)) == expected, (state(self.node(name)), self.running.log.read_text()[-2000:])
            return True

        eventually(has_state, f"{name} to be {expected}", pause=0.2)

    def placeholders(self, node: str) -> list[str]:
        """Return the placeholders on a node."""
        pods = self.client.list("v1", "Pod", STOCK)
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]

    def instance(self) -> tuple[str, str]:
        """Return the UID and the node of the instance's only pod, once it runs."""

        def find_pod() -> tuple[str, str]:
            (pod,) = self.trial.instance_pods(*ONE)
            assert pod["status"]["phase"] == "Running", pod["status"]
            assert "deletionTimestamp" not in pod["metadata"]
            return pod["metadata"]["uid"], pod["spec"]["nodeName"]

        return eventually(find_pod, "the instance to run", pause=0.2)

    def trouble(self, text: str) -> None:
        """Wait until the process logs a reason."""

        def is_logged() -> bool:
            messages = [event["message"] for event in self.running.events("cordon in doubt")]
            assert any(text in message for message in messages), messages
            return True

        eventually(is_logged, f"the log to say {text!r}", pause=0.2)


def install_add_on(client: Client) -> None:
    """Apply the account, the rights and the policy of the add-on."""
    for file in ("namespace", "rbac", "policy"):
        for manifest in yaml.safe_load_all((PROJECT / f"argo/add-ons/allot-cordons/{file}.yaml").read_text()):
            if manifest["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
                manifest["metadata"]["namespace"] = names.SYSTEM_NAMESPACE
            client.apply(manifest)


def write_kubeconfig(cluster: Cluster, path: Path) -> Path:
    """Write a kubeconfig of the account of the add-on."""
    configuration = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.client.as_service_account(ACCOUNT, names.SYSTEM_NAMESPACE).token
    for user in configuration["users"]:
        user["user"] = {"token": token}
    path.write_text(yaml.safe_dump(configuration))
    return path


@pytest.fixture(scope="module")
def maintenance(
    empty_cluster: Cluster, render: Render, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Maintenance]:
    """Return the pool with four small placeholders and an instance, and the process."""
    folder = tmp_path_factory.mktemp("cordons")
    with trial_pool(tmp_path_factory.mktemp("trial"), render, empty_cluster.client) as trial:
        trial.write("clusters/eu-1/stocks/trial-four.yaml", NO_LARGE_UNITS)
        trial.starts(*ONE, "trial-one")
        trial.apply_stock()
        trial.wait_until_settled(3, 0)
        install_add_on(empty_cluster.client)
        kubeconfig = write_kubeconfig(empty_cluster, folder / "kubeconfig")
        node_maintenance = Maintenance(trial, folder, "--kubeconfig", str(kubeconfig))
        yield node_maintenance
        node_maintenance.running.process.kill()
        node_maintenance.running.process.wait()
        for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
            empty_cluster.client.delete("admissionregistration.k8s.io/v1", kind, "allotment-cordons")


NO_LARGE_UNITS = """\
kind: Stock
metadata: {name: trial-four}
spec: {gpuSpec: trial-four, nodePool: trial, count: 0}
"""


def test_a_cordon_leaves_the_instance_and_takes_the_placeholders(maintenance: Maintenance) -> None:
    uid, node = maintenance.instance()
    maintenance.cordon("fans", node)
    maintenance.wait_for(node, True, "fans")
    eventually(lambda: not maintenance.placeholders(node), "the placeholders to leave")
    assert maintenance.instance() == (uid, node)
    maintenance.uncordon("fans")
    maintenance.wait_for(node, False, None)


def test_a_drain_moves_the_instance_despite_its_disruption_budget(maintenance: Maintenance) -> None:
    budget = maintenance.client.get("policy/v1", "PodDisruptionBudget", "instances", names.namespace(ONE[0]))
    assert budget["spec"]["maxUnavailable"] == 0
    uid, node = maintenance.instance()
    maintenance.cordon("driver", node, "drain: Now")
    maintenance.wait_for(node, True, "driver")
    eventually(lambda: maintenance.instance()[0] != uid, "another pod")
    assert maintenance.instance()[1] != node
    (moved,) = maintenance.running.events("instance moves")
    assert (moved["node"], moved["tenant"], moved["instance"]) == (node, *ONE)
    maintenance.uncordon("driver")
    maintenance.wait_for(node, False, None)


def test_a_cordon_holds_on_its_days_alone(maintenance: Maintenance) -> None:
    maintenance.cordon("later", FIRST, first=2)
    maintenance.cordon("ended", FIRST, f'until: "{day(-1)}"', first=-4)
    maintenance.cordon("now", SECOND, f'until: "{day(2)}"')
    maintenance.wait_for(SECOND, True, "now")
    assert state(maintenance.node(FIRST)) == (False, None)
    for name in ("later", "ended", "now"):
        maintenance.uncordon(name)
    maintenance.wait_for(SECOND, False, None)


def test_a_cordon_of_a_person_survives(maintenance: Maintenance) -> None:
    maintenance.client.patch("v1", "Node", FIRST, {"spec": {"unschedulable": True}})
    maintenance.cordon("fans", FIRST)
    maintenance.wait_for(FIRST, True, "fans")
    maintenance.uncordon("fans")
    maintenance.wait_for(FIRST, True, None)
    maintenance.client.patch("v1", "Node", FIRST, {"spec": {"unschedulable": None}})


def test_a_node_that_somebody_else_returns_to_service_is_cordoned_three_times(maintenance: Maintenance) -> None:
    maintenance.cordon("fans", FIRST)
    for _ in range(3):
        maintenance.wait_for(FIRST, True, "fans")
        maintenance.client.patch("v1", "Node", FIRST, {"spec": {"unschedulable": None}})
    maintenance.trouble(f"{FIRST}: cordoned 3 times, and somebody else made it schedulable each time")
    assert state(maintenance.node(FIRST)) == (False, "fans")
    maintenance.uncordon("fans")
    maintenance.wait_for(FIRST, False, None)


def test_a_killed_process_continues(maintenance: Maintenance) -> None:
    uid, node = maintenance.instance()
    earlier = len(maintenance.running.events("instance moves"))
    maintenance.cordon("driver", node, "drain: Now")
    eventually(lambda: len(maintenance.running.events("instance moves")) > earlier, "the instance to move", pause=0.02)
    maintenance.running.process.send_signal(signal.SIGKILL)
    maintenance.running.process.wait()
    moved = maintenance.instance()
    assert moved[0] != uid
    maintenance.start()
    maintenance.wait_for(node, True, "driver")
    maintenance.uncordon("driver")
    maintenance.wait_for(node, False, None)
    assert maintenance.instance() == moved
    assert maintenance.running.events("instance moves") == []


def test_an_absent_node_is_named(maintenance: Maintenance) -> None:
    maintenance.cordon("lost", "trial-9")
    maintenance.trouble("Cordon lost: node pool trial has no node trial-9")
    maintenance.uncordon("lost")


def test_an_invalid_cordon_keeps_its_node_out_of_service(maintenance: Maintenance) -> None:
    maintenance.cordon("fans", FIRST)
    maintenance.wait_for(FIRST, True, "fans")
    maintenance.cordon("fans", FIRST, "drain: Never")
    maintenance.trouble(f"{FIRST} stays cordoned, because Cordon fans is invalid")
    assert state(maintenance.node(FIRST)) == (True, "fans")
    maintenance.uncordon("fans")
    maintenance.wait_for(FIRST, False, None)


Change = Callable[[Client], object]


def patch_node(**change: Any) -> Change:
    return lambda client: client.patch("v1", "Node", FIRST, change)


def delete_pods(namespace: str, labels: str) -> Change:
    def delete(client: Client) -> None:
        for pod in client.list("v1", "Pod", "", labels):
            if pod["metadata"]["namespace"] == namespace:
                client.delete("v1", "Pod", pod["metadata"]["name"], namespace)

    return delete


REFUSED: dict[str, Change] = {
    "a label": patch_node(metadata={"labels": {"pool": "other"}}),
    "another annotation": patch_node(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
    "the end of another annotation": patch_node(metadata={"annotations": {"allotment.dev/test": None}}),
    "a taint": patch_node(spec={"taints": [{"key": "a", "effect": "NoExecute"}]}),
    "no taint": patch_node(spec={"taints": None}),
    "a finalizer": patch_node(metadata={"finalizers": ["a.example/b"]}),
    "an owner": patch_node(
        metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": SECOND, "uid": "1"}]}
    ),
    "a provider ID": patch_node(spec={"providerID": "aws:///eu-1/i-1"}),
    "a cordon without a name": patch_node(spec={"unschedulable": True}),
    "a name without a cordon": patch_node(metadata={"annotations": {names.CORDON: "fans"}}),
    "a deleted node": lambda client: client.delete("v1", "Node", FIRST),
    "a deleted pod of another owner": delete_pods("default", "test=cordons"),
}


def test_the_policy_and_the_rights_refuse_every_other_change(maintenance: Maintenance) -> None:
    client = maintenance.client
    client.patch("v1", "Node", FIRST, {"metadata": {"annotations": {"allotment.dev/test": "1"}}})
    container = {"name": "main", "image": "pause"}
    labels = {"test": "cordons", names.INSTANCE: "one"}
    pod = {
        "metadata": {"name": "cordons", "namespace": "default", "labels": labels},
        "spec": {"containers": [container]},
    }
    client.apply({"apiVersion": "v1", "kind": "Pod", **pod})
    account = client.as_service_account(ACCOUNT, names.SYSTEM_NAMESPACE)
    before = maintenance.node(FIRST)
    try:
        refusals = {name: refusal(change, account) for name, change in REFUSED.items()}
        policy, rights = "ValidatingAdmissionPolicy 'allotment-cordons'", f"{names.SYSTEM_NAMESPACE}:{ACCOUNT}"
        assert [name for name, text in refusals.items() if not text or not (policy in text or rights in text)] == []
        after = maintenance.node(FIRST)
        assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
        assert client.get("v1", "Pod", "cordons", "default")["metadata"].get("deletionTimestamp") is None
    finally:
        client.delete("v1", "Pod", "cordons", "default")
