"""Preparation: what fills a storage doesn't change under the instances that run on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.problems import Finding
from allotment.rules.change import Change

RULE = "preparation"


def check(change: Change) -> Iterator[Finding]:
    """Check storages that would be prepared anew, against the instances that ran on them and still do."""
    before = change.before.of(GPUInstance)
    for old, new in change.kept(GPUStorage):
        was, is_now = old.model.spec.prepare, new.model.spec.prepare
        if is_now is None or (was is not None and (was.source, was.attempt) == (is_now.source, is_now.attempt)):
            continue
        users = [
            one
            for one in change.after.of(GPUInstance).values()
            if one.model.spec.state == "Running"
            and any(mount.name == new.model.name for mount in one.model.spec.storages)
            and one.model.name in before
            and before[one.model.name].model.spec.state == "Running"
        ]
        if users:
            found = changed_under(new.path, [one.model.name for one in users])
            yield found._replace(related=tuple(one.path for one in users))


def changed_under(path: str, users: Iterable[str]) -> Finding:
    """Return what is wrong with a preparation that changed while instances run on its storage."""
    names = ", ".join(sorted(users))
    message = f"the preparation changed while {names} runs on the storage: stop it first, or declare another storage"
    return Finding(path, ("spec", "prepare"), message, RULE)
