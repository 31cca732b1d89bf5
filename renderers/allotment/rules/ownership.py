"""Ownership: the declared ownership is consistent, and one of the declared approvers makes or approves each change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.declared.approvers import (
    PLATFORM_TEAM,
    ApproverSet,
    ChangeAuthority,
    ambiguous_pairs,
    changes_own_field,
)
from allotment.declared.inventory import Catalog, DeclarationFile
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.ownership import Approver, Ownership
from allotment.declared.people import Account
from allotment.declared.reading import suggest_name
from allotment.problems import Finding, quote_value

RULE = "ownership"
MAX_NAMED_PATHS = 5  # if more files of a folder lack the same approval, a single finding reports the folder


class Review(NamedTuple):
    """The author of a pull request, the accounts that pushed to it, and the accounts that approved its newest commit.

    The forge reports these accounts. `pushers` is None if the forge does not report the pushers.
    """

    author: Account
    pushers: frozenset[Account] | None
    approvers: frozenset[Account] = frozenset()

    def is_sufficient(self, holders: ApproverSet) -> bool:
        """Return whether a holder approved the change, or whether its author and all its pushers are holders.

        `holders` are the accounts that may approve the change.
        """
        if any(map(holders.includes, self.approvers)):
            return True
        return self.pushers is not None and all(map(holders.includes, (self.author, *self.pushers)))


class FileChange(NamedTuple):
    """A file that a change touches, with its parsed content before and after the change.

    `kind` is the kind of the declaration; it is empty if the file is not a declaration.
    `is_unreadable` says that the file before or after the change could not be read, so any field may have changed.
    """

    path: str
    kind: str = ""
    before: Any = None
    after: Any = None
    is_unreadable: bool = False


def check(catalog: Catalog) -> Iterator[Finding]:
    """Check the declared ownership: its teams, kinds and fields exist, and its patterns are unambiguous.

    If two patterns match the same path, either of them must be more specific than the other. The team `platform` must
    exist too, because it approves the files that no pattern matches.
    """
    declared = catalog.platform.get_singleton(Ownership)
    if declared is None:
        return
    spec = declared.model.spec
    teams = {team.name for team in spec.teams}
    for index, team in enumerate(spec.teams):
        if not team.forge_team and not team.logins:
            message = f"team {team.name} has no members: list logins, or a forgeTeam"
            yield declared.make_finding(f"spec.teams.{index}", message, RULE)
    if PLATFORM_TEAM not in teams:
        message = f"no team is named {PLATFORM_TEAM}: it approves the files that no pattern matches, so declare it"
        yield declared.make_finding("spec.teams", message, RULE)
    for index, rule in enumerate(spec.paths):
        in_tenant = rule.path.startswith("tenants/")
        yield from _check_approvers(declared, f"spec.paths.{index}", rule.approvers, teams, in_tenant)
    for index, field in enumerate(spec.fields):
        kind = KINDS.get(field.kind)
        if kind is None:
            message = f"no kind is named {quote_value(field.kind)}{suggest_name(field.kind, KINDS)}"
            yield declared.make_finding(f"spec.fields.{index}.kind", message, RULE)
        elif wrong := _unknown_field(kind.model, field.field):
            yield declared.make_finding(f"spec.fields.{index}.field", f"{field.kind} {wrong}", RULE)
        of_tenant = kind is not None and kind.scope == "tenant"
        yield from _check_approvers(declared, f"spec.fields.{index}", field.approvers, teams, of_tenant)
    for rule, other in ambiguous_pairs(spec.paths):
        index = spec.paths.index(rule)
        message = f"{quote_value(rule.path)} and {quote_value(other.path)} match the same paths, and neither is more specific: make one pattern more specific"
        yield declared.make_finding(f"spec.paths.{index}.path", message, RULE)


def _check_approvers(
    declared: DeclarationFile[Ownership], where: str, approvers: list[Approver], teams: set[str], in_tenant: bool
) -> Iterator[Finding]:
    for index, approver in enumerate(approvers):
        field = f"{where}.approvers.{index}"
        if approver.team and approver.team not in teams:
            yield declared.make_finding(
                f"{field}.team",
                f"no team is named {quote_value(approver.team)}{suggest_name(approver.team, teams)}",
                RULE,
            )
        if approver.tenant_role and not in_tenant:
            message = "tenantRole needs a path in the folder of a tenant, and this path is outside: name a team"
            yield declared.make_finding(f"{field}.tenantRole", message, RULE)


def _unknown_field(model: Any, field: str) -> str:
    """Return the end of an error message if a model lacks a field such as `spec.prices`; empty if it has the field."""
    at = model
    for depth, part in enumerate(field.split(".")):
        fields = {field_info.alias: field_info for field_info in getattr(at, "model_fields", {}).values()}
        if part not in fields:
            field_path = ".".join(field.split(".")[: depth + 1])
            return f"has no field {quote_value(field_path)}{suggest_name(part, fields)}"
        at = _model_of(fields[part].annotation)
    return ""


def _model_of(annotation: Any) -> Any:
    """Return the model in an annotation such as `Model | None`; None for a list."""
    import typing

    if hasattr(annotation, "model_fields"):
        return annotation
    if typing.get_origin(annotation) is list:
        return None
    return next((model for argument in typing.get_args(annotation) if (model := _model_of(argument)) is not None), None)


def check_authorization(authority: ChangeAuthority, review: Review, files: list[FileChange]) -> Iterator[Finding]:
    """Check that an approver made or approved the change of each file, and of each restricted field in the file.

    If more than MAX_NAMED_PATHS files of a folder lack the same approval, a single finding reports the folder.
    """
    lacking: dict[tuple[str, str], list[tuple[str, ApproverSet]]] = {}
    for change in files:
        if changes_own_field(change.kind, change.before, change.after):
            continue
        holders = authority.approvers_of_path(change.path)
        if not review.is_sufficient(holders):
            message = _approval_message(review, "this file", holders)
            lacking.setdefault((_shared_folder(change.path), message), []).append((change.path, holders))
    for (folder, message), entries in lacking.items():
        if folder and len(entries) > MAX_NAMED_PATHS:
            first, holders = entries[0]
            subject = f"{len(entries):,} files of this folder, such as {quote_value(first.removeprefix(folder))}"
            yield Finding(folder, (), _approval_message(review, subject, holders), RULE)
        else:
            yield from [Finding(path, (), message, RULE) for path, _ in entries]
    for change in files:
        if not change.kind:
            continue
        before, after = (object(), object()) if change.is_unreadable else (change.before, change.after)
        for field, owners in authority.approvers_of_fields(change.path, change.kind, before, after):
            if not review.is_sufficient(owners):
                yield Finding(change.path, tuple(field.split(".")), _approval_message(review, field, owners), RULE)


def _shared_folder(path: str) -> str:
    """Return the folder that a finding about several files reports; empty for a file outside all folders.

    The folder is the folder of the tenant or cluster, or for other files, the top-level folder.
    """
    *folders, _ = path.split("/")
    # A path that starts with `../` is outside the folder of the declarations.
    above = next((depth for depth, folder in enumerate(folders) if folder != ".."), len(folders))
    if above == len(folders):
        return ""
    of_one = above == 0 and folders[0] in ("tenants", "clusters")
    return "/".join([*folders[: above + 1 + of_one], ""])


def _approval_message(review: Review, subject: str, holders: ApproverSet) -> str:
    def format_account(account: Account) -> str:  # the ID distinguishes two accounts with the same login
        if not any(each.id for each in holders.accounts):
            return quote_value(account.login)
        return quote_value(str(account)) if account.id else f"{quote_value(account.login)} (unknown id)"

    need = "it needs an approval of the newest commit by"
    if not holders.includes(review.author):
        wrong = f"{format_account(review.author)} may not change {subject}"
        need = "its author, or an approval of its newest commit, must come from"
    elif review.pushers is None:
        wrong = f"its pushers, or its target branch at the time of a push, are unknown, and it changes {subject}"
    else:
        other_pushers = sorted(format_account(pusher) for pusher in review.pushers if not holders.includes(pusher))
        wrong = f"{', '.join(other_pushers)}, who pushed to it, may not change {subject}"
    approved = (
        f", approved by {', '.join(sorted(approver.login for approver in review.approvers))}"
        if review.approvers
        else ""
    )
    unknown = f"; the members of {', '.join(holders.unknown_teams)} could not be read" if holders.unknown_teams else ""
    return f"{wrong}{approved}: {need} {', or '.join(holders.descriptions)}{unknown}"
