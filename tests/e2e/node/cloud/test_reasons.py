"""Why an instance doesn't run, as a real kubelet brings it about and the status branch tells it: one merge, all kinds of trouble."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from allotment.manifests import names
from allotment.observed.conditions import seconds_between
from allotment.observed.status import Instance, Storage, parse_tenant_status
from tests.controlplane import images, node
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.e2e.cloud import Cloud
from tests.e2e.node.conftest import SPACE, TENANT, declare_all, in_pod
from tests.support.cloud_status import BRANCH, file, instance, steps, storage
from tests.support.published import EMPTY_STORAGE, git
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
UNIT = "nvidia.com/gpu.shared"
SHELL = f"registry.example/tools/shell:1@sha256:{'1' * 64}"
ABSENT = f"registry.example/tools/absent:1@sha256:{'404' + '2' * 61}"
PRIVATE = f"registry.example/private/thing:1@sha256:{'3' * 64}"
INSTANCE = """\
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata: {{name: {name}}}
spec:
  cluster: eu-1
  gpuSpec: l4-sliver
  container:
    image: {image}
{container}"""
BUCKET = EMPTY_STORAGE.format(name="box").replace("block-ssd", "objects")
PROBED = """\
    ports: [{{name: http, containerPort: 8080, protocol: HTTP, exposure: Namespace}}]
    probe: {{httpGet: {{path: /, port: http}}, startTimeout: {seconds}s}}
"""
ANSWERS = "trap exit TERM; mkdir /tmp/www; echo well > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www & "
WAITS = "trap exit TERM; sleep infinity & wait"
FILLED = """\
  prepare:
    timeout: {seconds}s
    source: {{image: {{image: "{image}", command: [/bin/sh, -c], args: [{script}]}}}}
"""
FILES = EMPTY_STORAGE.replace("block-ssd", "shared-files").replace("20Gi", "50Gi")


def runs(script: str, more: str = "") -> tuple[str, str]:
    """Return the image, and what else is declared, of a container that runs a script."""
    return SHELL, f"    command: [/bin/sh, -c, {json.dumps(script)}]\n{more}"


TROUBLE = {
    "absent": (ABSENT, ""),
    "private": (PRIVATE, ""),
    "no-command": (SHELL, "    command: [/bin/absent]\n"),
    "no-secret": runs(WAITS, "  buckets: [{name: box}]\n"),
    "ends": runs("sleep 12; exit 3"),
    "crashes": runs("exit 4"),
    # A container that runs for ten seconds would be Running between: one buffer fills its memory at once.
    "greedy": runs("exec dd if=/dev/zero of=/dev/null bs=1G"),
    "hoards": runs(f"{WAITS.partition(';')[0]}; dd if=/dev/zero of=/tmp/full bs=1M count=400; sleep infinity & wait"),
    "silent": runs(WAITS, PROBED.format(seconds=20)),
    "quiet": runs(ANSWERS + "sleep 30; kill $!; sleep infinity & wait", PROBED.format(seconds=60)),
    "well": runs(ANSWERS + "wait", PROBED.format(seconds=60)),
}
STORAGES = {
    "late": FILLED.format(seconds=8, image=SHELL, script="sleep 60"),
    "unfilled": FILLED.format(seconds=90, image=ABSENT, script="exit 0"),
}


def declared(name: str) -> str:
    """Return the declaration of an instance in trouble."""
    image, container = TROUBLE.get(name, TROUBLE["well"])
    return INSTANCE.format(name=name, image=image, container=container)


def path(name: str, kind: str = "instances") -> str:
    return f"tenants/{TENANT}/{kind}/{name}.yaml"


@pytest.fixture(scope="module")
def cloud(real_cloud: Cloud, real_node: Node) -> Iterator[Cloud]:
    """Return the cloud, in which one merge has declared everything that fails. In the end the instances are stopped, since the brake
    would let nobody delete as many, and the storages are filled."""
    node.take_in(real_node.world, {SHELL: images.busybox("/bin/sh")})
    storages = {name: FILES.format(name=name) + filled for name, filled in STORAGES.items()}
    named = {path(name, "storages"): text for name, text in {**storages, "box": BUCKET}.items()}
    declare_all(real_cloud, {**{path(name): declared(name) for name in TROUBLE}, **named})
    yield real_cloud
    second_attempt = FILLED.format(seconds=60, image=SHELL, script="exit 0").replace(
        "timeout", "attempt: 2\n    timeout"
    )
    stopped = {
        path(name): declared(name).replace("spec:\n", "spec:\n  state: Stopped\n") for name in (*TROUBLE, "refused")
    }
    mended = {path(name, "storages"): FILES.format(name=name) + second_attempt for name in STORAGES}
    declare_all(real_cloud, stopped | mended)
    for name in (*TROUBLE, "refused"):
        wait_for_reason(real_cloud, name, "StoppedAsDeclared")
    for name in STORAGES:
        filled(real_cloud, name, "Ready")
    real_cloud.all_synced()


def wait_for_reason(cloud: Cloud, name: str, *reasons: str, seconds: float = 90) -> Instance:
    """Return an instance's status once it has one of these reasons."""

    def find_instance() -> Instance | None:
        instance_status = instance(cloud, name, TENANT)
        assert instance_status.reason in reasons, (
            instance_status.state,
            instance_status.reason,
            instance_status.message,
        )
        return instance_status

    return eventually(find_instance, f"{name} to be {reasons}", seconds, pause=0.5)


def filled(cloud: Cloud, name: str, *words: str) -> Storage:
    """Return a storage's status once its state or reason is one of these."""

    def find_storage() -> Storage | None:
        storage_status = storage(cloud, name, TENANT)
        assert {storage_status.state, storage_status.reason} & {*words}, (
            storage_status.state,
            storage_status.reason,
            storage_status.message,
        )
        return storage_status

    return eventually(find_storage, f"{name} to be {words}", 90, pause=0.5)


def reasons(cloud: Cloud, name: str) -> list[tuple[str, str]]:
    """Return every state and reason that the branch ever told of an instance, the first first."""
    state_reasons: list[tuple[str, str]] = []
    for commit in git(cloud.forge, "rev-list", "--reverse", BRANCH, "--", f"tenants/{TENANT}.yaml").splitlines():
        seen = parse_tenant_status(file(cloud, f"tenants/{TENANT}.yaml", commit)).instances
        state_reasons += [
            (instance_status.state, instance_status.reason) for instance_status in seen if instance_status.name == name
        ]
    return [
        state_reason
        for number, state_reason in enumerate(state_reasons)
        if state_reasons[number - 1 : number] != [state_reason]
    ]


def pods(real_node: Node, name: str) -> list[Object]:
    return real_node.cluster.client.list("v1", "Pod", SPACE, f"{names.INSTANCE}={name}")


def one_that_runs(real_node: Node, name: str) -> Object:
    (running_pod,) = [pod for pod in pods(real_node, name) if pod["status"]["phase"] == "Running"]
    return running_pod


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("absent", "ImagePullFailed", f"image not found: {ABSENT}"),
        ("private", "ImagePullUnauthorized", f"the registry denies access to image {PRIVATE}"),
        ("no-command", "ConfigFailed", "the container can't be created: its command isn't in the image"),
        ("no-secret", "ConfigFailed", "the container can't be created: it has no Secret box"),
    ],
)
def test_the_status_keeps_the_reason_of_an_instance_that_never_starts(
    cloud: Cloud, name: str, reason: str, words: str
) -> None:
    instance_status = wait_for_reason(cloud, name, reason)
    assert (instance_status.state, instance_status.message, instance_status.ready_replicas) == ("Failed", words, 0)
    assert ("Failed", reason) == reasons(cloud, name)[-1]
    states = [state for state, _ in reasons(cloud, name)]
    assert set(states) - {"Waiting"} == {"Init", "Failed"}
    assert "Waiting" not in states[states.index("Failed") :], "a busy scheduler lets its pod wait, but only before"


def restarted(cloud: Cloud, name: str, *reasons: str) -> Instance:
    """Return the status of what was restarted twice, and so waits for its next try."""

    def find_restarted() -> Instance | None:
        instance_status = wait_for_reason(cloud, name, *reasons)
        return instance_status if instance_status.restarts >= 2 else None

    return eventually(find_restarted, f"{name} to be restarted", 60, pause=0.5)


def test_an_instance_that_ends_at_once_is_a_crash_loop_and_not_running_between(cloud: Cloud) -> None:
    instance_status = restarted(cloud, "crashes", "CrashLoop")
    assert (instance_status.state, instance_status.ready_replicas) == ("Failed", 0)
    assert instance_status.message == f"the container ended with exit code 4 ({instance_status.restarts} restarts)"
    seen = reasons(cloud, "crashes")
    failed = [number for number, (state, _) in enumerate(seen) if state == "Failed"]
    assert {reason for _, reason in seen[failed[0] :]} <= {"ContainerEnded", "CrashLoop"}


def test_the_status_names_an_instance_that_exhausts_its_memory(cloud: Cloud) -> None:
    instance_status = restarted(cloud, "greedy", "OutOfMemory")
    assert instance_status.state == "Failed"
    assert (
        instance_status.message
        == f"the container exceeded the memory of its unit and was killed ({instance_status.restarts} restarts)"
    )
    seen = reasons(cloud, "greedy")
    assert set(seen[seen.index(("Failed", "OutOfMemory")) :]) == {("Failed", "OutOfMemory")}


def test_a_pod_that_fills_the_disk_of_its_node_is_evicted_and_no_other(cloud: Cloud, real_node: Node) -> None:
    neighbours = {name: one_that_runs(real_node, name)["metadata"]["uid"] for name in ("well", "quiet")}

    def find_evicted_pod() -> Object | None:
        evicted = [pod for pod in pods(real_node, "hoards") if pod["status"].get("reason") == "Evicted"]
        return evicted[0] if evicted else None

    pod = eventually(find_evicted_pod, "the kubelet to evict the pod that fills its disk", 180, pause=0.5)
    assert "ephemeral" in pod["status"]["message"], pod["status"]["message"]

    def is_in_history() -> bool:
        commits = git(cloud.forge, "rev-list", BRANCH, "--", f"tenants/{TENANT}.yaml").splitlines()
        words = b"its files outside of volumes exceeded their limit, so its node evicted it"
        return any(words in file(cloud, f"tenants/{TENANT}.yaml", commit) for commit in commits)

    eventually(is_in_history, "the status to say why the pod was evicted", 90, pause=0.5)
    for name, uid in neighbours.items():
        assert one_that_runs(real_node, name)["metadata"]["uid"] == uid


def test_an_instance_that_ended_after_a_while_runs_again(cloud: Cloud) -> None:
    instance_status = wait_for_reason(cloud, "ends", "ContainerEnded", "CrashLoop")
    restarts = f"{instance_status.restarts} restart{'' if instance_status.restarts == 1 else 's'}"
    assert (instance_status.state, instance_status.message) == (
        "Failed",
        f"the container ended with exit code 3 ({restarts})",
    )
    assert wait_for_reason(cloud, "ends", "ProbesAnswered").state == "Running"


def test_an_instance_that_never_answers_its_probe_is_pending_with_a_reason(cloud: Cloud) -> None:
    instance_status = restarted(cloud, "silent", "ProbeFailed")
    assert instance_status.state == "Failed"
    assert instance_status.message == (
        f"the probe of the container did not succeed within startTimeout, and the container was killed ({instance_status.restarts} restarts)"
    )
    assert reasons(cloud, "silent")[-2:] == [("Ready", "ProbePending"), ("Failed", "ProbeFailed")]


def test_an_instance_that_stops_answering_its_probe_is_ready_with_a_reason(cloud: Cloud) -> None:
    instance_status = wait_for_reason(cloud, "quiet", "ProbeFailed")
    words = "the container runs, but its probe fails"
    assert (instance_status.state, instance_status.message, instance_status.restarts) == ("Ready", words, 0)
    way = steps(cloud, "quiet", TENANT)[-4:]  # before them, a busy node lets it wait
    assert [transition.target for transition in way] == ["Init", "Ready", "Running", "Ready"]
    assert [transition.time for transition in way] == sorted(transition.time for transition in way)
    # The reporter reads the cluster's clock from HTTP headers, which have whole seconds, so this clock may be 1 s late.
    assert 0 <= seconds_between(way[1].time, instance_status.start_time) <= 1
    assert way[3].time == instance_status.since


def test_a_preparation_that_takes_too_long_or_cant_start(cloud: Cloud) -> None:
    late = filled(cloud, "late", "Failed")
    assert late.reason == "DeadlineExceeded"
    assert late.message == "preparation failed in attempt 1: it took too long; `allot recover` tries again"

    def messages() -> set[str]:
        statuses = storages_told(cloud, "unfilled")
        return {status.message for status in statuses if status.reason == "ImagePullFailed"}

    told = eventually(messages, "unfilled to say that its image can't be pulled", 90, pause=0.5)
    assert told == {"preparation can't start, attempt 1: its image can't be pulled"}
    assert filled(cloud, "unfilled", "Failed").reason == "DeadlineExceeded"


def storages_told(cloud: Cloud, name: str) -> list[Storage]:
    """Return every status that the branch ever told of a storage."""
    commits = git(cloud.forge, "rev-list", BRANCH, "--", f"tenants/{TENANT}.yaml").splitlines()
    storages_by_commit = [
        parse_tenant_status(file(cloud, f"tenants/{TENANT}.yaml", commit)).storages for commit in commits
    ]
    return [
        storage_status
        for storage_statuses in storages_by_commit
        for storage_status in storage_statuses
        if storage_status.name == name
    ]


def test_a_gpu_that_goes_bad_is_told_while_the_instance_runs_on(cloud: Cloud, real_node: Node) -> None:
    before = wait_for_reason(cloud, "well", "ProbesAnswered")
    environment = in_pod(cloud, one_that_runs(real_node, "well"), "env").splitlines()
    (unit,) = [line.partition("=")[2] for line in environment if line.startswith("NVIDIA_VISIBLE_DEVICES=")]
    unwell = real_node.world.folder / "unwell"
    unwell.write_text(f"{UNIT}-{unit}\n", encoding="ascii")
    try:
        instance_status = wait_for_reason(cloud, "well", "GPUUnhealthy")
        words = "its GPU is unhealthy, and its program may fail: stop it and start it again to get another GPU"
        assert (instance_status.state, instance_status.message, instance_status.since) == (
            "Running",
            words,
            before.since,
        )
    finally:
        unwell.unlink()
    assert wait_for_reason(cloud, "well", "ProbesAnswered").message == ""


def test_the_status_names_a_pod_that_its_node_refuses_until_it_runs(cloud: Cloud, real_node: Node) -> None:
    refused = real_node.world.folder / "refused"
    refused.write_text(f"{UNIT}\n", encoding="ascii")
    try:
        declare_all(cloud, {path("refused"): declared("refused")})
        instance_status = wait_for_reason(cloud, "refused", "AdmissionFailed")
        words = "its node rejected its pod: UnexpectedAdmissionError; a new pod replaces it"
        assert (instance_status.state, instance_status.message) == ("Failed", words)
    finally:
        refused.unlink()
    assert wait_for_reason(cloud, "refused", "ProbesAnswered").state == "Running"
    assert {pod["status"].get("reason") for pod in pods(real_node, "refused")} == {None, "UnexpectedAdmissionError"}
    assert [reason for _, reason in reasons(cloud, "refused")].count("AdmissionFailed") == 1, "it changed with each pod"


def test_an_instance_on_a_lost_node_has_a_reason_and_comes_back_with_the_node(cloud: Cloud, real_node: Node) -> None:
    stopped_at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    node.stop(real_node.cluster)
    try:
        instance_status = wait_for_reason(cloud, "well", "NodeLost")
        assert (instance_status.state, instance_status.ready_replicas, instance_status.nodes) == (
            "Waiting",
            0,
            (node.NAME,),
        )
        told_so = {
            condition.type: (condition.status, condition.reason, condition.last_transition_time)
            for condition in instance_status.conditions
        }
        assert told_so["Available"][:2] == ("False", "NodeLost")
        # The controllers of nodes and Deployments note the loss in either order.
        assert stopped_at <= told_so["Available"][2] <= instance_status.since
        assert instance_status.message.startswith(
            f"its node {node.NAME} doesn't respond, so the state of its pod is unknown;"
        )
    finally:
        node.boot(real_node.cluster)
    assert wait_for_reason(cloud, "well", "ProbesAnswered", seconds=180).state == "Running"


@contextmanager
def lacking_disk(real_node: Node) -> Iterator[None]:
    """Let the kubelet believe for a while that its disk is full.

    A hard threshold also lowers what the node can allocate, and a kubelet that starts with it may reject the pod before it evicts it.
    """
    config = real_node.world.folder / "kubelet.yaml"
    before = config.read_text(encoding="utf-8")

    def restarted(text: str) -> None:
        node.kill(real_node.cluster, "kubelet")
        config.write_text(text, encoding="utf-8")
        node.run(real_node.cluster, real_node.world, "kubelet")

    changed = yaml.safe_load(before)
    changed["evictionSoft"] = {"nodefs.available": "99.9%"}
    changed["evictionSoftGracePeriod"] = {"nodefs.available": "1s"}
    restarted(yaml.safe_dump(changed))
    try:
        yield
    finally:
        restarted(before)
        # A kubelet that lacks disk deletes the images that no pod uses.
        node.take_in(real_node.world, {SHELL: images.busybox("/bin/sh")})


def thrown_out(cloud: Cloud, name: str) -> Instance:
    instance_status = instance(cloud, name, TENANT)
    told = instance_status.state, instance_status.reason, instance_status.message
    assert "its node ran out of disk and evicted it" in instance_status.message, told
    return instance_status


def test_an_evicted_instance_has_a_reason_and_comes_back(cloud: Cloud, real_node: Node) -> None:
    wait_for_reason(cloud, "well", "ProbesAnswered", seconds=180)  # in a new cloud, where the test runs once more
    before = one_that_runs(real_node, "well")["metadata"]["uid"]
    with lacking_disk(real_node):
        instance_status = eventually(lambda: thrown_out(cloud, "well"), "it to be thrown out", pause=0.5)
    # Another pod has its place at once, and waits for a node.
    assert (instance_status.state, instance_status.reason) in {
        ("Failed", "Evicted"),
        ("Init", "Scheduling"),
        ("Waiting", "NoFreeUnit"),
    }
    assert wait_for_reason(cloud, "well", "ProbesAnswered", seconds=180).state == "Running"
    assert one_that_runs(real_node, "well")["metadata"]["uid"] != before
