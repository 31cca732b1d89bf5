"""Collects the objects of each tenant from the watches of a cluster, and records which tenants have changed."""

from __future__ import annotations

import threading
from collections import defaultdict

from allotment.observed.decoding import WatchedKind
from allotment.observed.objects import PLATFORM_OWNER, Application, Deployment, Node, ObservedObject, Pod

STOCKS_OWNER = "*"  # the owner of the placeholders and nodes; no tenant can have this name


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
        """Replace all known objects of a kind."""
        with self._lock:
            owners = self._owners[kind.name]
            for uid in owners.keys() - {resource.uid for resource in objects}:
                self._remove_object(owners, uid)
            for resource in objects:
                self._add_object(owners, resource)

    def put(self, kind: WatchedKind, resource: ObservedObject) -> None:
        """Add an object, or update it."""
        with self._lock:
            self.events += 1
            self._add_object(self._owners[kind.name], resource)

    def remove(self, kind: WatchedKind, resource: ObservedObject) -> None:
        """Remove an object by its uid, because a recreated object has the same name but another uid."""
        with self._lock:
            self.events += 1
            self._remove_object(self._owners[kind.name], resource.uid)

    def owners(self) -> set[str]:
        """Return every owner with at least one object."""
        with self._lock:
            return set(self._objects)

    def objects(self, owner: str) -> list[ObservedObject]:
        """Return all known objects of a tenant, or of STOCKS_OWNER."""
        with self._lock:
            return list(self._objects.get(owner, {}).values())

    def take_changed(self) -> set[str]:
        """Return the owners with objects that changed since the last call of this method."""
        with self._lock:
            changed_owners, self._changed = self._changed, set()
            self.changed.clear()
            return changed_owners

    def __len__(self) -> int:
        with self._lock:
            return sum(len(owners) for owners in self._owners.values())

    def _owner_of(self, resource: ObservedObject) -> str:
        """Return the owner of an object; empty if the object has no owner or belongs to another cluster."""
        if isinstance(resource, Node):
            return STOCKS_OWNER
        if isinstance(resource, (Pod, Deployment)):
            return STOCKS_OWNER if resource.stock else resource.tenant
        if isinstance(resource, Application):
            return (resource.tenant or PLATFORM_OWNER) if resource.cluster == self._cluster else ""
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
