"""Define the layout of a cluster's rendered branch: which declaration becomes which file, with which objects.

    control/*.yaml                        Applications that read the other folders of control/ and platform/
    control/add-ons/<add-on>              AppProject and Application of an add-on
    control/argo/<letter>/<tenant>        AppProject and Applications of a tenant
    control/namespaces/<letter>/<tenant>  Namespace, quota, limits and network policies of a tenant
    platform/add-ons/                     namespaces of add-ons
    platform/cluster/                     objects that all tenants share, such as priority classes
    platform/node-pools/                  Karpenter's objects for the node pools
    platform/stock/                       placeholders
    tenants/<tenant>/storage/, compute/   one file per declared resource; in storage/ also the programs that Jobs run

Every file name ends in `.rendered.yaml` (`paths`). An Application reads the files of one folder, and reads no
subfolders (`argo_folders`). Therefore a folder that an Application reads has no subfolders. The only exception is
`control/`, which the root Application reads: other Applications read the folders below `control/`.

`TENANT_MANIFESTS` and `CLUSTER_MANIFESTS` map each declared kind to the function that renders it. The isolation gate
also reads `CLUSTER_MANIFESTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.add_on import AddOn
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.kinds.stock import Stock
from allotment.declared.placement import cluster_in, clusters_of
from allotment.declared.tenant_resources import INSTANCE, SECRET, SNAPSHOT, STORAGE
from allotment.manifests import argo_folders, paths
from allotment.manifests.cluster import (
    add_on,
    control,
    device_classes,
    device_plugin,
    foundation,
    gateway,
    managed_gateway,
    node_pool,
    portal,
    secret_policy,
    stock,
)
from allotment.manifests.tenant import (
    applications,
    disruption,
    gpu_instance,
    gpu_storage,
    gpu_storage_snapshot,
    image_pull,
    namespace,
    programs,
    secret_reference,
    sharing,
    ssh_access,
)
from allotment.manifests.yaml_text import Object, dump
from allotment.preparation.runtime_state import UNKNOWN_STATE, RuntimeState

RenderedFiles = Iterator[tuple[str, bytes]]


class KindRendering(NamedTuple):
    """How to render a declared kind: `render` returns the objects, and `folder` is the folder of their file.

    `suffix` follows the declared name in the file name. If two kinds share a folder, one of the two kinds has a suffix,
    because resources of different kinds may have the same name.
    """

    render: Callable[..., list[Object]]
    folder: str
    suffix: str = ""


# The parameters of `render` are `(catalog, cluster, tenant, runtime_state, declared)` for a tenant's kinds, and
# `(catalog, cluster, declared, placeholders)` for the kinds of the platform and of clusters. `render` returns an empty
# list if this cluster needs no object for the declaration. A kind with its files in `platform/cluster` has a suffix.
TENANT_MANIFESTS: dict[type[Declaration], KindRendering] = {
    GPUStorage: KindRendering(gpu_storage.render, STORAGE.tree_part),
    GPUStorageSnapshot: KindRendering(gpu_storage_snapshot.render, SNAPSHOT.tree_part, SNAPSHOT.suffix),
    SecretReference: KindRendering(secret_reference.render, SECRET.tree_part, SECRET.suffix),
    GPUInstance: KindRendering(gpu_instance.render, INSTANCE.tree_part),
}
CLUSTER_MANIFESTS: dict[type[Declaration], KindRendering] = {
    AddOn: KindRendering(add_on.render, argo_folders.ADD_ONS_FOLDER),
    NodePool: KindRendering(node_pool.render, "platform/node-pools"),
    Stock: KindRendering(stock.render, "platform/stock"),
}


def parse_cluster_file(path: str) -> tuple[type[Declaration], str] | None:
    """Return the kind and the declared name of a file of `CLUSTER_MANIFESTS`; None for the path of any other file."""
    folder, stem = argo_folders.folder_of(path), paths.file_stem(path)
    for kind, rendered in CLUSTER_MANIFESTS.items():
        name = stem.removesuffix(rendered.suffix)
        if rendered.folder == folder and stem.endswith(rendered.suffix) and "--" not in name:
            return kind, name
    return None


def render_tenant(
    catalog: Catalog,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState = UNKNOWN_STATE,
    only: frozenset[str] | None = None,
) -> RenderedFiles:
    """Yield the path and the content of each file of a tenant.

    A path has the form `<cluster>/<path on the cluster's branch>`. If `only` is set, yield only the files for the
    clusters in `only`. The files depend only on the catalog, on this tenant and on the tenant's runtime state.
    """
    for name in clusters_of(tenant):
        if only is not None and name not in only:
            continue
        files = _render_tenant_files(catalog, catalog.clusters[name], tenant, runtime_state)
        for path, data in argo_folders.with_markers(name, tenant.name, files):
            yield f"{name}/{path}", data


def _render_tenant_files(
    catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations, runtime_state: RuntimeState
) -> RenderedFiles:
    yield paths.argo_file(tenant.name), dump(applications.render(catalog, cluster, tenant))
    isolation = [
        *namespace.render(catalog, cluster, tenant),
        *disruption.render(cluster, tenant),
        *ssh_access.render(cluster, tenant),
        *image_pull.render(cluster, tenant),
        *sharing.render(catalog, cluster, tenant, runtime_state),
        *applications.render_secret_grant(cluster, tenant),
    ]
    yield paths.namespace_file(tenant.name), dump(isolation)
    jobs: list[Object] = []
    for kind, rendered in TENANT_MANIFESTS.items():
        for declared in tenant.of_kind(kind).values():
            if cluster_in(tenant, declared.model) == cluster.name:
                path = paths.resource_file(tenant.name, rendered.folder, declared.model.name + rendered.suffix)
                objects = rendered.render(catalog, cluster, tenant, runtime_state, declared)
                jobs += [manifest for manifest in objects if manifest["kind"] == "Job"]
                yield path, dump(objects)
    for config_map in programs.render(tenant.name, jobs):
        yield paths.resource_file(tenant.name, "storage", config_map["metadata"]["name"]), dump([config_map])


def render_cluster(
    catalog: Catalog, cluster: ScopeDeclarations, letters: frozenset[str], placeholders: Mapping[tuple[str, str], int]
) -> RenderedFiles:
    """Yield the paths and contents of a cluster's files that belong to no tenant, without folder markers.

    `argo_folders.render_markers` renders the folder markers, because they also depend on the files of tenants.
    `letters` are the first letters of the names of the cluster's tenants. `placeholders` has the number of placeholders
    by cluster and stock.
    """
    name = cluster.name
    yield f"{name}/{paths.PLATFORM_FILE}", dump(control.render_platform(catalog, cluster))
    for letter in sorted(letters):
        yield f"{name}/{paths.shard_file(letter)}", dump(control.render_shard(catalog, cluster, letter))
    parts: dict[str, list[dict[str, Any]]] = {
        "namespaces": foundation.render_system_namespaces(),
        "priority-classes": foundation.render_priority_classes(),
        "admission": [*foundation.render_admission_policies(), *secret_policy.render(cluster)],
        "gateway": gateway.render(cluster),
        "device-plugin": device_plugin.render(cluster),
    }
    if managed := managed_gateway.render(catalog, cluster):
        parts["managed-gateway"] = managed
    if routes := portal.render(catalog, cluster):
        parts["portal"] = routes
    if classes := device_classes.render(cluster):
        parts["device-classes"] = classes
    if spaces := add_on.render_namespaces(catalog, cluster):
        yield f"{name}/platform/add-ons/namespaces{paths.FILE_SUFFIX}", dump(spaces)
    for part, objects in parts.items():
        yield f"{name}/platform/cluster/{part}{paths.FILE_SUFFIX}", dump(objects)
    for kind, rendered in CLUSTER_MANIFESTS.items():
        for declared in (*catalog.platform.of_kind(kind).values(), *cluster.of_kind(kind).values()):
            if objects := rendered.render(catalog, cluster, declared, placeholders):
                stem = declared.model.name + rendered.suffix
                yield f"{name}/{rendered.folder}/{stem}{paths.FILE_SUFFIX}", dump(objects)
