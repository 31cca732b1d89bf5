"""`allot doctor` on a real API server: with the rights of argo/doctor.yaml alone it sees what is wrong, one thing at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from allotment.declared.inventory import ScopeDeclarations
from allotment.manifests import names
from allotment.manifests.cluster import bootstrap, device_plugin
from tests.conftest import PROJECT, Allot, copy_sample
from tests.controlplane import simulated
from tests.controlplane.client import Client, Object, refusal
from tests.controlplane.cluster import Cluster
from tests.diagnosis.healthy import offers_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
ACCOUNT = "allot-doctor"
SPACE = "allot-doctor"
RBAC = "rbac.authorization.k8s.io/v1"
CLASS = "rook-cephfs"
NODE = "l4-ts4-2"
LISTENER = "Gateway edge/edge listener https"
# What the bed deserves: KWOK plays no status of classes and listeners, nothing is published, and no Secret is read.
BED = Counter(
    (
        "error argocd Application allotment--root--eu-1: doesn't exist, so no published manifest reaches the cluster",
        "warning gateway GatewayClass envoy: isn't accepted yet: Pending: Waiting for controller",
        f"skipped gateway {LISTENER}: the Gateway's status doesn't contain this listener, so the state of its certificate is unknown",
        "skipped gateway Certificate in Secret edge/edge: no Certificate of cert-manager manages this Secret, and doctor reads no Secrets: the expiry date is unknown",
        "skipped gateway Gateway edge/edge proxies: no pod has the label gateway.envoyproxy.io/owning-gateway-name=edge",
        "skipped gateway SecurityPolicies: no policy has a login yet, and doctor reads no Secrets: it is unknown whether edge/oidc exists",
        "skipped gateway EnvoyExtensionPolicy edge/allotment-sessions: it is not published yet, or Argo CD has not applied it",
        "skipped login spec.oidc: can't be compared with https://id.northlight.example/.well-known/openid-configuration:"
        " its name could not be resolved",
        "skipped add-ons add-ons: the Application allotment--add-ons--eu-1, which installs them, doesn't exist",
        "skipped reporter ClusterRole allotment-reporter: doesn't exist: no reporter is installed from argo/add-ons, or its role has"
        " another name",
        "error ssh ClusterRole allotment-ssh: doesn't exist, so nobody can log in by SSH",
        "skipped edits objects: this folder is not in a Git repository, so the published manifests are not available",
    )
)


class Doctor(NamedTuple):
    """A cluster, and the kubeconfig of who may read it and no more."""

    client: Client
    kubeconfig: Path
    declared: ScopeDeclarations

    def count_problems(self, allot: Allot) -> Counter[str]:
        """Return what isn't as it should be, a line each, of a folder that is no clone of anything."""
        repo = self.kubeconfig.parent / "sample"
        if not repo.exists():
            copy_sample(repo)
        result = allot(*("doctor", "--repo", repo, "--cluster", "eu-1", "--kubeconfig", self.kubeconfig, "-o", "json"))
        assert result.err == ""
        problems = [finding for finding in json.loads(result.out)["findings"] if finding["severity"] != "ok"]
        assert result.code == (1 if any(finding["severity"] == "error" for finding in problems) else 0)
        return Counter(
            f"{finding['severity']} {finding['topic']} {finding['object']}: {finding['message']}"
            for finding in problems
        )


@pytest.fixture(scope="module")
def doctor(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doctor]:
    """Return a cluster with what `allot bootstrap` and the device plugin's file bring, and an account with the roles."""
    client, catalog = cluster.client, offers_of()
    spaces = [names.DEVICE_PLUGIN_NAMESPACE, SPACE]
    client.apply(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces))
    client.apply(*device_plugin.render(catalog.clusters["eu-1"]))
    settings = [manifest for manifest in bootstrap.render(catalog) if manifest["kind"] == "ConfigMap"]
    was = {manifest["metadata"]["name"]: _data(client, manifest) for manifest in settings}
    client.apply(*settings)
    rights = [*yaml.safe_load_all((PROJECT / "argo/doctor.yaml").read_text(encoding="utf-8"))]
    rights += [_binding(manifest) for manifest in rights]
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SPACE}})
    client.apply(*rights)
    account = client.as_service_account(ACCOUNT, SPACE)
    kubeconfig = tmp_path_factory.mktemp("doctor") / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_config(cluster, account.token or "")), encoding="utf-8")
    yield Doctor(client, kubeconfig, catalog.clusters["eu-1"])
    for manifest in rights:
        client.delete(
            manifest["apiVersion"],
            manifest["kind"],
            manifest["metadata"]["name"],
            manifest["metadata"].get("namespace"),
        )
    for manifest in settings:
        back = {key: was[manifest["metadata"]["name"]].get(key) for key in manifest["data"]}
        client.patch("v1", "ConfigMap", manifest["metadata"]["name"], {"data": back}, names.ARGO_NAMESPACE)
    for name in spaces:
        client.delete("v1", "Namespace", name)


def _data(client: Client, config_map: Object) -> dict[str, str]:
    settings: dict[str, str] = client.get("v1", "ConfigMap", config_map["metadata"]["name"], names.ARGO_NAMESPACE).get(
        "data", {}
    )
    return settings


def _binding(role: Object) -> Object:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SPACE}
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": role["kind"],
        "name": role["metadata"]["name"],
    }
    return {
        "apiVersion": RBAC,
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": reference,
        "subjects": [subject],
    }


def _config(cluster: Cluster, token: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "doctor",
        "contexts": [{"name": "doctor", "context": {"cluster": "eu-1", "user": "doctor"}}],
        "clusters": [{"name": "eu-1", "cluster": cluster.user()["cluster"]}],
        "users": [{"name": "doctor", "user": {"token": token}}],
    }


def test_the_bed_has_what_it_deserves_by_reading_alone(doctor: Doctor, allot: Allot) -> None:
    account = Client(
        doctor.client.kubeconfig, yaml.safe_load(doctor.kubeconfig.read_text())["users"][0]["user"]["token"]
    )
    assert "secrets is forbidden" in str(refusal(account.list, "v1", "Secret"))
    assert "is forbidden" in str(refusal(account.patch, "v1", "Node", NODE, {"metadata": {"labels": {"a": "b"}}}))
    assert doctor.count_problems(allot) == BED


@contextmanager
def patched(
    client: Client, api: str, kind: str, name: str, space: str | None, change: Object, back: Object
) -> Iterator[None]:
    """Merge a change into an object for a while."""
    client.patch(api, kind, name, change, space)
    try:
        yield
    finally:
        client.patch(api, kind, name, back, space)


def a_node(doctor: Doctor, change: Object, back: Object) -> Iterator[None]:
    with patched(doctor.client, "v1", "Node", NODE, None, change, back):
        yield


def no_taint(doctor: Doctor) -> Iterator[None]:
    taints = doctor.client.get("v1", "Node", NODE)["spec"]["taints"]
    yield from a_node(doctor, {"spec": {"taints": None}}, {"spec": {"taints": taints}})


def a_foreign_taint(doctor: Doctor) -> Iterator[None]:
    taints = doctor.client.get("v1", "Node", NODE)["spec"]["taints"]
    more = [*taints, {"key": "team", "value": "red", "effect": "NoSchedule"}]
    yield from a_node(doctor, {"spec": {"taints": more}}, {"spec": {"taints": taints}})


def labelled(key: str, value: str) -> Callable[[Doctor], Iterator[None]]:
    def change(doctor: Doctor) -> Iterator[None]:
        was = doctor.client.get("v1", "Node", NODE)["metadata"]["labels"][key]
        yield from a_node(doctor, {"metadata": {"labels": {key: value}}}, {"metadata": {"labels": {key: was}}})

    return change


def allocatable(doctor: Doctor, resource: str, amount: str, back: str) -> Iterator[None]:
    doctor.client.patch_status("v1", "Node", NODE, {"allocatable": {resource: amount}})
    try:
        yield
    finally:
        doctor.client.patch_status("v1", "Node", NODE, {"allocatable": {resource: back}})


def fewer_slices(doctor: Doctor) -> Iterator[None]:
    yield from allocatable(doctor, "nvidia.com/gpu.shared", "12", "16")


def less_memory(doctor: Doctor) -> Iterator[None]:
    yield from allocatable(doctor, "memory", "183Gi", "190Gi")


def a_daemon_set(doctor: Doctor) -> Iterator[None]:
    """A real DaemonSet: its controller makes a pod a node."""
    client, labels = doctor.client, {"app": "daemon"}
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}}}
    spec = {
        "nodeSelector": {"pool": "l4-ts4"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    metadata = {"name": "daemon", "namespace": SPACE}
    client.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
    )
    pods = partial(client.list, "v1", "Pod", SPACE, "app=daemon")
    try:
        eventually(
            lambda: len([pod for pod in pods() if pod["spec"].get("nodeName")]) == 3, "three pods of a DaemonSet"
        )
        yield
    finally:
        client.delete("apps/v1", "DaemonSet", "daemon", SPACE)
        eventually(lambda: not pods(), "pods of a DaemonSet to go")


def a_class_that_deletes(doctor: Doctor) -> Iterator[None]:
    """A class's policy can't be changed: it is made anew."""
    objects = simulated.surroundings(doctor.declared)
    wanted = next(
        manifest for manifest in objects if manifest["kind"] == "StorageClass" and manifest["metadata"]["name"] == CLASS
    )

    def anew(policy: str) -> None:
        doctor.client.delete("storage.k8s.io/v1", "StorageClass", CLASS)
        doctor.client.apply({**wanted, "reclaimPolicy": policy})

    anew("Delete")
    try:
        yield
    finally:
        anew("Retain")


def a_configuration_less(doctor: Doctor) -> Iterator[None]:
    key, (config,) = "time-slicing-4", device_plugin.render(doctor.declared)
    where = "v1", "ConfigMap", names.PROGRAM_NAME, names.DEVICE_PLUGIN_NAMESPACE
    with patched(doctor.client, *where, {"data": {key: None}}, {"data": {key: config["data"][key]}}):
        yield


def a_check_of_argo_cds_less(doctor: Doctor) -> Iterator[None]:
    key = "controller.resource.health.persist"
    where = "v1", "ConfigMap", "argocd-cmd-params-cm", names.ARGO_NAMESPACE
    with patched(doctor.client, *where, {"data": {key: None}}, {"data": {key: "true"}}):
        yield


def another_listener(doctor: Doctor) -> Iterator[None]:
    api = "gateway.networking.k8s.io/v1"
    was = doctor.client.get(api, "Gateway", "edge", "edge")["spec"]["listeners"]
    other = [{**listener, "name": "web"} for listener in was]
    where = api, "Gateway", "edge", "edge"
    with patched(doctor.client, *where, {"spec": {"listeners": other}}, {"spec": {"listeners": was}}):
        yield


def a_right_less(doctor: Doctor) -> Iterator[None]:
    was = doctor.client.get(RBAC, "ClusterRole", "allotment-doctor")["rules"]
    less = [rule for rule in was if rule["apiGroups"] != ["storage.k8s.io"]]
    with patched(doctor.client, RBAC, "ClusterRole", "allotment-doctor", None, {"rules": less}, {"rules": was}):
        yield


POOL = "is 3: more units are on offer than the nodes have"
CASES: list[tuple[Callable[[Doctor], Iterator[None]], list[str], list[str]]] = [
    (
        no_taint,
        [
            f"error nodes Node {NODE}: lacks the taint nvidia.com/gpu:NoSchedule, so pods without GPUs use the CPU and memory of units"
        ],
        [],
    ),
    (
        a_foreign_taint,
        [
            f"error nodes Node {NODE}: has the taint team:NoSchedule, which no unit tolerates, so nothing is scheduled there"
        ],
        [],
    ),
    (
        labelled(names.DEVICE_PLUGIN_CONFIG, "time-slicing-2"),
        [
            f"error device-plugin Node {NODE}: has nvidia.com/device-plugin.config=time-slicing-2, but pool l4-ts4 needs time-slicing-4"
        ],
        [],
    ),
    (
        labelled("pool", "nobodys"),
        [
            f"error nodes NodePool l4-ts4: 2 nodes have pool=l4-ts4, but static.nodes {POOL}",
            f"warning nodes Node {NODE}: has GPUs, but the labels of no declared pool: its GPUs are not on offer",
        ],
        [],
    ),
    (
        fewer_slices,
        [
            f"error device-plugin Node {NODE}: has nvidia.com/gpu.shared: 12 of 16: the device plugin reports the others as unhealthy"
        ],
        [],
    ),
    (
        less_memory,
        [
            f"error nodes NodePool l4-ts4: cpu 46 and memory 183Gi are left for pods on its smallest node ({NODE}), but node.cpu is 46"
            " and node.memory 190Gi: the units don't fit"
        ],
        [],
    ),
    (
        a_daemon_set,
        [
            "error nodes NodePool l4-ts4: cpu 44500m and memory 188Gi are left for pods on its smallest node (l4-ts4-1), but node.cpu"
            " is 46 and node.memory 190Gi: the units don't fit"
        ],
        [],
    ),
    (
        a_class_that_deletes,
        [
            f"error storage StorageClass {CLASS}: has reclaimPolicy Delete: the data is lost if a claim is deleted by mistake; shared-files needs Retain"
        ],
        [],
    ),
    (
        a_configuration_less,
        [
            "error device-plugin ConfigMap nvidia-device-plugin/allotment: lacks time-slicing-4: nodes with such a label share no GPUs, without an error"
        ],
        [],
    ),
    (
        a_check_of_argo_cds_less,
        ["error argocd ConfigMap argocd/argocd-cmd-params-cm: lacks controller.resource.health.persist"],
        [],
    ),
    (
        another_listener,
        [f"error gateway {LISTENER}: doesn't exist; the Gateway has web"],
        [LISTENER, "Certificate in Secret edge/edge"],
    ),
    (
        a_right_less,
        [
            "error storage storageclasses.storage.k8s.io: can't be checked: the permission for list of storageclasses.storage.k8s.io is missing"
        ],
        [],
    ),
]


@pytest.mark.parametrize(("broken", "lines", "instead"), CASES, ids=[case[0].__name__ for case in CASES])
def test_one_thing_that_is_broken_is_one_line(
    broken: Callable[[Doctor], Iterator[None]], lines: list[str], instead: list[str], doctor: Doctor, allot: Allot
) -> None:
    """The bed's own lines stay, but for those about an object of `instead`."""
    left = Counter({line: 1 for line in BED if not any(f" {what}: " in line for what in instead)})
    with contextmanager(broken)(doctor):
        assert doctor.count_problems(allot) == left + Counter(lines)
    assert doctor.count_problems(allot) == BED
