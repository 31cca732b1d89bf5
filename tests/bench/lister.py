"""Lists all pods of an API server and says how long it took: `python -m tests.bench.lister ours|whole|typed|report URL …`."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kubernetes import client

from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.cluster.observed_objects import STOCKS_OWNER, ObservedObjects
from allotment.adapters.cluster.watching import Watch
from allotment.cli.service import freeze_heap
from allotment.observed.conditions import ConditionValue
from allotment.observed.decoding import APPLICATIONS, CLUSTER_KINDS, DEPLOYMENTS, PODS, REPLICA_SETS
from allotment.observed.objects import Deployment, Pod
from allotment.observed.pod_state import InstanceView, derive_pod_state
from allotment.observed.tenants import TenantObjects, derive_tenant_status
from tests.bench.measure import held_megabytes, peak_megabytes, reset_peak
from tests.support import live
from tests.support.live import seen

NOW = "2026-11-21T10:00:59Z"


def api(url: str) -> ApiServer:
    return ApiServer(lambda: client.Configuration(host=url))


def ours(url: str) -> tuple[float, float, int]:
    """Time the listing of pods and the computing of each one's state."""
    store, api_server = ObservedObjects("eu-1"), api(url)
    (deployment,) = seen(live.deployment())
    assert isinstance(deployment, Deployment)
    view = InstanceView(
        cluster="eu-1",
        deployment=deployment,
        replica_sets=(),
        pods=(),
        routes=(),
        storages={},
        synced_condition=ConditionValue("True", "Applied"),
        now=NOW,
    )
    freeze_heap()
    reset_peak()
    before, begun = held_megabytes(), time.perf_counter()
    Watch(api_server, PODS, store)._list_all()
    states = [
        derive_pod_state(view, pod).state
        for owner in store.owners()
        for pod in store.objects(owner)
        if isinstance(pod, Pod)
    ]
    seconds = time.perf_counter() - begun
    return seconds, peak_megabytes() - before, states.count("Running")


def whole(url: str) -> tuple[float, float, int]:
    """Time the status of every tenant, with all conditions and transitions, of what was listed before."""
    store, api_server = ObservedObjects("eu-1"), api(url)
    for kind in (DEPLOYMENTS, REPLICA_SETS, PODS):
        Watch(api_server, kind, store)._list_all()
    freeze_heap()
    reset_peak()
    before, begun = held_megabytes(), time.perf_counter()
    statuses = [
        derive_tenant_status(owner, "eu-1", TenantObjects.from_objects(store.objects(owner)), previous=None, now=NOW)
        for owner in sorted(store.owners())
    ]
    seconds = time.perf_counter() - begun
    running = sum(instance.state == "Running" for status in statuses for instance in status.instances)
    return seconds, peak_megabytes() - before, running


def typed(url: str) -> tuple[float, float, int]:
    """Time the official typed client's listing of pods, kept as it returns them."""
    core = client.CoreV1Api(client.ApiClient(client.Configuration(host=url)))
    reset_peak()
    before, begun = held_megabytes(), time.perf_counter()
    pods: list[Any] = []
    more: dict[str, Any] = {}
    while True:
        page: Any = core.list_pod_for_all_namespaces(limit=500, **more)
        pods += page.items
        if not page.metadata._continue:
            break
        more = {"_continue": page.metadata._continue}
    running = sum(all(container_status.ready for container_status in pod.status.container_statuses) for pod in pods)
    return time.perf_counter() - begun, peak_megabytes() - before, running


def report(url: str, folder: str, seconds: str) -> dict[str, Any]:
    """Report a busy cluster for some seconds; return the share of a core, and the memory at half time and in the end."""
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.adapters.metrics import ReportMetrics, create_registry
    from allotment.cli.service import create_logger
    from allotment.services.reporter.observer import ClusterSession
    from allotment.services.reporter.reporter import Reporter, ReportTarget

    work = Path(folder)
    Repository.open_or_create(work / "remote.git")
    repository = Repository.open_or_create(work / "data")
    api_server, store = api(url), ObservedObjects("eu-1")
    watches = [Watch(api_server, kind, store) for kind in (*CLUSTER_KINDS, APPLICATIONS)]
    for watch in watches:
        watch.start()
    remote = Remote(repository, str(work / "remote.git"), keep=True)
    reporter = Reporter(
        ClusterSession("eu-1", watches, store, STOCKS_OWNER, api_server.server_time),
        ReportTarget(repository, remote, None, remote),
        ReportMetrics("eu-1", create_registry()),
        create_logger(),
        60,
    )
    thread = threading.Thread(target=reporter.run)
    thread.start()
    while not (reporter.ready() and reporter._branch is not None and reporter._branch.published_commit):
        time.sleep(0.1)
    marks = []
    for _ in range(3):
        marks.append((time.process_time(), time.monotonic(), store.events, held_megabytes()))
        time.sleep(float(seconds) / 2)
    reporter.stop()
    thread.join()
    first, last = marks[0], marks[-1]
    return {
        "objects": len(store),
        "cores": (last[0] - first[0]) / (last[1] - first[1]),
        "events": (last[2] - first[2]) / (last[1] - first[1]),
        "megabytes": [mark[3] for mark in marks],
    }


if __name__ == "__main__":
    if sys.argv[1] == "report":
        print(json.dumps(report(*sys.argv[2:])))
    else:
        print(json.dumps({"ours": ours, "whole": whole, "typed": typed}[sys.argv[1]](sys.argv[2])))
