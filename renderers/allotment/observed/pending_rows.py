"""Builds the rows of lists for instances and storages of open pull requests."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TypeVar

from allotment.declared.tenant_facts import InstanceFacts, StorageFacts, TenantFacts
from allotment.observed.resource_rows import (
    InstanceRow,
    Offers,
    PullRequestRef,
    StorageRow,
    declared_instance_cost,
    declared_storage_cost,
)

R = TypeVar("R", InstanceRow, StorageRow)


def pending_instance_row(
    facts: InstanceFacts, tenant: TenantFacts | None, offers: Offers, path: str, pull_request: PullRequestRef
) -> InstanceRow:
    """Return the row of an instance as a pull request declares it, with its cost after the merge.

    `tenant` is None if the tenant is new; its instances count as running.
    """
    is_running = facts.state == "Running" and (tenant is None or tenant.is_active)
    offer = offers.gpu_specs.get(facts.gpu_spec)
    active_tenant = tenant or TenantFacts(
        tenant=facts.tenant,
        plan="",
        lifecycle="Active",
        labels={},
        instances=(),
        storages=(),
        snapshots=(),
        members=(),
    )
    return InstanceRow(
        tenant=facts.tenant,
        name=facts.name,
        cluster=facts.cluster,
        state=facts.state,
        reported_state="",
        reason="",
        message="",
        is_as_declared=False,
        replicas=facts.replicas,
        units=facts.replicas if is_running else 0,
        ready=None,
        gpu_spec=facts.gpu_spec,
        gpu_model=offer.model if offer is not None else "",
        gpu_memory=offer.memory if offer is not None else 0,
        app=facts.app,
        url="",
        since="",
        cost_per_hour=declared_instance_cost(facts, active_tenant, offers),
        storages=facts.storages,
        labels=facts.labels,
        path=path,
        pull_request=pull_request,
    )


def pending_storage_row(facts: StorageFacts, offers: Offers, path: str, pull_request: PullRequestRef) -> StorageRow:
    """Return the row of a storage as a pull request declares it, with its cost after the merge."""
    return StorageRow(
        tenant=facts.tenant,
        name=facts.name,
        cluster=facts.cluster,
        reported_state="",
        reason="",
        message="",
        is_as_declared=False,
        storage_spec=facts.storage_spec,
        size=facts.size,
        capacity="",
        source=facts.source,
        preparation="",
        attempt=0,
        mounted_by=facts.mounted_by,
        url="",
        since="",
        cost_per_hour=declared_storage_cost(facts, offers),
        labels=facts.labels,
        path=path,
        pull_request=pull_request,
    )


def removal_rows(rows: Iterable[R], tenant: str, name: str, pull_request: PullRequestRef) -> list[R]:
    """Return, for each row of a resource, a row that says that a pull request removes the resource."""
    return [
        row._replace(pull_request=pull_request, cost_per_hour=Decimal(0))
        for row in rows
        if (row.tenant, row.name) == (tenant, name)
    ]
