"""The portal of the sample cloud on a day of November 2026, with reports and usage as reporters would have written them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tests.conftest import copy_sample
from tests.support.published import Place
from tests.support.sample_reports import TROUBLES, SampleReports, Troubles

from allotment.adapters.page_folder import PageFolder
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.observed.status import UsageInterval
from allotment.portal.pages.page_renderer import Page
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import TenantArea
from allotment.portal.pages.tenant_pages import build_tenant_pages
from allotment.portal.site.site_builder import BuildResult, SiteBuilder

NOW = datetime.datetime(2026, 11, 21, 12, 30, tzinfo=datetime.UTC)
BUILD_TENANT_PAGES = "allotment.portal.site.tenant_writer.build_tenant_pages"  # where a build finds it


def create_place(folder: Path) -> Place:
    """Return a clone of the sample with a remote, and with the reports of all clusters."""
    copy_sample(folder / "repo")
    place = Place(folder / "repo", folder / "remote.git", mock.Mock(), mock.Mock())
    place.begin()
    report_all(place)
    return place


def build(place: Place, out: Path, tenant: str | None = None) -> BuildResult:
    """Build the portal of a clone into a folder."""
    return SiteBuilder(DeclarationsClone(place.root), PageFolder(out), tenant=tenant).build(NOW)


def fail_on(tenant: str, message: str = "a bug") -> Callable[..., Iterator[Page]]:
    """Return a replacement of `build_tenant_pages` that fails on a tenant."""

    def build_or_fail(site: SiteFacts, area: TenantArea, **options: Any) -> Iterator[Page]:
        if area.name == tenant:
            raise ValueError(message)
        return build_tenant_pages(site, area, **options)

    return build_or_fail


def report_all(
    place: Place, troubles: Troubles = TROUBLES, more_usage: Mapping[str, UsageInterval] | None = None
) -> None:
    """Write the reports of all clusters. `more_usage` has an interval for the usage logs of a tenant."""
    SampleReports(NOW, troubles).write(place.root, str(place.remote), more_usage or {})
