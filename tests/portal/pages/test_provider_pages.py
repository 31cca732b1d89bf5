"""The provider pages show the nodes, the stocks, the unit hours and the income of each cluster, and name no tenant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.portal.pages.page_text import find_links, index_pages, read_text
from tests.portal.pages.sample_areas import Sample, read_sample
from tests.portal.pages.sample_site import create_place
from tests.support.published import Place

from allotment.portal.pages.page_renderer import Page
from allotment.portal.pages.provider_area import CapacityNow, NodePoolTimes, NodeTime, ProviderArea
from allotment.portal.pages.provider_pages import build_provider_pages
from allotment.portal.site.provider_reader import build_provider_area, read_capacities


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return create_place(Path(tmp_path_factory.mktemp("provider")))


@pytest.fixture(scope="module")
def sample(place: Place) -> Sample:
    return read_sample(place)


@pytest.fixture(scope="module")
def area(sample: Sample) -> ProviderArea:
    record = sample.usage.read((), sample.month.period.start)
    capacities = read_capacities(sample.view.clone.repository, sample.view.reported_status.commits)
    tenants = sample.view.tenants
    return build_provider_area(
        sample.summarize([tenants[:3], tenants[3:]]), record, sample.site.clusters, capacities, sample.month
    )


@pytest.fixture(scope="module")
def pages(sample: Sample, area: ProviderArea) -> dict[str, Page]:
    return index_pages(build_provider_pages(sample.site, area))


def test_the_overview_has_a_row_for_each_cluster(pages: dict[str, Page]) -> None:
    assert set(pages) == {"provider/index.html", "provider/eu-1.html", "provider/us-1.html"}
    text = read_text(pages["provider/index.html"])
    assert "Income of the month so far: 7872.85 EUR" in text
    assert "Frankfurt 8 72 2206.8 3484.3 29839.7 6.2 % 1683.23" in text
    assert "Oregon 4 21 448.6 0.0 9914.6 4.3 % 6189.62" in text
    assert find_links(pages["provider/index.html"]) > {"provider/eu-1.html", "provider/us-1.html"}


def test_a_cluster_has_its_nodes_days_and_specs(pages: dict[str, Page]) -> None:
    text = read_text(pages["provider/eu-1.html"])
    assert "Sold 2206.8 of 35530.8 unit hours (6.2 %)" in text
    assert "2026-11-18 158.0 160.4 1409.6 9.1 % 105.01" in text
    assert "2026-11-22" not in text
    assert "l4-whole 3454.4 284.3 702.7 2467.4 8.2 % 238.80" in text
    assert "block-ssd – – – – – 31.77" in text
    assert "a100-mig: 2, l4-ts2-film: 2, l4-ts4: 2, l4-whole: 2" in text
    assert "eu-1-l4-whole-2 l4-whole 2026-10-01 00:00 UTC" in text


def test_the_plot_has_a_text_alternative(pages: dict[str, Page]) -> None:
    page = pages["provider/us-1.html"].content.decode()
    description = "Unit hours from 2026-11-01 to 2026-11-21: 448.6 sold, 0.0 reserved, 9914.6 idle."
    assert f'<desc id="plot-1-text">{description}</desc>' in page
    assert "<title>2026-11-02: 18.5 unit hours sold</title>" in page
    assert page.count("<h1>") == page.count("</h1>") == 1


def test_the_income_is_that_of_the_invoices(sample: Sample, area: ProviderArea) -> None:
    """Invoices round each line, so the sums differ by less than a cent for each line."""
    from allotment.services.billing.bill_reader import compute_bill

    tenants, month = sample.view.tenants, sample.month
    record = sample.usage.read(tenants, month.period.start)
    source = sample.view.declared_commit.source
    bill = compute_bill(source, sample.platform.spec.billing, month.zone, month.name, record, None)
    lines = sum(len(invoice.lines) for invoice in bill.invoices)
    assert lines > 20
    assert abs(sum(float(cluster.income) for cluster in area.clusters) - float(bill.total)) < lines * 0.01


def test_the_pages_name_no_tenant(sample: Sample, pages: dict[str, Page]) -> None:
    for path, page in pages.items():
        for tenant in set(sample.view.tenants) - {"northlight"}:
            assert not re.search(rf"(?<![\w-]){tenant}(?![\w-])", page.content.decode()), (path, tenant)


def test_a_cluster_without_a_record_has_dashes(sample: Sample, area: ProviderArea) -> None:
    silent = area.clusters[0].cluster._replace(name="index", title="Silent", observed_at="", trouble="x of kite")
    empty = area.clusters[0]._replace(cluster=silent, capacity=None, days=(), offers=(), problems=("`a` is missing",))
    pages = index_pages(build_provider_pages(sample.site, area._replace(clusters=(empty,))))
    assert "Silent – – unknown unknown unknown unknown unknown" in read_text(pages["provider/index.html"])
    text = read_text(pages["provider/index--2.html"])
    assert "The nodes are unknown: the cluster has no readable report of its capacity." in text
    assert "a is missing" in text
    assert "No stock and no use is recorded this month." in text
    assert "kite" not in text
    assert b"<svg" not in pages["provider/index--2.html"].content


def test_a_page_lists_300_nodes_at_most(sample: Sample, area: ProviderArea) -> None:
    nodes = tuple(NodeTime(f"node-{number:05}", "2026-10-01T00:00:00Z") for number in range(2000))
    large = area.clusters[0]._replace(capacity=CapacityNow((NodePoolTimes("l4", nodes),), 8000))
    pages = index_pages(build_provider_pages(sample.site, area._replace(clusters=(large,))))
    text = read_text(pages["provider/eu-1.html"])
    assert "l4: 2000" in text
    assert "node-00299 l4 2026-10-01 00:00 UTC and 1700 more" in text
    assert "node-00300" not in text
    assert len(pages["provider/eu-1.html"].content) < 100_000
