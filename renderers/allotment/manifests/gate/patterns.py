"""Reads what an object may be from a pattern of it, and says where one differs.

A pattern is an object in which every value stands as it must be, but for these:

    <name>          what the boundary has under the name; one that begins with a- or an- is the tenant's own, of that form
    key*            may be absent
    <a-label-key>:  any number of keys of that form
    - each: …       a list whose entries are all so
    either: […]     one of these
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from allotment.problems import printable

_SLOT = re.compile(r"<([a-z0-9-]+)>")
_NAME = r"[a-z](?:-?[a-z0-9])*"
_TEXTS = {  # the forms of what a tenant chooses, or what follows from that
    "a-name": _NAME,
    "a-word": r"[A-Za-z]+",
    "a-text": r"(?s:.*)",
    "a-path": r"[A-Za-z0-9._~@+/-]+",
    "a-label": r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?",
    "a-bill-label": r"bill\.allotment\.dev/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?",
    "a-variable": r"(?!NVIDIA_|CUDA_MPS_)[\x21-\x3c\x3e-\x7e]{1,253}",
    "a-bucket-key": r"AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY|BUCKET_(?:NAME|HOST|PORT|REGION)",
    "a-key": r"AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY",
    "a-secret": r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",
    "a-store": r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",
    "a-blob": r"[0-9a-f]{40}(?:[0-9a-f]{24})?",
    "a-hash": r"sha256:[0-9a-f]{64}",
    "an-input-hash": r"[0-9a-f]{64}",
    "an-amount": r"[0-9]{1,7}",
    "a-resource": r"[a-z0-9./-]+",
    "a-quantity": r"0|[1-9][0-9]*(?:Mi|Gi|Ti)?",
    "a-size": r"[1-9][0-9]{0,12}(?:Mi|Gi|Ti)",
    "a-uid": r"[A-Za-z0-9-]{0,64}",
    "a-marker": rf"{_NAME}(?:--snapshot)?--waits-for--{_NAME}",
    "a-job": rf"{_NAME}--prepare-[0-9a-f]{{10}}-[0-9]{{1,4}}",
    "a-job-role": "prepare|copy",
    "a-lifecycle": "Active|Suspended|Retired",
    "a-deletion-policy": "Retain|Delete",
    "an-access-mode": "ReadWriteOnce|ReadWriteMany",
    "an-image": r"[a-z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}",
    "a-groups-rule": r"groups(?:-[0-9]+)?",
    "a-users-rule": r"users(?:-[0-9]+)?",
}
_NUMBERS = {"a-number": (0, 10**9), "a-port": (1, 65535)}


class Difference(NamedTuple):
    """Where a value isn't what it must be. The words are made only of those that somebody is told."""

    where: str
    value: Any
    wanted: Any

    def __str__(self) -> str:
        """Return it in words."""
        where = printable(self.where or "it", 200)
        return f"{where} is {printable(str(self.value), 120)}, must be {printable(str(self.wanted), 120)}"


ABSENT, NOT_ALLOWED = "absent", "absent: it is not allowed"


class OneOf(tuple[Any, ...]):
    """A value of a boundary that may be any of these."""


def differences(pattern: Any, value: Any, boundary: Mapping[str, Any], where: str = "") -> Iterator[Difference]:
    """Yield where a value isn't what its pattern says; `boundary` has the values of its names."""
    if isinstance(pattern, dict) and len(pattern) == 1 and "either" in pattern:
        yield from nearest(pattern["either"], value, boundary, where)
    elif isinstance(pattern, dict):
        yield from _of_mapping(pattern, value, boundary, where)
    elif isinstance(pattern, list):
        yield from _of_list(pattern, value, boundary, where)
    elif isinstance(pattern, str) and "<" in pattern:
        yield from _of_slot(pattern, value, boundary, where)
    elif type(value) is not type(pattern) or value != pattern:
        yield Difference(where, value, pattern)


def nearest(patterns: list[Any], value: Any, boundary: Mapping[str, Any], where: str = "") -> Iterator[Difference]:
    """Yield where a value differs from that of some patterns which it is most like; nothing where it is one of them."""
    for one in patterns:
        if next(differences(one, value, boundary, where), None) is None:
            return
    yield from min((list(differences(one, value, boundary, where)) for one in patterns), key=len, default=[])


def _of_mapping(pattern: dict[str, Any], value: Any, boundary: Mapping[str, Any], where: str) -> Iterator[Difference]:
    if not isinstance(value, dict):
        yield Difference(where, value, "a mapping")
        return
    left, forms = dict(value), {}
    for key, wanted in pattern.items():
        name = key.removesuffix("*")
        if "<" in name:
            forms[name] = wanted
        elif name in left:
            yield from differences(wanted, left.pop(name), boundary, f"{where}.{name}".lstrip("."))
        elif name == key:
            yield Difference(f"{where}.{name}".lstrip("."), ABSENT, wanted)
    for key, found in left.items():
        for form, wanted in forms.items():
            if not any(_of_slot(form, key, boundary, "")):
                yield from differences(wanted, found, boundary, f"{where}.{key}".lstrip("."))
                break
        else:
            yield Difference(f"{where}.{key}".lstrip("."), found, NOT_ALLOWED)


def _of_list(pattern: list[Any], value: Any, boundary: Mapping[str, Any], where: str) -> Iterator[Difference]:
    if not isinstance(value, list):
        yield Difference(where, value, "a list")
        return
    each = len(pattern) == 1 and isinstance(pattern[0], dict) and len(pattern[0]) == 1 and "each" in pattern[0]
    wanted = [pattern[0]["each"]] * len(value) if each else pattern
    if len(wanted) != len(value):
        yield Difference(where, f"{len(value)} entries", f"{len(wanted)}")
        return
    for number, (one, found) in enumerate(zip(wanted, value, strict=True)):
        yield from differences(one, found, boundary, f"{where}[{number}]")


def _of_slot(pattern: str, value: Any, boundary: Mapping[str, Any], where: str) -> Iterator[Difference]:
    whole = _SLOT.fullmatch(pattern)
    name = whole[1] if whole else ""
    if name in boundary:
        wanted = boundary[name]
        several = wanted if isinstance(wanted, OneOf) else (wanted,)
        if not any(_is_same(one, value) for one in several):
            yield Difference(where, value, wanted)
    elif name in _NUMBERS:
        least, most = _NUMBERS[name]
        if type(value) is not int or not least <= value <= most:
            yield Difference(where, value, f"a number from {least} to {most}")
    elif not isinstance(value, str) or not _form(_filled(pattern, boundary)).fullmatch(value):
        yield Difference(where, value, pattern)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same, types and all: for Python, true is 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    plain = (dict, list)
    return not isinstance(one, plain) and not isinstance(other, plain) and type(one) is type(other) and one == other


def _filled(pattern: str, boundary: Mapping[str, Any]) -> str:
    """Return a pattern in which what the boundary has under a name stands for it, marked so that it is no name again."""
    return _SLOT.sub(lambda found: _marked(boundary[found[1]]) if found[1] in boundary else found[0], pattern)


def _marked(value: Any) -> str:
    several = value if isinstance(value, OneOf) else (value,)
    return "\0".join(("", "|".join(re.escape(str(one)) for one in several), ""))


@lru_cache(maxsize=8192)
def _form(pattern: str) -> re.Pattern[str]:
    parts = []
    for number, part in enumerate(pattern.split("\0")):
        if number % 2:
            parts.append(f"(?:{part})")
            continue
        at = 0
        for found in _SLOT.finditer(part):
            parts += [re.escape(part[at : found.start()]), f"(?:{_TEXTS[found[1]]})"]
            at = found.end()
        parts.append(re.escape(part[at:]))
    return re.compile("".join(parts))
