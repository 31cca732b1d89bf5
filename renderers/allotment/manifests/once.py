"""Parts of manifests that depend on a few declared objects only are built once for them, however many tenants use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from allotment.manifests.text import Fixed

F = TypeVar("F", bound=Callable[..., Fixed])
MOST = 2_000


def once(build: F) -> F:
    """Keep what `build` returned for the very same arguments, by identity: declarations never change."""
    kept: dict[tuple[int, ...], tuple[tuple[object, ...], Fixed]] = {}

    def part(*arguments: object) -> Fixed:
        key = tuple(map(id, arguments))
        found = kept.get(key)
        if found is None:
            if len(kept) >= MOST:
                kept.clear()
            found = kept[key] = (arguments, build(*arguments))  # the arguments too: an id lasts as long as its object
        return found[1]

    part.__doc__ = build.__doc__
    return part  # type: ignore[return-value]  # the same signature
