"""Lists the declared kinds. Each kind has its own module, and a pattern for the paths of its files.

`KINDS` is the only registry. The module of a kind is imported on first use, so that a command imports only the kinds
that it reads. These modules do not import `annotations` from `__future__`: pydantic would compile the text of each
annotation, which takes 15 ms.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from allotment.declared.kinds.declaration import Declaration

_PLACEHOLDER = re.compile(r"\{[a-z]+\}")


class Kind(NamedTuple):
    """A declared kind: its name, its module in this package, and the path of its files.

    In `path`, `{name}` is a placeholder for the declared name. If `path` has no `{name}`, the name of the folder is the
    declared name. `{cluster}` and `{tenant}` are placeholders for the name of the scope.
    """

    name: str
    module: str
    path: str

    @property
    def model(self) -> type[Declaration]:
        """The pydantic model, imported on first use."""
        model: type[Declaration] = getattr(import_module(f"{__name__}.{self.module}"), self.name)
        return model

    @property
    def scope(self) -> str:
        """The scope of the path: platform, cluster or tenant."""
        return {"platform": "platform", "clusters": "cluster", "tenants": "tenant"}[self.path.split("/", 1)[0]]

    @property
    def pattern(self) -> str:
        """The glob pattern that matches the paths of the kind's files."""
        return _PLACEHOLDER.sub("*", self.path)

    @property
    def singleton(self) -> bool:
        """Whether a folder holds at most a single file of this kind."""
        return "{name}" not in self.path


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("Platform", "platform", "platform/platform.yaml"),
        Kind("Ownership", "ownership", "platform/ownership.yaml"),
        Kind("GPUSpec", "gpu_spec", "platform/specs/{name}.yaml"),
        Kind("StorageSpec", "storage_spec", "platform/storage-specs/{name}.yaml"),
        Kind("App", "app", "platform/apps/{name}.yaml"),
        Kind("Plan", "plan", "platform/plans/{name}.yaml"),
        Kind("AddOn", "add_on", "platform/add-ons/{name}.yaml"),
        Kind("Cluster", "cluster", "clusters/{cluster}/cluster.yaml"),
        Kind("NodePool", "node_pool", "clusters/{cluster}/node-pools/{name}.yaml"),
        Kind("Stock", "stock", "clusters/{cluster}/stocks/{name}.yaml"),
        Kind("Cordon", "cordon", "clusters/{cluster}/cordons/{name}.yaml"),
        Kind("Tenant", "tenant", "tenants/{tenant}/tenant.yaml"),
        Kind("Members", "members", "tenants/{tenant}/members.yaml"),
        Kind("GPUStorage", "gpu_storage", "tenants/{tenant}/storages/{name}.yaml"),
        Kind("GPUStorageSnapshot", "gpu_storage_snapshot", "tenants/{tenant}/snapshots/{name}.yaml"),
        Kind("SecretReference", "secret_reference", "tenants/{tenant}/secrets/{name}.yaml"),
        Kind("GPUInstance", "gpu_instance", "tenants/{tenant}/instances/{name}.yaml"),
    )
}
