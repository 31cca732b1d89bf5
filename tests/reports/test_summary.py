"""A cluster's page begins with what is removed and stays."""

from __future__ import annotations

from tests import live
from tests.observed.test_instances import CRASHED, RUNS
from tests.observed.test_removed import ARGOCD, DEPLOYMENT, SINCE, after, look, published

from allotment.observed.status import ClusterStatus, TenantStatus
from allotment.reports.summary import summary

CLUSTER = ClusterStatus("eu-1", "2026-11-21T10:03:00Z")


def page(*tenants: TenantStatus) -> str:
    return summary(CLUSTER, tenants).decode()


def test_what_is_removed_and_stays_comes_first() -> None:
    text = page(after(120, *RUNS, live.claim(), *ARGOCD, there=published()))
    lines = text.split("## Stocks")[0].splitlines()
    assert lines[4] == "## Removed, and not gone"
    assert lines[8].replace("\\", "") == (
        f"| solo-ada/webui | instance | removed, still running: not published since {SINCE} |"
        f" ask the platform team to refresh Application solo-ada--eu-1--compute | {SINCE} |"
    )
    assert lines[9].replace("\\", "").startswith("| solo-ada/models | storage | removed, still there: ")
    assert "Nothing else." in text
    assert "All is well." not in text


def test_else_the_page_is_as_it_was() -> None:
    assert page(look(*RUNS, there=published(DEPLOYMENT))) == page(look(*RUNS))
    assert page(after(119, *RUNS, there=published())) == page(look(*RUNS)), "it may be going just now"
    assert "All is well." in page(look(*RUNS))


def test_trouble_is_told_too() -> None:
    text = page(after(120, *CRASHED, live.route(), *ARGOCD, there=published(DEPLOYMENT)))
    assert "its address" in text.split("## Needs a look")[0]
    assert "exit code 1" in text.split("## Needs a look")[1]
