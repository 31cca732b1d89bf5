"""A cluster's page begins with what is removed and stays."""

from __future__ import annotations

from tests.support import live
from tests.support.instances import CRASHED, RUNS
from tests.support.orphans import ARGOCD, DEPLOYMENT, SINCE, after, look, published

from allotment.observed.drift import Difference
from allotment.observed.edits import ManualEdit, with_edits
from allotment.observed.retention import RetainedTenant, RetentionReason
from allotment.observed.status import ClusterStatus, ColdStart, Instance, Stock, TenantStatus
from allotment.reports.cluster_page import MAX_ROWS, render_summary
from allotment.reports.markdown import escape_markdown

CLUSTER = ClusterStatus("eu-1", "2026-11-21T10:03:00Z")


def page(*tenants: TenantStatus) -> str:
    return render_summary(CLUSTER, tenants).decode()


def test_the_page_lists_remaining_removed_resources_first() -> None:
    text = page(after(120, *RUNS, live.claim(), *ARGOCD, published_objects=published()))
    lines = text.split("## Stocks")[0].splitlines()
    assert lines[4] == "## Removed, and not gone"
    assert lines[8].replace("\\", "") == (
        f"| solo-ada/webui | instance | removed, still running: not published since {SINCE} |"
        f" ask the platform team to refresh Application solo-ada--eu-1--compute | {SINCE} |"
    )
    assert lines[9].replace("\\", "").startswith("| solo-ada/models | storage | removed, still there: ")
    assert "Nothing else." in text
    assert "All is well." not in text


def test_retained_tenants_come_first() -> None:
    tenant = RetainedTenant("solo-ada", RetentionReason.BRAKE, SINCE, ("a | <b> `c`", "more"))
    text = render_summary(CLUSTER, (), (tenant,)).decode()
    assert text.split("## Stocks")[0].splitlines()[4:] == [
        "## Retained tenants",
        "",
        "| Tenant | Reason | Why | What to do | Since |",
        "| --- | --- | --- | --- | --- |",
        "| solo\\-ada | Brake | a \\| \\&lt;b\\> \\`c\\` \\(and 1 more\\) |"
        f" restore the declarations, or have the deletion approved | {escape_markdown(SINCE)} |",
        "",
    ]
    assert "Nothing else." in text


def test_else_the_page_is_as_it_was() -> None:
    assert page(look(*RUNS, published_objects=published(DEPLOYMENT))) == page(look(*RUNS))
    assert page(after(119, *RUNS, published_objects=published())) == page(look(*RUNS)), "it may be going just now"
    assert "All is well." in page(look(*RUNS))


def test_the_page_lists_manual_edits_before_the_stocks() -> None:
    policy = ManualEdit("solo-ada", "NetworkPolicy", "open|x", ("", ""), (), SINCE)
    deployment = ManualEdit(
        "solo-ada",
        "Deployment",
        "webui",
        ("instance", "webui"),
        (Difference("spec.x", "added"),),
        f"{SINCE[:-1]}+00:00",
    )
    status = with_edits(look(*RUNS), [policy, deployment])
    lines = [line.replace("\\", "") for line in page(status).split("## Stocks")[0].splitlines()]
    assert lines[4:10] == [
        "## Edited by hand",
        "",
        "| What | Kind | Why | Since |",
        "| --- | --- | --- | --- |",
        "| solo-ada | tenant | NetworkPolicy open|x isn't published (undo: kubectl -n t-solo-ada delete networkpolicy 'open|x')"
        f" | {SINCE} |",
        "| solo-ada/webui | instance | Deployment webui was edited by hand: spec.x isn't published"
        f" (undo: kubectl -n t-solo-ada edit deployment webui) | {SINCE[:-1]}+00:00 |",
    ]
    assert "open|x" not in page(status), "a name can't end its cell"
    assert "Nothing else." in page(status)


def test_a_page_lists_so_many_edits() -> None:
    tenants = [
        with_edits(
            TenantStatus(f"team-{number}", "eu-1"), [ManualEdit(f"team-{number}", "Service", "x", ("", ""), (), SINCE)]
        )
        for number in range(MAX_ROWS + 2)
    ]
    assert "\nand 2 more.\n" in page(*tenants)


def test_an_instance_that_has_not_answered_its_probe_is_starting() -> None:
    starting = Instance("webui", "b1", "Ready", "ProbePending")
    assert "| Starting | 1 |" in page(TenantStatus("solo-ada", "eu-1", instances=(starting,))).splitlines()


def test_trouble_is_told_too() -> None:
    text = page(after(120, *CRASHED, live.route(), *ARGOCD, published_objects=published(DEPLOYMENT)))
    assert "its address" in text.split("## Needs a look")[0]
    assert "exit code 1" in text.split("## Needs a look")[1]


def test_a_stock_whose_nodes_come_says_how_long_they_take() -> None:
    stocks = (
        Stock("l4-whole", "l4-whole", 5, 1, 4, 4),
        Stock(
            name="h100-eight",
            gpu_spec="h100-eight",
            count=1,
            held_units=0,
            free=1,
            ready=0,
            tenant="",
            node_pool="h100",
        ),
        Stock(
            name="h100-one", gpu_spec="h100-one", count=8, held_units=2, free=6, ready=2, tenant="", node_pool="h100"
        ),
        Stock(name="l40s", gpu_spec="l40s", count=12, held_units=0, free=12, ready=1, tenant="", node_pool="l40s"),
    )
    at = "2026-11-21T10:0{}:00Z"
    cold = [
        ColdStart("h100-eight", "studio-kite/webui", at.format(n), seconds) for n, seconds in enumerate((540, 360, 350))
    ]
    status = ClusterStatus(
        "us-1", "2026-11-21T10:03:00Z", stocks, cold_starts=(*cold, ColdStart("l40s", "a/b", at, 45))
    )
    lines = [line.replace("\\", "") for line in render_summary(status, ()).decode().splitlines()]
    assert lines[6:14] == [
        "| Stock | GPU spec | Units | Held | Free | Ready | Tenant | Cold start |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| l4-whole | l4-whole | 5 | 1 | 4 | 4 |  |  |",
        "| h100-eight | h100-eight | 1 | 0 | 1 | 0 |  | 6 min at the median of 3 starts, 9 min at most |",
        "| h100-one | h100-one | 8 | 2 | 6 | 2 |  | not known yet |",
        "| l40s | l40s | 12 | 0 | 12 | 1 |  | 45 s in the 1 start seen |",
        "",
        "Cold start: how long an instance that found no free unit waited until a node had room for it, by the last 20 such starts"
        " of the GPU spec that were seen. Its image is pulled after that. Where there is none, nodes are static.",
    ]
    assert "Cold start:" not in render_summary(ClusterStatus("eu-1", "", stocks[:1]), ()).decode()
