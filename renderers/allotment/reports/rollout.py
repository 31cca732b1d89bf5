"""A rollout as one comment on the pull request that caused it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from allotment.observed.rollout import ResourceRef, RolloutProgress, RolloutStage
from allotment.reports.links import InstanceLinks
from allotment.reports.markdown import code_span, markdown_table

MARKER = "<!-- allotment:rollout -->"
MAX_ROWS = 200
_NOTE_BYTES = 40  # of the line that counts the rows left out
_TABLE_HEAD_LINES = 2
_PROGRESS_SYMBOLS: dict[RolloutProgress, str] = {"going": "⏳", "done": "✅", "failed": "❌"}
_URL = re.compile(r"https://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,500})?")


class Rollout(NamedTuple):
    """Where a merge stands: its commit, the clusters that it was published on, and each thing of tenants that it
    changed, with the links of an instance that its cluster reports as merged."""

    merge_commit: str
    published_clusters: tuple[str, ...]
    resources: Sequence[tuple[ResourceRef, RolloutStage, InstanceLinks]]

    @property
    def progress(self) -> RolloutProgress:
        """Failed where anything is, done where everything is."""
        stages = [stage.progress for _, stage, _ in self.resources]
        if "failed" in stages:
            return "failed"
        return "going" if "going" in stages or not self.published_clusters else "done"

    @property
    def summary(self) -> str:
        """The whole of it in a few words, for a commit status."""
        if not self.published_clusters:
            return "merged, not published yet"
        states = [stage.state for _, stage, _ in self.resources]
        counted = [f"{states.count(state)} {state}" for state in sorted(set(states))]
        return ", ".join(counted) or "published"


def render_comment(rollout: Rollout, limit: int) -> str:
    """Return the comment's text, of at most `limit` bytes: it names the number of the rows that it leaves out."""
    head = "\n".join(_head_lines(rollout)) + "\n"
    if not rollout.resources:
        return head
    rows = (_resource_row(*entry) for entry in rollout.resources[:MAX_ROWS])
    lines = list(markdown_table(("", "What", "Cluster", "State", ""), rows))
    sizes = accumulate((len(line.encode()) + 1 for line in lines), initial=len(head.encode()) + _NOTE_BYTES)
    count = sum(size <= limit for size in sizes) - 1
    omitted = len(rollout.resources) - (count - _TABLE_HEAD_LINES)
    more = f"\nand {omitted:,} more.\n" if omitted else ""
    return head + "\n".join(lines[:count]) + "\n" + more


def _head_lines(rollout: Rollout) -> Iterator[str]:
    yield MARKER
    yield ""
    yield f"### {_PROGRESS_SYMBOLS[rollout.progress]} Rollout of {code_span(rollout.merge_commit[:12])}: {rollout.summary}"
    yield ""
    if rollout.published_clusters:
        yield f"Published to {', '.join(code_span(cluster) for cluster in rollout.published_clusters)}."
        yield ""


def _resource_row(resource: ResourceRef, stage: RolloutStage, links: InstanceLinks) -> tuple[str, ...]:
    more = [code_span(stage.message)] if stage.message else []
    if stage.remedy:
        more.append(f"→ {stage.remedy}")
    if stage.url:
        more.append(f"<{stage.url}>" if _URL.fullmatch(stage.url) else code_span(stage.url))
    more += [
        f"[{word}]({url})" for word, url in links._asdict().items() if url
    ]  # percent-encoded: no text of a tenant's
    name = code_span(f"{resource.kind} {resource.tenant}/{resource.name}")
    return _PROGRESS_SYMBOLS[stage.progress], name, code_span(resource.cluster), stage.state, " ".join(more)
