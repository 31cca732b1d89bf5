"""Verifies a closed month: computes it again from the commits of its closing, and compares the files of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from allotment.billing.ledger import close_month, dump_month
from allotment.problems import OperationRefused
from allotment.reports.outputs.month_verify import DifferenceOutput, MonthVerifyOutput
from allotment.services.billing.billing_source import BillingSource
from allotment.services.billing.closed_bill import recompute_month
from allotment.services.billing.ledger_branch import LedgerBranch
from allotment.services.billing.ledger_check import RESTORE_ADVICE, find_faults, is_signed

_END = "(end of the file)"


def verify_month(source: BillingSource, ledger: LedgerBranch, month: str) -> MonthVerifyOutput:
    """Return the result of the verification of a closed month.

    It has the problems and the difference because of which the month is not as it was closed; none of them if it is.

    Raises OperationRefused if neither a tag nor a folder has the month, or if its closing can't be read.
    """
    if month not in {*ledger.tags, *ledger.list_folders(), *ledger.lost_months}:
        raise OperationRefused(f"the month {month} is not closed")
    problems = list(find_faults(source, ledger, month))
    if month not in ledger.closings:
        raise OperationRefused(f"{'; '.join(problems)}. {RESTORE_ADVICE}")
    closing = ledger.read_closing(month)
    files, difference = ledger.read_month_files(month), None
    try:
        bill = recompute_month(source.clone.root, ledger, month)
    except OperationRefused as error:
        problems.append(str(error))
    else:
        problems += [f"{record.cluster}: {problem}" for record in bill.clusters for problem in record.problems]
        difference = find_difference(files, dump_month(close_month(bill)))
    return MonthVerifyOutput(
        month=closing.month,
        is_verified=not problems and difference is None,
        is_signed=is_signed(source, ledger, month, closing),
        commit=ledger.closings[month],
        total=closing.total,
        currency=closing.currency,
        file_count=len(files),
        problems=tuple(problems),
        difference=difference,
    )


def find_difference(files: Mapping[str, bytes], computed: Mapping[str, bytes]) -> DifferenceOutput | None:
    """Return the first different line of the files of a month; None if all bytes are equal."""
    for path in sorted(files.keys() | computed.keys()):
        closed, present = files.get(path, b""), computed.get(path, b"")
        if closed == present and (path in files) == (path in computed):
            continue
        pairs = zip_longest(closed.splitlines(keepends=True), present.splitlines(keepends=True))
        for number, (ledger_line, computed_line) in enumerate(pairs, 1):
            if ledger_line != computed_line:
                return DifferenceOutput(path, number, _decode(ledger_line), _decode(computed_line))
        return DifferenceOutput(path, 1, _END, _END)  # one of the two files is missing, and the other is empty
    return None


def _decode(line: bytes | None) -> str:
    return _END if line is None else line.decode("utf-8", "backslashreplace").strip()
