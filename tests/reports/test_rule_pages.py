"""Each rule that a problem may name has a page."""

from __future__ import annotations

import re

from tests.conftest import PROJECT

from allotment.reports.rule_pages import FILE_RULES, rule_pages
from allotment.rules import CHANGE_RULES, PLATFORM_RULES, SHARED_RULES, TENANT_RULES

_AT_THE_END = re.compile(r"\[([a-z]+(?:-[a-z]+)*)\]$", re.MULTILINE)
_IN_CODE = re.compile(r"""(?:RULE = |refuse\(\s*|PydanticCustomError\(\s*|"rule": )"([a-z]+(?:-[a-z]+)*)\"""")
_FINDING = re.compile(r"""(?:Finding|_note|_stop)\((?:[^()]|\([^()]*\))*?, "([a-z]+(?:-[a-z]+)*)"\)""")


def test_every_rule_has_a_page() -> None:
    tables = {*PLATFORM_RULES, *TENANT_RULES, *SHARED_RULES, *CHANGE_RULES}
    golden = {
        rule
        for path in (PROJECT / "tests/declared/bad").glob("*.txt")
        for rule in _AT_THE_END.findall(path.read_text(encoding="utf-8"))
    }
    program = [path.read_text(encoding="utf-8") for path in (PROJECT / "renderers/allotment").rglob("*.py")]
    code = {rule for text in program for pattern in (_IN_CODE, _FINDING) for rule in pattern.findall(text)}
    assert len(golden) > 40
    assert len(code) > 40
    assert (tables | golden | code) - rule_pages().keys() == set()


def test_a_page_is_a_sentence_or_more() -> None:
    assert all(page.endswith(".") and 25 < len(page) < 700 for page in rule_pages().values())
    assert rule_pages()["packing"].startswith("Packing: the nodes of a pool have enough GPUs")
    assert "packing" not in FILE_RULES
