"""Faults of people and programs that were seen to do harm, one after the other on one cloud that reports both of its clusters."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import psutil
import pytest

from allotment.manifests import argo_folders, names
from tests.controlplane import processes, rendered
from tests.controlplane.argocd import ARGO, NAMESPACE
from tests.controlplane.client import Client, Object
from tests.e2e import oracle
from tests.e2e.cloud import Cloud
from tests.support.cloud_objects import missing
from tests.support.cloud_recovery import brought_back
from tests.support.cloud_status import MOUNT, instance, status, storage, until
from tests.support.cloud_storage import ready
from tests.support.published import INSTANCE, STORAGE, git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

ADA, SPACE = "solo-ada", "t-solo-ada"
CASCADE = "resources-finalizer.argocd.argoproj.io"
ADMISSION = "admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def cloud(
    start_cloud: Callable[..., AbstractContextManager[Cloud]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """Return a cloud that reports both clusters; what is marked for deletion may go after ten seconds."""
    edits = (
        ("platform/platform.yaml", "  images:\n", "  deletion:\n    after: 10s\n  images:\n"),
        ("platform/platform.yaml", "maxDeletedPercent: 30", "maxDeletedPercent: 100"),
    )
    with start_cloud(edits=edits) as shared_cloud:
        folder, clusters = tmp_path_factory.mktemp("reporter"), shared_cloud.clusters
        words = ["report", "--cluster", "us-1", "--to", shared_cloud.url, "--data", str(folder / "us-1")]
        words += ["--interval", "1", "--kubeconfig", str(clusters["us-1"].kubeconfig)]
        words += ["--argocd-kubeconfig", str(clusters["eu-1"].kubeconfig)]
        with (folder / "us-1.log").open("wb") as log_file:
            reporter = subprocess.Popen(
                [sys.executable, "-m", "allotment", *words], stdout=log_file, stderr=subprocess.STDOUT
            )
        try:
            yield shared_cloud
        finally:
            reporter.kill()
            reporter.wait()


def uids(client: Client, api_version: str, kind: str, namespace: str | None = None, labels: str = "") -> dict[str, str]:
    """Return the identity of each object by its name; there is at least one."""
    uids_by_name = {
        f"{live_object['metadata'].get('namespace') or ''}/{live_object['metadata']['name']}": live_object["metadata"][
            "uid"
        ]
        for live_object in client.list(api_version, kind, namespace, labels)
    }
    assert uids_by_name, f"there is no {kind}"
    return uids_by_name


def running(client: Client, name: str, space: str = SPACE) -> dict[str, str]:
    """Return the running pods of an instance, by name."""
    pods = client.list("v1", "Pod", space, f"{names.INSTANCE}={name}")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running"}


def test_node_pools_are_in_their_cluster_and_buy_nodes_for_the_stock(cloud: Cloud) -> None:
    client = cloud.clusters["us-1"].client
    declared = {
        identity.name
        for identity in oracle.list_declared_objects(cloud)
        if (identity.cluster, identity.kind) == ("us-1", "NodePool")
    }
    assert len(declared) >= 2

    def pools_exist() -> bool:
        pool_uids = uids(client, "karpenter.sh/v1", "NodePool", labels=rendered.OURS)
        assert {name.removeprefix("/") for name in pool_uids} == declared, pool_uids
        return True

    eventually(pools_exist, "every declared node pool", 120)

    def placeholders_have_nodes() -> bool:
        stocks = {
            deployment["metadata"]["name"]: deployment
            for deployment in client.list("apps/v1", "Deployment", names.STOCK_NAMESPACE)
        }
        assert stocks
        left = {
            name: deployment["status"].get("readyReplicas", 0)
            for name, deployment in stocks.items()
            if deployment["status"].get("readyReplicas", 0) < deployment["spec"]["replicas"]
        }
        assert not left, left
        return True

    eventually(placeholders_have_nodes, "every placeholder to have a node", 180, pause=1)
    nodes = client.list("v1", "Node", labels=names.POOL)
    assert {node["metadata"]["labels"][names.POOL] for node in nodes} <= declared
    assert nodes


def test_a_resource_removed_in_the_merge_that_adds_a_similar_one_is_deleted(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    path = f"tenants/{ADA}/instances/byebye.yaml"
    cloud.declare(path, INSTANCE.format(name="byebye", labels=""))
    cloud.merged()
    before = eventually(lambda: running(client, "byebye"), "it to run", 120)
    (cloud.root / path).unlink()
    cloud.declare("tenants/uni-lab/instances/byebye.yaml", INSTANCE.format(name="byebye", labels=""))
    cloud.merged()  # and no Application is asked to look
    eventually(lambda: missing(client, "apps/v1", "Deployment", "byebye", SPACE), "the first to go", 60)
    eventually(lambda: not running(client, "byebye"), "its pod to end", 60)
    after = eventually(lambda: running(client, "byebye", "t-uni-lab"), "the second to run", 120)
    assert not before.keys() & after.keys()
    (cloud.root / "tenants/uni-lab/instances/byebye.yaml").unlink()
    cloud.merged()


def test_a_file_that_moves_between_any_folders_leaves_nothing_behind(cloud: Cloud) -> None:
    """By commits as the publisher would write them, each file one folder on: for Git all of it is renames."""
    client, cluster = cloud.clusters["eu-1"].client, "eu-1"
    spaces = {
        "control": NAMESPACE,
        "control/argo/m": NAMESPACE,
        "control/argo/s": NAMESPACE,
        **dict.fromkeys(("control/namespaces/m", "control/namespaces/s"), names.STOCK_NAMESPACE),
        **dict.fromkeys(("platform/cluster", "platform/node-pools", "platform/stock"), names.STOCK_NAMESPACE),
        **{
            f"tenants/{tenant}/{part}": f"t-{tenant}"
            for tenant in ("ml-orbit", "studio-kite")
            for part in ("storage", "compute")
        },
    }
    places = list(spaces)

    def moved(step: int) -> dict[str, str | None]:
        """Return what changes: the file of each folder now lies `step` folders on, those of the last step are gone."""
        changes: dict[str, str | None] = {}
        for number, folder in enumerate(places):
            changes[f"{places[(number + step) % len(places)]}/moved-{number}.rendered.yaml"] = text(
                number, folder, step
            )
        return changes

    def text(number: int, folder: str, step: int) -> str:
        space = spaces[places[(number + step) % len(places)]]
        lines = "".join(f"  line-{line}: what is alike in {folder}\n" for line in range(20))
        return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: moved-{number}-{step}\n  namespace: {space}\ndata:\n{lines}"

    def list_moved() -> set[tuple[str, str]]:
        config_maps = client.list("v1", "ConfigMap")
        return {
            (config_map["metadata"]["namespace"], config_map["metadata"]["name"])
            for config_map in config_maps
            if config_map["metadata"]["name"].startswith("moved-")
        }

    def lies_as(step: int) -> bool:
        wanted = {
            (spaces[places[(number + step) % len(places)]], f"moved-{number}-{step}") for number in range(len(places))
        }
        assert list_moved() == wanted, sorted(list_moved() ^ wanted)[:6]
        return True

    with cloud.publisher_stopped():
        last: dict[str, str | None] = {}
        for step in (0, 1, 5):
            changes = {**dict.fromkeys(last), **moved(step)}
            cloud.smuggle(cluster, changes, marks=places)
            last = moved(step)
            eventually(partial(lies_as, step), f"step {step} to be in the cluster", 120, pause=1)
    eventually(lambda: not list_moved(), "all of it to be gone once the publisher is back", 120, pause=1)
    cloud.all_synced()


def test_a_rewound_or_emptied_branch_prepares_nothing_again_and_no_instance_starts_beside(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    git(cloud.root, "fetch", "-q", cloud.url, "refs/heads/rendered/eu-1")
    before = git(cloud.root, "rev-parse", "FETCH_HEAD")
    cloud.declare(f"tenants/{ADA}/storages/kept.yaml", STORAGE.format(name="kept"))
    reader = INSTANCE.format(name="reader", labels="") + MOUNT.format(name="kept")
    cloud.declare(f"tenants/{ADA}/instances/reader.yaml", reader)
    cloud.merged()
    until(cloud, "reader", "Running", ADA, 180)
    jobs = uids(client, "batch/v1", "Job", labels=names.STORAGE)
    claims = uids(client, "v1", "PersistentVolumeClaim", labels=names.STORAGE)
    mine = running(client, "reader")
    assert any("/kept--prepare-" in name for name in jobs)

    with cloud.publisher_stopped():
        git(cloud.root, "push", "-q", "--force", cloud.url, f"{before}:refs/heads/rendered/eu-1")
        eventually(lambda: missing(client, "apps/v1", "Deployment", "reader", SPACE), "Argo CD to prune it", 120)
    brought_back(cloud)
    misused: list[str] = []

    def runs() -> dict[str, str]:
        misused.extend(oracle.misused_volumes(client))
        return running(client, "reader")

    after = eventually(runs, "the instance to run again", 120, pause=0.1)
    assert not after.keys() & mine.keys()
    assert misused == []
    cloud.all_synced()
    assert uids(client, "batch/v1", "Job", labels=names.STORAGE) == jobs
    assert uids(client, "v1", "PersistentVolumeClaim", labels=names.STORAGE) == claims

    # Emptied down to the markers, so that Argo CD prunes all that it may.
    parts = [f"tenants/{ADA}/{part}" for part in ("storage", "compute")]
    files = [path for path, _ in oracle.published(cloud, "eu-1") if argo_folders.folder_of(path) in parts]
    emptied = dict.fromkeys({path for path in files if not path.endswith("/allotment--marker.rendered.yaml")})
    assert len(emptied) > 4
    with cloud.publisher_stopped():
        commit = cloud.smuggle("eu-1", dict(emptied), marks=parts)
        eventually(lambda: missing(client, "apps/v1", "Deployment", "reader", SPACE), "Argo CD to prune it", 120)
    replaced(cloud, commit)
    eventually(runs, "the instance to run again", 120, pause=0.1)
    assert misused == []
    cloud.all_synced()
    assert uids(client, "batch/v1", "Job", labels=names.STORAGE) == jobs
    assert uids(client, "v1", "PersistentVolumeClaim", labels=names.STORAGE) == claims


def seen(cloud: Cloud, name: str) -> None:
    """Wait until an Application has seen the branch as it is, and syncs nothing of before: that would bring back what is deleted."""
    cloud.argocd.refresh(name)

    def is_seen() -> bool:
        application_status = cloud.argocd.application(name)["status"]
        tip = cloud.published()["refs/heads/rendered/eu-1"]
        return bool(
            application_status["sync"]["revision"] == tip and application_status["operationState"]["phase"] != "Running"
        )

    eventually(is_seen, f"{name} to see the branch", 60)


def replaced(cloud: Cloud, commit: str) -> None:
    """Wait until a commit of somebody else's isn't the tip of the branch any more."""
    eventually(lambda: cloud.published()["refs/heads/rendered/eu-1"] != commit, "it to be replaced", 60)


def test_another_attempt_replaces_the_last_job_once_that_was_let_go(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    path = f"tenants/{ADA}/storages/twice.yaml"
    cloud.declare(path, STORAGE.format(name="twice") + "        args: [--simulate=first-attempt-fails]\n")
    cloud.merged()

    def failed() -> bool:
        return storage(cloud, "twice", ADA).state == "Failed"

    eventually(failed, "the preparation to fail", 180, pause=1)
    (first,) = uids(client, "batch/v1", "Job", SPACE, f"{names.STORAGE}=twice")
    git(cloud.root, "fetch", "-q", cloud.url, "refs/heads/rendered/eu-1")
    before = git(cloud.root, "rev-parse", "FETCH_HEAD")
    cloud.edit(path, "  prepare:\n", "  prepare:\n    attempt: 2\n")
    cloud.merged()
    ready(cloud, "twice", ADA)
    (second,) = uids(client, "batch/v1", "Job", SPACE, f"{names.STORAGE}=twice")
    assert (first[-2:], second[-2:]) == ("-1", "-2")

    # Wound back behind the attempt, the first Job is made anew. It says nothing about the volume, and stays until somebody deletes it.
    with cloud.publisher_stopped():
        git(cloud.root, "push", "-q", "--force", cloud.url, f"{before}:refs/heads/rendered/eu-1")
        eventually(
            lambda: len(uids(client, "batch/v1", "Job", SPACE, f"{names.STORAGE}=twice")) == 2, "it to be back", 120
        )
    brought_back(cloud)
    seen(cloud, f"{ADA}--eu-1--storage")

    def second_attempt_counts() -> bool:
        storage_status = storage(cloud, "twice", ADA)
        assert storage_status.prepare is not None
        assert (storage_status.state, storage_status.prepare.attempt, storage_status.prepare.state) == (
            "Ready",
            2,
            "Succeeded",
        ), storage_status
        return True

    assert eventually(second_attempt_counts, "the second attempt to count", 60)
    for api_version, kind in (("batch/v1", "Job"), ("v1", "ConfigMap")):
        client.delete(api_version, kind, first.partition("/")[2], SPACE)
    cloud.all_synced()


@contextmanager
def status_away(cloud: Cloud, cluster: str) -> Iterator[None]:
    """Remove a cluster's status, and keep whoever reports it from writing it again: a ref of its name is a folder meanwhile."""
    refs = [f"refs/heads/status/{cluster}", f"refs/allotment/status/{cluster}"]
    blocks = [f"{ref}/away" for ref in refs]
    commit = git(cloud.root, "rev-parse", "HEAD")

    def removed() -> bool:
        published_refs = cloud.published()
        for ref in published_refs.keys() & refs:
            git(cloud.root, "push", "-q", cloud.url, f":{ref}")
        git(cloud.root, "push", "-q", cloud.url, *(f"{commit}:{block}" for block in blocks))
        return not cloud.published().keys() & refs

    eventually(removed, "the status to be away", 60, pause=0)
    try:
        yield
    finally:
        git(cloud.root, "push", "-q", cloud.url, *(f":{block}" for block in blocks))


def test_a_lost_status_closes_no_share(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    ready(cloud, "base-models", "northlight")
    policy = ("networking.k8s.io/v1", "NetworkPolicy", "share--base-models", "t-northlight")
    share = eventually(lambda: client.get(*policy)["metadata"]["uid"], "the share to be open", 120)
    with status_away(cloud, "eu-1"):
        cloud.edit(f"tenants/{ADA}/storages/models.yaml", "spec:\n", "spec:\n  description: Mine.\n")
        cloud.merged()
        git(cloud.root, "fetch", "-q", cloud.url, "refs/allotment/published/eu-1")
        assert "Status-Commit" not in git(cloud.root, "log", "-1", "--format=%B", "FETCH_HEAD"), "published without"
    cloud.all_synced()
    assert client.get(*policy)["metadata"]["uid"] == share
    eventually(lambda: status(cloud, "northlight").storages, "the status to be written again", 120)


@pytest.mark.parametrize("part", ["platform", "node-pools", "stock", "namespaces-u", "argo-u"])
def test_an_application_that_is_deleted_with_its_cascade_takes_nothing_along(cloud: Cloud, part: str) -> None:
    name, cluster = f"allotment--{part}--us-1" if part == "node-pools" else f"allotment--{part}--eu-1", "eu-1"
    hub = cloud.argocd.cluster.client
    client = cloud.clusters["us-1" if part == "node-pools" else cluster].client
    kinds = (
        (ADMISSION, "ValidatingAdmissionPolicy"),
        (ADMISSION, "ValidatingAdmissionPolicyBinding"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy"),
        ("gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("v1", "Namespace"),
        ("v1", "ResourceQuota"),
        ("apps/v1", "Deployment"),
        *((("karpenter.sh/v1", "NodePool"),) if part == "node-pools" else ()),
    )

    def list_tenant_uids() -> dict[str, dict[str, str]]:
        uids_by_kind = {kind: uids(client, version, kind, labels=rendered.OURS) for version, kind in kinds}
        uids_by_kind["AppProject"] = uids(hub, ARGO, "AppProject", NAMESPACE, rendered.OURS)
        uids_by_kind["Pod"] = uids(client, "v1", "Pod", labels=names.INSTANCE)
        return uids_by_kind

    before, was = list_tenant_uids(), cloud.argocd.application(name)["metadata"]["uid"]
    hub.patch(ARGO, "Application", name, {"metadata": {"finalizers": [CASCADE]}}, NAMESPACE)
    hub.delete(ARGO, "Application", name, NAMESPACE)
    begun = time.monotonic()

    def healed() -> bool:
        application = cloud.argocd.application(name)
        return application["metadata"]["uid"] != was and "deletionTimestamp" not in application["metadata"]

    eventually(healed, "the root to bring it back", 180)
    print(f"\n{name} was back after {time.monotonic() - begun:.0f} s")
    assert list_tenant_uids() == before
    cloud.all_synced()
    assert list_tenant_uids() == before


def test_the_status_names_a_removed_resource_that_still_runs(cloud: Cloud) -> None:
    """With Argo CD's controller stopped nothing is pruned: nobody but the reporter can tell."""
    path = f"tenants/{ADA}/instances/stays.yaml"
    cloud.declare(path, INSTANCE.format(name="stays", labels=""))
    cloud.merged()
    until(cloud, "stays", "Running", ADA)
    controller = argo_controller(cloud)
    controller.send_signal(signal.SIGSTOP)
    try:
        (cloud.root / path).unlink()
        cloud.merged()

        def removal_is_reported() -> bool:
            instance_status = instance(cloud, "stays", ADA)
            assert instance_status.reason == "RemovedStillRunning", (
                instance_status.state,
                instance_status.reason,
                instance_status.message,
            )
            return instance_status.state == "Running" and instance_status.message.startswith("removed, still running: ")

        assert eventually(removal_is_reported, "the status to say so", 240, pause=2)
        assert cloud.running.metric('allotment_removed_still_running{cluster="eu-1"}') == 1
    finally:
        controller.send_signal(signal.SIGCONT)
    client = cloud.clusters["eu-1"].client
    eventually(lambda: missing(client, "apps/v1", "Deployment", "stays", SPACE), "it to go", 180)
    eventually(
        lambda: "stays" not in {instance_status.name for instance_status in status(cloud, ADA).instances},
        "the status to forget it",
        60,
    )
    cloud.all_synced()


def argo_controller(cloud: Cloud) -> psutil.Process:
    """Return the process of Argo CD's application controller."""
    part = "argocd-application-controller"
    folder = cloud.argocd.cluster.folder
    (controller,) = [
        process
        for process in processes.running(folder)
        if process.environ().get("ARGOCD_BINARY_NAME") == part and "--app-resync" in process.cmdline()
    ]
    return controller


def test_merges_that_nobody_published_arrive_at_once(cloud: Cloud) -> None:
    """Publisher and reporter are down through three merges, the second of which the third takes back."""
    client = cloud.clusters["eu-1"].client
    path = f"tenants/{ADA}/instances/{{}}.yaml"
    with cloud.publisher_stopped():
        cloud.declare(path.format("first"), INSTANCE.format(name="first", labels=""))
        cloud.merge()
        cloud.declare(path.format("second"), INSTANCE.format(name="second", labels=""))
        cloud.merge()
        (cloud.root / path.format("second")).unlink()
        cloud.edit(path.format("first"), "spec:\n", "spec:\n  description: The third.\n")
        cloud.merge()
        assert missing(client, "apps/v1", "Deployment", "first", SPACE)
    eventually(lambda: running(client, "first"), "the first to run", 120)
    until(cloud, "first", "Running", ADA)
    declared = git(cloud.root, "rev-parse", f"HEAD:{path.format('first')}")
    eventually(lambda: instance(cloud, "first", ADA).observed_blob == declared, "the newest version to be live", 60)
    assert missing(client, "apps/v1", "Deployment", "second", SPACE)
    (cloud.root / path.format("first")).unlink()
    cloud.merged()
    cloud.all_synced()


def test_a_tenant_that_is_renamed_keeps_what_runs_under_its_old_name(cloud: Cloud) -> None:
    client, source = cloud.clusters["eu-1"].client, git(cloud.root, "rev-parse", "HEAD")
    pods = uids(client, "v1", "Pod", "t-film-house", names.INSTANCE)
    (cloud.root / "tenants/film-house").rename(cloud.root / "tenants/film-hut")
    for name in ("tenant", "members"):
        cloud.edit(f"tenants/film-hut/{name}.yaml", "name: film-house", "name: film-hut")
    cloud.merged()
    assert cloud.running.event("tenant kept", tenant="film-house")
    cloud.all_synced()
    assert uids(client, "v1", "Pod", "t-film-house", names.INSTANCE) == pods
    assert oracle.oversold(client) == []
    git(cloud.root, "checkout", "-q", source, "--", ".")
    shutil.rmtree(cloud.root / "tenants/film-hut")
    cloud.merged()
    for storage_file in sorted((cloud.root / "tenants/film-house/storages").glob("*.yaml")):
        assert storage_file.exists()


def test_all_tenants_leave_and_nothing_of_ours_stays_of_them(cloud: Cloud) -> None:
    """In two merges; in the middle of it Argo CD's controller is killed, and begins again."""
    for file in [*cloud.root.glob("tenants/*/storages/*.yaml"), *cloud.root.glob("tenants/*/snapshots/*.yaml")]:
        text = file.read_text(encoding="utf-8")
        if "deletionPolicy: Delete" not in text:
            file.write_text(text.replace("spec:\n", "spec:\n  deletionPolicy: Delete\n", 1), encoding="utf-8")
    for file in cloud.root.glob("tenants/*/tenant.yaml"):
        file.write_text(
            file.read_text(encoding="utf-8").replace("spec:\n", "spec:\n  lifecycle: Retired\n", 1), encoding="utf-8"
        )
    for file in cloud.root.glob("tenants/*/instances/*.yaml"):
        file.unlink()
    cloud.edit("clusters/eu-1/stocks/l4-whole-kite.yaml", "  tenant: studio-kite\n", "")
    cloud.merged()
    cloud.all_synced()
    volumes = {
        name: uids(test_cluster.client, "v1", "PersistentVolumeClaim", labels=names.STORAGE)
        for name, test_cluster in cloud.clusters.items()
    }
    assert all(volumes.values())
    shutil.rmtree(cloud.root / "tenants")
    cloud.merged()
    controller = argo_controller(cloud)
    command, environment = controller.cmdline(), controller.environ()

    def second_step() -> bool:
        """Whether a volume is let go, and there still."""
        return any(
            claim["metadata"]["annotations"].get(names.PROTECTED) == "false"
            for claim in cloud.clusters["eu-1"].client.list("v1", "PersistentVolumeClaim", labels=names.STORAGE)
        )

    eventually(second_step, "a volume to be let go", 300, pause=0.2)
    controller.kill()
    psutil.wait_procs([controller], 10)
    processes.start(cloud.argocd.cluster.folder, "argocd-application-controller-again", command, environment)

    def left() -> dict[str, Any]:
        leftovers: dict[str, Any] = {}
        for name, test_cluster in cloud.clusters.items():
            for api_version, kind in test_cluster.client.kinds():
                of_tenants: list[Object] = test_cluster.client.list(api_version, kind, labels=names.TENANT)
                if of_tenants:
                    leftovers[f"{name} {kind}"] = [each["metadata"]["name"] for each in of_tenants][:3]
        return leftovers

    def nothing_left() -> bool:
        leftovers = left()
        assert not leftovers, leftovers
        return True

    eventually(nothing_left, "nothing of any tenant to be left", 900, pause=3)
    for cluster in cloud.clusters:
        paths = [path for path, _ in oracle.published(cloud, cluster)]
        assert paths
        assert not [path for path in paths if path.startswith("tenants/")]
    cloud.all_synced()
