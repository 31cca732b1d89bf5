"""Builds the rows of the lists of tenants and of members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Literal

from allotment.capacity.offers import Offers, declared_instance_cost, declared_storage_cost
from allotment.declared.tenant_facts import TenantFacts
from allotment.declared.values import GIBI, format_size
from allotment.output_part import Part


class TenantRowOutput(Part, frozen=True, kw_only=True):
    """A tenant.

    `plan` and `lifecycle` are null if the declaration of the tenant can't be read. `instances` and `storages` are the numbers
    of declared instances and storages, and `units` the units that the `running` instances hold. `members` counts users and
    groups. `costPerHour` is in the currency of the list, and includes instances, storages and snapshots; it is null if a
    price is unknown.
    """

    name: str
    plan: str | None
    lifecycle: str | None
    clusters: tuple[str, ...]
    instances: int
    running: int
    units: int
    storages: int
    storage_size: str
    members: int
    cost_per_hour: Decimal | None
    labels: dict[str, str]


class MemberRowOutput(Part, frozen=True, kw_only=True):
    """A user of a tenant, or a group of the identity provider. `sshKeys` is the number of SSH keys."""

    tenant: str
    name: str
    kind: Literal["User", "Group"]
    role: Literal["Admin", "Member", "Viewer"]
    login: str | None
    ssh_keys: int

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"


def build_tenant_rows(tenants: Mapping[str, TenantFacts], offers: Offers) -> list[TenantRowOutput]:
    """Return a row for each tenant, in the given order."""
    return [_tenant_row(facts, offers) for facts in tenants.values()]


def _tenant_row(facts: TenantFacts, offers: Offers) -> TenantRowOutput:
    running = [instance for instance in facts.instances if instance.state == "Running" and facts.is_active]
    return TenantRowOutput(
        name=facts.tenant,
        plan=facts.plan or None,
        lifecycle=facts.lifecycle or None,
        clusters=tuple(sorted(_find_clusters(facts))),
        instances=len(facts.instances),
        running=len(running),
        units=sum(instance.replicas for instance in running),
        storages=len(facts.storages),
        storage_size=format_size(sum(storage.size for storage in facts.storages)),
        members=len(facts.members),
        cost_per_hour=_sum_costs(
            [
                *(declared_instance_cost(instance, facts, offers) for instance in facts.instances),
                *(declared_storage_cost(storage, offers) for storage in facts.storages),
                *_snapshot_costs(facts, offers),
            ]
        ),
        labels=facts.labels,
    )


def _find_clusters(facts: TenantFacts) -> set[str]:
    """Return the clusters of a tenant's instances and storages."""
    return {instance.cluster for instance in facts.instances} | {storage.cluster for storage in facts.storages}


def _snapshot_costs(facts: TenantFacts, offers: Offers) -> Iterable[Decimal | None]:
    """Yield the cost of each snapshot of a declared storage for an hour; zero if its StorageSpec has no such price."""
    storages = {storage.name: storage for storage in facts.storages}
    for snapshot in facts.snapshots:
        if (storage := storages.get(snapshot.storage)) is not None:
            price = offers.snapshot_prices.get(storage.storage_spec)
            yield Decimal(0) if price is None else price * storage.size / GIBI


def _sum_costs(costs: Iterable[Decimal | None]) -> Decimal | None:
    amounts = list(costs)
    return None if None in amounts else sum((amount for amount in amounts if amount is not None), Decimal(0))


def build_member_rows(tenants: Iterable[TenantFacts]) -> list[MemberRowOutput]:
    """Return a row for each member, by tenant, users first."""
    return [
        MemberRowOutput(
            tenant=facts.tenant,
            name=member.name,
            kind=member.kind,
            role=member.role,
            login=member.login or None,
            ssh_keys=member.ssh_keys,
        )
        for facts in tenants
        for member in facts.members
    ]
