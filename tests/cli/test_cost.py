"""`allot cost` shows the declared costs, and the forecast of the month from the recorded usage."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support.placeholders import placeholder
from tests.support.published import Place, git
from tests.support.recorded_usage import numbered
from tests.support.reported import Bed

Run = Callable[..., Result]
NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
REST = (9 * 24 + 11) / 730  # the months from noon UTC of the 21st until December in Berlin


@pytest.fixture
def run(place: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("allotment.cli.list_options.current_time", lambda: NOW)
    return lambda *words: allot("cost", "--repo", place.root, *words)


@pytest.fixture
def bed(place: Place, tmp_path: Any) -> Bed:
    """A cluster in which an instance of solo-ada has run since 10 o'clock."""
    bed = Bed(tmp_path / "data", place.remote, interval=600)
    bed.report(*numbered(1), placeholder("shared", 4))
    bed.report(*numbered(1), placeholder("shared", 4), seconds=60)
    return bed


def read(result: Result) -> Any:
    assert result.code == 0, result.err
    return checked("cost", result.out)


def merge(place: Place, path: str, old: str, new: str) -> None:
    edit(place.root, path, old, new)
    place.merge()


def test_a_tenant_has_a_row_for_each_resource_and_the_forecast(bed: Bed, run: Run) -> None:
    result = run("solo-ada")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["RESOURCE", "CLUSTER", "SPEC", "LABELS", "QUANTITY", "PRICE", "EUR/MONTH"]
    assert lines[1] == ["instance", "webui", "eu-1", "l4-quarter", "-", "1", "unit", "0.21", "153.30"]
    assert [line[:2] for line in lines[2:4]] == [["storage", "models"], ["storage", "styles"]]
    assert result.out.splitlines()[-1].startswith("2026-11: 0.42 EUR so far, ")


def test_the_forecast_adds_the_usage_so_far_and_the_declared_rest(bed: Bed, run: Run, place: Place) -> None:
    output = read(run("solo-ada", "-o", "json"))
    assert (output["month"], output["asOf"], output["currency"]) == ("2026-11", "2026-11-21", "EUR")
    assert output["commit"] == git(place.root, "rev-parse", "HEAD")
    assert [cluster["cluster"] for cluster in output["clusters"]] == ["eu-1", "us-1"]
    (tenant,) = output["tenants"]
    assert tenant["perMonth"] == pytest.approx(sum(each["perMonth"] for each in output["resources"]))
    assert tenant["soFar"] == 0.42, "two hours, although the last observation was earlier"
    assert tenant["forecast"] == pytest.approx(0.42 + tenant["perMonth"] * REST, abs=0.02)
    assert (tenant["budget"], tenant["enforcement"]) == (300, "Warn")
    assert tenant["usedPercent"] == int(tenant["forecast"] / 3)
    webui = next(each for each in output["resources"] if each["name"] == "webui")
    assert (webui["units"], webui["sizeGiB"], webui["price"], webui["perMonth"]) == (1, None, 0.21, 153.3)
    models = next(each for each in output["resources"] if each["name"] == "models")
    assert (models["units"], models["spec"]) == (None, "block-ssd")
    assert models["perMonth"] == pytest.approx(models["sizeGiB"] * models["price"])


def test_without_a_tenant_each_row_is_a_tenant(bed: Bed, run: Run) -> None:
    result = run()
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines()}
    assert rows["TENANT"][:2] == ["EUR/MONTH", "2026-11"]
    assert rows["solo-ada"][1] == "0.42"
    assert rows["studio-kite"][:2] == ["2276.90", "0.00"]
    assert result.out.splitlines()[-1].startswith("Total ")


def test_a_stopped_instance_costs_nothing_from_now_on(bed: Bed, run: Run, place: Place) -> None:
    merge(place, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    output = read(run("solo-ada", "-o", "json"))
    assert "webui" not in [each["name"] for each in output["resources"]]
    assert output["tenants"][0]["soFar"] == 0.42


def test_a_tenant_without_a_declaration_has_the_usage_so_far(bed: Bed, run: Run, place: Place) -> None:
    git(place.root, "rm", "-rq", "tenants/solo-ada")
    place.merge()
    (tenant,) = read(run("solo-ada", "-o", "json"))["tenants"]
    assert (tenant["perMonth"], tenant["soFar"], tenant["forecast"], tenant["budget"]) == (0, 0.42, 0.42, None)


def test_near_the_budget_the_command_warns(bed: Bed, run: Run, place: Place) -> None:
    assert "forecast for" not in run("solo-ada").err
    merge(place, "platform/plans/starter.yaml", 'perMonth: "300"', 'perMonth: "60"')
    result = run("solo-ada")
    assert result.code == 0
    assert "solo-ada: the forecast for 2026-11 uses 83 % of the budget of 60.00\n" in result.err
    merge(place, "platform/plans/starter.yaml", 'perMonth: "60"', 'perMonth: "40"')
    assert "solo-ada: the forecast for 2026-11 exceeds the budget of 40.00\n" in run().err


def test_sums_by_label_and_spec_are_those_of_the_resources(bed: Bed, run: Run, place: Place) -> None:
    merge(
        place,
        "tenants/solo-ada/instances/webui.yaml",
        "  name: webui\n",
        "  name: webui\n  labels:\n    project: film\n",
    )
    output = read(run("--by", "tenant", "--by", "label:project", "-o", "json"))
    sums = {(each["group"]["tenant"], each["group"]["label:project"]): each["amount"] for each in output["sums"]}
    assert sums["solo-ada", "film"] == 153.3
    assert sum(sums.values()) == pytest.approx(sum(each["perMonth"] for each in output["resources"]))
    by_instance = run("--by", "instance").out
    assert "solo-ada/webui" in by_instance
    assert "solo-ada/models" not in by_instance


def test_csv_has_the_rows_of_the_table(bed: Bed, run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("solo-ada", "-o", "csv").out)))
    webui = next(row for row in rows if row["name"] == "webui")
    assert (webui["asOf"], webui["currency"], webui["units"], webui["price"]) == ("2026-11-21", "EUR", "1", "0.21")
    tenants = {row["tenant"]: row for row in csv.DictReader(io.StringIO(run("-o", "csv").out))}
    ada = tenants["solo-ada"]
    assert (ada["month"], ada["soFar"], ada["budget"], ada["notes"]) == ("2026-11", "0.42", "300", "")
    assert (
        tenants["ml-orbit"]["notes"]
        == "no usage of us-1 is known for this month, so the declared cost counts since its declaration"
    )
    sums = list(csv.DictReader(io.StringIO(run("--by", "cluster", "-o", "csv").out)))
    assert [row["cluster"] for row in sums] == ["eu-1", "us-1"]


def test_usage_that_is_not_known_until_now_is_named(bed: Bed, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no usage of us-1 is known for this month" in run().out
    later = NOW + datetime.timedelta(hours=3)
    monkeypatch.setattr("allotment.cli.list_options.current_time", lambda: later)
    words = "solo-ada: usage of eu-1 is known until 2026-11-21T11:00:01+01:00, then the declared cost counts"
    assert words in run("solo-ada").err
    ada = next(each for each in read(run("-o", "json"))["tenants"] if each["tenant"] == "solo-ada")
    hours = 3 + 2 - 1 / 3600  # from 11:00:01 in Berlin until 16:00
    assert ada["unobserved"] == pytest.approx(ada["perMonth"] * hours / 730 - 0.21 * hours, abs=0.02)


def test_the_status_of_a_tenant_ends_with_the_forecast(run: Run, bed: Bed, place: Place, allot: Allot) -> None:
    line = re.compile(r"\d{4}-\d\d: [0-9.]+ EUR so far, [0-9.]+ forecast, budget 300\.00 \(\d+ %\)")
    assert line.fullmatch(allot("status", "solo-ada", "--repo", place.root).out.splitlines()[-1])
    assert not line.search(allot("status", "--repo", place.root).out)
    assert not line.search(allot("status", "solo-ada/webui", "--repo", place.root).out)


def test_without_a_record_there_is_no_forecast(run: Run) -> None:
    result = run("solo-ada", "-o", "json")
    (tenant,) = read(result)["tenants"]
    assert (tenant["soFar"], tenant["forecast"], tenant["usedPercent"]) == (None, None, None)
    assert "eu-1: no reporter has reported it yet" in result.err
    table = run().out.splitlines()
    assert table[1].split()[2:4] == ["-", "-"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--by", "day"), "declared costs have no day: `allot usage --by day` adds up the recorded usage"),
        (("--by", "instance", "--by", "storage"), "--by instance can't be combined with --by storage"),
        (("solo-adda",), "no tenant is named 'solo-adda'"),
    ],
)
def test_cost_refuses_invalid_arguments(run: Run, words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.code != 0
    assert message in result.err
