"""Renders the text of a pull request that a command opens: the summary of the plan and the operation ID."""

from __future__ import annotations

from allotment.diff.change_plan import ChangePlan
from allotment.reports.markdown import code_span_outside_tables, escape_markdown
from allotment.reports.plan.rows import effects_text, files_text

_SUMMARY_LENGTH = 1_000  # characters


def render_body(plan: ChangePlan, operation_id: str) -> str:
    """Return the text in Markdown. An empty operation ID is left out."""
    lines = [f"This {escape_markdown(plan.summary, _SUMMARY_LENGTH)}.", effects_text(plan), files_text(plan)]
    if operation_id:
        lines.append(f"Operation ID: {code_span_outside_tables(operation_id)}")
    return "\n\n".join(line for line in lines if line) + "\n"
