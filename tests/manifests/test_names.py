"""Names: injective, and short enough for one DNS label."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.tenant_resources import TREE_PARTS
from allotment.manifests.cluster.bootstrap import ROOT_PROJECT
from allotment.manifests.names import (
    add_on,
    application,
    files_host,
    instance_host,
    namespace,
    platform_application,
    project,
)

# Words that other names are made of, and those that we put between names: every thing of them, with every other.
NAMES = ("aaa", "bbb", "aaa-bbb", "bbb-aaa", "files", "http", "files-aaa", "aaa-files", "aaa-http", "http-aaa")
PORTS = tuple(name for name in NAMES if name != "files")

PLATFORM_PARTS = (
    "root",
    "platform",
    "add-ons",
    "namespaces-of-add-ons",
    "node-pools",
    "stock",
    "argo-a",
    "namespaces-a",
)
# Every word of a name of ours in Argo CD, as the name of a tenant, of a cluster and of an add-on.
ARGO_WORDS = (*NAMES, *PLATFORM_PARTS, *TREE_PARTS, "allotment", "add-on", "add-on-root", "control")


def _allowed(path: str) -> bool:
    return isinstance(parse_path(path), DeclarationPath)


def test_names_in_argo_cd_are_injective() -> None:
    tenants = [word for word in ARGO_WORDS if _allowed(f"tenants/{word}/tenant.yaml")]
    clusters = [word for word in ARGO_WORDS if _allowed(f"clusters/{word}/cluster.yaml")]
    add_ons = [word for word in ARGO_WORDS if _allowed(f"platform/add-ons/{word}.yaml")]
    assert set(ARGO_WORDS) - set(tenants) == {"allotment", "namespaces-of-add-ons"}  # the second is too long
    owners: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    owners[ROOT_PROJECT].add(("root project",))
    for cluster in clusters:
        for part in PLATFORM_PARTS:
            owners[platform_application(part, cluster)].add(("platform", part, cluster))
        for name in add_ons:
            owners[add_on(name, cluster)].add(("add-on", name, cluster))
        for tenant in tenants:
            owners[project(tenant, cluster)].add(("tenant", tenant, cluster))
            for part in TREE_PARTS:
                owners[application(tenant, cluster, part)].add(("tenant", tenant, cluster, part))
    assert {name: owner for name, owner in owners.items() if len(owner) > 1} == {}


def test_hosts_are_injective() -> None:
    parts_by_host: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for tenant, name in product(NAMES, NAMES):
        parts_by_host[files_host(name, tenant, "d.example")].add(("files", name, tenant))
        for port in PORTS:
            parts_by_host[instance_host(name, port, tenant, "d.example")].add(("port", name, port, tenant))
    assert len(parts_by_host) == len(NAMES) ** 2 * (1 + len(PORTS))
    assert [owners for owners in parts_by_host.values() if len(owners) > 1] == []


def test_the_longest_names_fit() -> None:
    tenant, instance, cluster, storage, port = "t" * 20, "i" * 24, "c" * 24, "s" * 32, "p" * 15
    assert len(instance_host(instance, port, tenant, "d").split(".")[0]) == 63
    assert len(files_host(storage, tenant, "d").split(".")[0]) <= 63
    assert len(application(tenant, cluster, "storage")) <= 63
    assert len(namespace(tenant)) <= 63
