"""Serves SSH: it checks keys, and connects each session to a container of the instance that the user name names."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from http import HTTPStatus
from typing import Any

import asyncssh

from allotment.access.ssh_gateway.client_limits import (
    KEY_EXCHANGES,
    SIGNATURES,
    create_session_channel,
    network_of,
    refuse_sha1,
    watch_transport,
)
from allotment.access.ssh_gateway.container_session import ContainerSession
from allotment.access.ssh_gateway.gateway import Gateway, Login, decrease
from allotment.access.ssh_gateway.permission import SshPermission, parse_user
from allotment.access.ssh_gateway.port_session import PortSession
from allotment.adapters.cluster.pod_exec import ExecOptions, start_command
from allotment.adapters.cluster.port_forward import open_port
from allotment.adapters.http_responses import ApiError, ApiUnavailable
from allotment.adapters.remote_process import RemoteProcess
from allotment.observed.objects import Pod
from allotment.problems import OperationRefused, escape_unprintable, quote_value

LOGIN_SECONDS = 20
CHECK_SECONDS = 30  # how often the gateway reads the permission of an open connection again
_MAX_UNAUTHORIZED_CHECKS = 10
_MAX_LOGINS = 200  # connections that have not logged in yet
_MAX_LOGINS_OF_NETWORK = 20  # an IPv4 address, or an IPv6 network of 64 bits
_MAX_CONNECTIONS = 16  # of a person to an instance
_MAX_CHANNELS = 64  # of a person to an instance: sessions and forwarded ports
_WINDOW_BYTES = 1 << 20  # of input that a channel accepts before the container has taken it
_MAX_USERS, _MAX_KEYS = 3, 50  # names and keys that a connection may try
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class GatewayServer(asyncssh.SSHServer):
    """The server of one connection."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._permissions: dict[str, SshPermission | None] = {}
        self._candidate: tuple[str, Login] | None = None  # the user name and login of the key that was checked last
        self._login: Login | None = None
        self._waits_for_login = False
        self._sessions = set[ContainerSession | PortSession | None]()
        self._channels = self._tried_keys = self._tried_users = 0
        self._is_transport_paused = self._is_closed = False
        self._check: asyncio.Task[None] | None = None
        self._started = time.monotonic()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Refuse the connection if too many others of its network have not logged in yet.

        If too many others of all networks have not, the oldest of them ends, because a login takes less than a second.
        """
        self._connection = conn
        peer = conn.get_extra_info("peername")
        self._address = str(peer[0]) if peer else ""
        self._network = network_of(self._address)
        logins, waiting = self._gateway.logins, self._gateway.waiting
        if logins[self._network] >= _MAX_LOGINS_OF_NETWORK:
            self._gateway.metrics.count_login("overload")
            conn.abort()
            return
        if len(waiting) >= _MAX_LOGINS:
            self._gateway.metrics.count_login("overload")
            next(iter(waiting)).abort()
        logins[self._network] += 1
        waiting[self] = None
        self._waits_for_login = True
        watch_transport(conn, self._set_transport_paused)

    def abort(self) -> None:
        """End a connection that has not logged in."""
        self._stop_waiting()
        self._connection.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Log the end of a login."""
        self._stop_waiting()
        self._is_closed = True
        for session in tuple(self._sessions):
            if session is not None:
                session.close()
        if self._check is not None:
            self._check.cancel()
        if self._login is None and self._permissions:
            user, permission = list(self._permissions.items())[-1]
            self._gateway.log_refusal(user, self._address, self._explain_refusal(permission))
        if self._login is not None:
            seconds = round(time.monotonic() - self._started, 1)
            self._gateway.metrics.change_connections(-1)
            decrease(self._gateway.connections, self._login.subject, 1)
            decrease(self._gateway.channels, self._login.subject, self._channels)
            self._channels = 0  # the channels end after this
            self._gateway.log.info("ssh logout", **self._describe_login(self._login), seconds=seconds)

    async def begin_auth(self, username: str) -> bool:
        """Read the permission for the instance of the user name."""
        self._tried_users += 1  # also if a name comes again
        if self._tried_users > _MAX_USERS:
            raise asyncssh.PermissionDenied("too many user names")
        owner = parse_user(username, self._gateway.cluster)
        permission = None
        if owner is not None:
            try:
                permission = await self._gateway.read_permission(owner)
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
        if key.get_algorithm() == "ssh-rsa":
            refuse_sha1(key)
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
        login = self._candidate[1]
        if self._gateway.connections[login.subject] >= _MAX_CONNECTIONS:
            message = f"you have {_MAX_CONNECTIONS} connections to this instance: close some of them"
            self._connection.disconnect(asyncssh.DISC_TOO_MANY_CONNECTIONS, message)
            return
        self._login = login
        self._gateway.connections[login.subject] += 1
        self._gateway.metrics.count_login("success")
        self._gateway.metrics.change_connections(1)
        self._gateway.log.info("ssh login", **self._describe_login(self._login))
        self._check = asyncio.get_running_loop().create_task(self._check_permission(self._login))

    # asyncssh accepts a pair of a channel and a session, although its type doesn't say so.
    def session_requested(self) -> Any:
        """Accept a session. Its program starts in the instance's pod."""
        login = self._open_channel()
        session = ContainerSession(partial(self._start_program, login), lambda: self._close_channel(session))
        self._add_session(session)
        return create_session_channel(self._connection), session

    # asyncssh awaits the result, although its type doesn't say so.
    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
        """Forward a connection to a port of the instance's pod, and to no other host."""
        login = self._open_channel()
        if dest_host not in (*_LOCAL_HOSTS, login.permission.owner.name) or not 0 < dest_port <= 0xFFFF:
            self._close_channel(None)
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
                f"only ports of localhost, which is the instance, can be forwarded: not {quote_value(dest_host)}",
            )
        return self._open_port(login, dest_port)

    async def _open_port(self, login: Login, port: int) -> PortSession:
        owner, api = login.permission.owner, self._gateway.api
        try:
            remote = await self._gateway.start(owner, lambda pod: open_port(api, owner.namespace, pod.name, port))
        except (ApiError, ApiUnavailable, OperationRefused) as error:
            self._close_channel(None)
            message = escape_unprintable(str(error), 200)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, message) from None
        session = PortSession(remote, lambda: self._close_channel(session))
        self._add_session(session)
        return session

    async def _start_program(self, login: Login, options: ExecOptions) -> RemoteProcess:
        owner, api = login.permission.owner, self._gateway.api

        def start(pod: Pod) -> RemoteProcess:
            return start_command(api, owner.namespace, pod.name, options._replace(container=pod.container))

        return await self._gateway.start(owner, start)

    async def _check_permission(self, login: Login) -> None:
        """End the connection once the instance, the key or the address has lost its access, or if the check fails."""
        try:
            await self._wait_until_revoked(login)
            self._gateway.log.info("ssh access revoked", **self._describe_login(login))
        except asyncio.CancelledError:
            return  # the connection has ended
        finally:
            self._disconnect("your access to this instance was removed")

    def _disconnect(self, message: str) -> None:
        # OpenSSH often exits when its session ends, before it reads the reason of the disconnect.
        for session in tuple(self._sessions):
            if isinstance(session, ContainerSession):
                session.fail(message)
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, message)

    async def _wait_until_revoked(self, login: Login) -> None:
        """Return when the access is removed, or when the gateway itself has had no valid credentials for some checks."""
        unauthorized = 0
        while unauthorized < _MAX_UNAUTHORIZED_CHECKS:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                permission = await self._gateway.read_permission(login.permission.owner)
            except (ApiError, ApiUnavailable) as error:
                self._gateway.log.warning("API server unavailable", error=str(error))
                is_unauthorized = isinstance(error, ApiError) and error.status == HTTPStatus.UNAUTHORIZED
                unauthorized = unauthorized + 1 if is_unauthorized else 0
                continue  # an outage of the API server ends no connection
            unauthorized = 0
            if permission is None or permission.find_person(login.key, login.address) is None:
                return

    def _explain_refusal(self, permission: SshPermission | None) -> str:
        if permission is None:
            return "no SSH access to an instance of this name"
        if not permission.admits_address(self._address):
            return "the tenant does not allow this address"
        return "no member of the tenant has this key" if self._tried_keys else "no key"

    def _open_channel(self) -> Login:
        if self._login is None or self._gateway.channels[self._login.subject] >= _MAX_CHANNELS:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE,
                f"you have {_MAX_CHANNELS} sessions and forwarded ports at this instance: close some of them",
            )
        self._channels += 1
        self._gateway.channels[self._login.subject] += 1
        return self._login

    def _close_channel(self, session: ContainerSession | PortSession | None) -> None:
        self._sessions.discard(session)  # a channel that did not open has no session
        if self._login is not None and self._channels:
            self._channels -= 1
            decrease(self._gateway.channels, self._login.subject, 1)

    def _add_session(self, session: ContainerSession | PortSession) -> None:
        self._sessions.add(session)
        if self._is_closed:
            session.close()
        elif self._is_transport_paused:
            session.set_transport_paused(True)

    def _set_transport_paused(self, paused: bool) -> None:
        self._is_transport_paused = paused
        for session in tuple(self._sessions):
            if session is not None:
                session.set_transport_paused(paused)

    def _stop_waiting(self) -> None:
        if self._waits_for_login:
            self._waits_for_login = False
            decrease(self._gateway.logins, self._network, 1)
            del self._gateway.waiting[self]

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
        kex_algs=KEY_EXCHANGES,
        signature_algs=SIGNATURES,
        window=_WINDOW_BYTES,
        login_timeout=LOGIN_SECONDS,
        keepalive_interval=30,
        keepalive_count_max=4,
    )
