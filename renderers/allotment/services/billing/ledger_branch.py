"""Reads and writes the branch `ledger`, which has a folder for each closed month.

Each closing is a commit on top of the previous closing. Its other parents are the commits of the status branches that the
month was computed from, so that the evidence stays as long as the ledger. The tag `bill/<month>` points at the commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from allotment.adapters.git.commits import NULL_COMMIT, CommitMessage, delete_tag, write_commit, write_signed_tag
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.billing.ledger import CLOSING, ClosedMonth, Closing, InvalidLedger, dump_month, invoice_path, parse_month
from allotment.problems import OperationRefused

LEDGER_REF = "refs/heads/ledger"
_MONTH_PATH = re.compile(r"([0-9]{4}-[0-9]{2})/")
_TAG = re.compile(r"refs/tags/bill/([0-9]{4}-[0-9]{2})")
_MAX_DOUBTS = 500  # lines in a message
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
    """The ledger at a commit, which is None if no month is closed.

    `closings` maps each month with a tag to the commit that the tag points at. `tags` maps it to the tag. `lost_months` are
    those with a tag in the clone that the remote lacks: an older backup or another person may have removed it there.
    """

    repository: Repository
    commit: str | None
    closings: Mapping[str, str]
    tags: Mapping[str, str]
    lost_months: frozenset[str] = frozenset()

    @staticmethod
    def fetch(repository: Repository, remote: Remote) -> LedgerBranch:
        """Return the ledger at a remote. Raises OperationRefused if the remote doesn't answer."""
        names = {name: match[1] for name in remote.list_below(tag_ref("")) if (match := _TAG.fullmatch(name))}
        refs = remote.fetch(LEDGER_REF, *names, ours=True)
        tags = {month: refs[name] for name, month in names.items() if name in refs}
        closings = {month: repository.peel_to_commit(tag) for month, tag in tags.items()}
        local_months = {match[1] for name in repository.list_refs(tag_ref("")) if (match := _TAG.fullmatch(name))}
        return LedgerBranch(
            repository,
            refs.get(LEDGER_REF),
            {month: commit for month, commit in closings.items() if commit},
            tags,
            frozenset(local_months - tags.keys()),
        )

    @staticmethod
    def at(repository: Repository, commit: str) -> LedgerBranch:
        """Return the ledger at a commit, with the months that it has there."""
        branch = LedgerBranch(repository, commit, {}, {})
        return branch._replace(closings=dict.fromkeys(branch.list_folders(), commit))

    @property
    def months(self) -> list[str]:
        """The closed months, sorted."""
        return sorted(self.closings)

    def list_folders(self) -> list[str]:
        """Return the months that have a folder at the tip of the ledger, sorted."""
        if self.commit is None:
            return []
        return sorted({match[1] for path in self.repository.listing(self.commit) if (match := _MONTH_PATH.match(path))})

    def read_month_files(self, month: str, paths: Container[str] | None = None) -> dict[str, bytes]:
        """Return the files of a closed month, as its closing wrote them, by their paths in the folder of the month.

        `paths` are the files to read, by default all. Raises OperationRefused if the folder is missing.
        """
        listing = self.repository.listing(self.closings[month], month)
        blobs = {path.removeprefix(f"{month}/"): blob for path, blob in listing.items()}
        names = [path for path in blobs if paths is None or path in paths]
        return dict(zip(names, self.repository.read_all([blobs[path] for path in names]), strict=True))

    def read_closing(self, month: str) -> Closing:
        """Return the closing of a month without its invoices. Raises OperationRefused if it can't be read."""
        return self.read_month(month, tenants=()).closing

    def read_month(self, month: str, tenants: Collection[str] | None = None) -> ClosedMonth:
        """Return a closed month with the invoices of all tenants, or of `tenants` alone.

        Raises OperationRefused if its files can't be read.
        """
        try:
            paths = None if tenants is None else {CLOSING, *map(invoice_path, tenants)}
            closed = parse_month(self.read_month_files(month, paths))
        except InvalidLedger as error:
            raise OperationRefused(f"the month {month} of the ledger can't be read: {error}") from None
        if closed.closing.month != month:
            raise OperationRefused(f"the folder {month} of the ledger has the month {closed.closing.month}")
        return closed


def write_closing(
    ledger: LedgerBranch, month: ClosedMonth, evidence: Sequence[str], doubts: Sequence[str], author: bytes, key: str
) -> tuple[str, str]:
    """Write the commit of a closing and its signed tag into the repository, and return both.

    `evidence` are the commits of the status branches. The message of the commit has the `doubts` that a person accepted. Raises OperationRefused if Git can't commit or sign, or if it signs with
    another key than the public SSH key `key`.
    """
    repository, name = ledger.repository, month.closing.month
    previous = ledger.commit or write_commit(
        repository, [], {"README.md": _README}, CommitMessage("Begin the ledger\n", author), base=NULL_COMMIT
    )
    message = f"Close {name}: {month.closing.total} {month.closing.currency}\n"
    if doubts:
        rest = [f"and {len(doubts) - _MAX_DOUBTS} more"] if len(doubts) > _MAX_DOUBTS else []
        message += "".join(["\nAccepted doubts:\n", *(f"- {doubt}\n" for doubt in (*doubts[:_MAX_DOUBTS], *rest))])
    changes: dict[str, bytes | str | None] = {f"{name}/{path}": data for path, data in dump_month(month).items()}
    commit = write_commit(repository, [previous, *evidence], changes, CommitMessage(message, author))
    try:
        tag = write_signed_tag(repository, tag_name(name), commit, message)
    finally:
        delete_tag(repository, tag_name(name))
    if repository.peel_to_commit(tag) != commit:
        raise OperationRefused("another closing runs in this clone: run the command again")
    if not repository.is_tag_signed_by(tag, tag_name(name), key):
        raise OperationRefused(
            "Git signs with another key than spec.billing.publicKey of the platform: name its private key with --signing-key"
        )
    return commit, tag


def push_closing(remote: Remote, month: str, commit: str, tag: str) -> bool:
    """Push a closing and its tag. Return False if another closing was faster. Raises OperationRefused."""
    return remote.push({LEDGER_REF: commit, tag_ref(month): tag})
