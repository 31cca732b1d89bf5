"""Adds clusters and their static node pools: the edits of `allot cluster` and `allot pool`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.layout import Scope
from allotment.edits.blanks import list_cluster_blanks, locate_blank
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, check_declaration, parse_number
from allotment.edits.option_values import OptionParser
from allotment.manifests.yaml_text import without_empty

_SELECTOR = "spec.static.nodeSelector"


def build_cluster_spec(
    name: str, domain: str, issuer: str, storages: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """Return the fields of a new cluster, with the usual names of the objects that its team creates there."""
    fields = {
        "destination": {"name": name},
        "domain": domain,
        "gateway": {"name": "edge", "namespace": "edge", "sectionName": "https"},
        "oidc": {
            "issuer": issuer,
            "clientID": "allotment",
            "clientSecretRef": {"name": "oidc", "namespace": "edge"},
        },
        "storages": list(storages),
        "diskStorageClassName": "block-delete",
    }
    return without_empty(fields)


def add_cluster(declarations: Declarations, name: str, values: Mapping[str, str | None]) -> ChangeSet:
    """Return the change that declares a cluster. `values` has the values of CLUSTER_OPTIONS.

    The notes name the values that the team must still supply. Raises OperationRefused if the cluster exists, or if a field is
    invalid.
    """
    path = declarations.create_path(Cluster, Scope("cluster", name), name)
    domain, disk_class, destination = values["domain"] or "", values["disk_storage_class"], values["destination"]
    spec = build_cluster_spec(destination or name, domain, values["oidc_issuer"] or "")
    filled = {"spec.destination.name"} if destination else set[str]()
    if disk_class:
        filled.add("spec.diskStorageClassName")
        spec["diskStorageClassName"] = disk_class
    data = check_declaration(path, build_declaration(path, spec))
    notes = (
        *map(str, list_cluster_blanks(path, data, domain, filled)),
        f"{name} has no nodes yet: `allot pool add {name}/POOL` declares them.",
        f"{name} offers no storages yet: `allot set Cluster/{name} 'storages+={{storageSpec: NAME, storageClassName: CLASS,"
        " capacity: 10Ti}'` adds a StorageSpec.",
    )
    return ChangeSet(f"Add cluster {name}", {path: data}, (f"Cluster {name}",), notes)


def add_pool(declarations: Declarations, cluster: str, name: str, values: Mapping[str, Any]) -> ChangeSet:
    """Return the change that declares a node pool of static nodes. `values` has the values of POOL_OPTIONS.

    Raises OperationRefused if the pool exists, if the cluster is not declared, or if a field is invalid.
    """
    path = declarations.create_path(NodePool, Scope("cluster", cluster), name)
    parser = OptionParser()
    selector = parser.parse_pairs("--node-selector", values["node_selector"])
    parser.raise_problems()
    spec = {
        "node": {
            "gpu": {"model": values["gpu"], "count": parse_number(values["gpu_count"])},
            "cpu": parse_number(values["cpu"]),
            "memory": values["memory"],
        },
        "static": {"nodes": parse_number(values["nodes"]), "nodeSelector": selector or {"pool": name}},
    }
    data = check_declaration(path, build_declaration(path, spec))
    blanks = [] if selector else [locate_blank(path, data, _SELECTOR, "the labels that only these nodes have")]
    units = (
        f"No tenant can hold its units yet: `allot stock add {cluster}/NAME --spec SPEC --count COUNT` declares them."
    )
    return ChangeSet(
        f"Add node pool {cluster}/{name}", {path: data}, (f"NodePool {cluster}/{name}",), (*map(str, blanks), units)
    )
