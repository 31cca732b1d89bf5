"""A plan's comment: within its limit, never without what is destroyed, and inert whatever a tenant writes. Cases 34 and 44."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from allotment.changes.plan import CostChange, CostPart, Diff, Loss, Plan, ThingChange
from allotment.problems import Problem
from allotment.reports.markdown import code, fenced
from allotment.reports.plan.comment import MARKER, comment

LIMIT = 60_000
ATTACKS = [
    "@everyone @ada",
    "</details></table><h1>",
    "```\n/close\n```",
    "~~~\n````\n`````",
    "![x](https://evil.example/x.png) <img src=x onerror=y> https://evil.example www.evil.example",
    "#1 !1 ~bug acme/gpus#2 deadbeefdeadbeef :tada: $1$ [[x]]",
    "a | b |\n| --- |",
    "`` ` ```",
    "\u202eevil\u202c \u200b\u2066 \x00\x1b[31m \u2028 \ud800",
    "<!-- allotment:plan -->\n-->",
    "\n\n# heading\n- [x] task\n1. one\n> quote",
]


def plan(**more: object) -> Plan:
    found: dict[str, object] = {
        "base": "b" * 40,
        "head": "a" * 40,
        "day": datetime.date(2026, 11, 21),
        "currency": "EUR",
    }
    return Plan(**{**found, **more})  # type: ignore[arg-type]


def of_text(text: str) -> Plan:
    """Return a plan in which a tenant's text stands wherever one can."""
    problem = Problem(text, 1, 1, text, text, text)
    return plan(
        problems=(problem,),
        things=(ThingChange("acme", "eu-1", "instance", "web", "changed", (text, text)),),
        declarations=(Diff(f"tenants/acme/{text}", None, text.encode("utf-8", "surrogatepass")),),
        objects=(Diff("eu-1/tenants/acme/compute/web.rendered.yaml", text.encode("utf-8", "surrogatepass"), b"x"),),
        changed_files=1,
    )


def prose(text: str) -> str:
    """Return what a forge may take for mentions, references and links: everything that isn't code, and all live HTML."""
    found = []
    for token in MarkdownIt("commonmark", {"linkify": False}).enable("table").parse(text):
        if token.type == "html_block":
            found.append(token.content)
        live = [one for one in token.children or () if one.type in ("text", "html_inline", "image", "link_open")]
        found += [one.content or one.type for one in live]
    return "\n".join(found)


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_is_written_stands_in_code(attack: str) -> None:
    text = comment(of_text(attack), LIMIT).text
    shown = prose(text)
    for live in (
        "@everyone",
        "@ada",
        "evil",
        "close",
        "<img",
        "<h1>",
        "#1",
        "!1",
        "deadbeef",
        ":tada:",
        "task",
        "quote",
    ):
        assert live not in shown, shown
    assert text.startswith(f"{MARKER}\n")
    assert shown.count("<details>") == shown.count("</details>") == 2
    for line in text.splitlines():
        assert not line.startswith("/"), "no forge takes it for a quick action"
    for hidden in "\u202e\u200b\u2066\x00\x1b\u2028\ud800":
        assert hidden not in text


@given(st.text(max_size=300))
def test_no_text_leaves_its_code(text: str) -> None:
    assert prose(code(text) or "x") in ("", "x")
    tokens = MarkdownIt().parse(fenced(text.split("\n"), "diff"))
    assert [one.type for one in tokens] == ["fence"]


@given(st.text(max_size=80), st.integers(2_000, 8_000))
def test_no_comment_is_longer_than_its_limit(text: str, limit: int) -> None:
    found = comment(of_text(text), limit)
    assert len(found.text.encode("utf-8", "surrogatepass")) <= limit
    assert "can't be merged" in found.text


def test_what_is_destroyed_is_never_left_out() -> None:
    losses = tuple(
        Loss(f"instance acme/web{at:03} in eu-1", "is removed: what lies on its own disk is lost") for at in range(400)
    )
    problems = tuple(Problem("tenants/acme/x.yaml", at, 1, "spec", "wrong " * 40, "rule") for at in range(1, 400))
    diffs = tuple(Diff(f"f{at}.yaml", b"x\n" * 50, b"y\n" * 50) for at in range(400))
    found = comment(plan(losses=losses, problems=problems, objects=diffs, changed_files=900), LIMIT)
    assert found.whole
    assert len(found.text.encode()) <= LIMIT
    assert all(loss.what in found.text for loss in losses)
    assert "This can't be merged: 399 problems" in found.text
    assert "problems left out for their size*" in found.text


def test_what_a_loss_is_of_is_named_in_full_and_in_code() -> None:
    what = f"cluster eu-1: domain www.{'evil.' * 49}example → www.{'else.' * 49}example"
    text = comment(plan(losses=(Loss(what, "changes the addresses of 1 instance"),), changed_files=1), LIMIT).text
    assert f"- `{what}` changes the addresses of 1 instance" in text
    assert "evil" not in prose(text)


def test_so_much_destruction_that_it_can_not_be_named_is_no_verdict_to_merge() -> None:
    losses = tuple(
        Loss(f"instance acme/web{at:05} in eu-1", "is removed: what lies on its own disk is lost") for at in range(5000)
    )
    found = comment(plan(losses=losses, changed_files=1), LIMIT)
    assert not found.whole
    assert len(found.text.encode()) <= LIMIT
    assert (
        "It destroys 5,000 things, more than a comment here can name, so it **can't be merged** like this: split it."
        in found.text
    )


def test_whole_objects_are_left_out_from_the_end_and_counted() -> None:
    diffs = tuple(Diff(f"eu-1/f{at:03}.yaml", b"x\n" * 50, b"y\n" * 50) for at in range(200))
    found = comment(plan(objects=diffs, changed_files=200), 20_000)
    shown = [at for at in range(200) if f"`eu-1/f{at:03}.yaml`" in found.text]
    assert shown == list(range(len(shown)))
    assert 0 < len(shown) < 200
    assert f"Objects: {200 - len(shown)} files left out for their size" in found.text
    assert found.text.count("</details>") == 1
    assert found.text.count("```diff") == len(shown)


def test_the_basis_of_the_cost_and_what_makes_the_difference_are_said() -> None:
    parts = tuple(CostPart(f"instance web{at}", Decimal(at), Decimal(0)) for at in range(12, 0, -1))
    found = comment(
        plan(costs=(CostChange("acme", Decimal(78), Decimal(0), parts, Decimal(100)),), changed_files=1), LIMIT
    )
    assert "| `acme` | 78.00 → 0.00 | -78.00 | 100.00 | 100.00 |" in found.text
    assert "A month has 730 hours; prices are those in force on 2026-11-21." in found.text
    assert "| `acme` | `4 more` |  | -10.00 |" in found.text


def test_a_file_of_very_many_lines_is_not_compared_line_by_line() -> None:
    found = comment(plan(declarations=(Diff("x.yaml", b"a\n" * 100_000, b"b\n" * 120_000),)), LIMIT)
    assert "100,000 lines → 120,000 lines" in found.text
