"""A published object as an API server returns it: with its defaults."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Object = dict[str, Any]


def fill(target: Object, **defaults: Any) -> None:
    for name, value in defaults.items():
        target.setdefault(name, value)


def live(published: Object) -> Object:
    """Return an object as an API server of Kubernetes 1.36 answers it once it was applied."""
    live_object = copy.deepcopy(published)
    live_object["metadata"] |= {
        "uid": "8d0c",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "managedFields": [{"manager": "argocd-controller"}],
    }
    live_object["metadata"].setdefault("annotations", {})["argocd.argoproj.io/tracking-id"] = "x:y/z:a/b"
    live_object["status"] = {"observedGeneration": 1}
    if live_object["kind"] in FILL:
        FILL[live_object["kind"]](live_object)
    return live_object


def fill_deployment(deployment: Object) -> None:
    deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
    fill(deployment["spec"], progressDeadlineSeconds=600)
    deployment["spec"]["template"]["metadata"]["creationTimestamp"] = None
    pod = deployment["spec"]["template"]["spec"]
    fill(pod, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler")
    fill(pod, terminationGracePeriodSeconds=30, securityContext={})
    for container in pod["containers"]:
        fill(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
        fill(container, imagePullPolicy="IfNotPresent")
        for probe in ("startupProbe", "readinessProbe"):
            if probe in container:
                fill(container[probe], successThreshold=1)
        for variable in container.get("env", []):
            if variable.get("value") == "":
                del variable["value"]
        for mount in container.get("volumeMounts", []):
            if mount.get("readOnly") is False:
                del mount["readOnly"]
    for volume in pod.get("volumes", []):
        if "configMap" in volume:
            fill(volume["configMap"], defaultMode=420)
        if "ephemeral" in volume:
            fill(volume["ephemeral"]["volumeClaimTemplate"], metadata={"creationTimestamp": None})


def fill_application(application: Object) -> None:
    if "directory" in application["spec"].get("source", {}):
        fill(application["spec"]["source"]["directory"], jsonnet={})


def fill_service(service: Object) -> None:
    fill(service["spec"], clusterIP="10.96.0.7", clusterIPs=["10.96.0.7"], ipFamilies=["IPv4"])
    fill(service["spec"], ipFamilyPolicy="SingleStack", internalTrafficPolicy="Cluster", sessionAffinity="None")


def fill_claim(claim: Object) -> None:
    claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    claim["metadata"]["annotations"] |= {
        "pv.kubernetes.io/bind-completed": "yes",
        "volume.kubernetes.io/storage-provisioner": "rook-ceph.rbd.csi.ceph.com",
    }
    claim["spec"]["volumeName"] = "pvc-8d0c"
    if "dataSourceRef" in claim["spec"]:
        claim["spec"]["dataSource"] = copy.deepcopy(claim["spec"]["dataSourceRef"])


def fill_namespace(namespace: Object) -> None:
    namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]
    namespace["spec"] = {"finalizers": ["kubernetes"]}


FILL: dict[str, Callable[[Object], None]] = {
    "Deployment": fill_deployment,
    "Service": fill_service,
    "PersistentVolumeClaim": fill_claim,
    "Namespace": fill_namespace,
    "Application": fill_application,
}
