"""OpenSSH's client, through `allot ssh-gateway` with the rights of its ServiceAccount, to an instance in a container of a real
node: commands, a terminal, files, ports; and nobody gets in whose key the tenant's Members don't have."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pexpect  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from tests.conftest import copy_sample, edit
from tests.controlplane import debian, images, node, programs, rendered, simulated
from tests.controlplane.client import Client
from tests.controlplane.cluster import PROJECT
from tests.controlplane.fixtures import Node
from tests.controlplane.processes import free_ports
from tests.e2e.conftest import Render
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
TENANT, NEIGHBOUR = "solo-ada", "studio-kite"
USER = f"webui--{TENANT}"
MEMBERS = f"tenants/{TENANT}/members.yaml"
SAMPLE_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP3uQw1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"
SPACE_FILE = f"control/namespaces/s/{TENANT}.rendered.yaml"
RUNS = """echo made here > /tmp/index.html; trap exit TERM; httpd -f -p 7860 -h /tmp & wait"""
PROMPT = b"\x1b[6n"  # BusyBox's shell asks the terminal where its cursor is
CURSOR = "\x1b[1;1R"


class Ssh(NamedTuple):
    """A gateway, the folder with the key of ada, and the declarations that are rendered from."""

    node: Node
    port: int
    folder: Path
    repository: Path
    render: Render
    log: Path

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.node.cluster.client

    def words(self, program: str = "ssh", *, key: str = "id_ada") -> list[str]:
        """Return a command of OpenSSH's, up to its options. The host's key must be that of the gateway."""
        option = {"ssh": "-p", "sftp": "-P", "scp": "-P"}[program]
        settings = {
            "IdentityFile": self.folder / key,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.folder / "known_hosts",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ControlMaster": "no",
        }
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        return [program, "-F", "/dev/null", option, str(self.port), *options]

    def run(
        self, *command: str, data: bytes = b"", key: str = "id_ada", user: str = USER
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the container."""
        words = [*self.words(key=key), f"{user}@127.0.0.1", *command]
        return subprocess.run(words, input=data, capture_output=True, check=False, timeout=90)

    def publish(self) -> None:
        """Render the declarations, and apply what concerns the tenant's namespace, as Argo CD does."""
        tree = self.render(self.repository, "eu-1")
        objects = list(rendered.objects(tree, SPACE_FILE))
        if not any(manifest["metadata"]["name"] == names.SSH_GATEWAY for manifest in objects):
            space = names.namespace(TENANT)
            self.client.delete("v1", "ConfigMap", names.SSH_GATEWAY, space)
            self.client.delete("rbac.authorization.k8s.io/v1", "RoleBinding", names.SSH_GATEWAY, space)
        self.client.apply(*objects)

    def events(self) -> list[dict[str, object]]:
        """Return the log of the gateway."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


def write_key(folder: Path, name: str) -> str:
    """Write a key pair, and return its public key."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
    subprocess.run(command, check=True)
    return (folder / f"{name}.pub").read_text(encoding="ascii").strip()


@pytest.fixture(scope="module")
def ssh(real_node: Node, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ssh]:
    """Return the gateway in front of the tenant's instance once it runs, with a key that the tenant's Members have."""
    cluster, client, folder = real_node.cluster, real_node.cluster.client, tmp_path_factory.mktemp("ssh")
    repository = folder / "repository"
    copy_sample(repository)
    edit(repository, MEMBERS, SAMPLE_KEY, f"{write_key(folder, 'id_ada')} ada@laptop")
    write_key(folder, "id_eve")
    host_key = write_key(folder, "host_key")
    port = next(free_ports())
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n", encoding="ascii")
    tree = render(repository, "eu-1")
    shared = ("platform/cluster/namespaces.rendered.yaml", "platform/cluster/priority-classes.rendered.yaml")
    stored = rendered.objects(tree, f"tenants/{TENANT}/storage")
    claims = [manifest for manifest in stored if manifest["kind"] == "PersistentVolumeClaim"]
    instance = rendered.objects(tree, f"tenants/{TENANT}/compute/webui.rendered.yaml")
    (deployment,) = [manifest for manifest in instance if manifest["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    node.take_in(real_node.world, {container["image"]: images.file_copies("/bin/sh", "-c", RUNS)})
    account = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}
    add_on = [str(programs.program("kubectl")), "kustomize", str(PROJECT / "argo/add-ons/allot-ssh")]
    built = yaml.safe_load_all(subprocess.run(add_on, capture_output=True, check=True, timeout=60).stdout)
    rights = [manifest for manifest in built if manifest["kind"] in ("ServiceAccount", "ClusterRole")]
    spaces = (SPACE_FILE, f"control/namespaces/s/{NEIGHBOUR}.rendered.yaml")
    client.apply(account, *rights, *rendered.objects(tree, *shared, *spaces), *claims, deployment)
    node.pose(cluster, simulated.declared(PROJECT, "eu-1").of_kind(NodePool)["l4-ts4"].model)
    eventually(partial(_is_ready, client), "the instance to run")
    kubeconfig = folder / "kubeconfig"
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    token = client.as_service_account(names.SSH_GATEWAY, names.SYSTEM_NAMESPACE).token
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "allotment", "ssh-gateway", "--cluster", "eu-1", "--kubeconfig", str(kubeconfig)]
    command += ["--host-key", str(folder / "host_key"), "--listen-ssh", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0"]
    log = folder / "gateway.log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out) as gateway:
        ssh = Ssh(real_node, port, folder, repository, render, log)
        try:
            eventually(lambda: "started" in log.read_text(encoding="utf-8"), "the gateway to listen")
            eventually(lambda: ssh.run("true").returncode == 0, "the first login")
            yield ssh
        finally:
            gateway.terminate()
            assert gateway.wait(30) == 0
    rendered.clear(client)
    client.delete("rbac.authorization.k8s.io/v1", "ClusterRole", names.SSH_GATEWAY_ROLE)
    client.delete("v1", "Namespace", names.SYSTEM_NAMESPACE)


def _pod(client: Client) -> str:
    (pod,) = client.list("v1", "Pod", names.namespace(TENANT), f"{names.INSTANCE}=webui")
    return str(pod["metadata"]["name"])


def _is_ready(client: Client) -> bool:
    pods = client.list("v1", "Pod", names.namespace(TENANT), f"{names.INSTANCE}=webui")
    return any(part.get("ready") for pod in pods for part in pod["status"].get("containerStatuses", ()))


def test_a_command_runs_in_the_pod_with_its_quotes_errors_and_status(ssh: Ssh) -> None:
    done = ssh.run('echo "two  words in $HOSTNAME"; echo bad >&2; exit 7')
    assert (done.stdout, done.stderr, done.returncode) == (
        f"two  words in {_pod(ssh.client)}\n".encode(),
        b"bad\n",
        7,
    )
    (login,) = [event for event in ssh.events() if event["event"] == "ssh login"][-1:]
    assert (login["tenant"], login["instance"], login["person"]) == (TENANT, "webui", "ada")


def test_megabytes_pass_unchanged_in_both_directions(ssh: Ssh) -> None:
    data = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(1_000_000))  # 32 MB
    done = ssh.run("cat", data=data)
    assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")


def test_a_terminal_has_the_keys_the_size_and_the_type_of_the_persons(ssh: Ssh) -> None:
    words = [*ssh.words(), "-tt", f"{USER}@127.0.0.1"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    person = pexpect.spawn(words[0], words[1:], env=environment, dimensions=(31, 97), timeout=30, encoding="utf-8")

    def type_line(line: str, shown: str) -> None:
        person.expect_exact(PROMPT.decode())
        person.send(CURSOR)
        person.sendline(line)
        person.expect_exact(shown)

    type_line('echo "$((6 * 7)) in $HOSTNAME on $TERM"', f"42 in {_pod(ssh.client)} on xterm-256color")
    resized = 'until stty size 2>&1 | grep -q "{}"; do sleep 0.1; done; echo "sized $((1 + 1))"'
    type_line(resized.format("31 97"), "sized 2")
    type_line('echo "begun $((1 + 1))"; sleep 600', "begun 2")
    person.sendintr()
    person.setwinsize(40, 120)
    type_line(resized.format("40 120"), "sized 2")
    person.expect_exact(PROMPT.decode())
    person.send(CURSOR)
    person.sendline("exit 3")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 3


def test_files_pass_by_sftp_scp_and_rsync(ssh: Ssh, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    batch = f"put {tmp_path}/here /tmp/by-sftp\nget /tmp/by-sftp {tmp_path}/back\n".encode()
    words = [*ssh.words("sftp"), "-b", "-", f"{USER}@127.0.0.1"]
    subprocess.run(words, input=batch, capture_output=True, check=True, timeout=60)
    assert (tmp_path / "back").read_bytes() == data
    scp = [*ssh.words("scp"), str(tmp_path / "here"), f"{USER}@127.0.0.1:/tmp/by-scp"]
    subprocess.run(scp, capture_output=True, check=True, timeout=60)
    libraries = debian.library_path("file-copies")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)} if shutil.which("rsync") is None else None
    rsync = shutil.which("rsync") or str(debian.folder("file-copies") / "usr/bin/rsync")
    shell = f"env -u LD_LIBRARY_PATH {' '.join(ssh.words())}"
    copied = [rsync, "--rsh", shell, "--checksum", f"{tmp_path}/here", f"{USER}@127.0.0.1:/tmp/by-rsync"]
    subprocess.run(copied, capture_output=True, check=True, timeout=60, env=environment)
    digests = ssh.run("sha256sum /tmp/by-sftp /tmp/by-scp /tmp/by-rsync").stdout.decode().splitlines()
    digest = hashlib.sha256(data).hexdigest()
    assert [line.split() for line in digests] == [[digest, f"/tmp/by-{name}"] for name in ("sftp", "scp", "rsync")]


def test_a_port_of_the_instance_is_forwarded(ssh: Ssh) -> None:
    port = next(free_ports())
    words = [*ssh.words(), "-N", "-L", f"{port}:localhost:7860", f"{USER}@127.0.0.1"]

    def page() -> bytes:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                return bytes(answer.read())
        except OSError:
            return b""

    with subprocess.Popen(words) as forwarding:
        try:
            assert eventually(page, "the page of the instance") == b"made here\n"
        finally:
            forwarding.terminate()


@pytest.mark.parametrize(
    ("key", "user"),
    [
        ("id_eve", USER),  # a stranger
        ("id_ada", f"comfy--{NEIGHBOUR}"),  # a neighbour's instance
        ("id_ada", f"train--{TENANT}"),  # an instance that isn't there
        ("id_ada", f"webui--{TENANT}/../{NEIGHBOUR}"),
    ],
)
def test_nobody_else_gets_in(ssh: Ssh, key: str, user: str) -> None:
    done = ssh.run("id", key=key, user=user)
    assert (done.returncode, done.stdout) == (255, b"")
    assert b"Permission denied (publickey)" in done.stderr


@pytest.mark.parametrize("resource", ["configmaps/allot-ssh", "pods", "pods/x/exec?command=id&stdout=true", "secrets"])
def test_the_gateway_has_no_rights_where_no_instance_declares_ssh(ssh: Ssh, resource: str) -> None:
    """Asked by the gateway's own token, in a neighbour's namespace, in one of the system, and for the tenant's secrets."""
    spaces = ["kube-system", names.SYSTEM_NAMESPACE, names.namespace(NEIGHBOUR)]
    spaces += [names.namespace(TENANT)] if resource == "secrets" else []
    for space in spaces:
        kubectl = [str(programs.program("kubectl")), f"--kubeconfig={ssh.folder / 'kubeconfig'}"]
        command = [*kubectl, "get", "--raw", f"/api/v1/namespaces/{space}/{resource}"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=30)
        assert done.returncode == 1
        assert b"Forbidden" in done.stderr, done


def test_a_removed_key_opens_nothing_and_its_open_connections_end(ssh: Ssh) -> None:
    words = [*ssh.words(), f"{USER}@127.0.0.1", "echo in; cat"]
    public = (ssh.folder / "id_ada.pub").read_text(encoding="ascii").strip()
    other = (ssh.folder / "id_eve.pub").read_text(encoding="ascii").strip()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as connected:
        assert connected.stdout is not None
        assert connected.stderr is not None
        try:
            assert connected.stdout.readline() == b"in\n"
            edit(ssh.repository, MEMBERS, public, other)
            ssh.publish()
            done = ssh.run("id")
            assert (done.returncode, done.stdout) == (255, b"")
            assert ssh.run("echo eve", key="id_eve").stdout == b"eve\n"
            assert connected.wait(60) == 255
            assert b"your access to this instance was removed" in connected.stderr.read()
        finally:
            connected.kill()
            edit(ssh.repository, MEMBERS, other, public)
            ssh.publish()
    assert ssh.run("echo again").stdout == b"again\n"


def test_an_instance_that_no_longer_declares_ssh_has_none(ssh: Ssh) -> None:
    edit(ssh.repository, f"tenants/{TENANT}/instances/webui.yaml", "  access:\n    - SSH\n", "")
    ssh.publish()
    done = ssh.run("id")
    assert (done.returncode, done.stdout) == (255, b"")
    assert b"Permission denied" in done.stderr
