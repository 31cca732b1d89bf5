"""Preparation: the source that fills a storage doesn't change while instances run on the storage.

Another attempt with the same source may be declared at any time. The attempt starts once no instance runs on the
storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.preparation.job_names import input_hash
from allotment.problems import Finding
from allotment.rules.folder_change import FolderChange

RULE = "preparation"


def check(change: FolderChange) -> Iterator[Finding]:
    """Check each storage that would be prepared again.

    An instance on the storage leads to a finding only if it is Running both at the base and now.
    """
    old_instances = change.before.of_kind(GPUInstance)
    for old, new in change.common_declarations(GPUStorage):
        before, after = old.model.spec.prepare, new.model.spec.prepare
        if after is None:
            continue
        has_same_source = before is not None and input_hash(before) == input_hash(after)
        if before is not None and has_same_source and before.attempt == after.attempt:
            continue
        users = [
            instance
            for instance in change.after.of_kind(GPUInstance).values()
            if instance.model.spec.state == "Running"
            and instance.model.spec.mounts(new.model.name)
            and instance.model.name in old_instances
            and old_instances[instance.model.name].model.spec.state == "Running"
        ]
        if not users:
            continue
        names = [user.model.name for user in users]
        if has_same_source:
            message = f"attempt {after.attempt} starts once no instance runs on the storage; declared to run: {', '.join(sorted(names))}"
            yield new.make_finding("spec.prepare.attempt", message, RULE, warning=True)
        else:
            yield preparation_change_finding(new.path, names)._replace(related=tuple(user.path for user in users))


def preparation_change_finding(path: str, users: Iterable[str]) -> Finding:
    """Return the finding about a preparation that changed while instances run on its storage."""
    names = ", ".join(sorted(users))
    message = f"the preparation changed while {names} runs on the storage: stop it first, or declare another storage"
    return Finding(path, ("spec", "prepare"), message, RULE)
