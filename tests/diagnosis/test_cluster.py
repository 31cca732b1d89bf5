"""A cluster's version, APIs, classes, Gateway, Karpenter, Argo CD and reporter against what is declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import edit
from tests.diagnosis.healthy import Bed, Change, Object, offers_of

from allotment.diagnosis import cluster_snapshot
from allotment.diagnosis.gateway import selects
from allotment.manifests import names

SYNC = "let Argo CD sync the Application allotment--node-pools--us-1"
BOOTSTRAP = "allot bootstrap | kubectl apply --server-side --force-conflicts --filename -"


def false(kind: str, reason: str, message: str = "") -> Object:
    return {"type": kind, "status": "False", "reason": reason, "message": message}


def gateway(bed: Bed) -> Object:
    return bed.find_object(cluster_snapshot.GATEWAYS, "edge")


def listener(bed: Bed) -> Object:
    first_listener: Object = gateway(bed)["spec"]["listeners"][0]
    return first_listener


def add_on(bed: Bed, name: str) -> Object:
    applications = bed.objects[cluster_snapshot.APPLICATIONS]
    return next(
        application for application in applications if application["metadata"]["labels"].get(names.ADD_ON) == name
    )


def set_(kind: cluster_snapshot.ResourceQuery, name: str, **more: Any) -> Change:
    return lambda bed: bed.find_object(kind, name).update(more)


def gone(kind: cluster_snapshot.ResourceQuery, name: str) -> Change:
    return lambda bed: bed.objects[kind].remove(bed.find_object(kind, name))


def cephfs_with_kernel(version: str) -> Change:
    def change(bed: Bed) -> None:
        min(bed.objects[cluster_snapshot.NODES], key=cluster_snapshot.name_of)["status"]["nodeInfo"] = {
            "kernelVersion": version
        }

    return change


CASES: list[tuple[str, str, Change, list[str]]] = [
    (
        "an old Kubernetes",
        "eu-1",
        lambda bed: bed.version.update(minor="32"),
        [
            "error [kubernetes] Kubernetes: the version is 1.32: tenants' pods run with hostUsers: false, which is off by default before 1.33"
            " -> upgrade to 1.36, the version that Allotment is tested with"
        ],
    ),
    (
        "an untested Kubernetes",
        "eu-1",
        lambda bed: bed.version.update(minor="35"),
        ["warning [kubernetes] Kubernetes: the version is 1.35, but Allotment is tested with 1.36 -> upgrade to 1.36"],
    ),
    (
        "no version",
        "eu-1",
        lambda bed: bed.version.clear(),
        ["skipped [kubernetes] Kubernetes: the API server doesn't report its version"],
    ),
    (
        "an API in another version",
        "eu-1",
        lambda bed: bed.apis.update({"objectbucket.io/v2": bed.apis.pop("objectbucket.io/v1alpha1")}),
        [
            "error [apis] objectbucket.io/v1alpha1: isn't served (served: v2), but a StorageClass for buckets is declared"
            " -> install Rook or another provisioner of buckets, or its CRDs"
        ],
    ),
    (
        "a secret store that nothing reads",
        "eu-1",
        lambda bed: bed.apis.pop("external-secrets.io/v1"),
        [
            "error [apis] external-secrets.io/v1: isn't served, but spec.secretStore is declared"
            " -> install External Secrets Operator 1.3, or its CRDs"
        ],
    ),
    (
        "an API without a resource",
        "us-1",
        lambda bed: bed.apis.update({"karpenter.sh/v1": frozenset()}),
        [
            "error [apis] karpenter.sh/v1: is served without nodepools, but a pool has karpenter -> install the CRDs of Karpenter 1.14"
        ],
    ),
    (
        "a class that deletes",
        "eu-1",
        set_(cluster_snapshot.STORAGE_CLASSES, "rook-cephfs", reclaimPolicy="Delete"),
        [
            "error [storage] StorageClass rook-cephfs: has reclaimPolicy Delete: the data is lost if a claim is deleted by mistake; shared-files needs Retain -> create it again: kubectl get storageclass rook-cephfs -o yaml, reclaimPolicy: Retain,"
            " kubectl replace --force --filename FILE"
        ],
    ),
    (
        "a class that doesn't expand",
        "eu-1",
        set_(cluster_snapshot.STORAGE_CLASSES, "rook-cephfs", allowVolumeExpansion=False),
        [
            "warning [storage] StorageClass rook-cephfs: has allowVolumeExpansion: false: a storage of shared-files can't be enlarged -> kubectl patch storageclass rook-cephfs --patch 'allowVolumeExpansion: true', if its driver supports it"
        ],
    ),
    (
        "a class of NFS",
        "us-1",
        set_(cluster_snapshot.STORAGE_CLASSES, "cephfs-retain", provisioner="efs.csi.aws.com"),
        [
            "error [storage] StorageClass cephfs-retain: has the provisioner efs.csi.aws.com, which mounts NFS: pods of tenants have user namespaces (hostUsers: false), and the kernel can't map owners on such mounts, so no container that mounts it starts -> declare a class with another file system: block storage with ext4 or xfs, or CephFS for ReadWriteMany"
        ],
    ),
    (
        "a class of NFS by Rook",
        "eu-1",
        set_(cluster_snapshot.STORAGE_CLASSES, "rook-ceph-block-scratch", provisioner="rook-ceph.nfs.csi.ceph.com"),
        [
            "error [storage] StorageClass rook-ceph-block-scratch: has the provisioner rook-ceph.nfs.csi.ceph.com, which mounts NFS: pods of tenants have user namespaces (hostUsers: false), and the kernel can't map owners on such mounts, so no container that mounts it starts ->"
            " declare a class with another file system: block storage with ext4 or xfs, or CephFS for ReadWriteMany"
        ],
    ),
    (
        "CephFS on a node with an old kernel",
        "eu-1",
        cephfs_with_kernel("6.6.15-amd64"),
        [
            "error [storage] StorageClass rook-cephfs: mounts CephFS, but the kernel of 1 node (a100-mig-1) is older than 6.7, and can't mount CephFS in a user namespace: no container that mounts it starts there -> upgrade the kernel of these nodes"
        ],
    ),
    ("CephFS on a node with a new kernel", "eu-1", cephfs_with_kernel("6.12.0"), []),
    (
        "a bucket's class grows by itself",
        "eu-1",
        set_(cluster_snapshot.STORAGE_CLASSES, "rook-ceph-bucket", allowVolumeExpansion=False),
        [],
    ),
    (
        "no such class",
        "us-1",
        gone(cluster_snapshot.STORAGE_CLASSES, "gp3-retain"),
        [
            "error [storage] StorageClass gp3-retain: doesn't exist, but the storage block-ssd names it; known: cephfs-retain, gp3-scratch, rook-ceph-bucket"
            " -> create it, or declare another class"
        ],
    ),
    (
        "disks that stay",
        "eu-1",
        set_(cluster_snapshot.STORAGE_CLASSES, "rook-ceph-block-scratch", reclaimPolicy="Retain"),
        [
            "error [storage] StorageClass rook-ceph-block-scratch: has reclaimPolicy Retain: each stopped instance leaves a disk behind; diskStorageClassName needs Delete -> create it again: kubectl get storageclass rook-ceph-block-scratch -o yaml,"
            " reclaimPolicy: Delete, kubectl replace --force --filename FILE"
        ],
    ),
    (
        "snapshots that go",
        "eu-1",
        set_(cluster_snapshot.SNAPSHOT_CLASSES, "rook-cephfs-snapshots", deletionPolicy="Delete", driver="x"),
        [
            "error [storage] VolumeSnapshotClass rook-cephfs-snapshots: has deletionPolicy Delete: the snapshot is deleted with its object; shared-files needs Retain -> kubectl patch volumesnapshotclass rook-cephfs-snapshots --type merge --patch"
            " 'deletionPolicy: Retain'",
            "error [storage] VolumeSnapshotClass rook-cephfs-snapshots: has the driver x, but StorageClass rook-cephfs has rook-ceph.cephfs.csi.ceph.com: snapshots fail -> name a class with the same driver in volumeSnapshotClassName",
        ],
    ),
    (
        "no Gateway",
        "eu-1",
        lambda bed: gateway(bed)["metadata"].update(name="front"),
        [
            "error [gateway] Gateway edge/edge: doesn't exist; there are edge/front -> create it, name another Gateway in spec.gateway, or write managed: true there"
        ],
    ),
    (
        "a Gateway that isn't programmed",
        "eu-1",
        lambda bed: gateway(bed)["status"].update(
            conditions=[false("Programmed", "AddressNotAssigned", "no addresses")]
        ),
        ["error [gateway] Gateway edge/edge: isn't Accepted: no message -> kubectl -n edge describe gateway edge"],
    ),
    (
        "no listener",
        "eu-1",
        lambda bed: listener(bed).update(name="web"),
        [
            "error [gateway] Gateway edge/edge listener https: doesn't exist; the Gateway has web -> add it to the Gateway, or name another listener in spec.gateway.sectionName"
        ],
    ),
    (
        "a listener of another shape",
        "eu-1",
        lambda bed: listener(bed).update(protocol="HTTP", hostname="*.other.example", allowedRoutes={}),
        [
            "error [gateway] Gateway edge/edge listener https: has the protocol HTTP, but logins need HTTPS -> write protocol: HTTPS, with"
            " tls.certificateRefs",
            "error [gateway] Gateway edge/edge listener https: has the hostname *.other.example, but instances are at"
            ' *.eu-1.gpu.northlight.example -> write hostname: "*.eu-1.gpu.northlight.example", or another spec.domain',
            "error [gateway] Gateway edge/edge listener https: accepts routes from namespace edge only, but tenants' routes are in t-*"
            " -> write allowedRoutes.namespaces.from: All, or Selector of those with the label allotment.dev/tenant",
        ],
    ),
    (
        "a certificate that isn't found",
        "eu-1",
        lambda bed: gateway(bed)["status"]["listeners"][0].update(
            conditions=[false("ResolvedRefs", "InvalidCertificateRef", "no Secret")]
        ),
        [
            "error [gateway] Gateway edge/edge listener https: isn't ResolvedRefs: InvalidCertificateRef: no Secret -> check the Secret in tls.certificateRefs and the ports of the listener"
        ],
    ),
    (
        "a class that isn't accepted",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.GATEWAY_CLASSES, "envoy")["status"].update(
            conditions=[false("Accepted", "InvalidParameters")]
        ),
        [
            "error [gateway] GatewayClass envoy: isn't accepted: InvalidParameters -> kubectl describe gatewayclass envoy"
        ],
    ),
    (
        "another gateway's class",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.GATEWAY_CLASSES, "envoy")["spec"].update(
            controllerName="istio.io/gateway-controller"
        ),
        [
            "warning [gateway] GatewayClass envoy: has the controller istio.io/gateway-controller, but logins need Envoy Gateway, by default gateway.envoyproxy.io/gatewayclass-controller -> check that it is an Envoy Gateway under"
            " another name"
        ],
    ),
    (
        "a certificate of another name that ends soon",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.CERTIFICATES][0].update(
            spec={"secretName": "edge", "dnsNames": ["a.example"]},
            status={"notAfter": "2026-11-30T00:00:00Z", "conditions": [false("Ready", "DoesNotExist", "no Issuer")]},
        ),
        [
            "error [gateway] Certificate in Secret edge/edge: has the dnsNames a.example, but instances are at *.eu-1.gpu.northlight.example"
            ' -> add "*.eu-1.gpu.northlight.example" to its dnsNames',
            "warning [gateway] Certificate in Secret edge/edge: expires on 2026-11-30 and isn't renewed: DoesNotExist: no Issuer"
            " -> kubectl -n edge describe certificate wildcard",
        ],
    ),
    (
        "a short certificate that is renewed in time",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.CERTIFICATES][0]["status"].update(
            notAfter="2026-11-25T00:00:00Z", renewalTime="2026-11-23T00:00:00Z"
        ),
        [],
    ),
    (
        "a certificate that has ended",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.CERTIFICATES][0]["status"].update(notAfter="2026-11-01T00:00:00Z"),
        [
            "error [gateway] Certificate in Secret edge/edge: expired on 2026-11-01 -> kubectl -n edge describe certificate wildcard"
        ],
    ),
    (
        "a managed gateway without proxies",
        "us-1",
        lambda bed: bed.objects[cluster_snapshot.OTHER_PODS].clear(),
        [
            "error [gateway] Gateway edge/edge proxies: don't run: no pod has the label gateway.envoyproxy.io/owning-gateway-name=edge"
            " -> read the log of Envoy Gateway: kubectl -n envoy-gateway-system logs deployment/envoy-gateway"
        ],
    ),
    (
        "proxies elsewhere",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.OTHER_PODS, "proxy")["metadata"].update(
            namespace="envoy-gateway-system"
        ),
        [
            "error [gateway] Gateway edge/edge proxies: run in envoy-gateway-system, but tenants' network policies admit traffic"
            " from edge only -> write their namespace in spec.gateway.proxyNamespace of the cluster; for the Gateway's own namespace, write deploy.type: GatewayNamespace in Envoy Gateway's Kubernetes provider"
        ],
    ),
    (
        "a gateway that refuses Lua",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.EXTENSION_POLICIES][0].update(
            status={
                "ancestors": [
                    {
                        "conditions": [
                            false(
                                "Accepted",
                                "Invalid",
                                "Skipping Lua EnvoyExtensionPolicy as feature is disabled in the Gateway",
                            )
                        ]
                    }
                ]
            }
        ),
        [
            "error [gateway] EnvoyExtensionPolicy edge/allotment-sessions: is not accepted: Invalid: Skipping Lua EnvoyExtensionPolicy"
            " as feature is disabled in the Gateway -> write extensionApis.enableLua: true in Envoy Gateway's configuration, as the"
            " add-on envoy-gateway does"
        ],
    ),
    (
        "a policy of the gateway that is invalid otherwise",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.EXTENSION_POLICIES][0].update(
            status={"ancestors": [{"conditions": [false("Accepted", "Conflicted", "another policy has the target")]}]}
        ),
        [
            "error [gateway] EnvoyExtensionPolicy edge/allotment-sessions: is not accepted: Conflicted: another policy has the target"
            " -> kubectl -n edge describe envoyextensionpolicy allotment-sessions"
        ],
    ),
    (
        "a policy of the gateway that nobody processed",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.EXTENSION_POLICIES][0].pop("status"),
        [
            "warning [gateway] EnvoyExtensionPolicy edge/allotment-sessions: is not processed yet -> check that Envoy Gateway runs, and"
            " that it owns the Gateway"
        ],
    ),
    (
        "a policy of the gateway that isn't applied",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.EXTENSION_POLICIES].clear(),
        [
            "skipped [gateway] EnvoyExtensionPolicy edge/allotment-sessions: it is not published yet, or Argo CD has not applied it"
        ],
    ),
    (
        "logins that aren't taken",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.SECURITY_POLICIES][0].update(
            status={
                "ancestors": [{"conditions": [false("Accepted", "Invalid", "OIDC: secret edge/oidc does not exist")]}]
            }
        ),
        [
            "error [gateway] SecurityPolicies: 1 of 1 aren't accepted: t-solo-ada/webui: Invalid: OIDC: secret edge/oidc does not exist"
            " -> nobody can log in there: correct the object in the message, or restart Envoy Gateway"
        ],
    ),
    (
        "no login yet",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.SECURITY_POLICIES].clear(),
        [
            "skipped [gateway] SecurityPolicies: no policy has a login yet, and doctor reads no Secrets: it is unknown whether edge/oidc exists"
        ],
    ),
    (
        "Karpenter lacks a pool",
        "us-1",
        gone(cluster_snapshot.KARPENTER_NODE_POOLS, "h100"),
        [
            f"error [karpenter] karpenter.sh NodePool h100: doesn't exist, so Karpenter buys no node for its Stocks -> {SYNC}"
        ],
    ),
    (
        "Karpenter's node class isn't ready",
        "us-1",
        lambda bed: bed.find_object(cluster_snapshot.KARPENTER_NODE_POOLS, "h100").update(
            status={"conditions": [false("Ready", "NodeClassNotReady", "no subnets")]}
        ),
        [
            "error [karpenter] karpenter.sh NodePool h100: isn't Ready: NodeClassNotReady: no subnets"
            " -> kubectl describe nodepools.karpenter.sh h100"
        ],
    ),
    (
        "no Karpenter has seen it",
        "us-1",
        lambda bed: bed.find_object(cluster_snapshot.KARPENTER_NODE_POOLS, "h100").pop("status"),
        [
            "warning [karpenter] karpenter.sh NodePool h100: has no condition Ready: Karpenter has not processed it"
            " -> check that Karpenter runs"
        ],
    ),
    (
        "a gate that is off",
        "us-1",
        lambda bed: [overlay.pop("status") for overlay in bed.objects[cluster_snapshot.NODE_OVERLAYS]],
        [
            "error [karpenter] feature gate NodeOverlay: is off, but spec.karpenter.featureGates names it: pools with slices never grow"
            " -> set settings.featureGates.nodeOverlay in the values of Karpenter's chart, or remove it from featureGates"
        ],
    ),
    (
        "an overlay that Karpenter refuses",
        "us-1",
        lambda bed: bed.find_object(cluster_snapshot.NODE_OVERLAYS, "h100").update(
            status={"conditions": [false("Ready", "ValidationFailed", "conflict")]}
        ),
        [
            "error [karpenter] NodeOverlay h100: isn't Ready: ValidationFailed: conflict -> kubectl describe nodeoverlays h100",
        ],
    ),
    (
        "a missing root",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.APPLICATIONS].clear(),
        [
            "error [argocd] Application allotment--root--eu-1: doesn't exist, so no published manifest reaches the cluster"
            f" -> {BOOTSTRAP}",
            "skipped [add-ons] add-ons: the Application allotment--add-ons--eu-1, which installs them, doesn't exist",
        ],
    ),
    (
        "a root that can't read the repository",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.APPLICATIONS, "allotment--root--eu-1")["status"].update(
            conditions=[{"type": "ComparisonError", "message": "authentication required"}]
        ),
        [
            "error [argocd] Application allotment--root--eu-1: ComparisonError: authentication required"
            " -> argocd app get allotment--root--eu-1"
        ],
    ),
    (
        "an Application that doesn't exist yet, and one that isn't in sync",
        "eu-1",
        lambda bed: [
            gone(cluster_snapshot.APPLICATIONS, "allotment--stock--eu-1")(bed),
            bed.find_object(cluster_snapshot.APPLICATIONS, "allotment--platform--eu-1")["status"].update(
                sync={"status": "OutOfSync"}
            ),
        ],
        [
            "error [argocd] Application allotment--stock--eu-1: doesn't exist, although the root Application exists -> allot publish, then look at "
            "allotment--root--eu-1 in Argo CD",
            "warning [argocd] Application allotment--platform--eu-1: is OutOfSync -> argocd app get allotment--platform--eu-1",
        ],
    ),
    (
        "a tenant's sync failed",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.APPLICATIONS, "solo-ada--eu-1--compute")["status"].update(
            operationState={"phase": "Failed", "message": "quota"}
        ),
        [
            "warning [argocd] tenants' Applications: 1 of 1 aren't applied. solo-ada--eu-1--compute: its sync failed: quota"
            " -> allot status --cluster eu-1 shows the cause for each tenant"
        ],
    ),
    (
        "Argo CD lets everybody in",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.ARGO_CONFIG_MAPS[2], "argocd-rbac-cm")["data"].update(
            {"policy.default": "role:readonly"}
        ),
        [
            "error [argocd] ConfigMap argocd/argocd-rbac-cm: has policy.default: role:readonly, so every user of Argo CD sees every "
            f"tenant -> {BOOTSTRAP}"
        ],
    ),
    (
        "a health check of an older Allotment",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.ARGO_CONFIG_MAPS[0], "argocd-cm")["data"].update(
            {"resource.customizations.health.batch_Job": "return {}", "exec.enabled": "false"}
        ),
        [
            "error [argocd] ConfigMap argocd/argocd-cm: has a different value of exec.enabled, resource.customizations.health.batch_Job"
            f" -> {BOOTSTRAP}"
        ],
    ),
    (
        "links of an older Allotment",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.ARGO_CONFIG_MAPS[0], "argocd-cm")["data"].pop("resource.links"),
        [f"warning [argocd] ConfigMap argocd/argocd-cm: lacks resource.links -> {BOOTSTRAP}"],
    ),
    (
        "kinds that Argo CD leaves out",
        "eu-1",
        lambda bed: bed.find_object(cluster_snapshot.ARGO_CONFIG_MAPS[0], "argocd-cm")["data"].update(
            {
                "resource.exclusions": "- apiGroups:\n  - gateway.*\n  kinds:\n  - '*Route'\n- kinds: [Job]\n  apiGroups: ['batch']\n"
            }
        ),
        [
            "error [argocd] ConfigMap argocd/argocd-cm resource.exclusions: names Job.batch, HTTPRoute.gateway.networking.k8s.io, so"
            " Argo CD never applies them -> remove these kinds"
        ],
    ),
    (
        "an add-on that isn't installed",
        "us-1",
        lambda bed: bed.objects[cluster_snapshot.APPLICATIONS].remove(add_on(bed, "karpenter")),
        [
            "error [add-ons] AddOn karpenter: isn't installed: the Application allotment--add-on-karpenter--us-1 doesn't exist"
            " -> look at the Application allotment--add-ons--us-1: add-ons of lower waves are installed first"
        ],
    ),
    (
        "an add-on of another version",
        "eu-1",
        lambda bed: add_on(bed, "cert-manager")["spec"]["source"].update(targetRevision="v1.20.0"),
        [
            "warning [add-ons] AddOn cert-manager: has version v1.20.0 in Argo CD, but v1.21.2 is declared"
            " -> allot publish, then argocd app get allotment--add-on-cert-manager--eu-1"
        ],
    ),
    (
        "an add-on that doesn't run",
        "eu-1",
        lambda bed: add_on(bed, "cert-manager")["status"].update(health={"status": "Degraded", "message": "no pod"}),
        [
            "error [add-ons] AddOn cert-manager: is Degraded: no pod -> argocd app get allotment--add-on-cert-manager--eu-1"
        ],
    ),
    (
        "an add-on that can't be fetched",
        "eu-1",
        lambda bed: add_on(bed, "cert-manager")["status"].update(
            conditions=[{"type": "ComparisonError", "message": "chart not found"}]
        ),
        [
            "error [add-ons] AddOn cert-manager: ComparisonError: chart not found"
            " -> argocd app get allotment--add-on-cert-manager--eu-1"
        ],
    ),
    (
        "an SSH gateway that isn't installed",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.SSH_GATEWAY_ROLE].clear(),
        [
            "error [ssh] ClusterRole allotment-ssh: doesn't exist, so nobody can log in by SSH"
            " -> kubectl apply --kustomize argo/add-ons/allot-ssh of this version"
        ],
    ),
    (
        "an SSH gateway that can start no program",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.SSH_GATEWAY_ROLE][0]["rules"][-1].update(verbs=["get"]),
        [
            "error [ssh] ClusterRole allotment-ssh: doesn't grant create of pods/exec, create of pods/portforward: SSH logins or"
            " sessions fail -> kubectl apply --kustomize argo/add-ons/allot-ssh of this version"
        ],
    ),
    (
        "no SSH gateway in a cluster that declares none",
        "us-1",
        lambda bed: bed.objects[cluster_snapshot.SSH_GATEWAY_ROLE].clear(),
        [],
    ),
    (
        "a reporter of an older Allotment",
        "eu-1",
        lambda bed: bed.objects[cluster_snapshot.REPORTER_ROLE][0].update(
            rules=[
                rule
                for rule in bed.objects[cluster_snapshot.REPORTER_ROLE][0]["rules"]
                if rule["resources"] not in (["poddisruptionbudgets"], ["pods"])
            ]
        ),
        [
            "error [reporter] ClusterRole allotment-reporter: doesn't grant list and watch of pods, poddisruptionbudgets.policy: the reporter writes no status -> kubectl apply --kustomize argo/add-ons/allot-run (or allot-report) of this version"
        ],
    ),
]


@pytest.mark.parametrize(("name", "change", "lines"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_the_report_describes_each_cluster_problem_in_a_single_line(
    name: str, change: Change, lines: list[str]
) -> None:
    bed = Bed(name)
    change(bed)
    assert bed.report_lines() == lines


def test_another_clusters_applications_count_for_nothing() -> None:
    bed = Bed()
    other = bed.find_object(cluster_snapshot.APPLICATIONS, "solo-ada--eu-1--compute")
    other["metadata"]["labels"][names.CLUSTER] = "us-1"
    other["status"]["conditions"] = [{"type": "SyncError", "message": "x"}]
    assert bed.report_lines() == []


def test_without_argo_cd_here_it_is_asked_where_it_is() -> None:
    bed = Bed()
    del bed.apis["argoproj.io/v1alpha1"]
    assert bed.report_lines() == [
        "skipped [apis] argoproj.io/v1alpha1: isn't served here -> name the cluster of Argo CD: --argocd-kubeconfig or"
        " --argocd-context",
        "skipped [argocd] Argo CD: it doesn't run in this cluster: name its cluster with --argocd-kubeconfig or --argocd-context",
        "skipped [add-ons] Argo CD: it doesn't run in this cluster: name its cluster with --argocd-kubeconfig or --argocd-context",
    ]
    bed.hub_apis = {**bed.apis}
    assert bed.report_lines("error") == [
        "error [apis] argoproj.io/v1alpha1: isn't served, but it applies the published manifests -> install Argo CD 3.2 or later, or its CRDs"
    ]


def karpenter(**container: Any) -> Object:
    return {"metadata": {"name": "karpenter"}, "spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("container", "word"),
    [
        ({"env": [{"name": "FEATURE_GATES", "value": "NodeRepair=false,NodeOverlay=true"}]}, "on"),
        ({"env": [{"name": "FEATURE_GATES", "value": "NodeOverlay=false"}]}, "off"),
        ({"args": ["--feature-gates=NodeOverlay=true"]}, "on"),
        ({}, "off"),
    ],
)
def test_a_gate_is_read_from_what_karpenter_is_told(container: Object, word: str) -> None:
    bed = Bed("us-1")
    bed.objects[cluster_snapshot.NODE_OVERLAYS].clear()
    assert [line.split(":")[0] for line in bed.report_lines()] == ["skipped [karpenter] feature gate NodeOverlay"]
    bed.objects[cluster_snapshot.KARPENTER_DEPLOYMENTS].append(karpenter(**container))
    finding_lines = bed.report_lines("error", "warning", "skipped", "ok")
    assert any(
        line.startswith(("ok" if word == "on" else "error") + f" [karpenter] feature gate NodeOverlay: is {word}")
        for line in finding_lines
    )


def test_a_gate_that_nobody_declared(sample: Path) -> None:
    edit(sample, "clusters/us-1/cluster.yaml", "  karpenter:\n    featureGates:\n      - NodeOverlay\n", "")
    bed = Bed("us-1", offers_of(sample))
    overlays = Bed("us-1").objects[cluster_snapshot.NODE_OVERLAYS]
    bed.objects[cluster_snapshot.NODE_OVERLAYS] = overlays
    assert bed.report_lines() == [
        "warning [karpenter] feature gate NodeOverlay: is on, but spec.karpenter.featureGates doesn't name it: pools with slices can't be declared to grow -> write featureGates: [NodeOverlay]"
    ]


@pytest.mark.parametrize(
    ("selector", "takes"),
    [
        ({}, True),
        ({"matchLabels": {names.MANAGED_BY: "allotment"}}, True),
        ({"matchLabels": {names.MANAGED_BY: "helm"}}, False),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "In", "values": ["a"]}]}, None),
        ({"matchLabels": {"kubernetes.io/metadata.name": "t-a"}}, None),
        ({"matchExpressions": [{"key": names.MANAGED_BY, "operator": "NotIn", "values": ["allotment"]}]}, False),
    ],
)
def test_whether_a_selector_takes_tenants(selector: Object, takes: bool | None) -> None:
    assert selects(selector, names.labels(tenant="")) is takes


@pytest.mark.parametrize(
    ("selector", "takes"),
    [
        ({}, True),
        ({"matchLabels": {names.MANAGED_BY: "allotment"}}, None),
        ({"matchLabels": {names.TENANT: "a"}}, False),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": names.TENANT, "operator": "NotIn", "values": ["a"]}]}, True),
    ],
)
def test_whether_a_selector_takes_a_namespace_without_a_tenant(selector: Object, takes: bool | None) -> None:
    assert selects(selector, {names.TENANT: None}) is takes


@pytest.mark.parametrize(
    ("selector", "lines"),
    [
        ({"matchLabels": {names.MANAGED_BY: "allotment"}}, []),
        (
            {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]},
            [
                "error [gateway] Gateway edge/edge listener https: its selector needs the label allotment.dev/tenant, which namespace edge"
                " doesn't have, so the listener refuses the route allotment-login of the callback host and nobody can log in -> write"
                " matchLabels: {app.kubernetes.io/managed-by: allotment}, and give this label to the namespace"
            ],
        ),
    ],
)
def test_a_listener_must_admit_the_route_of_the_callback_host(selector: Object, lines: list[str], sample: Path) -> None:
    callback = "    clientID: allotment\n    callbackHost: login.eu-1.gpu.northlight.example\n"
    edit(sample, "clusters/eu-1/cluster.yaml", "    clientID: allotment\n", callback)
    bed = Bed("eu-1", offers_of(sample))
    listener(bed)["allowedRoutes"] = {"namespaces": {"from": "Selector", "selector": selector}}
    assert bed.report_lines() == lines
