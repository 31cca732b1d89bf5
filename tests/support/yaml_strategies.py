"""Strategies for texts and objects that are difficult to write as YAML."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TRICKY = [
    *(
        "",
        " ",
        "~",
        "null",
        "Null",
        "y",
        "N",
        "yes",
        "On",
        "off",
        "true",
        "False",
        "1",
        "-1",
        "0",
        "012",
        "0o14",
        "0x1f",
        "1e3",
        "1234e56",
        "1:30",
    ),
    *(
        "1_000",
        ".5",
        "1.",
        ".inf",
        ".nan",
        "2026-11-21",
        "2026-11-21T10:00:00Z",
        "=",
        "<<",
        "-",
        "- a",
        "?",
        ":",
        "a:",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
    ),
    *(
        "!t",
        "%d",
        "@x",
        "`x",
        "{a}",
        "[a]",
        "{{ x }}",
        "---",
        "...",
        "a\nb",
        "---\na: b\n",
        "|",
        ">",
        "'",
        '"',
        "\\",
        "\t",
        "\u0085",
        "\u2028",
        "\ufeff",
        "\U0001f680",
    ),
    *(
        "\x7f",
        "\x00",
        "16Gi",
        "500m",
        "0s",
        "30s",
        "1h",
        "/a/b",
        "a/b:c@d",
        "no: yes",
        "key:",
        "a,b",
        "a b",
        "é",
        "\uffff",
        "12e",
        "0b1",
        "+1",
        "a:b",
        "::",
    ),
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(TRICKY)
LEAF = TEXT | st.integers(-(10**12), 10**12) | st.booleans()


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(TEXT, inner, max_size=4) | st.lists(
        LEAF | st.dictionaries(TEXT, inner, min_size=1, max_size=3), max_size=4
    )


FLAT = LEAF | st.just({}) | st.just([])
VALUE = FLAT | _around(FLAT | _around(FLAT | _around(FLAT)))  # st.recursive would draw most of them again and again
OBJECT = st.dictionaries(TEXT, VALUE, min_size=1, max_size=4)
