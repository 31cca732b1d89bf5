"""What commands print as JSON: its schema says all of it, and amounts keep their digits."""

from __future__ import annotations

import json
from decimal import Decimal

from allotment.reports import outputs
from allotment.reports.outputs.output import Output, Part


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
