"""`allot catalog` shows what is on offer, and what of it a tenant can have."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, Result, checked, copy, edit
from tests.support.cluster_report import report
from tests.support.folder_commit import commit
from tests.support.published import Place, git
from tests.support.ways_of_sharing import declare_all

from allotment.observed.status import ClusterStatus, Stock


@pytest.fixture
def run_catalog(sample: Path, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot("catalog", "--repo", sample, "--as-of", DAY, *words)

    return run


def row(result: Result, *name: str) -> str:
    """Return the row that begins with these words, its gaps closed."""
    rows = (" ".join(line.split()) for line in result.out.splitlines())
    (text,) = (candidate for candidate in rows if candidate.startswith(f"{' '.join(name)} "))
    return text


def test_all_that_is_on_offer(run_catalog: Allot) -> None:
    result = run_catalog()
    assert result.code == 0
    assert row(result, "GPU", "SPEC") == "GPU SPEC CLUSTER GPU SHARING EUR/H FREE READY NOTE"
    assert (
        row(result, "l4-quarter")
        == "l4-quarter eu-1 1 nvidia-l4 TimeSlicing 1/4 0.21 23/40 - 3 CPU, 12Gi memory, 50Gi disk"
    )
    assert row(result, "h100-one").endswith(
        "Exclusive 3.40 4/8 - 22 CPU, 220Gi memory, 800Gi disk; 3.10 EUR/h from 2026-12-01"
    )
    assert row(result, "l4-half").endswith("0/0 - 6 CPU, 24Gi memory, 100Gi disk; 6 held for film-house, 4 free")
    assert row(result, "l40s-spot").endswith("Spot: the cloud may take it back")
    assert row(result, "block-ssd", "us-1") == "block-ssd us-1 ReadWriteOnce 10Gi to 2Ti 0.10 99Ti"
    assert row(result, "block-ssd", "eu-1").endswith(" snapshots 0.05")
    assert row(result, "stable-diffusion-webui", "1.10.1").endswith(
        "Members it is Deprecated: use 1.11.0; for units of 4Gi memory or more;"
        " uses /workspace/models, /workspace/outputs"
    )
    assert "Not for" not in result.out
    assert row(run_catalog("--as-of", "2026-12-01"), "h100-one").endswith(
        " 3.10 4/8 - 22 CPU, 220Gi memory, 800Gi disk"
    )
    assert "us-1" not in run_catalog("--cluster", "eu-1").out


def test_memory_that_mps_limits_is_told(sample: Path, run_catalog: Allot) -> None:
    declare_all(sample)
    result = run_catalog("--cluster", "eu-1")
    assert (
        row(result, "l4-mps")
        == "l4-mps eu-1 1 nvidia-l4 Mps 1/4 0.20 31/32 - 2 CPU, 8Gi memory, 50Gi disk; 6Gi of GPU memory a process"
    )
    assert row(result, "l4-dra") == "l4-dra eu-1 1 nvidia-l4 Dra 0.20 3/4 - 8 CPU, 8Gi memory, 50Gi disk"
    assert row(result, "a100-dra-1g").startswith("a100-dra-1g eu-1 1 nvidia-a100-80gb Dra 1g.10gb 0.20 19/20 ")
    specs = {
        gpu_spec["name"]: gpu_spec
        for gpu_spec in checked("catalog", run_catalog("--cluster", "eu-1", "-o", "json").out)["gpuSpecs"]
    }
    memory = {name: (specs[name]["gpuMemory"], specs[name]["gpuMemoryLimit"]) for name in ("l4-mps", "l4-quarter")}
    assert memory == {"l4-mps": ("24Gi", "6Gi"), "l4-quarter": ("24Gi", None)}


def test_catalog_shows_the_offers_and_limits_of_a_tenant(run_catalog: Allot) -> None:
    result = run_catalog("--tenant", "solo-ada", "--cluster", "eu-1")
    can, _, cannot = result.out.partition("\nNot for solo-ada now\n")
    assert (
        "Left:          0.75 of 1 nvidia-l4, 2 of 3 instances, 3 of 5 storages, 5 of 5 snapshots, 430Gi of 500Gi of storage\n"
        in can
    )
    assert "Budget left:   139.70 of 300.00 EUR a month, only a warning\n" in can
    assert "Own images:    registry.example/tools/\n" in can
    assert [line.split()[0] for line in can.splitlines() if "nvidia-" in line][1:] == ["l4-quarter"]
    assert row(result, "l4-whole").endswith(
        "4/5 - plan starter doesn't allow Exclusive, only TimeSlicing (platform/plans/starter.yaml);"
        " it takes 1 nvidia-l4, and 0.75 of 1 is left (platform/plans/starter.yaml)"
    )
    assert "held for film-house (clusters/eu-1/stocks/l4-half-film.yaml)" in cannot


def test_an_app_that_no_unit_of_the_tenants_holds_is_not_offered(run_catalog: Allot) -> None:
    """`allot validate` says the same of it: /dev/shm is part of the unit's memory."""
    result = run_catalog("--tenant", "solo-ada")
    _, _, cannot = result.out.partition("\nNot for solo-ada now\n")
    assert "lora-trainer" in cannot
    assert row(result, "lora-trainer").endswith(
        "its /dev/shm of 16Gi exceeds the memory of the largest available unit, l4-quarter with 12Gi"
        " (platform/specs/l4-quarter.yaml)"
    )
    assert "lora-trainer" in run_catalog("--tenant", "studio-kite").out.partition("\nNot for studio-kite now\n")[0]


def test_catalog_shows_an_exceeded_and_a_missing_budget(sample: Path, run_catalog: Allot) -> None:
    edit(sample, "platform/plans/starter.yaml", 'perMonth: "300"', 'perMonth: "100"')
    assert "Budget left:   -60.30 of 100.00 EUR a month, only a warning\n" in run_catalog("--tenant", "solo-ada").out
    (sample / "platform/plans/starter.yaml").write_text(
        "".join(
            line
            for line in (sample / "platform/plans/starter.yaml").read_text().splitlines(keepends=True)
            if not any(word in line for word in ("budget:", "perMonth:", "enforcement:"))
        )
    )
    assert row(run_catalog("--tenant", "solo-ada"), "Cost:") == "Cost: 160.30 EUR a month, and no budget"
    output = checked("catalog", run_catalog("--tenant", "solo-ada", "-o", "json").out)
    assert (output["tenant"]["budget"], output["tenant"]["costPerMonth"]) == (None, 160.3)


def test_before_its_first_price_nothing_is_sold(run_catalog: Allot) -> None:
    result = run_catalog("--as-of", "2020-01-01")
    assert " TimeSlicing 1/4 - 23/40 - not sold yet; 3 CPU, " in row(result, "l4-quarter")
    assert row(result, "l4-quarter").endswith("; 0.24 EUR/h from 2026-01-01")
    output = checked("catalog", run_catalog("--as-of", "2020-01-01", "-o", "json").out)
    quarter = next(gpu_spec for gpu_spec in output["gpuSpecs"] if gpu_spec["name"] == "l4-quarter")
    assert (quarter["isSold"], quarter["nextPrice"]) == (False, {"from": "2026-01-01", "price": 0.24})


def test_catalog_lists_the_cost_of_each_tenant(sample: Path, run_catalog: Allot) -> None:
    edit(sample, "platform/plans/starter.yaml", 'perMonth: "300"', 'perMonth: "100"')
    result = run_catalog("--tenants")
    title, *lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert title == f"Forecast of 730 hours at the prices of {DAY}, from the work tree. It is not a bill."
    assert lines[0] == "TENANT PLAN EUR/MONTH BUDGET LEFT NOTE"
    assert [line.split()[0] for line in lines[1:]] == [
        *sorted(folder.name for folder in sample.glob("tenants/*")),
        "TOTAL",
    ]
    assert "solo-ada starter 160.30 100.00 -60.30 over its budget, which only warns" in lines
    assert "studio-kite team 2276.90 4000.00 1723.10" in lines
    spending = checked("catalog", run_catalog("--tenants", "-o", "json").out)["spending"]
    assert {tenant["tenant"]: tenant["left"] for tenant in spending["tenants"]}["studio-kite"] == 1723.1
    total = round(sum(tenant["costPerMonth"] for tenant in spending["tenants"]), 2)
    assert (spending["totalPerMonth"], lines[-1]) == (total, f"TOTAL {total:.2f}")
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    partly = run_catalog("--tenants")
    lines = tenant_rows(partly)
    assert "solo-ada starter 7.00 100.00 - 1 invalid file not counted" in lines
    assert lines[-1].endswith(" 1 invalid file not counted")
    spending = checked("catalog", run_catalog("--tenants", "-o", "json").out)["spending"]["tenants"]
    assert [(tenant["tenant"], tenant["left"]) for tenant in spending if not tenant["isWhole"]] == [("solo-ada", None)]
    refused = run_catalog("--tenants", "--tenant", "solo-ada")
    assert (refused.code, refused.out) == (2, "")


def tenant_rows(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.out.splitlines()][2:]


def test_a_forecast_leaves_out_resources_that_have_no_price_on_the_day(sample: Path, run_catalog: Allot) -> None:
    early = tenant_rows(run_catalog("--tenants", "--as-of", "2026-01-15"))
    assert early[0] == "acme-robotics enterprise 2068.48 - - 1 resource without a price left out"
    assert "studio-kite team 2474.00 4000.00 1526.00" in early, "each of its resources has a price"
    assert early[-1] == "TOTAL 23349.14 1 resource without a price left out"
    none = tenant_rows(run_catalog("--tenants", "--as-of", "2020-01-01"))
    assert none[4] == "solo-ada starter no price 300.00 - 3 resources without a price left out"
    assert none[-1] == "TOTAL no price 34 resources without a price left out"
    spending = checked("catalog", run_catalog("--tenants", "--as-of", "2020-01-01", "-o", "json").out)["spending"]
    assert {(tenant["costPerMonth"], tenant["left"]) for tenant in spending["tenants"]} == {(None, None)}
    assert (spending["totalPerMonth"], spending["withoutPrice"]) == (None, 34)
    early_total = checked("catalog", run_catalog("--tenants", "--as-of", "2026-01-15", "-o", "json").out)["spending"]
    assert (round(early_total["totalPerMonth"], 2), early_total["withoutPrice"]) == (23349.14, 1)


def test_nothing_is_left_of_a_budget_where_a_resource_has_no_price(sample: Path, run_catalog: Allot) -> None:
    edit(sample, "platform/specs/l4-quarter.yaml", "2026-01-01", "2026-01-20")
    rows = tenant_rows(run_catalog("--tenants", "--as-of", "2026-01-15"))
    assert "solo-ada starter 7.00 300.00 - 1 resource without a price left out" in rows
    tenants = checked("catalog", run_catalog("--tenants", "--as-of", "2026-01-15", "-o", "json").out)["spending"][
        "tenants"
    ]
    (ada,) = (tenant for tenant in tenants if tenant["tenant"] == "solo-ada")
    assert (ada["left"], ada["isWhole"], ada["withoutPrice"]) == (None, False, 1)


def test_a_forecast_counts_files_that_are_not_committed(sample: Path, run_catalog: Allot) -> None:
    commit(sample)
    head = git(sample, "rev-parse", "HEAD")[:12]
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  description: Mine.\n")
    (sample / "notes.txt").write_text("no declaration")
    title = f"Forecast of 730 hours at the prices of {DAY}, from the work tree at commit {head}"
    first_title = f"{title} and 1 file that is not committed. It is not a bill."
    assert run_catalog("--tenants").out.splitlines()[0] == first_title
    copy(sample, "tenants/solo-ada/instances/webui.yaml", "tenants/solo-ada/instances/new.yaml")
    second_title = f"{title} and 2 files that are not committed. It is not a bill."
    assert run_catalog("--tenants").out.splitlines()[0] == second_title
    assert " not committed" not in run_catalog("--tenants", "--commit", "HEAD").out


def test_a_forecast_names_its_commit_day_and_hours(sample: Path, run_catalog: Allot) -> None:
    commit(sample)
    head = git(sample, "rev-parse", "HEAD")
    for words, of in (((), "the work tree at commit"), (("--commit", "HEAD"), "commit")):
        title = run_catalog("--tenants", *words).out.splitlines()[0]
        assert title == f"Forecast of 730 hours at the prices of {DAY}, from {of} {head[:12]}. It is not a bill."
        spending = checked("catalog", run_catalog("--tenants", *words, "-o", "json").out)["spending"]
        assert (spending["commit"], spending["day"], spending["hours"]) == (head, DAY, 730)


def test_json(run_catalog: Allot) -> None:
    output = checked("catalog", run_catalog("--tenant", "solo-ada", "-o", "json").out)
    assert (output["asOf"], output["currency"]) == (DAY, "EUR")
    assert output["tenant"]["quota"][0] == {
        "what": "nvidia-l4", "limit": 1.0, "used": 0.25, "path": "platform/plans/starter.yaml"
    }  # fmt: skip
    assert output["tenant"]["budget"]["enforcement"] == "Warn"
    by_name = {(gpu_spec["name"], gpu_spec["cluster"]): gpu_spec for gpu_spec in output["gpuSpecs"]}
    quarter = by_name["l4-quarter", "eu-1"]
    assert (quarter["gpus"], quarter["pricePerHour"], quarter["free"], quarter["readyAtOnce"]) == (0.25, 0.21, 23, None)
    assert (quarter["cpu"], quarter["memory"], quarter["barred"]) == (3.0, "12Gi", [])
    assert by_name["h100-one", "us-1"]["nextPrice"] == {"from": "2026-12-01", "price": 3.10}
    assert by_name["l4-half", "eu-1"]["barred"] == [
        {"reason": "held for film-house", "path": "clusters/eu-1/stocks/l4-half-film.yaml"}
    ]
    assert by_name["l4-half", "eu-1"]["reserved"] == [{"tenant": "film-house", "units": 6, "free": 4}]
    own = {
        gpu_spec["name"]: gpu_spec
        for gpu_spec in checked("catalog", run_catalog("--tenant", "film-house", "-o", "json").out)["gpuSpecs"]
    }
    assert (own["l4-half"]["units"], own["l4-half"]["free"]) == (6, 4)
    storages = {
        (storage_spec["name"], storage_spec["cluster"]): storage_spec for storage_spec in output["storageSpecs"]
    }
    assert storages["objects", "eu-1"]["access"] == "Bucket"
    assert storages["block-ssd", "us-1"]["snapshotPricePerGiBMonth"] is None
    apps = {app["name"]: app for app in output["apps"]}
    assert (apps["jupyter"]["exposure"], apps["jupyter"]["minMemory"]) == (["Members"], "2Gi")
    assert apps["jupyter"]["folders"] == [{"path": "/workspace", "description": "Notebooks and their data."}]


def test_units_that_are_ready_are_the_reporters_words(place: Place, allot: Allot) -> None:
    def ready(*words: str) -> str:
        result = allot("catalog", "--repo", place.root, "--as-of", DAY, "--cluster", "eu-1", *words)
        return row(result, "l4-whole").split()[7]

    assert ready() == "-"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stocks = (
        Stock("l4-whole", "l4-whole", 5, 1, 4, 3),
        Stock(name="kite", gpu_spec="l4-whole", count=2, held_units=0, free=2, ready=2, tenant="studio-kite"),
    )
    place.report("eu-1", also={"stocks.yaml": b""})
    place.report("eu-1", observed=now)
    assert ready() == "-", "of this spec nothing is reported"
    for observed, shared, own in ((now, "3", "5"), ("2026-11-21T12:00:00Z", "-", "-")):
        report(place, ClusterStatus("eu-1", observed, stocks))
        assert (ready(), ready("--tenant", "studio-kite"), ready("--tenant", "film-house")) == (shared, own, shared)


def test_catalog_needs_no_git_repository(run_catalog: Allot) -> None:
    result = run_catalog()
    assert result.err.startswith("the number of ready units is unknown: ")
    assert run_catalog("-q").err == ""


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (("--tenant", "solo-adda"), "allot: no tenant is named 'solo-adda'; did you mean 'solo-ada'?\n"),
        (("--cluster", "eu1"), "allot: no cluster is named 'eu1'; did you mean 'eu-1'?\n"),
    ],
)
def test_a_name_that_nobody_knows(words: tuple[str, ...], expected_error: str, run_catalog: Allot) -> None:
    result = run_catalog(*words)
    assert (result.code, result.out, result.err) == (2, "", expected_error)


def test_catalog_counts_and_ignores_invalid_declarations(sample: Path, run_catalog: Allot) -> None:
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-quater")
    result = run_catalog()
    assert result.err.splitlines()[0] == "invalid declarations are ignored here: 1 problem, see `allot validate`"
    assert " 24/40 " in row(result, "l4-quarter")
    (sample / "platform/platform.yaml").write_text("kind: x\n")
    broken_platform = run_catalog()
    assert (broken_platform.code, broken_platform.out) == (1, "")
    assert broken_platform.err == "allot: platform/platform.yaml can't be read: `allot validate` shows the reason\n"
