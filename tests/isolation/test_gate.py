"""The gate: what an owner may not have stops the tree. Case 27."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.gate_bed import BOUNDARIES, COPY, FILLED, MODELS, OFFERS, SNAPSHOT, WEBUI, Objects, entitled, of
from tests.support.published import of_another_version, with_own_programs
from tests.support.rendered_tree import sample_tree

from allotment.declared.kinds.node_pool import NodePool
from allotment.isolation.entitlements import Entitlements
from allotment.isolation.gate import NO_ENTITLEMENTS, STAND_IN_TENANT, IsolationGate, parse_owner
from allotment.isolation.published_policy import judge
from allotment.manifests import names, pods
from allotment.manifests.cluster import node_pool
from allotment.manifests.layout import CLUSTER_MANIFESTS, KindRendering
from allotment.manifests.tenant import programs
from allotment.manifests.yaml_text import dump, load
from allotment.problems import IsolationBroken

__all__ = ["sample_tree"]

NAMESPACE = "eu-1/control/namespaces/s/solo-ada.rendered.yaml"
ARGO = "eu-1/control/argo/s/solo-ada.rendered.yaml"
RESTORED = "eu-1/tenants/studio-kite/storage/outputs-restored.rendered.yaml"
BUCKET = "eu-1/tenants/ml-orbit/storage/datasets.rendered.yaml"
GROUP = "eu-1/tenants/uni-lab/compute/group-a.rendered.yaml"
LAB = "eu-1/tenants/ml-orbit/compute/lab.rendered.yaml"
SHARING = "eu-1/control/namespaces/s/studio-kite.rendered.yaml"
STORE = "eu-1/control/namespaces/m/ml-orbit.rendered.yaml"
PROGRAMS = f"eu-1/tenants/studio-kite/storage/{programs.programs_name('seal')}.rendered.yaml"


def pools_of(cluster: str) -> Iterator[NodePool]:
    """Yield the node pools of a cluster."""
    return (pool.model for pool in OFFERS.clusters[cluster].of_kind(NodePool).values())


def pod(objects: Objects) -> dict[str, Any]:
    return next(manifest for manifest in objects if manifest["kind"] == "Deployment")["spec"]["template"]["spec"]


def rule(objects: Objects) -> dict[str, Any]:
    """Return what ends a Job of an image at once."""
    return of(objects, "Job")["spec"]["podFailurePolicy"]["rules"][0]


def first(objects: Objects) -> dict[str, Any]:
    """Return the first container of a Job's pod."""
    return of(objects, "Job")["spec"]["template"]["spec"]["initContainers"][0]


def ran(objects: Objects) -> dict[str, Any]:
    """Return the volume of a Job's pod that has programs."""
    volumes: Objects = of(objects, "Job")["spec"]["template"]["spec"]["volumes"]
    return next(volume for volume in volumes if volume["name"] == "programs")


def opening(objects: Objects) -> dict[str, Any]:
    """Return the policy that opens something."""
    return next(
        manifest for manifest in objects if manifest["kind"] == "NetworkPolicy" and "--" in manifest["metadata"]["name"]
    )


CLUSTER = "eu-1/control/platform.rendered.yaml"
SHARD = "eu-1/control/tenants-s.rendered.yaml"


def read(objects: Objects) -> dict[str, Any]:
    """Return what the last Application of a file reads."""
    source: dict[str, Any] = [manifest for manifest in objects if manifest["kind"] == "Application"][-1]["spec"][
        "source"
    ]
    return source


BREAKS: dict[str, tuple[str, Callable[[Objects], object]]] = {
    "an Application that reads folders below its own": (ARGO, lambda o: read(o).update(directory={"recurse": True})),
    "an Application that reads what another reads": (ARGO, lambda o: read(o).update(path="tenants/solo-ada/storage")),
    "an Application that is missing": (ARGO, lambda o: o.pop()),
    "an Application of the platform's that is missing": (CLUSTER, lambda o: o.pop()),
    "an Application of the platform's that reads another folder": (CLUSTER, lambda o: read(o).update(path="control")),
    "an Application of the platform's that reads another branch": (
        CLUSTER,
        lambda o: read(o).update(targetRevision="refs/heads/main"),
    ),
    "a project that goes with its Application": (ARGO, lambda o: o[0]["metadata"].pop("annotations")),
    "a policy that goes with its Application": (
        "eu-1/platform/cluster/admission.rendered.yaml",
        lambda o: o[0]["metadata"].pop("annotations"),
    ),
    "an opening that goes with its Application": (SHARING, lambda o: opening(o)["metadata"].pop("annotations")),
    "an Application of a shard that is missing": (SHARD, lambda o: o.pop()),
    "an Application that nobody expects": (
        "eu-1/platform/cluster/admission.rendered.yaml",
        lambda o: o.append(
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "x"}, "spec": {}}
        ),
    ),
    "a role in another project": (
        ARGO,
        lambda o: o[0]["spec"]["roles"][0].update(
            policies=["p, proj:x:admin, applications, get, studio-kite--eu-1/*, allow"]
        ),
    ),
    "a role that syncs": (
        ARGO,
        lambda o: o[0]["spec"]["roles"][0]["policies"].append(
            "p, proj:solo-ada--eu-1:admin, applications, sync, solo-ada--eu-1/*, allow"
        ),
    ),
    "a role of another name": (ARGO, lambda o: o[0]["spec"]["roles"][0].update(name="root")),
    "a role's token": (ARGO, lambda o: o[0]["spec"]["roles"][0].update(jwtTokens=[{"iat": 1}])),
    "a window of the project": (ARGO, lambda o: o[0]["spec"].update(syncWindows=[])),
    "another kind": (
        WEBUI,
        lambda o: o.append(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}}
        ),
    ),
    "a pod, which its project permits": (
        WEBUI,
        lambda o: o.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "t-solo-ada"}}),
    ),
    "another version of a kind": (WEBUI, lambda o: o[0].update(apiVersion="evil.example/v1")),
    "another namespace": (WEBUI, lambda o: o[0]["metadata"].update(namespace="t-studio-kite")),
    "no namespace": (WEBUI, lambda o: o[0]["metadata"].pop("namespace")),
    "a finalizer": (WEBUI, lambda o: o[0]["metadata"].update(finalizers=["x"])),
    "an owner": (WEBUI, lambda o: o[0]["metadata"].update(ownerReferences=[])),
    "an annotation of Argo CD": (
        WEBUI,
        lambda o: o[0]["metadata"].setdefault("annotations", {}).update({"argocd.argoproj.io/hook": "PreSync"}),
    ),
    "another tenant's label": (
        WEBUI,
        lambda o: o[0]["metadata"]["labels"].update({"allotment.dev/tenant": "studio-kite"}),
    ),
    "a pod of another tenant": (
        WEBUI,
        lambda o: o[0]["spec"]["template"]["metadata"]["labels"].update({"allotment.dev/tenant": "studio-kite"}),
    ),
    "host network": (WEBUI, lambda o: pod(o).update(hostNetwork=True)),
    "host processes": (WEBUI, lambda o: pod(o).update(hostPID=True)),
    "users of the host": (WEBUI, lambda o: pod(o).update(hostUsers=True)),
    "an end that takes for ever": (WEBUI, lambda o: pod(o).update(terminationGracePeriodSeconds=2147483647)),
    "a node": (WEBUI, lambda o: pod(o).update(nodeName="node-1")),
    "a service account": (WEBUI, lambda o: pod(o).update(serviceAccountName="admin")),
    "its token": (WEBUI, lambda o: pod(o).update(automountServiceAccountToken=True)),
    "a priority": (WEBUI, lambda o: pod(o).update(priorityClassName="system-cluster-critical")),
    "a toleration": (WEBUI, lambda o: pod(o)["tolerations"].append({"operator": "Exists"})),
    "no seccomp": (WEBUI, lambda o: pod(o).update(securityContext={})),
    "an init container": (WEBUI, lambda o: pod(o).update(initContainers=[])),
    "privileges": (WEBUI, lambda o: pod(o)["containers"][0]["securityContext"].update(privileged=True)),
    "capabilities": (
        WEBUI,
        lambda o: pod(o)["containers"][0]["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    ),
    "a host port": (WEBUI, lambda o: pod(o)["containers"][0]["ports"][0].update(hostPort=80)),
    "a host path": (WEBUI, lambda o: pod(o)["volumes"].append({"name": "x", "hostPath": {"path": "/"}})),
    "a secret": (WEBUI, lambda o: pod(o)["volumes"].append({"name": "x", "secret": {"secretName": "x"}})),
    "environment from elsewhere": (
        WEBUI,
        lambda o: pod(o)["containers"][0]["env"].append({"name": "X", "valueFrom": {}}),
    ),
    "a device list": (
        WEBUI,
        lambda o: pod(o)["containers"][0]["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}),
    ),
    "a load balancer": (WEBUI, lambda o: of(o, "Service")["spec"].update(type="LoadBalancer")),
    "a name outside": (WEBUI, lambda o: of(o, "Service")["spec"].update(externalName="evil.example")),
    "every pod": (WEBUI, lambda o: of(o, "Service")["spec"].update(selector={})),
    "another's host": (
        WEBUI,
        lambda o: of(o, "HTTPRoute")["spec"].update(hostnames=["webui--studio-kite.eu-1.gpu.northlight.example"]),
    ),
    "a host that ends alike": (
        WEBUI,
        lambda o: of(o, "HTTPRoute")["spec"].update(
            hostnames=["webui--solo-ada.eu-1.gpu.northlight.example.evil.example"]
        ),
    ),
    "a wildcard": (WEBUI, lambda o: of(o, "HTTPRoute")["spec"].update(hostnames=["*.eu-1.gpu.northlight.example"])),
    "another gateway": (WEBUI, lambda o: of(o, "HTTPRoute")["spec"]["parentRefs"][0].update(namespace="t-studio-kite")),
    "another's backend": (
        WEBUI,
        lambda o: of(o, "HTTPRoute")["spec"]["rules"][0]["backendRefs"][0].update(namespace="t-studio-kite"),
    ),
    "filters": (WEBUI, lambda o: of(o, "HTTPRoute")["spec"]["rules"][0].update(filters=[])),
    "a policy for the gateway": (
        WEBUI,
        lambda o: of(o, "SecurityPolicy")["spec"]["targetRefs"][0].update(kind="Gateway"),
    ),
    "an affinity for the gateway": (
        GROUP,
        lambda o: of(o, "BackendTrafficPolicy")["spec"]["targetRefs"][0].update(kind="Gateway"),
    ),
    "an affinity with a limit": (GROUP, lambda o: of(o, "BackendTrafficPolicy")["spec"].update(rateLimit={})),
    "an open door behind a login": (
        WEBUI,
        lambda o: of(o, "SecurityPolicy")["spec"]["authorization"].update(defaultAction="Allow"),
    ),
    "another's secret": (
        WEBUI,
        lambda o: of(o, "SecurityPolicy")["spec"]["oidc"]["clientSecret"].update(namespace="kube-system"),
    ),
    "a volume that may be pruned": (
        MODELS,
        lambda o: of(o, "PersistentVolumeClaim")["metadata"].update(annotations={}),
    ),
    "a volume that may be pruned, by its deletion policy alone": (
        MODELS,
        lambda o: of(o, "PersistentVolumeClaim")["metadata"].update(annotations={names.DELETION_POLICY: "Delete"}),
    ),
    "a volume that may be pruned, by its lifted protection alone": (
        MODELS,
        lambda o: of(o, "PersistentVolumeClaim")["metadata"].update(annotations={names.PROTECTED: "false"}),
    ),
    "a volume's source": (
        MODELS,
        lambda o: of(o, "PersistentVolumeClaim")["spec"].update(dataSourceRef={"kind": "X", "name": "y"}),
    ),
    "a volume's source elsewhere": (
        RESTORED,
        lambda o: o[0]["spec"]["dataSourceRef"].update(namespace="t-northlight"),
    ),
    "a snapshot that may be pruned": (SNAPSHOT, lambda o: o[0]["metadata"].update(annotations={})),
    "a snapshot of any content": (SNAPSHOT, lambda o: o[0]["spec"].update(source={"volumeSnapshotContentName": "x"})),
    "a bucket that may be pruned": (BUCKET, lambda o: o[0]["metadata"].update(annotations={})),
    "a bucket by another's name": (BUCKET, lambda o: o[0]["spec"].update(bucketName="others")),
    "a program of the tenant's that copies": (
        COPY,
        lambda o: of(o, "Job")["spec"]["template"]["spec"]["containers"][0].update(command=["sh", "-c"]),
    ),
    "a second program beside a copy": (
        COPY,
        lambda o: of(o, "Job")["spec"]["template"]["spec"].update(initContainers=[{"name": "x", "image": "x"}]),
    ),
    "an instance that copies": (
        WEBUI,
        lambda o: o[0]["spec"]["template"]["metadata"]["labels"].update({"allotment.dev/role": "copy"}),
    ),
    "programs from elsewhere": (
        COPY,
        lambda o: ran(o).update(configMap={"name": "mine"}),
    ),
    "programs of a name that begins as ours": (
        COPY,
        lambda o: ran(o).update(configMap={"name": "allotment--programs-mine"}),
    ),
    "programs of which some are left out": (
        COPY,
        lambda o: ran(o)["configMap"].update(items=[{"key": "seal.py", "path": "check.py"}]),
    ),
    "an instance with programs": (
        WEBUI,
        lambda o: pod(o)["volumes"].append({"name": "programs", "configMap": {"name": programs.programs_name("seal")}}),
    ),
    "programs of another text": (PROGRAMS, lambda o: o[0]["data"].update({"seal.py": "import evil"})),
    "programs with another file": (PROGRAMS, lambda o: o[0]["data"].update({"evil.py": ""})),
    "programs without a file": (PROGRAMS, lambda o: o[0]["data"].pop("seal.py")),
    "programs of no text": (PROGRAMS, lambda o: o[0].pop("data")),
    "programs that can be changed": (PROGRAMS, lambda o: o[0].pop("immutable")),
    "programs that can be changed, in a word": (PROGRAMS, lambda o: o[0].update(immutable="true")),
    "programs of another name": (PROGRAMS, lambda o: o[0]["metadata"].update(name=programs.programs_name("fetch_url"))),
    "programs that hide from their name": (PROGRAMS, lambda o: o[0]["metadata"].update(name="mine")),
    "programs that Argo CD never prunes": (
        PROGRAMS,
        lambda o: o[0]["metadata"].update(annotations={"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}),
    ),
    "another object among programs": (PROGRAMS, lambda o: o.append({**o[0], "kind": "Service"})),
    "programs in a storage's file": (
        FILLED,
        lambda o: o.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": programs.programs_name("seal"), "namespace": "t-studio-kite"},
                "immutable": True,
                "data": programs.read_program_files("seal"),
            }
        ),
    ),
    "a Job that ends by another program": (FILLED, lambda o: rule(o)["onExitCodes"].update(containerName="prepare")),
    "a Job that ends by any program": (FILLED, lambda o: rule(o)["onExitCodes"].pop("containerName")),
    "a Job that ends by another status": (FILLED, lambda o: rule(o)["onExitCodes"]["values"].append(79)),
    "a Job that ends by all but a status": (FILLED, lambda o: rule(o)["onExitCodes"].update(operator="NotIn")),
    "a Job that ignores an end": (FILLED, lambda o: rule(o).update(action="Ignore")),
    "a Job that ends by a condition": (FILLED, lambda o: rule(o).update(onPodConditions=[{"type": "Ready"}])),
    "a Job of two rules": (
        FILLED,
        lambda o: of(o, "Job")["spec"]["podFailurePolicy"]["rules"].append(copy.deepcopy(rule(o))),
    ),
    "a Job of no rule": (FILLED, lambda o: of(o, "Job")["spec"]["podFailurePolicy"].update(rules=[])),
    "another program that is called the check": (FILLED, lambda o: first(o).update(command=["sh", "-c", "exit 78"])),
    "a check of another name": (FILLED, lambda o: first(o).update(name="looks")),
    "a check that never ends": (FILLED, lambda o: first(o).update(restartPolicy="Always")),
    "a check that comes later": (
        FILLED,
        lambda o: of(o, "Job")["spec"]["template"]["spec"]["initContainers"].reverse(),
    ),
    "a Job that ends by a check without one": (
        COPY,
        lambda o: of(o, "Job")["spec"].update(
            podFailurePolicy={
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "check", "operator": "In", "values": [78]},
                    }
                ]
            }
        ),
    ),
    "pods of a Job beside others that end": (
        FILLED,
        lambda o: of(o, "Job")["spec"].update(podReplacementPolicy="Failed"),
    ),
    "an instance that ends by a status": (
        WEBUI,
        lambda o: of(o, "Deployment")["spec"].update(podFailurePolicy={"rules": []}),
    ),
    "a variable from the pod": (
        LAB,
        lambda o: pod(o)["containers"][0]["env"].append({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}),
    ),
    "an opening to every pod": (SHARING, lambda o: opening(o)["spec"]["egress"][0]["to"][0].pop("podSelector")),
    "an opening for every pod": (SHARING, lambda o: opening(o)["spec"].update(podSelector={})),
    "an opening of another port": (SHARING, lambda o: opening(o)["spec"]["egress"][0]["ports"][0].update(port=22)),
    "an opening of every port": (SHARING, lambda o: opening(o)["spec"]["egress"][0].pop("ports")),
    "an opening to an address": (
        SHARING,
        lambda o: opening(o)["spec"]["egress"][0]["to"].append({"ipBlock": {"cidr": "0.0.0.0/0"}}),
    ),
    "an opening the other way too": (SHARING, lambda o: opening(o)["spec"].update(ingress=[{"ports": []}])),
    "an opening in another namespace": (SHARING, lambda o: opening(o)["metadata"].update(namespace="t-solo-ada")),
    "an opening of another name": (SHARING, lambda o: opening(o)["metadata"].update(name="open--all")),
    "a read that is called a share": (SHARING, lambda o: opening(o)["metadata"].update(name="share--base")),
    "a store for every pod": (STORE, lambda o: opening(o)["spec"].update(podSelector={})),
    "a weaker namespace": (
        NAMESPACE,
        lambda o: o[0]["metadata"]["labels"].update({"pod-security.kubernetes.io/enforce": "privileged"}),
    ),
    "another's namespace": (NAMESPACE, lambda o: o[0]["metadata"].update(name="kube-system")),
    "a role": (
        NAMESPACE,
        lambda o: o.append({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {}}),
    ),
    "isolation that may be pruned": (NAMESPACE, lambda o: o[1]["metadata"].update(annotations={})),
    "a grant to another": (
        NAMESPACE,
        lambda o: of(o, "ReferenceGrant")["spec"]["from"][0].update(namespace="t-studio-kite"),
    ),
    "a project of many namespaces": (ARGO, lambda o: o[0]["spec"]["destinations"][0].update(namespace="*")),
    "a project of cluster kinds": (
        ARGO,
        lambda o: o[0]["spec"].update(clusterResourceWhitelist=[{"group": "*", "kind": "*"}]),
    ),
    "a project of more kinds": (
        ARGO,
        lambda o: o[0]["spec"]["namespaceResourceWhitelist"].append({"group": "", "kind": "ResourceQuota"}),
    ),
    "another's project": (ARGO, lambda o: o[1]["spec"].update(project="default")),
    "another's folder": (ARGO, lambda o: o[1]["spec"]["source"].update(path="tenants/studio-kite/storage")),
    "another's branch": (ARGO, lambda o: o[1]["spec"]["source"].update(targetRevision="refs/heads/evil")),
    "another's destination": (ARGO, lambda o: o[1]["spec"]["destination"].update(namespace="t-studio-kite")),
}


@pytest.mark.parametrize(("path", "change"), BREAKS.values(), ids=BREAKS)
def test_the_gate_stops_it(path: str, change: Callable[[Objects], object], sample_tree: dict[str, bytes]) -> None:
    objects = copy.deepcopy(load(sample_tree[path]))
    change(objects)
    gate = IsolationGate(BOUNDARIES)
    for _ in range(2):  # also once the gate has seen it
        with pytest.raises(IsolationBroken):
            gate.check(path, dump(objects), entitled(path))
        with pytest.raises(IsolationBroken):
            gate.check(path, dump(objects), published=True)


SERVED = "eu-1/tenants/studio-kite/storage/outputs.rendered.yaml"
WRITING = ["--allow-upload", "--allow-delete"]


def server(objects: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = of(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


WRITERS: dict[str, Callable[[Objects], object]] = {
    "a flag": lambda o: server(o)["containers"][0]["args"].extend(WRITING),
    "a volume": lambda o: server(o)["volumes"][0]["persistentVolumeClaim"].pop("readOnly"),
    "all of it": lambda o: (
        server(o)["containers"][0]["args"].extend(WRITING),
        server(o)["containers"][0]["volumeMounts"][0].pop("readOnly"),
        server(o)["volumes"][0]["persistentVolumeClaim"].pop("readOnly"),
    ),
    "readers by another method": lambda o: of(o, "SecurityPolicy")["spec"]["authorization"]["rules"][0].update(
        operation={"methods": ["PUT"]}
    ),
    "any other flag": lambda o: server(o)["containers"][0]["args"].append("--allow-symlink"),
}


@pytest.mark.parametrize("change", WRITERS.values(), ids=WRITERS)
def test_a_file_server_writes_only_if_declared(
    change: Callable[[Objects], object], sample_tree: dict[str, bytes]
) -> None:
    objects = copy.deepcopy(load(sample_tree[SERVED]))
    change(objects)
    gate = IsolationGate(BOUNDARIES)
    for _ in range(2):
        with pytest.raises(IsolationBroken):
            gate.check(SERVED, dump(objects), entitled(SERVED))


def test_the_sample_passes(sample_tree: dict[str, bytes]) -> None:
    gate = IsolationGate(BOUNDARIES)
    for path, data in sample_tree.items():
        gate.check(path, data, entitled(path))
        gate.check(path, data, published=True)
        cluster, _, inner = path.partition("/")
        owner = parse_owner(inner)
        assert owner is not None
        for text in data.decode()[:-1].split("\n---\n"):
            assert list(judge(BOUNDARIES[cluster], owner, text)) == []


def test_a_job_from_before_the_check_passes(sample_tree: dict[str, bytes]) -> None:
    """It keeps its bytes for as long as it is published."""
    objects = load(sample_tree[FILLED])
    of(objects, "Job")["spec"].pop("podFailurePolicy")
    of(objects, "Job")["spec"]["template"]["spec"]["initContainers"].pop(0)
    IsolationGate(BOUNDARIES).check(FILLED, dump(objects), published=True)
    with pytest.raises(IsolationBroken):
        IsolationGate(BOUNDARIES).check(FILLED, dump(objects), entitled(FILLED))


def test_a_job_that_has_its_own_programs_beside_it_passes(sample_tree: dict[str, bytes]) -> None:
    """It keeps its bytes for as long as it is published."""
    data = with_own_programs(sample_tree[FILLED])
    gate = IsolationGate(BOUNDARIES)
    gate.check(FILLED, data, published=True)
    assert gate.drop_forbidden(FILLED, data) == (data, [])
    with pytest.raises(IsolationBroken):
        gate.check(FILLED, data, entitled(FILLED))


def test_programs_of_another_version_pass_as_published_and_are_rendered_no_more(sample_tree: dict[str, bytes]) -> None:
    job, name, theirs = of_another_version(sample_tree[FILLED])
    path = f"{PROGRAMS.rpartition('/')[0]}/{name}.rendered.yaml"
    gate = IsolationGate(BOUNDARIES)
    for place, data in ((FILLED, job), (path, theirs)):
        gate.check(place, data, published=True)
        assert gate.drop_forbidden(place, data) == (data, [])
        with pytest.raises(IsolationBroken):
            gate.check(place, data, entitled(FILLED))
    forged = theirs.replace(b"# of another version", b"import evil")
    assert forged != theirs
    assert gate.drop_forbidden(path, forged)[0] == b""
    with pytest.raises(IsolationBroken):
        gate.check(PROGRAMS, theirs, published=True)


@pytest.mark.parametrize("program", sorted(set(programs.PROGRAM_SETS) - {"copy_shared"}))
def test_a_job_has_the_programs_that_it_runs(program: str, sample_tree: dict[str, bytes]) -> None:
    objects = load(sample_tree[COPY])
    ran(objects)["configMap"] = {"name": programs.programs_name(program)}
    with pytest.raises(IsolationBroken, match="must be allotment--programs-copy-shared-"):
        IsolationGate(BOUNDARIES).check(COPY, dump(objects), entitled(COPY))


def test_programs_are_judged_once_for_all_tenants(sample_tree: dict[str, bytes]) -> None:
    """They are the longest texts of a tree, and the same in every namespace."""
    gate = IsolationGate(BOUNDARIES)

    def check(tenant: str, namespace_tenant: str) -> None:
        data = sample_tree[PROGRAMS].replace(b": t-studio-kite", f": t-{namespace_tenant}".encode())
        data = data.replace(b"tenant: studio-kite", f"tenant: {namespace_tenant}".encode())
        gate.check(PROGRAMS.replace("studio-kite", tenant), data, NO_ENTITLEMENTS)

    check("solo-ada", "solo-ada")
    check("uni-lab", "uni-lab")
    assert len(gate.frames) == 1
    with pytest.raises(IsolationBroken):
        check("solo-ada", "uni-lab")
    for tenant in ("seal", "volume", "allotment"):  # names that stand in the programs too
        check(tenant, tenant)


@pytest.mark.parametrize("requirement", ["lab", "models", "checkpoints"])
def test_programs_pass_in_their_own_file_alone(requirement: str, sample_tree: dict[str, bytes]) -> None:
    gate = IsolationGate(BOUNDARIES)
    gate.check(PROGRAMS, sample_tree[PROGRAMS], entitled(PROGRAMS))
    with pytest.raises(IsolationBroken, match=f"must be {requirement}"):
        gate.check(
            f"eu-1/tenants/studio-kite/storage/{requirement}.rendered.yaml", sample_tree[PROGRAMS], entitled(PROGRAMS)
        )


@pytest.mark.parametrize("tenant", ["gpu", "edge", "data", "main", "sha256", "kube", "example", "allotment", "system"])
def test_a_name_that_stands_elsewhere_too_opens_nothing(tenant: str, sample_tree: dict[str, bytes]) -> None:
    """What passes for one tenant must not pass for another because a constant happens to hold its name."""
    data = sample_tree[WEBUI].replace(b"solo-ada", tenant.encode())
    gate = IsolationGate(BOUNDARIES)
    gate.check(f"eu-1/tenants/{tenant}/compute/webui.rendered.yaml", data, entitled(WEBUI))
    for wrong in (f"namespace: t-{tenant}", f"webui--{tenant}.eu-1"):
        broken = sample_tree[WEBUI].replace(wrong.replace(tenant, "solo-ada").encode(), wrong.encode())
        assert broken != sample_tree[WEBUI]
        with pytest.raises(IsolationBroken):
            gate.check(WEBUI, broken, entitled(WEBUI))


def renamed(data: bytes, instance: str) -> bytes:
    """Return the sample's instance under another name; its image stays."""
    return data.replace(b"webui", instance.encode()).replace(f"sd{instance}".encode(), b"sdwebui")


def test_a_name_that_is_a_word_of_yaml_must_stand_in_quotes(sample_tree: dict[str, bytes]) -> None:
    gate = IsolationGate(BOUNDARIES)
    plain = sample_tree[MODELS].replace(b"solo-ada", b"no")
    quoted = plain.replace(b"allotment.dev/tenant: no\n", b'allotment.dev/tenant: "no"\n')
    path = MODELS.replace("solo-ada", "no")
    entitlements = NO_ENTITLEMENTS._replace(
        required_endings=entitled(MODELS).required_endings, max_replicas=entitled(MODELS).max_replicas
    )
    gate.check(path, quoted, entitlements)
    assert quoted.count(b'"no"') > 3
    with pytest.raises(IsolationBroken, match="not of the written shape"):
        gate.check(path, plain, entitlements)


def test_shapes_are_the_same_whatever_the_hash_and_whatever_words_of_ours_a_name_stands_in(
    sample_tree: dict[str, bytes],
) -> None:
    gate, shapes = IsolationGate(BOUNDARIES), set[int]()
    marker = MODELS.replace("models", "allotment--marker")
    for digit, instance in enumerate(("cobalt", "lab", "app", "spec", "label")):
        may = {
            (kind, name.replace("webui", instance)): text
            for (kind, name), text in entitled(WEBUI).required_endings.items()
        }
        of_instance = Entitlements(may, {instance: 1}, frozenset())
        path = WEBUI.replace("webui", instance)
        gate.check(path, with_hash(renamed(sample_tree[WEBUI], instance), "declared-blob: ", digit, 40), of_instance)
        gate.check(marker, with_hash(sample_tree[marker], "content: sha256:", digit, 64), NO_ENTITLEMENTS)
        shapes.add(len(gate.frames))
    assert len(shapes) == 1  # nothing is new after the first


def with_hash(data: bytes, key: str, digit: int, length: int) -> bytes:
    """Return a file with another hash after a key, which begins with a digit or a letter."""
    value = f"{'07af3'[digit]}{'e' * (length - 1)}"
    at = data.index(key.encode()) + len(key)
    end = data.index(b"\n", at)
    quoted = f'"{value}"' if key.endswith(": ") and value[0].isdigit() else value
    return data[:at] + quoted.encode() + data[end:]


@pytest.mark.parametrize(
    "wrong", ["e" * 39, "E" * 40, "0" * 40, f"{'e' * 40} #", '"\\u0061"', f'"{"e" * 41}"', "12345"]
)
def test_the_gate_stops_an_invalid_hash_of_a_declaration(wrong: str, sample_tree: dict[str, bytes]) -> None:
    gate = IsolationGate(BOUNDARIES)
    for _ in range(2):
        gate.check(WEBUI, sample_tree[WEBUI], entitled(WEBUI))
        at = sample_tree[WEBUI].index(b"declared-blob: ") + len(b"declared-blob: ")
        data = sample_tree[WEBUI][:at] + wrong.encode() + sample_tree[WEBUI][sample_tree[WEBUI].index(b"\n", at) :]
        with pytest.raises(IsolationBroken):
            gate.check(WEBUI, data, entitled(WEBUI))


@pytest.mark.parametrize("kind", ['"Deployment"', '"Deploym\\u0065nt"', "Deployment "])
def test_a_kind_that_is_written_otherwise_evades_no_entitlement(kind: str, sample_tree: dict[str, bytes]) -> None:
    data = sample_tree[WEBUI].replace(b"kind: Deployment\n", f"kind: {kind}\n".encode())
    assert data != sample_tree[WEBUI]
    with pytest.raises(IsolationBroken, match="no kind"):
        IsolationGate(BOUNDARIES).check(WEBUI, data, entitled(WEBUI))


def test_a_text_that_holds_a_stand_in_is_judged_as_it_stands(sample_tree: dict[str, bytes]) -> None:
    gate = IsolationGate(BOUNDARIES)
    gate.check(WEBUI, sample_tree[WEBUI], entitled(WEBUI))
    for path in (WEBUI, MODELS, NAMESPACE, ARGO):
        with pytest.raises(IsolationBroken):
            gate.check(path, sample_tree[path].replace(b"t-solo-ada", f"t-{STAND_IN_TENANT}".encode()), entitled(path))


@pytest.mark.parametrize(
    "path",
    [
        "eu-1/evil.yaml",
        "eu-1/tenants/solo-ada/other/x.yaml",
        "xx-1/control/platform.rendered.yaml",
        "eu-1/../x.yaml",
        "eu-1/tenants/solo-ada/compute/x.json",
        "eu-1/tenants/solo-ada/compute/kustomization.yaml",
        "eu-1/control/argo/k/kustomization.yaml",
        "eu-1/platform/node-pools/kustomization.yaml",
        "eu-1/tenants/solo-ada/compute/.argocd-source.yaml",
    ],
)
def test_nothing_lies_elsewhere(path: str, sample_tree: dict[str, bytes]) -> None:
    with pytest.raises(IsolationBroken):
        IsolationGate(BOUNDARIES).check(path, sample_tree[WEBUI], entitled(WEBUI))


@pytest.mark.parametrize("data", [b"a: b", b"kind: X\n", b"\xff\n", b"a: &x b\n", b"# +argocd:skip-file-rendering\n"])
def test_other_text_is_stopped(data: bytes) -> None:
    with pytest.raises(IsolationBroken):
        IsolationGate(BOUNDARIES).check(WEBUI, data)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where a mapping or a list stands in an object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in inner:
        if isinstance(child, dict | list):
            yield (*at, key)
            yield from _places(child, (*at, key))


@pytest.mark.parametrize("other", ["x", ["x"], {"x": "y"}], ids=["a text", "a list", "a mapping"])
def test_a_field_of_another_type_gives_a_verdict(other: Any, sample_tree: dict[str, bytes]) -> None:
    tried, stopped = Counter[str](), Counter[str]()
    gate = IsolationGate(BOUNDARIES)
    for path, data in sorted(sample_tree.items()):
        for number, manifest in enumerate(load(data)):
            if tried[manifest["kind"]] > 1 or not path.startswith("eu-1/"):
                continue
            tried[manifest["kind"]] += 1
            for *place, last in _places(manifest):
                objects = load(data)
                holder: Any = objects[number]
                for key in place:
                    holder = holder[key]
                if isinstance(holder, list) and isinstance(other, list):  # that has no written shape
                    continue
                holder[last] = other
                gate.drop_forbidden(path, dump(objects))
                try:
                    gate.check(path, dump(objects), entitled(path))
                except IsolationBroken:
                    stopped[manifest["kind"]] += 1
    assert len(tried) > 15
    assert stopped.keys() == tried.keys()


DEEP = "".join(f"{'  ' * depth}a:\n" for depth in range(1, 990)) + "  " * 990 + "a: b\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a: b",
        b"\xff\n",
        b"kind: Deployment\nspec:\n  tolerations:\n  - {}\n",
        b"kind: ConfigMap\nmetadata:\n- a: b\n",
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n{DEEP}".encode(),
    ],
    ids=["empty", "no end", "no text", "an empty entry", "a list", "deep"],
)
@pytest.mark.parametrize("path", [WEBUI, NAMESPACE, ARGO, PROGRAMS])
def test_text_of_any_shape_is_stopped_and_sifted(path: str, data: bytes) -> None:
    gate = IsolationGate(BOUNDARIES)
    for published in (False, True):
        with pytest.raises(IsolationBroken):
            gate.check(path, data, entitled(path), published=published)
    allowed, wrong = gate.drop_forbidden(path, data)
    assert allowed == b""
    assert wrong


@pytest.mark.parametrize(("path", "kind"), [(ARGO, "AppProject"), (SHARING, "NetworkPolicy"), (STORE, "NetworkPolicy")])
def test_drop_forbidden_adds_the_deletion_protection_to_older_manifests(
    sample_tree: dict[str, bytes], path: str, kind: str
) -> None:
    """A tenant that is invalid when the program is upgraded keeps its project, and what lets its pods out."""
    objects = load(sample_tree[path])
    older = copy.deepcopy(objects)
    for manifest in older:
        annotations = manifest["metadata"].get("annotations", {})
        if manifest["kind"] == kind and annotations.get("argocd.argoproj.io/sync-options") == "Delete=false":
            del annotations["argocd.argoproj.io/sync-options"]
    assert older != objects
    left, dropped = IsolationGate(BOUNDARIES).drop_forbidden(path, dump(older))
    assert (load(left), dropped) == (objects, [])


@pytest.mark.parametrize(
    "more",
    [
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
        {"affinity": {"nodeAffinity": pods.require_pools(list(pools_of("eu-1")))}},
    ],
    ids=["tolerates the taint of GPU nodes", "on the nodes of pools"],
)
def test_a_job_runs_on_gpu_nodes_only_where_a_pool_declares_storage_pods(
    more: dict[str, Any], sample_tree: dict[str, bytes]
) -> None:
    objects = copy.deepcopy(load(sample_tree[FILLED]))
    of(objects, "Job")["spec"]["template"]["spec"].update(more)
    with pytest.raises(IsolationBroken):
        IsolationGate(BOUNDARIES).check(FILLED, dump(objects), entitled(FILLED))


def test_the_objects_of_a_kind_in_a_shared_folder_are_rendered_again(
    sample_tree: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CLUSTER_MANIFESTS, NodePool, KindRendering(node_pool.render, "platform/cluster", "--pool"))
    gate, data = IsolationGate(BOUNDARIES), sample_tree["us-1/platform/node-pools/h100.rendered.yaml"]
    gate.check("us-1/platform/cluster/h100--pool.rendered.yaml", data)
    for stem in ("cluster/other--pool", "cluster/h100", "cluster/h100--other", "node-pools/h100"):
        with pytest.raises(IsolationBroken):
            gate.check(f"us-1/platform/{stem}.rendered.yaml", data)
    with pytest.raises(IsolationBroken, match="differs from its declaration"):
        gate.check("us-1/platform/cluster/h100--pool.rendered.yaml", data.replace(b"node-pool: h100", b"node-pool: l4"))
