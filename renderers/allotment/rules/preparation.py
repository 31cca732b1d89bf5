"""Preparation: what fills a storage doesn't change under the instances that run on it.

Another attempt of the same may be declared at any time, since one that failed lets nobody run: publish knows who does.
"""

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
            and one.model.spec.mounts(new.model.name)
            and one.model.name in before
            and before[one.model.name].model.spec.state == "Running"
        ]
        if not users:
            continue
        names = [one.model.name for one in users]
        if was is not None and was.source == is_now.source:
            words = f"attempt {is_now.attempt} begins once nobody runs on the storage; declared to run: {', '.join(sorted(names))}"
            yield new.finding("spec.prepare.attempt", words, RULE, warning=True)
        else:
            yield changed_under(new.path, names)._replace(related=tuple(one.path for one in users))


def changed_under(path: str, users: Iterable[str]) -> Finding:
    """Return what is wrong with a preparation that changed while instances run on its storage."""
    names = ", ".join(sorted(users))
    message = f"the preparation changed while {names} runs on the storage: stop it first, or declare another storage"
    return Finding(path, ("spec", "prepare"), message, RULE)
