"""Compare a value with a slot of a pattern: with the slot's value in the boundary, or with the form of the slot.

A slot has the name of a value in the boundary, such as `<tenant>`, or the name of a form, such as `<a-path>`. A string may
contain several slots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

_SLOT_PATTERN = re.compile(r"<([a-z0-9-]+)>")
_MATCH_NOTHING = "(?!)"
_NAME = r"[a-z](?:-?[a-z0-9])*"
_TEXT_SLOTS = {  # the forms of values that a tenant chooses, or that follow from such values
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
    "a-secret-key": r"(?!\.\.|\.$)[-._a-zA-Z0-9]{1,253}",
    "a-secret-list": rf"{_NAME}--secret(?:,{_NAME}--secret)*",
    "a-secret-path": r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*){0,4}",
    "a-property": r"[A-Za-z0-9_][A-Za-z0-9._-]*",
    "an-interval": r"[1-9][0-9]?h[0-9]{1,2}m[0-9]{1,2}s|[1-9][0-9]?m[0-9]{1,2}s",
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
    "a-groups-reading-rule": r"read-groups(?:-[0-9]+)?",
    "a-users-reading-rule": r"read-users(?:-[0-9]+)?",
}
_NUMBER_SLOTS = {"a-number": (0, 10**9), "a-port": (1, 65535)}


_MISSING = object()  # stands for a value that the boundary does not have


class AnyOf(tuple[Any, ...]):
    """A boundary value that allows any of several values."""


SlotReader = Callable[[Any, Mapping[str, Any]], bool]  # returns whether a value matches a slot, given the boundary


class Slot(NamedTuple):
    """A string with slots in a pattern.

    `matches` compares a value with it. `names` has the names of its slots. `has_form` is true if each slot has a form, so
    that the boundary need not have a value for it.
    """

    text: str
    names: frozenset[str]
    has_form: bool
    matches: SlotReader

    def is_chosen(self, boundary: Mapping[str, Any]) -> bool:
        """Return whether the slot accepts a value by its form alone, because the boundary has no value for it."""
        return self.has_form and boundary.keys().isdisjoint(self.names)

    def describe(self, boundary: Mapping[str, Any]) -> Any:
        """Return the expected value or form, for a message."""
        match = _SLOT_PATTERN.fullmatch(self.text)
        return _describe_slot(match[1], boundary) if match else self.text


@lru_cache
def compile_slot(text: str) -> Slot:
    """Return the slots of a string in a pattern."""
    match = _SLOT_PATTERN.fullmatch(text)
    names = frozenset(_SLOT_PATTERN.findall(text))
    forms = _TEXT_SLOTS.keys() | _NUMBER_SLOTS.keys() if match else _TEXT_SLOTS.keys()
    return Slot(text, names, names <= forms, _compile_whole_slot(match[1]) if match else _compile_embedded_slots(text))


def _compile_whole_slot(name: str) -> Callable[[Any, Mapping[str, Any]], bool]:
    """Return the function that compares a value with the slot's value in the boundary, or else with the slot's form."""
    least, most = _NUMBER_SLOTS.get(name, (0, 0))
    form = re.compile(_TEXT_SLOTS[name]) if name in _TEXT_SLOTS else None

    def is_so(value: Any, boundary: Mapping[str, Any]) -> bool:
        expected_value = boundary.get(name, _MISSING)
        if type(expected_value) is str:
            return bool(value == expected_value)
        if expected_value is not _MISSING:
            return any(
                _is_same(choice, value)
                for choice in (expected_value if type(expected_value) is AnyOf else (expected_value,))
            )
        if form is None:
            return bool(most) and type(value) is int and least <= value <= most
        return type(value) is str and form.fullmatch(value) is not None

    return is_so


def _describe_slot(name: str, boundary: Mapping[str, Any]) -> Any:
    if name in _NUMBER_SLOTS:
        least, most = _NUMBER_SLOTS[name]
        return f"a number from {least} to {most}"
    return boundary.get(name, f"<{name}>")


def _compile_embedded_slots(pattern: str) -> Callable[[Any, Mapping[str, Any]], bool]:
    """Return the function that compares a string with a pattern that has slots within a text."""
    texts = _SLOT_PATTERN.split(pattern)  # slot names are at the odd indices
    slots = frozenset(texts[1::2])
    form = _compile_form(pattern) if slots <= _TEXT_SLOTS.keys() else None

    def is_so(value: Any, boundary: Mapping[str, Any]) -> bool:
        if type(value) is not str:
            return False
        if form is not None and boundary.keys().isdisjoint(slots):
            return form.fullmatch(value) is not None
        if all(type(boundary.get(slot)) is str for slot in slots):
            return value == "".join([boundary[text] if at % 2 else text for at, text in enumerate(texts)])
        return _compile_form(_fill_slots(pattern, boundary)).fullmatch(value) is not None

    return is_so


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values and their types are equal; the types matter because Python considers True and 1 equal."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_is_same(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    plain = (dict, list)
    return (
        not isinstance(value, plain) and not isinstance(other, plain) and type(value) is type(other) and value == other
    )


def _fill_slots(pattern: str, boundary: Mapping[str, Any]) -> str:
    """Return a pattern in which values of the boundary replace slots.

    Each value has a mark before and after it, so that `_compile_form` does not read the value as a slot.
    """
    return _SLOT_PATTERN.sub(
        lambda match: _mark_value(boundary[match[1]]) if match[1] in boundary else match[0], pattern
    )


def _mark_value(value: Any) -> str:
    choices = value if isinstance(value, AnyOf) else (value,)
    return "\0".join(("", "|".join(re.escape(str(choice)) for choice in choices) or _MATCH_NOTHING, ""))


@lru_cache(maxsize=8192)
def _compile_form(pattern: str) -> re.Pattern[str]:
    parts = []
    for number, part in enumerate(pattern.split("\0")):
        if number % 2:
            parts.append(f"(?:{part})")
            continue
        at = 0
        for match in _SLOT_PATTERN.finditer(part):
            parts += [re.escape(part[at : match.start()]), f"(?:{_TEXT_SLOTS[match[1]]})"]
            at = match.end()
        parts.append(re.escape(part[at:]))
    return re.compile("".join(parts))
