"""`allot bill` computes invoices from what the reporters recorded and the prices of the merged declarations."""

from __future__ import annotations

import csv
import datetime
import io
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.billing.uses import unit
from tests.conftest import Allot, Result, checked, edit
from tests.support import live
from tests.support.placeholders import placeholder
from tests.support.published import Place, git
from tests.support.recorded_usage import numbered
from tests.support.reported import BRANCH, Bed

from allotment.billing.invoices import Invoice, InvoiceLine, LineKey
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period
from allotment.billing.usage_totals import Share
from allotment.reports.invoice_pages import render_html, render_markdown
from allotment.reports.plots import render_svg

Run = Callable[..., Result]
HOUR = 3600


def observe(bed: Bed, *objects: dict[str, Any], hours: int = 1) -> None:
    """Report the same objects for some hours, in which the cluster is never silent."""
    for _ in range(hours * 24):
        bed.report(*objects, seconds=150)


@pytest.fixture
def bed(place: Place, tmp_path: Path) -> Bed:
    """A cluster in which an instance of solo-ada ran for two hours and stopped, and a storage stayed."""
    bed = Bed(tmp_path / "data", place.remote, interval=600)
    models = live.claim()
    models["metadata"]["labels"] |= {"allotment.dev/storage-spec": "block-ssd", "bill.allotment.dev/film": "7"}
    bed.report(*numbered(1), models, placeholder("shared", 4))
    observe(bed, *numbered(1), models, placeholder("shared", 4), hours=2)
    observe(bed, models, placeholder("shared", 4))
    return bed


@pytest.fixture
def end_of_month(bed: Bed) -> Bed:
    """The same cluster, observed until December, without a gap that ends a use."""
    bed.clock += 11 * 24 * HOUR
    models = live.claim()
    models["metadata"]["labels"] |= {"allotment.dev/storage-spec": "block-ssd", "bill.allotment.dev/film": "7"}
    bed.report(models, placeholder("shared", 4))
    return bed


@pytest.fixture
def run(place: Place, allot: Allot) -> Run:
    return lambda *words: allot("bill", "--repo", place.root, *words)


def read(result: Result) -> Any:
    assert result.code == 0, result.err
    return checked("bill", result.out)


def test_an_invoice_has_a_line_per_resource_and_label(end_of_month: Bed, run: Run, place: Place) -> None:
    output = read(run("--month", "2026-11", "-o", "json"))
    assert (output["currency"], output["isFinal"], output["unknownIsBilled"]) == ("EUR", True, False)
    assert output["commit"] == git(place.root, "rev-parse", "HEAD")
    (invoice,) = output["invoices"]
    assert (invoice["tenant"], invoice["budget"], invoice["unknownTotal"]) == ("solo-ada", 300, 0)
    instance, storage = invoice["lines"]
    assert (instance["name"], instance["spec"], instance["price"], instance["quantityUnit"]) == (
        "webui",
        "l4-quarter",
        0.21,
        "unit hours",
    )
    assert instance["quantity"] == pytest.approx((2 * HOUR + 150) / HOUR, abs=1e-6), "from 10:00:01 until 12:02:31"
    assert instance["amount"] == 0.43
    assert (storage["name"], storage["spec"], storage["price"], storage["labels"]) == (
        "models",
        "block-ssd",
        0.10,
        {"film": "7"},
    )
    hours = (9 * 24 + 13) - 1 / HOUR
    assert storage["quantity"] == pytest.approx(20 * hours / 730, abs=1e-5), "from 10:00:01 UTC on the 21st"
    assert (storage["amount"], invoice["total"]) == (0.63, 1.06)


def test_the_table_ends_with_the_total_and_the_commits(end_of_month: Bed, run: Run) -> None:
    result = run("solo-ada", "--month", "2026-11")
    lines = result.out.splitlines()
    assert lines[0] == "Invoice of solo-ada for 2026-11 (2026-11-01 to 2026-11-30, Europe/Berlin)"
    assert lines[1].split() == ["LINE", "RESOURCE", "CLUSTER", "SPEC", "LABELS", "QUANTITY", "PRICE", "EUR"]
    assert lines[2].split() == [
        "1",
        "instance",
        "webui",
        "eu-1",
        "l4-quarter",
        "-",
        "2.0417",
        "unit",
        "hours",
        "0.21",
        "0.43",
    ]
    assert lines[3].split()[:6] == ["2", "storage", "models", "eu-1", "block-ssd", "film=7"]
    assert lines[4] == "Total 1.06 EUR, budget 300.00 (0 %)"
    status = git(end_of_month.remote, "rev-parse", BRANCH)
    assert lines[5].endswith(f"Usage in eu-1 (not signed): {status[:12]}")
    table = run("--month", "2026-11").out.splitlines()
    assert [line.split() for line in table[1:3]] == [
        ["TENANT", "LINES", "EUR", "BUDGET", "NOT", "OBSERVED"],
        ["solo-ada", "2", "1.06", "300.00", "(0", "%)", "-"],
    ]
    assert table[3] == "Total 1.06 EUR"


def test_a_line_is_explained_by_its_intervals_and_commits(end_of_month: Bed, run: Run) -> None:
    lines = run("solo-ada", "--month", "2026-11", "--explain", "1").out.splitlines()
    start, end = "2026-11-21T11:00:01+01:00", "2026-11-21T13:02:31+01:00"
    assert lines[4].split()[:7] == ["#", "AMOUNT", "FROM", "UNTIL", "HOURS", "UNKNOWN", "NODE"]
    assert lines[5].split()[:8] == ["1", "1", "unit", start, end, "2.04", "0.00", "n1"]
    (invoice,) = read(run("solo-ada", "--month", "2026-11", "--explain", "1", "-o", "json"))["invoices"]
    (part,) = invoice["lines"][0]["parts"]
    assert (part["uid"], part["start"], part["end"]) == ("p-webui-1", "2026-11-21T10:00:01Z", "2026-11-21T12:02:31Z")
    log = git(end_of_month.remote, "show", f"{part['commit']}:usage/solo-ada.jsonl")
    assert '"uid":"p-webui-1"' in log
    assert invoice["lines"][1]["parts"] == []
    result = run("solo-ada", "--month", "2026-11", "--explain", "3")
    assert (result.code, "the invoice of solo-ada has 2 lines: there is no line 3" in result.err) == (2, True)


def test_csv_has_a_row_per_line(end_of_month: Bed, run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("--month", "2026-11", "-o", "csv").out)))
    assert {(row["month"], row["currency"], row["isFinal"]) for row in rows} == {("2026-11", "EUR", "true")}
    assert [(row["tenant"], row["line"], row["name"], row["labels"], row["amount"]) for row in rows] == [
        ("solo-ada", "1", "webui", "", "0.43"),
        ("solo-ada", "2", "models", "film=7", "0.63"),
    ]


def test_markdown_and_html_have_each_line_and_the_evidence(end_of_month: Bed, run: Run, place: Place) -> None:
    markdown = run("solo-ada", "--month", "2026-11", "-o", "markdown").out
    assert "# Invoice of solo\\-ada for 2026-11" in markdown
    assert "| 1 | instance webui | eu\\-1 | l4\\-quarter | \\- | 2\\.0417 unit hours | 0\\.21 | 0\\.43 |" in markdown
    assert "not final" not in markdown
    page = run("--month", "2026-11", "-o", "html").out
    assert page.startswith("<!DOCTYPE html>")
    assert '<td class="number">0.43</td>' in page
    assert f"<code>{git(place.root, 'rev-parse', 'HEAD')}</code>" in page
    assert "<script" not in page


def test_text_of_a_tenant_is_inert_in_a_page() -> None:
    hostile = "<script>alert(1)</script>"
    key = LineKey("GPUInstance", hostile, "[x](javascript:alert(1))", hostile, {"film": hostile}, Decimal(1))
    use = unit(0, HOUR, offer=hostile, name=hostile)
    share = Share(use, use.start, use.end, use.end)
    line = InvoiceLine(
        number=1,
        adjusts="",
        key=key,
        weighted_seconds=HOUR,
        unknown_weighted_seconds=0,
        amount=Decimal("1.00"),
        unknown_amount=Decimal("0.00"),
        parts=(share,),
    )
    bill = MonthlyBill(
        month="2026-11",
        provider="Northlight",
        period=Period(use.start, use.end),
        zone=datetime.UTC,
        currency="EUR",
        bills_unknown=False,
        commit="c0ffee",
        clusters=(),
        invoices=(Invoice(hostile, (line,), None),),
        gpus_by_spec={},
    )
    for page in (render_html(bill), render_svg(bill)):
        assert "<script" not in page
        assert "&lt;script&gt;" in page
    assert "<script" not in render_markdown(bill)
    assert "](javascript" not in render_markdown(bill)


def test_a_month_that_was_not_observed_to_its_end_is_not_final(bed: Bed, run: Run) -> None:
    result = run("solo-ada", "--month", "2026-11")
    assert result.out.splitlines()[0].startswith("Invoice of solo-ada for 2026-11, not final")
    assert "eu-1: observed until 2026-11-21T13:10:01+01:00" in result.err
    markdown = run("solo-ada", "--month", "2026-11", "-o", "markdown").out
    assert "**This invoice is not final.**" in markdown
    assert "eu\\-1\\: observed until" in markdown


def test_reserved_units_without_a_use_cost_their_fraction(bed: Bed, run: Run, place: Place, allot: Allot) -> None:
    edit(
        place.root, "clusters/eu-1/stocks/l4-half-film.yaml", "  tenant:", '  reservation: {fraction: "0.5"}\n  tenant:'
    )
    git(place.root, "commit", "-q", "--amend", "-a", "--no-edit")
    git(place.root, "push", "-qf", "origin", "HEAD:main")
    observe(bed, placeholder("l4-half-film", 2, "film-house"), placeholder("l4-whole-kite", 1, "studio-kite"), hours=10)
    lines = {
        invoice["tenant"]: invoice["lines"] for invoice in read(run("--month", "2026-11", "-o", "json"))["invoices"]
    }
    (paid,) = lines["film-house"]
    assert (paid["resourceKind"], paid["name"], paid["price"]) == ("Stock", "l4-half-film", 0.105), "half of 0.21"
    assert paid["amount"] == pytest.approx(paid["quantity"] * 0.105, abs=0.005)
    assert paid["quantity"] == pytest.approx(2 * 9, abs=0.1), "the status of the last hour is not written yet"
    (free,) = lines["studio-kite"]
    assert (free["name"], free["price"], free["amount"]) == ("l4-whole-kite", 0, 0)
    table = run("film-house", "--month", "2026-11").out
    assert "reserved stock l4-half-film" in table
    for style in ("focus", "html", "markdown", "svg", "csv"):
        assert run("--month", "2026-11", "-o", style).code == 0


def test_unknown_time_is_billed_if_the_platform_declares_it(bed: Bed, run: Run, place: Place) -> None:
    bed.clock += 3 * HOUR
    bed.report(placeholder("shared", 4))
    (invoice,) = read(run("solo-ada", "--month", "2026-11", "-o", "json"))["invoices"]
    free = invoice["lines"][1]
    assert free["unknownQuantity"] == pytest.approx(20 * 3 / 730, abs=2e-3)
    assert (free["unknownAmount"], invoice["unknownTotal"]) == (0.01, 0.01)
    edit(place.root, "platform/platform.yaml", "  billing:\n", "  billing:\n    unknown: Billed\n")
    place.merge()
    result = run("solo-ada", "--month", "2026-11", "-o", "json")
    assert (result.code, "spec.billing.unknown was Free when the month began" in result.err) == (4, True)
    (invoice,) = checked("bill", result.out)["invoices"]
    billed = invoice["lines"][1]
    assert billed["quantity"] == pytest.approx(free["quantity"] + free["unknownQuantity"], abs=1e-5)
    assert (billed["unknownAmount"], billed["amount"]) == (0.01, pytest.approx(free["amount"] + 0.01))
    assert "budget 300.00 (0 %), not observed 0.01 EUR (billed)" in run("solo-ada", "--month", "2026-11").out
    assert "- Not observed: 0.01 EUR (billed)" in run("solo-ada", "--month", "2026-11", "-o", "markdown").out


def test_a_use_without_a_price_is_named_in_each_output(end_of_month: Bed, run: Run, place: Place) -> None:
    (place.root / "platform/specs/l4-quarter.yaml").rename(place.root / "platform/specs/other.yaml")
    place.merge()
    result = run("solo-ada", "--month", "2026-11")
    assert result.code == 4
    words = "line 1: l4-quarter has no price, or its first price starts later"
    assert f"solo-ada: {words}" in result.err
    assert "the bill of 2026-11 is not final" in run("-q", "--month", "2026-11").err
    page = run("solo-ada", "--month", "2026-11", "-o", "html").out
    assert f"<li>{words}</li>" in page
    assert "This invoice is not final." in page
    assert '<td class="number">-</td>\n</tr>' in page
    output = checked("bill", run("solo-ada", "--month", "2026-11", "-o", "json").out)
    assert (output["isFinal"], output["invoices"][0]["lines"][0]["price"]) == (False, None)


def test_the_amounts_of_each_project(end_of_month: Bed, run: Run) -> None:
    table = run("--month", "2026-11", "--by", "label:film", "--by", "spec").out.splitlines()
    assert [line.split() for line in table] == [
        ["LABEL:FILM", "SPEC", "EUR"],
        ["-", "l4-quarter", "0.43"],
        ["7", "block-ssd", "0.63"],
        ["Total", "1.06", "EUR"],
    ]
    sums = read(run("--month", "2026-11", "--by", "label:film", "-o", "json"))["sums"]
    assert sums == [{"group": {"label:film": "-"}, "amount": 0.43}, {"group": {"label:film": "7"}, "amount": 0.63}]
    text = run("--month", "2026-11", "--by", "tenant", "-o", "csv").out
    assert text == "month,currency,isFinal,tenant,amount\n2026-11,EUR,true,solo-ada,1.06\n"


def test_a_month_without_a_record_is_not_final(bed: Bed, run: Run) -> None:
    result = run("--month", "2026-01")
    assert result.out.splitlines()[0].startswith("Invoices for 2026-01, not final")
    assert "No use is recorded in 2026-01." in run("--month", "2026-01", "-o", "html").out


def test_a_cluster_that_is_no_longer_declared_is_named(end_of_month: Bed, run: Run, place: Place) -> None:
    git(place.remote, "branch", "status/eu-9", BRANCH)
    result = run("--month", "2026-11")
    assert result.code == 4
    assert "eu-9: it has a status branch, but is not declared: its usage is left out" in result.err
    assert "not final" in result.out


def test_a_tenant_without_usage_has_an_empty_invoice(bed: Bed, run: Run) -> None:
    result = run("studio-kite", "--month", "2026-11")
    assert "Total 0.00 EUR, budget 4000.00 (0 %)" in result.out
    result = run("--month", "2026-01")
    assert "Total 0.00 EUR" in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--month", "2199-01"], "the month 2199-01 has not begun"),
        (["--by", "day"], "a bill can't be added up by day"),
        (["--by", "tenant", "-o", "html"], "--by can't be combined with this output"),
        (["solo-ada", "--by", "tenant", "--explain", "1"], "--by can't be combined with --explain"),
        (["--month", "2026-13"], "'2026-13' is no month: write a month such as 2026-11"),
        (["--explain", "1"], "--explain needs a tenant"),
        (["solo-ada", "--explain", "0"], "'0' is not a whole number from 1"),
        (["solo-ada", "--explain", "1", "-o", "csv"], "--explain can't be combined with this output"),
        (["solo-adda", "--month", "2026-11"], "no tenant is named 'solo-adda'"),
    ],
)
def test_bad_options_are_refused(words: list[str], message: str, bed: Bed, run: Run) -> None:
    result = run(*words)
    assert result.code == 2
    assert message in result.err


@pytest.mark.process
def test_another_machine_computes_the_same_bytes(end_of_month: Bed, run: Run, place: Place, tmp_path: Path) -> None:
    """A fresh clone in another time zone and locale, and another user."""
    other = tmp_path / "elsewhere"
    git(tmp_path, "clone", "-q", str(place.remote), str(other))
    environment = {**os.environ, "TZ": "Pacific/Auckland", "LC_ALL": "de_DE.UTF-8", "HOME": str(tmp_path)}
    for style in ("json", "csv", "html"):
        command = [sys.executable, "-m", "allotment", "bill", "--month", "2026-11", "-o", style]
        ended = subprocess.run(command, cwd=other, env=environment, capture_output=True, check=True)
        assert ended.stdout.decode() == run("--month", "2026-11", "-o", style).out


def test_unrelated_commits_and_false_dates_change_no_amount(
    end_of_month: Bed, run: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(run("--month", "2026-11", "-o", "json"))
    for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
        monkeypatch.setenv(name, "2099-01-01T00:00:00Z")
    (place.root / "notes.md").write_text("Buy GPUs.\n", encoding="utf-8")
    edit(place.root, "tenants/studio-kite/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    place.merge()
    models = live.claim()
    models["metadata"]["labels"] |= {"allotment.dev/storage-spec": "block-ssd", "bill.allotment.dev/film": "7"}
    end_of_month.report(models, placeholder("shared", 4), seconds=HOUR)
    assert git(place.root, "log", "-1", "--format=%cI").startswith("2099-01-01")
    result = run("--month", "2026-11", "-o", "json")
    assert (result.code, "has a date in the future" in result.err) == (4, True)
    after = checked("bill", result.out)
    assert after["commit"] != before["commit"]
    assert after["invoices"] == before["invoices"]
