"""The prose check finds the constructions that readers stumble over, and nothing in code."""

from __future__ import annotations

import pytest

from tests.prose import find_signs


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Who is invalid keeps the files.", "clause as subject"),
        ("It compares what both are rendered to.", "clause as noun"),
        ("A tenant that is retained is one that failed.", "pronoun"),
        ("The file is made anew by it.", "private word"),
    ],
)
def test_each_construction_is_found_with_its_line(sentence: str, name: str) -> None:
    signs, words = find_signs("page.md", f"# Title\n\nFine words here.\n\n{sentence}\n")
    assert [(sign.line, sign.name) for sign in signs] == [(5, name)]
    assert words > 5
    (sign,), _ = find_signs("module.py", f'"""Fine."""\n\nx = 1  # {sentence}\n')
    assert (sign.line, sign.name) == (3, name)
    assert str(sign).startswith(f"module.py:3: {name}: …")


def test_a_reason_beside_the_sentence_excepts_it() -> None:
    assert find_signs("page.md", "<!-- prose: a quotation -->\nIt prints what it was told.\n")[0] == []
    assert find_signs("module.py", "# prose: a quotation\n# It prints what it was told.\n")[0] == []
    assert find_signs("page.md", "<!-- prose: -->\nIt prints what it was told.\n")[0] != []


def test_code_is_no_prose() -> None:
    page = "```console\n$ echo what it was told\n```\n\n    what it was told\n\nSee `what it was told` and [this](what.md).\n"
    assert find_signs("page.md", page)[0] == []
    assert find_signs("module.py", "told = what = 1\nkey = 'what told'\n")[0] == []
