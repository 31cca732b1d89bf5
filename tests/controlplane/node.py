"""A real node beside the simulated ones: containerd, kubelet and kube-proxy in a private world of this machine."""

from __future__ import annotations

import datetime
import json
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from allotment.declared.kinds.node_pool import NodePool
from tests.controlplane import debian, dns, images, internet, processes, programs, simulated, world
from tests.controlplane.cluster import Cluster
from tests.controlplane.world import ADVERTISED, World
from tests.support.waiting import eventually

NAME = "real-1"
TAINT = "allotment.test/real"  # what doesn't ask for this node goes to the simulated ones
DRIVERS = tuple(f"{policy}.{simulated.PROVISIONER}" for policy in ("retain", "delete"))
PAUSE = "allotment.test/pause:1"  # holds a pod's namespaces
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "kubelet", "kube-proxy")
PLUGINS = ("ptp", "loopback", "host-local", "portmap")  # of CNI
# What the kubelet would set for the whole machine; it finds it set, in files of its own.
SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
NUMA_NODES = 32  # of the machine's own CPUs each: the kubelet counts them all
MEMORY = 256 << 20  # KiB
UNITS = {
    "nvidia.com/gpu": 4,
    "nvidia.com/gpu.shared": 48,  # of all nodes of the pool that it stands for
    "nvidia.com/mig-1g.10gb": 8,
    "nvidia.com/mig-2g.20gb": 4,
    "nvidia.com/mig-3g.40gb": 4,
}
_TAG_BEFORE_DIGEST = re.compile(r":[A-Za-z0-9_.-]+@")  # which containerd leaves out of a name
_SECOND = datetime.timedelta(seconds=1)  # the API's times have no parts of one
_DAY = datetime.timedelta(days=1)


def why_not() -> str | None:
    """Return why this machine can't have a real node; None where it can."""
    return world.why_not() or debian.why_not()


def folder(cluster: Cluster) -> Path:
    """Return the folder of a cluster's node."""
    return cluster.folder / "node"


def volumes(cluster: Cluster) -> Path:
    """Return the folder whose folders are the volumes of a cluster, by their handles; they outlive the node."""
    return cluster.folder / "volumes"


def start(cluster: Cluster) -> World:
    """Start a node that joins the cluster, and return its world once it is Ready and resolves names. Raises NotBuilt or
    NotStarted."""
    _lay_out(folder(cluster))
    cluster.client.apply(*(_csi_driver(name) for name in DRIVERS), *dns.objects(cluster, NAME))
    provisioner = [sys.executable, "-m", "tests.controlplane.provisioner", f"--kubeconfig={cluster.kubeconfig}"]
    provisioner += [f"--volumes={volumes(cluster)}"]
    processes.start(cluster.folder, "provisioner", provisioner, programs.OWN)
    begun = boot(cluster, {PAUSE: images.busybox("/bin/sleep", "infinity"), dns.IMAGE: dns.EMPTY})
    eventually(lambda: dns.is_ready(cluster), "names to be resolved")
    return begun


def boot(cluster: Cluster, app_images: Mapping[str, images.Image] | None = None) -> World:
    """Start a node that was laid out, or that ended, however it did, and return its world once it is Ready;
    `app_images` are images that it is given. What lies on its disks is what it was."""
    place = folder(cluster)
    world_ = world.begin(place, [(place / "kubelet", "/var/lib/kubelet"), (place / "log", "/var/log")])
    internet.start(world_)
    _forward(cluster, world_)
    _configure(cluster, world_)
    _set_apart(place)
    began = datetime.datetime.now(datetime.UTC)
    for name in ("containerd", "kubelet", "kube-proxy"):
        run(cluster, world_, name)
    plugins = [sys.executable, "-m", "tests.controlplane.plugins", f"--node={NAME}", f"--volumes={volumes(cluster)}"]
    plugins += [f"--driver={name}" for name in DRIVERS] + [f"--unwell={place / 'unwell'}"]
    plugins += [word for name, count in UNITS.items() for word in ("--unit", name, str(count))]
    processes.start(place, "plugins", world_.inside(plugins), programs.OWN)
    if app_images:
        take_in(world_, app_images)
    eventually(lambda: is_ready(cluster, began), f"{NAME} to be ready")
    return world_


def run(cluster: Cluster, world_: World, name: str) -> None:
    """Start one of the node's programs: containerd, kubelet or kube-proxy."""
    place = world_.folder
    own: dict[str, list[str | Path]] = {
        "containerd": ["--config", place / "containerd.toml"],
        "kubelet": [
            f"--config={place / 'kubelet.yaml'}",
            f"--kubeconfig={place / 'kubelet.kubeconfig'}",
            f"--hostname-override={NAME}",
            f"--node-ip={world_.network.node}",
            f"--register-with-taints={TAINT}=true:NoSchedule",
        ],
        "kube-proxy": [f"--config={place / 'kube-proxy.yaml'}", f"--hostname-override={NAME}"],
    }
    # What the kubelet reads of the machine, and would set there, are files of its own.
    apart: list[str | Path] = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-e", place / "settings.sh"]
    command = [*(apart if name == "kubelet" else []), place / "bin" / name, *own[name]]
    socket = place / "containerd.sock"
    if name == "containerd":
        socket.unlink(missing_ok=True)
    environment = {"PATH": f"{place / 'bin'}:{os.environ.get('PATH', '')}"}
    started = processes.start(place, name, world_.inside(command), environment)
    if name == "containerd":
        started.wait_until(socket.exists, 20)


def kill(cluster: Cluster, name: str) -> None:
    """Kill one of the node's programs, which has no time to say or write anything; the containers go on."""
    named_processes = processes.running(folder(cluster), name)
    if len(named_processes) != 1:
        raise processes.NotStarted(f"{len(named_processes)} processes of the node are named {name}")
    named_processes[0].kill()
    eventually(lambda: not named_processes[0].is_running() or named_processes[0].status() == "zombie", f"{name} to end")


def pose(cluster: Cluster, pool: NodePool) -> None:
    """Let the real node stand for one of a static pool: it has its labels, and the pods that would go to another go nowhere."""
    like = simulated.gpu_node(NAME, pool)["metadata"]["labels"]
    del like["nvidia.com/gpu.present"]  # for it is the only one: preparations and accessors keep off nodes with GPUs
    for node in cluster.client.metadata("v1", "Node"):
        name = node["metadata"]["name"]
        change = (
            {"metadata": {"labels": like}, "spec": {"taints": None}}
            if name == NAME
            else {"spec": {"unschedulable": True}}
        )
        cluster.client.patch("v1", "Node", name, change)


def _csi_driver(name: str) -> dict[str, Any]:
    """Nobody attaches its volumes, and files get the group that a pod asks for."""
    spec = {"attachRequired": False, "podInfoOnMount": False, "fsGroupPolicy": "File"}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def stop(cluster: Cluster) -> int:
    """End the node, whatever became of it, and return how many processes there were."""
    return world.end(folder(cluster))


def take_in(node: World, app_images: Mapping[str, images.Image]) -> None:
    """Give the node images, by the names that pods have for them; a digest needn't be theirs."""
    archive = node.folder / "images.tar"
    archive.write_bytes(
        images.archive({_TAG_BEFORE_DIGEST.sub("@", name): image for name, image in app_images.items()})
    )
    address = f"--address={node.folder / 'containerd.sock'}"
    node.run(
        [node.folder / "bin" / "ctr", address, "--namespace=k8s.io", "images", "import", "--no-unpack", str(archive)]
    )


def is_ready(cluster: Cluster, since: datetime.datetime) -> bool:
    """Return whether the node takes pods, with units and volumes, and has said so since then."""
    status = cluster.client.get("v1", "Node", NAME)["status"]
    ready_conditions = [
        condition
        for condition in status.get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]
    fresh = any(
        datetime.datetime.fromisoformat(condition["lastHeartbeatTime"]) >= since - _SECOND
        for condition in ready_conditions
    )
    counted = all(status["allocatable"].get(name) == str(count) for name, count in UNITS.items())
    drivers = cluster.client.get("storage.k8s.io/v1", "CSINode", NAME)["spec"]["drivers"] or ()
    return fresh and counted and {driver["name"] for driver in drivers} == set(DRIVERS)


def _lay_out(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "cni", "net.d"):
        (folder / name).mkdir(parents=True)
    for name in PROGRAMS:
        (folder / "bin" / name).symlink_to(programs.program(name))
    for name in PLUGINS:
        (folder / "cni" / name).symlink_to(programs.program(name))
    nft = folder / "bin" / "nft"
    nft.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH={debian.library_path("nft")} exec {debian.folder("nft")}/usr/sbin/nft "$@"\n',
        encoding="utf-8",
    )
    nft.chmod(0o755)


def _set_apart(folder: Path) -> None:
    """Write what runs a program that finds settings of the machine as it wants them, and can't change them, and a machine
    that is as large as a GPU node: the kubelet takes in what the machine has by what it reads."""
    machine = folder / "machine"
    lines = ["mount --make-private /proc", "mount --make-private /sys"]

    def put(place: str, text: str) -> None:
        file = machine / place.strip("/").replace("/", ".")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="ascii")
        lines.append(f"mount --bind {shlex.quote(str(file))} {place}")

    for name, value in SETTINGS.items():
        put(f"/proc/sys/{name}", f"{value}\n")
    memory = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    put("/proc/meminfo", "".join(f"{_larger(line)}\n" for line in memory))
    nodes = machine / "nodes"
    for number in range(NUMA_NODES):
        for cpu in range(os.cpu_count() or 1):
            topology = nodes / f"node{number}" / f"cpu{cpu}" / "topology"
            topology.mkdir(parents=True, exist_ok=True)
            for name in ("core_id", "physical_package_id"):
                (topology / name).write_text(f"{cpu if name == 'core_id' else number}\n", encoding="ascii")
        (nodes / f"node{number}" / "meminfo").write_text(
            f"Node {number} MemTotal: {MEMORY // NUMA_NODES} kB\n", encoding="ascii"
        )
    lines.append(f"mount --bind {shlex.quote(str(nodes))} /sys/devices/system/node")
    (folder / "settings.sh").write_text("\n".join([*lines, 'exec "$@"', ""]), encoding="utf-8")


def _larger(line: str) -> str:
    """Return a line of /proc/meminfo of a machine that has MEMORY, most of it free."""
    name = line.partition(":")[0]
    return f"{name}: {MEMORY} kB" if name in ("MemTotal", "MemFree", "MemAvailable") else line


def _forward(cluster: Cluster, world_: World) -> None:
    """Let the node reach the API server: from the address that it advertises to the loopback."""
    port = cluster.server.rpartition(":")[2]
    processes.start(
        world_.folder, "forward", [sys.executable, Path(__file__).with_name("forward.py"), ADVERTISED, port]
    )


def _configure(cluster: Cluster, world_: World) -> None:
    folder = world_.folder
    (folder / "containerd.toml").write_text(_containerd(folder), encoding="utf-8")
    every = folder / "certs.d" / "_default" / "hosts.toml"
    every.parent.mkdir(parents=True, exist_ok=True)
    every.write_text(f'server = "http://{internet.REGISTRY}"\n', encoding="utf-8")
    (folder / "net.d" / "10-ptp.conflist").write_text(json.dumps(_network(world_)), encoding="utf-8")
    write_kubeconfig(cluster, folder / "kubelet.kubeconfig", f"system:node:{NAME}", "system:nodes")
    write_kubeconfig(cluster, folder / "kube-proxy.kubeconfig", "system:kube-proxy", "system:node-proxier")
    for name, config in (("kubelet", _kubelet(cluster, folder)), ("kube-proxy", _kube_proxy(folder))):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def _containerd(folder: Path) -> str:
    return f"""version = 3
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{folder}/containerd.sock"
[ttrpc]
  address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "{folder}/bin/containerd-shim-runc-v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{folder}/bin/runc"
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{folder}/cni"]
  conf_dir = "{folder}/net.d"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{folder}/certs.d"
[plugins."io.containerd.metadata.v1.bolt"]
  no_sync = true
"""


def _network(world_: World) -> dict[str, Any]:
    """Pods are routed, not bridged, so that nftables sees all that they send."""
    ranges = [[{"subnet": world_.network.pods}]]
    ipam = {
        "type": "host-local",
        "ranges": ranges,
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": f"{world_.folder}/ipam",
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": ipam}]}


def _kubelet(cluster: Cluster, folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": str(cluster.keys / "ca.crt")}, "anonymous": {"enabled": False}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [dns.ADDRESS],
        "clusterDomain": "cluster.local",
        "protectKernelDefaults": False,
        "nodeStatusReportFrequency": "10s",
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        "evictionPressureTransitionPeriod": "1s",
        "syncFrequency": "10s",
        "healthzPort": 0,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "resolvConf": "/etc/resolv.conf",
    }


def _kube_proxy(folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(folder / "kube-proxy.kubeconfig")},
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }


def write_kubeconfig(cluster: Cluster, path: Path, user: str, group: str) -> None:
    key, certificate = _signed(cluster, user, group)
    path.with_suffix(".key").write_bytes(key)
    path.with_suffix(".crt").write_bytes(certificate)
    port = cluster.server.rpartition(":")[2]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": "node"}}],
        "clusters": [
            {
                "name": "node",
                "cluster": {
                    "server": f"https://{ADVERTISED}:{port}",
                    "certificate-authority": str(cluster.keys / "ca.crt"),
                },
            }
        ],
        "users": [
            {
                "name": "node",
                "user": {
                    "client-key": str(path.with_suffix(".key")),
                    "client-certificate": str(path.with_suffix(".crt")),
                },
            }
        ],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


def _signed(cluster: Cluster, user: str, group: str) -> tuple[bytes, bytes]:
    """Return a key and a certificate of the cluster's authority, as PEM, for a user of a group."""
    with warnings.catch_warnings():  # kwokctl gave the authority's own certificate the number 0
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        authority = x509.load_pem_x509_certificate((cluster.keys / "ca.crt").read_bytes())
    signing: Any = serialization.load_pem_private_key((cluster.keys / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, user)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(*attribute) for attribute in subject]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 365 * _DAY)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(pem, *plain), certificate.public_bytes(pem)
