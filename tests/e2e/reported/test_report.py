"""From a merge to a status: a real cluster with Argo CD, `allot run` that publishes and reports, and nobody else."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.billing.periods import parse_moment
from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import (
    Storage,
    UsageInterval,
    parse_capacity_usage,
    parse_cluster_status,
    parse_tenant_status,
)
from allotment.observed.usage_log import parse_usage_log
from tests.controlplane.client import Object
from tests.e2e.cloud import REPOSITORY, Cloud
from tests.e2e.portal import File, declare_empty_tenant, run_portal, use_portal
from tests.support.cloud_status import (
    BRANCH,
    MOUNT,
    OURS,
    TENANT,
    allot,
    file,
    instance,
    pods,
    status,
    steps,
    storage,
    until,
)
from tests.support.published import INSTANCE, STORAGE, git
from tests.support.running_portal import RunningPortal
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


def scheduled_at(pod: Object) -> str:
    conditions = {condition["type"]: condition["lastTransitionTime"] for condition in pod["status"]["conditions"]}
    return str(conditions["PodScheduled"])


def summary(cloud: Cloud) -> str:
    """Return the summary as a forge shows it."""
    return file(cloud, "summary.md").decode().replace("\\", "")


def test_one_merge_brings_an_instance_to_running_and_the_branch_shows_how(cloud: Cloud) -> None:
    cloud.declare(f"tenants/{TENANT}/instances/notes.yaml", INSTANCE.format(name="notes", labels=""))
    source = cloud.merged()
    instance_status = until(cloud, "notes", "Running")
    transitions = steps(cloud, "notes")
    assert [transition.target for transition in transitions][-3:] == ["Init", "Ready", "Running"]
    assert [transition.time for transition in transitions] == sorted(transition.time for transition in transitions)
    assert instance_status.url == f"https://notes--{TENANT}.eu-1.gpu.northlight.example/lab"
    declared = git(cloud.root, "rev-parse", f"HEAD:tenants/{TENANT}/instances/notes.yaml")
    assert instance_status.observed_blob == declared
    (pod,) = pods(cloud, "notes")
    assert instance_status.nodes == (pod["spec"]["nodeName"],)
    conditions = {condition.type: condition.status for condition in instance_status.conditions}
    assert set(conditions) == {"Admitted", "StoragesPrepared", "Synced", "Scheduled", "Started", "Available", "Exposed"}

    def live() -> bool:
        part = next(application for application in status(cloud).applications if application.name == "compute")
        return (part.sync, part.health, part.source_commit) == ("Synced", "Healthy", source)

    assert eventually(live, "the source commit to be told", 60)
    (interval,) = [each for each in status(cloud).usage if each.name == "notes"]
    node = pod["spec"]["nodeName"]
    assert (interval.kind, interval.uid, interval.gpu_spec) == ("GPUInstance", pod["metadata"]["uid"], "l4-quarter")
    assert (interval.start_time, interval.end_time, interval.node) == (scheduled_at(pod), "", node)
    pools = {each.node: each for each in parse_capacity_usage(file(cloud, "capacity.yaml")).usage}
    live_node = cloud.clusters["eu-1"].client.get("v1", "Node", node)
    assert (pools[node].kind, pools[node].uid) == ("NodePool", live_node["metadata"]["uid"])
    assert cloud.root.joinpath("clusters/eu-1/node-pools", f"{pools[node].name}.yaml").exists()
    assert f"{TENANT}/notes" in allot(cloud, "status", TENANT)
    assert "Running" in allot(cloud, "history", f"{TENANT}/notes").splitlines()[-1]


def test_a_storage_is_prepared_and_who_waits_for_it_starts_by_itself(cloud: Cloud) -> None:
    until(cloud, "webui", "Running", "studio-kite")
    storage_status = storage(cloud, "model-cache", "studio-kite")
    assert storage_status.prepare is not None
    assert (storage_status.state, storage_status.prepare.state, storage_status.prepare.exit_code) == (
        "Ready",
        "Succeeded",
        0,
    )
    states = [transition.target for transition in steps(cloud, "webui", "studio-kite")]
    first_start = states[: states.index("Running") + 1]  # a test before may have let it start again
    assert first_start[-4:] == ["Waiting", "Init", "Ready", "Running"]


@pytest.mark.parametrize(
    ("simulate", "reason", "words"),
    [
        ("crash", "CrashLoop", "the container ended with exit code 1 ("),
        ("image-missing", "ImagePullFailed", "image not found: "),
    ],
)
def test_the_status_has_the_reason_of_a_failure(cloud: Cloud, simulate: str, reason: str, words: str) -> None:
    path = f"tenants/{TENANT}/instances/fails.yaml"
    cloud.declare(path, INSTANCE.format(name="fails", labels=f"  labels:\n    simulate: {simulate}\n"))
    cloud.merged()
    try:
        instance_status = until(cloud, "fails", "Failed")
        assert instance_status.message.startswith(words)
        eventually(lambda: instance(cloud, "fails").reason == reason, "its reason", 60)  # of a crash that is one more
        eventually(lambda: words in summary(cloud), "the summary to say so", 60)
        assert f"{TENANT}/fails" in summary(cloud)
    finally:
        (cloud.root / path).unlink()
        cloud.merged()
    eventually(
        lambda: "fails" not in {remaining_instance.name for remaining_instance in status(cloud).instances},
        "it to be gone",
        60,
    )


def test_no_capacity_is_told_as_such(cloud: Cloud) -> None:
    path = f"tenants/{TENANT}/instances/late.yaml"
    client = cloud.clusters["eu-1"].client
    nodes = [node["metadata"]["name"] for node in client.list("v1", "Node")]

    def cordon(closed: bool) -> None:
        for name in nodes:
            client.patch("v1", "Node", name, {"spec": {"unschedulable": closed}})

    cordon(True)
    try:
        cloud.declare(path, INSTANCE.format(name="late", labels=""))
        cloud.merged()
        instance_status = until(cloud, "late", "Waiting")
        assert (instance_status.reason, instance_status.message) == (
            "NoFreeUnit",
            "no unit of l4-quarter is free on eu-1",
        )
    finally:
        cordon(False)
    until(cloud, "late", "Running", seconds=180)
    (cloud.root / path).unlink()
    cloud.merged()


def test_a_failed_preparation_is_told_and_a_new_attempt_starts_who_waits(cloud: Cloud) -> None:
    stored, path = f"tenants/{TENANT}/storages/data.yaml", f"tenants/{TENANT}/instances/reader.yaml"
    cloud.declare(stored, STORAGE.format(name="data") + "        args: [--simulate=first-attempt-fails]\n")
    cloud.declare(path, INSTANCE.format(name="reader", labels="") + MOUNT.format(name="data"))
    cloud.merged()

    def failed() -> Storage:
        storage_status = storage(cloud, "data")
        assert storage_status.state == "Failed", (storage_status.state, storage_status.message)
        return storage_status

    words = "preparation failed in attempt 1: exit 1; `allot recover` tries again"
    storage_status = eventually(failed, "the preparation to fail", 180, pause=1)
    assert storage_status.message == words
    waiting = instance(cloud, "reader")
    assert (waiting.state, waiting.reason, waiting.message) == (
        "Waiting",
        "StorageUnprepared",
        f"storage data: {words}",
    )
    assert pods(cloud, "reader") == []
    suspended = {"status": "Suspended", "message": "preparation of storage data"}

    def health() -> Any:
        tree = cloud.argocd.api(f"applications/{TENANT}--eu-1--compute/resource-tree")["nodes"]
        return next(node for node in tree if (node["kind"], node["name"]) == ("Deployment", "reader")).get("health")

    assert eventually(lambda: health() == suspended, "the waiting instance to be Suspended in Argo CD", 120)
    client = cloud.clusters["eu-1"].client
    before = {job["metadata"]["uid"] for job in client.list("batch/v1", "Job", f"t-{TENANT}")}
    cloud.edit(stored, "  prepare:\n", "  prepare:\n    attempt: 2\n")
    cloud.merged()
    until(cloud, "reader", "Running", seconds=180)
    assert [transition.target for transition in steps(cloud, "reader")][-4:] == ["Waiting", "Init", "Ready", "Running"]
    prepare = storage(cloud, "data").prepare
    assert prepare is not None
    assert (prepare.attempt, prepare.state) == (2, "Succeeded")
    assert prepare.uid not in before
    assert "attempt 2" in allot(cloud, "status", f"{TENANT}/data")


def report_another(cloud: Cloud, data: Path) -> None:
    """Report us-1 once, with the Argo CD of eu-1."""
    words = ["report", "--once", "--cluster", "us-1", "--to", cloud.url, "--data", str(data)]
    words += ["--kubeconfig", str(cloud.clusters["us-1"].kubeconfig)]
    words += ["--argocd-kubeconfig", str(cloud.clusters["eu-1"].kubeconfig)]
    subprocess.run([sys.executable, "-m", "allotment", *words], check=True)


def test_another_cluster_is_reported_with_the_argo_cd_of_this_one(cloud: Cloud, tmp_path: Path) -> None:
    cloud.changes_synced()
    report_another(cloud, tmp_path / "data")
    tenant_status = parse_tenant_status(file(cloud, "tenants/acme-robotics.yaml", "refs/heads/status/us-1"))
    assert {(part.name, part.sync) for part in tenant_status.applications} == {
        ("compute", "Synced"),
        ("storage", "Synced"),
    }
    synced = [
        condition.status
        for storage_status in tenant_status.storages
        for condition in storage_status.conditions
        if condition.type == "Synced"
    ]
    assert synced
    assert set(synced) == {"True"}
    assert "acme-robotics" not in git(cloud.forge, "ls-tree", "--name-only", BRANCH, "tenants/")


def test_nodes_are_replaced_once_instances_were_seen_to_be_protected(cloud: Cloud, tmp_path: Path) -> None:
    """What drifts a pool goes out, since us-1 was reported before; it moves no instance, whose nodes are drifted and stay."""
    client = cloud.clusters["us-1"].client
    report_another(cloud, tmp_path / "data")
    for tenant in ("acme-robotics", "ml-orbit"):
        assert (
            parse_tenant_status(file(cloud, f"tenants/{tenant}.yaml", "refs/heads/status/us-1")).disruption
            == "Protected"
        )

    def running() -> dict[str, str]:
        live_pods = client.list("v1", "Pod", "t-ml-orbit", "allotment.dev/instance=chat")
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in live_pods if pod["status"]["phase"] == "Running"
        }

    def drifted() -> set[str]:
        claims = client.list("karpenter.sh/v1", "NodeClaim", labels="karpenter.sh/nodepool=h100")
        return {
            claim["status"]["nodeName"]
            for claim in claims
            for condition in claim["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Drifted", "True")
        }

    cloud.edit("tenants/ml-orbit/instances/chat.yaml", "replicas: 4", "replicas: 1")  # several copies move, one by one
    cloud.merged()
    cloud.changes_synced()
    before = eventually(
        lambda: nodes_by_uid if len(nodes_by_uid := running()) == 1 else None,
        "the instance of one copy to be alone",
        120,
    )
    cloud.edit("clusters/us-1/node-pools/h100.yaml", "  karpenter:\n", "  generation: 2\n  karpenter:\n")
    cloud.merged()
    eventually(lambda: drifted() & set(before.values()), "the nodes of instances to be drifted", 120)
    time.sleep(20)  # unprotected, an instance was evicted 17 s after that
    assert running() == before


def test_stocks_are_counted(cloud: Cloud) -> None:
    stocks_by_name = {stock.name: stock for stock in parse_cluster_status(file(cloud, "stocks.yaml")).stocks}
    assert len(stocks_by_name) == 6
    quarter = stocks_by_name["l4-quarter"]
    assert quarter.count == quarter.held_units + quarter.free
    assert quarter.held_units > 0
    assert 0 < quarter.ready <= quarter.free
    assert "l4-quarter" in allot(cloud, "status", "--stocks")


def now() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def bill(forge: Path, folder: Path, *words: str, **environment: str) -> str:
    """Return the bill of studio-kite, computed in a fresh clone of a forge on a machine with this environment."""
    git(forge, "clone", "-q", str(forge), str(folder))
    command = [sys.executable, "-m", "allotment", "bill", "studio-kite", *words, "-o", "json", "--repo", str(folder)]
    command += ["--status-url", str(forge)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment).stdout


def test_an_instance_that_ran_was_resized_and_put_on_hold_is_on_the_bill(cloud: Cloud, tmp_path: Path) -> None:
    client = cloud.clusters["eu-1"].client
    path = "tenants/studio-kite/instances/billed.yaml"

    def find_pods() -> dict[str, Object]:
        live_pods = client.list("v1", "Pod", "t-studio-kite", "allotment.dev/instance=billed")
        return {pod["metadata"]["uid"]: pod for pod in live_pods}

    def run(*before: str) -> Object:
        """Return the only pod besides those `before`, once it runs."""

        def find_running() -> Object:
            (pod,) = (pod for uid, pod in find_pods().items() if uid not in before)
            assert pod["status"]["phase"] == "Running"
            return pod

        return eventually(find_running, "a pod to run", 120)

    def wait_until_gone(pod: Object) -> None:
        eventually(lambda: pod["metadata"]["uid"] not in find_pods(), "the pod to be gone", 120)

    cloud.declare(path, INSTANCE.format(name="billed", labels="  labels:\n    project: film\n"))
    cloud.merged()
    quarter = run()
    cloud.edit(path, "gpuSpec: l4-quarter", "gpuSpec: l4-whole")
    resized = now()
    cloud.merged()
    whole = run(quarter["metadata"]["uid"])
    wait_until_gone(quarter)
    cloud.edit(path, "spec:\n", "spec:\n  hold:\n    reason: It sends spam.\n")
    stopped = now()
    cloud.merged()
    wait_until_gone(whole)

    def is_on_hold() -> bool:
        billed = instance(cloud, "billed", "studio-kite")
        return (billed.state, billed.reason, billed.message) == ("Stopped", "OnHold", "on hold: It sends spam.")

    assert eventually(is_on_hold, "the reason to be reported", 60)
    uids = {quarter["metadata"]["uid"], whole["metadata"]["uid"]}

    def find_recorded() -> dict[str, UsageInterval]:
        log = parse_usage_log(file(cloud, "usage/studio-kite.jsonl"))
        ended = {each.uid: each for each in log.intervals if each.uid in uids}
        assert ended.keys() == uids
        return ended

    intervals = eventually(find_recorded, "both uses to be recorded", 60)
    recorded = now()  # the reporter sees a deletion a moment after it happened
    forge, month = tmp_path / "forge.git", stopped[:7]
    git(tmp_path, "clone", "-q", "--mirror", cloud.url, str(forge))
    text = bill(forge, tmp_path / "tokyo", "--month", month, TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
    assert text == bill(forge, tmp_path / "york", "--month", month, TZ="America/New_York", LC_ALL="tr_TR.UTF-8")
    lines = [line for line in json.loads(text)["invoices"][0]["lines"] if line["name"] == "billed"]
    assert [(line["spec"], line["price"], line["labels"]) for line in lines] == [
        ("l4-quarter", 0.21, {"project": "film"}),
        ("l4-whole", 0.84, {"project": "film"}),
    ]
    for line, pod, changed in ((lines[0], quarter, resized), (lines[1], whole, stopped)):
        interval = intervals[pod["metadata"]["uid"]]
        assert interval.start_time == scheduled_at(pod), "the time of the API server"
        assert changed <= interval.end_time <= recorded
        seconds = (parse_moment(interval.end_time) - parse_moment(interval.start_time)) / 3600
        assert line["quantity"] == pytest.approx(seconds, abs=1e-6)
        folder = tmp_path / line["spec"]
        explained = json.loads(bill(forge, folder, "--month", month, "--explain", str(line["line"])))
        (part,) = explained["invoices"][0]["lines"][line["line"] - 1]["parts"]
        assert (part["uid"], part["start"], part["end"]) == (interval.uid, interval.start_time, interval.end_time)
        assert interval.uid in git(forge, "show", f"{part['commit']}:usage/studio-kite.jsonl")


@pytest.fixture(scope="module")
def portal(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPortal]:
    """Return the portal of the cloud, in which new-lab has no resources. Its member bob may push to the repository."""
    cloud.gitea.api(f"repos/{REPOSITORY}/collaborators/bob", {"permission": "write"}, method="PUT")
    declare_empty_tenant(cloud, "new-lab", "bob")
    cloud.merged()
    with run_portal(cloud, tmp_path_factory.mktemp("portal")) as running_portal:
        yield running_portal


def test_a_person_in_a_browser_gets_an_instance(portal: RunningPortal, cloud: Cloud) -> None:
    with use_portal(portal, cloud, "bob") as user:
        page = user.page
        user.open("tenants/new-lab/index.html")
        assert page.get_by_text("There is no instance yet.").is_visible()
        page.get_by_role("link", name="New instance").click()
        page.fill("#name", "first")
        page.select_option("#app", "jupyter")
        page.select_option("#gpuSpec", "l4-quarter")
        new_file = user.read_file()
        assert new_file.path == "tenants/new-lab/instances/first.yaml"
        assert page.get_by_text("press Backspace").is_visible()
        user.open_forge()
        assert user.read_editor() == new_file
        assert user.complete_name() == "first.yaml"
        assert user.read_editor() == new_file
        user.propose()
        user.merge()
        git(cloud.root, "pull", "-q", "--ff-only", cloud.url, "main")
        assert git(cloud.forge, "rev-parse", f"main:{new_file.path}") == compute_blob_id(new_file.text.encode())
        cloud.merged_head()

        def find_url() -> str | None:
            user.open("tenants/new-lab/index.html")
            row = page.get_by_role("row").filter(has=page.get_by_role("link", name="first", exact=True))
            assert "Running" in row.inner_text(timeout=1_000)
            return row.get_by_role("link", name="Open").get_attribute("href", timeout=1_000)

        url = eventually(find_url, "the portal to show the running instance", 120, pause=1)
        user.check_portal()
    assert url == "https://first--new-lab.eu-1.gpu.northlight.example/lab"
    (pod,) = cloud.clusters["eu-1"].client.list("v1", "Pod", "t-new-lab", "allotment.dev/instance=first")
    assert pod["status"]["phase"] == "Running"


def test_a_person_who_may_not_push_proposes_a_storage_from_a_fork(portal: RunningPortal, cloud: Cloud) -> None:
    with use_portal(portal, cloud, "ada") as user:
        user.open("tenants/solo-ada/new-storage.html")
        user.page.fill("#name", "extra")
        user.page.select_option("#storageSpec", "block-ssd")
        user.page.fill("#size", "20Gi")
        new_file = user.read_file()
        assert new_file.path == "tenants/solo-ada/storages/extra.yaml"
        user.open_forge()
        user.fork()
        try:
            assert user.read_editor() == new_file
            assert user.complete_name() == "extra.yaml"
        finally:
            cloud.gitea.delete("ada/cloud")


def test_a_stop_opens_the_file_at_the_forge(portal: RunningPortal, cloud: Cloud) -> None:
    path = f"tenants/{TENANT}/instances/webui.yaml"
    with use_portal(portal, cloud, "bob") as user:
        user.open(f"tenants/{TENANT}/instances/webui.html")
        user.page.locator("summary").click()
        assert user.read_file() == File(path, "  state: Stopped")
        user.open_forge()
        assert user.read_editor() == File(path, (cloud.root / path).read_text(encoding="utf-8"))


def test_the_status_branch_may_be_deleted_and_nothing_that_runs_changes(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    cloud.changes_synced()
    until(cloud, "notes", "Running")

    def running() -> dict[str, Any]:
        live_pods = client.list("v1", "Pod", labels="allotment.dev/instance")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in live_pods}

    before, jobs = running(), {job["metadata"]["uid"] for job in client.list("batch/v1", "Job")}
    tip = cloud.published()[BRANCH]
    git(cloud.root, "push", "-q", cloud.url, f":{BRANCH}", f":{OURS}")
    cloud.edit(f"tenants/{TENANT}/instances/notes.yaml", "spec:\n", "spec:\n  description: Still there.\n")
    cloud.merged()
    new_tip = eventually(lambda: cloud.published().get(BRANCH), "the status to be written again", 120)
    assert new_tip != tip
    cloud.changes_synced()
    assert running() == before
    assert {job["metadata"]["uid"] for job in client.list("batch/v1", "Job")} == jobs


def test_another_replica_takes_over_within_half_a_minute(cloud: Cloud) -> None:
    other = cloud.start_second_publisher()
    try:
        (pod,) = pods(cloud, "notes")
        uid = pod["metadata"]["uid"]
        time.sleep(3)
        assert not other.events("leading")
        assert not other.events("published")
        cloud.running.process.kill()
        begun = time.monotonic()
        other.event("leading")
        assert time.monotonic() - begun < 30
        cloud.edit(f"tenants/{TENANT}/instances/notes.yaml", "spec:\n", "spec:\n  state: Stopped\n")
        cloud.merge()
        other.get("/webhook", b"")
        until(cloud, "notes", "Stopped", seconds=60)
        states = [transition.target for transition in steps(cloud, "notes")]
        assert states[-2:] == ["Running", "Stopped"]
        lines = git(cloud.forge, "log", "--format=%s", BRANCH).splitlines()
        assert lines.count(f"{TENANT}/notes: Running → Stopped") <= 1, "nobody tells it twice"

        def ended() -> UsageInterval | None:
            assert uid not in {each.uid for each in status(cloud).usage}
            log = parse_usage_log(file(cloud, f"usage/{TENANT}.jsonl"))
            return next(each for each in log.intervals if each.uid == uid)

        interval = eventually(ended, "the end of its usage to be recorded", 60)
        assert (interval.start_time, interval.node) == (scheduled_at(pod), pod["spec"]["nodeName"])
        assert interval.start_time < interval.end_time
    finally:
        cloud.running.process.wait()
        cloud.follow(other)
