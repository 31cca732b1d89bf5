"""docs/reference/rules.md: every rule, of the same words as `allot explain rule`."""

from __future__ import annotations

from collections.abc import Iterator

from allotment import rules
from allotment.reports.rule_pages import FILE_RULES, rule_pages
from tests.reference import paragraphs

HEAD = """# Rules

The word in brackets behind a problem is the rule that it breaks:

    tenants/solo-ada/instances/webui.yaml:8:12: spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'? [reference]

`allot explain reference` shows the same text as this page. `allot validate` checks all of them at once, those about a
change only against a base (`--base origin/main`)."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page's path below docs/reference and its text."""
    known = rule_pages()
    change = set(rules.CHANGE_RULES) - set(rules.PLATFORM_RULES) - set(rules.TENANT_RULES) - set(rules.SHARED_RULES)
    across = [rule for rule in known if rule not in FILE_RULES and rule not in change]
    lines = [HEAD]
    for title, of_it in (
        ("Across files", across),
        ("About a change", sorted(change)),
        ("Of one file", [rule for rule in known if rule in FILE_RULES]),
    ):
        lines += ["", f"## {title}"]
        for rule in of_it:
            lines += ["", f"### {rule}", "", paragraphs(known[rule])]
    yield "rules.md", "\n".join(lines) + "\n"
