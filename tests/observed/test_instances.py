"""An instance's state is what its owner would say of it, and why it isn't running is said in the owner's words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import live
from tests.support.instances import CRASHED, NOW, RUNS, STOPPED, UNSCHEDULABLE, Objects, look, started

from allotment.observed.objects import Pod
from allotment.observed.status import Instance, TenantStatus
from allotment.observed.tenants import is_time_dependent


def the(*objects: dict[str, Any], before: TenantStatus | None = None, now: str = NOW) -> Instance:
    return look(*objects, before=before, now=now).instances[0]


ENDING = live.deployment()
ENDING["metadata"]["deletionTimestamp"] = NOW
# As a kubelet of Kubernetes 1.36 says it.
LOW = "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0. "
TOO_LARGE = 'Container main exceeded its local ephemeral storage limit "20Gi". '
PREEMPTED = "Preempted in order to admit critical pod"
PRESSURE = "Pod was rejected: The node had condition: [DiskPressure]. "
NAMED = f"registry.example/denied/404@sha256:{'404' + '1' * 61}"
PULLING = (
    f'Back-off pulling image "{NAMED}": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image '
    f'"{NAMED}": failed to resolve image: {NAMED}: {{}}'
)
NO_COMMAND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start "
    'container process: error during container init: exec: "/bin/absent": stat /bin/absent: no such file or directory'
)
NOT_BEGUN = (
    "OCI runtime create failed: runc create failed: unable to start container process: error during container init: "
)
NO_DRIVER = (
    f"{NOT_BEGUN}error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy' "
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: "
    "no such file or directory"
)
NO_RUNTIME = (
    "failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open log.json: no such file or "
    'directory): exec: "nvidia-container-runtime": executable file not found in $PATH'
)
NO_ID_MAPPING = (
    "the file system of a storage that it mounts doesn't work in user namespaces; report this to the platform team"
)
NO_ID_MAPPING_RUNC = (
    "failed to create containerd task: runc create failed: failed to set MOUNT_ATTR_IDMAP on /var/lib/kubelet/pods/1/volumes:"
    " invalid argument (maybe the filesystem used doesn't support idmap mounts on this kernel?)"
)
NO_ID_MAPPING_CRUN = (
    "container create failed: mount_setattr `/workspace` (maybe the file system used doesn't support idmap mounts on this"
    " kernel?): Invalid argument"
)
NO_SECRET = 'secret "huggingface--secret" not found'
NO_KEY = "couldn't find key token in Secret t-acme/huggingface{}"
NO_MOUNT = (
    f'{NOT_BEGUN}error mounting "/mnt/a" to rootfs at "/data": mount /mnt/a:/data, flags: 0x5000: permission denied'
)
UNBEGUN = {
    "exitCode": 128,
    "reason": "StartError",
    "message": NO_COMMAND,
    "startedAt": "1970-01-01T00:00:00Z",
    "finishedAt": live.AT.format(9),
}


def gone_at(created: str, ended: str) -> dict[str, Any]:
    """Return a pod that its node threw out for want of disk, made and ended at these times."""
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": ended}
    status = {"phase": "Failed", "reason": "Evicted", "message": LOW, "conditions": [condition]}
    return live.pod(node="n1", creationTimestamp=created, status=status)


BAD_GPU = {"allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": [{"health": "Unhealthy"}]}]}
STATES: dict[str, tuple[Objects, str, str, str]] = {
    "no pod yet": (
        (live.deployment(), live.replica_set()),
        *("Init", "RolloutPending", "its pods are being created"),
    ),
    "a generation not looked at yet": (
        started(live.pod(node="n1", container=live.started(3, ready=True), ready=4), status={"observedGeneration": 0}),
        *("Init", "RolloutPending", "its pods are being created"),
    ),
    "only a pod of the rollout before": (
        (
            live.deployment(**{"deployment.kubernetes.io/revision": "2"}),
            live.replica_set(),
            live.replica_set(revision="2"),
            live.pod(node="n1", container=live.started(3, ready=True), ready=4),
        ),
        *("Init", "RolloutPending", "its pods are being created"),
    ),
    "taking a placeholder's place": (
        started(live.pod(status={"conditions": [UNSCHEDULABLE], "nominatedNodeName": "n1"})),
        *("Init", "Scheduling", "a placeholder is releasing a unit of l4-quarter"),
    ),
    "no capacity": (
        started(live.pod(status={"conditions": [UNSCHEDULABLE]})),
        *("Waiting", "NoFreeUnit", "no unit of l4-quarter is free on eu-1"),
    ),
    "pulling": (
        started(live.pod(node="n1", container=live.waiting("ContainerCreating"))),
        *("Init", "Starting", "its image is pulled and its volumes are mounted on n1"),
    ),
    "started": (
        started(live.pod(node="n1", container=live.started(3))),
        *("Ready", "ProbePending", "the container has started, and its probe has not succeeded yet"),
    ),
    "running": (
        started(live.pod(node="n1", container=live.started(3, ready=True), ready=4)),
        *("Running", "ProbesAnswered", ""),
    ),
    "no longer ready": (
        started(live.pod(node="n1", container=live.started(3, probed=True))),
        *("Ready", "ProbeFailed", "the container runs, but its probe fails"),
    ),
    "one of two copies": (
        (
            *started(live.pod(node="n1", container=live.started(3, ready=True), ready=4), replicas=2),
            live.pod(number=2, node="n1", container=live.started(5)),
        ),
        *("Ready", "ProbePending", "the container has started, and its probe has not succeeded yet"),
    ),
    "image not found": (
        started(
            live.pod(
                node="n1",
                container=live.waiting("ImagePullBackOff", 'failed: @everyone </details> "x": not found'),
            )
        ),
        *("Failed", "ImagePullFailed", "image not found: registry.example/webui:1@sha256:aa"),
    ),
    "image refused": (
        started(live.pod(node="n1", container=live.waiting("ErrImagePull", "401 Unauthorized"))),
        *("Failed", "ImagePullUnauthorized", "the registry denies access to image registry.example/webui:1@sha256:aa"),
    ),
    "image refused without a credential": (
        started(live.pod(node="n1", container=live.waiting("ErrImagePull", "no basic auth credentials"))),
        *("Failed", "ImagePullUnauthorized", "the registry denies access to image registry.example/webui:1@sha256:aa"),
    ),
    "crash": (
        started(
            live.pod(
                node="n1",
                container=live.waiting(
                    "CrashLoopBackOff", "back-off", restarts=3, ended={"exitCode": 137, "reason": "Error"}
                ),
            )
        ),
        *("Failed", "CrashLoop", "the container ended with exit code 137 (3 restarts)"),
    ),
    "out of memory": (
        started(
            live.pod(
                node="n1",
                container=live.waiting("CrashLoopBackOff", restarts=1, ended={"exitCode": 137, "reason": "OOMKilled"}),
            )
        ),
        *("Failed", "OutOfMemory", "the container exceeded the memory of its unit and was killed (1 restart)"),
    ),
    "a configuration that can't be": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerConfigError", "secret x"))),
        *("Failed", "ConfigFailed", "the container can't be created: CreateContainerConfigError"),
    ),
    "refused by its node": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "UnexpectedAdmissionError"})),
        *("Failed", "AdmissionFailed", "its node rejected its pod: UnexpectedAdmissionError; a new pod replaces it"),
    ),
    "evicted": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted"})),
        *("Failed", "Evicted", "its node evicted it; a new pod replaces it"),
    ),
    "evicted for want of disk": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted", "message": LOW})),
        *("Failed", "Evicted", "its node ran out of disk and evicted it; a new pod replaces it"),
    ),
    "evicted for its files": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted", "message": TOO_LARGE})),
        *(
            "Failed",
            "Evicted",
            "its files outside of volumes exceeded their limit, so its node evicted it: write them to /scratch or to a storage;"
            " a new pod replaces it",
        ),
    ),
    "evicted, and no other place is free": (
        (
            *started(gone_at("2026-11-21T09:00:00Z", "2026-11-21T09:59:59Z")),
            live.pod(number=2, status={"conditions": [UNSCHEDULABLE]}),
        ),
        *("Waiting", "NoFreeUnit", "no unit of l4-quarter is free on eu-1; its node ran out of disk and evicted it"),
    ),
    "not taken by a node that lacks disk": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted", "message": PRESSURE})),
        *("Failed", "Evicted", "its node ran out of disk and evicted it; a new pod replaces it"),
    ),
    "ended with its node": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "Terminated"})),
        *("Failed", "Evicted", "its node was shut down; a new pod replaces it"),
    ),
    "preempted by its node": (
        started(live.pod(node="n1", status={"phase": "Failed", "reason": "Preempting", "message": PREEMPTED})),
        *("Failed", "Evicted", "it was preempted: its node needed room for a critical pod; a new pod replaces it"),
    ),
    "evicted, and another has taken its place": (
        (
            *started(live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted"})),
            live.pod(number=2, node="n1", container=live.started(3, ready=True), ready=4),
        ),
        *("Running", "ProbesAnswered", ""),
    ),
    "on a node that is lost": (
        started(live.pod(node="n1", container=live.started(3, ready=True), unready=9)),
        "Waiting",
        "NodeLost",
        "its node n1 doesn't respond, so the state of its pod is unknown; the pod starts on another node after 6 minutes, or "
        "after 12 if it mounts a ReadWriteOnce storage",
    ),
    "on a GPU that went bad": (
        started(live.pod(node="n1", container=live.started(3, ready=True) | BAD_GPU, ready=4)),
        "Running",
        "GPUUnhealthy",
        "its GPU is unhealthy, and its program may fail: stop it and start it again to get another GPU",
    ),
    "crashed on a GPU that went bad": (
        started(live.pod(node="n1", container=live.ended(4) | BAD_GPU)),
        "Failed",
        "ContainerEnded",
        "the container ended with exit code 4 (0 restarts); its GPU is unhealthy: stop it and start it again to get another GPU",
    ),
    "ended, and not restarted yet": (
        started(live.pod(node="n1", container=live.ended(4, restarts=2))),
        *("Failed", "CrashLoop", "the container ended with exit code 4 (2 restarts)"),
    ),
    "ended because it didn't answer": (
        started(live.pod(node="n1", container=live.ended(143, seconds=19, restarts=2), start_limit=20)),
        "Failed",
        "ProbeFailed",
        "the probe of the container did not succeed within startTimeout, and the container was killed (2 restarts)",
    ),
    "started again because it didn't answer": (
        started(live.pod(node="n1", container=live.started(40, restarts=1, ended=live.run(143, 17)), start_limit=20)),
        "Failed",
        "ProbeFailed",
        "the probe of the container did not succeed within startTimeout, and the container was killed (1 restart)",
    ),
    "answered at its second start": (
        started(
            live.pod(
                node="n1",
                container=live.started(40, ready=True, restarts=1, ended=live.run(143, 17)),
                ready=50,
                start_limit=20,
            )
        ),
        *("Running", "ProbesAnswered", ""),
    ),
    "ended well because it didn't answer": (
        started(
            live.pod(
                node="n1",
                container=live.started(40, restarts=1, ended=live.run(0, 19, "Completed")),
                start_limit=20,
            )
        ),
        "Failed",
        "ProbeFailed",
        "the probe of the container did not succeed within startTimeout, and the container was killed (1 restart)",
    ),
    "ended at once where little time is given": (
        started(live.pod(node="n1", container=live.ended(137, restarts=1), start_limit=10)),
        *("Failed", "CrashLoop", "the container ended with exit code 137 (1 restart)"),
    ),
    "ended because it didn't answer within little time": (
        started(live.pod(node="n1", container=live.ended(137, seconds=1, restarts=1), start_limit=10)),
        "Failed",
        "ProbeFailed",
        "the probe of the container did not succeed within startTimeout, and the container was killed (1 restart)",
    ),
    "ended by itself while it started": (
        started(live.pod(node="n1", container=live.ended(143, seconds=5, restarts=1), start_limit=20)),
        *("Failed", "CrashLoop", "the container ended with exit code 143 (1 restart)"),
    ),
    "just answered, and not asked again yet": (
        started(live.pod(node="n1", container=live.started(3, probed=True), unready=1)),
        *("Ready", "ProbePending", "the container has started, and its probe has not succeeded yet"),
    ),
    "a command that isn't there": (
        started(live.pod(node="n1", container=live.waiting("RunContainerError", NO_COMMAND, ended=UNBEGUN))),
        *("Failed", "ConfigFailed", "the container can't be created: its command isn't in the image"),
    ),
    "a command that isn't there, between two tries": (
        started(live.pod(node="n1", container=live.waiting("CrashLoopBackOff", "back-off 10s", ended=UNBEGUN))),
        *("Failed", "ConfigFailed", "the container can't be created: its command isn't in the image"),
    ),
    "a command that isn't on the path": (
        started(
            live.pod(
                node="n1",
                container=live.waiting(
                    "RunContainerError", f'{NOT_BEGUN}exec: "serve": executable file not found in $PATH'
                ),
            )
        ),
        *("Failed", "ConfigFailed", "the container can't be created: its command isn't in the image"),
    ),
    "a command that may not run": (
        started(
            live.pod(
                node="n1",
                container=live.waiting("RunContainerError", f'{NOT_BEGUN}exec: "/data/model": permission denied'),
            )
        ),
        *("Failed", "ConfigFailed", "the container can't be created: its command is not executable"),
    ),
    "a node without its driver": (
        started(live.pod(node="n1", container=live.waiting("RunContainerError", NO_DRIVER))),
        *("Failed", "ConfigFailed", "the container can't be created: RunContainerError"),
    ),
    "a node without its driver, between two tries": (
        started(
            live.pod(node="n1", container=live.waiting("CrashLoopBackOff", ended=UNBEGUN | {"message": NO_DRIVER}))
        ),
        *("Failed", "ConfigFailed", "the container can't be created: StartError"),
    ),
    "a node without its runtime": (
        started(live.pod(node="n1", container=live.waiting("RunContainerError", NO_RUNTIME))),
        *("Failed", "ConfigFailed", "the container can't be created: RunContainerError"),
    ),
    "a volume that can't be mounted": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerError", NO_MOUNT))),
        *("Failed", "ConfigFailed", "the container can't be created: CreateContainerError"),
    ),
    "a volume of NFS, as runc refuses it": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerError", NO_ID_MAPPING_RUNC))),
        *("Failed", "ConfigFailed", f"the container can't be created: {NO_ID_MAPPING}"),
    ),
    "a volume of NFS, as crun refuses it": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerError", NO_ID_MAPPING_CRUN))),
        *("Failed", "ConfigFailed", f"the container can't be created: {NO_ID_MAPPING}"),
    ),
    "runs again since its start failed": (
        started(live.pod(node="n1", container=live.started(40, ready=True, restarts=1, ended=UNBEGUN), ready=41)),
        *("Running", "ProbesAnswered", ""),
    ),
    "just begun since its start failed": (
        started(live.pod(node="n1", container=live.started(55, ready=True, restarts=1, ended=UNBEGUN), ready=56)),
        *("Failed", "ConfigFailed", "the container can't be created: its command isn't in the image"),
    ),
    "a Secret that is missing": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerConfigError", 'secret "box" not found'))),
        *("Failed", "ConfigFailed", "the container can't be created: it has no Secret box"),
    ),
    "a SecretReference without a value": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerConfigError", NO_SECRET))),
        *("Failed", "SecretNotReady", "the SecretReference huggingface has no value from the secret store yet"),
    ),
    "a SecretReference without one of its keys": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerConfigError", NO_KEY.format("--secret")))),
        *("Failed", "SecretNotReady"),
        "the SecretReference huggingface has no value for the key token from the secret store yet",
    ),
    "a bucket without one of its keys": (
        started(live.pod(node="n1", container=live.waiting("CreateContainerConfigError", NO_KEY.format("")))),
        *("Failed", "ConfigFailed", "the container can't be created: CreateContainerConfigError"),
    ),
    "image not found, said at length": (
        started(live.pod(node="n1", container=live.waiting("ImagePullBackOff", PULLING.format("not found")))),
        *("Failed", "ImagePullFailed", "image not found: registry.example/webui:1@sha256:aa"),
    ),
    "a registry that fails, and a name that looks like a reason": (
        started(live.pod(node="n1", container=live.waiting("ImagePullBackOff", PULLING.format("503 Unavailable")))),
        *("Failed", "ImagePullFailed", "image can't be pulled: registry.example/webui:1@sha256:aa"),
    ),
    "refused by its quota": (
        (
            live.deployment(
                status={
                    "conditions": [
                        {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: t, requested"}
                    ]
                }
            ),
        ),
        *("Failed", "CreationRefused", "the cluster rejects its pods: the namespace's quota is used up"),
    ),
    "stopped": (
        (live.deployment(replicas=0, units="", waits_for="state: Stopped", waits_reason="StoppedAsDeclared"),),
        *("Stopped", "StoppedAsDeclared", ""),
    ),
    "stopping": (
        (
            live.deployment(
                replicas=0,
                status={"replicas": 1},
                units="",
                waits_for="state: Stopped",
                waits_reason="StoppedAsDeclared",
            ),
        ),
        *("Stopped", "Terminating", "its pods are ending"),
    ),
    "stopped, and one that was evicted before is still an object": (
        (
            live.deployment(replicas=0, units="", waits_for="state: Stopped", waits_reason="StoppedAsDeclared"),
            live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted"}),
        ),
        *("Stopped", "StoppedAsDeclared", ""),
    ),
    "being removed": (
        (ENDING, live.replica_set(), live.pod(node="n1", container=live.started(3, ready=True), ready=4)),
        *("Stopped", "Terminating", "it is being removed"),
    ),
    "suspended": (
        (live.deployment(replicas=0, units="", waits_for="tenant is Suspended", waits_reason="TenantSuspended"),),
        *("Stopped", "TenantSuspended", ""),
    ),
    "on hold": (
        (live.deployment(replicas=0, units="", waits_for="on hold: It sends spam.", waits_reason="OnHold"),),
        *("Stopped", "OnHold", "on hold: It sends spam."),
    ),
    "waits for a unit": (
        (live.deployment(replicas=0, waits_for="1 unit of …", waits_reason="NoFreeUnit"),),
        *("Waiting", "NoFreeUnit", "no unit of l4-quarter is free on eu-1"),
    ),
    "a revoked version": (
        (live.deployment(replicas=0, waits_for="version 1.9.0 is revoked", waits_reason="VersionRevoked"),),
        *("Waiting", "VersionRevoked", "version 1.9.0 is revoked: choose another one"),
    ),
    "waits for a preparation": (
        (
            live.deployment(
                replicas=0,
                mounts=("models",),
                waits_for="preparation of storage models",
                waits_reason="StorageUnprepared",
            ),
            live.claim(),
            live.job(attempt=2, condition="Failed", reason="BackoffLimitExceeded"),
            live.job_pod(attempt=2, container=live.waiting("x", ended={"exitCode": 1})),
        ),
        "Waiting",
        "StorageUnprepared",
        "storage models: preparation failed in attempt 2: exit 1; `allot recover` tries again",
    ),
    "not applied yet": (
        (live.application(resources=(("Deployment", "webui", "OutOfSync"),)),),
        *("Init", "OutOfSync", "the cluster doesn't have the published version yet"),
    ),
    "refused by Argo CD": (
        (
            live.application(
                resources=(("Deployment", "webui", "OutOfSync"),), operationState={"phase": "Failed"}, sync="OutOfSync"
            ),
        ),
        *("Failed", "SyncFailed", "Argo CD couldn't apply it: its dashboard shows the error"),
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_state_reason_and_words(case: str) -> None:
    objects, state, reason, words = STATES[case]
    instance_status = the(*objects)
    assert (instance_status.state, instance_status.reason, instance_status.message) == (state, reason, words)


def test_one_that_the_cluster_has_not_got_says_whether_argo_cd_tried() -> None:
    instance_status = the(live.application(resources=(("Deployment", "webui", "OutOfSync"),)))
    assert [(condition.type, condition.status, condition.reason) for condition in instance_status.conditions] == [
        ("Synced", "False", "OutOfSync")
    ]


def test_an_application_that_argo_cd_cannot_compare_has_applied_nothing_new() -> None:
    uncomparable = live.application(resources=(("Deployment", "webui", "Synced"),), sync="Unknown")
    for objects in (
        (uncomparable,),
        (*started(live.pod(node="n1", container=live.started(3, ready=True))), uncomparable),
    ):
        (synced,) = [condition for condition in the(*objects).conditions if condition.type == "Synced"]
        assert (synced.status, synced.reason) == ("Unknown", "ComparisonFailed")


def test_all_that_is_known_of_one_that_runs() -> None:
    objects = (
        *started(live.pod(node="n1", container=live.started(3, ready=True, restarts=2), ready=4), replicas=1),
        live.route(),
        live.route("webui--api"),
        live.application(resources=(("Deployment", "webui", "Synced"),)),
    )
    instance_status = the(*objects)
    assert (instance_status.observed_blob, instance_status.gpu_spec, instance_status.units) == ("b1", "l4-quarter", 1)
    assert (
        instance_status.replicas,
        instance_status.ready_replicas,
        instance_status.nodes,
        instance_status.restarts,
    ) == (1, 1, ("n1",), 2)
    assert (instance_status.url, instance_status.links) == ("https://webui.example/", ("https://webui--api.example/",))
    assert (instance_status.start_time, instance_status.since) == (live.AT.format(3), live.AT.format(4))
    assert [
        (condition.type, condition.status, condition.reason, condition.last_transition_time[-3:-1])
        for condition in instance_status.conditions
    ] == [
        ("Admitted", "True", "UnitsHeld", "59"),
        ("StoragesPrepared", "True", "NothingToPrepare", "59"),
        ("Synced", "True", "Applied", "59"),
        ("Scheduled", "True", "OnNode", "01"),
        ("Started", "True", "ContainersStarted", "03"),
        ("Available", "True", "ProbesAnswered", "04"),
        ("Exposed", "True", "RoutesAccepted", "59"),
    ]


def test_a_pod_that_just_came_may_still_look_for_its_place() -> None:
    objects = started(live.pod(status={"conditions": [UNSCHEDULABLE]}))
    assert the(*objects, now=live.AT.format(5)).state == "Init"
    assert the(*objects, now=live.AT.format(11)).state == "Waiting"


def test_a_pod_in_a_foreign_namespace_belongs_to_no_tenant() -> None:
    foreign = live.pod(node="n1", container=live.started(3, ready=True), ready=4, namespace="t-evil")
    (live_pod,) = live.seen(foreign)
    assert isinstance(live_pod, Pod)
    assert (live_pod.tenant, live_pod.instance) == ("", "webui")


def way(*looks: Objects) -> list[tuple[str, str, str]]:
    """Return all transitions that a row of looks gives, each with its time's seconds."""
    before, transitions = None, []
    for number, objects in enumerate(looks):
        before = look(*objects, before=before, now=live.AT.format(20 + number))
        transitions += [
            (transition.source, transition.target, transition.time[-3:-1]) for transition in before.transitions
        ]
    return transitions


def test_every_step_is_told_also_when_only_the_last_was_seen() -> None:
    assert way(RUNS) == [("", "Init", "01"), ("Init", "Ready", "03"), ("Ready", "Running", "04")]
    assert way((live.deployment(), live.replica_set()), RUNS) == [
        ("", "Init", "20"),
        ("Init", "Ready", "20"),
        ("Ready", "Running", "20"),
    ], "no time goes back"


def test_a_stop_a_crash_and_a_recovery() -> None:
    assert way(RUNS, STOPPED, RUNS)[3:] == [
        ("Running", "Stopped", "21"),
        ("Stopped", "Init", "21"),
        ("Init", "Ready", "21"),
        ("Ready", "Running", "21"),
    ]
    assert way(RUNS, CRASHED, CRASHED)[3:] == [("Running", "Failed", "21")]
    assert way(RUNS, RUNS)[3:] == []
    assert way(RUNS, ())[3:] == [("Running", "", "21")]
    assert way(RUNS, started(live.pod(node="n1", container=live.started(3, probed=True))))[3:] == [
        ("Running", "Ready", "21")
    ]


LOST = started(live.pod(node="n1", container=live.started(3, ready=True), unready=9))
BACK = started(live.pod(node="n1", container=live.started(3, ready=True), ready=22))
AGAIN = started(
    live.pod(node="n1", container=live.started(22, ready=True, restarts=1, ended=live.run(137, 15)), ready=22)
)


def test_a_recovery_omits_transitions_of_unchanged_conditions() -> None:
    assert way(RUNS, LOST, BACK)[3:] == [("Running", "Waiting", "21"), ("Waiting", "Running", "22")]
    assert way(RUNS, CRASHED, AGAIN)[3:] == [
        ("Running", "Failed", "21"),
        ("Failed", "Ready", "22"),
        ("Ready", "Running", "22"),
    ], "its node was always the same"


@pytest.mark.parametrize(
    ("gone", "node"),
    [
        (LOST, "n2"),
        (started(live.pod(node="n1", status={"phase": "Failed", "reason": "Evicted"})), "n1"),
        (started(live.pod(node="n1", status={"phase": "Failed", "reason": "UnexpectedAdmissionError"})), "n1"),
    ],
    ids=["lost", "evicted", "refused"],
)
def test_another_pod_goes_all_the_way(gone: Objects, node: str) -> None:
    another = started(live.pod(number=2, node=node, container=live.started(15, ready=True), ready=16))
    assert [step[:2] for step in way(RUNS, gone, another)[4:]] == [
        ("Waiting" if gone is LOST else "Failed", "Init"),
        ("Init", "Ready"),
        ("Ready", "Running"),
    ]


def test_a_condition_keeps_its_time_while_it_holds() -> None:
    first = look(*RUNS, now=live.AT.format(20))
    second = look(*RUNS, before=first, now=live.AT.format(30))
    assert second.instances == first.instances
    third = look(*CRASHED, before=second, now=live.AT.format(40))
    times = {condition.type: condition.last_transition_time[-3:-1] for condition in third.instances[0].conditions}
    assert times == {
        "Admitted": "20", "StoragesPrepared": "20", "Synced": "20", "Scheduled": "01", "Started": "40", "Available": "40",
    }  # fmt: skip


def test_a_container_that_ends_at_once_isnt_up_between_its_restarts() -> None:
    """Kubelets say that it is ready then, for less than a second, and start it after ever longer waits."""
    restarted_objects = started(
        live.pod(node="n1", container=live.started(40, ready=True, restarts=2, ended=live.run(4, 0)), ready=40)
    )
    early, late = look(*restarted_objects, now=live.AT.format(49)), look(*restarted_objects, now=live.AT.format(50))
    words = "the container ended with exit code 4 (2 restarts)"
    assert [
        (instance_status.state, instance_status.message) for instance_status in (*early.instances, *late.instances)
    ] == [
        ("Failed", words),
        ("Running", ""),
    ]
    assert (is_time_dependent(early), is_time_dependent(late)) == (True, False)
    assert [instance_status.ready_replicas for instance_status in (*early.instances, *late.instances)] == [0, 1]
    conditions = {condition.type: (condition.status, condition.reason) for condition in early.instances[0].conditions}
    assert conditions["Available"] == conditions["Started"] == ("False", "CrashLoop")
    between = started(live.pod(node="n1", container=live.ended(4, restarts=2)))
    assert way(RUNS, between, restarted_objects, between)[3:] == [("Running", "Failed", "21")]
    assert not is_time_dependent(look(*between))


def test_one_that_ran_for_a_while_is_up_again_at_once() -> None:
    restarted_container = live.started(40, ready=True, restarts=1, ended=live.run(137, 30, "OOMKilled"))
    instance_status = the(
        *started(live.pod(node="n1", container=restarted_container, ready=40)), now=live.AT.format(41)
    )
    assert (instance_status.state, instance_status.restarts) == ("Running", 1)


def test_one_whose_start_failed_once_is_up_again_by_time_alone() -> None:
    objects = started(live.pod(node="n1", container=live.started(40, ready=True, restarts=1, ended=UNBEGUN), ready=40))
    early, late = look(*objects, now=live.AT.format(49)), look(*objects, now=live.AT.format(50))
    assert [status.instances[0].state for status in (early, late)] == ["Failed", "Running"]
    assert (is_time_dependent(early), is_time_dependent(late)) == (True, False)


def test_one_that_answered_late_is_up_again_by_time_alone() -> None:
    restarted_container = live.started(40, ready=True, restarts=1, ended=live.run(143, 5))
    objects = started(live.pod(node="n1", container=restarted_container, ready=41, start_limit=10))
    early, late = look(*objects, now=live.AT.format(49)), look(*objects, now=live.AT.format(50))
    assert [(status.instances[0].state, status.instances[0].reason) for status in (early, late)] == [
        ("Failed", "ProbeFailed"),
        ("Running", "ProbesAnswered"),
    ]
    assert (is_time_dependent(early), is_time_dependent(late)) == (True, False)


def test_an_evicted_pod_counts_until_another_pod_has_its_place() -> None:
    gone = [live.pod(number=number, node="n1", status={"phase": "Failed", "reason": "Evicted"}) for number in (1, 2)]
    instance_status = the(
        live.deployment(), live.replica_set(), *gone, live.pod(number=3, node="n2", container=live.started(3))
    )
    assert (instance_status.state, instance_status.nodes, instance_status.pods) == ("Ready", ("n2",), 1)
    objects = (live.deployment(replicas=2), live.replica_set(), *gone)
    instance_status = the(*objects, live.pod(number=3, node="n2", container=live.started(3, ready=True), ready=4))
    assert (instance_status.state, instance_status.reason, instance_status.ready_replicas) == ("Failed", "Evicted", 1)


def test_an_old_eviction_stays_hidden_while_pods_change() -> None:
    old = gone_at("2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z")
    ends = live.pod(number=2, node="n1", container=live.started(3, ready=True), ready=4, deletionTimestamp=NOW)
    instance_status = the(live.deployment(), live.replica_set(), old, ends)
    assert (instance_status.state, instance_status.reason) == ("Init", "RolloutPending")
    instance_status = the(live.deployment(), live.replica_set(), old)
    assert (instance_status.state, instance_status.reason) == ("Failed", "Evicted"), "its successor was never made"


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (live.AT.format(0), "; its node ran out of disk and evicted it"),
        ("2026-11-21T09:58:00Z", "; its node ran out of disk and evicted it"),
        ("2026-11-21T09:57:59Z", ""),
        (live.AT.format(1), ""),
    ],
)
def test_an_eviction_explains_only_its_direct_replacement_pod(ended: str, words: str) -> None:
    old = gone_at("2026-11-20T09:00:00Z", ended)
    instance_status = the(*started(old), live.pod(number=2, status={"conditions": [UNSCHEDULABLE]}))
    assert instance_status.message == f"no unit of l4-quarter is free on eu-1{words}"


def test_a_rejection_or_node_shutdown_explains_the_replacement_pod() -> None:
    waits = live.pod(number=2, creationTimestamp=live.AT.format(9), status={"conditions": [UNSCHEDULABLE]})
    (refused,) = rejected_pods(7)
    words = "no unit of l4-quarter is free on eu-1; its node rejected its pod: UnexpectedAdmissionError"
    assert the(*started(refused), waits).message == words
    shut = live.pod(node="n1", container=live.ended(143, seconds=7), status={"phase": "Failed", "reason": "Terminated"})
    assert the(*started(shut), waits).message == "no unit of l4-quarter is free on eu-1; its node was shut down"


def rejected_pods(*seconds: int) -> list[dict[str, Any]]:
    """Return pods that their node rejected at these seconds, as a kubelet of Kubernetes 1.36 leaves them: without conditions."""
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "conditions": []}
    return [
        live.pod(
            number=number,
            node="n1",
            creationTimestamp=live.AT.format(second),
            status={**status, "startTime": live.AT.format(second + 1)},
        )
        for number, second in enumerate(seconds, 1)
    ]


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [
        ({}, "AdmissionFailed"),
        ({"node": "n1"}, "AdmissionFailed"),
        ({"node": "n1", "container": live.waiting("ContainerCreating")}, "Starting"),
        ({"node": "n1", "container": live.waiting("ImagePullBackOff")}, "ImagePullFailed"),
        ({"node": "n1", "container": live.started(9)}, "ProbePending"),
        ({"node": "n1", "container": live.started(9, ready=True), "ready": 9}, "ProbesAnswered"),
    ],
)
def test_a_rejection_is_the_reason_until_a_node_accepts_the_next_pod(replacement: dict[str, Any], reason: str) -> None:
    next_pod = live.pod(number=3, scheduled=8, creationTimestamp=live.AT.format(7), **replacement)
    instance_status = the(*started(*rejected_pods(3, 6), next_pod))
    message = "its node rejected its pod: UnexpectedAdmissionError; a new pod replaces it"
    assert instance_status.reason == reason
    assert (instance_status.state == "Failed", instance_status.message == message) == (
        (True, True) if reason == "AdmissionFailed" else (reason == "ImagePullFailed", False)
    )


@pytest.mark.parametrize(("created", "reason"), [(5, "Starting"), (6, "AdmissionFailed"), (7, "AdmissionFailed")])
def test_a_node_whose_clock_is_ahead_explains_only_the_pods_after_it(created: int, reason: str) -> None:
    next_pod = live.pod(number=2, node="n1", creationTimestamp=live.AT.format(created))
    (rejected,) = rejected_pods(6)
    rejected["status"]["startTime"] = live.AT.format(58)
    assert the(*started(rejected, next_pod)).reason == reason


def test_a_pod_that_waits_for_a_unit_after_a_rejection_says_so_by_time_alone() -> None:
    waiting_pod = live.pod(number=2, creationTimestamp=live.AT.format(7), status={"conditions": [UNSCHEDULABLE]})
    objects = started(*rejected_pods(6), waiting_pod)
    early, late = look(*objects, now=live.AT.format(17)), look(*objects, now=live.AT.format(18))
    assert [status.instances[0].reason for status in (early, late)] == ["AdmissionFailed", "NoFreeUnit"]
    assert (is_time_dependent(early), is_time_dependent(late)) == (True, False)


def test_a_node_that_rejects_pods_for_want_of_disk_is_named_until_it_accepts_the_next_pod() -> None:
    (rejected,) = rejected_pods(6)
    rejected["status"] |= {"reason": "Evicted", "message": PRESSURE}
    next_pod = live.pod(number=2, node="n1", creationTimestamp=live.AT.format(7))
    instance_status = the(*started(rejected, next_pod))
    message = "its node ran out of disk and evicted it; a new pod replaces it"
    assert (instance_status.reason, instance_status.message) == ("Evicted", message)


def test_an_old_rejection_is_no_reason_of_another_pod() -> None:
    (old,) = rejected_pods(6)
    later = live.pod(number=2, node="n1", creationTimestamp="2026-11-21T10:05:00Z")
    assert the(*started(old, later)).reason == "Starting"


def test_of_several_copies_that_run_the_one_on_a_bad_gpu_is_told() -> None:
    pods = [
        live.pod(number=1, node="n1", container=live.started(3, ready=True), ready=4),
        live.pod(number=2, node="n1", container=live.started(3, ready=True) | BAD_GPU, ready=4),
    ]
    instance_status = the(live.deployment(replicas=2), live.replica_set(), *pods)
    assert (instance_status.state, instance_status.reason, instance_status.ready_replicas) == (
        "Running",
        "GPUUnhealthy",
        2,
    )
