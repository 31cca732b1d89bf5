"""How far publishing is, and a line that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from allotment.observed.retention import RetainedTenant
from allotment.problems import counted

Reason = Literal["", "pending", "never", "braked", "rewound", "platform-invalid", "unproven", "unknown"]
STOPS: tuple[Reason, ...] = ("braked", "rewound", "platform-invalid", "unproven")


class PublishState(NamedTuple):
    """How far publishing is.

    `reason` is empty where the declared commit is published, `pending` where the next publish takes it, and else why no
    publish does; `brief` and `words` say it, in a few words and in full. `retained` are the tenants that stay at their
    last published manifests, `retained_clusters` the clusters that do. `ahead` counts the declared commits that are not published.
    `record_trouble` is the reason that the record of the retained tenants does not count.
    """

    commit: str
    ahead: int
    reason: Reason
    brief: str = ""
    words: str = ""
    retained: Mapping[str, RetainedTenant] = {}
    retained_clusters: tuple[str, ...] = ()
    record_trouble: str = ""

    @property
    def stopped(self) -> bool:
        """Whether publishing has stopped until somebody acts."""
        return self.reason in STOPS


def headline(state: PublishState, branch: str) -> str:
    """Return in a line that publishing lags behind a branch, or which tenants are retained; empty where all is published."""
    parts = []
    if state.reason == "rewound":
        parts.append(f"{branch} does not contain it: {state.brief}")
    elif state.ahead or state.reason not in ("", "never"):
        ahead = f"{branch} is {counted(state.ahead, 'commit')} ahead" if state.ahead else ""
        parts.append(": ".join(part for part in (ahead, state.brief) if part))
    if state.retained_clusters:
        clusters = counted(len(state.retained_clusters), "cluster")
        parts.append(f"{clusters} retained: {', '.join(state.retained_clusters)}")
    if state.retained:
        several = [f"{name} ({tenant.reason})" for name, tenant in sorted(state.retained.items())[:5]]
        named = ", ".join(several) + (" …" if len(state.retained) > 5 else "")
        parts.append(f"{counted(len(state.retained), 'tenant')} retained: {named}")
    if not parts:
        return ""
    commit = f"published is {state.commit[:12]}, " if state.commit else "nothing is published: "
    return commit + "; ".join(parts)
