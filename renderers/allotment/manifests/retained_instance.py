"""Rewrites the file of an instance that keeps running as it was published until units of another GPUSpec are free.

The published Deployment stays, with other annotations, so that no pod restarts. All other objects are the rendered ones: a member
who leaves and a port that is closed must not wait for a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment import conditions
from allotment.manifests import names
from allotment.manifests.text import dump, load_one, split


def with_published_deployment(published: bytes, rendered: bytes, words: str) -> bytes:
    """Return the rendered file of an instance with its published Deployment, which names in `words` what the instance waits for."""
    waiting = {names.WAITS_FOR: words, names.WAITS_REASON: conditions.RESIZE_PENDING}
    return _with_waiting(split(published)[0], split(rendered)[1:], waiting)


def without_waiting(data: bytes) -> bytes:
    """Return an instance's file that says no more that the instance waits for units of another GPUSpec."""
    first, *others = split(data)
    return _with_waiting(first, others, {}) if waiting_words(data) else data


def _with_waiting(first: str, others: Iterable[str], waiting: Mapping[str, str]) -> bytes:
    deployment = load_one(first)
    metadata = deployment["metadata"]
    said = {names.WAITS_FOR, names.WAITS_REASON}
    annotations = {key: value for key, value in metadata["annotations"].items() if key not in said}
    text = dump([{**deployment, "metadata": {**metadata, "annotations": {**annotations, **waiting}}}])
    return ("\n---\n".join([text.decode().removesuffix("\n"), *others]) + "\n").encode()


def waiting_words(data: bytes) -> str:
    """Return what an instance's file says that the instance waits for; empty where it isn't retained."""
    if conditions.RESIZE_PENDING.encode() not in data:
        return ""
    annotations = load_one(split(data)[0]).get("metadata", {}).get("annotations", {})
    words: str = annotations.get(names.WAITS_FOR, "")
    return words if annotations.get(names.WAITS_REASON) == conditions.RESIZE_PENDING else ""
