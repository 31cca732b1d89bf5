"""Defines the Prometheus metrics of the SSH gateway."""

from __future__ import annotations

from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

LoginResult = Literal["success", "refused", "unavailable", "overload"]


class SshMetrics:
    """The metrics of one SSH gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._logins = Counter(
            "allotment_ssh_logins",
            "Logins by SSH: successful, refused, without an answer of the API server, or with too many others that wait.",
            ["result"],
            registry=registry,
        )
        self._connections = Gauge("allotment_ssh_connections", "Open connections after a login.", registry=registry)
        for result in get_args(LoginResult):
            self._logins.labels(result)

    def count_login(self, result: LoginResult) -> None:
        """Count a login."""
        self._logins.labels(result).inc()

    def change_connections(self, difference: int) -> None:
        """Count a connection that was opened (1) or closed (-1)."""
        self._connections.inc(difference)
