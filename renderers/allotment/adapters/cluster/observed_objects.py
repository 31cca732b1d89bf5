"""What a cluster's watches have seen, by tenant, and which tenants changed since somebody asked."""

from __future__ import annotations

import threading
from collections import defaultdict

from allotment.observed.decoding import WatchedKind
from allotment.observed.objects import Application, Deployment, ObservedObject, Pod

STOCKS_OWNER = "*"  # where placeholders lie; no tenant is called so


class ObservedObjects:
    """The objects of one cluster. Its methods may be called from several threads."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._owners: dict[str, dict[str, str]] = defaultdict(dict)  # by kind: uid → owner
        self._objects: dict[str, dict[str, ObservedObject]] = defaultdict(dict)  # by owner: uid → object
        self._changed: set[str] = set()
        self.changed = threading.Event()
        self.events = 0

    def replace(self, kind: WatchedKind, objects: list[ObservedObject]) -> None:
        """Take all objects of a kind in place of what was known of it."""
        with self._lock:
            owners = self._owners[kind.name]
            for uid in owners.keys() - {resource.uid for resource in objects}:
                self._remove_object(owners, uid)
            for resource in objects:
                self._add_object(owners, resource)

    def put(self, kind: WatchedKind, resource: ObservedObject) -> None:
        """Take an object as it is now."""
        with self._lock:
            self.events += 1
            self._add_object(self._owners[kind.name], resource)

    def remove(self, kind: WatchedKind, resource: ObservedObject) -> None:
        """Forget an object; one of the same name that was made anew is another one."""
        with self._lock:
            self.events += 1
            self._remove_object(self._owners[kind.name], resource.uid)

    def owners(self) -> set[str]:
        """Return everybody of whom there is something."""
        with self._lock:
            return set(self._objects)

    def objects(self, owner: str) -> list[ObservedObject]:
        """Return all that is known of a tenant, or of STOCKS."""
        with self._lock:
            return list(self._objects.get(owner, {}).values())

    def take_changed(self) -> set[str]:
        """Return who changed since the last call."""
        with self._lock:
            changed_owners, self._changed = self._changed, set()
            self.changed.clear()
            return changed_owners

    def __len__(self) -> int:
        with self._lock:
            return sum(len(owners) for owners in self._owners.values())

    def _owner_of(self, resource: ObservedObject) -> str:
        """Return whose an object is; empty where it is nobody's that is reported on, or another cluster's."""
        if isinstance(resource, (Pod, Deployment)):
            return STOCKS_OWNER if resource.stock else resource.tenant
        if isinstance(resource, Application) and resource.cluster != self._cluster:
            return ""
        return resource.tenant

    def _add_object(self, owners: dict[str, str], resource: ObservedObject) -> None:
        owner, uid = self._owner_of(resource), resource.uid
        was = owners.get(uid)
        if was is not None and was != owner:
            self._remove_object(owners, uid)
        if not owner or not uid:
            return
        objects = self._objects[owner]
        if objects.get(uid) != resource:
            objects[uid] = resource
            owners[uid] = owner
            self._mark_changed(owner)

    def _remove_object(self, owners: dict[str, str], uid: str) -> None:
        owner = owners.pop(uid, None)
        if owner is None:
            return
        del self._objects[owner][uid]
        if not self._objects[owner]:
            del self._objects[owner]
        self._mark_changed(owner)

    def _mark_changed(self, owner: str) -> None:
        self._changed.add(owner)
        if not self.changed.is_set():
            self.changed.set()
