"""The things of tenants: what a tenant declares that its clusters have, a row a kind, read by all who tell these
kinds apart."""

from __future__ import annotations

from typing import NamedTuple

from allotment.declared.kinds import KINDS, Kind
from allotment.declared.layout import Scope, path_of


class ResourceKind(NamedTuple):
    """A kind of thing: the word for one (in a status, a plan and a label) and for several (their folder, and the
    field of a status that lists them); the declared kind; the folder of the rendered tree that its file lies in,
    and what follows its name there, where another kind of that folder could have the same name; whether it is
    `reported`, so that a status lists it and a rollout follows it.
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
        """Return what a rendered file is named, without our ending."""
        return f"{name}{self.suffix}"


INSTANCE = ResourceKind("instance", "instances", KINDS["GPUInstance"], "compute")
STORAGE = ResourceKind("storage", "storages", KINDS["GPUStorage"], "storage")
SNAPSHOT = ResourceKind("snapshot", "snapshots", KINDS["GPUStorageSnapshot"], "storage", suffix="--snapshot")
RESOURCE_KINDS = {resource_kind.word: resource_kind for resource_kind in (INSTANCE, STORAGE, SNAPSHOT)}
TREE_PARTS = (STORAGE.tree_part, INSTANCE.tree_part)  # folders, in the order of their waves

_KINDS_BY_PART = {
    part: sorted(
        (resource_kind for resource_kind in RESOURCE_KINDS.values() if resource_kind.tree_part == part),
        key=lambda resource_kind: not resource_kind.suffix,
    )
    for part in TREE_PARTS
}  # suffixes first


def parse_file_stem(part: str, stem: str) -> tuple[ResourceKind, str] | None:
    """Return what a rendered file of a folder is of, and its declared name; None where no thing's file is named so."""
    for resource_kind in _KINDS_BY_PART.get(part, ()):
        name = stem.removesuffix(resource_kind.suffix)
        if stem.endswith(resource_kind.suffix) and "--" not in name:
            return resource_kind, name
    return None
