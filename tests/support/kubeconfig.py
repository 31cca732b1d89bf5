"""A kubeconfig for the API server of a test."""

from __future__ import annotations

from typing import Any

from tests.support.faults import Server


def kubeconfig_of(server: Server) -> dict[str, Any]:
    """Return a kubeconfig for a server."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "eu-1",
        "clusters": [{"name": "eu-1", "cluster": {"server": server.url}}],
        "users": [{"name": "ada", "user": {"token": "t"}}],
        "contexts": [{"name": "eu-1", "context": {"cluster": "eu-1", "user": "ada"}}],
    }
