"""An API server for benchmarks, as a process of its own: it has all answers ready before it is asked, so that who asks is measured.

`python -m tests.bench.apiserver PODS EVENTS_A_SECOND`; it prints its URL. Pods are as large as a kubelet makes them. With a
folder, `python -m tests.bench.apiserver TREE`, it has the objects that a rendered tree declares.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from allotment.manifests.yaml_text import load

PAGE = 500
TENANTS = 5_000
KINDS = ("deployments", "replicasets", "jobs", "persistentvolumeclaims", "httproutes", "applications")


def pod(number: int, ready: bool = True) -> dict[str, Any]:
    """Return a pod that runs an instance, with everything that a real one carries."""
    tenant, name = f"team-{number % TENANTS}x", f"lab-{number // TENANTS}"
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    at = "2026-11-21T10:00:00Z"
    labels = {
        "app.kubernetes.io/managed-by": "allotment",
        "allotment.dev/tenant": tenant,
        "allotment.dev/instance": name,
        "allotment.dev/plan": "team",
        "pod-template-hash": "5d9c7b8f6d",
    }
    mounts = [{"name": f"s-{letter}", "mountPath": f"/workspace/{letter}"} for letter in "abcd"]
    probe = {
        "httpGet": {"path": "/", "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 5,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 120,
    }
    fields: dict[str, Any] = {
        f"f:{key}": {
            ".": {},
            "f:name": {},
            "f:value": {},
            "f:mountPath": {},
            "f:resources": {"f:limits": {}, "f:requests": {}},
        }
        for key in ("spec", "status", "metadata", "containers", "volumes", "affinity", "tolerations", "conditions")
    }
    return {
        "metadata": {
            "name": f"{name}-5d9c7b8f6d-{number}",
            "generateName": f"{name}-5d9c7b8f6d-",
            "namespace": f"t-{tenant}",
            "uid": uid,
            "resourceVersion": str(1000 + number),
            "creationTimestamp": at,
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": name,
                    "uid": f"r-{uid}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": at,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": fields,
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [{"name": f"s-{letter}", "persistentVolumeClaim": {"claimName": letter}} for letter in "abcd"],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/webui:1.11.0@sha256:" + "a" * 64,
                    "args": [f"--option-{index}=value" for index in range(10)],
                    "env": [{"name": f"SETTING_{index}", "value": "x" * 20} for index in range(15)],
                    "ports": [{"name": "http", "containerPort": 7860, "protocol": "TCP"}],
                    "resources": {
                        key: {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu.shared": "1"}
                        for key in ("limits", "requests")
                    },
                    "volumeMounts": mounts,
                    "startupProbe": probe,
                    "readinessProbe": probe,
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                    "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "nodeName": f"node-{number % 300}",
            "securityContext": {"fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("a", "b", "c")
            ],
            "priorityClassName": "allotment-instance",
            "enableServiceLinks": False,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if ready or kind == "PodScheduled" else "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": at,
                }
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": at,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": at}},
                    "lastState": {},
                    "ready": ready,
                    "restartCount": 0,
                    "image": "registry.example/webui:1.11.0",
                    "imageID": "sha256:" + "b" * 64,
                    "containerID": "containerd://" + "c" * 64,
                    "started": True,
                }
            ],
            "qosClass": "Guaranteed",
        },
    }


def deployment(number: int) -> dict[str, Any]:
    tenant, name = f"team-{number % TENANTS}x", f"lab-{number // TENANTS}"
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    labels = {
        "app.kubernetes.io/managed-by": "allotment",
        "allotment.dev/tenant": tenant,
        "allotment.dev/instance": name,
        "allotment.dev/gpu-spec": "l4-quarter",
    }
    noted = {
        "allotment.dev/units": "1",
        "allotment.dev/declared-blob": "b" * 40,
        "deployment.kubernetes.io/revision": "1",
    }
    meta = {
        "name": name,
        "namespace": f"t-{tenant}",
        "uid": f"d-{uid}",
        "generation": 1,
        "labels": labels,
        "annotations": noted,
        "creationTimestamp": "2026-11-21T10:00:00Z",
    }
    return {
        "metadata": meta,
        "spec": {"replicas": 1, "template": {"spec": pod(number)["spec"]}},
        "status": {"observedGeneration": 1, "replicas": 1},
    }


def replica_set(number: int) -> dict[str, Any]:
    metadata = deployment(number)["metadata"]
    uid = metadata["uid"].removeprefix("d-")
    return {"metadata": {**metadata, "uid": f"r-{uid}", "ownerReferences": [{"uid": metadata["uid"]}]}}


class Server(ThreadingHTTPServer):
    """Serves `number` pods, each of a Deployment of its own, and events a second."""

    daemon_threads = True

    def __init__(self, number: int, rate: float) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.number = number
        self.rate = rate
        self.pages = {
            "pods": pages(number, pod),
            "deployments": pages(number, deployment),
            "replicasets": pages(number, replica_set),
        }


def tree_pages(tree: Path) -> dict[str, list[bytes]]:
    """Return the pages of each resource in a rendered tree, as an API server that has all its objects."""
    objects: dict[str, list[dict[str, Any]]] = {}
    uids = (f"u-{number}" for number in count())
    for path in sorted(tree.glob("*/**/*.yaml")):
        for manifest in load(path.read_bytes()):
            kind = manifest["kind"].lower()
            plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
            manifest["metadata"] |= {"uid": next(uids), "creationTimestamp": "2026-11-21T10:00:00Z"}
            objects.setdefault(plural, []).append(manifest)
    return {plural: pages(len(some), some.__getitem__) for plural, some in objects.items()}


def pages(number: int, make: Any) -> list[bytes]:
    bodies = []
    for begin in range(0, max(number, 1), PAGE):
        items = [make(index) for index in range(begin, min(number, begin + PAGE))]
        more = str(begin // PAGE + 1) if begin + PAGE < number else ""
        body = {
            "kind": "List",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "9000000", "continue": more},
            "items": items,
        }
        bodies.append(json.dumps(body, separators=(",", ":")).encode())
    return bodies


class Answer(BaseHTTPRequestHandler):
    """Answers lists by pages, and watches of pods with events."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        kind = parts.path.rsplit("/", 1)[1]
        if query.get("watch"):
            self.watch(kind)
            return
        bodies = self.server.pages.get(kind) or pages(0, pod)
        body = bodies[int(query.get("continue") or 0)]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, kind: str) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        version, due = 9_000_001, time.monotonic()
        while kind == "pods" and self.server.rate:
            due += 0.1
            lines = []
            for _ in range(int(self.server.rate / 10)):
                version += 1
                changed_pod = pod(random.randrange(self.server.number), ready=random.random() < 0.9)
                changed_pod["metadata"]["resourceVersion"] = str(version)
                lines.append(json.dumps({"type": "MODIFIED", "object": changed_pod}).encode() + b"\n")
            self.wfile.write(b"".join(lines))
            self.wfile.flush()
            time.sleep(max(0, due - time.monotonic()))
        threading.Event().wait(3600)

    def log_message(self, format: str, *args: Any) -> None:
        return


if __name__ == "__main__":
    if len(sys.argv) == 2:
        served = Server(0, 0)
        served.pages = tree_pages(Path(sys.argv[1]))
    else:
        served = Server(int(sys.argv[1]), float(sys.argv[2]))
    print(f"http://127.0.0.1:{served.server_address[1]}", flush=True)
    served.serve_forever()
