"""Defines the state of publishing, and formats it as a headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from allotment.manifests.names import rendered_branch
from allotment.observed.retention import RetainedTenant
from allotment.problems import pluralize

PublishReason = Literal["", "pending", "never", "braked", "rewound", "platform-invalid", "unproven", "unknown"]
MAX_LABELS = 5  # clusters or tenants in the headline
STOP_REASONS: tuple[PublishReason, ...] = ("braked", "rewound", "platform-invalid", "unproven")


class PublishState(NamedTuple):
    """The state of publishing.

    - `commit` is the published commit of the declarations; it is empty if nothing is published.
    - `reason` is empty if the declared commit is published, and `pending` if the next publish will publish it. Any
      other reason says why the declared commit is not published. `summary` describes the reason briefly, and
      `message` in full.
    - `unpublished_commits` counts the declared commits that are not published.
    - `retained_tenants` and `retained_clusters` stay at their last published manifests. `omitted_tenants` counts the
      retained tenants that the retention record leaves out.
    - `record_trouble` is the reason why the retention record is invalid; it is empty if the record is valid.
    - `branch_faults` has, by cluster, the change of somebody else to its rendered branch since the last publish.
    """

    commit: str
    unpublished_commits: int
    reason: PublishReason
    summary: str = ""
    message: str = ""
    retained_tenants: Mapping[str, RetainedTenant] = {}
    retained_clusters: tuple[str, ...] = ()
    record_trouble: str = ""
    omitted_tenants: int = 0
    branch_faults: Mapping[str, str] = {}

    @property
    def stopped(self) -> bool:
        """Whether publishing has stopped until a person acts."""
        return self.reason in STOP_REASONS


def format_headline(state: PublishState, branch: str, tenant: str | None = None) -> str:
    """Return a line about unpublished commits and retained tenants; empty if everything is published.

    If `tenant` is set, the line counts all retained tenants, but names at most this tenant.
    """
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
    if count := len(state.retained_tenants) + state.omitted_tenants:
        labels = [
            f"{name} ({retained.reason})"
            for name, retained in sorted(state.retained_tenants.items())
            if tenant in (None, name)
        ]
        named = f": {_list_labels(labels)}" if labels else ""
        parts.append(f"{pluralize(count, 'tenant')} retained{named}")
    parts += [
        f"{rendered_branch(name).removeprefix('refs/heads/')} {fault}"
        for name, fault in sorted(state.branch_faults.items())
    ]
    if not parts:
        return ""
    commit = f"published is {state.commit[:12]}, " if state.commit else "nothing is published: "
    return commit + "; ".join(parts)


def _list_labels(labels: Sequence[str]) -> str:
    return ", ".join(labels[:MAX_LABELS]) + (" …" if len(labels) > MAX_LABELS else "")
