"""Render an Ownership as CODEOWNERS, so that a forge requests reviews from the right people.

CODEOWNERS only requests reviews; `allot plan` enforces approvals. CODEOWNERS can express neither the owners of single
fields nor the roles of a tenant's members, and its syntax differs between forges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from allotment.declared.approvers import OWNERSHIP, PLATFORM_TEAM, accounts_of, is_wider, matches
from allotment.declared.forges import FORGES
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.ownership import Approver, OwnershipSpec
from allotment.declared.people import Account, parse_account
from allotment.reports.outputs.ownership import OwnedOutput

HEADER = (
    "# Written by `allot ownership codeowners` from platform/ownership.yaml and the tenants' members: change those.\n"
)
PATHS = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")  # where forges look
ALL_PATHS = "**"
_REGEX_SPECIAL = re.compile(r"[.*]")


def list_owned_patterns(
    spec: OwnershipSpec,
    tenants: Collection[str],
    members: Callable[[str], Members | None],
    is_retired: Callable[[str], bool] = lambda _: False,
) -> list[OwnedOutput]:
    """Return the patterns with their owners. If several patterns match a path, the last pattern applies.

    The first pattern, `**`, matches all paths. `tenants` are the existing tenants, and `members` returns a tenant's
    Members. The platform team also owns the files of a tenant for which `is_retired` is true.
    """
    platform = _owner_names(spec, [Approver(team=PLATFORM_TEAM)], None)
    lines: dict[str, OwnedOutput] = {}
    for rule in sorted(spec.paths, key=lambda rule: _specificity(rule.path)):
        for pattern, tenant in _expand_tenants(rule.path, tenants):
            by_role = any(approver.tenant_role for approver in rule.approvers)
            people = members(tenant) if tenant else None
            owners = _owner_names(spec, rule.approvers, people) or platform
            retired = bool(tenant) and is_retired(tenant)
            if retired:
                owners = tuple(dict.fromkeys((*owners, *platform)))
            owned = pattern if by_role or retired else rule.path
            lines[owned] = OwnedOutput(owned, owners)
    if any(matches(rule.path, OWNERSHIP) for rule in spec.paths):
        lines[OWNERSHIP] = OwnedOutput(OWNERSHIP, platform)
    ordered = sorted(lines.values(), key=lambda line: (_specificity(line.path), line.path))
    return [OwnedOutput(ALL_PATHS, platform), *ordered]


def render_codeowners(owners: Sequence[OwnedOutput], forge: str) -> str:
    """Return the CODEOWNERS file for a forge."""
    write = _regex_lines if FORGES[forge].has_owner_regexes else _glob_lines
    return HEADER + "".join(f"{line}\n" for line in write(owners[0].owners, owners[1:]))


def _owner_names(spec: OwnershipSpec, approvers: Collection[Approver], people: Members | None) -> tuple[str, ...]:
    names: list[str] = []
    teams = {team.name: team for team in spec.teams}
    for approver in approvers:
        if approver.login:
            names.append(_forge_login(parse_account(approver.login)))
        elif approver.tenant_role:
            names += [_forge_login(owner) for owner in sorted(accounts_of(people, approver.tenant_role))]
        elif approver.team and (team := teams.get(approver.team)):
            names += [
                *([team.forge_team] if team.forge_team else []),
                *(_forge_login(parse_account(each)) for each in team.logins),
            ]
    return tuple(dict.fromkeys(names))


def _forge_login(owner: Account) -> str:
    """Return a person's name in CODEOWNERS: the login, because CODEOWNERS does not accept account IDs."""
    return f"@{owner.login}"


def _expand_tenants(pattern: str, tenants: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield, for each tenant that a pattern matches, the pattern for the folder of this tenant, and the tenant's name.

    A pattern outside the tenants' folders is yielded unchanged, with an empty name.
    """
    parts = pattern.split("/")
    if parts[0] != "tenants" or len(parts) < 3:
        yield pattern, ""
        return
    for tenant in sorted(tenants):
        if is_wider(parts[1], tenant):
            yield "/".join([parts[0], tenant, *parts[2:]]), tenant


def _specificity(pattern: str) -> tuple[int, int]:
    """Return a sort key that sorts a pattern before the narrower patterns that it covers."""
    stars = sum(10 if part == "**" else "*" in part for part in pattern.split("/"))
    return -stars, len(pattern.replace("*", ""))


def _glob_lines(platform: tuple[str, ...], lines: Sequence[OwnedOutput]) -> Iterator[str]:
    """Yield the lines for GitHub and GitLab, where the last matching line applies."""
    yield f"* {' '.join(platform)}"
    for line in lines:
        yield f"/{line.path} {' '.join(line.owners)}"


def _regex_lines(platform: tuple[str, ...], lines: Sequence[OwnedOutput]) -> Iterator[str]:
    """Yield the lines for Gitea, where every matching line applies, so each line excludes the more specific patterns."""
    patterns = [line.path for line in lines]
    yield f"{_exclusion_regex(patterns)}.* {' '.join(platform)}"
    for line in lines:
        narrower = [
            narrow_pattern
            for narrow_pattern in patterns
            if narrow_pattern != line.path and is_wider(line.path, narrow_pattern)
        ]
        yield f"{_exclusion_regex(narrower)}{_pattern_regex(line.path)} {' '.join(line.owners)}"


def _exclusion_regex(patterns: list[str]) -> str:
    return f"(?!(?:{'|'.join(_pattern_regex(pattern) for pattern in patterns)})$)" if patterns else ""


def _pattern_regex(pattern: str) -> str:
    """Return a pattern as a regular expression without backslashes.

    Gitea's parser of CODEOWNERS interprets backslashes before it compiles the regular expression.
    """
    folder = pattern.removesuffix("/**")
    text = _REGEX_SPECIAL.sub(lambda match: "[.]" if match.group() == "." else "[^/]*", folder)
    return f"{text}/.+" if folder != pattern else text
