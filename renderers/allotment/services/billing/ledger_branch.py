"""Reads and writes the branch `ledger`, which has a folder for each closed month.

Each closing is a commit on top of the previous closing. Its other parents are the commits of the status branches that the
month was computed from, so that the evidence stays as long as the ledger. The tag `bill/<month>` points at the commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from allotment.adapters.git.commits import NULL_COMMIT, CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tags import delete_tag, write_signed_tag
from allotment.billing.ledger import ClosedMonth, InvalidLedger, dump_month, parse_month
from allotment.problems import OperationRefused

LEDGER_REF = "refs/heads/ledger"
_MONTH_PATH = re.compile(r"([0-9]{4}-[0-9]{2})/(.+)")
_README = b"""# The ledger

`allot month close` writes this branch: a folder for each closed month, with the closing and an invoice for each tenant. Each
commit has the commits of the status branches that prove its month as parents. `allot month verify` computes a month again.

Nobody else writes here. Protect this branch and the tags `bill/*` at the forge.
"""


def tag_name(month: str) -> str:
    """Return the name of the tag of a closed month."""
    return f"bill/{month}"


def tag_ref(month: str) -> str:
    """Return the ref of the tag of a closed month."""
    return f"refs/tags/{tag_name(month)}"


class LedgerBranch(NamedTuple):
    """The ledger at a commit, which is None if no month is closed. `files` maps each path to its blob."""

    repository: Repository
    commit: str | None
    files: dict[str, str]

    @staticmethod
    def fetch(repository: Repository, remote: Remote) -> LedgerBranch:
        """Return the ledger at a remote. Raises OperationRefused if the remote doesn't answer."""
        return LedgerBranch.at(repository, remote.fetch(LEDGER_REF, ours=True).get(LEDGER_REF))

    @staticmethod
    def at(repository: Repository, commit: str | None) -> LedgerBranch:
        """Return the ledger at a commit."""
        return LedgerBranch(repository, commit, dict(repository.listing(commit)) if commit else {})

    @property
    def months(self) -> list[str]:
        """The closed months, sorted."""
        return sorted({match[1] for path in self.files if (match := _MONTH_PATH.fullmatch(path))})

    def list_month_files(self, month: str) -> dict[str, str]:
        """Return the blobs of the files of a closed month, by their names in the folder of the month."""
        prefix = f"{month}/"
        return {path.removeprefix(prefix): blob for path, blob in self.files.items() if path.startswith(prefix)}

    def read_month_files(self, month: str) -> dict[str, bytes]:
        """Return the files of a closed month by their names in the folder of the month."""
        blobs = self.list_month_files(month)
        return dict(zip(blobs, self.repository.read_all(list(blobs.values())), strict=True))

    def read_month(self, month: str) -> ClosedMonth:
        """Return a closed month. Raises OperationRefused if its files can't be read."""
        try:
            closed = parse_month(self.read_month_files(month))
        except InvalidLedger as error:
            raise OperationRefused(f"the month {month} of the ledger can't be read: {error}") from None
        if closed.closing.month != month:
            raise OperationRefused(f"the folder {month} of the ledger has the month {closed.closing.month}")
        return closed

    def find_closing_commit(self, month: str) -> str | None:
        """Return the first commit that has a closed month; None if no commit has it."""
        commit, closing = self.commit, None
        while commit and month in LedgerBranch.at(self.repository, commit).months:
            closing = commit
            parents = self.repository.parents(commit)
            commit = parents[0] if parents else None
        return closing


def write_closing(ledger: LedgerBranch, month: ClosedMonth, evidence: Sequence[str], author: bytes) -> tuple[str, str]:
    """Write the commit of a closing and its signed tag into the repository, and return both.

    `evidence` are the commits of the status branches. Raises OperationRefused if Git can't commit or sign.
    """
    repository, name = ledger.repository, month.closing.month
    previous = ledger.commit or write_commit(
        repository, [], {"README.md": _README}, CommitMessage("Begin the ledger\n", author), base=NULL_COMMIT
    )
    total = f"{month.closing.total} {month.closing.currency}"
    message = f"Close {name}: {total}\n"
    changes: dict[str, bytes | str | None] = {f"{name}/{path}": data for path, data in dump_month(month).items()}
    commit = write_commit(repository, [previous, *evidence], changes, CommitMessage(message, author))
    return commit, write_signed_tag(repository, tag_name(name), commit, message)


def push_closing(remote: Remote, month: str, commit: str, tag: str) -> bool:
    """Push a closing and its tag. Return False if another closing was faster. Raises OperationRefused.

    If the push fails, the repository has no tag.
    """
    try:
        if is_pushed := remote.push({LEDGER_REF: commit, tag_ref(month): tag}):
            return is_pushed
    except OperationRefused:
        delete_tag(remote.repository, tag_name(month))
        raise
    delete_tag(remote.repository, tag_name(month))
    return False
