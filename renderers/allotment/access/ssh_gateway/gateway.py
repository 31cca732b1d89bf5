"""Holds the state that all SSH connections share: logins, counts, and the threads that wait for the API server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from allotment.access.pods.pod_choice import PodOwner, choose_pod
from allotment.access.ssh_gateway.permission import SshPermission, read_permission
from allotment.adapters.cluster.api import ApiServer
from allotment.adapters.cluster.pod_log import list_pods
from allotment.adapters.log import Log
from allotment.adapters.ssh_metrics import SshMetrics
from allotment.observed.objects import Pod
from allotment.problems import OperationRefused, escape_unprintable

MAX_HEARTBEAT_SECONDS = 20
_MAX_STARTS = 4  # programs and ports of an instance that start at the same time
_MAX_REFUSALS_LOGGED = 60  # a minute
_T = TypeVar("_T")

PersonAtInstance = tuple[str, str, str]  # the tenant, the instance and the name of the person


class WaitingConnection(Protocol):
    """A connection that has not logged in yet."""

    def abort(self) -> None:
        """Close the connection at once."""


class Login(NamedTuple):
    """The login of a person to an instance, with a key and from an address."""

    permission: SshPermission
    person: str
    key: str
    address: str

    @property
    def subject(self) -> PersonAtInstance:
        """The person and the instance: the key of the counts of connections and channels."""
        return (self.permission.owner.tenant, self.permission.owner.name, self.person)


class Gateway:
    """The state that all connections share. `cluster` is the declared cluster of the API server."""

    def __init__(self, api: ApiServer, cluster: str, log: Log, metrics: SshMetrics) -> None:
        self.api, self.cluster, self.log, self.metrics = api, cluster, log, metrics
        self.logins = Counter[str]()  # connections that have not logged in yet, by network
        self.waiting: dict[WaitingConnection, None] = {}  # the same connections, the oldest first
        self.connections = Counter[PersonAtInstance]()
        self.channels = Counter[PersonAtInstance]()
        self._refusals, self._refusals_since = 0, 0.0
        self._starts: dict[PodOwner, asyncio.Semaphore] = {}
        # A node that does not answer delays the programs of its instances, and no login.
        self._login_threads, self._start_threads = ThreadPoolExecutor(16, "login"), ThreadPoolExecutor(128, "start")

    async def read_permission(self, owner: PodOwner) -> SshPermission | None:
        """Return the people with SSH access to an instance. Raises ApiError and ApiUnavailable."""
        function = partial(read_permission, self.api, owner)
        return await asyncio.get_running_loop().run_in_executor(self._login_threads, function)

    async def start(self, owner: PodOwner, function: Callable[[Pod], _T]) -> _T:
        """Return the result of a function that connects to the pod of an instance, in another thread.

        Raises OperationRefused if no pod runs, ApiError and ApiUnavailable.
        """
        async with self._starts.setdefault(owner, asyncio.Semaphore(_MAX_STARTS)):
            start = self._start_threads.submit(lambda: function(self._find_pod(owner)))
            try:
                return await asyncio.wrap_future(start)
            except asyncio.CancelledError:
                start.add_done_callback(_close_connection)  # the client has left while the thread connects
                raise

    def log_refusal(self, user: str, address: str, reason: str) -> None:
        """Count a refused login, and log it, unless strangers cause too many lines."""
        self.metrics.count_login("refused")
        if time.monotonic() - self._refusals_since > 60:
            self._refusals, self._refusals_since = 0, time.monotonic()
        self._refusals += 1
        if self._refusals <= _MAX_REFUSALS_LOGGED:
            self.log.info("ssh login refused", user=escape_unprintable(user), address=address, reason=reason)

    def _find_pod(self, owner: PodOwner) -> Pod:
        pod = choose_pod(owner, list_pods(self.api, owner.namespace, owner.selector))
        if pod.phase != "Running" or pod.terminating:
            raise OperationRefused(f"{owner} does not run: `allot status {owner.tenant}/{owner.name}` shows the reason")
        return pod


class Heartbeat:
    """Shows whether the event loop still runs its tasks. Create it in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat()

    def is_fresh(self) -> bool:
        """Return whether the event loop had a turn in the last seconds. Another thread may call it."""
        return time.monotonic() - self._last < MAX_HEARTBEAT_SECONDS

    def _beat(self) -> None:
        self._last = time.monotonic()
        self._loop.call_later(1, self._beat)


def _close_connection(start: Future[Any]) -> None:
    if not start.cancelled() and start.exception() is None:
        start.result().socket.close()


def decrease(counts: Counter[Any], key: object, number: int) -> None:
    """Subtract a number from a count, and forget a count of 0."""
    counts[key] -= number
    if counts[key] <= 0:
        del counts[key]
