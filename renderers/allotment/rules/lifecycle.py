"""Lifecycle: a declaration can't start to use an offer that is Retired or Revoked.

A declaration that already used the offer at the base may keep it, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant
from allotment.problems import FieldPath, Finding
from allotment.rules import references
from allotment.rules.folder_change import FolderChange, value_at

_CHOICES: dict[type[Declaration], tuple[str, ...]] = {
    Tenant: ("plan",),
    GPUStorage: ("cluster", "storage_spec"),
    GPUInstance: ("cluster", "gpu_spec", "app"),
}
_ALIASES: dict[str, FieldPath] = {
    "plan": ("spec", "plan"),
    "cluster": ("spec", "cluster"),
    "storage_spec": ("spec", "storageSpec"),
    "gpu_spec": ("spec", "gpuSpec"),
    "app": ("spec", "app", "version"),
}


def check(change: FolderChange) -> Iterator[Finding]:
    """Yield the warnings of the rule `reference` about Retired and Revoked offers as errors, unless the same file
    already chose the same offer at the base."""
    if change.after.scope.kind != "tenant":
        return
    used = {
        (old.path, _ALIASES[field])
        for kind, fields in _CHOICES.items()
        for old, new in change.common_declarations(kind)
        for field in fields
        if value_at(old.model.spec, field) == value_at(new.model.spec, field)
    }
    for finding in references.check_tenant(change.catalog, change.after):
        closed = " is Retired" in finding.message or " is Revoked" in finding.message
        if finding.warning and closed and (finding.path, finding.field) not in used:
            yield finding._replace(warning=False, message=finding.message.replace("should", "may"))
