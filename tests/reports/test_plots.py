"""The plots of a bill have a bar for each day and spec with the right length, and the same facts as text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest
from tests.support.monthly_bills import bill
from tests.support.priced_uses import used

from allotment.billing.monthly_bill import MonthlyBill
from allotment.reports.plots import COLORS, HEIGHT, OTHERS, WIDTH, draw_plots, find_top, render_svg

SVG = "{http://www.w3.org/2000/svg}"


def example() -> MonthlyBill:
    return bill(
        used("2026-10-05T06:00", "2026-10-05T16:00"),
        used("2026-10-06T06:00", "2026-10-06T11:00", offer="l4-whole", uid="p2"),
        used("2026-10-06T06:00", "2026-10-06T08:00", uid="p3"),
    )


def texts(element: Element, name: str) -> list[str]:
    return [str(each.text) for each in element.iter(f"{SVG}{name}")]


def test_each_day_has_a_bar_with_a_part_for_each_spec() -> None:
    days, hours = draw_plots(example(), example().invoices)
    assert [bar.text for bar in days.bars] == [
        "2026-10-05: l4-quarter 2.10 EUR",
        "2026-10-06: l4-whole 4.20 EUR",
        "2026-10-06: l4-quarter 0.42 EUR",
    ]
    assert [tick.label for tick in days.value_ticks] == ["0", "1.25", "2.5", "3.75", "5"]
    first, second, third = days.bars
    assert first.height == pytest.approx(HEIGHT * 2.10 / 5)
    assert (second.y + second.height, third.y + third.height) == (HEIGHT, pytest.approx(second.y)), (
        "the parts are stacked"
    )
    assert second.x - first.x == pytest.approx(WIDTH / 31)
    assert days.description == "6.72 EUR from 2026-10-01 to 2026-10-31; the highest cost is 4.62 EUR on 2026-10-06."
    assert [bar.text for bar in hours.bars] == ["l4-quarter: 3.00 GPU hours", "l4-whole: 5.00 GPU hours"]
    assert [bar.width for bar in hours.bars] == [pytest.approx(WIDTH * 3 / 5), WIDTH]


def test_the_document_has_the_bars_and_the_text_alternatives() -> None:
    document = fromstring(render_svg(example()))  # Allotment has written it
    assert document.attrib["role"] == "img"
    titles = texts(document, "title")
    assert titles[:2] == ["Bill of kite for 2026-10", "Cost per day in EUR"]
    assert "2026-10-06: l4-whole 4.20 EUR" in titles
    assert next(text.split(";")[0] for text in texts(document, "desc")) == "6.72 EUR from 2026-10-01 to 2026-10-31"
    drawn = [each for each in document.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert len(drawn) == 5
    assert not list(document.iter(f"{SVG}script"))
    ids = [each.attrib["id"] for each in document.iter() if "id" in each.attrib]
    assert len(ids) == len(set(ids))


def test_a_bill_without_a_cost_says_so() -> None:
    document = fromstring(render_svg(bill()))  # Allotment has written it
    assert texts(document, "text") == ["Bill of kite for 2026-10: no cost"]


def test_more_specs_than_colors_are_others_together() -> None:
    uses = [
        used(
            "2026-10-05T06:00", f"2026-10-05T{7 + number:02}:00", offer="l4-whole", uid=f"p{number}", name=f"n{number}"
        )
        for number in range(10)
    ]
    result = bill(*uses)
    (invoice,) = result.invoices
    lines = tuple(
        msgspec.structs.replace(line, key=msgspec.structs.replace(line.key, offer=f"a-spec-with-a-long-name-{number}"))
        for number, line in enumerate(invoice.lines)
    )
    days = draw_plots(result, [invoice._replace(lines=lines)])[0]
    assert len(days.legend) == len(COLORS)
    assert (days.legend[0][0], days.legend[-1][0]) == ("a-spec-with-a…", OTHERS)
    assert len({color for _, color in days.legend}) == len(COLORS)
    assert days.bars[-1].text == "2026-10-05: others 5.04 EUR", "1, 2 and 3 hours at 0.84"
    assert sum(bar.height for bar in days.bars) == pytest.approx(HEIGHT * float(invoice.total) / 50)


@pytest.mark.parametrize(
    ("value", "top"), [("0.004", "0.005"), ("1", "1"), ("1.01", "2"), ("4.62", "5"), ("51", "100"), ("1000", "1000")]
)
def test_an_axis_ends_with_a_round_number(value: str, top: str) -> None:
    assert find_top(Fraction(Decimal(value))) == Fraction(Decimal(top))
