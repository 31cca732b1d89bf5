"""Elects a leader among replicas with a Lease. If the leader stops renewing the Lease, another replica takes over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from allotment.adapters.cluster.api import ApiServer

LEASE_SECONDS = 15  # a leader that does not renew the Lease for this long loses it
RENEW_SECONDS = (
    10  # a leader that can't renew the Lease for this long stops leading, before another replica may take over
)
RETRY_SECONDS = 2
ANSWER_SECONDS = 5  # the longest wait for a response of the API server


class Leadership:
    """Competes for a Lease in its own thread, until the process ends."""

    def __init__(
        self, api: ApiServer, namespace: str, name: str, identity: str, changed: Callable[[bool], None]
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_change = changed
        self._is_leading = threading.Event()
        self._renewed_at = 0.0

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="lease", daemon=True).start()

    def is_leader(self) -> bool:
        """Return whether this replica leads. A replica that could not renew its Lease in time no longer leads, even if
        its thread still waits for a response."""
        return self._is_leading.is_set() and time.monotonic() - self._renewed_at < LEASE_SECONDS

    def _run(self) -> None:
        while True:
            lock = _ClientLock(self._name, self._namespace, self._identity, self._api.client(), self._record_renewal)
            settings = electionconfig.Config(
                lock, LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, self._on_started_leading, self._on_stopped_leading
            )
            try:
                leaderelection.LeaderElection(settings).run()
            except Exception:  # after any error of the API server or the network, compete again
                self._on_stopped_leading()
            time.sleep(RETRY_SECONDS)

    def _record_renewal(self) -> None:
        self._renewed_at = time.monotonic()

    def _on_started_leading(self) -> None:
        self._is_leading.set()
        self._on_change(True)

    def _on_stopped_leading(self) -> None:
        if self._is_leading.is_set():
            self._is_leading.clear()
            self._on_change(False)


class _ClientLock(LeaseLock):
    """A LeaseLock that uses a given client, has a timeout for each call, and calls a function after each renewal."""

    def __init__(
        self, name: str, namespace: str, identity: str, api: client.ApiClient, renewed: Callable[[], None]
    ) -> None:
        super().__init__(name, namespace, identity)  # type: ignore[no-untyped-call]
        self.api_instance: Any = _TimeoutClient(client.CoordinationV1Api(api))
        self._on_renewed = renewed

    def create(self, name: str, namespace: str, election_record: object) -> bool:
        return self._notify_if_renewed(super().create(name, namespace, election_record))  # type: ignore[no-untyped-call]

    def update(self, name: str, namespace: str, updated_record: object) -> bool:
        return self._notify_if_renewed(super().update(name, namespace, updated_record))  # type: ignore[no-untyped-call]

    def _notify_if_renewed(self, done: bool) -> bool:
        if done:
            self._on_renewed()
        return done


class _TimeoutClient:
    """A client with calls that time out after ANSWER_SECONDS."""

    def __init__(self, api: client.CoordinationV1Api) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Callable[..., object]:
        call = getattr(self._api, name)
        return lambda *arguments, **named: call(*arguments, **named, _request_timeout=ANSWER_SECONDS)
