"""Values as people read them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from allotment.declared.values import format_decimal


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(13, 4), "3.25"),
        (Fraction(0), "0"),
        (Fraction(100), "100"),
        (Fraction(1, 40), "0.025"),
        (Fraction(1, 1 << 20), "0.00000095367431640625"),
        (Fraction(-5, 4), "-1.25"),
        (Fraction(6, 7), "~0.857"),
        (Fraction(1, 3), "~0.333"),
    ],
)
def test_a_fraction_is_a_decimal_marked_where_it_had_to_be_rounded(amount: Fraction, text: str) -> None:
    assert format_decimal(amount) == text
