"""Checks that a tenant, a resource or a cluster is known to a view, and suggests similar names."""

from __future__ import annotations

from allotment.declared.reading import suggest_name
from allotment.problems import OperationRefused, escape_unprintable, pluralize, quote_value
from allotment.services.status_view.status_view import StatusView


def check_names(view: StatusView, tenant: str, name: str, cluster: str | None = None) -> None:
    """Raise OperationRefused if a given tenant, resource or cluster is unknown. The error suggests similar names.

    A tenant or resource is known if it is declared or published, or if a cluster reports it. A cluster is known if it is declared.
    An empty tenant or name is not checked, and neither is the cluster None.
    """
    if cluster is not None and cluster not in view.reporter_keys:
        raise OperationRefused(f"no cluster is named {quote_value(cluster)}{suggest_name(cluster, view.reporter_keys)}")
    tenants = {*view.tenants, *(status.tenant for status in view.reported_status.tenants)}
    if tenant and tenant not in tenants and tenant not in view.published_tenants:
        raise OperationRefused(
            f"no tenant is named {quote_value(tenant)}: no tenant with this name is declared, published or reported"
            f"{suggest_name(tenant, tenants)}{_note_folder(view)}"
        )
    if name and not any(row.resource.name == name for row in view.rows):
        known_names = {row.resource.name for row in view.rows}
        raise OperationRefused(
            f"{escape_unprintable(tenant)} has no resource named {quote_value(name)}: no such name is declared, published or reported"
            f"{suggest_name(name, known_names)}{_note_folder(view)}"
        )


def _note_folder(view: StatusView) -> str:
    """Return a note about the files in the folder that are not merged: a name that is not found may be one of theirs."""
    differing = view.clone.count_differing_files(view.declared_commit)
    files = pluralize(differing, "file")
    return f"; the folder's changes ({files}) are not in {view.declared_commit.label} yet" if differing else ""
