"""Logs, commands and ports of an instance that runs: for the cluster's administrator, and in Argo CD's dashboard for a tenant's
people as their roles are, and for nobody else's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pexpect  # type: ignore[import-untyped]  # it has no types
import pytest
import websocket
import yaml

from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from tests.controlplane import bed, images, node, programs, rendered, simulated
from tests.controlplane.argocd import NAMESPACE, ArgoCD
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import PROJECT
from tests.controlplane.fixtures import Node
from tests.e2e.people import Person, logged_in
from tests.support.published import git
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
ADMIN, MEMBER, VIEWER, NEIGHBOUR = "00u1mio", "kite-designers", "kite-clients", "00u1ada"
KITE, ADA = "studio-kite", "solo-ada"
# Whose instance it is that runs, and the pool that it needs a node of: both need none of what a storage must have first.
INSTANCES = {KITE: ("comfy", "l4-whole"), ADA: ("webui", "l4-ts4")}
RUNS = """echo pictures of $HOSTNAME; for name in index.html system_stats; do echo made here > /tmp/$name; done
trap exit TERM; httpd -p 7860 -h /tmp; httpd -f -p 8188 -h /tmp & wait"""
COMMITTER = ("-c", "user.name=allotment", "-c", "user.email=allotment@northlight.example")
# What is of pods in the ClusterRole `argocd-server` of Argo CD's own manifests.
SERVER = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["delete", "get", "patch"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]},
)
WHERE = b"\x1b[6n"  # BusyBox's shell asks the terminal where its cursor is
THERE = "\x1b[1;1R"
_GIVEN = re.compile(r"^ {4}kubectl (create clusterrole.* argocd-terminals .*)$", re.MULTILINE)
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d{1,5}) -> 8188")


class Bed(NamedTuple):
    """The pod of each tenant's instance, and the Argo CD that synced it."""

    node: Node
    argocd: ArgoCD
    pods: dict[str, str]

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.node.cluster.client


def files() -> list[str]:
    """Return where the instances are in the rendered tree."""
    return [f"tenants/{tenant}/compute/{name}.rendered.yaml" for tenant, (name, _) in INSTANCES.items()]


def published(tree: Path, folder: Path) -> str:
    """Return the URL of a repository whose branch has the instances of the tenants, as they are rendered."""
    branch = folder / "rendered"
    for path in files():
        (branch / path).parent.mkdir(parents=True)
        (branch / path).write_bytes((tree / path).read_bytes())
    git(branch, "init", "-q", "-b", "rendered/eu-1")
    git(branch, "add", "--all")
    git(branch, *COMMITTER, "commit", "-q", "-m", "Publish")
    return branch.as_uri()


def applications(tree: Path, url: str) -> Iterator[Object]:
    """Yield each tenant's project and the Application of its instances, as they are rendered, but for the repository."""
    declared = "https://github.com/northlight-example/gpus"
    for tenant in (KITE, ADA):
        for manifest in rendered.objects(tree, f"control/argo/s/{tenant}.rendered.yaml"):
            if not manifest["metadata"]["name"].endswith("--storage"):
                yield json.loads(json.dumps(manifest).replace(declared, url))


@pytest.fixture(scope="module")
def synced(real_node: Node, sample_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Return two tenants' instances once they run, synced by Argo CD, whose settings are those that `allot bootstrap` says."""
    cluster, client = real_node.cluster, real_node.cluster.client
    argocd = bed.argocd_of(cluster)
    pools = simulated.declared(PROJECT, "eu-1").of_kind(NodePool)
    bootstrap = yaml.safe_load_all((PROJECT / "argo" / "bootstrap.yaml").read_text(encoding="utf-8"))
    settings = [manifest for manifest in bootstrap if manifest["kind"] == "ConfigMap"]
    shared = ("platform/cluster/namespaces.rendered.yaml", "platform/cluster/priority-classes.rendered.yaml")
    spaces = [f"control/namespaces/s/{tenant}.rendered.yaml" for tenant in (KITE, ADA)]
    stored = [*rendered.objects(sample_tree, f"tenants/{KITE}/storage", f"tenants/{ADA}/storage")]
    claims = [manifest for manifest in stored if manifest["kind"] == "PersistentVolumeClaim"]
    instances = [manifest for manifest in rendered.objects(sample_tree, *files()) if manifest["kind"] == "Deployment"]
    containers = [instance["spec"]["template"]["spec"]["containers"][0] for instance in instances]
    node.take_in(
        real_node.world, {container["image"]: images.busybox("/bin/sh", "-c", RUNS) for container in containers}
    )
    client.apply(*settings, *rendered.objects(sample_tree, *shared, *spaces), *claims)
    client.apply(*applications(sample_tree, published(sample_tree, tmp_path_factory.mktemp("published"))))
    pods = {}
    for tenant, (_, pool) in INSTANCES.items():  # whoever runs stays where it is
        node.pose(cluster, pools[pool].model)
        pods[tenant] = eventually(partial(_ready, client, tenant), f"{tenant}'s instance to run")
    yield Bed(real_node, argocd, pods)
    rendered.clear(client)
    for config_map in settings:
        change = {"data": dict.fromkeys(config_map["data"])}
        client.patch("v1", "ConfigMap", config_map["metadata"]["name"], change, NAMESPACE)


def _ready(client: Client, tenant: str) -> str | None:
    pods = client.list("v1", "Pod", f"t-{tenant}", f"{names.INSTANCE}={INSTANCES[tenant][0]}")
    ready = [pod for pod in pods if any(part.get("ready") for part in pod["status"].get("containerStatuses", ()))]
    return str(ready[0]["metadata"]["name"]) if ready else None


def kubectl(synced: Bed, *words: str, token: str | None = None) -> list[str]:
    """Return a command of kubectl's in the tenant's namespace, as the administrator or by somebody's token alone."""
    cluster = synced.node.cluster
    run = [str(programs.program("kubectl")), f"--namespace=t-{KITE}"]
    if token is None:
        return [*run, f"--kubeconfig={cluster.kubeconfig}", *words]
    authority = cluster.user()["cluster"]["certificate-authority"]
    reached = [f"--server={cluster.server}", f"--certificate-authority={authority}", f"--token={token}"]
    return [*run, "--kubeconfig=/dev/null", *reached, *words]


def run_command(command: list[str], environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Return how a command ended, and what it said."""
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=environment)
    return done.returncode, done.stdout, done.stderr


def test_the_administrator_reads_its_log(synced: Bed) -> None:
    assert run_command(kubectl(synced, "logs", synced.pods[KITE])) == (0, f"pictures of {synced.pods[KITE]}\n", "")


INSTANCE = f"{KITE}/{INSTANCES[KITE][0]}"


def allot(verb: str, *words: str | Path) -> list[str]:
    """Return a command of allot's that reaches the pod of the tenant's instance."""
    end = words.index("--") if "--" in words else len(words)
    options = [str(word) for word in words[:end]]
    return [sys.executable, "-m", "allotment", verb, INSTANCE, "--repo", str(PROJECT), *options, *map(str, words[end:])]


@pytest.fixture(scope="module")
def neighbour_kubeconfig(synced: Bed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a kubeconfig with the rights of a service account of another tenant."""
    config = yaml.safe_load(Path(synced.node.cluster.kubeconfig).read_text(encoding="utf-8"))
    account = synced.client.as_service_account("default", f"t-{ADA}")
    config["users"] = [{"name": each["name"], "user": {"token": account.token}} for each in config["users"]]
    path = tmp_path_factory.mktemp("neighbour") / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_the_command_prints_the_log_with_the_rights_of_its_caller(synced: Bed, neighbour_kubeconfig: Path) -> None:
    mine = run_command(allot("logs", "--kubeconfig", synced.node.cluster.kubeconfig))
    assert mine == (0, f"pictures of {synced.pods[KITE]}\n", "")
    status, out, error = run_command(allot("logs", "--kubeconfig", neighbour_kubeconfig))
    assert (status, out) == (2, "")
    assert f"your kubeconfig doesn't let you list pods in namespace t-{KITE} of eu-1" in error


def test_the_command_runs_a_program_and_passes_bytes_and_the_exit_status(synced: Bed) -> None:
    kubeconfig = synced.node.cluster.kubeconfig
    data = bytes(range(256)) * 20_000
    copied = allot("exec", "--kubeconfig", kubeconfig, "--", "cat")
    done = subprocess.run(copied, input=data, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")
    ended = run_command(allot("exec", "--kubeconfig", kubeconfig, "--", "sh", "-c", "echo bad >&2; echo good; exit 7"))
    assert ended == (7, "good\n", "bad\n")
    status, out, error = run_command(allot("exec", "--kubeconfig", kubeconfig, "--", "no-such-program"))
    assert (status, out) == (2, "")
    assert error.endswith('refused to run commands: exec: "no-such-program": executable file not found in $PATH\n')


def test_the_command_runs_nothing_for_a_neighbour(synced: Bed, neighbour_kubeconfig: Path) -> None:
    status, out, error = run_command(allot("exec", "--kubeconfig", neighbour_kubeconfig, "--", "id"))
    assert (status, out) == (2, "")
    assert f"your kubeconfig doesn't let you list pods in namespace t-{KITE} of eu-1" in error


def shell(words: list[str], environment: dict[str, str] | None = None) -> pexpect.spawn:
    """Return a person's terminal on which a command of allot's runs."""
    environment = {**os.environ, "TERM": "xterm", **(environment or {})}
    return pexpect.spawn(words[0], words[1:], env=environment, dimensions=(31, 97), timeout=30, encoding="utf-8")


def type_line(person: pexpect.spawn, line: str, shown: str) -> None:
    """Type a line at the prompt of BusyBox's shell, and wait until a text is shown."""
    person.expect_exact(WHERE.decode())  # the shell asks at each prompt, and waits for the answer of a terminal
    person.send(THERE)
    person.sendline(line)
    person.expect_exact(shown)


def type_in(person: pexpect.spawn, pod: str) -> None:
    """Type into a shell of an instance as a person does: a line, Ctrl-C, another size of the window."""
    type_line(person, 'echo "$((6 * 7)) in $HOSTNAME"', f"42 in {pod}")
    resized = 'until stty size 2>&1 | grep -q "{}"; do sleep 0.1; done; echo "sized $((1 + 1))"'
    type_line(person, resized.format("31 97"), "sized 2")
    type_line(person, 'echo "begun $((1 + 1))"; sleep 600', "begun 2")
    person.sendintr()
    person.setwinsize(40, 120)
    type_line(person, resized.format("40 120"), "sized 2")
    person.expect_exact(WHERE.decode())
    person.send(THERE)


def test_the_command_opens_a_shell_on_a_terminal(synced: Bed) -> None:
    person = shell(allot("exec", "--kubeconfig", synced.node.cluster.kubeconfig))
    type_in(person, synced.pods[KITE])
    person.sendline("exit 3")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 3


def test_the_administrator_runs_a_command_in_it(synced: Bed) -> None:
    command = kubectl(synced, "exec", "-i", synced.pods[KITE], "--", "cat")
    done = subprocess.run(command, input=bytes(range(256)) * 4096, capture_output=True, check=True, timeout=30)
    assert done.stdout == bytes(range(256)) * 4096
    ended = run_command(kubectl(synced, "exec", synced.pods[KITE], "--", "sh", "-c", "echo bad >&2; exit 7"))
    assert ended == (7, "", "bad\ncommand terminated with exit code 7\n")


def test_the_administrator_forwards_a_port_of_it(synced: Bed) -> None:
    command = kubectl(synced, "port-forward", f"pod/{synced.pods[KITE]}", ":8188")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            match = _FORWARDING.match(forwarding.stdout.readline())
            assert match is not None
            with urllib.request.urlopen(f"http://127.0.0.1:{match[1]}", timeout=10) as answer:
                assert answer.read() == b"made here\n"
        finally:
            forwarding.kill()


@pytest.mark.parametrize(
    ("what", "refused"),
    [
        (["logs", "POD"], 'cannot get resource "pods"'),
        (["exec", "POD", "--", "id"], 'cannot get resource "pods"'),
        (["port-forward", "pod/POD", ":8188"], 'cannot get resource "pods"'),
        (["get", "--raw", "/api/v1/namespaces/SPACE/pods/POD/log"], 'cannot get resource "pods/log"'),
        (["create", "--raw", "/api/v1/namespaces/SPACE/pods/POD/exec?command=id", "-f", "NULL"], 'create resource "pods/exec"'),
        (["create", "--raw", "/api/v1/namespaces/SPACE/pods/POD/portforward", "-f", "NULL"], 'create resource "pods/portforward"'),
        (["get", "--raw", "/api/v1/nodes/NODE/proxy/containerLogs/SPACE/POD/main"], 'cannot get resource "nodes/proxy"'),
    ],
)  # fmt: skip
def test_a_service_account_of_the_tenant_may_nothing_of_it(synced: Bed, what: list[str], refused: str) -> None:
    account = synced.client.as_service_account("default", f"t-{KITE}")
    known = {"POD": synced.pods[KITE], "SPACE": f"t-{KITE}", "NODE": node.NAME, "NULL": "/dev/null"}
    words = [re.sub("POD|SPACE|NODE|NULL", lambda match: known[match[0]], word) for word in what]
    status, out, error = run_command(kubectl(synced, *words, token=account.token))
    assert (status, out) == (1, "")
    assert "Forbidden" in error
    assert refused in error


@pytest.fixture(scope="module")
def people(synced: Bed) -> Iterator[dict[str, Person]]:
    """Return three of studio-kite's people, of each role one, and solo-ada's, logged in to Argo CD."""
    with logged_in(synced.argocd, (ADMIN, MEMBER, VIEWER, NEIGHBOUR)) as people_by_name:
        yield people_by_name


def log_of(synced: Bed, person: Person, tenant: str = KITE, of: str = KITE) -> Any:
    """Return the lines of an instance's log as the dashboard asks for them, in a tenant's Application; or the status that
    refuses."""
    parameters = {"appNamespace": NAMESPACE, "namespace": f"t-{of}", "podName": synced.pods[of], "container": "main"}
    query = urlencode({**parameters, "tailLines": 100, "follow": "false", "sinceSeconds": 0})
    answer = person.ask(f"applications/{tenant}--eu-1--compute/logs?{query}")
    if isinstance(answer, int):
        return answer
    lines = [answer] if isinstance(answer, dict) else [json.loads(line) for line in answer.splitlines()]
    return [line["result"]["content"] for line in lines if not line["result"].get("last")]


@pytest.mark.parametrize("who", [ADMIN, MEMBER])
def test_members_read_the_log_in_the_dashboard(who: str, synced: Bed, people: dict[str, Person]) -> None:
    assert log_of(synced, people[who]) == [f"pictures of {synced.pods[KITE]}"]


@pytest.mark.parametrize("who", [VIEWER, NEIGHBOUR])
def test_nobody_else_reads_the_log(who: str, synced: Bed, people: dict[str, Person]) -> None:
    assert log_of(synced, people[who]) == 403


def test_a_neighbours_own_application_shows_no_log_of_others(synced: Bed, people: dict[str, Person]) -> None:
    assert log_of(synced, people[NEIGHBOUR], ADA, ADA) == [f"pictures of {synced.pods[ADA]}"]
    assert log_of(synced, people[NEIGHBOUR], ADA, KITE) == []


def terminal(synced: Bed, person: Person, tenant: str = KITE, of: str = KITE, **more: str) -> websocket.WebSocket:
    """Return a terminal in an instance, opened as the dashboard does. Raises WebSocketBadStatusException."""
    parameters = {
        "pod": synced.pods[of],
        "container": "main",
        "appName": f"{tenant}--eu-1--compute",
        "appNamespace": NAMESPACE,
        "projectName": f"{tenant}--eu-1",
        "namespace": f"t-{of}",
        **more,
    }
    url = f"{synced.argocd.url.replace('http:', 'ws:')}/terminal?{urlencode(parameters)}"
    return websocket.create_connection(url, timeout=20, cookie=f"argocd.token={person.token}")


def refusal(synced: Bed, person: Person, *about: str, **more: str) -> int:
    """Return the status by which a terminal is refused; that of WebSockets, 101, where it opens."""
    try:
        terminal(synced, person, *about, **more).close()
    except websocket.WebSocketBadStatusException as refused:
        return int(refused.status_code)
    return 101


def typed(opened: websocket.WebSocket, line: str, until: str) -> str:
    """Return what a terminal shows after a line is typed, up to a text that only the container can say."""

    def send(operation: str, **more: object) -> None:
        opened.send(json.dumps({"operation": operation, **more}))

    send("resize", cols=120, rows=30)
    output = ""
    while until not in output:
        piece = json.loads(opened.recv())["data"]
        output += piece
        if WHERE in piece.encode():
            send("stdin", data=THERE)
            send("stdin", data=line)
    return output


@pytest.mark.parametrize("who", [ADMIN, MEMBER])
def test_members_type_in_a_terminal(who: str, synced: Bed, people: dict[str, Person]) -> None:
    opened = terminal(synced, people[who])
    try:
        output = typed(opened, 'echo "$((6 * 7)) in $HOSTNAME by $(id -u)"\r', f"42 in {synced.pods[KITE]} by 0")
        assert "Permission denied" not in output
    finally:
        opened.close()


@pytest.mark.parametrize("who", [VIEWER, NEIGHBOUR])
def test_nobody_else_opens_a_terminal(who: str, synced: Bed, people: dict[str, Person]) -> None:
    assert refusal(synced, people[who]) == 401


def test_a_neighbours_own_application_opens_no_terminal_of_others(synced: Bed, people: dict[str, Person]) -> None:
    ada = people[NEIGHBOUR]
    terminal(synced, ada, ADA, ADA).close()
    assert refusal(synced, ada, ADA, KITE) == 400  # that pod is none of the Application's
    assert refusal(synced, ada, projectName=f"{ADA}--eu-1") == 401  # that Application is none that the role names
    assert refusal(synced, Person(synced.argocd, "")) == 401


def test_terminals_are_there_because_bootstrap_says_so(synced: Bed, people: dict[str, Person]) -> None:
    def turned(to: str) -> None:
        synced.client.patch("v1", "ConfigMap", "argocd-cm", {"data": {"exec.enabled": to}}, NAMESPACE)

    turned("false")
    try:
        eventually(lambda: refusal(synced, people[ADMIN]) == 404, "terminals to be off")
    finally:
        turned("true")
    eventually(lambda: terminal(synced, people[ADMIN]), "terminals to be on").close()


def test_the_account_of_argo_cds_server_needs_one_right_more_for_terminals(synced: Bed) -> None:
    """What Argo CD's own manifests give it in the cluster that it runs in is enough for logs; the page about the first cluster
    has the two commands for terminals."""
    kind = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": kind, "kind": "ClusterRole", "metadata": {"name": "server"}, "rules": [*SERVER]}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "server", "namespace": NAMESPACE}}
    binding = {
        "apiVersion": kind,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "server"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "server"},
        "subjects": [{"kind": "ServiceAccount", "name": "server", "namespace": NAMESPACE}],
    }
    synced.client.apply(account, role, binding)
    try:
        token = synced.client.as_service_account("server", NAMESPACE).token
        logs = kubectl(synced, "logs", synced.pods[KITE], token=token)
        shell = kubectl(synced, "exec", synced.pods[KITE], "--", "id", "-u", token=token)
        eventually(lambda: run_command(logs)[0] == 0, "the role to be in force")
        assert 'cannot create resource "pods/exec"' in run_command(shell)[2]
        page = (PROJECT / "docs" / "start" / "first-cluster.md").read_text(encoding="utf-8")
        rules = _GIVEN.findall(page)
        assert len(rules) == 2
        for words in rules:
            status, _, error = run_command(kubectl(synced, *words.replace(":argocd-server", ":server").split()))
            assert status == 0, error
        eventually(lambda: run_command(shell) == (0, "0\n", ""), "the right to be in force")
    finally:
        for name in ("server", "argocd-terminals"):
            synced.client.delete(kind, "ClusterRoleBinding", name)
            synced.client.delete(kind, "ClusterRole", name)
        synced.client.delete("v1", "ServiceAccount", "server", NAMESPACE)


@pytest.fixture
def login(synced: Bed, people: dict[str, Person], tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Return a function that makes a login of `argocd login` for a person, and returns its environment."""

    def log_in(who: str) -> dict[str, str]:
        address = synced.argocd.url.removeprefix("http://")
        config = {
            "current-context": address,
            "contexts": [{"name": address, "server": address, "user": address}],
            "servers": [{"server": address, "plain-text": True}],
            "users": [{"name": address, "auth-token": people[who].token}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config), encoding="utf-8")
        return {"ARGOCD_CONFIG_DIR": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}

    return log_in


@pytest.fixture
def repository(synced: Bed, tmp_path: Path) -> Path:
    """Return the declarations with the URL of the Argo CD that runs."""
    folder = tmp_path / "repository"
    for part in ("platform", "clusters", "tenants"):
        shutil.copytree(PROJECT / part, folder / part)
    path = folder / "platform/platform.yaml"
    text, count = re.subn(
        r"https://argocd\.[a-z.]+", f"https://{synced.argocd.url.removeprefix('http://')}", path.read_text("utf-8")
    )
    assert count == 1
    path.write_text(text, encoding="utf-8")
    return folder


Login = Callable[[str], dict[str, str]]


@pytest.mark.parametrize("who", [ADMIN, MEMBER])
def test_the_command_prints_the_log_through_argo_cd(who: str, synced: Bed, login: Login, repository: Path) -> None:
    words = [*allot("logs"), "--repo", str(repository)]
    assert run_command(words, login(who)) == (0, f"pictures of {synced.pods[KITE]}\n", "")


@pytest.mark.parametrize("who", [VIEWER, NEIGHBOUR])
@pytest.mark.parametrize("verb", ["logs", "exec"])
def test_the_command_gives_nobody_else_a_log_or_a_shell_through_argo_cd(
    verb: str, who: str, login: Login, repository: Path
) -> None:
    person = shell([*allot(verb), "--repo", str(repository), "--argocd"], login(who))
    person.expect_exact("doesn't let you")
    person.expect_exact("Admins and Members may")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 2


def test_the_command_opens_a_shell_through_argo_cd(synced: Bed, login: Login, repository: Path) -> None:
    person = shell([*allot("exec"), "--repo", str(repository), "--argocd"], login(MEMBER))
    type_in(person, synced.pods[KITE])
    person.sendline("exit")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 0
    status, out, error = run_command([*allot("exec"), "--repo", str(repository), "--argocd"], login(MEMBER))
    assert (status, out) == (2, "")
    assert "Argo CD opens a shell on a terminal only" in error
