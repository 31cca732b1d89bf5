"""The files of a closed month have each number exactly, and are read back as they were written."""

from __future__ import annotations

import json

import pytest
from tests.support.closed_months import closed, use

from allotment.billing.ledger import CLOSING, InvalidLedger, dump_month, parse_month

MONTH = closed("2026-10", [use("kite", "webui", 5, 10), use("ada", "chat", 5, 3)])


def test_the_files_are_read_back_as_they_were_written() -> None:
    files = dump_month(MONTH)
    assert sorted(files) == [CLOSING, "invoices/ada.json", "invoices/kite.json"]
    assert parse_month(files) == MONTH
    assert dump_month(parse_month(files)) == files


def test_money_is_text_with_all_digits_and_time_is_in_utc() -> None:
    files = dump_month(MONTH)
    closing, invoice = json.loads(files[CLOSING]), json.loads(files["invoices/kite.json"])
    assert (closing["total"], closing["totals"]) == ("2.73", {"ada": "0.63", "kite": "2.10"})
    (line,) = invoice["lines"]
    assert (line["amount"], line["key"]["price"], line["weightedSeconds"]) == ("2.10", "0.21", 36_000)
    assert line["intervals"][0]["start"] == "2026-10-01T03:00:00Z"
    assert files[CLOSING].endswith(b"}\n")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (CLOSING, b'"format": 2', b'"format": 1'),
        (CLOSING, b'"total": "2.73"', b'"total": "money"'),
        (CLOSING, b'"month"', b'"moon"'),
        ("invoices/kite.json", b'"amount"', b'"price"'),
        ("invoices/kite.json", b"{", b"\xff"),
    ],
)
def test_parse_month_refuses_an_invalid_closing_or_invoice(path: str, old: bytes, new: bytes) -> None:
    files = dump_month(MONTH)
    assert old in files[path]
    with pytest.raises(InvalidLedger):
        parse_month({**files, path: files[path].replace(old, new, 1)})


def test_a_month_of_another_format_is_refused() -> None:
    files = {path: data.replace(b'"format": 2', b'"format": 3') for path, data in dump_month(MONTH).items()}
    with pytest.raises(InvalidLedger, match="its format is not 1 or 2"):
        parse_month(files)


def test_a_month_without_a_closing_is_refused() -> None:
    with pytest.raises(InvalidLedger, match=r"closing\.json is missing"):
        parse_month({"invoices/kite.json": b"{}"})
