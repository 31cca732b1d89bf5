"""Under which addresses a tenant's things are reached, and by whom: what a change opens, closes or moves.

This follows from a thing's own file, the App version that it takes and its cluster together, so that it is told whichever
of them changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from allotment.changes.declared import PUBLIC, DeclaredChange
from allotment.changes.reasons import End
from allotment.declared.inventory import Offers
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.things import INSTANCE, STORAGE
from allotment.manifests import names
from allotment.manifests.tenant.exposure import FILES_ROLES, INSTANCE_ROLES
from allotment.readiness.instances import app_version

_INSIDE = "Namespace"
_WIDTH = {_INSIDE: 0, "Members": 1, PUBLIC: 2}  # more people each
_GONE = "nothing answers at the old one"
NO_ADDRESS = "no address: nobody outside the namespace can open it; write `exposure: Members` at a port to open it"


class Address(NamedTuple):
    """An address from outside of the cluster: the file of the thing that answers there, its cluster and that one's domain,
    the host and path, and who may open it."""

    file: str
    cluster: str
    domain: str
    host: str
    path: str
    port: int
    exposure: str
    roles: tuple[str, ...]

    @property
    def url(self) -> str:
        """The address as people open it."""
        return f"https://{self.host}{self.path}"

    @property
    def label(self) -> str:
        """The host without the cluster's domain."""
        return self.host.removesuffix(self.domain)


class Reach(NamedTuple):
    """What a change does to a tenant's addresses: those that are told one by one, how many of them somebody uses before, and
    how many move with the domain of each cluster alone."""

    told: list[DeclaredChange]
    urls: int
    with_domain: Mapping[str, int]


_Key = tuple[str, str, str]  # a thing's kind and name, and its port
_Both = tuple[Address | None, Address | None]


def reach(before: End, after: End) -> Reach:
    """Return what becomes of the addresses of a tenant. Those of what is removed go with it, and aren't told."""
    changes: list[DeclaredChange] = []
    with_domain: Counter[str] = Counter()
    urls = 0
    opened, opened_now = _addresses(before), _addresses(after)
    for key, (old, new) in _pairs(opened, opened_now):
        address_changes = (
            _closed(old, _file_of(after, key))
            if new is None
            else [*_moved(old, new), *_shown(old, new), *_led(old, new)]
        )
        if not address_changes and old is not None and new is not None and old.host != new.host:
            with_domain[new.cluster] += 1
        changes += address_changes
        urls += bool(address_changes) and old is not None
    changes += _without_address(before, after, opened.keys() - opened_now.keys(), opened_now)
    return Reach(changes, urls, with_domain)


def _without_address(
    before: End, after: End, closed: Collection[_Key], opened: Collection[_Key]
) -> Iterator[DeclaredChange]:
    """Yield a line for each instance without an address that is new, or whose last address closes."""
    had, has = ({name for kind, name, _ in keys if kind == INSTANCE.word} for keys in (closed, opened))
    for name in after.folder.of(GPUInstance):
        is_closed = name not in has and (name in had or before.folder.lacks(GPUInstance, name))
        if is_closed and (file := _file_of(after, (INSTANCE.word, name, ""))):
            yield DeclaredChange("addresses", file, "address", None, None, NO_ADDRESS)


def _addresses(end: End) -> dict[_Key, Address]:
    """Return the addresses of a tenant's things, as far as its clusters and versions are known."""
    addresses: dict[_Key, Address] = {}
    for instance in end.folder.of(GPUInstance).values():
        for port, address in _of_instance(end, instance.path, instance.model):
            addresses[INSTANCE.word, instance.model.name, port] = address
    for storage in end.folder.of(GPUStorage).values():
        shown, domain = storage.model.spec.accessor, _domain(end.offers, storage.model.spec.cluster)
        if shown is not None and shown.exposure != _INSIDE and domain is not None:
            host = names.files_host(storage.model.name, end.folder.name, domain)
            place = storage.path, storage.model.spec.cluster, domain, host, "/", names.FILES_PORT
            addresses[STORAGE.word, storage.model.name, ""] = Address(*place, shown.exposure, FILES_ROLES)
    return addresses


def _of_instance(end: End, file: str, instance: GPUInstance) -> Iterator[tuple[str, Address]]:
    version, domain = app_version(end.offers, instance), _domain(end.offers, instance.spec.cluster)
    container = version.container if version is not None else instance.spec.container
    for port in container.ports if container is not None and domain is not None else ():
        if port.exposure != _INSIDE and domain is not None:
            host = names.instance_host(instance.name, port.name, end.folder.name, domain)
            place = file, instance.spec.cluster, domain, host, port.base_path, port.container_port
            yield port.name, Address(*place, port.exposure, INSTANCE_ROLES)


def _domain(offers: Offers, cluster: str) -> str | None:
    place = offers.clusters.get(cluster)
    declared = place.one(Cluster) if place is not None else None
    return declared.model.spec.domain if declared is not None else None


def _pairs(before: dict[_Key, Address], after: dict[_Key, Address]) -> Iterator[tuple[_Key, _Both]]:
    """Yield each address at both ends. One whose port has another name, and the same number, is the same."""
    renamed: dict[_Key, _Key] = {}
    new = {(*key[:2], after[key].port): key for key in after.keys() - before.keys()}
    for key in sorted(before.keys() - after.keys()):
        if (other := new.pop((*key[:2], before[key].port), None)) is not None:
            renamed[key] = other
    for key in sorted(before.keys() | after.keys() - set(renamed.values())):
        yield key, (before.get(key), after.get(renamed.get(key, key)))


def _shown(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield that an address is open to others than before: to whom, where they are more."""
    was = old.exposure if old is not None else None
    if was == new.exposure:
        return
    if _WIDTH[was or _INSIDE] > _WIDTH[new.exposure]:
        yield DeclaredChange("addresses", new.file, new.url, was, new.exposure)
        return
    yield DeclaredChange("access", new.file, new.url, was, new.exposure, _who(new))


def _led(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield that an address leads to another port: what answers there, to those who may open it, is something else."""
    if old is not None and old.port != new.port:
        note = f"leads to port {new.port}, not {old.port}: {_who(new)}"
        yield DeclaredChange("access", new.file, f"{new.url} port", str(old.port), str(new.port), note)


def _who(address: Address) -> str:
    """Return in words who may open an address."""
    if address.exposure == PUBLIC:
        return "for everybody, without a login"
    tenant = address.file.split("/")[1]
    return f"for who is {', '.join(address.roles[:-1])} or {address.roles[-1]} of {tenant}, after a login"


def _moved(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield that an address is another, where that doesn't come from its cluster's domain alone."""
    if old is not None and (old.cluster, old.label, old.path) != (new.cluster, new.label, new.path):
        yield DeclaredChange("addresses", new.file, "URL", old.url, new.url, _GONE if old.host != new.host else "")


def _closed(old: Address | None, file: str) -> list[DeclaredChange]:
    """Return that nothing answers at an address any more, where what answered there is still declared, in `file`."""
    if old is None or not file:
        return []
    return [DeclaredChange("addresses", file, old.url, old.exposure, None, "nothing answers there any more")]


def _file_of(end: End, key: _Key) -> str:
    """Return the file that declares the thing of an address; empty where none does, or names what isn't on offer: then
    it stays as it is, and a problem says why."""
    kind, name, _ = key
    if kind == STORAGE.word:
        storage = end.folder.of(GPUStorage).get(name)
        return storage.path if storage is not None and _domain(end.offers, storage.model.spec.cluster) else ""
    instance = end.folder.of(GPUInstance).get(name)
    if instance is None or _domain(end.offers, instance.model.spec.cluster) is None:
        return ""
    is_offered = instance.model.spec.app is None or app_version(end.offers, instance.model) is not None
    return instance.path if is_offered else ""
