"""An Ownership as CODEOWNERS, which asks the right people for a review on the forge.

It asks; what enforces is `allot plan`: a forge knows neither fields nor roles, and each has a language of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from allotment.declared.approvers import OWNERSHIP, PLATFORM_TEAM, accounts_of, covers, matches
from allotment.declared.forges import FORGES
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.ownership import Approver, OwnershipSpec
from allotment.declared.people import Account, account

_HEAD = (
    "# Written by `allot ownership codeowners` from platform/ownership.yaml and the tenants' members: change those.\n"
)
ALL = "**"
_IN_PATTERNS = re.compile(r"[.*]")


class Owned(NamedTuple):
    """A pattern as an Ownership has it, and the forge's names of its owners, with `@`."""

    pattern: str
    owners: tuple[str, ...]


def owned(spec: OwnershipSpec, tenants: Collection[str], members: Callable[[str], Members | None]) -> list[Owned]:
    """Return who owns what: of the patterns that match a path the last counts, and the first, `**`, matches all. `tenants`
    are those that there are, `members` returns a tenant's people."""
    platform = _owners(spec, [Approver(team=PLATFORM_TEAM)], None)
    lines: dict[str, Owned] = {}
    for rule in sorted(spec.paths, key=lambda rule: _specificity(rule.path)):
        for pattern, tenant in _of_tenants(rule.path, tenants):
            by_role = any(approver.tenant_role for approver in rule.approvers)
            people = members(tenant) if tenant else None
            owners = _owners(spec, rule.approvers, people) or platform
            lines[pattern if by_role else rule.path] = Owned(pattern if by_role else rule.path, owners)
    if any(matches(rule.path, OWNERSHIP) for rule in spec.paths):
        lines[OWNERSHIP] = Owned(OWNERSHIP, platform)
    ordered = sorted(lines.values(), key=lambda line: (_specificity(line.pattern), line.pattern))
    return [Owned(ALL, platform), *ordered]


def codeowners(owners: Sequence[Owned], forge: str) -> str:
    """Return the file for a forge that says who owns what."""
    write = _regexes if FORGES[forge].has_owner_regexes else _globs
    return _HEAD + "".join(f"{line}\n" for line in write(owners[0].owners, owners[1:]))


def _owners(spec: OwnershipSpec, approvers: Collection[Approver], people: Members | None) -> tuple[str, ...]:
    names: list[str] = []
    teams = {team.name: team for team in spec.teams}
    for approver in approvers:
        if approver.login:
            names.append(_at(account(approver.login)))
        elif approver.tenant_role:
            names += [_at(owner) for owner in sorted(accounts_of(people, approver.tenant_role))]
        elif approver.team and (team := teams.get(approver.team)):
            names += [*([team.forge_team] if team.forge_team else []), *(_at(account(each)) for each in team.logins)]
    return tuple(dict.fromkeys(names))


def _at(owner: Account) -> str:
    """Return how a forge's file names a person: it knows logins alone."""
    return f"@{owner.login}"


def _of_tenants(pattern: str, tenants: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield a pattern for each tenant that it is about; as it is, where it is about none."""
    parts = pattern.split("/")
    if parts[0] != "tenants" or len(parts) < 3:
        yield pattern, ""
        return
    for tenant in sorted(tenants):
        if covers(parts[1], tenant):
            yield "/".join([parts[0], tenant, *parts[2:]]), tenant


def _specificity(pattern: str) -> tuple[int, int]:
    """Return a key by which a pattern that covers another comes before it."""
    stars = sum(10 if part == "**" else "*" in part for part in pattern.split("/"))
    return -stars, len(pattern.replace("*", ""))


def _globs(platform: tuple[str, ...], lines: Sequence[Owned]) -> Iterator[str]:
    """GitHub's and GitLab's: the last line that matches a path decides."""
    yield f"* {' '.join(platform)}"
    for line in lines:
        yield f"/{line.pattern} {' '.join(line.owners)}"


def _regexes(platform: tuple[str, ...], lines: Sequence[Owned]) -> Iterator[str]:
    """Gitea's: every line that matches counts, so that each leaves out what a more specific one has."""
    patterns = [line.pattern for line in lines]
    yield f"{_but(patterns)}.* {' '.join(platform)}"
    for line in lines:
        narrower = [
            narrow_pattern
            for narrow_pattern in patterns
            if narrow_pattern != line.pattern and covers(line.pattern, narrow_pattern)
        ]
        yield f"{_but(narrower)}{_regex(line.pattern)} {' '.join(line.owners)}"


def _but(patterns: list[str]) -> str:
    return f"(?!(?:{'|'.join(_regex(pattern) for pattern in patterns)})$)" if patterns else ""


def _regex(pattern: str) -> str:
    """Return a pattern as a regular expression without a backslash, which Gitea's reader of the file takes for its own."""
    folder = pattern.removesuffix("/**")
    text = _IN_PATTERNS.sub(lambda match: "[.]" if match.group() == "." else "[^/]*", folder)
    return f"{text}/.+" if folder != pattern else text
