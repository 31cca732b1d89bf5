"""Formats the message of a publish commit: the changed files, by tenant and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from allotment.branches.rendered_branches import BRAKE_APPROVED_LINE, publish_subject_prefix
from allotment.manifests.paths import current_path, is_programs, parse_tree_path

MAX_LINES = 50
CHANGE_VERBS = {"A": "added", "M": "changed", "D": "removed"}
_PART_LABELS = {"argo": "project and Applications", "namespaces": "namespace"}


def format_commit_message(
    cluster: str, changes: Mapping[str, str], replaced: str | None, trailers: Mapping[str, str], *, approved: bool
) -> str:
    """Return the commit's message.

    `changes` maps each path, except folder markers, to A (added), M (changed) or D (removed). The only text from
    tenants in the message is names, which consist of a-z, 0-9 and '-'. The reporter shows the Source-Commit trailer in
    the status. Allotment bases a decision on a trailer only if the commit is signed.
    """
    letters = Counter(changes.values())
    subject = ", ".join(f"{letters[letter]} {verb}" for letter, verb in CHANGE_VERBS.items())
    lines = sorted(_describe_changes(changes))
    more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    note = [f"Replaces {replaced}, which Allotment didn't write."] if replaced else []
    ends = [
        *([BRAKE_APPROVED_LINE] if approved else []),
        *(f"{name}: {commit}" for name, commit in trailers.items() if commit),
    ]
    parts = [[publish_subject_prefix(cluster) + subject], [*lines[:MAX_LINES], *more], note, ends]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _describe_changes(changes: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each changed file of a tenant, and a line for each kind of change to the platform's files."""
    platform: Counter[str] = Counter()
    for path, letter in changes.items():
        tree_path, verb = parse_tree_path(current_path(path)), CHANGE_VERBS[letter]
        if tree_path is None:
            platform[verb] += 1
        elif tree_path.kind:
            yield f"{tree_path.tenant}: {tree_path.kind} {tree_path.resource_name} {verb}"
        elif is_programs(path):
            yield f"{tree_path.tenant}: programs {verb}"
        elif tree_path.is_resource_file:
            yield f"{tree_path.tenant}: {tree_path.name} {verb}"
        else:
            yield f"{tree_path.tenant}: {_PART_LABELS.get(tree_path.part, tree_path.part)} {verb}"
    for verb, count in platform.items():
        yield f"platform: {count} {'file' if count == 1 else 'files'} {verb}"
