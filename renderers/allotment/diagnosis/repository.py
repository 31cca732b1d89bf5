"""What is wrong with the repository of declarations, before any cluster is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.observed.retention import WAYS_OUT, RetainedTenant
from allotment.problems import counted, printable

MAX_RETAINED = 20  # tenants that are listed


class ClusterBranches(NamedTuple):
    """What is known of a declared cluster from Git. `published` says whether its rendered branch has a commit of ours, `trouble`
    why its status isn't believed or there is none, `silent` whether nothing was reported lately, `age` how old the status is."""

    name: str
    published: bool
    trouble: str
    silent: bool
    age: str
    has_key: bool


class Repository(NamedTuple):
    """What is known of the repository. `missing` are the files of CI and of its pinned program that aren't there. `unpublished`
    counts the resources that are merged, or removed, and not published; `trouble` says why that is not known. `lag` says in a line how
    far publishing is behind, `stopped` why it has stopped. `retained` are the retained tenants, and `record_trouble` is
    the reason that their record does not count. `clusters` is None without a remote to look at."""

    errors: int
    warnings: int
    placeholders: int
    missing: tuple[str, ...]
    has_publisher_key: bool
    unpublished: int
    trouble: str
    clusters: tuple[ClusterBranches, ...] | None
    lag: str = ""
    stopped: str = ""
    retained: tuple[RetainedTenant, ...] = ()
    record_trouble: str = ""


def diagnose(one: Repository) -> list[Diagnosis]:
    """Return what is found about a repository, by topic."""
    found: list[Diagnosis] = []
    for topic, check in (
        ("declarations", _declared),
        ("ci", _ci),
        ("branches", _branches),
        ("status", _status),
        ("keys", _keys),
    ):
        found += (each._replace(topic=topic) for each in check(one))
    return found


def _declared(one: Repository) -> Iterator[Diagnosis]:
    if one.errors:
        yield error("declarations", f"allot validate finds {counted(one.errors, 'error')}", "allot validate")
    if others := one.warnings - one.placeholders:
        yield warning("declarations", f"allot validate finds {counted(others, 'warning')}", "allot validate")
    if one.placeholders:
        words = (
            f"{counted(one.placeholders, 'value')} of the sample {'is' if one.placeholders == 1 else 'are'} still there"
        )
        yield warning("placeholders", words, "allot validate says where: write your own")
    if not one.errors and not one.warnings:
        yield ok("declarations", "allot validate finds nothing")


def _ci(one: Repository) -> Iterator[Diagnosis]:
    if one.missing:
        advice = "allot init in a folder of its own writes them; copy them from there, unless your CI is another"
        yield warning(
            "CI", f"has no {', '.join(one.missing)}: nothing here checks and publishes by a pinned program", advice
        )
    else:
        yield ok("CI", "its workflow, and the files that pin its program, are there")
    yield skipped(
        "branch protection", "Git doesn't say who may push where: docs/operate/repository.md has the forge's rules"
    )


def _branches(one: Repository) -> Iterator[Diagnosis]:
    if one.clusters is None:
        yield skipped("rendered branches", "this repository has no remote named origin, which they would lie in")
        return
    if one.trouble:
        yield error("rendered branches", printable(one.trouble, 1000), "allot publish --dry-run")
    if one.stopped:
        yield error("publishing", f"has stopped: {printable(one.lag, 1000)}", printable(one.stopped, 4000))
    elif one.lag:
        yield warning(
            "publishing", printable(one.lag, 1000), "allot status says why; allot publish --dry-run what is next"
        )
    for tenant in one.retained[:MAX_RETAINED]:
        yield warning(
            f"tenant {tenant.tenant}", f"is retained: {printable(tenant.words, 1000)}", WAYS_OUT[tenant.reason]
        )
    if one.record_trouble:
        yield warning("retained tenants", printable(one.record_trouble, 1000), "the next publish replaces it")
    for each in one.clusters:
        what = f"rendered/{each.name}"
        if each.published:
            yield ok(what, "is published")
        elif not one.trouble:
            yield error(what, "nothing was ever published there", "allot publish, or let CI do it")
    if one.unpublished:
        words = (
            f"{counted(one.unpublished, 'change')} {'is' if one.unpublished == 1 else 'are'} merged and not published"
        )
        advice = "allot status --state merged --state kept --state removing says why"
        yield warning("rendered branches", words, advice)


def _status(one: Repository) -> Iterator[Diagnosis]:
    for each in one.clusters or ():
        what = f"status/{each.name}"
        advice = f"run allot run --report {each.name}, or allot report --cluster {each.name} in it"
        if each.trouble:
            yield error(what, printable(each.trouble, 1000), advice)
        elif each.silent:
            yield error(
                what, f"its cluster was seen {each.age} ago for the last time" if each.age else "is silent", advice
            )
        else:
            yield ok(what, f"is {each.age} old")


def _keys(one: Repository) -> Iterator[Diagnosis]:
    if one.has_publisher_key:
        yield ok("spec.publisher.publicKey", "is declared: only what it signed counts as published")
    else:
        words = "isn't declared: whoever may push to rendered/* says what is published"
        yield warning(
            "spec.publisher.publicKey",
            words,
            "declare it in platform/platform.yaml: docs/operate/repository.md of Allotment",
        )
    without = [each.name for each in one.clusters or () if not each.has_key]
    if without:
        words = f"isn't declared of {', '.join(without)}: whoever may push to status/* says what runs there"
        yield warning(
            "spec.reporter.publicKey",
            words,
            "declare it in the clusters' cluster.yaml: docs/operate/status.md of Allotment",
        )
