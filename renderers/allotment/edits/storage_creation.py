"""Creates storages: those of `allot storage create`, and those that a new instance mounts."""

from __future__ import annotations

from typing import Any, NamedTuple

from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.layout import PLATFORM, Scope
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, list_option_problems
from allotment.edits.option_values import OptionParser
from allotment.edits.storage_sources import parse_source
from allotment.problems import OperationRefused

_OPTIONS_BY_FIELD = {
    "spec.cluster": "--cluster",
    "spec.storageSpec": "--storage-spec",
    "spec.size": "--size",
    "spec.prepare.source": "--source",
    "spec.displayName": "--display-name",
    "metadata.labels": "--label",
}


class StorageOptions(NamedTuple):
    """The options of a new storage, as texts. An empty text stands for an absent option."""

    cluster: str = ""
    size: str = ""
    storage_spec: str = ""
    source: str = ""
    display_name: str = ""
    labels: tuple[str, ...] = ()


def create_storage(declarations: Declarations, tenant: str, name: str, options: StorageOptions) -> ChangeSet:
    """Return the change that creates a storage.

    Raises OperationRefused with a line for each problem: a wrong value, an unknown name, or a missing option.
    """
    path = declarations.create_path(GPUStorage, Scope("tenant", tenant), name)
    parser = OptionParser()
    parser.check_texts(options._asdict())
    spec = _build_spec(declarations, options, parser)
    labels = parser.parse_pairs("--label", options.labels)
    parser.raise_problems()
    data = build_declaration(path, spec, labels)
    parser.problems += list_option_problems(path, data, _OPTIONS_BY_FIELD)
    parser.raise_problems()
    return ChangeSet(f"Create storage {tenant}/{name}", {path: data}, (f"GPUStorage {tenant}/{name}",))


def _build_spec(declarations: Declarations, options: StorageOptions, parser: OptionParser) -> dict[str, Any]:
    clusters = declarations.list_scopes("cluster")
    spec: dict[str, Any] = {"displayName": options.display_name} if options.display_name else {}
    if not options.cluster:
        parser.problems.append(f"add --cluster: {', '.join(clusters)}")
    elif parser.check_name("--cluster", options.cluster, clusters, "no cluster is named"):
        spec["cluster"] = options.cluster
        spec["storageSpec"] = choose_storage_spec(declarations, options.cluster, options.storage_spec, parser)
    if not options.size:
        parser.problems.append("add --size: a size such as 50Gi")
    spec["size"] = options.size
    if options.source:
        try:
            spec["prepare"] = {"source": parse_source(options.source)}
        except OperationRefused as error:
            parser.add_refusal("--source", error)
    return spec


def choose_storage_spec(declarations: Declarations, cluster: str, name: str, parser: OptionParser) -> str:
    """Return the named StorageSpec, or by default the only StorageSpec of the cluster for volumes of one instance."""
    names = list_storage_specs(declarations, cluster)
    if name:
        parser.check_name("--storage-spec", name, names, f"cluster {cluster} offers no StorageSpec named")
        return name
    single = [each for each in names if _is_block_storage(declarations, each)]
    if len(single) != 1:
        parser.problems.append(f"add --storage-spec: {', '.join(names) or f'cluster {cluster} offers none'}")
        return ""
    return single[0]


def list_storage_specs(declarations: Declarations, cluster: str) -> list[str]:
    """Return the sorted names of the StorageSpecs that a cluster offers."""
    declared = declarations.find(Cluster, Scope("cluster", cluster), cluster)
    return sorted(entry.storage_spec for entry in declared.model.spec.storages)


def _is_block_storage(declarations: Declarations, name: str) -> bool:
    spec = declarations.find(StorageSpec, PLATFORM, name).model.spec
    return spec.lifecycle == "Active" and spec.is_single_node
