"""The SSH gateway: who may log in, and what a session passes on. The containers are processes of this machine.

`tests/e2e/node/test_people.py` runs OpenSSH's client against the gateway and a real kubelet.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.access.ssh_gateway.cluster import CONFIG_MAP, LocalCluster
from tests.support import live
from tests.support.faults import serving
from tests.support.kubeconfig import kubeconfig_of

from allotment.access.ssh_gateway import gateway as gateway_module
from allotment.access.ssh_gateway import server as server_module
from allotment.access.ssh_gateway.client_limits import network_of
from allotment.access.ssh_gateway.container_session import FAILURE_STATUS
from allotment.access.ssh_gateway.gateway import Gateway
from allotment.access.ssh_gateway.server import serve
from allotment.adapters.cluster import api as api_module
from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.ssh_metrics import SshMetrics

pytestmark = pytest.mark.process


ADA, EVE, HOST = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(3))
USER = "webui--solo-ada"


class Events:
    """A log that remembers its events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def info(self, event: str, **about: Any) -> None:
        self.events.append({"event": event, **about})

    warning = error = info


class Bed:
    """A gateway in front of a cluster."""

    def __init__(self, cluster: LocalCluster, api: ApiServer, folder: Path) -> None:
        self.cluster, self.log, self.registry = cluster, Events(), CollectorRegistry()
        self.gateway = Gateway(api, "eu-1", self.log, SshMetrics(self.registry))
        self.host_key = folder / "host_key"
        HOST.write_private_key(self.host_key)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        acceptor = await serve(self.gateway, "127.0.0.1", 0, [str(self.host_key)])
        try:
            yield acceptor.get_port()
        finally:
            acceptor.close()

    def use(self, scenario: Callable[[asyncssh.SSHClientConnection], Awaitable[None]], **options: Any) -> None:
        """Log in, and run a scenario with the connection."""

        async def run() -> None:
            async with self.running() as port, connect(port, **options) as connection:
                await scenario(connection)

        asyncio.run(asyncio.wait_for(run(), 60))

    def refuses(self, **options: Any) -> str:
        """Return why a login failed."""

        async def run() -> None:
            async with self.running() as port, connect(port, **options):
                pytest.fail("logged in")

        with pytest.raises((asyncssh.Error, ConnectionError)) as caught:
            asyncio.run(asyncio.wait_for(run(), 60))
        return str(caught.value)


def connect(port: int, **options: Any) -> Any:
    """Connect as ada, with what the gateway offers checked against its host key."""
    trusted = ([HOST.convert_to_public()], [], [])
    given = {"username": USER, "client_keys": [ADA], "known_hosts": trusted, "config": None, "encoding": None}
    return asyncssh.connect("127.0.0.1", port, agent_path=None, **(given | options))


def line(key: asyncssh.SSHKey, person: str) -> str:
    """Return a line of the ConfigMap."""
    return f"{key.export_public_key('openssh').decode().strip()} {person}\n"


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Bed]:
    cluster = LocalCluster(tmp_path)
    assert cluster.data is not None
    cluster.data["authorized_keys"] = line(ADA, "ada")
    with serving(otherwise=cluster.answer) as server:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(server)), encoding="utf-8")
        yield Bed(cluster, ApiServer.from_kubeconfig(kubeconfig, None), tmp_path)


def test_a_command_gets_its_input_and_gives_its_output_errors_and_status(ssh: Bed) -> None:
    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        done = await connection.run('cat; echo "two  words" >&2; exit 7', input=b"in\x00\xfe")
        assert (done.stdout, done.stderr, done.exit_status) == (b"in\x00\xfe", b"two  words\n", 7)

    ssh.use(scenario)
    login, logout = ssh.log.events
    who = {"tenant": "solo-ada", "instance": "webui", "person": "ada", "address": "127.0.0.1"}
    assert login == {"event": "ssh login", **who}
    assert {key: logout[key] for key in ("event", *who)} == {"event": "ssh logout", **who}
    assert ssh.registry.get_sample_value("allotment_ssh_logins_total", {"result": "success"}) == 1
    assert ssh.registry.get_sample_value("allotment_ssh_connections") == 0


def test_megabytes_pass_unchanged_in_both_directions_at_once(ssh: Bed) -> None:
    data = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(250_000))  # 8 MB

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        runs = [connection.run("cat", input=data), connection.run("sha256sum", input=data)]
        copied, digest = await asyncio.gather(*runs)
        assert copied.stdout == data
        assert bytes(digest.stdout or b"").startswith(hashlib.sha256(data).hexdigest().encode())

    ssh.use(scenario)


def test_a_shell_opens_on_a_terminal_of_the_clients_type_and_size(ssh: Bed) -> None:
    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        process = await connection.create_process(term_type="xterm-256color", term_size=(101, 42), encoding=None)
        process.stdin.write(b"echo $TERM; exit 3\n")
        assert b"xterm-256color" in await process.stdout.readline()
        process.change_terminal_size(80, 24)
        assert (await process.wait()).exit_status == 3

    ssh.use(scenario)
    assert ssh.cluster.resizes[0] == {"Width": 101, "Height": 42}


def test_files_pass_by_sftp_or_the_image_lacks_the_server(ssh: Bed, tmp_path: Path) -> None:
    """The containers are processes of this machine, which has OpenSSH's SFTP server or not."""
    has_server = any(Path(folder, "sftp-server").exists() for folder in ("/usr/lib/openssh", "/usr/libexec/openssh"))
    (tmp_path / "here").write_bytes(b"\x00bytes")

    async def copy(connection: asyncssh.SSHClientConnection) -> None:
        async with connection.start_sftp_client() as files:
            await files.put(str(tmp_path / "here"), str(tmp_path / "there"))
        assert (tmp_path / "there").read_bytes() == b"\x00bytes"

    async def fail(connection: asyncssh.SSHClientConnection) -> None:
        done = await connection.run(subsystem="sftp")
        assert done.exit_status == 127
        assert b"install the package openssh-sftp-server" in bytes(done.stderr or b"")

    ssh.use(copy if has_server else fail)


def test_other_subsystems_and_what_leads_elsewhere_are_refused(ssh: Bed) -> None:
    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.create_process(subsystem="netconf")
        for host in ("10.0.0.1", "kubernetes.default.svc", "169.254.169.254", "webui.t-studio-kite.svc"):
            with pytest.raises(asyncssh.ChannelOpenError, match="only ports of localhost"):
                await connection.open_connection(host, 443)
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_port("", 0, "127.0.0.1", 9)
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_unix_connection("/var/run/docker.sock")

    ssh.use(scenario)
    assert [path for path in ssh.cluster.requests if path.endswith("/portforward")] == []


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"p" * 3_000_000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def test_a_port_of_the_container_is_forwarded(ssh: Bed) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()

        async def scenario(connection: asyncssh.SSHClientConnection) -> None:
            reader, writer = await connection.open_connection("localhost", web.server_port, encoding=None)
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read(-1)
            assert answer.startswith(b"HTTP/1.0 200")
            assert answer.count(b"p") >= 3_000_000

        ssh.use(scenario)
        web.shutdown()


def test_a_connection_to_the_cluster_that_breaks_off_ends_its_session_only(ssh: Bed) -> None:
    async def run() -> None:
        async with ssh.running() as port:
            for _ in range(3):
                ssh.cluster.breaks_connections = True
                async with connect(port) as connection:
                    broken = await connection.run("echo begun")
                    assert (broken.stdout, broken.exit_status) == (b"begun\n", 255)
                    assert b"the connection broke off before the command ended" in broken.stderr
                    unread = await connection.run("echo begun", input=bytes(8 << 20), check=False)
                    assert unread.exit_status == 255, "bytes waited to be sent"
                    reader, _ = await connection.open_connection("localhost", page, encoding=None)
                    assert (await reader.read(-1)) == b"page"
                    ssh.cluster.breaks_connections = False
                    assert (await connection.run("echo well")).stdout == b"well\n"
            async with asyncio.timeout(30):
                for _ in range(10):  # their sockets have the numbers of those that broke off
                    async with connect(port) as connection:
                        assert (await connection.run("echo well")).stdout == b"well\n"

    with socket.create_server(("127.0.0.1", 0)) as listener:
        page = listener.getsockname()[1]

        def serve_page() -> None:
            for _ in range(3):
                with listener.accept()[0] as accepted:
                    accepted.sendall(b"page")

        threading.Thread(target=serve_page, daemon=True).start()
        asyncio.run(asyncio.wait_for(run(), 120))


def test_a_port_that_nobody_listens_on_ends_its_connection_only(ssh: Bed) -> None:
    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        reader, _ = await connection.open_connection("localhost", 1, encoding=None)
        assert await reader.read(-1) == b""
        assert (await connection.run("echo still here")).stdout == b"still here\n"

    ssh.use(scenario)


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"client_keys": [EVE]}, {}),
        ({"client_keys": None, "password": "ada"}, {}),
        ({"username": "trainer--solo-ada"}, {}),
        ({"username": "webui--studio-kite"}, {}),
        ({"username": "webui"}, {}),
        ({"username": "webui--solo-ada--x"}, {}),
        ({"username": "../x--solo-ada"}, {}),
        ({"username": "webui--solo-ada/../kube-system"}, {}),
        ({"username": "-oProxyCommand=x"}, {}),
        ({"username": "w" * 2000}, {}),
        ({}, {"authorized_keys": ""}),
        ({}, {"instances": ""}),
        ({}, {"instances": "webui2\n"}),
        ({}, {"allowed_cidrs": "203.0.113.0/24\n2001:db8::/32\n"}),
    ],
)
def test_nobody_else_logs_in(ssh: Bed, options: dict[str, Any], change: dict[str, str]) -> None:
    assert ssh.cluster.data is not None
    ssh.cluster.data |= change
    assert ssh.refuses(**options)
    assert {event["event"] for event in ssh.log.events} <= {"ssh login refused"}
    assert {path for path in ssh.cluster.requests if "solo-ada" not in path} <= {
        "/api/v1/namespaces/t-studio-kite/configmaps/allot-ssh"
    }


@pytest.mark.parametrize(
    ("options", "change", "reason"),
    [
        ({"client_keys": [EVE]}, {}, "no member of the tenant has this key"),
        ({"client_keys": None, "password": "ada"}, {}, "no key"),
        ({"username": "trainer--solo-ada"}, {}, "no SSH access to an instance of this name"),
        ({"username": "caf\u00e9"}, {}, "no SSH access to an instance of this name"),
        ({}, {"allowed_cidrs": "203.0.113.0/24\n"}, "the tenant does not allow this address"),
    ],
)
def test_a_refused_login_is_logged_with_its_reason(
    ssh: Bed, options: dict[str, Any], change: dict[str, str], reason: str
) -> None:
    assert ssh.cluster.data is not None
    ssh.cluster.data |= change
    assert ssh.refuses(**options)
    (event,) = ssh.log.events
    assert event == {
        "event": "ssh login refused",
        "user": options.get("username", USER),
        "address": "127.0.0.1",
        "reason": reason,
    }
    assert ssh.registry.get_sample_value("allotment_ssh_logins_total", {"result": "refused"}) == 1


def test_strangers_fill_no_log(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "_MAX_REFUSALS_LOGGED", 2)

    async def run() -> None:
        async with ssh.running() as port:
            for _ in range(4):
                with pytest.raises(asyncssh.Error):
                    await connect(port, client_keys=[EVE])

    asyncio.run(asyncio.wait_for(run(), 60))
    assert [event["event"] for event in ssh.log.events] == ["ssh login refused"] * 2
    assert ssh.registry.get_sample_value("allotment_ssh_logins_total", {"result": "refused"}) == 4


def test_a_declared_address_may_connect(ssh: Bed) -> None:
    assert ssh.cluster.data is not None
    ssh.cluster.data["allowed_cidrs"] = "127.0.0.0/8\n"

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        assert (await connection.run("echo in")).stdout == b"in\n"

    ssh.use(scenario)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_an_outage_of_the_api_server_is_said(ssh: Bed, status: int) -> None:
    ssh.cluster.status = status
    assert "the cluster does not answer" in ssh.refuses()
    assert [event["event"] for event in ssh.log.events] == ["API server unavailable"]


def test_without_its_config_map_or_the_right_to_read_it_a_namespace_has_no_ssh(ssh: Bed) -> None:
    ssh.cluster.data = None
    assert "Permission denied" in ssh.refuses()
    ssh.cluster.status = 403
    assert "Permission denied" in ssh.refuses()


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([], b"has no pod in eu-1: `allot status solo-ada/webui` shows the reason"),
        ([live.pod(phase="Pending")], b"does not run: `allot status solo-ada/webui` shows the reason"),
    ],
)
def test_an_instance_that_does_not_run_says_so(ssh: Bed, pods: list[dict[str, Any]], message: bytes) -> None:
    ssh.cluster.pods = pods

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        done = await connection.run("true")
        assert message in bytes(done.stderr or b"")
        assert done.exit_status == 255
        with pytest.raises(asyncssh.ChannelOpenError, match="allot status"):
            await connection.open_connection("localhost", 80)

    ssh.use(scenario)


@pytest.mark.parametrize("change", [{"authorized_keys": ""}, {"instances": ""}, {"allowed_cidrs": "203.0.113.0/24\n"}])
def test_an_open_connection_ends_when_its_access_is_removed(
    ssh: Bed, change: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CHECK_SECONDS", 0.05)

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        process = await connection.create_process("cat", encoding=None)
        process.stdin.write(b"works\n")
        assert await process.stdout.readline() == b"works\n"
        ssh.cluster.status = 503
        await asyncio.sleep(0.3)
        ssh.cluster.status = 0
        process.stdin.write(b"works in an outage\n")
        assert await process.stdout.readline() == b"works in an outage\n"
        assert ssh.cluster.data is not None
        ssh.cluster.data |= change
        await asyncio.wait_for(connection.wait_closed(), 10)
        assert await process.stdout.read() == b""
        assert await process.stderr.read() == b"your access to this instance was removed\r\n"
        assert process.exit_status == FAILURE_STATUS

    ssh.use(scenario)
    assert "ssh access revoked" in [event["event"] for event in ssh.log.events]


def test_strangers_that_do_not_log_in_are_few(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_LOGINS_OF_NETWORK", 3)

    async def run() -> None:
        async with ssh.running() as port:
            waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            for reader, _ in waiting:
                assert (await reader.readline()).startswith(b"SSH-2.0")
            reader, refused = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() in (b"", b"SSH-2.0-AsyncSSH_" + asyncssh.__version__.encode() + b"\r\n")
            for writer in (refused, *(writer for _, writer in waiting)):
                writer.close()
            while ssh.gateway.logins:
                await asyncio.sleep(0.01)
            async with connect(port) as connection:
                assert (await connection.run("echo in")).stdout == b"in\n"

    asyncio.run(asyncio.wait_for(run(), 60))
    assert ssh.registry.get_sample_value("allotment_ssh_logins_total", {"result": "overload"}) == 1


def test_a_connection_tries_few_names(ssh: Bed) -> None:
    async def run() -> None:
        async with ssh.running() as port:
            with pytest.raises(asyncssh.Error):
                await connect(port, username="nobody--solo-ada", client_keys=[EVE])

    asyncio.run(asyncio.wait_for(run(), 60))
    assert ssh.cluster.requests == [CONFIG_MAP]


def test_a_sender_waits_for_a_slow_reader(ssh: Bed) -> None:
    """A client that doesn't read bounds the memory of the gateway: the program in the container waits."""

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        process = await connection.create_process("head -c 50000000 /dev/zero; echo end >&2", encoding=None)
        reader = process.stdout
        process.channel.pause_reading()
        await asyncio.sleep(1)
        process.channel.resume_reading()
        size = 0
        while data := await reader.read(1 << 20):
            size += len(data)
        assert size == 50_000_000

    ssh.use(scenario)


def test_a_client_that_reads_nothing_fills_no_memory(ssh: Bed) -> None:
    """Its window is as large as possible, so only the TCP connection slows the gateway down."""

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        command = "head -c 300000000 /dev/zero"
        await connection.create_session(asyncssh.SSHClientSession, command, window=2**32 - 1, encoding=None)
        connection._transport.pause_reading()  # type: ignore[union-attr]  # no public method stops reading TCP
        await asyncio.sleep(3)
        assert 0 < ssh.cluster.sent_bytes < 64_000_000
        connection.abort()

    ssh.use(scenario)


def test_variables_of_a_client_are_refused(ssh: Bed) -> None:
    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        done = await connection.run('echo "<$MINE>"', env={"MINE": "x" * 1000})
        assert done.stdout == b"<>\n"

    ssh.use(scenario)


def test_a_client_with_tiny_packets_gets_no_session(ssh: Bed) -> None:
    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.run("echo in", max_pktsize=100)
        assert (await connection.run("echo in")).stdout == b"in\n"

    ssh.use(scenario)


def test_a_person_has_few_sessions_in_all_connections(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CHANNELS", 4)

    async def run() -> None:
        async with ssh.running() as port, connect(port) as first, connect(port) as second:
            processes = [await each.create_process("cat", encoding=None) for each in (first, second, first, second)]
            with pytest.raises(asyncssh.ChannelOpenError, match="you have 4 sessions"):
                await second.create_process("cat", encoding=None)
            with pytest.raises(asyncssh.ChannelOpenError, match="you have 4 sessions"):
                await first.open_connection("localhost", 80)
            processes[0].close()
            await processes[0].wait_closed()
            assert (await second.run("echo in")).stdout == b"in\n"
            first.abort()
            await first.wait_closed()
            for _ in range(3):
                assert (await second.run("echo in")).stdout == b"in\n"
            second.abort()
            while ssh.gateway.channels or ssh.gateway.connections:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_sessions_whose_client_does_not_close_them_count(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CHANNELS", 2)

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        for _ in range(2):  # the window of the client stays full, so that the end of the channel waits
            channel, _ = await connection.create_session(
                asyncssh.SSHClientSession, "head -c 50000 /dev/zero", window=1, encoding=None
            )
            channel.pause_reading()
        await asyncio.sleep(0.5)
        with pytest.raises(asyncssh.ChannelOpenError, match="you have 2 sessions"):
            await connection.create_process("cat", encoding=None)

    ssh.use(scenario)


def test_a_person_has_few_connections(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 2)

    async def run() -> None:
        async with ssh.running() as port, connect(port), connect(port) as second:
            with pytest.raises(asyncssh.Error):
                async with connect(port) as third:
                    await third.run("true")
            second.abort()
            await second.wait_closed()
            async with connect(port) as fourth:
                assert (await fourth.run("echo in")).stdout == b"in\n"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_names_that_alternate_are_read_few_times(ssh: Bed) -> None:
    async def run() -> None:
        server = server_module.GatewayServer(ssh.gateway)
        for name in (USER, "other--solo-ada", USER):
            assert await server.begin_auth(name)
        with pytest.raises(asyncssh.PermissionDenied):
            await server.begin_auth("other--solo-ada")

    asyncio.run(asyncio.wait_for(run(), 60))
    assert ssh.cluster.requests == [CONFIG_MAP] * 3


def test_a_client_that_leaves_while_its_program_starts_leaves_nothing_behind(
    ssh: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of a program that started too late is closed, so that `cat` ends and the server's thread too."""
    connected = threading.Event()
    start = server_module.start_command

    def start_slowly(*arguments: Any) -> Any:
        connected.set()
        time.sleep(0.5)
        processes.append(start(*arguments))
        return processes[-1]

    processes: list[Any] = []
    monkeypatch.setattr(server_module, "start_command", start_slowly)

    async def run() -> None:
        async with ssh.running() as port:
            async with connect(port) as connection:
                await connection.create_process("cat", encoding=None)
                await asyncio.to_thread(connected.wait)
            while not processes or processes[0].socket.fileno() != -1:
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_waiting_strangers_of_many_networks_keep_nobody_out(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_LOGINS", 3)

    async def run() -> None:
        async with ssh.running() as port:
            addresses = [f"127.0.1.{number}" for number in range(1, 4)]
            waiting = [
                await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)) for address in addresses
            ]
            for reader, _ in waiting:
                assert (await reader.readline()).startswith(b"SSH-2.0")
            async with connect(port) as connection:
                assert (await connection.run("echo in")).stdout == b"in\n"
            await asyncio.wait_for(waiting[0][0].read(), 10)
            for _, writer in waiting:
                writer.close()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_client(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    "change",
    [
        {"authorized_keys": "ssh-ed25519 AAAA with more fields\n\n"},
        {"allowed_cidrs": "127.0.0.0/8\nnowhere\n"},
        {"allowed_cidrs": ""},
    ],
)
def test_an_unreadable_config_map_opens_nothing(ssh: Bed, change: dict[str, str]) -> None:
    assert ssh.cluster.data is not None
    ssh.cluster.data |= change
    assert ssh.refuses()


def test_an_unreadable_line_takes_access_from_nobody_else(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CHECK_SECONDS", 0.05)
    assert ssh.cluster.data is not None
    ssh.cluster.data["authorized_keys"] += "ssh-ed25519 AAAA with a comment\n"

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        assert (await connection.run("sleep 0.5; echo in")).stdout == b"in\n"
        assert ssh.cluster.data is not None
        ssh.cluster.data["authorized_keys"] = "ssh-ed25519 AAAA with a comment\n"
        await asyncio.wait_for(connection.wait_closed(), 10)

    ssh.use(scenario)


def test_a_gateway_without_a_readable_token_ends_the_session(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of a pod is replaced now and then, and can be empty for a moment."""
    from kubernetes.config.config_exception import ConfigException

    def fail(_configuration: object) -> dict[str, str]:
        raise ConfigException("Token file exists but empty.")

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        monkeypatch.setattr(api_module, "_authorization_header", fail)
        done = await connection.run("echo x")
        assert (done.exit_status, done.stdout) == (255, b"")
        assert b"there are no credentials" in bytes(done.stderr or b"")

    ssh.use(scenario)


@pytest.mark.parametrize(
    ("algorithm", "is_accepted"), [("ssh-rsa", False), ("rsa-sha2-256", True), ("rsa-sha2-512", True)]
)
def test_an_rsa_key_proves_itself_without_sha_1(ssh: Bed, algorithm: str, is_accepted: bool) -> None:
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    assert ssh.cluster.data is not None
    ssh.cluster.data["authorized_keys"] = line(key, "ada")
    options = {"client_keys": [key], "signature_algs": [algorithm, "ssh-ed25519"]}

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        assert (await connection.run("echo in")).stdout == b"in\n"

    if is_accepted:
        ssh.use(scenario, **options)
    else:
        assert "Permission denied" in ssh.refuses(**options)


def test_sessions_that_are_given_up_start_nothing(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client opens and closes sessions at once: only those that were starting already reach the cluster."""
    start = server_module.start_command
    started: list[int] = []

    def start_slowly(*arguments: Any) -> Any:
        started.append(1)
        time.sleep(0.2)
        return start(*arguments)

    monkeypatch.setattr(server_module, "start_command", start_slowly)

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        for _ in range(4):
            channels = await asyncio.gather(
                *(connection.create_session(asyncssh.SSHClientSession, "true", encoding=None) for _ in range(30))
            )
            for channel, _ in channels:
                channel.abort()
            await asyncio.sleep(0.3)
        assert (await asyncio.wait_for(connection.run("echo in"), 10)).stdout == b"in\n"

    ssh.use(scenario)
    assert len(started) < 40


def test_a_frozen_event_loop_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "MAX_HEARTBEAT_SECONDS", 1.5)

    async def run() -> None:
        heartbeat = gateway_module.Heartbeat()
        await asyncio.sleep(2)
        assert heartbeat.is_fresh()
        time.sleep(2)  # the event loop has no turn meanwhile
        assert not heartbeat.is_fresh()

    asyncio.run(run())


def test_a_gateway_without_valid_credentials_ends_its_connections(ssh: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't learn about removed keys any more. An outage, with another status in between, ends nothing."""
    monkeypatch.setattr(server_module, "CHECK_SECONDS", 0.05)

    async def scenario(connection: asyncssh.SSHClientConnection) -> None:
        for status in (401, 503, 401):
            ssh.cluster.status = status
            await asyncio.sleep(0.2)
        ssh.cluster.status = 0
        assert (await connection.run("sleep 0.3; echo in")).stdout == b"in\n"
        ssh.cluster.status = 401
        await asyncio.wait_for(connection.wait_closed(), 20)

    ssh.use(scenario)
