"""Health checks in Argo CD's own Lua: of what is ours they say why it doesn't run, of anything else what Argo CD says itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.manifests.cluster.health import load_scripts
from tests.controlplane import programs
from tests.controlplane.fixtures import needs

pytestmark = pytest.mark.e2e
OURS = {"app.kubernetes.io/managed-by": "allotment"}
# Statuses of a Deployment of three replicas, each a branch of Argo CD's own check.
STATUSES: dict[str, dict[str, Any]] = {
    "new": {},
    "old generation": {
        "status": {"observedGeneration": 1, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}
    },
    "updating": {"status": {"observedGeneration": 2, "updatedReplicas": 1, "replicas": 3}},
    "old ones left": {"status": {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 5, "availableReplicas": 3}},
    "starting": {"status": {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 1}},
    "up": {"status": {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}},
    "paused": {"spec": {"replicas": 3, "paused": True}},
    "too late": {
        "status": {
            "observedGeneration": 2,
            "updatedReplicas": 1,
            "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
        }
    },
    "refused": {
        "status": {
            "observedGeneration": 2,
            "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}],
        }
    },
    "scaled to nothing": {"spec": {"replicas": 0}, "status": {"observedGeneration": 2}},
    "ending": {"spec": {"replicas": 0}, "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2}},
    "default replicas": {"spec": {}, "status": {"observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1}},
}


CHECKED = "Container check for pod x/web-7dpl2 failed with exit code 78 matching FailJob rule at index 0"


def condition(kind: str, status: str = "True", **fields: str) -> dict[str, str]:
    return {"type": kind, "status": status, **fields}


# Conditions of a Job, each a branch of Argo CD's own check.
CONDITIONS: dict[str, list[dict[str, str]]] = {
    "new": [],
    "starting": [condition("SuccessCriteriaMet"), condition("FailureTarget", reason="PodFailurePolicy", message="no")],
    "done": [
        condition("SuccessCriteriaMet"),
        condition("Complete", message="Reached expected number of succeeded pods"),
    ],
    "done without a word": [condition("Complete")],
    "failed": [
        condition("FailureTarget"),
        condition("Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit"),
    ],
    "failed without a word": [condition("Failed")],
    "failed, it isn't said so": [condition("Failed", "False", reason="PodFailurePolicy", message="no")],
    "failed and done": [condition("Failed", message="no"), condition("Complete", message="yes")],
    "suspended": [condition("Suspended", reason="JobSuspended", message="Job suspended")],
    "resumed": [condition("Suspended", "False", reason="JobResumed", message="Job resumed")],
    "suspended and failed": [condition("Suspended", message="Job suspended"), condition("Failed", message="no")],
    "ended by its rule": [
        condition("FailureTarget", reason="PodFailurePolicy", message=CHECKED),
        condition("Failed", reason="PodFailurePolicy", message=CHECKED),
    ],
}


def job(case: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "x", "generation": 1, "labels": labels}
    status = {"conditions": CONDITIONS[case]} if CONDITIONS[case] else {}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}, "status": status}


def deployment(case: str, labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    body = {"spec": {"replicas": 3}, "status": {}, **STATUSES[case]}
    metadata = {"name": "web", "namespace": "x", "generation": 2, "labels": labels, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, **body}


def policy(labels: dict[str, str], *conditions: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "x", "generation": 2, "labels": labels}
    status = {"ancestors": [{"conditions": list(conditions)}]} if conditions else {}
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "SecurityPolicy",
        "metadata": metadata,
        "status": status,
    }


class Argo:
    """Argo CD's own command that judges an object's health offline, with our checks or with none."""

    def __init__(self, folder: Path) -> None:
        needs("argocd")
        self.folder = folder
        own = {f"resource.customizations.health.{kind}": script for kind, script in load_scripts().items()}
        # A kind without any customisation isn't judged at all by that command, so this names one that judges nothing.
        none = {f"resource.customizations.ignoreDifferences.{kind}": "jsonPointers: [/x]" for kind in load_scripts()}
        self.ours, self.builtin = (
            self._settings(f"{name}.yaml", data) for name, data in (("own", own), ("none", none))
        )

    def _settings(self, name: str, data: dict[str, str]) -> Path:
        metadata = {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        (self.folder / name).write_text(text)
        return self.folder / name

    def says(self, manifest: dict[str, Any], settings: Path) -> tuple[str, str]:
        """Return status and message; both empty where there is no check."""
        (self.folder / "object.yaml").write_text(yaml.safe_dump(manifest))
        command = ["admin", "settings", "resource-overrides", "health", str(self.folder / "object.yaml")]
        done = subprocess.run(
            [programs.program("argocd"), *command, "--argocd-cm-path", str(settings)],
            env={**os.environ, "ARGOCD_BINARY_NAME": "argocd", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        fields = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
        return fields.get("STATUS", "").strip(), fields.get("MESSAGE", "").strip()


@pytest.fixture(scope="module")
def argo(tmp_path_factory: pytest.TempPathFactory) -> Argo:
    """Return the judge."""
    return Argo(tmp_path_factory.mktemp("health"))


@pytest.mark.parametrize("case", STATUSES)
def test_of_another_deployment_it_says_what_argo_cd_says(case: str, argo: Argo) -> None:
    other = deployment(case, {"app": "web"}, **{"allotment.dev/waits-for": "nothing of ours"})
    assert argo.says(other, argo.ours) == argo.says(other, argo.builtin)


@pytest.mark.parametrize("case", CONDITIONS)
def test_of_another_job_it_says_what_argo_cd_says(case: str, argo: Argo) -> None:
    other = job(case, {"app": "web"})
    assert argo.says(other, argo.ours) == argo.says(other, argo.builtin)


@pytest.mark.parametrize("case", CONDITIONS)
def test_of_a_job_of_ours_it_says_so_too_unless_its_rule_ended_it(case: str, argo: Argo) -> None:
    ours = job(case, OURS)
    if case == "ended by its rule":
        assert argo.says(ours, argo.ours) == ("Healthy", "its volume was filled before")
    else:
        assert argo.says(ours, argo.ours) == argo.says(ours, argo.builtin)


@pytest.mark.parametrize(
    ("case", "waits", "health"),
    [
        ("scaled to nothing", "preparation of storage models", ("Suspended", "preparation of storage models")),
        ("scaled to nothing", "", ("Healthy", "")),
        ("ending", "state: Stopped", ("Progressing", "2 replicas are pending termination")),
        ("refused", "", ("Degraded", "exceeded quota")),
        ("up", "", ("Healthy", "")),
    ],
)
def test_of_ours_it_says_why_it_does_not_run(case: str, waits: str, health: tuple[str, str], argo: Argo) -> None:
    annotations = {"allotment.dev/waits-for": waits} if waits else {}
    assert argo.says(deployment(case, OURS, **annotations), argo.ours) == health


ACCEPTED = {"type": "Accepted", "status": "True", "observedGeneration": 2}


@pytest.mark.parametrize("kind", ["SecurityPolicy", "BackendTrafficPolicy", "ClientTrafficPolicy"])
@pytest.mark.parametrize(
    ("gateway_policy", "health"),
    [
        (policy(OURS), ("Progressing", "Waiting for the gateway to accept it")),
        (policy(OURS, ACCEPTED), ("Healthy", "Accepted")),
        (policy(OURS, {**ACCEPTED, "status": "False", "message": "no Secret"}), ("Degraded", "no Secret")),
        (
            policy(OURS, {**ACCEPTED, "observedGeneration": 1}),
            ("Progressing", "Waiting for the gateway to look at it again"),
        ),
        (policy({}, {**ACCEPTED, "status": "False"}), ("", "")),
    ],
    ids=["new", "accepted", "refused", "changed", "another's"],
)
def test_of_a_policy(kind: str, gateway_policy: dict[str, Any], health: tuple[str, str], argo: Argo) -> None:
    assert argo.says({**gateway_policy, "kind": kind}, argo.ours) == health


def application(labels: dict[str, str], **status: Any) -> dict[str, Any]:
    metadata = {"name": "cert-manager", "namespace": "argocd", "labels": labels}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "status": status}


ADD_ON = {**OURS, "allotment.dev/add-on": "cert-manager"}
SYNCED = {"sync": {"status": "Synced"}, "operationState": {"phase": "Succeeded"}}
FAILED = {"sync": {"status": "OutOfSync"}, "operationState": {"phase": "Running", "message": "no such kind"}}
NO_CHART = {"type": "ComparisonError", "message": "no such chart"}


@pytest.mark.parametrize(
    ("argo_application", "health"),
    [
        (application(ADD_ON), ("Progressing", "Argo CD hasn't begun with it")),
        (application(ADD_ON, **FAILED), ("Degraded", "no such kind")),
        (application(ADD_ON, **SYNCED, conditions=[NO_CHART]), ("Degraded", "no such chart")),
        (application(ADD_ON, **SYNCED, health={"status": "Progressing"}), ("Degraded", "not up yet: Progressing")),
        (application(ADD_ON, **SYNCED, health={"status": "Healthy"}), ("Healthy", "")),
        (application(OURS, **FAILED, conditions=[NO_CHART]), ("Healthy", "how it is, its own page says")),
    ],
    ids=["new", "refused", "not to be had", "coming up", "up", "a tenant's"],
)
def test_of_an_application_it_says_whether_an_add_on_is_up(
    argo_application: dict[str, Any], health: tuple[str, str], argo: Argo
) -> None:
    assert argo.says(argo_application, argo.ours) == health
