"""The JSON output of `allot month verify`."""

from __future__ import annotations

from decimal import Decimal

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class DifferenceOutput(Part, frozen=True):
    """The first different line of a file of the ledger: in the ledger, and as it is computed now."""

    path: str
    line: int
    ledger: str
    computed: str


class MonthVerifyOutput(Output, frozen=True, kw_only=True, tag="MonthVerifyOutput"):
    """The verification of a closed month.

    `isVerified` says whether the month is as it was closed. `isSigned` says whether the tag has the signature of the key that the
    platform declared then. `commit` is the commit of the ledger, and `fileCount` the number of compared files.
    """

    month: str
    is_verified: bool
    is_signed: bool
    commit: str
    total: Decimal
    currency: str
    file_count: int
    problems: tuple[str, ...]
    difference: DifferenceOutput | None
