"""What commands print as JSON: its schema says all of it, and amounts keep their digits."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import NamedTuple

import msgspec

from allotment.output_part import Part
from allotment.reports import outputs
from allotment.reports.outputs.output import Output, output_of


class Line(Part, frozen=True):
    """A line of an invoice."""

    per_hour: Decimal


class InvoiceOutput(Output, frozen=True, kw_only=True, tag="InvoiceOutput"):
    """An invoice.

    Its lines are many.
    """

    lines: tuple[Line, ...] = ()


def test_amounts_are_numbers_with_all_their_digits() -> None:
    text = outputs.as_json(InvoiceOutput(lines=(Line(Decimal("0.10")), Line(Decimal("12345678901234567890.05")))))
    assert '"perHour": 0.10\n' in text
    assert '"perHour": 12345678901234567890.05\n' in text
    assert list(json.loads(text)) == ["kind", "apiVersion", "lines"]


def test_a_schema_demands_every_field_and_takes_more() -> None:
    from jsonschema import Draft202012Validator as Validator

    schema = outputs.schema_of(InvoiceOutput, "invoice")
    Validator.check_schema(schema)
    assert schema["$defs"]["InvoiceOutput"]["description"] == "An invoice.\n\nIts lines are many."
    fine = {"kind": "InvoiceOutput", "apiVersion": "allotment.dev/v1alpha1", "lines": [{"perHour": 0.1, "later": 1}]}
    assert Validator(schema).is_valid(fine)
    assert not Validator(schema).is_valid({**fine, "kind": "PlanOutput"})
    assert not Validator(schema).is_valid({**fine, "lines": [{"perHour": "0.1"}]})
    for key in fine:
        assert not Validator(schema).is_valid({name: value for name, value in fine.items() if name != key})


class Buyer(NamedTuple):
    name: str
    note: str = ""


class Order(NamedTuple):
    buyers: list[Buyer]
    note: str = ""

    @property
    def total(self) -> Decimal:
        return Decimal("0.10")


class BuyerOutput(Part, frozen=True):
    """A buyer."""

    name: str
    note: str | None


class OrderOutput(Part, frozen=True):
    """An order."""

    buyers: tuple[BuyerOutput, ...] = msgspec.field(name="people")
    total: Decimal
    note: str
    day: str


def test_an_output_has_the_attributes_of_its_source() -> None:
    order = output_of(OrderOutput, Order([Buyer("ada"), Buyer("eve", "late")]), day="2026-11-21")
    people = [{"name": "ada", "note": None}, {"name": "eve", "note": "late"}]
    assert json.loads(msgspec.json.encode(order)) == {
        "people": people,
        "total": "0.10",
        "note": "",
        "day": "2026-11-21",
    }


def test_a_day_is_text_of_no_format_in_a_schema() -> None:
    class DayOutput(Output, frozen=True, kw_only=True, tag="DayOutput"):
        day: datetime.date

    assert outputs.schema_of(DayOutput, "day")["$defs"]["DayOutput"]["properties"]["day"] == {"type": "string"}
