"""Diagnoses the repository of declarations, without reading a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.problems import escape_unprintable, pluralize

MAX_RETAINED = 20  # maximum number of tenants in the list


class ClusterBranches(NamedTuple):
    """The state of a declared cluster in Git.

    `published` is True if the rendered branch of the cluster has one of our commits. `fault` is the change of somebody else
    to the branch, if any. If the status of the cluster is missing or not trusted, `error` is the reason; `is_distrusted`
    says that it is not trusted. `silent` is True if the reporter has not observed the cluster recently, and `age` is the
    age of the status. `has_key` is True if the cluster declares the public key of its reporter.
    """

    name: str
    published: bool
    fault: str
    error: str
    silent: bool
    age: str
    has_key: bool
    is_distrusted: bool = False


class BranchState(NamedTuple):
    """The state of the rendered branches and the status branches.

    - `unpublished` is the number of merged changes and removals that aren't published. If this number is unknown,
      `status_error` is the reason.
    - `lag` says how far publishing lags behind the merged commits. If publishing has stopped, `stopped` is the reason.
    - `retained` are the tenants that stay at their last published manifests. If the record of these tenants is not
      valid, `record_trouble` is the reason.
    """

    unpublished: int
    status_error: str
    clusters: tuple[ClusterBranches, ...]
    lag: str = ""
    stopped: str = ""
    retained: tuple[RetainedTenant, ...] = ()
    record_trouble: str = ""


class LedgerState(NamedTuple):
    """The state of the ledger at origin, and of the prices of the open months.

    `months` are the closed months. `faults` are the reasons why the ledger is not as it was closed. `late_prices` describe the
    prices and settings that were merged after the time that they apply to. If they can't be found out, `skip_reason` says why.
    """

    months: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    late_prices: tuple[str, ...] = ()
    skip_reason: str = ""


class RepositoryState(NamedTuple):
    """The state of the repository, in Git and in its working tree.

    - `errors` and `warnings` are numbers of findings. `placeholders` is the number of warnings about values of the
      sample that nobody has replaced. `open_blanks` is the number of values in README.md that nobody has ticked off.
    - `missing_files` are the files that CI needs and that do not exist. `outdated_code_owners` is the path of the file of code
      owners if it differs from the Ownership, and otherwise empty.
    - `branches` and `ledger` are None if the repository has no commit, or no remote `origin`. `git_error` is the reason if
      Git can't read the repository.
    """

    errors: int
    warnings: int
    placeholders: int
    open_blanks: int
    missing_files: tuple[str, ...]
    has_publisher_key: bool
    branches: BranchState | None
    ledger: LedgerState | None = None
    git_error: str = ""
    outdated_code_owners: str = ""


def diagnose_repository(repository: RepositoryState) -> list[Diagnosis]:
    """Return the diagnoses of a repository, by topic."""
    return [
        *_with_topic("declarations", _check_declarations(repository)),
        *_with_topic("ci", _check_ci(repository)),
        *_with_topic("branches", _check_git(repository)),
        *diagnose_branches(repository.branches, repository.has_publisher_key),
        *_with_topic("ledger", _check_ledger(repository.ledger)),
    ]


def diagnose_branches(branches: BranchState | None, has_publisher_key: bool) -> list[Diagnosis]:
    """Return the diagnoses of the branches and of the keys that protect them, by topic."""
    clusters = branches.clusters if branches is not None else ()
    return [
        *_with_topic("branches", _check_branches(branches)),
        *_with_topic("status", _check_status(clusters)),
        *_with_topic("keys", _check_keys(clusters, has_publisher_key)),
    ]


def _with_topic(topic: str, diagnoses: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    return (msgspec.structs.replace(each, topic=topic) for each in diagnoses)


def _check_declarations(repository: RepositoryState) -> Iterator[Diagnosis]:
    if repository.errors:
        yield error("declarations", f"allot validate finds {pluralize(repository.errors, 'error')}", "allot validate")
    if other_warnings := repository.warnings - repository.placeholders:
        yield warning("declarations", f"allot validate finds {pluralize(other_warnings, 'warning')}", "allot validate")
    if repository.placeholders:
        message = f"{pluralize(repository.placeholders, 'value')} of the sample {'has' if repository.placeholders == 1 else 'have'} not been replaced"
        yield warning("placeholders", message, "allot validate names the fields: write your own values")
    if repository.open_blanks:
        message = f"README.md lists {pluralize(repository.open_blanks, 'value')} of `allot init` as not filled in"
        yield warning("placeholders", message, "replace the values, and tick them off in README.md")
    if not repository.errors and not repository.warnings:
        yield ok("declarations", "allot validate finds nothing")


def _check_ci(repository: RepositoryState) -> Iterator[Diagnosis]:
    if repository.missing_files:
        advice = "run allot init in an empty folder and copy the files from there, unless you use another CI"
        yield warning(
            "CI",
            f"has no {', '.join(repository.missing_files)}: no CI here validates and publishes with a pinned program",
            advice,
        )
    else:
        yield ok("CI", "the workflow and the files that pin the program exist")
    if path := repository.outdated_code_owners:
        message = f"{path} differs from the Ownership and the members of the tenants, so the forge asks other people for reviews"
        yield warning("code owners", message, f"allot ownership codeowners > {path}")
    yield skipped(
        "branch protection",
        "Git doesn't show push permissions: docs/operate/repository.md lists the rules for the forge",
    )


def _check_git(repository: RepositoryState) -> Iterator[Diagnosis]:
    if repository.git_error:
        yield error("Git", escape_unprintable(repository.git_error, 1000), "git status shows Git's answer")


def _check_branches(branches: BranchState | None) -> Iterator[Diagnosis]:
    if branches is None:
        yield skipped("rendered branches", "this repository has no remote named origin for these branches")
        return
    if branches.status_error:
        yield error("rendered branches", escape_unprintable(branches.status_error, 1000), "allot publish --dry-run")
    if branches.stopped:
        yield error(
            "publishing",
            f"has stopped: {escape_unprintable(branches.lag, 1000)}",
            escape_unprintable(branches.stopped, 4000),
        )
    elif branches.lag:
        yield warning(
            "publishing",
            escape_unprintable(branches.lag, 1000),
            "allot status shows the cause; allot publish --dry-run shows the next publish",
        )
    for tenant in branches.retained[:MAX_RETAINED]:
        yield warning(
            f"tenant {tenant.tenant}", f"is retained: {escape_unprintable(tenant.words, 1000)}", WAYS_OUT[tenant.reason]
        )
    if branches.record_trouble:
        yield warning(
            "retained tenants", escape_unprintable(branches.record_trouble, 1000), "the next publish replaces it"
        )
    for each in branches.clusters:
        subject = f"rendered/{each.name}"
        if each.fault:
            advice = (
                "protect the branch at the forge, so that only the publisher can push; the next publish restores it"
            )
            yield error(subject, each.fault, advice)
        elif each.published:
            yield ok(subject, "is published")
        elif not branches.status_error and not branches.stopped:
            yield error(subject, "nothing has been published yet", "run allot publish, or let CI publish")
    if branches.unpublished:
        message = f"{pluralize(branches.unpublished, 'change')} {'is' if branches.unpublished == 1 else 'are'} merged and not published"
        advice = "allot status --state merged --state kept --state removing shows the reasons"
        yield warning("rendered branches", message, advice)


def _check_ledger(ledger: LedgerState | None) -> Iterator[Diagnosis]:
    if ledger is None:
        yield skipped("closed months", "this repository has no remote named origin for the ledger")
        return
    for fault in ledger.faults:
        advice = (
            "push the branch ledger and the tags bill/* again from a clone that has them, and protect them at the forge"
        )
        yield error("closed months", escape_unprintable(fault, 1000), advice)
    for text in ledger.late_prices:
        advice = "declare the earlier value again, or let finance accept it: allot month close --accept-late-prices"
        yield warning("prices", escape_unprintable(text, 1000), advice)
    if ledger.skip_reason:
        yield skipped("prices", escape_unprintable(ledger.skip_reason, 1000))
    elif not ledger.faults and not ledger.late_prices:
        months = f"{pluralize(len(ledger.months), 'month')}, until {ledger.months[-1]}" if ledger.months else "no month"
        yield ok("closed months", f"{months}; each price of the open months was merged before its day")


def _check_status(clusters: Sequence[ClusterBranches]) -> Iterator[Diagnosis]:
    for each in clusters:
        subject = f"status/{each.name}"
        advice = f"run allot run --report {each.name}, or allot report --cluster {each.name} in the cluster"
        if each.is_distrusted:
            who = f"list the accounts with a right to push to {subject} and its ref, and protect both at the forge; the next status replaces it"
            yield error(subject, escape_unprintable(each.error, 1000), who)
        elif each.error:
            yield error(subject, escape_unprintable(each.error, 1000), advice)
        elif each.silent:
            yield error(subject, f"its cluster was last observed {each.age} ago" if each.age else "is silent", advice)
        else:
            yield ok(subject, f"is {each.age} old")


def _check_keys(clusters: Sequence[ClusterBranches], has_publisher_key: bool) -> Iterator[Diagnosis]:
    if has_publisher_key:
        yield ok("spec.publisher.publicKey", "is declared: only commits signed with this key are accepted as published")
    else:
        message = "isn't declared: anyone who can push to rendered/* can change the published manifests"
        yield warning(
            "spec.publisher.publicKey",
            message,
            "declare it in platform/platform.yaml: docs/operate/repository.md of Allotment",
        )
    without = [each.name for each in clusters if not each.has_key]
    if without:
        message = f"isn't declared for {', '.join(without)}: anyone who can push to status/* can forge the status and the usage of tenants"
        yield warning(
            "spec.reporter.publicKey",
            message,
            "declare it in the clusters' cluster.yaml: docs/operate/status.md of Allotment",
        )
