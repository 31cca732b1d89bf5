"""Reads the branch, the keys, the URLs and other settings that a caller needs before it reads the whole source.

A source holds the declarations: it is a folder or a commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from allotment.adapters.declaration_source import Source
from allotment.declared.documents import read
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import read_folder
from allotment.declared.values import BranchName
from allotment.reports.links import Consoles

PLATFORM_FILE = "platform/platform.yaml"


def read_platform(source: Source) -> Platform | None:
    """Return the Platform declaration of a source; None if it can't be read."""
    try:
        declared = read_folder(PLATFORM, [(PLATFORM_FILE, source.read(PLATFORM_FILE))])[0].get_singleton(Platform)
    except (KeyError, OSError):
        return None
    return declared.model if declared else None


def read_branch(source: Source) -> str:
    """Return the branch that the Platform declaration names in spec.git.branch; `main` if it names no valid branch.

    Reads only this field, so the other fields of the declaration may be invalid.
    """
    try:
        value = read(source.read(PLATFORM_FILE)).value
        return str(TypeAdapter(BranchName).validate_python(value["spec"]["git"].get("branch", "main")))  # type: ignore[index]
    except (OSError, KeyError, TypeError, AttributeError, ValidationError):
        return "main"


def read_publisher_key(source: Source) -> str | None:
    """Return the public key of the publisher; None if no publisher is declared, or if the Platform can't be read."""
    platform = read_platform(source)
    return platform.spec.publisher.public_key if platform and platform.spec.publisher else None


def list_cluster_names(source: Source) -> list[str]:
    """Return the names of the clusters that a source declares."""
    return [scope.name for scope in source.scopes()[0] if scope.kind == "cluster"]


def read_reporter_keys(source: Source, names: Iterable[str] | None = None) -> dict[str, str | None]:
    """Return, by cluster, the public key of the reporter. `names` are the clusters, by default all clusters.

    The key is None if the Cluster declares no reporter or can't be read.
    """
    names = list_cluster_names(source) if names is None else names
    return {name: find_reporter_key(read_cluster(source, name)) for name in names}


def find_reporter_key(cluster: Cluster | None) -> str | None:
    """Return the public key of a cluster's reporter; None if the cluster declares no reporter or can't be read."""
    return cluster.spec.reporter.public_key if cluster and cluster.spec.reporter else None


def read_cluster(source: Source, name: str) -> Cluster | None:
    """Return the declaration of a cluster; None if it can't be read."""
    path = f"clusters/{name}/cluster.yaml"
    try:
        declared = read_folder(Scope("cluster", name), [(path, source.read(path))])[0].get_singleton(Cluster)
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
