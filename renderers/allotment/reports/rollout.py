"""Render the rollout of a merge as one comment on the pull request."""

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
MAX_CLUSTERS = 50
_NOTE_BYTES = 40  # bytes for the line with the number of omitted rows
_TABLE_HEAD_LINES = 2
_PROGRESS_SYMBOLS: dict[RolloutProgress, str] = {"going": "⏳", "done": "✅", "failed": "❌"}
_URL = re.compile(r"https://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,500})?")


class Rollout(NamedTuple):
    """The state of the rollout of a merge.

    `published_clusters` are the clusters to which the merge is published. `resources` are the instances, storages and
    snapshots that the merge changed. An instance has links if its cluster reports the merged version.
    """

    merge_commit: str
    published_clusters: tuple[str, ...]
    resources: Sequence[tuple[ResourceRef, RolloutStage, InstanceLinks]]

    @property
    def progress(self) -> RolloutProgress:
        """Return "failed" if any resource failed, "done" if all are done and the merge is published, else "going"."""
        stages = [stage.progress for _, stage, _ in self.resources]
        if "failed" in stages:
            return "failed"
        return "going" if "going" in stages or not self.published_clusters else "done"

    @property
    def summary(self) -> str:
        """Return a summary for a commit status."""
        if not self.published_clusters:
            return "merged, not published yet"
        states = [stage.state for _, stage, _ in self.resources]
        counted = [f"{states.count(state)} {state}" for state in sorted(set(states))]
        return ", ".join(counted) or "published"


def render_comment(rollout: Rollout, limit: int) -> str:
    """Return the text of the comment, at most `limit` bytes.

    If rows are omitted, the text states their number.
    """
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
        more = len(rollout.published_clusters) - MAX_CLUSTERS
        names = [code_span(cluster) for cluster in rollout.published_clusters[:MAX_CLUSTERS]]
        yield f"Published to {', '.join(names)}{f' and {more:,} more' if more > 0 else ''}."
        yield ""


def _resource_row(resource: ResourceRef, stage: RolloutStage, links: InstanceLinks) -> tuple[str, ...]:
    more = [code_span(stage.message)] if stage.message else []
    if stage.remedy:
        more.append(f"→ {stage.remedy}")
    if stage.url:
        more.append(f"<{stage.url}>" if _URL.fullmatch(stage.url) else code_span(stage.url))
    more += [
        f"[{word}]({url})" for word, url in links._asdict().items() if url
    ]  # the links are safe in Markdown, because the URLs are percent-encoded
    name = code_span(f"{resource.kind} {resource.tenant}/{resource.name}")
    return _PROGRESS_SYMBOLS[stage.progress], name, code_span(resource.cluster), stage.state, " ".join(more)
