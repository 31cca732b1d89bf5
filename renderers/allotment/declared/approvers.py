"""Determine the approvers of a change from the most specific pattern that matches the path of the file.

Allotment reads the Ownership and the Members at the base. If a pull request makes its author an approver, the author
still cannot approve this pull request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from allotment.declared.kinds.members import Members, Role
from allotment.declared.kinds.ownership import Approver, FieldRule, OwnershipSpec, PathRule
from allotment.declared.people import Account, parse_account

PLATFORM_TEAM = "platform"
OWNERSHIP = "platform/ownership.yaml"  # only the team `platform` approves this file, even if a pattern matches it
ANY_DEPTH = "**"
# Rules that hold unless the Ownership has a rule for the field: no tenant ends its own hold.
_DEFAULT_FIELD_RULES = (
    FieldRule(kind="GPUInstance", field="spec.hold", approvers=[Approver(team=PLATFORM_TEAM)], selfService="Disabled"),
)
_OWN_FIELDS = frozenset((rule.kind, rule.field) for rule in _DEFAULT_FIELD_RULES)
_ROLE_RANKS: dict[Role, int] = {"Viewer": 0, "Member": 1, "Admin": 2}
Segments = list[str]


def matches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path, segment by segment.

    `*` matches any text within a segment. `**` at the end of a pattern matches a single segment or several.
    """
    pattern_segments, segments = pattern.split("/"), path.split("/")
    if pattern_segments[-1] == ANY_DEPTH:
        pattern_segments = pattern_segments[:-1]
        if len(segments) <= len(pattern_segments):
            return False
        segments = segments[: len(pattern_segments)]
    return len(pattern_segments) == len(segments) and all(
        fnmatchcase(*pair) for pair in zip(segments, pattern_segments, strict=True)
    )


def is_wider(wide: str, narrow: str) -> bool:
    """Return whether `wide` matches every path that `narrow` matches."""
    return _segments_cover(wide.split("/"), narrow.split("/"))


def _segments_cover(wide: Segments, narrow: Segments) -> bool:
    if not wide or not narrow:
        return not wide and not narrow
    if wide == [ANY_DEPTH]:
        return True
    if narrow == [ANY_DEPTH]:
        return False
    return _text_covers(wide[0], narrow[0]) and _segments_cover(wide[1:], narrow[1:])


def _text_covers(wide: str, narrow: str) -> bool:
    """Return whether `wide` matches every segment that `narrow` matches. Each pattern has at most one `*`."""
    if "*" not in narrow:
        return fnmatchcase(narrow, wide)
    if "*" not in wide:
        return False
    (start, _, end), (other_start, _, other_end) = wide.partition("*"), narrow.partition("*")
    return other_start.startswith(start) and other_end.endswith(end)


def patterns_overlap(pattern: str, other: str) -> bool:
    """Return whether a path exists that matches both patterns."""
    return _segments_overlap(pattern.split("/"), other.split("/"))


def _segments_overlap(segments: Segments, other: Segments) -> bool:
    if not segments or not other:
        return not segments and not other
    if [ANY_DEPTH] in (segments, other):
        return True
    return _segment_texts_overlap(segments[0], other[0]) and _segments_overlap(segments[1:], other[1:])


def _segment_texts_overlap(text: str, other: str) -> bool:
    if "*" not in text or "*" not in other:
        return _text_covers(text, other) or _text_covers(other, text)
    (start, _, end), (other_start, _, other_end) = text.partition("*"), other.partition("*")
    starts = start.startswith(other_start) or other_start.startswith(start)
    return starts and (end.endswith(other_end) or other_end.endswith(end))


def ambiguous_pairs(rules: Iterable[PathRule]) -> Iterator[tuple[PathRule, PathRule]]:
    """Yield each pair of rules that can match the same path, if neither is more specific. The later rule is first."""
    earlier_rules: list[PathRule] = []
    for rule in rules:
        for other in earlier_rules:
            if patterns_overlap(rule.path, other.path) and is_wider(rule.path, other.path) == is_wider(
                other.path, rule.path
            ):
                yield rule, other
        earlier_rules.append(rule)


def find_path_rule(spec: OwnershipSpec, path: str) -> PathRule | None:
    """Return the most specific rule that matches a path; None if no rule does."""
    best_rule: PathRule | None = None
    for rule in spec.paths:
        if matches(rule.path, path) and (best_rule is None or is_wider(best_rule.path, rule.path)):
            best_rule = rule
    return best_rule


def list_field_rules(spec: OwnershipSpec) -> list[FieldRule]:
    """Return the rules of the Ownership for fields, and the default rules for fields without such a rule."""
    declared = {(rule.kind, rule.field) for rule in spec.fields}
    return [*spec.fields, *(rule for rule in _DEFAULT_FIELD_RULES if (rule.kind, rule.field) not in declared)]


def changes_own_field(kind: str, before: Any, after: Any) -> bool:
    """Return whether a change of a file changes only a field that needs no approval of the path, such as the hold of an instance.

    `before` and `after` are the parsed content of the file.
    """
    for own_kind, field in _OWN_FIELDS:
        is_changed = kind == own_kind and _field_value(before, field) != _field_value(after, field)
        if is_changed and _without_field(before, field) == _without_field(after, field):
            return True
    return False


def find_excluded_parts(spec: OwnershipSpec, path: str, kind: str, before: Any, after: Any) -> Iterator[str]:
    """Yield the path and the fields of a changed file that the Ownership excludes from self service.

    `before` and `after` are the parsed content of the file, or None if the file does not exist.
    """
    if any(rule.self_service == "Disabled" and matches(rule.path, path) for rule in spec.paths):
        yield path
    for field in list_field_rules(spec):
        is_changed = field.kind == kind and _field_value(before, field.field) != _field_value(after, field.field)
        if is_changed and (field.self_service == "Disabled" or (field.kind, field.field) in _OWN_FIELDS):
            yield f"{path} {field.field}"


def tenant_of(path: str) -> str:
    """Return the tenant of a path; empty if the path is in no tenant's folder."""
    parts = path.split("/")
    return parts[1] if parts[0] == "tenants" and len(parts) > 2 else ""


def accounts_of(members: Members | None, role: Role) -> frozenset[Account]:
    """Return the accounts of a tenant's members with at least the role `role`."""
    users = members.spec.users if members else []
    return frozenset(
        parse_account(user.login) for user in users if user.login and _ROLE_RANKS[user.role] >= _ROLE_RANKS[role]
    )


class ApproverSet(NamedTuple):
    """The approvers of a file or field: their accounts, and their descriptions for messages.

    An approver may also change the file or field without an approval.

    `unknown_teams` are the teams at the forge for which the list of members is unknown.
    """

    descriptions: tuple[str, ...]
    accounts: frozenset[Account]
    unknown_teams: tuple[str, ...] = ()

    def includes(self, who: Account) -> bool:
        """Return whether an account is in the set."""
        return any(holder.is_same_person(who) for holder in self.accounts)


class ChangeAuthority:
    """Finds the approvers of files and fields in the Ownership of the base.

    `members` takes the name of a tenant, and returns the tenant's Members at the base, or None. `teams` maps each team
    at the forge to the accounts of its members, or to None if its members are unknown. `is_retired` says whether the base
    declares a tenant as retired.
    """

    def __init__(
        self,
        spec: OwnershipSpec,
        members: Callable[[str], Members | None],
        teams: Mapping[str, frozenset[Account] | None],
        is_retired: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._spec = spec
        self._is_retired = is_retired
        self._members = members
        self._teams = teams
        self._declared = {team.name: team for team in spec.teams}

    def approvers_of_path(self, path: str) -> ApproverSet:
        """Return the approvers of a file.

        If nobody belongs to the teams and roles that approve the file, or if the tenant is retired, the team `platform` may approve
        the file too.
        The team `platform` alone approves the Ownership, files that no pattern matches, and files outside the folder of
        the declarations (`../…`).
        """
        rule = find_path_rule(self._spec, path)
        if rule is None or path == OWNERSHIP or path.startswith("../"):
            return self._resolve_approvers([Approver(team=PLATFORM_TEAM)], "")
        tenant = tenant_of(path)
        holders = self._resolve_approvers(rule.approvers, tenant)
        if (holders.accounts or holders.unknown_teams) and not (tenant and self._is_retired(tenant)):
            return holders
        return self._resolve_approvers([*rule.approvers, Approver(team=PLATFORM_TEAM)], tenant)

    def approvers_of_fields(self, path: str, kind: str, before: Any, after: Any) -> Iterator[tuple[str, ApproverSet]]:
        """Yield each changed field that needs additional approvers, with the additional approvers.

        `before` and `after` are the parsed content of the file before and after the change, or None if the file does
        not exist.
        """
        for rule in list_field_rules(self._spec):
            if rule.kind == kind and _field_value(before, rule.field) != _field_value(after, rule.field):
                yield rule.field, self._resolve_approvers(rule.approvers, tenant_of(path))

    def _resolve_approvers(self, approvers: Iterable[Approver], tenant: str) -> ApproverSet:
        words: list[str] = []
        accounts: set[Account] = set()
        unknown: list[str] = []
        for approver in approvers:
            if approver.login:
                words.append(approver.login)
                accounts.add(parse_account(approver.login))
            elif approver.tenant_role:
                role_accounts = accounts_of(self._members(tenant), approver.tenant_role) if tenant else frozenset()
                people = f": {', '.join(sorted(map(str, role_accounts)))}" if role_accounts else " (there is none)"
                words.append(f"{approver.tenant_role} of {tenant or 'a tenant'}{people}")
                accounts |= role_accounts
            elif approver.team:
                team = self._declared.get(approver.team)
                from_forge = self._teams.get(team.forge_team) if team and team.forge_team else frozenset[Account]()
                if team and team.forge_team and from_forge is None:
                    unknown.append(team.forge_team)
                accounts |= from_forge or frozenset()
                accounts |= set(map(parse_account, team.logins)) if team else set()
                words.append(f"team {approver.team}" + (f" ({team.forge_team})" if team and team.forge_team else ""))
        return ApproverSet(tuple(words), frozenset(accounts), tuple(unknown))


def _field_value(document: Any, field: str) -> Any:
    """Return the value of a field; None if it is absent. Another value than a mapping has the value in each field."""
    for part in field.split("."):
        document = document.get(part) if isinstance(document, dict) else document
    return document


def _without_field(document: Any, field: str) -> Any:
    """Return a copy of a document without a field."""
    name, _, rest = field.partition(".")
    if not isinstance(document, dict) or name not in document:
        return document
    others = {key: value for key, value in document.items() if key != name}
    return others | {name: _without_field(document[name], rest)} if rest else others
