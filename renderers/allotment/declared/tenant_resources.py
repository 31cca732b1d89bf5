"""Register the kinds of tenants' resources: instances, storages, snapshots and secrets."""

from __future__ import annotations

from typing import NamedTuple

from allotment.declared.kinds import KINDS, Kind
from allotment.declared.layout import Scope, path_of


class ResourceKind(NamedTuple):
    """A kind of resource.

    `word` names the kind in a status, a plan and a label. `plural` is the name of the folder of its declarations, and
    of its list in a status. `kind` is the declared kind.

    `tree_part` is the folder of its files in the rendered tree. In the name of a rendered file, `suffix` follows the
    name of the resource, and distinguishes the kinds that share a folder. If `reported` is true, a status lists the
    resources of the kind, and a rollout follows them.
    """

    word: str
    plural: str
    kind: Kind
    tree_part: str
    suffix: str = ""
    reported: bool = True

    def declaration_path(self, tenant: str, name: str) -> str:
        """Return the path of a declaration."""
        return path_of(self.kind.name, Scope("tenant", tenant), name)

    def file_stem(self, name: str) -> str:
        """Return the name of the rendered file without its ending `.rendered.yaml`."""
        return f"{name}{self.suffix}"


INSTANCE = ResourceKind("instance", "instances", KINDS["GPUInstance"], "compute")
STORAGE = ResourceKind("storage", "storages", KINDS["GPUStorage"], "storage")
SNAPSHOT = ResourceKind("snapshot", "snapshots", KINDS["GPUStorageSnapshot"], "storage", suffix="--snapshot")
SECRET = ResourceKind("secret", "secrets", KINDS["SecretReference"], "compute", suffix="--secret", reported=False)
RESOURCE_KINDS = {resource_kind.word: resource_kind for resource_kind in (INSTANCE, STORAGE, SNAPSHOT, SECRET)}
TREE_PARTS = (STORAGE.tree_part, INSTANCE.tree_part)  # folders, in the order of their sync waves

_KINDS_BY_PART = {
    part: sorted(
        (resource_kind for resource_kind in RESOURCE_KINDS.values() if resource_kind.tree_part == part),
        key=lambda resource_kind: not resource_kind.suffix,
    )
    for part in TREE_PARTS
}  # kinds with a suffix come first, because an empty suffix matches every name


def parse_file_stem(part: str, stem: str) -> tuple[ResourceKind, str] | None:
    """Return the kind and declared name of a rendered file; None if the file belongs to no resource."""
    for resource_kind in _KINDS_BY_PART.get(part, ()):
        name = stem.removesuffix(resource_kind.suffix)
        if stem.endswith(resource_kind.suffix) and "--" not in name:
            return resource_kind, name
    return None
