"""Reads the shared inputs of all pages, and the state of the inputs of each tenant."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.branches.platform_settings import read_platform
from allotment.branches.status_branches import tenant_of, tenant_path, usage_owner, usage_path
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import Scope
from allotment.observed.publish_state import PublishState
from allotment.observed.retention import RetainedTenant, RetentionRecord
from allotment.portal.pages.change_history import Merge
from allotment.portal.pages.inert_text import is_file_name
from allotment.portal.pages.platform_area import PublishSummary
from allotment.portal.pages.site_facts import GpuSpecEntry
from allotment.portal.pages.tenant_area import PullRequestEntry
from allotment.portal.site.invoice_reader import ClosedMonths, read_closed_months
from allotment.portal.site.merge_history import MergeHistory
from allotment.portal.site.platform_reader import summarize_publish
from allotment.problems import AllotmentError
from allotment.services.billing.month_forecasts import CurrentMonth, find_current_month
from allotment.services.check.catalog_check import CatalogCheck, check_catalog
from allotment.services.status_view.publish_check import read_recorded_state
from allotment.services.status_view.status_view import StatusView

FindPublishState = Callable[[StatusView], PublishState]


class SiteInputs(NamedTuple):
    """The inputs that the pages of all tenants share at one time. `view` has the reports of the clusters, but no tenants.

    `names` are the tenants that can have pages. `record` is the retention record of the last publish. `stale_clusters` are the
    clusters with a possibly outdated report.
    """

    view: StatusView
    platform: Platform
    catalog_check: CatalogCheck
    month: CurrentMonth
    closed: ClosedMonths
    merges: tuple[Merge, ...]
    record: RetentionRecord | None
    stale_clusters: frozenset[str]
    names: tuple[str, ...]

    @property
    def retained(self) -> dict[str, RetainedTenant]:
        """The retained tenants by name."""
        return {each.tenant: each for each in self.record.tenants} if self.record is not None else {}

    @property
    def shared_key(self) -> Hashable:
        """The state of everything that the pages of all tenants depend on. The costs are those of the current hour."""
        ledger = self.closed.ledger
        return (
            self.month.now // 3600,
            tuple(sorted((str(scope), key) for scope, key in self.catalog_check.content_keys.items())),
            (ledger.commit, tuple(sorted(ledger.tags.items())), self.closed.trouble),
            self.stale_clusters,
        )

    def list_undeclared_tenants(self) -> list[str]:
        """Return the tenants with recorded usage and without a declaration, sorted."""
        repository = self.view.clone.repository
        paths = {path for commit in self.view.reported_status.commits.values() for path in repository.listing(commit)}
        owners = {owner for path in paths for owner in (tenant_of(path), usage_owner(path)) if owner}
        return sorted(owners - set(self.view.tenants))

    def find_publish_state(self, find_state: FindPublishState | None) -> PublishState:
        """Return the state of publishing, by default that of the record of the last publish."""
        return (find_state or read_recorded_state)(self.view)

    def summarize_publish(self, state: PublishState) -> PublishSummary:
        """Return the summary of a publish state and of the problems of the catalog."""
        errors = sum(not problem.warning for problem in self.catalog_check.problems)
        warnings = len(self.catalog_check.problems) - errors
        return summarize_publish(state, self.platform.spec.git.branch, errors=errors, warnings=warnings)

    @property
    def published_key(self) -> Hashable:
        """The state of the rendered branches, on which the pages of resources depend that are not as declared."""
        return tuple(self.view.published_release.tips)


def read_site_inputs(view: StatusView, history: MergeHistory, now: datetime.datetime) -> SiteInputs:
    """Return the inputs of the pages at a time. Costs are those of the last full hour, so that they change once an hour.

    Raises OperationRefused if a remote doesn't answer.
    """
    source = view.declared_commit.source
    platform = read_platform(source)
    if platform is None:
        raise AllotmentError("platform/platform.yaml can't be read: `allot validate` shows the reason")
    month = find_current_month(platform.spec.billing, now.replace(minute=0, second=0, microsecond=0))
    published = view.published_release
    record = published.record.of_source(published.source.commit) if published.source is not None else None
    return SiteInputs(
        view=view,
        platform=platform,
        catalog_check=check_catalog(source, datetime.datetime.fromtimestamp(month.now, month.zone).date()),
        month=month,
        closed=read_closed_months(view.clone, view.declared_commit, platform, month.zone),
        merges=history.read(source.commit),
        record=record,
        stale_clusters=frozenset(each.cluster for each in view.reported_status.clusters if each.is_stale(now)),
        names=tuple(filter(is_file_name, view.tenants)),
    )


def read_folder_hashes(inputs: SiteInputs) -> dict[str, str]:
    """Return a hash of the declarations of each tenant."""
    source = inputs.view.declared_commit.source
    return {name: source.files(Scope("tenant", name)).content_hash or "" for name in inputs.names}


def read_tenant_keys(
    inputs: SiteInputs,
    hashes: Mapping[str, str],
    reserved: Mapping[str, Sequence[GpuSpecEntry]],
    pull_requests: Mapping[str, Sequence[PullRequestEntry]],
) -> dict[str, Hashable]:
    """Return the state of everything that only the pages of one tenant depend on, for each tenant."""
    repository = inputs.view.clone.repository
    listings = [repository.listing(commit) for _, commit in sorted(inputs.view.reported_status.commits.items())]
    newest_merges = _find_newest_merges(inputs.merges)
    return {
        name: (
            _describe_tenant(inputs, name, hashes[name], listings, reserved),
            newest_merges.get(name),
            tuple(pull_requests.get(name, ())),
        )
        for name in inputs.names
    }


def _find_newest_merges(merges: Iterable[Merge]) -> dict[str, str]:
    """Return the commit of the newest merge of each tenant. A merge may leave the declarations as they were at the last build."""
    newest: dict[str, str] = {}
    for merge in merges:
        for scope in merge.changes:
            if scope.kind == "tenant":
                newest.setdefault(scope.name, merge.commit)
    return newest


def _describe_tenant(
    inputs: SiteInputs,
    name: str,
    folder_hash: str,
    listings: Sequence[Mapping[str, str]],
    reserved: Mapping[str, Sequence[GpuSpecEntry]],
) -> Hashable:
    blobs = tuple((listing.get(tenant_path(name)), listing.get(usage_path(name))) for listing in listings)
    retained = inputs.retained.get(name)
    return folder_hash, blobs, tuple(reserved.get(name, ())), retained.words if retained is not None else ""
