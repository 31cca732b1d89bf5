"""Defines the columns of the lists of tenants and members."""

from __future__ import annotations

from allotment.observed.quantity import parse_quantity
from allotment.observed.tenant_rows import MemberRowOutput, TenantRowOutput
from allotment.reports.list_columns import format_cost, format_labels
from allotment.reports.list_table import ListColumn


def tenant_columns(currency: str) -> list[ListColumn[TenantRowOutput]]:
    """Return the columns of a list of tenants."""
    return [
        ListColumn("tenant", lambda row: row.name),
        ListColumn("plan", lambda row: row.plan or "-"),
        ListColumn("lifecycle", lambda row: row.lifecycle or "-"),
        ListColumn("instances", lambda row: str(row.instances), lambda row: row.instances),
        ListColumn("running", lambda row: str(row.running), lambda row: row.running),
        ListColumn("units", lambda row: str(row.units), lambda row: row.units),
        ListColumn("storages", lambda row: str(row.storages), lambda row: row.storages),
        ListColumn(
            "size",
            lambda row: row.storage_size if row.storages else "-",
            lambda row: parse_quantity(row.storage_size),
            wide=True,
        ),
        ListColumn("members", lambda row: str(row.members), lambda row: row.members, wide=True),
        ListColumn("clusters", lambda row: ",".join(row.clusters) or "-", wide=True),
        ListColumn("labels", lambda row: format_labels(row.labels), wide=True),
        ListColumn(
            "cost", lambda row: format_cost(row.cost_per_hour), lambda row: row.cost_per_hour, title=f"{currency}/HOUR"
        ),
    ]


def member_columns() -> list[ListColumn[MemberRowOutput]]:
    """Return the columns of a list of members."""
    return [
        ListColumn("member", lambda row: row.name),
        ListColumn("tenant", lambda row: row.tenant),
        ListColumn("kind", lambda row: row.kind),
        ListColumn("role", lambda row: row.role),
        ListColumn("login", lambda row: row.login or "-"),
        ListColumn("ssh-keys", lambda row: str(row.ssh_keys), lambda row: row.ssh_keys, title="SSH KEYS"),
    ]
