"""The platform pages show what is wrong, the stock map, all tenants and the newest merges; each page is small."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from tests.portal.pages.page_text import find_links, index_pages, read_text
from tests.portal.pages.sample_areas import Sample, read_sample
from tests.portal.pages.sample_site import create_place
from tests.support.published import Place

from allotment.billing.declared_costs import TenantMonth
from allotment.diagnosis.repository import BranchState, ClusterBranches
from allotment.diff.month_forecast import MonthForecast
from allotment.observed.publish_state import PublishState
from allotment.observed.retention import RetainedTenant, RetentionRecord
from allotment.observed.status import ClusterStatus, Stock
from allotment.portal.pages.change_history import Merge, describe_merge
from allotment.portal.pages.page_renderer import Page
from allotment.portal.pages.platform_area import (
    BudgetUse,
    Finding,
    InstanceRef,
    NodeEntry,
    PlatformArea,
    PublishSummary,
)
from allotment.portal.pages.platform_pages import build_platform_pages
from allotment.portal.site.platform_reader import (
    PlatformInputs,
    describe_budget,
    list_findings,
    read_platform_area,
    summarize_publish,
)
from allotment.portal.site.provider_reader import read_capacities
from allotment.rules.spending import TenantSpending

PUBLISHED = PublishSummary("main is published.", "", 0, 1)
BRAKED = PublishSummary("published is 0123456789ab, main is 2 commits ahead", "the brake is engaged: 9 storages", 1, 2)
MAX_PAGE = 100_000
CALENDAR = "platform/maintenance.ics"
SINCE = "2026-11-20T10:00:00Z"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return create_place(Path(tmp_path_factory.mktemp("platform")))


@pytest.fixture(scope="module")
def sample(place: Place) -> Sample:
    return read_sample(place)


def describe_merges(count: int) -> list[Merge]:
    files = [("M", "tenants/solo-ada/tenant.yaml"), ("M", "platform/specs/l4-quarter.yaml"), ("A", "clusters/x/a.yaml")]
    return [
        describe_merge(f"{number:040x}", 1_795_000_000 - number, "Ada <Löwe>", f"Grow it (#{number})", files)
        for number in range(1, count + 1)
    ]


@pytest.fixture(scope="module")
def inputs(sample: Sample) -> PlatformInputs:
    retained = (
        RetainedTenant("studio-kite", "invalid", SINCE, ("tenants/studio-kite/tenant.yaml: no plan",), 2),
        RetainedTenant("gone-tenant", "gate", SINCE),
    )
    return PlatformInputs(
        catalog=sample.catalog,
        clusters=sample.site.clusters,
        facts=sample.facts,
        statuses=sample.group_statuses(),
        reports=[ClusterStatus("eu-1", SINCE, (Stock("l4-quarter", "l4-quarter", 40, 17, 23, 11),))],
        capacities=read_capacities(sample.view.clone.repository, sample.view.reported_status.commits),
        record=RetentionRecord("c1", retained, ("us-1",), 3),
        merges=describe_merges(3),
        budgets={"solo-ada": BudgetUse(Decimal(200), 81)},
        findings=describe_findings(),
    )


@pytest.fixture(scope="module")
def area(inputs: PlatformInputs) -> PlatformArea:
    return read_platform_area(inputs, BRAKED)


@pytest.fixture(scope="module")
def pages(sample: Sample, area: PlatformArea) -> dict[str, Page]:
    return index_pages(build_platform_pages(sample.site, area))


def build(sample: Sample, area: PlatformArea) -> dict[str, Page]:
    """Return the pages, each of a limited size and with a headline of the first level."""
    pages = index_pages(build_platform_pages(sample.site, area))
    pages.pop(CALENDAR)
    for path, page in pages.items():
        assert len(page.content) < MAX_PAGE, path
        assert page.content.count(b"<h1>") == 1, path
    return pages


def describe_findings() -> list[Finding]:
    """Return the findings about a retained tenant, a silent cluster and a platform without keys."""
    branches = BranchState(
        unpublished=1,
        status_error="",
        clusters=(ClusterBranches("eu-1", published=True, fault="", error="", silent=True, age="5h", has_key=False),),
        retained=(RetainedTenant("gone-tenant", "gate", SINCE),),
    )
    return list_findings(branches, has_publisher_key=False)


def test_the_findings_have_errors_first_and_no_ages() -> None:
    findings = describe_findings()
    assert [(finding.severity, finding.subject) for finding in findings] == [
        ("error", "status/eu-1"),
        ("warning", "rendered branches"),
        ("warning", "spec.publisher.publicKey"),
        ("warning", "spec.reporter.publicKey"),
    ]
    assert findings[0].message == "is silent"
    assert findings[0].advice.startswith("run allot run --report eu-1")


def test_the_overview_lists_the_findings(sample: Sample, area: PlatformArea) -> None:
    text = read_text(build(sample, area)["platform/index.html"])
    assert "status/eu-1 error is silent run allot run --report eu-1" in text
    assert "rendered branches warning 1 change is merged and not published" in text
    none = read_text(build(sample, area._replace(findings=()))["platform/index.html"])
    assert "There are no findings." in none
    finding = Finding("error", "x" * 100_000, "<script>y" * 10_000, "z" * 100_000)
    many = read_text(build(sample, area._replace(findings=(finding,) * 35))["platform/index.html"])
    assert "and 5 more" in many


def test_the_pages_are_linked_with_each_other(pages: dict[str, Page]) -> None:
    names = {f"platform/{name}.html" for name in ("index", "stock", "tenants-1", "history")}
    assert set(pages) == {*names, CALENDAR}
    for page in (pages[name] for name in names):
        assert find_links(page) > names


def test_the_overview_says_what_is_wrong(pages: dict[str, Page]) -> None:
    text = read_text(pages["platform/index.html"])
    assert "Publishing has stopped. the brake is engaged: 9 storages" in text
    assert "published is 0123456789ab, main is 2 commits ahead" in text
    assert "The catalog has 1 error and 2 warnings." in text
    assert "The cluster us-1 stays at its last published manifests." in text
    assert "gone-tenant gate – 2026-11-20 10:00 UTC" in text
    problem = "tenants/studio-kite/tenant.yaml: no plan (and 2 more)"
    assert f"studio-kite invalid {problem} 2026-11-20 10:00 UTC and 3 more" in text


def test_the_overview_links_to_instances_with_trouble(pages: dict[str, Page]) -> None:
    page = pages["platform/index.html"]
    text = read_text(page)
    assert "1 Failed 1 Waiting Instance" in text
    message = "the container ended with exit code 1 (7 restarts)"
    assert f"ml-orbit/lab Failed CrashLoop eu-1 {message} 2026-11-18 07:12 UTC" in text
    assert "studio-kite/webui-next Waiting NoFreeUnit eu-1 no unit of l4-whole is free: ml-orbit/chat holds 1" in text
    assert find_links(page) > {
        "tenants/ml-orbit/instances/lab.html",
        "tenants/studio-kite/instances/webui-next.html",
        "tenants/studio-kite/index.html",
    }
    assert "tenants/gone-tenant/index.html" not in find_links(page)


def test_the_overview_has_the_clusters_with_their_add_ons(sample: Sample, area: PlatformArea) -> None:
    cluster = area.clusters[0]
    silent = cluster._replace(cluster=cluster.cluster._replace(is_stale=True, trouble="`a.yaml` is rejected"))
    pages = build(sample, area._replace(clusters=(silent, area.clusters[1])))
    text = read_text(pages["platform/index.html"])
    assert "Frankfurt Active 2026-11-21 12:29 UTC outdated a.yaml is rejected cert-manager v1.21.2, dcgm" in text
    assert "Oregon Active 2026-11-21 12:29 UTC – cert-manager v1.21.2" in text
    assert "karpenter 1.14.1" in text.partition("Oregon")[2]
    assert "karpenter" not in text.partition("Oregon")[0]
    assert "snapshot-kinds 78e32cd84e0a" in text


def test_a_platform_without_trouble_says_so(sample: Sample, inputs: PlatformInputs) -> None:
    calm = inputs._replace(record=None, statuses={}, merges=[])
    pages = build(sample, read_platform_area(calm, PUBLISHED))
    text = read_text(pages["platform/index.html"])
    assert "main is published." in text
    assert "0 errors and 1 warning." in text
    assert "No tenant is retained." in text
    assert "No instance waits or has failed." in text
    assert "No merge has changed the declarations." in read_text(pages["platform/history.html"])


def test_the_stock_map_has_stocks_and_nodes(pages: dict[str, Page]) -> None:
    page = pages["platform/stock.html"]
    text = read_text(page)
    assert "l4-ts4 l4-quarter l4-quarter – 40 17 23 11" in text
    assert "l4-whole l4-whole-kite l4-whole studio-kite 2 2 0 –" in text
    assert "us-1-h100-2 us-1 h100 ml-orbit/chat us-1-l40s-spot-1 us-1 l40s-spot acme-robotics/simulate" in text
    assert "tenants/ml-orbit/instances/chat.html" in find_links(page)


def test_the_tenants_have_costs_and_budgets(pages: dict[str, Page]) -> None:
    text = read_text(pages["platform/tenants-1.html"])
    assert "7 tenants." in text
    assert "solo-ada starter Active 1 1 1 2 160.30 200.00 81 %" in text
    assert "uni-lab team Active 4 3 15 2 2323.50 – –" in text
    assert "tenants/uni-lab/index.html" in find_links(pages["platform/tenants-1.html"])


def test_the_history_links_commits_and_pull_requests(sample: Sample, pages: dict[str, Page]) -> None:
    page = pages["platform/history.html"]
    scopes = "tenant solo-ada, platform, cluster x"
    assert f"Ada <Löwe> Grow it (#2) {scopes} 000000000000 , pull request #2" in read_text(page)
    assert f'href="{sample.site.forge.commit(f"{2:040x}")}"' in page.content.decode()
    assert f'href="{sample.site.forge.pull_request(2)}"' in page.content.decode()


def test_the_newest_200_merges_are_on_two_pages(sample: Sample, area: PlatformArea) -> None:
    hostile = [merge._replace(subject='"<&>' * 999, author="\u202e" * 99) for merge in describe_merges(300)]
    pages = build(sample, area._replace(merges=tuple(hostile)))
    assert "platform/history-3.html" not in pages
    assert "pull request #100 " not in read_text(pages["platform/history-2.html"])
    assert "pull request #200 " in read_text(pages["platform/history-2.html"])
    assert "pull request #201" not in read_text(pages["platform/history-2.html"])
    assert "platform/history-2.html" in find_links(pages["platform/history.html"])


def test_a_page_has_200_tenants(sample: Sample, area: PlatformArea) -> None:
    tenant = area.tenants[0]
    tenants = tuple(
        tenant._replace(row=msgspec.structs.replace(tenant.row, name=f"a-tenant-with-a-long-name-{number:05}"))
        for number in range(5000)
    )
    pages = build(sample, area._replace(tenants=tenants))
    assert len([path for path in pages if "tenants-" in path]) == 25
    last = read_text(pages["platform/tenants-25.html"])
    assert "Tenants, page 25 5000 tenants." in last
    assert "a-tenant-with-a-long-name-04999 enterprise Active" in last
    assert "a-tenant-with-a-long-name-04799" not in last
    assert find_links(pages["platform/tenants-1.html"]) > {f"platform/tenants-{at}.html" for at in range(2, 26)}


def test_long_lists_of_the_overview_are_cut(sample: Sample, area: PlatformArea) -> None:
    entry, trouble = area.retained[-1], area.troubles[0]
    name = "a-tenant-with-a-long-name-0001"
    instance = InstanceRef(name, "x" * 64, f"tenants/{name}/instances/{'x' * 64}.html")
    many = area._replace(
        retained=(entry._replace(tenant=name, page=f"tenants/{name}/index.html", problem="<" * 999),) * 1234,
        troubles=(trouble._replace(instance=instance, reason="&" * 99, message="'" * 9999),) * 4321,
    )
    text = read_text(build(sample, many)["platform/index.html"])
    assert "and 1137 more" in text
    assert "4321 Failed Instance" in text
    assert "and 4221 more" in text


def test_a_large_stock_map_has_several_pages(sample: Sample, area: PlatformArea) -> None:
    name = "a-tenant-with-a-long-name-0001"
    instances = tuple(
        InstanceRef(name, f"instance-{number:023}", f"tenants/{name}/instances/instance-{number:023}.html")
        for number in range(120)
    )
    nodes = tuple(NodeEntry("eu-1", "l4", f"node-{number:03}", instances) for number in range(5))
    pages = build(sample, area._replace(nodes=nodes))
    first, third = read_text(pages["platform/stock.html"]), read_text(pages["platform/stock-3.html"])
    assert "platform/stock-4.html" not in pages
    assert "node-001" in first
    assert "node-002" not in first
    assert "instance-00000000000000000000099 and 20 more" in first
    assert "Stocks of" not in third
    assert "Stock, page 3" in third
    assert "node-004" in third


def test_the_budget_of_a_tenant_is_that_of_its_forecast(sample: Sample) -> None:
    forecast = MonthForecast(
        tenant="solo-ada",
        month="2026-11",
        so_far=Decimal(10),
        unobserved=Decimal(0),
        before=Decimal(150),
        after=Decimal(150),
        observed_until=SINCE,
        budget_before=Decimal(200),
        budget=Decimal(200),
        is_denied=False,
    )
    month = TenantMonth(TenantSpending("solo-ada", "starter", Decimal(1), None), forecast)
    assert describe_budget(month) == BudgetUse(Decimal(200), 75)
    assert describe_budget(month._replace(forecast=None)) == BudgetUse(None, None)
    assert describe_budget(None) == BudgetUse(None, None)


@pytest.mark.parametrize(
    ("state", "headline", "stopped"),
    [
        (PublishState("c" * 40, 0, ""), "main is published.", ""),
        (PublishState("", 0, "never", "x", "nothing has been published yet"), "nothing has been published yet", ""),
        (PublishState("c" * 40, 2, "pending"), "published is cccccccccccc, main is 2 commits ahead", ""),
        (
            PublishState("c" * 40, 1, "braked", "the brake stopped it", "9 storages would go: approve them"),
            "published is cccccccccccc, main is 1 commit ahead: the brake stopped it",
            "9 storages would go: approve them",
        ),
    ],
)
def test_the_headline_of_a_publish_state(state: PublishState, headline: str, stopped: str) -> None:
    assert summarize_publish(state, "main", errors=0, warnings=4) == PublishSummary(headline, stopped, 0, 4)
