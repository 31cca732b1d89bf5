"""Builds the pages of a tenant: its resources with their states, quota, cost and members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from allotment.billing.periods import format_moment
from allotment.declared.layout import Scope, path_of
from allotment.portal.pages.access import TENANTS
from allotment.portal.pages.change_history import Merge
from allotment.portal.pages.deletion_actions import list_snapshot_deletions
from allotment.portal.pages.form_actions import (
    list_instance_actions,
    list_secret_actions,
    list_storage_actions,
)
from allotment.portal.pages.form_facts import (
    INSTANCE_KIND,
    STORAGE_KIND,
    describe_members,
    describe_new,
    describe_secret,
    describe_size,
    describe_snapshot,
    describe_state,
    describe_tenant,
)
from allotment.portal.pages.inert_text import shorten_text
from allotment.portal.pages.item_actions import list_member_actions
from allotment.portal.pages.maintenance_calendar import CALENDAR, build_tenant_calendar
from allotment.portal.pages.merge_verdict import add_actions, describe_merge
from allotment.portal.pages.page_renderer import Page, render_page
from allotment.portal.pages.request_actions import list_requests
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import TenantArea
from allotment.reports.cost_columns import describe_gaps, describe_near_budget

MAX_CHANGES = 10  # of a merge that a page lists
MAX_CHANGE_TEXT = 100  # bytes of a text in the history


def tenant_folder(tenant: str) -> str:
    """Return the folder of a tenant's pages."""
    return f"{TENANTS}/{tenant}"


def build_tenant_pages(site: SiteFacts, area: TenantArea, *, has_ledger_trouble: bool) -> Iterator[Page]:
    """Yield the pages of a tenant. They have nothing of other tenants.

    `has_ledger_trouble` says that the closed months can't be read.
    """
    folder, requests = tenant_folder(area.name), list(list_requests(site, area))
    yield render_page(
        f"{folder}/index.html",
        "tenant.html.j2",
        site=site,
        area=area,
        states=_count_states(area),
        notes=_list_notes(area),
        actions=requests,
        facts=add_actions(area, describe_tenant(site, area), requests),
    )
    yield Page(f"{folder}/{CALENDAR}", build_tenant_calendar(area))
    actions = list(list_member_actions(area))
    facts = add_actions(area, describe_members(site, area), actions)
    yield render_page(f"{folder}/members.html", "members.html.j2", site=site, area=area, facts=facts, actions=actions)
    yield from _build_forms(site, area, folder)
    yield render_page(
        f"{folder}/history.html",
        "history.html.j2",
        site=site,
        area=area,
        merges=[_describe_merge(merge) for merge in area.merges],
        changes=[
            change._replace(
                **{
                    field: shorten_text(getattr(change, field), MAX_CHANGE_TEXT)
                    for field in ("cluster", "target", "reason")
                }
            )
            for change in area.state_changes
        ],
    )
    yield render_page(
        f"{folder}/invoices/index.html", "invoices.html.j2", site=site, area=area, trouble=has_ledger_trouble
    )
    for invoice in area.invoices:
        path = f"{folder}/invoices/{invoice.month}.html"
        yield render_page(path, "invoice_page.html.j2", site=site, area=area, invoice=invoice)
    for instance in area.instances:
        path = f"{folder}/instances/{instance.page}.html"
        actions = list(list_instance_actions(site, area, instance))
        facts = add_actions(area, describe_state(site, area, instance), actions)
        arguments = {"instance": instance, "row": instance.row, "facts": facts, "actions": actions}
        yield render_page(path, "instance.html.j2", site=site, area=area, **arguments)
    for storage in area.storages:
        path = f"{folder}/storages/{storage.page}.html"
        actions = list(list_storage_actions(site, area, storage))
        facts = add_actions(area, describe_size(site, area, storage), actions)
        arguments = {"storage": storage, "row": storage.row, "facts": facts, "actions": actions}
        yield render_page(path, "storage.html.j2", site=site, area=area, **arguments)
    for snapshot in area.snapshots:
        path = f"{folder}/snapshots/{snapshot.page}.html"
        actions = list(list_snapshot_deletions(site, area, snapshot)) if snapshot.path else []
        facts = add_actions(area, describe_snapshot(site, snapshot), actions)
        arguments = {"snapshot": snapshot, "facts": facts, "actions": actions}
        yield render_page(path, "snapshot.html.j2", site=site, area=area, **arguments)


def _build_forms(site: SiteFacts, area: TenantArea, folder: str) -> Iterator[Page]:
    """Yield the pages with the forms for a new instance, a new storage and a new secret."""
    for kind, name in ((INSTANCE_KIND, "instance"), (STORAGE_KIND, "storage")):
        path = path_of(kind, Scope("tenant", area.name), "name")
        facts = describe_new(site, area, kind) | describe_merge(area, "Create", path)
        yield render_page(f"{folder}/new-{name}.html", f"new_{name}.html.j2", site=site, area=area, facts=facts)
    actions = list(list_secret_actions(site, area))
    facts = add_actions(area, describe_secret(site, area), actions)
    yield render_page(
        f"{folder}/new-secret.html", "new_secret.html.j2", site=site, area=area, facts=facts, actions=actions
    )


def _describe_merge(merge: Merge) -> dict[str, Any]:
    """Return the texts of a merge of one tenant."""
    (changes,) = merge.changes.values()
    return {
        "moment": format_moment(merge.time),
        "commit": merge.commit,
        "pull_request": merge.pull_request,
        "changes": [shorten_text(change.text, MAX_CHANGE_TEXT) for change in changes[:MAX_CHANGES]],
        "omitted": max(0, len(changes) - MAX_CHANGES),
    }


def _count_states(area: TenantArea) -> list[tuple[str | None, int]]:
    """Return the states of the instances and how often they occur, the most frequent first."""
    return Counter(instance.row.reported_state for instance in area.instances).most_common()


def _list_notes(area: TenantArea) -> list[str]:
    """Return the warning about the budget, and the limits of the costs."""
    if area.month is None:
        return []
    warning = describe_near_budget(area.month.forecast) if area.month.forecast else ""
    return [*([warning] if warning else []), *describe_gaps(area.month)]
