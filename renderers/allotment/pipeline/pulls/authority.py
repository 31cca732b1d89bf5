"""Checks that each changed file was changed or approved by one of its owners, by what the base declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.tree_comparison import Changed
from allotment.adapters.source import Source, place_problem
from allotment.declared import documents
from allotment.declared.approvers import Authority
from allotment.declared.inventory import Declared, Folder
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.ownership import Ownership
from allotment.declared.layout import ROOTS, Meaning, Scope, spot_of
from allotment.declared.people import Account
from allotment.declared.reading import read_folder
from allotment.pipeline.check.workers import placed
from allotment.problems import Problem
from allotment.rules.ownership import RULE, FileChange, Review, authorised

PATH = "platform/ownership.yaml"


def ownership_of(source: Source) -> Declared[Ownership] | None:
    """Return who approves what in a source; None where that isn't declared or can't be read."""
    try:
        return read_folder(Scope("platform", ""), [(PATH, source.read(PATH))])[0].one(Ownership)
    except (KeyError, OSError):
        return None


def forge_teams(source: Source) -> list[str]:
    """Return the forge's teams that a source's Ownership names, sorted."""
    declared = ownership_of(source)
    return sorted({team.forge_team for team in declared.model.spec.teams if team.forge_team}) if declared else []


def members_of(source: Source, tenant: str) -> Members | None:
    """Return a tenant's Members in a source; None where it has none that can be read."""
    path = f"tenants/{tenant}/members.yaml"
    try:
        declared = read_folder(Scope("tenant", tenant), [(path, source.read(path))])[0].one(Members)
    except (KeyError, OSError):
        return None
    return declared.model if declared else None


def unauthorised(
    base: CommitSource,
    after: TreeSource,
    platform: Folder,
    changed: Iterable[Changed],
    review: Review,
    teams: Mapping[str, frozenset[Account] | None],
) -> list[Problem]:
    """Return the changes that no owner made or approved; none where the base declares no Ownership."""
    declared = platform.one(Ownership)
    if declared is None:
        if platform.lacks(Ownership, "ownership"):
            return []
        return [place_problem(PATH, "can't be read at the base, so nobody may change anything: mend it first", RULE)]
    spec = declared.model.spec
    restricted = {field.kind for field in spec.fields}
    files = [_file(base, after, changed_file, restricted) for changed_file in changed]
    authority = Authority(spec, lambda tenant: members_of(base, tenant), teams)
    findings = list(authorised(authority, review, files))
    file_problems = [
        place_problem(finding.path, finding.message, finding.rule) for finding in findings if not finding.field
    ]
    return file_problems + placed([finding for finding in findings if finding.field], after)


def _file(base: TreeSource, after: TreeSource, changed_file: Changed, restricted: set[str]) -> FileChange:
    spot = spot_of(changed_file.path) if changed_file.path.split("/")[0] in ROOTS else None
    if not isinstance(spot, Meaning) or spot.kind.name not in restricted:
        return FileChange(changed_file.path)
    (before, before_unread), (now, now_unread) = (
        _values(source, changed_file.path, blob)
        for source, blob in ((base, changed_file.old_blob), (after, changed_file.blob))
    )
    return FileChange(changed_file.path, spot.kind.name, before, now, before_unread or now_unread)


def _values(source: TreeSource, path: str, blob: str) -> tuple[Any, bool]:
    """Return a document's values, and whether there are some that can't be read."""
    if not blob:
        return None, False
    try:
        value = documents.read(source.read(path)).value
    except KeyError:
        value = None
    return value, value is None
