"""Patterns: what each form of them lets a value be, and in which words a value is refused."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.isolation.hidden_values import HiddenValue
from allotment.isolation.patterns import AnyOf, compile_pattern, find_chosen_slots, find_differences, matches

BOUNDARY = {"tenant": "ada", "class": AnyOf(("fast", "slow")), "none": AnyOf(), "disk": {"size": 5, "own": True}}

PASSES: list[tuple[Any, Any]] = [
    ("x", "x"),
    (True, True),
    (1, 1),
    ("t-<tenant>", "t-ada"),
    ("<class>", "slow"),
    ("of-<class>", "of-fast"),
    ("<disk>", {"size": 5, "own": True}),
    ("<a-name>", "bob"),
    ("<tenant>/<a-name>", "ada/bob"),
    ("<a-number>", 0),
    ("<a-port>", 65535),
    ({"a": "x", "b*": "y"}, {"a": "x"}),
    ({"<a-bill-label>": "<a-label>"}, {"bill.allotment.dev/film": "7"}),
    ([{"each": "<a-name>"}], ["bob", "eve"]),
    ([{"each": "<a-name>"}], []),
    ({"either": ["x", {"y": 1}]}, {"y": 1}),
    ({"a": ["b", {"c": "d"}]}, {"a": ["b", {"c": "d"}]}),
]
FAILS: list[tuple[Any, Any, str]] = [
    ("x", "y", "it is y, must be x"),
    (True, 1, "it is 1, must be True"),
    (1, True, "it is True, must be 1"),
    (0, False, "it is False, must be 0"),
    ("t-<tenant>", "t-bob", "it is t-bob, must be t-<tenant>"),
    ("t-<tenant>", ["t-ada"], "it is ['t-ada'], must be t-<tenant>"),
    ("<class>", "other", "it is other, must be ('fast', 'slow')"),
    ("of-<none>", "of-", "it is of-, must be of-<none>"),
    ("<none>", None, "it is None, must be ()"),
    ("<disk>", {"size": 5, "own": 1}, "it is {'size': 5, 'own': 1}, must be {'size': 5, 'own': True}"),
    ("<unknown>", 0, "it is 0, must be <unknown>"),
    ("<unknown>", "", "it is , must be <unknown>"),
    ("<a-name>", "Bob", "it is Bob, must be <a-name>"),
    ("<a-number>", True, "it is True, must be a number from 0 to 1000000000"),
    ("<a-port>", 0, "it is 0, must be a number from 1 to 65535"),
    ({"a": "x"}, {}, "a is absent, must be x"),
    ({"a": "x"}, [], "it is [], must be a mapping"),
    ({"a": "x"}, {"a": "x", "b": 1}, "b is 1, must be absent: it is not allowed"),
    ({"a": {"b": "x"}}, {"a": {"b": "y"}}, "a.b is y, must be x"),
    ({"a": ["x", {"b": "x"}]}, {"a": ["x", {"b": "y"}]}, "a[1].b is y, must be x"),
    ({"a": ["x"]}, {"a": ["x", "x"]}, "a is 2 entries, must be 1"),
    ({"a": [{"each": "<a-name>"}]}, {"a": "x"}, "a is x, must be a list"),
    ({"<a-bill-label>": "<a-label>"}, {"film": "7"}, "film is 7, must be absent: it is not allowed"),
    ({"either": [{"a": "x", "b": "x"}, {"a": "y"}]}, {"a": "z"}, "a is z, must be y"),
    ({"a": {"either": ["x", "y"]}}, {"a": "z"}, "a is z, must be x"),
]


@pytest.mark.parametrize(("pattern", "value"), PASSES)
def test_find_differences_accepts_a_value_within_the_pattern(pattern: Any, value: Any) -> None:
    assert find_differences([compile_pattern(pattern)], value, BOUNDARY) == []


@pytest.mark.parametrize(("pattern", "value", "words"), FAILS)
def test_find_differences_explains_why_a_pattern_refuses_a_value(pattern: Any, value: Any, words: str) -> None:
    assert [str(difference) for difference in find_differences([compile_pattern(pattern)], value, BOUNDARY)] == [words]


def test_every_difference_is_told_in_order_from_the_pattern_that_is_nearest() -> None:
    patterns = [compile_pattern({"a": 1, "b": 1, "c": 1}), compile_pattern({"a": 1, "d": 1})]
    all_differences = find_differences(patterns, {"a": 2, "d": 2}, {})
    assert [difference.field for difference in all_differences] == ["a", "d"]


def test_without_a_pattern_nothing_passes() -> None:
    assert len(find_differences([], {"a": 1}, {})) == 1


SLOTS = {
    "tenant": "<tenant>",
    "list": [{"each": {"either": [{"name": "scratch"}, {"name": "s-<a-name>", "port*": "<a-port>"}]}}],
}


def test_the_slots_that_accept_by_their_form_are_reported_with_their_paths() -> None:
    value = {"tenant": "ada", "list": [{"name": "scratch"}, {"name": "s-bob", "port": 80}]}
    slots = {("list", 1, "name"): "s-<a-name>", ("list", 1, "port"): "<a-port>"}
    assert find_chosen_slots([compile_pattern(SLOTS)], value, BOUNDARY) == slots
    assert find_chosen_slots([compile_pattern(SLOTS)], {**value, "tenant": "eve"}, BOUNDARY) is None


@pytest.mark.parametrize(
    ("pattern", "slot", "expected"),
    [
        ("<a-name>", "<a-name>", True),
        ("<a-name>", "<a-text>", False),
        ("<tenant>", "<tenant>", False),
        ("x", "<a-text>", False),
        ({"either": [["x"], "<a-text>"]}, "<a-text>", True),
        ({"either": ["x", "<class>"]}, "<a-text>", False),
    ],
)
def test_a_hidden_value_matches_the_form_of_its_own_slot_alone(pattern: Any, slot: str, expected: bool) -> None:
    assert matches([compile_pattern(pattern)], HiddenValue(slot, ()), BOUNDARY) is expected


def test_a_pattern_that_compares_a_hidden_value_does_not_match() -> None:
    value = {"a": HiddenValue("<a-text>", ("a",))}
    assert not matches([compile_pattern({"a": "x"}), compile_pattern("<disk>")], value, BOUNDARY)
    assert matches([compile_pattern({"a": "x"}), compile_pattern({"a": "<a-text>"})], value, BOUNDARY)
