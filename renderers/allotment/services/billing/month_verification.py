"""Verifies a closed month: computes it again from the commits of its closing, and compares the files of the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.billing.ledger import Closing, close_month, dump_month
from allotment.problems import OperationRefused
from allotment.services.billing.billing_source import BillingSource
from allotment.services.billing.closed_bill import recompute_month
from allotment.services.billing.ledger_branch import LedgerBranch, tag_name, tag_ref

_END = "(end of the file)"


class Difference(NamedTuple):
    """The first different line of a file: in the ledger, and as it is computed now."""

    path: str
    line: int
    ledger: str
    computed: str


class Verification(NamedTuple):
    """The result of a verification.

    `commit` closed the month. `is_signed` says whether the declared key signed the tag; None if no key is declared.
    `problems` and `difference` are the reasons why the month is not as it was closed; both are empty if it is.
    """

    commit: str
    closing: Closing
    file_count: int
    is_signed: bool | None
    problems: tuple[str, ...]
    difference: Difference | None

    @property
    def is_verified(self) -> bool:
        """Whether the month is as it was closed."""
        return not self.problems and self.difference is None


def verify_month(source: BillingSource, remote: Remote, ledger: LedgerBranch, month: str) -> Verification:
    """Return the result of the verification of a closed month at a remote.

    Raises OperationRefused if the month is not closed, or if the remote, a commit or a file can't be read.
    """
    repository = source.clone.repository
    commit = ledger.find_closing_commit(month)
    if commit is None:
        raise OperationRefused(f"the month {month} is not closed")
    closed = LedgerBranch.at(repository, commit)
    closing = closed.read_month(month).closing
    tag = remote.fetch(tag_ref(month)).get(tag_ref(month))
    key = source.platform.spec.billing.public_key
    is_signed = None if key is None else tag is not None and repository.is_tag_signed_by(tag, key)
    problems = [
        *_check_tag(repository, month, commit, tag, is_signed=is_signed),
        *_check_history(ledger, closed, month),
        *_check_evidence(source, commit, closing),
    ]
    bill = recompute_month(source.clone.root, ledger, month)
    problems += [f"{record.cluster}: {problem}" for record in bill.clusters for problem in record.problems]
    files = closed.read_month_files(month)
    difference = find_difference(files, dump_month(close_month(bill)))
    return Verification(commit, closing, len(files), is_signed, tuple(problems), difference)


def find_difference(files: Mapping[str, bytes], computed: Mapping[str, bytes]) -> Difference | None:
    """Return the first different line of the files of a month; None if all bytes are equal."""
    for path in sorted(files.keys() | computed.keys()):
        closed, present = files.get(path, b""), computed.get(path, b"")
        if closed == present and (path in files) == (path in computed):
            continue
        pairs = zip_longest(closed.splitlines(keepends=True), present.splitlines(keepends=True))
        for number, (ledger_line, computed_line) in enumerate(pairs, 1):
            if ledger_line != computed_line:
                return Difference(path, number, _decode(ledger_line), _decode(computed_line))
        return Difference(path, 1, _END, _END)  # one of the two files is missing, and the other is empty
    return None


def _decode(line: bytes | None) -> str:
    return _END if line is None else line.decode("utf-8", "backslashreplace").strip()


def _check_tag(
    repository: Repository, month: str, commit: str, tag: str | None, *, is_signed: bool | None
) -> Iterator[str]:
    if tag is None:
        yield f"the tag {tag_name(month)} is missing"
        return
    target = repository.peel_to_commit(tag)
    if target != commit:
        yield f"the tag {tag_name(month)} points at {target}, but commit {commit} closed the month"
    if is_signed is False:
        yield f"the tag {tag_name(month)} is not signed with spec.billing.publicKey of the platform"


def _check_history(ledger: LedgerBranch, closed: LedgerBranch, month: str) -> Iterator[str]:
    """Yield each file of the month that a later commit of the ledger changed."""
    then, now = closed.list_month_files(month), ledger.list_month_files(month)
    for path in sorted(then.keys() | now.keys()):
        if then.get(path) != now.get(path):
            yield f"the ledger has another {month}/{path} than at the closing"


def _check_evidence(source: BillingSource, commit: str, closing: Closing) -> Iterator[str]:
    repository = source.clone.repository
    parents = repository.parents(commit)[1:]
    for cluster in closing.clusters:
        if cluster.commit not in parents:
            yield f"{cluster.cluster}: its commit {cluster.commit} is no parent of the closing"
    declared = source.declared
    is_merged = repository.has_object(closing.commit) and repository.is_ancestor(closing.commit, declared.source.commit)
    if not is_merged:
        yield f"commit {closing.commit}, which has the prices, is not part of {declared.label}"
