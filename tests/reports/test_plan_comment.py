"""A plan's comment: within its limit, never without what is destroyed, and inert whatever a tenant writes. Cases 34 and 44."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from allotment.diff.change_plan import ChangePlan, LossOutput, ResourceChange
from allotment.diff.cost_diff import CostChange, CostDay, CostPart, total_costs
from allotment.diff.declared_change import DeclaredChange
from allotment.diff.file_diff import FileDiff, FilesOutput
from allotment.problems import Problem
from allotment.reports.markdown import code_block, code_span
from allotment.reports.outputs.plan import plan_output
from allotment.reports.plan.comment import MARKER, render_comment
from allotment.reports.plan.text import plan_lines

LIMIT = 60_000
TODAY = datetime.date(2026, 11, 21)
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


def plan(**more: object) -> ChangePlan:
    defaults: dict[str, object] = {
        "base": "b" * 40,
        "head": "a" * 40,
        "day": TODAY,
        "currency": "EUR",
    }
    return ChangePlan(**{**defaults, **more})  # type: ignore[arg-type]


def of_text(text: str) -> ChangePlan:
    """Return a plan in which a tenant's text stands wherever one can."""
    problem = Problem(text, 1, 1, text, text, text)
    return plan(
        problems=(problem,),
        resource_changes=(
            ResourceChange(
                tenant="acme", cluster="eu-1", kind="instance", name="web", action="changed", causes=(text, text)
            ),
        ),
        declaration_diffs=(FileDiff(f"tenants/acme/{text}", None, text.encode("utf-8", "surrogatepass")),),
        object_diffs=(
            FileDiff("eu-1/tenants/acme/compute/web.rendered.yaml", text.encode("utf-8", "surrogatepass"), b"x"),
        ),
        files=FilesOutput(0, 0, 0, 1, 0, 0),
    )


def prose(text: str) -> str:
    """Return what a forge may take for mentions, references and links: everything that isn't code, and all live HTML."""
    parts = []
    for token in MarkdownIt("commonmark", {"linkify": False}).enable("table").parse(text):
        if token.type == "html_block":
            parts.append(token.content)
        live = [child for child in token.children or () if child.type in ("text", "html_inline", "image", "link_open")]
        parts += [child.content or child.type for child in live]
    return "\n".join(parts)


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_is_written_stands_in_code(attack: str) -> None:
    text = render_comment(of_text(attack), LIMIT).text
    rendered_text = prose(text)
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
        assert live not in rendered_text, rendered_text
    assert text.startswith(f"{MARKER}\n")
    assert rendered_text.count("<details>") == rendered_text.count("</details>") == 2
    for line in text.splitlines():
        assert not line.startswith("/"), "no forge takes it for a quick action"
    for hidden in "\u202e\u200b\u2066\x00\x1b\u2028\ud800":
        assert hidden not in text


WRONG = Problem("tenants/acme/x.yaml", 3, 9, "spec.gpuSpec", "no GPUSpec is named '@everyone'", "reference")
UNAPPROVED = Problem("tenants/acme/y.yaml", 1, 1, "(file)", "'eve' may not change this file", "ownership")


def test_problems_are_a_list_and_each_stands_in_code() -> None:
    odd = Problem("tenants/acme/y.yaml", 4, 1, "spec", "```\n</details>\n| a", "size", warning=True)
    text = render_comment(plan(problems=(WRONG, odd)), LIMIT).text
    assert text.split("#### Problems\n\n")[1].split("\n\n")[0].split("\n") == [
        "- **`tenants/acme/x.yaml:3:9`** `spec.gpuSpec`: `no GPUSpec is named '@everyone'` [`reference`]",
        "- **`tenants/acme/y.yaml:4:1`** `spec`: warning: ```` ``` </details> | a ```` [`size`]",
    ]


def test_a_problem_is_cut_and_keeps_its_line_and_rule() -> None:
    text = render_comment(plan(problems=(WRONG._replace(path="x" * 5_000, message="y" * 5_000),)), LIMIT).text
    assert f"- **`{'x' * 400}:3:9`** `spec.gpuSpec`: `{'y' * 2_000}…` [`reference`]\n" in text


def test_a_missing_approval_is_always_visible_and_comes_first() -> None:
    problems = (WRONG, UNAPPROVED)
    losses = tuple(LossOutput(f"instance acme/web{at:03} in eu-1", "is removed") for at in range(500))
    text = render_comment(plan(problems=problems, missing_approvals=(UNAPPROVED,), destructions=losses), LIMIT).text
    first = "#### Missing approvals\n\n- **`tenants/acme/y.yaml:1:1`** `(file)`: `'eve' may not change this file` [`ownership`]\n"
    assert text.index("This can't be merged: 2 problems") < text.index(first) < text.index("#### Problems")
    assert text.count("'eve' may not") == 1
    assert text.index(first) < text.index("#### ⚠️ Destroyed")
    assert "<details>" not in text[: text.index(first)]


def test_very_many_missing_approvals_are_counted_and_leave_room_for_the_rest() -> None:
    problems = tuple(UNAPPROVED._replace(path=f"{'p' * 100}{at:04}") for at in range(900))
    text = render_comment(plan(problems=problems, missing_approvals=problems), LIMIT).text
    assert "approvals left out for their size*" in text
    assert len(text.encode()) < 10_000


def test_a_comment_says_whether_an_approval_is_missing_only_where_that_was_checked() -> None:
    assert "\n\nNo approval is missing.\n\n" in render_comment(plan(missing_approvals=()), LIMIT).text
    assert "approval" not in render_comment(plan(), LIMIT).text


@given(st.text(max_size=300))
def test_no_text_leaves_its_code(text: str) -> None:
    assert prose(code_span(text) or "x") in ("", "x")
    tokens = MarkdownIt().parse(code_block(text.split("\n"), "diff"))
    assert [token.type for token in tokens] == ["fence"]


@given(st.text(max_size=80), st.integers(2_000, 8_000))
def test_no_comment_is_longer_than_its_limit(text: str, limit: int) -> None:
    plan_text = render_comment(of_text(text), limit)
    assert len(plan_text.text.encode("utf-8", "surrogatepass")) <= limit
    assert "can't be merged" in plan_text.text


def test_the_comment_never_omits_a_destruction() -> None:
    losses = tuple(
        LossOutput(f"instance acme/web{at:03} in eu-1", "is removed: everything on its own disk is lost")
        for at in range(400)
    )
    problems = tuple(Problem("tenants/acme/x.yaml", at, 1, "spec", "wrong " * 40, "rule") for at in range(1, 400))
    diffs = tuple(FileDiff(f"f{at}.yaml", b"x\n" * 50, b"y\n" * 50) for at in range(400))
    plan_text = render_comment(
        plan(destructions=losses, problems=problems, object_diffs=diffs, files=FilesOutput(0, 0, 0, 900, 0, 0)), LIMIT
    )
    assert plan_text.is_complete
    assert len(plan_text.text.encode()) <= LIMIT
    assert all(loss.subject in plan_text.text for loss in losses)
    assert "This can't be merged: 399 problems" in plan_text.text
    assert "problems left out for their size*" in plan_text.text


def test_the_comment_shows_the_whole_subject_of_a_loss_as_code() -> None:
    what = f"cluster eu-1: domain www.{'evil.' * 49}example → www.{'else.' * 49}example"
    text = render_comment(
        plan(
            destructions=(LossOutput(what, "changes the addresses of 1 instance"),), files=FilesOutput(0, 0, 0, 1, 0, 0)
        ),
        LIMIT,
    ).text
    assert f"- `{what}` changes the addresses of 1 instance" in text
    assert "evil" not in prose(text)


def test_so_much_destruction_that_it_can_not_be_named_is_no_verdict_to_merge() -> None:
    losses = tuple(
        LossOutput(f"instance acme/web{at:05} in eu-1", "is removed: everything on its own disk is lost")
        for at in range(5000)
    )
    plan_text = render_comment(plan(destructions=losses, files=FilesOutput(0, 0, 0, 1, 0, 0)), LIMIT)
    assert not plan_text.is_complete
    assert len(plan_text.text.encode()) <= LIMIT
    assert (
        "It destroys 5,000 resources, more than a comment can list, so it **can't be merged**: split it."
        in plan_text.text
    )


def test_whole_objects_are_left_out_from_the_end_and_counted() -> None:
    diffs = tuple(FileDiff(f"eu-1/f{at:03}.yaml", b"x\n" * 50, b"y\n" * 50) for at in range(200))
    plan_text = render_comment(plan(object_diffs=diffs, files=FilesOutput(0, 0, 0, 200, 0, 0)), 20_000)
    listed_numbers = [at for at in range(200) if f"`eu-1/f{at:03}.yaml`" in plan_text.text]
    assert listed_numbers == list(range(len(listed_numbers)))
    assert 0 < len(listed_numbers) < 200
    assert f"Objects: {200 - len(listed_numbers)} files left out for their size" in plan_text.text
    assert plan_text.text.count("</details>") == 1
    assert plan_text.text.count("```diff") == len(listed_numbers)


def test_the_basis_of_the_cost_and_what_makes_the_difference_are_said() -> None:
    parts = tuple(CostPart(f"instance web{at}", Decimal(at), Decimal(0)) for at in range(12, 0, -1))
    plan_text = render_comment(
        plan(
            cost_changes=(
                CostChange(
                    tenant="acme", days=(CostDay(TODAY, Decimal(78), Decimal(0)),), parts=parts, budget=Decimal(100)
                ),
            ),
            files=FilesOutput(0, 0, 0, 1, 0, 0),
        ),
        LIMIT,
    )
    assert "| `acme` | today | 78.00 → 0.00 | -78.00 | 100.00 | 100.00 |" in plan_text.text
    assert "A month has 730 hours. Prices may change from day to day." in plan_text.text
    assert "| `acme` | `4 more` |  | -10.00 |" in plan_text.text


def test_a_file_of_very_many_lines_is_not_compared_line_by_line() -> None:
    plan_text = render_comment(plan(declaration_diffs=(FileDiff("x.yaml", b"a\n" * 100_000, b"b\n" * 120_000),)), LIMIT)
    assert "100,000 lines → 120,000 lines" in plan_text.text


def opened(count: int, path: str = "tenants/acme/members.yaml") -> tuple[DeclaredChange, ...]:
    return tuple(
        DeclaredChange("access", path, f"spec.users[user{at:04}]", None, "role Admin, login ada-k, subject 00u1ada", "")
        for at in range(count)
    )


def test_the_comment_never_omits_a_change_of_access_or_approvals() -> None:
    approvers = DeclaredChange("approvals", "platform/ownership.yaml", "spec.teams[platform].logins", None, "eve", "")
    problems = tuple(Problem("tenants/acme/x.yaml", at, 1, "spec", "wrong " * 40, "rule") for at in range(1, 400))
    rest = tuple(DeclaredChange("plans", "platform/plans/a.yaml", f"spec.f{at}", "1", "2", "") for at in range(900))
    declared = (*opened(700), approvers, *rest)
    plan_text = render_comment(plan(declared_changes=declared, declared_count=len(declared), problems=problems), LIMIT)
    assert plan_text.is_complete
    assert len(plan_text.text.encode()) <= LIMIT
    assert all(f"spec.users[user{at:04}] added" in plan_text.text for at in range(700))
    assert "- `platform/ownership.yaml`: `spec.teams[platform].logins added: eve`" in plan_text.text
    assert plan_text.text.index("#### ⚠️ Access") < plan_text.text.index("#### ⚠️ Approvals")
    assert plan_text.text.count("tenants/acme/members.yaml") == 1, "each file once, where there are so many"


def members_urls(count: int) -> tuple[DeclaredChange, ...]:
    note = "open to Admins and Members of acme after login"
    return tuple(
        DeclaredChange(
            "access", f"tenants/acme/instances/w{at}.yaml", f"https://w{at}--acme.eu/", None, "Members", note
        )
        for at in range(count)
    )


def test_new_addresses_with_the_usual_login_share_a_line_and_the_title_counts_each_group() -> None:
    members = "tenants/acme/members.yaml"
    changes = (
        DeclaredChange("access", members, "spec.users[eve].role", "Viewer", "Admin", ""),
        DeclaredChange("access", members, "spec.users[bob].login", "bob", "bob-k", ""),
        DeclaredChange("access", members, "spec.users[bob].subject", "00u1bob", "00u2bob", ""),
        *members_urls(1_017),
    )
    urls = ", ".join(f"https://w{at}--acme.eu/" for at in range(5))
    folded = f"{urls} and 1,012 more added (open to members of their tenants after login)"
    merge_plan = plan(declared_changes=changes, declared_count=len(changes))
    text = render_comment(merge_plan, LIMIT).text
    title = "Access: 1 Admin, 1 member, 1,017 Members URLs"
    assert text.split(f"#### ⚠️ {title}\n\n")[1].split("\n\n")[0].split("\n") == [
        f"- `{members}`: `spec.users[eve].role Viewer → Admin`",
        f"- `{members}`: `spec.users[bob].login bob → bob-k`",
        f"- `{members}`: `spec.users[bob].subject 00u1bob → 00u2bob`",
        f"- `1,017 Members URLs`: `{folded}`",
    ]
    lines = [line.text for line in plan_lines(merge_plan, diffs=False)]
    assert lines[lines.index(f"⚠ {title}") + 4] == f"  1,017 Members URLs: {folded}"
    assert [change.field for change in plan_output(merge_plan).declared_changes][3:] == [
        change.field for change in members_urls(1_017)
    ]


def test_a_single_new_address_has_its_own_line() -> None:
    lines = [line.text for line in plan_lines(plan(declared_changes=members_urls(1)), diffs=False)]
    assert lines[lines.index("⚠ Access: 1 Members URL") + 1] == (
        "  tenants/acme/instances/w0.yaml: https://w0--acme.eu/ added: Members"
        " (open to Admins and Members of acme after login)"
    )


def test_so_much_access_that_it_can_not_be_named_is_no_verdict_to_merge() -> None:
    declared = opened(5_000)
    plan_text = render_comment(
        plan(declared_changes=declared, declared_count=5_000, destructions=(LossOutput("x", "is removed"),) * 2), LIMIT
    )
    assert not plan_text.is_complete
    assert len(plan_text.text.encode()) <= LIMIT
    assert (
        "It destroys 2 resources and changes permissions in 5,000 places, more than a comment can list, so it **can't be merged**: split it."
        in plan_text.text
    )


def test_the_effect_on_instances_is_always_visible() -> None:
    changes = tuple(
        ResourceChange(
            tenant="acme", cluster="eu-1", kind="instance", name=f"web{at}", action="changed", causes=(), effect=effect
        )
        for at, effect in enumerate(("restarts", "restarts", "stops", "keeps running"))
    )
    text = render_comment(plan(resource_changes=changes, files=FilesOutput(0, 0, 0, 4, 0, 0)), LIMIT).text
    assert "\n\nThe merge restarts 2 instances, stops 1 instance.\n\n" in text
    assert "| `acme` | `eu-1` | `instance web3` | `changed` | `keeps running` |  |" in text
    calm = render_comment(plan(resource_changes=changes[3:], files=FilesOutput(0, 0, 0, 1, 0, 0)), LIMIT).text
    assert "\n\nNo instance restarts.\n\n" in calm
    lost = plan(
        resource_changes=changes[3:],
        destructions=(LossOutput("node pool", "is removed"),),
        files=FilesOutput(0, 0, 0, 1, 0, 0),
    )
    assert "No instance restarts" not in render_comment(lost, LIMIT).text


def test_the_comment_neutralizes_declared_text_and_counts_omitted_rows() -> None:
    for attack in ATTACKS:
        cluster_change = DeclaredChange("clusters", f"clusters/{attack}.yaml", "spec.domain", attack, attack, attack)
        other = DeclaredChange("access", attack, attack, None, attack, "")
        rendered_text = prose(
            render_comment(plan(declared_changes=(other, cluster_change), declared_count=500), LIMIT).text
        )
        assert "evil" not in rendered_text
        assert "@everyone" not in rendered_text
    many = tuple(DeclaredChange("plans", "platform/plans/a.yaml", f"spec.f{at}", "1", "2", "") for at in range(400))
    text = render_comment(plan(declared_changes=many, declared_count=5_000), LIMIT).text
    assert "*Declared: 4,600 rows left out for their size*" in text


def test_the_checksum_comes_last_however_much_is_left_out() -> None:
    diffs = tuple(FileDiff(f"eu-1/f{at:03}.yaml", b"x\n" * 50, b"y\n" * 50) for at in range(200))
    plan_text = render_comment(
        plan(object_diffs=diffs, files=FilesOutput(0, 0, 0, 200, 0, 0), checksum="sha256:" + "a" * 64), 20_000
    )
    assert plan_text.text.splitlines()[-3:] == [
        "0 declared files and 200 rendered files change (200 changed).",
        "",
        f"Checksum `sha256:{'a' * 64}`.",
    ]


def test_the_comment_shows_the_total_cost_where_rows_are_omitted() -> None:
    costs = tuple(
        CostChange(tenant=f"tenant-{at:04}", days=(CostDay(TODAY, Decimal(1), Decimal(2)),), parts=(), budget=None)
        for at in range(3_000)
    )
    plan_text = render_comment(
        plan(cost_changes=costs, total_costs=tuple(total_costs(costs)), files=FilesOutput(0, 0, 0, 1, 0, 0)), LIMIT
    )
    assert "| **total of 3,000 tenants** | **today** | **3000.00 → 6000.00** | **+3000.00** |  |  |" in plan_text.text
    assert "Cost: " in plan_text.text
    assert " rows left out for their size*" in plan_text.text


def test_the_first_line_says_it_all_within_what_a_forge_shows_of_it() -> None:
    costs = tuple(
        CostChange(tenant=name, days=(CostDay(TODAY, Decimal(0), Decimal("113.60")),), parts=(), budget=Decimal(100))
        for name in ("acme", "bold", "calm", "dear", "even")
    )
    resource_change = ResourceChange(
        tenant="acme", cluster="eu-1", kind="instance", name="web", action="added", causes=()
    )
    merge_plan = plan(
        resource_changes=(resource_change,) * 3,
        destructions=(LossOutput("x", "is removed"),),
        cost_changes=costs,
        total_costs=tuple(total_costs(costs)),
        url_count=2,
        files=FilesOutput(0, 0, 0, 1, 0, 0),
    )
    assert merge_plan.summary == (
        "can be merged · 3 added · 1 destroyed · 2 URLs changed · +568.00 EUR/month · acme 13.60 over budget"
        " · bold 13.60 over budget · calm 13.60 over budget · 2 more over budget"
    )
    assert merge_plan.summary_within(60) == "can be merged · 3 added · 1 destroyed · 2 URLs changed"
    assert merge_plan.summary_within(3) == "can be merged"
    assert render_comment(merge_plan, LIMIT).text.splitlines()[2] == f"### ✅ This {merge_plan.summary}"


def test_one_value_of_access_that_is_longer_than_a_comment_is_no_verdict_to_merge() -> None:
    long = DeclaredChange(
        "access", "clusters/eu-1/cluster.yaml", "spec.oidc.issuer", "a", f"https://{'a' * 70_000}.dev", ""
    )
    plan_text = render_comment(plan(declared_changes=(long,), declared_count=1), LIMIT)
    assert not plan_text.is_complete
    assert "changes permissions in 1 place, more than a comment can list" in plan_text.text
    short = DeclaredChange(
        "access", "clusters/eu-1/cluster.yaml", "spec.oidc.issuer", "a", f"https://{'a' * 7_000}.dev", ""
    )
    assert f"{'a' * 7_000}.dev" in render_comment(plan(declared_changes=(short,), declared_count=1), LIMIT).text


def test_checks_that_did_not_run_are_counted_where_not_all_are_named() -> None:
    text = render_comment(plan(skipped_checks=tuple(f"what {at:02} costs" for at in range(13))), LIMIT).text
    assert "- not checked: `what 09 costs`\n- not checked: 3 more\n" in text
    assert "more" not in render_comment(plan(skipped_checks=("what it costs",) * 10), LIMIT).text


def test_plan_lines_escapes_terminal_controls_of_a_destruction() -> None:
    merge_plan = plan(destructions=(LossOutput("cluster eu-1: domain a → \x1b]0;owned\x07\u202eb", "changes 1 URL"),))
    (line,) = (
        output_line.text for output_line in plan_lines(merge_plan, diffs=False) if "cluster eu-1" in output_line.text
    )
    assert line == "  cluster eu-1: domain a → \\x1b]0;owned\\x07\\u202eb changes 1 URL"
