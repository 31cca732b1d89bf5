"""Live objects as an API server has them, for tests of what is observed: each as small as its reader allows."""

from __future__ import annotations

import json
from typing import Any

from allotment.observed import decoding
from allotment.observed.objects import ObservedObject

TENANT = "solo-ada"
AT = "2026-11-21T10:00:{:02d}Z"


def metadata(name: str, uid: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    annotations = more.pop("annotations", {})
    ours = {f"allotment.dev/{key}": value for key, value in labels.items()}
    noted = {key if "/" in key else f"allotment.dev/{key}": value for key, value in annotations.items()}
    return {
        "name": name,
        "namespace": f"t-{TENANT}",
        "uid": uid,
        "resourceVersion": "7",
        "creationTimestamp": AT.format(0),
        "labels": {"app.kubernetes.io/managed-by": "allotment", "allotment.dev/tenant": TENANT, **ours},
        "annotations": noted,
        **more,
    }


def deployment(
    name: str = "webui",
    replicas: int = 1,
    *,
    status: dict[str, Any] | None = None,
    mounts: tuple[str, ...] = (),
    **annotations: str,
) -> dict[str, Any]:
    noted = {
        "declared-blob": "b1",
        "units": "1",
        "deployment.kubernetes.io/revision": "1",
        **{key.replace("_", "-"): value for key, value in annotations.items()},
    }
    volumes = [{"name": f"s-{mount}", "persistentVolumeClaim": {"claimName": mount}} for mount in mounts]
    container = {"name": "main", "image": "registry.example/webui:1@sha256:aa", "resources": {"limits": {"cpu": "4"}}}
    return {
        "kind": "Deployment",
        "metadata": metadata(
            name,
            f"d-{name}",
            {"instance": name, "gpu-spec": "l4-quarter"},
            generation=1,
            annotations={key: value for key, value in noted.items() if value},
        ),
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container], "volumes": volumes}}},
        "status": {"observedGeneration": 1, "replicas": replicas, **(status or {})},
    }


def replica_set(name: str = "webui", revision: str = "1") -> dict[str, Any]:
    return {
        "kind": "ReplicaSet",
        "metadata": metadata(
            f"{name}-{revision}",
            f"r-{name}-{revision}",
            {"instance": name},
            ownerReferences=[{"uid": f"d-{name}"}],
            annotations={"deployment.kubernetes.io/revision": revision},
        ),
    }


def pod(
    name: str = "webui",
    number: int = 1,
    *,
    revision: str = "1",
    node: str = "",
    container: dict[str, Any] | None = None,
    ready: int | None = None,
    unready: int | None = None,
    scheduled: int = 1,
    start_limit: int = 0,
    status: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    conditions: list[dict[str, Any]] = []
    if node:
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": AT.format(scheduled)})
    if ready is not None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": AT.format(ready)})
    if unready is not None:
        conditions.append({"type": "Ready", "status": "False", "lastTransitionTime": AT.format(unready)})
    main: dict[str, Any] = {"name": "main", "env": [{"name": "SECRET", "value": "x" * 50}]}
    if start_limit:
        main["startupProbe"] = {"periodSeconds": 10, "failureThreshold": start_limit // 10}
    return {
        "kind": "Pod",
        "metadata": metadata(
            f"{name}-{number}",
            f"p-{name}-{number}",
            {"instance": name},
            ownerReferences=[{"uid": f"r-{name}-{revision}"}],
            **more,
        ),
        "spec": {"nodeName": node, "containers": [main]},
        "status": {
            "phase": "Running" if container and "running" in container.get("state", {}) else "Pending",
            "conditions": conditions,
            "containerStatuses": [container] if container else [],
            **(status or {}),
        },
    }


def run(code: int, seconds: int, reason: str = "Error") -> dict[str, Any]:
    """Return how a container's run of some seconds ended."""
    return {"exitCode": code, "reason": reason, "startedAt": AT.format(1), "finishedAt": AT.format(1 + seconds)}


def ended(code: int, *, seconds: int = 0, restarts: int = 0) -> dict[str, Any]:
    """Return the status of a container that ended and isn't started again yet."""
    return {"ready": False, "started": False, "restartCount": restarts, "state": {"terminated": run(code, seconds)}}


def started(
    at: int, *, ready: bool = False, probed: bool = False, restarts: int = 0, ended: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the status of a container that runs; `ended` is how its last run ended."""
    return {
        "ready": ready,
        "started": ready or probed,
        "restartCount": restarts,
        "state": {"running": {"startedAt": AT.format(at)}},
        **({"lastState": {"terminated": ended}} if ended else {}),
    }


def waiting(
    reason: str, message: str = "", *, restarts: int = 0, ended: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the status of a container that waits; `ended` is how its last run ended."""
    last = {"lastState": {"terminated": ended}} if ended else {}
    return {
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": message}},
        **last,
    }


def claim(
    name: str = "models",
    uid: str = "c1",
    *,
    phase: str = "Bound",
    capacity: str = "20Gi",
    created: int = 0,
    prepares: str = "",
) -> dict[str, Any]:
    noted = {"declared-blob": "s1", **({"prepares": prepares} if prepares else {})}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(name, uid, {"storage": name}, creationTimestamp=AT.format(created), annotations=noted),
        "spec": {"resources": {"requests": {"storage": "20Gi"}}},
        "status": {"phase": phase, **({"capacity": {"storage": capacity}} if phase == "Bound" else {})},
    }


def job(
    storage: str = "models",
    attempt: int = 1,
    *,
    uid: str = "",
    created: int = 1,
    condition: str = "",
    reason: str = "",
    message: str = "",
) -> dict[str, Any]:
    details = {"reason": reason, "message": message, "lastTransitionTime": AT.format(9)}
    conditions = [{"type": condition, "status": "True", **details}]
    done = {"completionTime": AT.format(9)} if condition == "Complete" else {}
    return {
        "kind": "Job",
        "metadata": metadata(
            f"{storage}--prepare-abc-{attempt}",
            uid or f"j-{storage}-{attempt}",
            {"storage": storage},
            creationTimestamp=AT.format(created),
            annotations={"input-hash": "abc", "attempt": str(attempt)},
        ),
        "status": {"startTime": AT.format(2), "conditions": conditions if condition else [], **done},
    }


def job_pod(
    storage: str = "models", attempt: int = 1, *, container: dict[str, Any] | None = None, node: str = "n1"
) -> dict[str, Any]:
    live_pod = pod(storage, attempt, node=node, container=container)
    live_pod["metadata"] |= {"ownerReferences": [{"uid": f"j-{storage}-{attempt}"}]}
    live_pod["metadata"]["labels"] = {
        "allotment.dev/tenant": TENANT,
        "allotment.dev/storage": storage,
        "allotment.dev/role": "prepare",
    }
    return live_pod


def snapshot(name: str = "keep", *, of: str = "models", **status: Any) -> dict[str, Any]:
    return {
        "kind": "VolumeSnapshot",
        "metadata": metadata(name, f"v-{name}", {"snapshot": name}, annotations={"declared-blob": "v1"}),
        "spec": {"source": {"persistentVolumeClaimName": of}},
        **({"status": status} if status else {}),
    }


def bucket(name: str = "data", phase: str = "") -> dict[str, Any]:
    return {
        "kind": "ObjectBucketClaim",
        "metadata": metadata(name, f"o-{name}", {"storage": name}, annotations={"declared-blob": "o1"}),
        "spec": {"additionalConfig": {"maxSize": "1Ti"}},
        **({"status": {"phase": phase}} if phase else {}),
    }


def node(name: str = "n1", uid: str = "", *, created: int = 0, **labels: str) -> dict[str, Any]:
    about = {"name": name, "uid": uid or f"n-{name}", "creationTimestamp": AT.format(created), "labels": labels}
    return {"kind": "Node", "metadata": about}


def route(name: str = "webui", *, accepted: str = "True", label: str = "instance") -> dict[str, Any]:
    parents = [{"conditions": [{"type": "Accepted", "status": accepted}]}] if accepted else []
    return {
        "kind": "HTTPRoute",
        "metadata": metadata(
            name,
            f"h-{name}",
            {label: name.partition("--")[0]},
            annotations={"link.argocd.argoproj.io/external-link": f"https://{name}.example/"},
        ),
        "status": {"parents": parents},
    }


def application(
    part: str = "compute",
    *,
    sync: str = "Synced",
    health: str = "Healthy",
    resources: tuple[tuple[str, str, str], ...] = (),
    **status: Any,
) -> dict[str, Any]:
    resource_statuses = [{"kind": kind, "name": name, "status": sync_status} for kind, name, sync_status in resources]
    return {
        "kind": "Application",
        "metadata": metadata(f"{TENANT}--eu-1--{part}", f"a-{part}", {"cluster": "eu-1"}, namespace="argocd"),
        "status": {
            "sync": {"status": sync, "revision": "c0ffee"},
            "health": {"status": health},
            "resources": resource_statuses,
            **status,
        },
    }


KINDS = {
    "Pod": decoding.PODS,
    "Deployment": decoding.DEPLOYMENTS,
    "ReplicaSet": decoding.REPLICA_SETS,
    "Job": decoding.JOBS,
    "PersistentVolumeClaim": decoding.CLAIMS,
    "ObjectBucketClaim": decoding.BUCKETS,
    "VolumeSnapshot": decoding.SNAPSHOTS,
    "HTTPRoute": decoding.ROUTES,
    "Application": decoding.APPLICATIONS,
    "PodDisruptionBudget": decoding.DISRUPTION_BUDGETS,
    "Node": decoding.NODES,
}


def seen(*objects: dict[str, Any]) -> list[ObservedObject]:
    """Return objects as they are kept once an API server has sent them."""
    events = [
        KINDS[live_object["kind"]].decode_event(json.dumps({"type": "ADDED", "object": live_object}).encode())
        for live_object in objects
    ]
    return [event.object for event in events if event.object is not None]
