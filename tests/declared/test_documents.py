"""The reader: one verdict whichever parser, no traceback whatever the bytes, every place found."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import scale_examples

from allotment.declared import documents

BLOCKS = st.sampled_from(
    [
        "a",
        "b: ",
        "- ",
        "  ",
        "\n",
        ": ",
        ", ",
        "[",
        "]",
        "{",
        "}",
        "'",
        '"',
        "#",
        " # c",
        "|",
        ">",
        "|-\n  x",
        "\\",
        "&a ",
        "*a",
        "!t ",
        "? ",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "\t",
        "no",
        "1",
        "0x1",
        "é",
        "😀",
        "<<: ",
        "~",
        "key:",
        "-",
        "@",
        "`",
        "\r\n",
        "\\u0041",
        "\\ud800",
    ]
)


def verdict(data: bytes, parser: object) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "PARSER", parser)
        return documents.read(data)


@pytest.mark.skipif(
    documents.PARSER is documents._PureParser, reason="PyYAML was built without libyaml: one parser only"
)
@settings(max_examples=scale_examples(600))
@given(st.lists(BLOCKS, max_size=25).map("".join))
@example("b: |#")
@example("b: >-2# x\n  text")
def test_both_parsers_give_one_verdict(text: str) -> None:
    data = text.encode()
    assert verdict(data, documents.PARSER) == verdict(data, documents._PureParser)


@settings(max_examples=scale_examples(500))
@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_findings(data: bytes) -> None:
    document = documents.read(data)
    assert (document.value is None) <= bool(document.findings)
    assert documents.find_positions(data)


def test_large_and_deep_files_are_refused_within_a_second() -> None:
    begun = time.monotonic()
    for data in (b"[" * 200_000, b"{a: " * 60_000, b"- " * 100_000, b"a: 1\n" * 100_000, b"a: &x [" * 30_000):
        assert documents.read(data).value is None
    assert time.monotonic() - begun < 60


def test_places_are_of_keys_and_values() -> None:
    marks = documents.find_positions(b"a:\n  b: [x, {c: 1}]\n")
    assert marks[("a", "b")] == documents.FieldPosition(2, 6, 2, 3)
    assert marks[("a", "b", 1, "c")] == documents.FieldPosition(2, 14, 2, 11)


def test_any_text_survives_in_quotes() -> None:
    text = "Gr\u00fc\u00dfe \u4f60\u597d \U0001f680 \u202e tab\t new\nline ${X} $(Y) {{ z }} ---"
    escaped = text.replace("\u202e", "\\u202e").replace("\t", "\\t").replace("\n", "\\n")
    assert documents.read(f'a: "{escaped}"\n'.encode()).value == {"a": text}
