"""Who may change what: patterns, and the people behind roles and teams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ownership import ACME, SPEC

from allotment.declared.approvers import ChangeAuthority, find_path_rule, is_wider, matches, patterns_overlap
from allotment.declared.kinds.ownership import OwnershipSpec
from allotment.declared.people import Account

AUTHORITY = ChangeAuthority(SPEC, {"acme": ACME}.get, {"@acme/platform": frozenset({Account("pat", 7)})})
PATTERN = st.lists(st.sampled_from(["a", "b", "*", "a*", "*b", "a*b", "ab"]), min_size=1, max_size=3).map("/".join)
PATH = st.lists(st.sampled_from(["a", "b", "ab", "axb", "x"]), min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("tenants/acme/instances/web.yaml", {"Ada-K", "bob"}),
        ("tenants/acme/members.yaml", {"Ada-K"}),
        ("tenants/acme/tenant.yaml", {"pat"}),
        ("platform/ownership.yaml", {"pat"}),
        (".github/workflows/allot.yaml", {"pat"}),
        ("docs/a/b.md", {"dora"}),
        ("docs", {"pat"}),
        ("tenants/newcomer/members.yaml", {"pat"}),
        ("tenants/newcomer/instances/web.yaml", {"pat"}),
    ],
)
def test_the_most_specific_pattern_decides_and_the_rest_is_the_platform_teams(path: str, allowed: set[str]) -> None:
    assert {account.login for account in AUTHORITY.approvers_of_path(path).accounts} == allowed


def test_the_platform_team_may_remove_a_retired_tenant() -> None:
    retired = ChangeAuthority(
        SPEC, {"acme": ACME}.get, {"@acme/platform": frozenset({Account("pat", 7)})}, lambda tenant: tenant == "acme"
    )
    for path, allowed in (("members.yaml", {"Ada-K", "pat"}), ("instances/web.yaml", {"Ada-K", "bob", "pat"})):
        assert {account.login for account in retired.approvers_of_path(f"tenants/acme/{path}").accounts} == allowed


def test_a_login_is_the_same_in_upper_and_lower_case() -> None:
    admins = AUTHORITY.approvers_of_path("tenants/acme/members.yaml")
    assert admins.includes(Account("ada-k", 12))
    assert not admins.includes(Account("ada", 12))
    assert not admins.includes(Account("ada-\u212a", 12)), "the Kelvin sign, which is k to Unicode"


def test_an_id_is_one_persons_whatever_the_login_is_now() -> None:
    known = ChangeAuthority(SPEC, {"acme": ACME}.get, {"@acme/platform": frozenset({Account("pat", 7)})})
    team = known.approvers_of_path("platform/platform.yaml")
    assert team.includes(Account("pat-renamed", 7))
    assert not team.includes(Account("pat", 8)), "somebody else who took the login"
    assert not team.includes(Account("pat")), "nobody knows who that is"


def test_a_team_that_could_not_be_read_approves_nothing() -> None:
    holders = ChangeAuthority(SPEC, {"acme": ACME}.get, {"@acme/platform": None}).approvers_of_path(
        "platform/platform.yaml"
    )
    assert (holders.accounts, holders.unknown_teams) == (frozenset(), ("@acme/platform",))


def test_a_restricted_field_is_told_where_it_differs() -> None:
    old, new = {"spec": {"prices": [1], "cpu": 4}}, {"spec": {"prices": [2], "cpu": 4}}
    assert [field for field, _ in AUTHORITY.approvers_of_fields("p", "GPUSpec", old, new)] == ["spec.prices"]
    assert [field for field, _ in AUTHORITY.approvers_of_fields("p", "GPUSpec", None, new)] == ["spec.prices"]
    assert not list(AUTHORITY.approvers_of_fields("p", "GPUSpec", old, {"spec": {"prices": [1], "cpu": 8}}))
    assert not list(AUTHORITY.approvers_of_fields("p", "StorageSpec", old, new))


@given(PATTERN, PATTERN, PATH)
def test_a_wider_pattern_matches_every_path_of_a_narrower_pattern(wide: str, narrow: str, path: str) -> None:
    if is_wider(wide, narrow) and matches(narrow, path):
        assert matches(wide, path)
    if matches(wide, path) and matches(narrow, path):
        assert patterns_overlap(wide, narrow)


@given(PATTERN, PATTERN, PATH)
def test_where_both_match_and_one_is_narrower_it_decides(first: str, other: str, path: str) -> None:
    approvers = [{"login": "somebody"}]
    rules = [{"path": pattern, "approvers": approvers} for pattern in {first, other}]
    spec = OwnershipSpec.model_validate({"teams": [{"name": "platform", "logins": ["pat"]}], "paths": rules})
    rule = find_path_rule(spec, path)
    matching = {pattern for pattern in (first, other) if matches(pattern, path)}
    assert (rule is None) == (not matching)
    if rule is not None and matching == {first, other} and is_wider(first, other) and not is_wider(other, first):
        assert rule.path == other


def test_a_rule_for_the_hold_replaces_the_default_rule() -> None:
    held = {"spec": {"hold": {"reason": "x"}}}
    assert [
        (field, holders.descriptions)
        for field, holders in AUTHORITY.approvers_of_fields(
            "tenants/acme/instances/web.yaml", "GPUInstance", held, None
        )
    ] == [("spec.hold", ("team platform (@acme/platform)",))]
    rule = {"kind": "GPUInstance", "field": "spec.hold", "approvers": [{"team": "finance"}]}
    spec = OwnershipSpec.model_validate(SPEC.model_dump(by_alias=True, exclude_none=True) | {"fields": [rule]})
    authority = ChangeAuthority(spec, {"acme": ACME}.get, {})
    owners = [
        holders.descriptions
        for _, holders in authority.approvers_of_fields("tenants/acme/instances/web.yaml", "GPUInstance", None, held)
    ]
    assert owners == [("team finance",)]


def test_any_field_of_an_unreadable_file_counts_as_changed() -> None:
    fields = [field for field, _ in AUTHORITY.approvers_of_fields("p", "GPUSpec", object(), object())]
    assert fields == ["spec.prices"]
