"""Builds the pages of the portal from a clone into a folder, and later builds only the pages that changed."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.repository import Repository
from allotment.adapters.page_folder import PageFolder
from allotment.billing.periods import month_period, previous_month
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.capacity.offers import read_offers
from allotment.declared.reading import suggest_name
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.resource_status import ResourceStatus
from allotment.portal.pages.access import PLATFORM, PROVIDER, TENANTS, AccessList, build_access_list
from allotment.portal.pages.change_history import group_merges
from allotment.portal.pages.page_renderer import list_assets
from allotment.portal.pages.public_pages import build_public_pages
from allotment.portal.pages.site_facts import GpuSpecEntry, SiteFacts
from allotment.portal.pages.tenant_area import PullRequestEntry
from allotment.portal.pages.tenant_pages import tenant_folder
from allotment.portal.site.area_writer import AreaWriter, WrittenPages, write_pages
from allotment.portal.site.invoice_reader import InvoiceReader
from allotment.portal.site.merge_history import MergeHistory
from allotment.portal.site.open_pull_requests import OpenPullRequests
from allotment.portal.site.resource_reader import ResourceInputs
from allotment.portal.site.site_inputs import (
    FindPublishState,
    SiteInputs,
    read_folder_hashes,
    read_site_inputs,
    read_tenant_keys,
)
from allotment.portal.site.site_reader import list_reserved, read_site_facts
from allotment.portal.site.tenant_reader import TenantInputs
from allotment.portal.site.tenant_writer import TenantResult, TenantWriter
from allotment.problems import OperationRefused, quote_value
from allotment.services.billing.month_forecasts import find_declaration_times
from allotment.services.billing.price_history import read_merged_terms
from allotment.services.billing.usage_reader import UsageReader
from allotment.services.check.check_options import OpenCache
from allotment.services.check.workers import run_batches
from allotment.services.status_view.status_view import StatusView
from allotment.services.status_view.tenant_facts_reader import read_tenant_facts

MAX_MERGES = 50  # on the page of a tenant


class BuildResult(NamedTuple):
    """The number of pages, of those that changed, and of those that were removed; and the commit of the declarations.

    `tenants` is the number of tenants with rendered pages. `tracebacks` has the traceback for each tenant on which Allotment failed: its
    pages stay as they were, and the next build tries again.
    """

    pages: int
    changed: int
    removed: int
    tenants: int
    commit: str
    tracebacks: Mapping[str, str]


class SiteBuilder:
    """Builds the portal of a clone repeatedly. A build renders only the tenants with changed inputs.

    `tenant` limits the pages to one tenant; None stands for all tenants. `open_facts` opens the cache of the tenants' facts.
    `processes` is the number of processes of a build of many tenants. `find_publish_state` returns the state of publishing for the
    pages of the platform; by default, it is the state that the last publish recorded, without the reason why later commits wait.
    `pull_requests` reads the open pull
    requests; by default, the pages have none. `update_readers` is called as soon as a build has read the members, so
    that a removed member can't read pages while they are rendered. It gets None if the platform doesn't declare a portal.
    """

    def __init__(
        self,
        clone: DeclarationsClone,
        folder: PageFolder,
        *,
        tenant: str | None = None,
        open_facts: OpenCache | None = None,
        processes: int = 1,
        find_publish_state: FindPublishState | None = None,
        pull_requests: OpenPullRequests | None = None,
        update_readers: Callable[[AccessList | None], None] = lambda readers: None,
    ) -> None:
        self._clone, self._folder = clone, folder
        self._tenant, self._open_facts, self._processes = tenant, open_facts, processes
        self._find_publish_state, self._pull_requests = find_publish_state, pull_requests
        self._update_readers = update_readers
        self._history = MergeHistory(clone.repository)
        self._hashes: dict[str, str] = {}
        self._facts: dict[str, TenantFacts] = {}
        self._keys: dict[str, Hashable] = {}
        self._results: dict[str, TenantResult] = {}
        self._statuses: dict[str, Sequence[ResourceStatus]] = {}
        self._provider_paths: frozenset[str] = frozenset()
        self._paths: frozenset[str] = frozenset()
        self._shared_key: Hashable = None
        self._has_other_files = True
        self._published_key: Hashable = None

    @property
    def repository(self) -> Repository:
        """The repository of the clone."""
        return self._clone.repository

    @property
    def is_built(self) -> bool:
        """Whether a build has succeeded."""
        return bool(self._paths)

    def build(self, now: datetime.datetime) -> BuildResult:
        """Write the changed pages. If it fails, the next build starts again from the state before.

        Raises OperationRefused if a remote doesn't answer, if there is no such tenant, or if another process writes the folder.
        """
        with self._folder.lock():
            return self._build(now)

    def _build(self, now: datetime.datetime) -> BuildResult:
        inputs = read_site_inputs(StatusView(self._clone, selection=()), self._history, now)
        if self._tenant is not None and self._tenant not in inputs.names:
            hint = suggest_name(self._tenant, inputs.names)
            raise OperationRefused(f"no tenant is named {quote_value(self._tenant)}{hint}")
        self._update_facts(inputs)
        portal, access_list = inputs.platform.spec.portal, None
        if portal is not None:
            needs_credential = portal.proxy_secret_name is not None
            access_list = build_access_list(portal.groups, self._facts.values(), needs_credential=needs_credential)
        self._update_readers(access_list)
        has_other_files, self._has_other_files = self._has_other_files, True
        removed = self._remove_foreign_files() if has_other_files else 0
        requests = self._read_pull_requests(inputs)
        catalog, currency = inputs.catalog_check.catalog, inputs.platform.spec.billing.currency
        reserved = list_reserved(catalog, currency, self._facts.values())
        keys = read_tenant_keys(inputs, self._hashes, reserved, requests)
        site = read_site_facts(inputs.view, inputs.platform, catalog, self._facts.values(), now)
        chosen = self._choose_tenants(inputs, keys)
        written = self._write_tenants(inputs, site, chosen, reserved, requests)
        tracebacks = {name: result.traceback for name, result in written.items() if result.traceback}
        results = {name: result for name, result in written.items() if not result.traceback}
        without_summaries = {name: result._replace(summary=None) for name, result in results.items()}
        self._results = {name: result for name, result in (self._results | without_summaries).items() if name in keys}
        self._statuses = {name: self._statuses[name] for name in inputs.names if name in self._statuses}
        shared = [write_pages(self._folder, [*list_assets(), *build_public_pages(site, self._tenant)])]
        if self._tenant is None:
            shared += self._write_areas(inputs, site, results, now, is_complete=len(results) == len(inputs.names))
        paths = frozenset[str]().union(
            *(pages.paths for pages in shared),
            self._provider_paths,
            *(result.pages.paths for result in self._results.values()),
        )
        removed += (
            self._folder.remove_others(paths, self._list_kept_folders(tracebacks))
            if has_other_files
            else self._folder.remove(self._paths - paths)
        )
        self._paths, self._has_other_files = paths, bool(tracebacks) or self._lacks_provider
        self._keys = {name: key for name, key in keys.items() if name not in tracebacks}
        # The pages of the provider need all tenants, so the build after the last failure renders all of them.
        self._shared_key = None if self._lacks_provider and not tracebacks else inputs.shared_key
        self._published_key = inputs.published_key
        return BuildResult(
            pages=len(paths),
            changed=sum(pages.changed for pages in (*shared, *(result.pages for result in results.values()))),
            removed=removed,
            tenants=len(results),
            commit=inputs.view.declared_commit.source.commit,
            tracebacks=tracebacks,
        )

    def _remove_foreign_files(self) -> int:
        """Remove links, and the pages that others than the readers of this build may read. Return their number.

        This comes before the pages are written: a build that is killed must not leave other tenants' pages in a tenant's folder.
        """
        removed = self._folder.remove_links()
        if self._tenant is not None:
            for area in (PLATFORM, PROVIDER, TENANTS):
                removed += self._folder.remove_others(
                    (f"{TENANTS}/index.html",), [tenant_folder(self._tenant)], below=area
                )
        return removed

    @property
    def _lacks_provider(self) -> bool:
        """Whether no build of this process has written the pages of the provider."""
        return self._tenant is None and not self._provider_paths

    def _list_kept_folders(self, failed: Iterable[str]) -> list[str]:
        """Return the folders with earlier pages that stay: those of tenants on which Allotment failed, and that of the provider."""
        return [*([PROVIDER] if self._lacks_provider else []), *(tenant_folder(name) for name in failed)]

    def _write_areas(
        self,
        inputs: SiteInputs,
        site: SiteFacts,
        results: Mapping[str, TenantResult],
        now: datetime.datetime,
        *,
        is_complete: bool,
    ) -> Iterator[WrittenPages]:
        """Write the pages of the platform, and after all tenants were rendered also those of the provider."""
        areas = AreaWriter(self._folder, inputs, site)
        budgets = {name: result.budget for name, result in self._results.items()}
        state = inputs.find_publish_state(self._find_publish_state)
        yield areas.write_platform(self._facts, self._statuses, budgets, state, now)
        summaries = [result.summary for result in results.values() if result.summary is not None]
        if is_complete:
            pages = areas.write_provider(summaries)
            self._provider_paths = pages.paths
            yield pages

    def _update_facts(self, inputs: SiteInputs) -> None:
        """Read the facts of the tenants with changed declarations."""
        source, hashes = inputs.view.declared_commit.source, read_folder_hashes(inputs)
        changed = [name for name in inputs.names if hashes[name] != self._hashes.get(name)]
        is_first = not self._facts
        open_facts = self._open_facts if is_first else None
        facts = read_tenant_facts(source, changed, open_facts, processes=self._processes)
        self._facts = {name: facts.get(name) or self._facts[name] for name in inputs.names}
        self._hashes = hashes

    def _choose_tenants(self, inputs: SiteInputs, keys: dict[str, Hashable]) -> list[str]:
        """Return the tenants with possibly changed pages."""
        names = inputs.names if self._tenant is None else [self._tenant]
        if inputs.shared_key != self._shared_key:
            return list(names)
        is_published = inputs.published_key != self._published_key
        return [
            name
            for name in names
            if keys[name] != self._keys.get(name)
            or name not in self._results
            or (is_published and not self._results[name].is_settled)
        ]

    def _read_pull_requests(self, inputs: SiteInputs) -> Mapping[str, Sequence[PullRequestEntry]]:
        """Return the open pull requests of each tenant; none without access to the forge."""
        if self._pull_requests is None:
            return {}
        return self._pull_requests.read(inputs.view.declared_commit, inputs.platform, self._facts)

    def _write_tenants(
        self,
        inputs: SiteInputs,
        site: SiteFacts,
        names: list[str],
        reserved: Mapping[str, Sequence[GpuSpecEntry]],
        pull_requests: Mapping[str, Sequence[PullRequestEntry]],
    ) -> dict[str, TenantResult]:
        """Write the pages of some tenants."""
        if not names:
            return {}
        selection = None if len(names) == len(inputs.names) else frozenset(names)
        view = StatusView(self._clone, selection=selection)
        catalog, commits = inputs.catalog_check.catalog, view.reported_status.commits
        source, repository = view.declared_commit.source, self._clone.repository
        all_names = frozenset([*inputs.view.tenants, *inputs.list_undeclared_tenants()])
        statuses = _group_rows(view.rows)
        self._statuses |= {name: statuses.get(name, ()) for name in names}
        tenant_inputs = TenantInputs(
            resources=ResourceInputs(
                offers=read_offers(catalog),
                consoles=view.consoles,
                facts=self._facts,
                statuses=statuses,
                month=inputs.month,
                tenants=all_names,
            ),
            invoices=InvoiceReader(
                source=source,
                catalog=catalog,
                platform=inputs.platform,
                month=inputs.month,
                closed=inputs.closed,
                tenants=all_names,
                terms=read_merged_terms(
                    source, inputs.month.zone, month_period(previous_month(inputs.month.name), inputs.month.zone).start
                ),
                declared=find_declaration_times(source),
            ),
            usage=UsageReader.at_commits(repository, view.reporter_keys, commits),
            repository=repository,
            status_commits=commits,
            merges=group_merges(inputs.merges, MAX_MERGES),
            reserved=reserved,
            pull_requests=pull_requests,
            retained=inputs.retained,
            stale_clusters=inputs.stale_clusters,
        )
        writer = TenantWriter(site, tenant_inputs, self._folder)
        return dict(zip(names, run_batches(writer, names, self._processes), strict=True))


def _group_rows(rows: Iterable[ResourceStatus]) -> dict[str, Sequence[ResourceStatus]]:
    """Return the rows of each tenant. A declared resource comes before others of the same name."""
    groups = defaultdict[str, list[ResourceStatus]](list)
    for row in rows:
        groups[row.resource.tenant].append(row)
    return {
        tenant: sorted(group, key=lambda row: (row.resource.name, not row.resource.blob))
        for tenant, group in groups.items()
    }
