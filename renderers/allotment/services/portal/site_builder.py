"""Builds the pages of the portal from a clone into a folder, and later builds only the pages that changed."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from allotment.adapters.git.repository import Repository
from allotment.adapters.page_folder import PageFolder
from allotment.declared.reading import suggest_name
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.resource_rows import read_offers
from allotment.observed.resource_status import ResourceStatus
from allotment.portal.change_history import group_merges
from allotment.portal.page_renderer import Page, list_assets
from allotment.portal.public_pages import build_public_pages
from allotment.portal.site_facts import SiteFacts
from allotment.portal.tenant_pages import build_tenant_pages, tenant_folder
from allotment.problems import OperationRefused, quote_value
from allotment.services.billing.usage_reader import UsageReader
from allotment.services.check.check_options import OpenCache
from allotment.services.check.workers import run_batches
from allotment.services.portal.invoice_reader import InvoiceReader
from allotment.services.portal.resource_reader import ResourceInputs
from allotment.services.portal.site_inputs import SiteInputs, read_folder_hashes, read_site_inputs, read_tenant_keys
from allotment.services.portal.site_reader import list_reserved, read_site_facts
from allotment.services.portal.tenant_reader import TenantInputs, read_tenant_areas
from allotment.services.reporter.clone import Clone
from allotment.services.status_view.status_view import StatusView
from allotment.services.status_view.tenant_facts_reader import read_tenant_facts

MAX_MERGES = 50  # on the page of a tenant


class BuildResult(NamedTuple):
    """The number of pages, of those that changed, and of those that were removed; and the commit of the declarations.

    `tenants` is the number of tenants with rendered pages.
    """

    pages: int
    changed: int
    removed: int
    tenants: int
    commit: str


class _WrittenPages(NamedTuple):
    """The paths of the pages of a tenant, or of the public pages, and how many of them changed.

    `is_settled` says that all resources are as declared, so that the pages don't depend on the rendered branches.
    """

    paths: frozenset[str]
    changed: int
    is_settled: bool = True


class _TenantPagesTask(NamedTuple):
    """Writes the pages of tenants."""

    site: SiteFacts
    inputs: TenantInputs
    folder: PageFolder

    def load_modules(self) -> None:
        """Load nothing: the imports of this module are enough."""

    def run_batch(self, names: list[str]) -> list[_WrittenPages]:
        """Write the pages of some tenants."""
        results = []
        has_trouble = bool(self.inputs.invoices.closed.trouble)
        for area in read_tenant_areas(self.inputs, names):
            pages = build_tenant_pages(self.site, area, has_ledger_trouble=has_trouble)
            statuses = self.inputs.resources.statuses.get(area.name, ())
            is_settled = all(status.is_as_declared and status.resource.blob for status in statuses)
            results.append(_write_pages(self.folder, pages)._replace(is_settled=is_settled))
        return results


class SiteBuilder:
    """Builds the portal of a clone repeatedly. A build renders only the tenants with changed inputs.

    `tenant` limits the pages to one tenant; None stands for all tenants. `open_facts` opens the cache of the tenants' facts.
    `processes` is the number of processes of a build of many tenants.
    """

    def __init__(
        self,
        clone: Clone,
        folder: PageFolder,
        *,
        tenant: str | None = None,
        open_facts: OpenCache | None = None,
        processes: int = 1,
    ) -> None:
        self._clone, self._folder = clone, folder
        self._tenant, self._open_facts, self._processes = tenant, open_facts, processes
        self._hashes: dict[str, str] = {}
        self._facts: dict[str, TenantFacts] = {}
        self._keys: dict[str, Hashable] = {}
        self._pages: dict[str, _WrittenPages] = {}
        self._shared_key: Hashable = None
        self._published_key: Hashable = None

    @property
    def repository(self) -> Repository:
        """The repository of the clone."""
        return self._clone.repository

    @property
    def is_built(self) -> bool:
        """Whether a build has succeeded."""
        return self._shared_key is not None

    def build(self, now: datetime.datetime) -> BuildResult:
        """Write the changed pages. If it fails, the next build starts again from the state before.

        Raises OperationRefused if a remote doesn't answer, or if there is no such tenant.
        """
        inputs = read_site_inputs(StatusView(self._clone, selection=()), now)
        if self._tenant is not None and self._tenant not in inputs.names:
            hint = suggest_name(self._tenant, inputs.names)
            raise OperationRefused(f"no tenant is named {quote_value(self._tenant)}{hint}")
        self._update_facts(inputs)
        keys = read_tenant_keys(inputs, self._hashes, self._facts.values())
        site = read_site_facts(inputs.view, inputs.platform, inputs.catalog_check.catalog, self._facts.values(), now)
        chosen = self._choose_tenants(inputs, keys)
        public = _write_pages(self._folder, [*list_assets(), *build_public_pages(site)])
        written = self._write_tenants(inputs, site, chosen)
        self._pages = {name: pages for name, pages in (self._pages | written).items() if name in keys}
        paths = frozenset[str]().union(public.paths, *(pages.paths for pages in self._pages.values()))
        removed = self._folder.remove_others(paths) if not self.is_built else self._remove_pages(keys, written)
        self._keys, self._shared_key = keys, inputs.shared_key
        self._published_key = inputs.published_key
        return BuildResult(
            pages=len(paths),
            changed=public.changed + sum(pages.changed for pages in written.values()),
            removed=removed,
            tenants=len(written),
            commit=inputs.view.declared_commit.source.commit,
        )

    def _update_facts(self, inputs: SiteInputs) -> None:
        """Read the facts of the tenants with changed declarations."""
        source, hashes = inputs.view.declared_commit.source, read_folder_hashes(inputs)
        changed = [name for name in inputs.names if hashes[name] != self._hashes.get(name)]
        is_first = not self._facts
        facts = read_tenant_facts(source, changed, self._open_facts if is_first else None)
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
            or name not in self._pages
            or (is_published and not self._pages[name].is_settled)
        ]

    def _write_tenants(self, inputs: SiteInputs, site: SiteFacts, names: list[str]) -> dict[str, _WrittenPages]:
        """Write the pages of some tenants."""
        if not names:
            return {}
        selection = None if len(names) == len(inputs.names) else frozenset(names)
        view = StatusView(self._clone, selection=selection)
        catalog, commits = inputs.catalog_check.catalog, view.reported_status.commits
        source, repository = view.declared_commit.source, self._clone.repository
        all_names = frozenset(inputs.names)
        tenant_inputs = TenantInputs(
            resources=ResourceInputs(
                offers=read_offers(catalog),
                consoles=view.consoles,
                facts=self._facts,
                statuses=_group_rows(view.rows),
                month=inputs.month,
                tenants=all_names,
            ),
            invoices=InvoiceReader(source, catalog, inputs.platform, inputs.month, inputs.closed, all_names),
            usage=UsageReader.at_commits(repository, view.reporter_keys, commits),
            repository=repository,
            status_commits=commits,
            merges=group_merges(inputs.merges, MAX_MERGES),
            reserved=list_reserved(catalog, self._facts.values()),
            retained=inputs.retained,
            stale_clusters=inputs.stale_clusters,
        )
        task = _TenantPagesTask(site, tenant_inputs, self._folder)
        return dict(zip(names, run_batches(task, names, self._processes), strict=True))

    def _remove_pages(self, keys: dict[str, Hashable], written: dict[str, _WrittenPages]) -> int:
        """Remove the pages of tenants that are gone, and the pages that written tenants no longer have."""
        removed = sum(self._folder.remove_others((), tenant_folder(name)) for name in self._keys.keys() - keys.keys())
        return removed + sum(
            self._folder.remove_others(pages.paths, tenant_folder(name)) for name, pages in written.items()
        )


def _group_rows(rows: Iterable[ResourceStatus]) -> dict[str, Sequence[ResourceStatus]]:
    """Return the rows of each tenant. A declared resource comes before others of the same name."""
    groups = defaultdict[str, list[ResourceStatus]](list)
    for row in rows:
        groups[row.resource.tenant].append(row)
    return {
        tenant: sorted(group, key=lambda row: (row.resource.name, not row.resource.blob))
        for tenant, group in groups.items()
    }


def _write_pages(folder: PageFolder, pages: Iterable[Page]) -> _WrittenPages:
    paths, changed = [], 0
    for page in pages:
        changed += folder.write(page.path, page.content)
        paths.append(page.path)
    return _WrittenPages(frozenset(paths), changed)
