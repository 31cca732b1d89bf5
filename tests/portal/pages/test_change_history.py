"""Merges are described by the declarations that they changed."""

from __future__ import annotations

import pytest

from allotment.declared.layout import Scope
from allotment.portal.pages.change_history import describe_merge, group_merges

FILES = [
    ("A", "tenants/solo-ada/instances/webui.yaml"),
    ("D", "tenants/solo-ada/storages/models.yaml"),
    ("M", "tenants/ml-orbit/tenant.yaml"),
    ("M", "platform/specs/l4-quarter.yaml"),
    ("M", "tenants/solo-ada/README.md"),
]


def test_the_changes_are_those_of_each_scope() -> None:
    merge = describe_merge("c1", 7, "Ada", "Merge it", FILES)
    texts = {scope.name: [change.text for change in changes] for scope, changes in merge.changes.items()}
    assert texts == {
        "solo-ada": [
            "GPUInstance webui added",
            "GPUStorage models removed",
            "File tenants/solo-ada/README.md changed",
        ],
        "ml-orbit": ["Tenant ml-orbit changed"],
        "": ["GPUSpec l4-quarter changed"],
    }


def test_a_tenant_gets_its_own_changes_without_subject_and_author() -> None:
    merges = [describe_merge(f"c{number}", number, "Ada", "For ml-orbit (#3)", FILES) for number in (3, 2, 1)]
    groups = group_merges(merges, 2)
    assert set(groups) == {"solo-ada", "ml-orbit"}
    assert [merge.commit for merge in groups["ml-orbit"]] == ["c3", "c2"]
    (first, _) = groups["ml-orbit"]
    assert (first.subject, first.author, first.pull_request) == ("", "", 3)
    assert set(first.changes) == {Scope("tenant", "ml-orbit")}


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        ("Merge pull request #12 from ada/webui", 12),
        ("Merge pull request 'Add webui' (#7) from ada/webui into main", 7),
        ("Add webui (#31)", 31),
        ("Fix issue 4", 0),
        ("Add #5", 0),
        ("(#99999999999)", 0),
    ],
)
def test_the_number_of_the_pull_request(subject: str, number: int) -> None:
    assert describe_merge("c", 1, "Ada", subject, []).pull_request == number
