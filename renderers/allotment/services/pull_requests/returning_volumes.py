"""Checks each new storage that has the name of a volume in the cluster: the volume returns, and never shrinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.repository import Repository
from allotment.branches.platform_settings import has_status_at_origin, read_reporter_keys
from allotment.branches.status_reader import read_cached_storage_sizes
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration
from allotment.declared.tenant_resources import STORAGE
from allotment.declared.values import format_size
from allotment.diff.change_plan import ResourceChange
from allotment.problems import Finding
from allotment.rules.immutability import shrink_finding

ReadSizes = Callable[[str, str], Mapping[str, int]]  # takes a cluster and a tenant; returns the bytes of each storage


def create_size_reader(repository: Repository, base: CommitSource) -> ReadSizes:
    """Return a function that reads the sizes of a tenant's storages from the last fetched status of a cluster."""
    keys, is_at_origin = read_reporter_keys(base), has_status_at_origin(base)
    return cache(
        lambda cluster, tenant: read_cached_storage_sizes(
            repository, cluster, keys.get(cluster), tenant, is_at_origin=is_at_origin
        )
    )


def check_returning_volumes(
    changes: Iterable[ResourceChange], after: TreeSource, read_sizes: ReadSizes
) -> Iterator[Finding]:
    """Yield a finding for each new storage that a cluster has a volume of: an error if it is smaller, else a warning."""
    for change in changes:
        if (change.kind, change.action) != (STORAGE.word, "added"):
            continue
        size = read_sizes(change.cluster, change.tenant).get(change.name)
        path = STORAGE.kind.path.format(tenant=change.tenant, name=change.name)
        declaration_path = parse_path(path)
        if size is None or not isinstance(declaration_path, DeclarationPath):
            continue
        declared = read_declaration(path, after.read(path), declaration_path)[0]
        if declared is None or not isinstance(declared.model, GPUStorage):
            continue
        if declared.model.spec.size < size:
            yield shrink_finding(path, size, declared.model.spec.size)
        else:
            message = f"{change.cluster} still has the volume of the deleted storage {change.name}, with {format_size(size)}: it stays, with its data"
            yield Finding(path, ("metadata", "name"), message, "deletion", warning=True)
