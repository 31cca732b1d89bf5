"""Serves SSH: it checks keys, and connects each session to a container of the instance that the user name names."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import asyncssh

from allotment.adapters.cluster.api import ApiError, ApiServer, ApiUnavailable
from allotment.adapters.cluster.pod_exec import ExecOptions, start_command
from allotment.adapters.cluster.pod_log import list_pods
from allotment.adapters.cluster.port_forward import open_port
from allotment.adapters.remote_process import RemoteProcess
from allotment.adapters.ssh_metrics import SshMetrics
from allotment.observed.objects import Pod
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.services.access.pod_choice import PodOwner, choose_pod
from allotment.services.log import Log
from allotment.services.ssh_gateway.container_session import ContainerSession
from allotment.services.ssh_gateway.permission import SshPermission, parse_user, read_permission
from allotment.services.ssh_gateway.port_session import PortSession

LOGIN_SECONDS = 20
CHECK_SECONDS = 30  # how often the gateway reads the permission of an open connection again
_MAX_LOGINS = 200  # connections that have not logged in yet
_MAX_LOGINS_OF_ADDRESS = 20
_MAX_CHANNELS = 64  # of a connection
_MAX_REFUSALS_LOGGED = 60  # a minute
_MAX_USERS, _MAX_KEYS = 3, 50  # names and keys that a connection may try
_SIGNATURES = (  # without those that use SHA-1 or DSA
    *("ssh-ed25519", "sk-ssh-ed25519@openssh.com", "rsa-sha2-256", "rsa-sha2-512"),
    *(f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)),
)
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_T = TypeVar("_T")


class Login(NamedTuple):
    """The login of a person to an instance, with a key and from an address."""

    permission: SshPermission
    person: str
    key: str
    address: str


class Gateway:
    """The state that all connections share. `cluster` is the declared cluster of the API server."""

    def __init__(self, api: ApiServer, cluster: str, log: Log, metrics: SshMetrics) -> None:
        self.api, self.cluster, self.log, self.metrics = api, cluster, log, metrics
        self.logins = Counter[str]()  # connections that have not logged in yet, by address
        self._refusals, self._refusals_since = 0, 0.0
        self._threads = ThreadPoolExecutor(32, "ssh")

    async def run(self, function: Callable[[], _T]) -> _T:
        """Return the result of a function that waits for the API server, without blocking the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def log_refusal(self, user: str, address: str, reason: str) -> None:
        """Count a refused login, and log it, unless strangers cause too many lines."""
        self.metrics.count_login("refused")
        if time.monotonic() - self._refusals_since > 60:
            self._refusals, self._refusals_since = 0, time.monotonic()
        self._refusals += 1
        if self._refusals <= _MAX_REFUSALS_LOGGED:
            self.log.info("ssh login refused", user=escape_unprintable(user), address=address, reason=reason)

    async def find_pod(self, owner: PodOwner) -> Pod:
        """Return the pod of an instance. Raises OperationRefused if none runs, ApiError and ApiUnavailable."""
        pod = choose_pod(owner, await self.run(partial(list_pods, self.api, owner.namespace, owner.selector)))
        if pod.phase != "Running" or pod.terminating:
            raise OperationRefused(f"{owner} does not run: `allot status {owner.tenant}/{owner.name}` shows the reason")
        return pod


class GatewayServer(asyncssh.SSHServer):
    """The server of one connection."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._permissions: dict[str, SshPermission | None] = {}
        self._candidate: tuple[str, Login] | None = None  # the user name and login of the key that was checked last
        self._login: Login | None = None
        self._waits_for_login = False
        self._channels = self._tried_keys = 0
        self._check: asyncio.Task[None] | None = None
        self._started = time.monotonic()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Refuse the connection if too many others have not logged in yet."""
        self._connection = conn
        peer = conn.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        logins = self._gateway.logins
        if logins.total() >= _MAX_LOGINS or logins[self._address] >= _MAX_LOGINS_OF_ADDRESS:
            self._gateway.metrics.count_login("overload")
            conn.abort()
            return
        logins[self._address] += 1
        self._waits_for_login = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Log the end of a login."""
        self._stop_waiting()
        if self._check is not None:
            self._check.cancel()
        if self._login is None and self._permissions:
            user, permission = list(self._permissions.items())[-1]
            self._gateway.log_refusal(user, self._address, self._explain_refusal(permission))
        if self._login is not None:
            seconds = round(time.monotonic() - self._started, 1)
            self._gateway.metrics.change_connections(-1)
            self._gateway.log.info("ssh logout", **self._describe_login(self._login), seconds=seconds)

    async def begin_auth(self, username: str) -> bool:
        """Read the permission for the instance of the user name."""
        if len(self._permissions) >= _MAX_USERS:
            raise asyncssh.PermissionDenied("too many user names")
        owner = parse_user(username, self._gateway.cluster)
        permission = None
        if owner is not None:
            try:
                permission = await self._gateway.run(partial(read_permission, self._gateway.api, owner))
            except (ApiError, ApiUnavailable) as error:
                self._gateway.metrics.count_login("unavailable")
                self._gateway.log.warning("API server unavailable", error=str(error))
                raise asyncssh.ServiceNotAvailable("the cluster does not answer: try again later") from None
        self._permissions[username] = permission
        return True

    def public_key_auth_supported(self) -> bool:
        """Accept public keys, and nothing else."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return whether the owner of a key may connect. The client has not proved yet that it has the private key."""
        permission, self._tried_keys = self._permissions.get(username), self._tried_keys + 1
        if self._tried_keys > _MAX_KEYS:
            raise asyncssh.PermissionDenied("too many keys")
        if permission is None:
            return False
        text = key.export_public_key("openssh").decode()
        person = permission.find_person(text, self._address)
        if person is None:
            return False
        self._candidate = (username, Login(permission, person, text, self._address))
        return True

    def auth_completed(self) -> None:
        """Log the login, and begin to check the permission again and again."""
        username = self._connection.get_extra_info("username")
        if self._candidate is None or self._candidate[0] != username:
            self._connection.abort()
            return
        self._stop_waiting()
        self._login = self._candidate[1]
        self._gateway.metrics.count_login("success")
        self._gateway.metrics.change_connections(1)
        self._gateway.log.info("ssh login", **self._describe_login(self._login))
        self._check = asyncio.get_running_loop().create_task(self._check_permission(self._login))

    def session_requested(self) -> ContainerSession:
        """Accept a session. Its program starts in the instance's pod."""
        login = self._open_channel()
        return ContainerSession(partial(self._start_program, login), self._close_channel)

    async def _open_port(self, login: Login, port: int) -> PortSession:
        try:
            pod = await self._gateway.find_pod(login.permission.owner)
            namespace = login.permission.owner.namespace
            remote = await self._gateway.run(partial(open_port, self._gateway.api, namespace, pod.name, port))
        except (ApiError, ApiUnavailable, OperationRefused) as error:
            self._close_channel()
            message = escape_unprintable(str(error), 200)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, message) from None
        return PortSession(remote, self._close_channel)

    # asyncssh awaits the result, although its type doesn't say so.
    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> object:  # type: ignore[override]
        """Forward a connection to a port of the instance's pod, and to no other host."""
        login = self._open_channel()
        if dest_host not in (*_LOCAL_HOSTS, login.permission.owner.name) or not 0 < dest_port <= 0xFFFF:
            self._close_channel()
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
                f"only ports of localhost, which is the instance, can be forwarded: not {quote_value(dest_host)}",
            )
        return self._open_port(login, dest_port)

    async def _start_program(self, login: Login, options: ExecOptions) -> RemoteProcess:
        owner = login.permission.owner
        pod = await self._gateway.find_pod(owner)
        options = options._replace(container=pod.container)
        return await self._gateway.run(partial(start_command, self._gateway.api, owner.namespace, pod.name, options))

    async def _check_permission(self, login: Login) -> None:
        """End the connection once the instance, the key or the address has lost its access."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                permission = await self._gateway.run(
                    partial(read_permission, self._gateway.api, login.permission.owner)
                )
            except (ApiError, ApiUnavailable) as error:
                self._gateway.log.warning("API server unavailable", error=str(error))
                continue  # an outage of the API server ends no connection
            if permission is None or permission.find_person(login.key, login.address) is None:
                self._gateway.log.info("ssh access revoked", **self._describe_login(login))
                self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "your access to this instance was removed")
                return

    def _explain_refusal(self, permission: SshPermission | None) -> str:
        if permission is None:
            return "no SSH access to an instance of this name"
        if not permission.admits_address(self._address):
            return "the tenant does not allow this address"
        return "no member of the tenant has this key" if self._tried_keys else "no key"

    def _open_channel(self) -> Login:
        if self._login is None or self._channels >= _MAX_CHANNELS:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE,
                f"a connection has at most {_MAX_CHANNELS} sessions and forwarded ports",
            )
        self._channels += 1
        return self._login

    def _close_channel(self, _status: int | None = None) -> None:
        self._channels -= 1

    def _stop_waiting(self) -> None:
        if self._waits_for_login:
            self._waits_for_login = False
            self._gateway.logins[self._address] -= 1
            if not self._gateway.logins[self._address]:
                del self._gateway.logins[self._address]

    def _describe_login(self, login: Login) -> dict[str, str]:
        owner = login.permission.owner
        return {"tenant": owner.tenant, "instance": owner.name, "person": login.person, "address": login.address}


async def serve(gateway: Gateway, host: str, port: int, host_keys: list[str]) -> asyncssh.SSHAcceptor:
    """Return the server that listens at an address. `host_keys` are the paths of private keys. Raises OSError."""
    return await asyncssh.listen(
        host,
        port,
        server_factory=partial(GatewayServer, gateway),
        server_host_keys=host_keys,
        config=None,
        encoding=None,
        line_editor=False,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_auth=False,
        gss_kex=False,
        agent_forwarding=False,
        x11_forwarding=False,
        compression_algs=["none"],
        signature_algs=_SIGNATURES,
        login_timeout=LOGIN_SECONDS,
        keepalive_interval=30,
        keepalive_count_max=4,
    )
