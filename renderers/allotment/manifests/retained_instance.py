"""Rewrites the published file of an instance that keeps running as it was published until units of another GPUSpec are free.

Only annotations of its Deployment change: its pods aren't restarted.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment import conditions
from allotment.manifests import names
from allotment.manifests.text import dump, load_one, split


def with_waiting(data: bytes, words: str) -> bytes:
    """Return an instance's file that says what the instance waits for."""
    return _with_waiting(data, {names.WAITS_FOR: words, names.WAITS_REASON: conditions.RESIZE_PENDING})


def without_waiting(data: bytes) -> bytes:
    """Return an instance's file that says no more that the instance waits for units of another GPUSpec."""
    return _with_waiting(data, {}) if waiting_words(data) else data


def _with_waiting(data: bytes, waiting: Mapping[str, str]) -> bytes:
    first, *others = split(data)
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
