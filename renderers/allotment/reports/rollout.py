"""A rollout as one comment on the pull request that caused it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.observed.rollout import Merged, Progress, Stage
from allotment.reports.links import InstanceLinks
from allotment.reports.markdown import code, table

MARKER = "<!-- allotment:rollout -->"
MOST_ROWS = 200
_SIGNS: dict[Progress, str] = {"going": "⏳", "done": "✅", "failed": "❌"}
_URL = re.compile(r"https://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,500})?")


class Rollout(NamedTuple):
    """Where a merge stands: its commit, the clusters that it was published on, and each thing of tenants that it
    changed, with the links of an instance that its cluster reports as merged."""

    merged: str
    published: tuple[str, ...]
    things: Sequence[tuple[Merged, Stage, InstanceLinks]]

    @property
    def progress(self) -> Progress:
        """Failed where anything is, done where everything is."""
        stages = [stage.progress for _, stage, _ in self.things]
        if "failed" in stages:
            return "failed"
        return "going" if "going" in stages or not self.published else "done"

    @property
    def words(self) -> str:
        """The whole of it in a few words, for a commit status."""
        if not self.published:
            return "merged, not published yet"
        states = [stage.state for _, stage, _ in self.things]
        counted = [f"{states.count(state)} {state}" for state in sorted(set(states))]
        return ", ".join(counted) or "published"


def comment(rollout: Rollout) -> str:
    """Return the comment's text."""
    return "\n".join(_lines(rollout)) + "\n"


def _lines(rollout: Rollout) -> Iterator[str]:
    yield MARKER
    yield ""
    yield f"### {_SIGNS[rollout.progress]} Rollout of {code(rollout.merged[:12])}: {rollout.words}"
    yield ""
    if rollout.published:
        yield f"Published to {', '.join(code(cluster) for cluster in rollout.published)}."
        yield ""
    if rollout.things:
        rows = [_row(*entry) for entry in rollout.things[:MOST_ROWS]]
        yield from table(("", "What", "Cluster", "State", ""), rows)
        if len(rollout.things) > MOST_ROWS:
            yield f"\nand {len(rollout.things) - MOST_ROWS:,} more."


def _row(resource: Merged, stage: Stage, links: InstanceLinks) -> tuple[str, ...]:
    more = [code(stage.words)] if stage.words else []
    if stage.way_out:
        more.append(f"→ {stage.way_out}")
    if stage.url:
        more.append(f"<{stage.url}>" if _URL.fullmatch(stage.url) else code(stage.url))
    more += [
        f"[{word}]({url})" for word, url in links._asdict().items() if url
    ]  # percent-encoded: no text of a tenant's
    name = code(f"{resource.kind} {resource.tenant}/{resource.name}")
    return _SIGNS[stage.progress], name, code(resource.cluster), stage.state, " ".join(more)
