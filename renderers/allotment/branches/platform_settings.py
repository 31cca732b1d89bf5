"""Reads the keys, the URLs and other settings that a caller needs before it reads the whole source.

A source holds the declarations: it is a folder or a commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from allotment.adapters.declaration_source import Source
from allotment.adapters.git.repository import UNKNOWN_KEY
from allotment.declared.documents import read
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import PLATFORM, Scope, path_of
from allotment.declared.reading import read_folder
from allotment.declared.values import SshKey
from allotment.reports.links import Consoles

ORIGIN = "origin"
PLATFORM_FILE = "platform/platform.yaml"


def read_platform(source: Source) -> Platform | None:
    """Return the Platform declaration of a source; None if it can't be read."""
    try:
        declared = read_folder(PLATFORM, [(PLATFORM_FILE, source.read(PLATFORM_FILE))])[0].get_singleton(Platform)
    except (KeyError, OSError):
        return None
    return declared.model if declared else None


def read_publisher_key(source: Source) -> str | None:
    """Return the public key of the publisher: None if none is declared, UNKNOWN_KEY if the field can't be read."""
    return _read_public_key(source, PLATFORM_FILE, "publisher")


def _read_public_key(source: Source, path: str, field: str) -> str | None:
    """Return the public key that `spec.FIELD.publicKey` of a file declares.

    Reads only this field: with an error in another field, the commits still need a signature.
    """
    try:
        document = read(source.read(path))
        if document.findings:  # for example a field that is given twice
            return UNKNOWN_KEY
        owner = document.value["spec"].get(field)  # type: ignore[index]
        return None if owner is None else TypeAdapter[str](SshKey).validate_python(owner["publicKey"])
    except (OSError, KeyError, TypeError, AttributeError, ValidationError):
        return UNKNOWN_KEY


def list_cluster_names(source: Source) -> list[str]:
    """Return the names of the clusters that a source declares."""
    return [scope.name for scope in source.scopes()[0] if scope.kind == "cluster"]


def read_reporter_keys(source: Source, names: Iterable[str] | None = None) -> dict[str, str | None]:
    """Return, by cluster, the public key of the reporter. `names` are the clusters, by default all clusters.

    The key is None if the Cluster declares no reporter, and UNKNOWN_KEY if the field can't be read.
    """
    names = list_cluster_names(source) if names is None else names
    return {name: _read_public_key(source, f"clusters/{name}/cluster.yaml", "reporter") for name in names}


def read_cluster(source: Source, name: str) -> Cluster | None:
    """Return the declaration of a cluster; None if it can't be read."""
    path = f"clusters/{name}/cluster.yaml"
    try:
        declared = read_folder(Scope("cluster", name), [(path, source.read(path))])[0].get_singleton(Cluster)
    except (KeyError, OSError):
        return None
    return declared.model if declared else None


def read_tenant(source: Source, tenant: str) -> Tenant | None:
    """Return the declaration of a tenant in a source; None if it can't be read."""
    scope = Scope("tenant", tenant)
    path = path_of(Tenant.__name__, scope, tenant)
    try:
        declared = read_folder(scope, [(path, source.read(path))])[0].get_singleton(Tenant)
    except (KeyError, OSError):
        return None
    return declared.model if declared else None


def read_lifecycle(source: Source, tenant: str) -> str:
    """Return the lifecycle that a source declares for a tenant; empty if its file can't be read."""
    declared = read_tenant(source, tenant)
    return declared.spec.lifecycle if declared else ""


def read_members(source: Source, tenant: str) -> Members | None:
    """Return a tenant's Members declaration in a source; None if there is none, or if it can't be read."""
    path = f"tenants/{tenant}/members.yaml"
    try:
        declared = read_folder(Scope("tenant", tenant), [(path, source.read(path))])[0].get_singleton(Members)
    except (KeyError, OSError):
        return None
    return declared.model if declared else None


def read_consoles(source: Source) -> Consoles:
    """Return the declared URLs of Argo CD and Grafana."""
    platform = read_platform(source)
    clusters = [(name, read_cluster(source, name)) for name in list_cluster_names(source)]
    return Consoles(
        platform.spec.argocd.url if platform and platform.spec.argocd else "",
        {
            name: cluster.spec.monitoring.grafana_url
            for name, cluster in clusters
            if cluster and cluster.spec.monitoring
        },
    )


class BranchUrls(NamedTuple):
    """The URLs of the repositories that hold the rendered branches and the status branches."""

    rendered: str
    status: str


def has_status_at_origin(source: Source) -> bool:
    """Return whether the status branches are at origin, so that `git fetch` brings them."""
    return resolve_branch_urls(source, ORIGIN).status == ORIGIN


def resolve_branch_urls(
    source: Source, here: str, rendered: str | None = None, status: str | None = None
) -> BranchUrls:
    """Return the URLs of the rendered branches and of the status branches.

    `rendered` and `status` override the declared URLs. By default, the rendered branches are in the repository of the
    declarations, `here`, and the status branches are in the repository of the rendered branches.
    """
    platform = read_platform(source)
    git = platform.spec.git if platform else None
    to = rendered or (git.rendered if git else None) or here
    return BranchUrls(to, status or (git.status if git else None) or to)
