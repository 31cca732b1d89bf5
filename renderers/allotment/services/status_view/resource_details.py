"""Reads one instance or storage of a tenant with its declared facts, its cost and its reported state."""

from __future__ import annotations

import datetime
from typing import Generic, NamedTuple, TypeVar

from allotment.capacity.offers import read_offers
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.platform import Platform
from allotment.declared.tenant_resources import STORAGE
from allotment.observed.resource_rows import (
    InstanceRowOutput,
    StorageRowOutput,
    build_instance_rows,
    build_storage_rows,
)
from allotment.observed.resource_status import ResourceStatus
from allotment.problems import AllotmentError, OperationRefused, escape_unprintable
from allotment.services.check.catalog_check import check_catalog
from allotment.services.status_view.publish_check import PublishCheck, explain_unpublished
from allotment.services.status_view.status_view import StatusView
from allotment.services.status_view.tenant_facts_reader import read_tenant_facts

R = TypeVar("R", InstanceRowOutput, StorageRowOutput)


class ResourceDetails(NamedTuple, Generic[R]):
    """A resource: a row and a status for each cluster that has it, and the currency of the costs."""

    currency: str
    rows: list[R]
    statuses: list[ResourceStatus]


def read_instance(
    view: StatusView, name: str, day: datetime.date, check: PublishCheck
) -> ResourceDetails[InstanceRowOutput]:
    """Return an instance of the view's tenant. Raises OperationRefused if the tenant has no such instance."""
    statuses = _find_statuses(view, name, "instance", check)
    catalog = check_catalog(view.declared_commit.source, day).catalog
    tenants = read_tenant_facts(view.declared_commit.source, _list_tenants(view))
    return ResourceDetails(
        _read_currency(catalog), build_instance_rows(statuses, tenants, read_offers(catalog)), statuses
    )


def read_storage(
    view: StatusView, name: str, day: datetime.date, check: PublishCheck
) -> ResourceDetails[StorageRowOutput]:
    """Return a storage of the view's tenant. Raises OperationRefused if the tenant has no such storage."""
    statuses = _find_statuses(view, name, "storage", check)
    catalog = check_catalog(view.declared_commit.source, day).catalog
    return ResourceDetails(_read_currency(catalog), _build_storage_rows(view, statuses, catalog), statuses)


def read_storage_rows(view: StatusView, statuses: list[ResourceStatus], day: datetime.date) -> list[StorageRowOutput]:
    """Return the rows of the storages among some resources of the view's tenant."""
    if not any(status.resource.kind == STORAGE.word for status in statuses):
        return []  # without reading the catalog
    return _build_storage_rows(view, statuses, check_catalog(view.declared_commit.source, day).catalog)


def _build_storage_rows(view: StatusView, statuses: list[ResourceStatus], catalog: Catalog) -> list[StorageRowOutput]:
    tenants = read_tenant_facts(view.declared_commit.source, _list_tenants(view))
    return build_storage_rows(statuses, tenants, read_offers(catalog))


def _list_tenants(view: StatusView) -> list[str]:
    """Return the tenant of the view if it is declared."""
    return [name for name in view.tenants if name == view.tenant]


def _find_statuses(view: StatusView, name: str, kind: str, check: PublishCheck) -> list[ResourceStatus]:
    rows = [row for row in view.rows if row.resource.name == name]
    matches = [row for row in rows if row.resource.kind == kind]
    if not matches and rows:
        other_kind, label = rows[0].resource.kind, escape_unprintable(rows[0].label)
        raise OperationRefused(f"{label} is no {kind}, but has the kind {other_kind}: run `allot status {label}`")
    return list(explain_unpublished(view, matches, check))


def _read_currency(catalog: Catalog) -> str:
    platform = catalog.platform.get_singleton(Platform)
    if platform is None:
        raise AllotmentError("platform/platform.yaml can't be read: `allot validate` shows the reason")
    return platform.model.spec.billing.currency
