"""The bill in FOCUS has the mandatory columns, the amounts of the invoices, and passes the validator of FOCUS."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from tests.support.monthly_bills import bill
from tests.support.priced_uses import used

from allotment.billing.monthly_bill import MonthlyBill
from allotment.declared.values import GIBI
from allotment.reports.focus import render_focus

# FOCUS 1.2, the columns with the feature level Mandatory
MANDATORY = """
BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory ChargeClass
ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost PricingQuantity
PricingUnit ProviderName PublisherName ServiceCategory ServiceName
""".split()
RULES = Path(__file__).with_name("focus_rules.yaml")


def example() -> MonthlyBill:
    """Return a bill with an instance, a storage, a snapshot, a use without a price and an adjustment."""
    volume = {"kind": "GPUStorage", "offer": "block-ssd", "size": 73 * GIBI}
    result = bill(
        used("2026-10-05T06:00", "2026-10-05T16:00", labels={"team": "film", "cost": '"4,7"'}),
        used("2026-10-07T06:00", "2026-10-07T16:00", uid="p2", labels={"team": "film", "cost": '"4,7"'}),
        used("2026-10-02T10:00", "2026-10-12T10:00", name="models", uid="c1", **volume),
        used("2026-10-02T10:00", "2026-10-12T10:00", name="old", uid="s1", **(volume | {"kind": "GPUStorageSnapshot"})),
        used("2026-10-02T10:00", "2026-10-02T11:00", name="new", uid="p3", offer="not-for-sale"),
    )
    line = result.invoices[0].lines[1]
    correction = msgspec.structs.replace(
        line, parts=(), adjusts="2026-09", amount=Decimal("-1.05"), weighted_seconds=-5 * 3600
    )
    return result.with_adjustments({"kite": [correction]})


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_each_day_of_a_line_is_a_row_with_the_mandatory_columns() -> None:
    result = example()
    focus = rows(render_focus(result))
    assert len({(row["ResourceId"], row["ChargeClass"]) for row in focus}) == len(result.invoices[0].lines) == 5
    assert len({(row["ResourceId"], row["ChargePeriodStart"], row["ChargeClass"]) for row in focus}) == len(focus)
    assert set(MANDATORY) <= focus[0].keys()
    assert sum(Decimal(row["BilledCost"]) for row in focus) == result.total
    for row in focus:
        assert [name for name in MANDATORY if not row[name] and name != "ChargeClass"] == []
        assert row["BilledCost"] == row["EffectiveCost"] == row["ListCost"] == row["ContractedCost"]


def test_a_row_names_the_resource_the_price_and_the_time() -> None:
    instance, later = [row for row in rows(render_focus(example())) if row["ResourceName"] == "webui"][:2]
    assert instance["ResourceId"] == "eu-1/kite/instance/webui"
    assert (instance["ServiceCategory"], instance["ServiceSubcategory"]) == ("Compute", "Containers")
    assert (instance["PricingQuantity"], instance["PricingUnit"], instance["ListUnitPrice"]) == (
        "10.0000000000",
        "Unit-Hours",
        "0.21",
    )
    assert (instance["ChargePeriodStart"], instance["ChargePeriodEnd"]) == (
        "2026-10-04T22:00:00Z",
        "2026-10-05T22:00:00Z",
    )
    assert later["ChargePeriodStart"] == "2026-10-06T22:00:00Z"
    assert (instance["BillingPeriodStart"], instance["BillingPeriodEnd"]) == (
        "2026-09-30T22:00:00Z",
        "2026-10-31T23:00:00Z",
    )
    assert json.loads(instance["Tags"]) == {"cost": '"4,7"', "team": "film"}


def test_only_a_closed_month_has_an_invoice() -> None:
    row = rows(render_focus(example()))[0]
    assert (row["InvoiceId"], row["x_IsFinal"]) == ("", "false")
    row = rows(render_focus(example()._replace(closed_in="c0ffee")))[0]
    assert (row["InvoiceId"], row["x_IsFinal"]) == ("2026-10/kite", "true")


def test_storages_are_in_gib_months_and_a_use_without_a_price_has_no_unit_price() -> None:
    focus = {row["ResourceName"]: row for row in rows(render_focus(example()))}
    assert (focus["models"]["PricingUnit"], focus["models"]["ServiceName"]) == ("GiB-Months", "Storages")
    assert Decimal(focus["models"]["PricingQuantity"]) * Decimal("0.10") == pytest.approx(
        Decimal(focus["models"]["BilledCost"])
    )
    assert focus["old"]["ServiceSubcategory"] == "Backup Storage"
    assert (focus["new"]["BilledCost"], focus["new"]["ListUnitPrice"], focus["new"]["SkuPriceId"]) == ("0.00", "", "")


def test_an_adjustment_is_a_correction_of_its_month() -> None:
    correction = rows(render_focus(example()))[-1]
    assert (correction["ChargeClass"], correction["BilledCost"]) == ("Correction", "-1.05")
    assert (correction["ChargePeriodStart"], correction["ChargePeriodEnd"]) == (
        "2026-08-31T22:00:00Z",
        "2026-09-30T22:00:00Z",
    )


def test_a_name_is_no_formula() -> None:
    result = bill(used("2026-10-05T06:00", "2026-10-05T16:00", name="=1+1"))
    assert rows(render_focus(result))[0]["ResourceName"] == "'=1+1"


@pytest.mark.install
def test_the_validator_of_focus_accepts_the_file(tmp_path: Path) -> None:
    """The newest validator in the registry knows FOCUS 1.0, whose columns FOCUS 1.2 has too."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv/bin"
    install = [
        programs / "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "focus-validator==1.0.0",
        "multimethod<2",
    ]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if "No matching distribution" in installed.stderr:  # only without a registry, as the other installing tests
        pytest.skip("needs a package registry for focus-validator")
    assert installed.returncode == 0, installed.stderr
    file = tmp_path / "focus.csv"
    (packages,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    words = ["--validate-version", "1.0", "--override-file", RULES]

    def validate(text: str) -> subprocess.CompletedProcess[str]:
        file.write_text(text, encoding="utf-8")
        command = [programs / "focus-validator", "--data-file", file, *words]
        return subprocess.run(command, cwd=packages, capture_output=True, text=True, check=False)

    text = render_focus(example())
    accepted = validate(text)
    assert "Validation succeeded." in accepted.stdout, accepted.stdout[-2000:] + accepted.stderr[-2000:]
    refused = validate(text.replace("EUR", "MOON"))
    assert "BillingCurrency_IsCurrencyCode failed" in refused.stdout, refused.stdout[-2000:] + refused.stderr[-2000:]
