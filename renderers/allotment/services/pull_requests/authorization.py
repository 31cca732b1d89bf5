"""Checks that an owner changed or approved each changed file.

The owners come from the base of the pull request, because the pull request itself may change them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Any

from allotment.adapters.declaration_source import Source, path_problem
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.tree_comparison import ChangedFile
from allotment.branches.platform_settings import read_lifecycle, read_members
from allotment.declared import documents
from allotment.declared.approvers import ChangeAuthority, list_field_rules
from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.ownership import Ownership
from allotment.declared.layout import ROOTS, DeclarationPath, Scope, parse_path
from allotment.declared.people import Account
from allotment.declared.reading import read_folder
from allotment.problems import Problem
from allotment.rules.ownership import RULE, FileChange, Review, check_authorization
from allotment.services.check.workers import locate_findings

OWNERSHIP_PATH = "platform/ownership.yaml"


def read_ownership(source: Source) -> DeclarationFile[Ownership] | None:
    """Return the Ownership declaration of a source; None if there is none, or if it can't be read."""
    try:
        return read_folder(Scope("platform", ""), [(OWNERSHIP_PATH, source.read(OWNERSHIP_PATH))])[0].get_singleton(
            Ownership
        )
    except (KeyError, OSError):
        return None


def list_forge_teams(source: Source) -> list[str]:
    """Return the forge's teams that a source's Ownership declaration names, sorted."""
    declared = read_ownership(source)
    return sorted({team.forge_team for team in declared.model.spec.teams if team.forge_team}) if declared else []


def is_retired(source: Source, tenant: str) -> bool:
    """Return whether a source declares a tenant as retired."""
    return read_lifecycle(source, tenant) == "Retired"


def find_unauthorized_changes(
    base: CommitSource,
    after: TreeSource,
    platform: ScopeDeclarations,
    changed: Iterable[ChangedFile],
    review: Review,
    teams: Mapping[str, frozenset[Account] | None],
) -> list[Problem]:
    """Return a problem for each change that no owner made or approved; none if the base declares no Ownership."""
    declared = platform.get_singleton(Ownership)
    if declared is None:
        if platform.is_absent(Ownership, "ownership"):
            return []
        return [
            path_problem(OWNERSHIP_PATH, "can't be read at the base, so no change is allowed: correct it first", RULE)
        ]
    spec = declared.model.spec
    restricted = {rule.kind for rule in list_field_rules(spec)}
    files = [build_file_change(base, after, changed_file, restricted) for changed_file in changed]
    authority = ChangeAuthority(spec, partial(read_members, base), teams, partial(is_retired, base))
    findings = list(check_authorization(authority, review, files))
    file_problems = [
        path_problem(finding.path, finding.message, finding.rule) for finding in findings if not finding.field
    ]
    return file_problems + locate_findings([finding for finding in findings if finding.field], after)


def build_file_change(
    base: TreeSource, after: TreeSource, changed_file: ChangedFile, restricted: Container[str]
) -> FileChange:
    """Return the change of a file. It has the content of the file if its kind is in `restricted`."""
    declaration_path = parse_path(changed_file.path) if changed_file.path.split("/")[0] in ROOTS else None
    if not isinstance(declaration_path, DeclarationPath) or declaration_path.kind.name not in restricted:
        return FileChange(changed_file.path)
    (before, before_unread), (now, now_unread) = (
        _read_values(source, changed_file.path, blob)
        for source, blob in ((base, changed_file.old_blob), (after, changed_file.blob))
    )
    return FileChange(changed_file.path, declaration_path.kind.name, before, now, before_unread or now_unread)


def _read_values(source: TreeSource, path: str, blob: str) -> tuple[Any, bool]:
    """Return the values of a document, and whether the document exists but can't be read."""
    if not blob:
        return None, False
    try:
        value = documents.read(source.read(path)).value
    except KeyError:
        value = None
    return value, value is None
