"""Find the addresses of a tenant's resources that a change opens, closes or moves, or opens to other people.

An address depends on the file of the resource, its App version and its cluster. This module reports each change of an
address, whichever of the three causes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.tenant_resources import INSTANCE, STORAGE
from allotment.diff.declared_change import OPEN_TO_EVERYBODY, PUBLIC, DeclaredChange
from allotment.diff.tenant_side import TenantSide
from allotment.manifests import names
from allotment.manifests.tenant.exposure import FILES_READERS, FILES_WRITERS, INSTANCE_ROLES
from allotment.preparation.start_gates import app_version

_NAMESPACE_ONLY = "Namespace"
_EXPOSURE_WIDTH = {_NAMESPACE_ONLY: 0, "Members": 1, PUBLIC: 2}  # each exposure admits more people than the previous
_OLD_URL_GONE = "the old URL stops working"
NO_ADDRESS = (
    "no URL: it is reachable only inside the namespace; to open a port to people, declare it with `exposure: Members`"
)


class Address(NamedTuple):
    """An address that people outside the cluster can open.

    `file` declares the resource that answers at the address. `cluster` is the name of its cluster, and `domain` is the
    domain of this cluster. `exposure` and `roles` define the people with access to the address.
    `writer_roles` may change files there; it is empty for an address of an instance.
    """

    file: str
    cluster: str
    domain: str
    host: str
    path: str
    port: int
    exposure: str
    roles: tuple[str, ...]
    writer_roles: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Return the URL that people open."""
        return f"https://{self.host}{self.path}"

    @property
    def host_label(self) -> str:
        """Return the host without the cluster's domain."""
        return self.host.removesuffix(self.domain)


class ExposureDiff(NamedTuple):
    """The effects of a change on a tenant's addresses.

    `changes` are reported individually. `url_count` is the number of changed addresses that existed before the change.
    `moved_with_domain` has, by cluster, the number of addresses that change only because the domain of the cluster
    changes; `changes` does not contain them.
    """

    changes: list[DeclaredChange]
    url_count: int
    moved_with_domain: Mapping[str, int]


_AddressKey = tuple[str, str, str]  # a resource's kind and name, and its port's name
_AddressPair = tuple[Address | None, Address | None]


def compare_exposure(before: TenantSide, after: TenantSide) -> ExposureDiff:
    """Return the changes of a tenant's addresses. Addresses of removed resources are not reported."""
    changes: list[DeclaredChange] = []
    with_domain: Counter[str] = Counter()
    urls = 0
    opened, opened_now = _find_addresses(before), _find_addresses(after)
    for key, (old, new) in _pair_addresses(opened, opened_now):
        address_changes = (
            _address_closed(old, _declaring_file(after, key))
            if new is None
            else [
                *_url_changed(old, new),
                *_exposure_changed(old, new),
                *_port_changed(old, new),
                *_writers_changed(old, new),
            ]
        )
        if not address_changes and old is not None and new is not None and old.host != new.host:
            with_domain[new.cluster] += 1
        changes += address_changes
        urls += bool(address_changes) and old is not None
    changes += _lost_all_addresses(before, after, opened.keys() - opened_now.keys(), opened_now)
    return ExposureDiff(changes, urls, with_domain)


def _lost_all_addresses(
    before: TenantSide, after: TenantSide, closed: Collection[_AddressKey], opened: Collection[_AddressKey]
) -> Iterator[DeclaredChange]:
    """Yield a change for each instance that loses its last address, and for each new instance without an address."""
    had, has = ({name for kind, name, _ in keys if kind == INSTANCE.word} for keys in (closed, opened))
    for name in after.folder.of_kind(GPUInstance):
        is_closed = name not in has and (name in had or before.folder.is_absent(GPUInstance, name))
        if is_closed and (file := _declaring_file(after, (INSTANCE.word, name, ""))):
            yield DeclaredChange("addresses", file, "address", None, None, NO_ADDRESS)


def _find_addresses(end: TenantSide) -> dict[_AddressKey, Address]:
    """Return the addresses of a tenant's resources. Resources with an unknown cluster or app version are omitted."""
    addresses: dict[_AddressKey, Address] = {}
    for instance in end.folder.of_kind(GPUInstance).values():
        for port, address in _instance_addresses(end, instance.path, instance.model):
            addresses[INSTANCE.word, instance.model.name, port] = address
    for storage in end.folder.of_kind(GPUStorage).values():
        accessor, domain = storage.model.spec.accessor, _cluster_domain(end.catalog, storage.model.spec.cluster)
        if accessor is not None and accessor.exposure != _NAMESPACE_ONLY and domain is not None:
            host = names.files_host(storage.model.name, end.folder.name, domain)
            place = storage.path, storage.model.spec.cluster, domain, host, "/", names.FILES_PORT
            writers = FILES_WRITERS if accessor.allows_writing else ()
            address = Address(*place, accessor.exposure, (*FILES_WRITERS, *FILES_READERS), writers)
            addresses[STORAGE.word, storage.model.name, ""] = address
    return addresses


def _instance_addresses(end: TenantSide, file: str, instance: GPUInstance) -> Iterator[tuple[str, Address]]:
    version, domain = app_version(end.catalog, instance), _cluster_domain(end.catalog, instance.spec.cluster)
    container = version.container if version is not None else instance.spec.container
    for port in container.ports if container is not None and domain is not None else ():
        if port.exposure != _NAMESPACE_ONLY and domain is not None:
            host = names.instance_host(instance.name, port.name, end.folder.name, domain)
            place = file, instance.spec.cluster, domain, host, port.base_path, port.container_port
            yield port.name, Address(*place, port.exposure, INSTANCE_ROLES)


def _cluster_domain(catalog: Catalog, cluster: str) -> str | None:
    place = catalog.clusters.get(cluster)
    declared = place.get_singleton(Cluster) if place is not None else None
    return declared.model.spec.domain if declared is not None else None


def _pair_addresses(
    before: dict[_AddressKey, Address], after: dict[_AddressKey, Address]
) -> Iterator[tuple[_AddressKey, _AddressPair]]:
    """Yield each address before and after a change.

    If a port has a new name but its old number, the new address of the port is paired with the old address.
    """
    renamed: dict[_AddressKey, _AddressKey] = {}
    new = {(*key[:2], after[key].port): key for key in after.keys() - before.keys()}
    for key in sorted(before.keys() - after.keys()):
        if (other := new.pop((*key[:2], before[key].port), None)) is not None:
            renamed[key] = other
    for key in sorted(before.keys() | after.keys() - set(renamed.values())):
        yield key, (before.get(key), after.get(renamed.get(key, key)))


def _exposure_changed(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield the change of an address's exposure. If more people have access now, a note describes the people with
    access."""
    before = old.exposure if old is not None else None
    if before == new.exposure:
        return
    if _EXPOSURE_WIDTH[before or _NAMESPACE_ONLY] > _EXPOSURE_WIDTH[new.exposure]:
        yield DeclaredChange("addresses", new.file, new.url, before, new.exposure, "")
        return
    yield DeclaredChange("access", new.file, new.url, before, new.exposure, _audience_text(new))


def _port_changed(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield the change of an address's port, because another program may answer at the new port."""
    if old is not None and old.port != new.port:
        note = f"points to port {new.port} instead of {old.port}: {_audience_text(new)}"
        yield DeclaredChange("access", new.file, f"{new.url} port", str(old.port), str(new.port), note)


def _writers_changed(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield the change of the people that may change files at an address."""
    before = old.writer_roles if old is not None else ()
    if before != new.writer_roles:
        note = f"{_list_people(new, new.writer_roles)} may change its files" if new.writer_roles else ""
        old_mode, new_mode = ("ReadWrite" if roles else "ReadOnly" for roles in (before, new.writer_roles))
        yield DeclaredChange("access", new.file, f"{new.url} mode", old_mode, new_mode, note)


def _audience_text(address: Address) -> str:
    """Return text about the people with access to an address."""
    if address.exposure == PUBLIC:
        return OPEN_TO_EVERYBODY
    return f"open to {_list_people(address, address.roles)} after login"


def _list_people(address: Address, roles: tuple[str, ...]) -> str:
    tenant = address.file.split("/")[1]
    return f"{'s, '.join(roles[:-1])}s and {roles[-1]}s of {tenant}"


def _url_changed(old: Address | None, new: Address) -> Iterator[DeclaredChange]:
    """Yield the change of a URL, unless only the domain of the cluster changes."""
    if old is not None and (old.cluster, old.host_label, old.path) != (new.cluster, new.host_label, new.path):
        yield DeclaredChange(
            "addresses", new.file, "URL", old.url, new.url, _OLD_URL_GONE if old.host != new.host else ""
        )


def _address_closed(old: Address | None, file: str) -> list[DeclaredChange]:
    """Return the change of an address that closes; nothing if `file`, the file of its resource, is empty."""
    if old is None or not file:
        return []
    return [DeclaredChange("addresses", file, old.url, old.exposure, None, "this URL stops working")]


def _declaring_file(end: TenantSide, key: _AddressKey) -> str:
    """Return the file that declares the resource of an address; empty if no file declares the resource.

    The result is also empty if the cluster or the app version that the resource names doesn't exist. The resource then
    stays at its last published manifests, and a problem reports the reason.
    """
    kind, name, _ = key
    if kind == STORAGE.word:
        storage = end.folder.of_kind(GPUStorage).get(name)
        return storage.path if storage is not None and _cluster_domain(end.catalog, storage.model.spec.cluster) else ""
    instance = end.folder.of_kind(GPUInstance).get(name)
    if instance is None or _cluster_domain(end.catalog, instance.model.spec.cluster) is None:
        return ""
    is_offered = instance.model.spec.app is None or app_version(end.catalog, instance.model) is not None
    return instance.path if is_offered else ""
