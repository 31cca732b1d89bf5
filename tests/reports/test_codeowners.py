"""CODEOWNERS: whom a forge asks is whose approval `allot plan` takes."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from tests.support.ownership import ACME, SPEC

from allotment.declared.approvers import ChangeAuthority
from allotment.declared.people import Account
from allotment.reports.codeowners import list_owned_patterns, render_codeowners

PATHS = {
    "tenants/acme/instances/web.yaml": {"@Ada-K", "@bob"},
    "tenants/acme/members.yaml": {"@Ada-K"},
    "tenants/acme/tenant.yaml": {"@acme/platform"},
    "tenants/newco/members.yaml": {"@acme/platform"},
    "tenants/newco/instances/web.yaml": {"@acme/platform"},
    "platform/ownership.yaml": {"@acme/platform"},
    ".github/workflows/allot.yaml": {"@acme/platform"},
    "docs/a/b.md": {"@dora"},
}


def lines(forge: str) -> list[list[str]]:
    text = render_codeowners(list_owned_patterns(SPEC, ["acme", "newco"], {"acme": ACME}.get), forge)
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


def by_glob(pattern: str, path: str) -> bool:
    """Return whether GitHub's language matches; of what we write it is enough."""
    if pattern == "*":
        return True
    assert pattern.startswith("/")
    pattern_parts, path_parts = pattern[1:].split("/"), path.split("/")
    if pattern_parts[-1] == "**":
        return path_parts[: len(pattern_parts) - 1] == pattern_parts[:-1] and len(path_parts) >= len(pattern_parts)
    return len(pattern_parts) == len(path_parts) and all(
        fnmatchcase(*pair) for pair in zip(path_parts, pattern_parts, strict=True)
    )


@pytest.mark.parametrize("forge", ["GitHub", "GitLab"])
@pytest.mark.parametrize("path", PATHS)
def test_the_last_line_that_matches_names_the_owners(forge: str, path: str) -> None:
    owner_sets = [set(owners) for pattern, *owners in lines(forge) if by_glob(pattern, path)]
    assert owner_sets[-1] == PATHS[path]


@pytest.mark.parametrize("path", PATHS)
def test_exactly_one_of_giteas_lines_matches(path: str) -> None:
    owner_sets = [set(owners) for pattern, *owners in lines("Gitea") if re.fullmatch(pattern, path)]
    assert owner_sets == [PATHS[path]]
    assert all("\\" not in pattern for pattern, *_ in lines("Gitea")), "its reader takes that for an escape"


@pytest.mark.parametrize("path", PATHS)
def test_approvers_of_path_returns_the_code_owners_of_the_path(path: str) -> None:
    holders = ChangeAuthority(
        SPEC, {"acme": ACME}.get, {"@acme/platform": frozenset({Account("pat", 7)})}
    ).approvers_of_path(path)
    owners = {name.removeprefix("@") for name in PATHS[path]}
    assert {account.login for account in holders.accounts} == {
        "pat" if name == "acme/platform" else name for name in owners
    }


def test_the_platform_team_also_owns_a_retired_tenant() -> None:
    patterns = list_owned_patterns(SPEC, ["acme", "newco"], {"acme": ACME}.get, lambda tenant: tenant == "acme")
    owners = {each.path: each.owners for each in patterns if each.path.startswith("tenants/")}
    assert owners["tenants/acme/members.yaml"] == ("@Ada-K", "@acme/platform")
