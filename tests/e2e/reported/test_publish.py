"""From a merge to a running pod: Gitea, `allot run`, Argo CD and two clusters, none of them a fake. Case 34 too."""

from __future__ import annotations

import datetime
import shutil
from functools import partial
from typing import Any

import pytest

from tests.controlplane import rendered
from tests.controlplane.argocd import ARGO, NAMESPACE
from tests.controlplane.client import Client, Object
from tests.e2e.cloud import Cloud
from tests.support.cloud_objects import deployment, missing, sync_messages
from tests.support.published import INSTANCE, STORAGE, git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


def list_retained_uids(client: Client) -> dict[str, str]:
    """Return the identity of everything of ours that must never be lost."""
    live_objects = [
        *client.list("v1", "PersistentVolumeClaim"),
        *client.list("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
        *client.list("objectbucket.io/v1alpha1", "ObjectBucketClaim"),
        *client.list("v1", "Namespace", labels=rendered.OURS),
    ]
    return {
        f"{live_object['kind']} {live_object['metadata'].get('namespace')}/{live_object['metadata']['name']}": live_object[
            "metadata"
        ]["uid"]
        for live_object in live_objects
        if live_object["kind"] == "Namespace"
        or live_object["metadata"].get("annotations", {}).get("allotment.dev/protected")
    }


def test_all_of_both_clusters_is_synced_and_nothing_stays_different(cloud: Cloud) -> None:
    applications = cloud.all_synced()
    assert {"allotment--root--eu-1", "allotment--root--us-1", "acme-robotics--us-1--storage"} <= applications.keys()
    assert len(list_retained_uids(cloud.clusters["us-1"].client)) > 4


def test_a_tree_has_the_pods_without_which_the_dashboard_has_no_log_and_no_terminal(cloud: Cloud) -> None:
    pods = cloud.clusters["eu-1"].client.list("v1", "Pod", "t-solo-ada", "allotment.dev/instance")
    tree = cloud.argocd.api("applications/solo-ada--eu-1--compute/resource-tree")["nodes"]
    pod_names = {tree_node["name"] for tree_node in tree if tree_node["kind"] == "Pod"}
    assert pod_names == {pod["metadata"]["name"] for pod in pods}
    assert pod_names


def test_links_lead_to_the_declarations(cloud: Cloud) -> None:
    def links(path: str) -> dict[str, str]:
        items = cloud.argocd.api(f"applications/solo-ada--eu-1--compute/{path}")["items"]
        return {link["title"]: link["url"] for link in items or ()}

    query = "resource/links?namespace=t-solo-ada&resourceName=webui&version=v1&group=apps&kind=Deployment"
    where = eventually(lambda: links(query), "links of the Deployment", seconds=120)["Declaration"]
    assert where == f"{cloud.gitea.url}/northlight/cloud/src/branch/main/tenants/solo-ada/instances/webui.yaml"
    assert links("links")["Declarations"].endswith("/src/branch/main/tenants/solo-ada")
    graphs = "https://grafana.northlight.example/d/gpus/instances?var-cluster=eu-1&var-namespace=t-solo-ada"
    assert links("links")["Graphs"] == graphs
    assert links(query)["Graphs"] == f"{graphs}&var-instance=webui"


def test_a_merge_starts_an_instance_another_stops_it_and_a_third_removes_it(cloud: Cloud) -> None:
    """The name is one that Argo CD would know as a file's: of a folder that holds it, it makes Kustomize's."""
    path = "tenants/solo-ada/instances/kustomization.yaml"
    cloud.declare(path, INSTANCE.format(name="kustomization", labels=""))
    cloud.merged()

    def runs() -> bool:
        return bool(deployment(cloud, "solo-ada", "kustomization")["status"].get("readyReplicas") == 1)

    eventually(runs, "a running pod", 120)
    application = cloud.changes_synced()["solo-ada--eu-1--compute"]

    def healthy() -> bool:
        return bool(cloud.applications()["solo-ada--eu-1--compute"]["status"]["health"]["status"] == "Healthy")

    assert application["metadata"]["labels"]["allotment.dev/tenant"] == "solo-ada"
    eventually(healthy, "the Application to be Healthy", 60)
    cloud.edit(path, "spec:\n", "spec:\n  state: Stopped\n")
    cloud.merged()
    eventually(
        lambda: deployment(cloud, "solo-ada", "kustomization")["spec"]["replicas"] == 0, "the instance to stop", 60
    )
    client = cloud.clusters["eu-1"].client
    pods = "allotment.dev/instance=kustomization"
    eventually(lambda: not client.list("v1", "Pod", "t-solo-ada", pods), "its pod to be gone", 60)
    cloud.changes_synced()
    (cloud.root / path).unlink()
    cloud.merged()
    for version, kind in (("apps/v1", "Deployment"), ("v1", "Service")):
        gone = partial(missing, client, version, kind, "kustomization", "t-solo-ada")
        eventually(gone, f"its {kind} to be gone", 60)
    cloud.changes_synced()


def test_a_hand_edit_is_healed(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    client.patch("apps/v1", "Deployment", "webui", {"spec": {"replicas": 3}}, "t-solo-ada")
    eventually(lambda: deployment(cloud, "solo-ada", "webui")["spec"]["replicas"] == 1, "the replicas as declared", 60)


def test_an_object_smuggled_into_a_branch_is_refused_by_its_project_and_replaced(cloud: Cloud) -> None:
    evil = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: evil
  namespace: t-uni-lab
"""
    secret = evil.replace("ConfigMap", "Secret").replace("t-uni-lab", "t-solo-ada")
    folder = "tenants/solo-ada/compute"

    def refused() -> bool:
        messages = sync_messages(cloud, "solo-ada--eu-1--compute")
        return "namespace t-uni-lab is not permitted" in messages and "not permitted in project" in messages

    with cloud.publisher_stopped():
        commit = cloud.smuggle(
            "eu-1", {f"{folder}/evil.rendered.yaml": evil, f"{folder}/evil-secret.rendered.yaml": secret}
        )
        eventually(refused, "the project to refuse it", 90)
        client = cloud.clusters["eu-1"].client
        assert missing(client, "v1", "ConfigMap", "evil", "t-uni-lab")
        assert missing(client, "v1", "Secret", "evil", "t-solo-ada")
    event = cloud.running.event("foreign commit replaced", commit=commit)
    assert (event["cluster"], event["level"]) == ("eu-1", "warning")
    eventually(lambda: cloud.published()["refs/heads/rendered/eu-1"] != commit, "it to be replaced", 60)
    cloud.wait_until_synced({"solo-ada--eu-1--compute"})


def test_a_failed_preparation_holds_up_nobody(cloud: Cloud) -> None:
    cloud.declare(
        "tenants/solo-ada/storages/broken.yaml",
        STORAGE.format(name="broken") + "        args: [--simulate=job-fails]\n",
    )
    cloud.merged()
    client = cloud.clusters["eu-1"].client

    def failed() -> bool:
        jobs = client.list("batch/v1", "Job", "t-solo-ada", "allotment.dev/storage=broken")
        return any(condition["type"] == "Failed" for job in jobs for condition in job["status"].get("conditions", ()))

    eventually(failed, "the preparation to fail", 120)

    def degraded() -> bool:
        return bool(cloud.applications()["solo-ada--eu-1--storage"]["status"]["health"]["status"] == "Degraded")

    eventually(degraded, "its Application to be Degraded", 60)
    cloud.expected["solo-ada--eu-1--storage"] = "Degraded"
    cloud.declare("tenants/solo-ada/instances/beside.yaml", INSTANCE.format(name="beside", labels=""))
    cloud.declare("tenants/solo-ada/storages/good.yaml", STORAGE.format(name="good"))
    cloud.edit("tenants/film-house/instances/preview.yaml", "spec:\n", "spec:\n  description: Goes on.\n")
    cloud.edit("tenants/film-house/storages/loras.yaml", "300Gi", "310Gi")
    cloud.merged()
    eventually(lambda: deployment(cloud, "solo-ada", "beside")["status"].get("readyReplicas") == 1, "a pod", 120)
    eventually(
        lambda: client.get("v1", "PersistentVolumeClaim", "good", "t-solo-ada")["status"]["phase"] == "Bound",
        "the same tenant's other storage",
        60,
    )

    def grown() -> bool:
        claim = client.get("v1", "PersistentVolumeClaim", "loras", "t-film-house")
        return bool(claim["spec"]["resources"]["requests"]["storage"] == "310Gi")

    eventually(grown, "another tenant's storage to grow", 60)
    cloud.changes_synced()


@pytest.mark.parametrize("mistake", ["files", "branch", "applications", "rename", "project"])
def test_no_mistake_loses_a_volume_or_a_namespace(cloud: Cloud, mistake: str) -> None:
    client = cloud.clusters["eu-1"].client
    before = list_retained_uids(client)
    assert len(before) > 12
    source = git(cloud.root, "rev-parse", "HEAD")
    if mistake == "files":
        shutil.rmtree(cloud.root / "tenants")
        cloud.merged()
        assert cloud.running.event("tenant kept", tenant="film-house")
    elif mistake == "rename":
        (cloud.root / "tenants/film-house").rename(cloud.root / "tenants/film-hut")
        for name in ("tenant", "members"):
            cloud.edit(f"tenants/film-hut/{name}.yaml", "name: film-house", "name: film-hut")
        cloud.merged()
    elif mistake == "branch":
        with cloud.publisher_stopped():
            commit = cloud.smuggle("eu-1", {"control": None, "tenants": None, "platform": None, "README": "gone\n"})
            wait_for_a_look(cloud)
            assert list_retained_uids(client) == before
        eventually(lambda: cloud.published()["refs/heads/rendered/eu-1"] != commit, "it to be replaced", 60)
    else:
        kind = "Application" if mistake == "applications" else "AppProject"
        for name in [
            live_object["metadata"]["name"] for live_object in client.list(ARGO, kind, NAMESPACE, rendered.OURS)
        ]:
            if "eu-1" in name and "root" not in name:
                client.delete(ARGO, kind, name, NAMESPACE)
        wait_for_a_look(cloud)
    if mistake in ("files", "rename"):
        cloud.changes_synced()
    else:
        cloud.all_synced()
    after = list_retained_uids(client)
    assert {name: uid for name, uid in before.items() if after.get(name) != uid} == {}
    git(cloud.root, "checkout", "-q", source, "--", ".")
    if (cloud.root / "tenants/film-hut").exists():
        shutil.rmtree(cloud.root / "tenants/film-hut")
    if mistake in ("files", "rename"):
        cloud.merged()
        cloud.changes_synced()
        assert {name: uid for name, uid in before.items() if list_retained_uids(client).get(name) != uid} == {}


def wait_for_a_look(cloud: Cloud) -> None:
    """Wait until Argo CD's root has seen what is there now, and had the time to do harm."""
    for _ in range(2):
        since = datetime.datetime.now(datetime.UTC)

        def looked(since: datetime.datetime = since) -> bool:
            cloud.argocd.refresh("allotment--root--eu-1")
            status = cloud.applications()["allotment--root--eu-1"]["status"]
            return datetime.datetime.fromisoformat(status["reconciledAt"]) > since

        eventually(looked, "Argo CD to look", 60, pause=1)


def test_an_emptied_cluster_is_rebuilt_and_ends_with_the_same(cloud: Cloud) -> None:
    client = cloud.clusters["us-1"].client
    cloud.changes_synced()
    before = inventory(client)
    assert len(before) > 60
    cloud.argocd.cluster.client.delete("v1", "Secret", "cluster-us-1", NAMESPACE)  # else it begins while we empty it

    def unreachable() -> bool:
        names = [name for name in cloud.applications() if name.endswith(("--us-1--storage", "--us-1--compute"))]
        for name in names:
            cloud.argocd.refresh(name)
        return all(cloud.applications()[name]["status"]["sync"]["status"] == "Unknown" for name in names)

    eventually(unreachable, "Argo CD to know no cluster us-1", 60, pause=2)
    rendered.clear(client)
    assert inventory(client) == {}
    cloud.argocd.register(cloud.clusters["us-1"], "us-1")
    for name in cloud.applications():
        cloud.argocd.refresh(name)  # it would look by itself within two minutes
    eventually(lambda: inventory(client).keys() == before.keys(), "all to be there again", 300, pause=1)
    cloud.all_synced()
    assert inventory(client) == before


KINDS = (
    ("v1", "Namespace"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("objectbucket.io/v1alpha1", "ObjectBucketClaim"),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
    ("v1", "ResourceQuota"),
    ("v1", "LimitRange"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("gateway.networking.k8s.io/v1", "ReferenceGrant"),
    ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
    ("gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy"),
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
)


def inventory(client: Client) -> dict[str, tuple[Any, Any]]:
    """Return what each of our objects in a cluster is declared to be."""
    return {
        f"{kind} {live_object['metadata'].get('namespace')}/{live_object['metadata']['name']}": (
            declared(live_object),
            live_object.get("data"),
        )
        for api_version, kind in KINDS
        for live_object in client.list(api_version, kind, labels=rendered.OURS)
    }


def declared(live_object: Object) -> Any:
    """Return an object's spec without what clusters write into it."""
    spec = dict(live_object.get("spec", {}))
    for field in ("clusterIP", "clusterIPs", "volumeName", "selector", "finalizers"):
        spec.pop(field, None)
    template = spec.get("template", {})
    if live_object["kind"] == "Job":  # the Job's own uid is among the labels
        spec["template"] = template.get("spec")
    return spec


def test_where_nothing_reports_a_cluster_no_marked_storage_goes(cloud: Cloud) -> None:
    client = cloud.clusters["us-1"].client
    claim = ("v1", "PersistentVolumeClaim", "old-frames", "t-acme-robotics")
    before = client.get(*claim)["metadata"]["uid"]
    path = cloud.root / "tenants/acme-robotics/storages/old-frames.yaml"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    cloud.merged()
    words = "kept until the status shows that it has been marked for 1h; no reporter watches this cluster, so nothing is removed"
    message = f"us-1: storage acme-robotics/old-frames: {words}"
    cloud.running.event("leaving", message=message)
    cloud.changes_synced()
    live = client.get(*claim)["metadata"]
    assert (live["uid"], live["annotations"]["allotment.dev/protected"]) == (before, "true")
    path.write_text(text, encoding="utf-8")
    cloud.merged()
    cloud.changes_synced()
    assert client.get(*claim)["metadata"]["uid"] == before
