"""What was published of a storage holds its next version to it: no volume shrinks or changes its kind, no Job runs twice."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.manifests.published import Volume, volume_of, with_jobs_of
from allotment.problems import Finding
from allotment.rules import immutability


def succeeded(path: str, before: bytes, after: bytes) -> tuple[bytes, list[Finding]]:
    """Return a storage's next file, with the Jobs it had, and what is wrong with it; `path` is its declaration's."""
    old, new = volume_of(before), volume_of(after)
    findings = list(_broken(path, old, new)) if old is not None and new is not None else []
    return with_jobs_of(after, before), findings


def _broken(path: str, old: Volume, new: Volume) -> Iterator[Finding]:
    if new.size < old.size:
        yield immutability.shrunk(path, old.size, new.size)
    for what, was, is_now in (
        ("storage class", old.storage_class, new.storage_class),
        ("access mode", ", ".join(old.access_modes), ", ".join(new.access_modes)),
    ):
        if was != is_now:
            message = f"its volume has {what} '{was}' and can't change to '{is_now}': declare another storage"
            yield Finding(path, ("spec", "storageSpec"), message, immutability.RULE)
