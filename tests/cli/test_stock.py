"""`allot stock list`: what stocks hold and keep warm, as declared, with what reporters say."""

from __future__ import annotations

import datetime
import shlex

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support.cluster_report import report
from tests.support.published import Place, git
from tests.support.terminal import ALLOT, run_in_terminal

from allotment.observed.status import ClusterStatus, ColdStart, Stock

HEADS = "STOCK CLUSTER GPU SPEC POOL NODES UNITS HELD FREE WARM READY TENANT COLD START"
COLD = tuple(
    ColdStart("h100-one", "ml-orbit/train", f"2026-11-2{day}T10:00:00Z", seconds)
    for day, seconds in enumerate((350, 540, 371))
)
H100 = Stock(name="h100-one", gpu_spec="h100-one", count=8, held_units=2, free=6, ready=1, tenant="", node_pool="h100")


@pytest.fixture
def run_stock(place: Place, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot("stock", "list", "--repo", place.root, *words)

    return run


def lines(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.out.splitlines()]


def reported(place: Place, *stocks: Stock, at: str = "", cold: tuple[ColdStart, ...] = ()) -> None:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    place.report("us-1")
    report(place, ClusterStatus("us-1", at or now, stocks, cold_starts=cold))


def test_a_row_a_stock_as_it_is_declared(run_stock: Allot, place: Place) -> None:
    """One instance waits for its storage: it holds its unit, and the placeholder stays."""
    result = run_stock()
    assert result.code == 0
    assert lines(result) == [
        HEADS,
        "a100-1g eu-1 a100-1g a100-mig 2 14 3 11 4 - - -",
        "a100-3g eu-1 a100-3g a100-mig 2 5 2 3 3 - - -",
        "l4-half-film eu-1 l4-half l4-ts2-film 2 6 2 4 4 - film-house -",
        "l4-quarter eu-1 l4-quarter l4-ts4 3 40 17 23 6 - - -",
        "l4-whole eu-1 l4-whole l4-whole 2 5 1 4 5 - - -",
        "l4-whole-kite eu-1 l4-whole l4-whole 2 2 2 0 1 - studio-kite -",
        "h100-eight us-1 h100-eight h100 0 to 2 1 0 1 0 - - not known yet",
        "h100-one us-1 h100-one h100 0 to 2 8 4 4 2 - - not known yet",
        "l40s-spot us-1 l40s-spot l40s-spot 0 to 3 12 6 6 1 - - not known yet",
    ]
    commit = git(place.root, "rev-parse", "HEAD")[:12]
    assert result.err.splitlines()[0].startswith(f"declared: main of origin at {commit}, ")
    assert run_stock("-q").out == result.out


def test_stock_list_shows_reported_placeholders_and_cold_starts(run_stock: Allot, place: Place) -> None:
    reported(place, H100, cold=(*COLD, ColdStart("l40s-spot", "uni-lab/x", "2026-11-20T10:00:00Z", 45)))
    assert lines(run_stock("--cluster", "us-1"))[1:] == [
        "h100-eight us-1 h100-eight h100 0 to 2 1 0 1 0 - - not known yet",
        "h100-one us-1 h100-one h100 0 to 2 8 4 4 2 1 - 6 min at the median of 3 starts, 9 min at most",
        "l40s-spot us-1 l40s-spot l40s-spot 0 to 3 12 6 6 1 - - 45 s in the 1 start seen",
    ]
    output = checked("stock", run_stock("--cluster", "us-1", "-o", "json").out)
    assert [(cluster["cluster"], cluster["stale"], cluster["trouble"]) for cluster in output["clusters"]] == [
        ("us-1", False, "")
    ]
    (stock,) = [candidate for candidate in output["stocks"] if candidate["name"] == "h100-one"]
    assert stock == {
        "cluster": "us-1", "name": "h100-one", "gpuSpec": "h100-one", "nodePool": "h100",
        "nodes": {"static": None, "karpenterMost": 2}, "count": 8, "cordoned": 0, "held": 4, "free": 4, "warm": 2,
        "placeholders": 2, "ready": 1, "tenant": None, "coldStart": {"starts": 3, "medianSeconds": 371, "longestSeconds": 540},
    }  # fmt: skip


def test_a_stock_names_its_units_on_nodes_with_a_cordon(run_stock: Allot, place: Place, allot: Allot) -> None:
    words = ("node", "cordon", "eu-1/gpu-7", "--pool", "l4-ts4", "--reason", "Fans", "--from", "2026-11-21")
    assert allot(*words, "--repo", place.root).code == 0
    note = "eu-1/l4-quarter: 10 of 40 units are out of service today, on nodes with a cordon"
    assert note not in run_stock().out
    place.merge()
    result = run_stock()
    assert "l4-quarter eu-1 l4-quarter l4-ts4 3 30 17 13 6 - - -" in lines(result)
    assert result.out.splitlines()[-1] == note
    stocks = checked("stock", run_stock("-o", "json").out)["stocks"]
    assert {stock["name"]: stock["cordoned"] for stock in stocks if stock["cordoned"]} == {"l4-quarter": 10}


def test_an_old_report_is_said_to_be_old(run_stock: Allot, place: Place) -> None:
    reported(place, H100, at="2026-01-01T00:00:00Z")
    assert run_stock("--cluster", "us-1").out.startswith("us-1: STALE: its reporter has said nothing for ")
    output = checked("stock", run_stock("-o", "json").out)
    assert {cluster["cluster"]: (cluster["observedAt"], cluster["stale"]) for cluster in output["clusters"]} == {
        "eu-1": (None, True),
        "us-1": ("2026-01-01T00:00:00Z", True),
    }
    assert {stock["name"]: stock["nodes"] for stock in output["stocks"]}["l4-quarter"] == {
        "static": 3,
        "karpenterMost": None,
    }


def test_stock_list_reads_merged_files_and_reports_invalid_files(run_stock: Allot, place: Place) -> None:
    edit(place.root, "clusters/eu-1/stocks/l4-quarter.yaml", "warm: 6", "warm: 3")
    assert "l4-quarter eu-1 l4-quarter l4-ts4 3 40 17 23 6 - - -" in lines(run_stock()), "of the folder nothing counts"
    place.merge()
    assert "l4-quarter eu-1 l4-quarter l4-ts4 3 40 17 23 3 - - -" in lines(run_stock())
    (place.root / "clusters/us-1/node-pools/h100.yaml").unlink()
    place.merge()
    result = run_stock("--cluster", "us-1")
    assert "h100-one us-1 h100-one h100 - 8 4 4 2 - - -" in lines(result)
    assert "invalid declarations are ignored here: " in result.err


def test_filters_select_stocks_and_wide_has_the_price(run_stock: Allot) -> None:
    assert lines(run_stock("--gpu", "nvidia-l4", "--max-price", "0.5", "-o", "wide")) == [
        HEADS.replace("COLD", "MODEL MEMORY PRICE/HOUR COLD"),
        "l4-half-film eu-1 l4-half l4-ts2-film 2 6 2 4 4 - film-house nvidia-l4 24Gi 0.46 -",
        "l4-quarter eu-1 l4-quarter l4-ts4 3 40 17 23 6 - - nvidia-l4 24Gi 0.21 -",
    ]
    assert run_stock("--min-memory", "80Gi", "-o", "name").out == "us-1/h100-eight\nus-1/h100-one\n"
    result = run_stock("--spec", "l4-quater")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == "allot: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'?"


def test_a_cluster_that_nobody_knows(run_stock: Allot) -> None:
    result = run_stock("--cluster", "us-2")
    assert (result.code, result.out, result.err) == (2, "", "allot: no cluster is named 'us-2'; did you mean 'us-1'?\n")


@pytest.mark.parametrize("columns", [60, 80])
def test_a_terminal_is_never_too_narrow(columns: int, place: Place) -> None:
    words = [*ALLOT, "stock", "list", "--repo", str(place.root), "--cluster", "us-1"]
    screen = run_in_terminal(["sh", "-c", f"{shlex.join(words)} 2> /dev/null"], place.root, columns)
    lines = screen.lines
    assert (screen.status, [line for line in lines if len(line) > columns]) == (0, [])
    first = next(number for number, line in enumerate(lines) if line.startswith("h100-eight "))
    row, *below = lines[first : first + 3]
    beside, under = {
        60: ("1", "HELD: 0  FREE: 1  WARM: 0  READY: -  TENANT: -"),
        80: ("1 0 1 0", "READY: -  TENANT: -"),
    }[columns]
    assert " ".join(row.split()) == f"h100-eight us-1 h100-eight h100 0 to 2 {beside}"
    assert below == [f"    {under}", "    not known yet"]
