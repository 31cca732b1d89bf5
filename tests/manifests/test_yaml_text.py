"""Manifests as text: read back unchanged, by us and by another YAML reader; cases 23 and 24."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scale_examples
from tests.support.yaml_strategies import OBJECT, TRICKY

from allotment.manifests.yaml_text import Frozen, Malformed, dump, load, number_values


@pytest.mark.process
@settings(max_examples=scale_examples(300))
@given(st.lists(OBJECT, min_size=1, max_size=3))
def test_load_returns_the_objects_that_dump_writes(objects: list[dict[str, object]]) -> None:
    data = dump(objects)
    assert load(data) == objects
    assert list(yaml.safe_load_all(data.decode())) == objects


@pytest.mark.parametrize("text", TRICKY, ids=repr)
def test_a_text_stays_one_text(text: str) -> None:
    data = dump([{"key": text, text: "value", "list": [text, {text: text}]}])
    assert data.count(b"\n---\n") == 0
    for read in (load(data), list(yaml.safe_load_all(data.decode()))):
        assert read == [{"key": text, text: "value", "list": [text, {text: text}]}]


@pytest.mark.parametrize("text", ["y", "no", "null", "1234e56", "0o14", "1:30", "012", "2026-11-21", "0s", "~"])
def test_dump_quotes_a_string_that_a_yaml_reader_could_misread(text: str) -> None:
    assert dump([{"a": text}]) == f'a: "{text}"\n'.encode()


@settings(max_examples=scale_examples(200))
@given(OBJECT)
def test_dump_writes_a_frozen_value_like_a_plain_value(value: dict[str, object]) -> None:
    plain = dump([{"a": {"b": value}, "c": [value]}])
    fixed = Frozen(value)
    assert dump([{"a": {"b": fixed}, "c": [fixed]}]) == plain == dump([{"a": {"b": fixed}, "c": [fixed]}])


@pytest.mark.parametrize(
    "text",
    [
        "a: b",
        "a:  b\n",
        "a: b: c\n",
        "a: [x]\n",
        "a: {b: c}\n",
        "a: 'b'\n",
        "a: &x b\n",
        "a: *x\n",
        "a: !t b\n",
        "a: no\n",
        "a: 012\n",
        "a: |\n  b\n",
        "a: b # c\n",
        "a: b\na: c\n",
        "  a: b\n",
        "a:\n    b: c\n",
        "a:\n  - b\n",
        "- a\n",
        "a: b\n--- \nc: d\n",
        "a: b\n\nc: d\n",
        "\ta: b\n",
        "? a\n: b\n",
        'a: "b" c\n',
        "a: b\r\n",
        "a:\n",
        "on: x\n",
    ],
    ids=repr,
)
def test_nothing_else_is_read(text: str) -> None:
    with pytest.raises(Malformed):
        load(text.encode())


@pytest.mark.parametrize("value", [None, 1.5, b"x", ("a",), {1, 2}])
def test_other_values_are_a_bug(value: object) -> None:
    with pytest.raises(TypeError):
        dump([{"a": value}])


@pytest.mark.parametrize(
    "text", ["a: " + "9" * 6000 + "\n", "".join("  " * i + "a:\n" for i in range(3000))], ids=["long", "deep"]
)
def test_load_reports_text_beyond_the_limits_of_python_as_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        load(text.encode())


def test_each_value_has_the_number_of_its_line() -> None:
    manifest = {"kind": "X", "spec": {"a": "b", "empty": {}, "list": ["x", {"c": 1, "d": True}]}}
    text = dump([manifest]).decode().removesuffix("\n")
    assert number_values(text) == {"kind": 0, "spec": {"a": 2, "empty": {}, "list": [5, {"c": 6, "d": 7}]}}
