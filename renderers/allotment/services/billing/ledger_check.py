"""Checks the writers of the ledger: each closed month has a signed tag, and nobody changed it later."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.history import MAX_COMMITS, is_on_first_parents, list_first_parents
from allotment.billing.ledger import Closing
from allotment.billing.periods import month_period
from allotment.branches.platform_settings import PLATFORM_FILE, read_platform
from allotment.problems import OperationRefused
from allotment.services.billing.billing_source import BillingSource
from allotment.services.billing.ledger_branch import LedgerBranch, tag_name

RESTORE_ADVICE = "Restore the branch ledger and the tags bill/* of origin, and protect them at the forge"


def require_sound_ledger(source: BillingSource, ledger: LedgerBranch) -> None:
    """Raise OperationRefused with all faults of the ledger, if it has any."""
    if faults := list_faults(source, ledger):
        raise OperationRefused(
            f"the ledger is not as `allot month close` wrote it: {'; '.join(faults)}. {RESTORE_ADVICE}"
        )


def list_faults(source: BillingSource, ledger: LedgerBranch) -> list[str]:
    """Return the faults of all closed months."""
    months = sorted({*ledger.tags, *ledger.list_folders(), *ledger.lost_months})
    faults = [fault for month in months for fault in find_faults(source, ledger, month)]
    return faults or list(_find_reordered(source, ledger))


def find_faults(source: BillingSource, ledger: LedgerBranch, month: str) -> Iterator[str]:
    """Yield the faults of a closed month: of its tag, its signature, its files and its evidence.

    The commit with the prices of the month, which must be merged, declares the key of the signature. So a later key doesn't
    make earlier months invalid.
    """
    repository, tag, name = ledger.repository, ledger.tags.get(month), tag_name(month)
    if tag is None and month in ledger.lost_months:
        yield f"this clone has the tag {name}, but origin lacks it: delete it here only if it is none of yours"
        return
    if tag is None:
        yield f"the ledger has the folder {month}, but the tag {name} is missing"
        return
    commit = ledger.closings.get(month)
    if commit is None or ledger.commit is None or not repository.is_ancestor(commit, ledger.commit):
        yield f"the tag {name} points at no commit of the branch ledger"
        return
    if repository.tree_of(commit, month) != repository.tree_of(ledger.commit, month):
        yield f"somebody changed the folder {month} after its closing"
    try:
        closing = ledger.read_closing(month)
    except OperationRefused as error:
        yield str(error)
        return
    if not is_signed(source, ledger, month, closing):
        yield f"the tag {name} is not signed with the spec.billing.publicKey that the platform declared then"
    if _is_key_outdated(source, month, closing.commit):
        yield f"the key of the tag {name} was replaced before {month} ended: a lost key may have signed it"
    if not _is_merged(source, closing.commit):
        yield f"commit {closing.commit}, which has the prices of {month}, is not part of {source.declared.label}"
    if not closing.clusters:
        yield f"the closing of {month} has the usage of no cluster"
    parents = repository.parents(commit)[1:]
    for cluster in closing.clusters:
        if cluster.commit not in parents:
            yield f"{cluster.cluster}: its commit {cluster.commit} is no parent of the closing of {month}"


def is_signed(source: BillingSource, ledger: LedgerBranch, month: str, closing: Closing) -> bool:
    """Return whether the tag of a month has the signature of the key that the platform declared at its closing."""
    repository = ledger.repository
    if not repository.has_object(closing.commit):
        return False
    key = _read_key(CommitSource(source.clone.root, closing.commit, repository))
    return key is not None and repository.is_tag_signed_by(ledger.tags[month], tag_name(month), key)


def _is_key_outdated(source: BillingSource, month: str, commit: str) -> bool:
    """Return whether a merge replaced the key that `commit` declares before the end of a month.

    A month is closed after its end, with the key of that time. Somebody with the old key could name an old commit.
    """
    repository, tip = source.clone.repository, source.declared.source
    key = _read_key(CommitSource(source.clone.root, commit, repository)) if repository.has_object(commit) else None
    if key is None or key == _read_key(tip):
        return False
    prefix = repository.folder_prefix(source.clone.root)
    path = f"{prefix}/{PLATFORM_FILE}" if prefix else PLATFORM_FILE
    end = month_period(month, source.zone).end
    return any(
        merge.time < end and _read_key(CommitSource(source.clone.root, merge.commit, repository)) != key
        for merge in list_first_parents(repository, tip.commit, [path], MAX_COMMITS, since=commit)
    )


def _find_reordered(source: BillingSource, ledger: LedgerBranch) -> Iterator[str]:
    """Yield each month with older declarations than the month before. An old, lost key could sign such a month."""
    previous = None
    for month in ledger.months:
        commit = ledger.read_closing(month).commit
        if previous is not None and not source.clone.repository.is_ancestor(previous, commit):
            yield f"the prices of {month} are older than those of the month before"
        previous = commit


def _is_merged(source: BillingSource, commit: str) -> bool:
    """Return whether a commit was a state of the branch of declarations.

    A pull request can have a commit that its last commit takes back, and then the commit is an ancestor of the tip. Such an ancestor
    counts if it declares the present key of the tags, because nobody else can sign for it.
    """
    repository, tip = source.clone.repository, source.declared.source
    if not source.declared.branch or not repository.has_object(commit):
        return False
    if is_on_first_parents(repository, commit, tip.commit):
        return True
    return repository.is_ancestor(commit, tip.commit) and _read_key(
        CommitSource(source.clone.root, commit, repository)
    ) == _read_key(tip)


def _read_key(source: CommitSource) -> str | None:
    platform = read_platform(source)
    return platform.spec.billing.public_key if platform else None
