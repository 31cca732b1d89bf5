"""A Lease: of several replicas one leads, and another takes over when it is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from allotment.adapters.cluster.api import Api

LEASE_SECONDS = 15  # who hasn't renewed for so long leads no more
RENEW_SECONDS = 10  # who couldn't renew for so long stops leading, before another may begin
RETRY_SECONDS = 2
ANSWER_SECONDS = 5  # an API server that takes longer has said nothing


class Leadership:
    """Competes for a Lease in a thread of its own, until the process ends."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str, changed: Callable[[bool], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._changed = changed
        self._leads = threading.Event()
        self._renewed = 0.0

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="lease", daemon=True).start()

    def leads(self) -> bool:
        """Return whether this replica leads; no longer when its Lease couldn't be renewed in time, whatever it
        waits for."""
        return self._leads.is_set() and time.monotonic() - self._renewed < LEASE_SECONDS

    def _run(self) -> None:
        while True:
            lock = _Lock(self._name, self._namespace, self._identity, self._api.client(), self._note)
            settings = electionconfig.Config(lock, LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, self._begin, self._end)
            try:
                leaderelection.LeaderElection(settings).run()
            except Exception:  # whatever the API server or the network did: compete again
                self._end()
            time.sleep(RETRY_SECONDS)

    def _note(self) -> None:
        self._renewed = time.monotonic()

    def _begin(self) -> None:
        self._leads.set()
        self._changed(True)

    def _end(self) -> None:
        if self._leads.is_set():
            self._leads.clear()
            self._changed(False)


class _Lock(LeaseLock):
    """The package's Lease lock, with one's own client, an end to each call, and a note of each renewal."""

    def __init__(
        self, name: str, namespace: str, identity: str, api: client.ApiClient, renewed: Callable[[], None]
    ) -> None:
        super().__init__(name, namespace, identity)  # type: ignore[no-untyped-call]
        self.api_instance: Any = _Timed(client.CoordinationV1Api(api))
        self._renewed = renewed

    def create(self, name: str, namespace: str, election_record: object) -> bool:
        return self._noted(super().create(name, namespace, election_record))  # type: ignore[no-untyped-call]

    def update(self, name: str, namespace: str, updated_record: object) -> bool:
        return self._noted(super().update(name, namespace, updated_record))  # type: ignore[no-untyped-call]

    def _noted(self, done: bool) -> bool:
        if done:
            self._renewed()
        return done


class _Timed:
    """An API whose calls end after ANSWER_SECONDS."""

    def __init__(self, api: client.CoordinationV1Api) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Callable[..., object]:
        call = getattr(self._api, name)
        return lambda *arguments, **named: call(*arguments, **named, _request_timeout=ANSWER_SECONDS)
