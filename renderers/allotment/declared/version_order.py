"""Orders the names of an app's versions from the oldest to the newest."""

from __future__ import annotations

import re

_PART = re.compile(r"[0-9]+|[^0-9._]+")
_Parts = list[tuple[bool, int, str]]


def build_version_key(version: str) -> tuple[_Parts, bool, _Parts]:
    """Return a sort key that compares numbers as numbers. A version with a suffix, such as -rc1, precedes its release."""
    release, dash, suffix = version.removeprefix("v").partition("-")
    return _split_parts(release), not dash, _split_parts(suffix)


def _split_parts(text: str) -> _Parts:
    parts = _PART.findall(text)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
