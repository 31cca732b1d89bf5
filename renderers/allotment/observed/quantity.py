"""Parses Kubernetes' quantities, as API servers write them: 44, 43910m, 196Gi, 1e3."""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"^([+-]?[0-9]{0,30}(?:\.[0-9]{0,30})?)(?:([eE][+-]?[0-9]{1,2})|(n|u|m|k|[KMGTPE]i?))?$")
_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(1000),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("MGTPE", 2)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def parse_quantity(text: object) -> Decimal:
    """Return a quantity as a number of cores, bytes or devices; 0 for invalid text, which no API server writes."""
    match = _QUANTITY.match(str(text))
    if match is None or not any(letter.isdigit() for letter in match[1]):
        return Decimal(0)
    return Decimal(match[1] + (match[2] or "")) * _FACTORS.get(match[3] or "", Decimal(1))
