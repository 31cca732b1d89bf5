"""How far publishing is, and a line that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from allotment.observed.retention import RetainedTenant
from allotment.problems import pluralize

PublishReason = Literal["", "pending", "never", "braked", "rewound", "platform-invalid", "unproven", "unknown"]
MAX_LABELS = 5  # clusters, and tenants, that the headline names
STOP_REASONS: tuple[PublishReason, ...] = ("braked", "rewound", "platform-invalid", "unproven")


class PublishState(NamedTuple):
    """How far publishing is.

    `reason` is empty where the declared commit is published, `pending` where the next publish takes it, and else why no
    publish does; `summary` and `message` say it, in a few words and in full. `retained_tenants` are the tenants that stay at their
    last published manifests, `retained_clusters` the clusters that do. `unpublished_commits` counts the declared commits that are not published.
    `record_trouble` is the reason that the record of the retained tenants does not count.
    """

    commit: str
    unpublished_commits: int
    reason: PublishReason
    summary: str = ""
    message: str = ""
    retained_tenants: Mapping[str, RetainedTenant] = {}
    retained_clusters: tuple[str, ...] = ()
    record_trouble: str = ""

    @property
    def stopped(self) -> bool:
        """Whether publishing has stopped until somebody acts."""
        return self.reason in STOP_REASONS


def format_headline(state: PublishState, branch: str, tenant: str | None = None) -> str:
    """Return in a line that publishing lags behind a branch, or which tenants are retained; empty where all is published.
    With `tenant`, other retained tenants are counted, and their reasons are left out."""
    parts = []
    if state.reason == "rewound":
        parts.append(f"{branch} does not contain it: {state.summary}")
    elif state.unpublished_commits or state.reason not in ("", "never"):
        ahead = (
            f"{branch} is {pluralize(state.unpublished_commits, 'commit')} ahead" if state.unpublished_commits else ""
        )
        parts.append(": ".join(part for part in (ahead, state.summary) if part))
    if state.retained_clusters:
        clusters = pluralize(len(state.retained_clusters), "cluster")
        parts.append(f"{clusters} retained: {_list_labels(state.retained_clusters)}")
    if state.retained_tenants:
        labels = [
            f"{name} ({retained.reason})"
            for name, retained in sorted(state.retained_tenants.items())
            if tenant in (None, name)
        ]
        named = f": {_list_labels(labels)}" if labels else ""
        parts.append(f"{pluralize(len(state.retained_tenants), 'tenant')} retained{named}")
    if not parts:
        return ""
    commit = f"published is {state.commit[:12]}, " if state.commit else "nothing is published: "
    return commit + "; ".join(parts)


def _list_labels(labels: Sequence[str]) -> str:
    return ", ".join(labels[:MAX_LABELS]) + (" …" if len(labels) > MAX_LABELS else "")
