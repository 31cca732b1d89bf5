"""Applies the rules that compare the folders of several owners, and the rules that compare a folder with its base."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.capacity.cordons import apply_cordons
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.layout import PLATFORM, Scope, path_of
from allotment.declared.reading import read_folder
from allotment.problems import Finding, Problem
from allotment.rules import CHANGE_RULES, SHARED_RULES, packing, references, stock
from allotment.rules.folder_change import FolderChange
from allotment.rules.tally import Tally, TallyBase, TallyEntry, build_tally_entry
from allotment.services.check.check_options import Comparison
from allotment.services.check.workers import locate_findings, read_scope

_MISSING_NAME = re.compile(r"no (?P<kind>\w+) is named '(?P<name>[a-z0-9-]+)'")


class Revision(NamedTuple):
    """A source, its catalog, the tally entries of its tenants, and the hashes of its folders (`content_keys`).

    The tally entry of a tenant is its summary for the rules that compare several tenants.
    """

    source: Source
    catalog: Catalog
    tally_entries: Mapping[str, TallyEntry]
    content_keys: Mapping[Scope, str]


class ChangeCheck(NamedTuple):
    """The problems of a change.

    `base` has the tenants and clusters before the change, or is None if the check has no base.
    """

    problems: list[Problem]
    base: TallyBase | None


NO_CHANGE = ChangeCheck([], None)


def check_changes(revision: Revision, comparison: Comparison, as_of: datetime.date) -> ChangeCheck:
    """Return the problems of the folders in which `revision` differs from the base, and the state at the base.

    The rules about changes compare these folders with the last commit, if `comparison` has it, and otherwise with the base.
    """
    base = comparison.base
    assert base is not None
    old_scopes = set(base.scopes()[0])
    entries = {name: entry for name, entry in revision.tally_entries.items() if Scope("tenant", name) in old_scopes}
    clusters = dict(revision.catalog.clusters)
    changed_scopes: list[Scope] = []
    for scope in sorted(old_scopes | revision.content_keys.keys()):
        if scope in old_scopes and base.files(scope).content_hash == revision.content_keys.get(scope):
            continue
        changed_scopes.append(scope)
        if scope.kind == "tenant" and scope in old_scopes:
            entries[scope.name] = build_tally_entry(revision.catalog, _read_declarations(base, scope, old_scopes))
        elif scope.kind == "cluster":
            declared = _read_declarations(base, scope, old_scopes)
            clusters[scope.name] = apply_cordons(revision.catalog.platform, declared, as_of)
    problems = list_change_problems(
        revision.catalog, comparison.committed or base, revision.source, changed_scopes, comparison.today or as_of
    )
    return ChangeCheck(problems, TallyBase(entries, clusters))


def list_change_problems(
    catalog: Catalog, base: Source, source: Source, changed_scopes: Iterable[Scope], today: datetime.date
) -> list[Problem]:
    """Return the problems of the changes of some folders from `base` to `source`."""
    old_scopes, scopes = (frozenset(side.scopes()[0]) for side in (base, source))
    findings: list[Finding] = []
    for scope in changed_scopes:
        before = _read_declarations(base, scope, old_scopes)
        after = _read_declarations(source, scope, scopes)
        findings += _check_change(FolderChange(catalog, before, after, today))
    return locate_findings(findings, source)


def check_tenant_changes(
    base_revision: Revision, source: Source, tenants: Iterable[str], committed: Source | None = None
) -> ChangeCheck:
    """Return the problems of a change that affects only the folders of `tenants`.

    `source` is the state after the change. `committed` is the last commit, if the base has uncommitted files too.
    """
    catalog, base = base_revision.catalog, committed or base_revision.source
    changed_scopes = [Scope("tenant", name) for name in tenants]
    problems = list_change_problems(catalog, base, source, changed_scopes, catalog.as_of)
    return ChangeCheck(problems, TallyBase(base_revision.tally_entries, catalog.clusters))


def check_shared_rules(source: Source, catalog: Catalog, tally: Tally) -> list[Problem]:
    """Return the problems that several owners cause together."""
    findings = [finding for check in SHARED_RULES.values() for finding in check(catalog, tally)]
    return locate_findings(findings, source)


def blame_changed_stocks(source: Source, catalog: Catalog, tally: Tally, problems: list[Problem]) -> list[Problem]:
    """Return the problems of the catalog. Those about units without room are at the stocks to which the change adds units."""
    others = [problem for problem in problems if problem.rule != packing.RULE]
    if len(others) == len(problems):
        return problems
    return others + locate_findings(packing.check(catalog, tally.is_changed_stock), source)


def explain_removals(problems: Iterable[Problem], base: Source | None) -> list[Problem]:
    """Return the problems; those about a name of the catalog that the base has say that the change removes its file."""
    paths = set(base.files(PLATFORM).paths) if base is not None else set()
    return [_explain_removal(problem, paths) for problem in problems]


def _explain_removal(problem: Problem, base_paths: Collection[str]) -> Problem:
    missing = _MISSING_NAME.match(problem.message) if problem.rule == references.RULE else None
    if missing is None or missing["kind"] not in KINDS or KINDS[missing["kind"]].scope != "platform":
        return problem
    path = path_of(missing["kind"], PLATFORM, missing["name"])
    if path not in base_paths:
        return problem
    message = (
        f"the change removes {missing['kind']} {missing['name']}, and this file uses it: put {path} back, or first"
        " replace it in each file that uses it"
    )
    return problem._replace(message=message)


def merge_problems(*problem_groups: Iterable[Problem]) -> list[Problem]:
    """Return all problems, sorted and without duplicates.

    A field that names an absent object may have two problems: the object is absent, and a stock is too small. In this
    case, leaves out the problem about the stock.
    """
    unique_problems = {problem for problems in problem_groups for problem in problems}
    missing = {candidate[:4] for candidate in unique_problems if candidate.rule == references.RULE}
    return sorted(
        candidate for candidate in unique_problems if candidate.rule != stock.RULE or candidate[:4] not in missing
    )


def _read_declarations(source: Source, scope: Scope, scopes: Collection[Scope]) -> ScopeDeclarations:
    """Return the declarations of a scope; none if the scope is not in `scopes`, the scopes of the source."""
    if scope not in scopes:
        return ScopeDeclarations(scope)
    return read_folder(scope, read_scope(source, scope).files)[0]


def _check_change(change: FolderChange) -> list[Finding]:
    return [finding for check in CHANGE_RULES.values() for finding in check(change)]
