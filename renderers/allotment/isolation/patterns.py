"""Compile patterns of Kubernetes objects, and report where an object differs from its patterns.

A pattern looks like an object. An object must have exactly the same keys and values, except for these forms:

    <name>          a slot: the value with this name in the boundary, the mapping of the values that a cluster allows
    <a-name>        a slot: a text or number that the tenant chooses, in the form of `_TEXT_SLOTS` or `_NUMBER_SLOTS`
    key*            the key may be absent
    <a-label-key>:  any number of keys of this form
    - each: …       a list in which every item matches
    either: […]     any of these alternatives

A pattern is compiled to functions once (`compile_pattern`), because many objects are compared with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from allotment.problems import escape_unprintable

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
_NUMBER_SLOTS = {"a-number": (0, 10**9), "a-port": (1, 65535)}


class PatternDifference(NamedTuple):
    """A value that differs from its pattern. The message escapes unprintable characters."""

    field: str
    value: Any
    expected: Any

    def __str__(self) -> str:
        """Return the difference as a message."""
        where = escape_unprintable(self.field or "it", 200)
        return f"{where} is {escape_unprintable(str(self.value), 120)}, must be {escape_unprintable(str(self.expected), 120)}"


ABSENT, NOT_ALLOWED = "absent", "absent: it is not allowed"
_MISSING = object()  # stands for a value that the boundary does not have


class AnyOf(tuple[Any, ...]):
    """A boundary value that allows any of several values."""


class DifferenceReport(list[PatternDifference]):
    """The differences found so far, and the path of the field that is being compared."""

    def __init__(self, at: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.at = at


# A function that returns whether a value matches a pattern. If it gets a report, it adds every difference to the report.
# Without a report, it stops at the first difference.
PatternReader = Callable[[Any, Mapping[str, Any], DifferenceReport | None], bool]


def find_differences(readers: list[PatternReader], value: Any, boundary: Mapping[str, Any]) -> list[PatternDifference]:
    """Return the differences from the closest of several patterns; empty if the value matches one of them.

    `boundary` has the values for the names in the patterns.
    """
    report = DifferenceReport()
    if (
        not _matches_any(readers, value, boundary, None)
        and not _matches_any(readers, value, boundary, report)
        and not report
    ):
        report.append(PatternDifference("", value, "as a pattern has it"))
    return report


def compile_pattern(pattern: Any) -> PatternReader:
    """Return the function that compares values with a pattern."""
    if isinstance(pattern, dict) and pattern.keys() == {"either"}:
        readers = [compile_pattern(alternative) for alternative in pattern["either"]]
        return lambda value, boundary, report: _matches_any(readers, value, boundary, report)
    if isinstance(pattern, str) and "<" in pattern:
        return _compile_slot(pattern)
    if isinstance(pattern, dict | list):
        by_parts = _compile_mapping(pattern) if isinstance(pattern, dict) else _compile_list(pattern)
        return _compile_texts(pattern, by_parts) if _is_text_only(pattern) else by_parts
    return _compile_value(pattern)


def _is_text_only(pattern: Any) -> bool:
    """Return whether a pattern consists of literal strings only."""
    if isinstance(pattern, dict):
        plain = all(not key.endswith("*") and "<" not in key and key not in ("either", "each") for key in pattern)
        return plain and all(map(_is_text_only, pattern.values()))
    if isinstance(pattern, list):
        return all(map(_is_text_only, pattern))
    return isinstance(pattern, str) and "<" not in pattern


def _compile_texts(pattern: Any, by_parts: PatternReader) -> PatternReader:
    """Return a reader for a pattern of literal strings. It compares the parts only if the whole value differs.

    The comparison of the whole value is safe, because Python considers no value of another type equal to a string.
    """
    return lambda value, boundary, report: value == pattern or by_parts(value, boundary, report)


def _matches_any(
    readers: list[PatternReader], value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None
) -> bool:
    for alternative in readers:
        if alternative(value, boundary, None):
            return True
    if report is not None and readers:
        report += sorted(
            (_report_differences(alternative, value, boundary, report.at) for alternative in readers), key=len
        )[0]
    return False


def _report_differences(
    alternative: PatternReader, value: Any, boundary: Mapping[str, Any], at: tuple[str, ...]
) -> DifferenceReport:
    report = DifferenceReport(at)
    alternative(value, boundary, report)
    return report


def _note_difference(report: DifferenceReport | None, value: Any, expected_value: Any, field: str = "") -> bool:
    """Report a difference at the current value or one of its fields; return False."""
    if report is not None:
        report.append(PatternDifference("".join((*report.at, field)).lstrip("."), value, expected_value))
    return False


def _compile_value(expected_value: Any) -> PatternReader:
    kind = type(expected_value)

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        return (type(value) is kind and value == expected_value) or _note_difference(report, value, expected_value)

    return read


def _compile_mapping(pattern: dict[str, Any]) -> PatternReader:
    named = {
        key.removesuffix("*"): (compile_pattern(subpattern), subpattern, key.endswith("*"))
        for key, subpattern in pattern.items()
        if "<" not in key
    }
    read_others = _compile_unnamed_entries(
        named,
        [(compile_pattern(key), compile_pattern(subpattern)) for key, subpattern in pattern.items() if "<" in key],
    )

    def is_so(value: dict[str, Any], boundary: Mapping[str, Any]) -> bool:
        named_count = 0
        for key, (inner, _, optional) in named.items():
            if key in value:
                if not inner(value[key], boundary, None):
                    return False
                named_count += 1
            elif not optional:
                return False
        return named_count == len(value) or read_others(value, boundary, None)

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        if type(value) is not dict:
            return _note_difference(report, value, "a mapping")
        if report is None:
            return is_so(value, boundary)
        same = True
        for key, (inner, expected_value, optional) in named.items():
            if key in value:
                same = _read_field(inner, value[key], boundary, report, f".{key}") and same
            elif not optional:
                same = _note_difference(report, ABSENT, expected_value, f".{key}")
        return read_others(value, boundary, report) and same

    return read


def _compile_unnamed_entries(named: Collection[str], forms: list[tuple[PatternReader, PatternReader]]) -> PatternReader:
    """Return the reader for the entries that the pattern does not name: each must match a pair of patterns in `forms`."""

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        same = True
        for key in [field for field in value if field not in named]:
            inner = next((inner for form, inner in forms if form(key, boundary, None)), None)
            if inner is None:
                same = _note_difference(report, value[key], NOT_ALLOWED, f".{key}")
            else:
                same = _read_field(inner, value[key], boundary, report, f".{key}") and same
        return same

    return read


def _read_field(
    inner: PatternReader, value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None, field: str
) -> bool:
    """Compare a field of a value with its pattern, and keep the report's path up to date."""
    if report is None:
        return inner(value, boundary, None)
    report.at = (*report.at, field)
    same = inner(value, boundary, report)
    report.at = report.at[:-1]
    return same


def _compile_list(pattern: list[Any]) -> PatternReader:
    every = None
    if len(pattern) == 1 and isinstance(pattern[0], dict) and pattern[0].keys() == {"each"}:
        every = compile_pattern(pattern[0]["each"])
    readers = [compile_pattern(subpattern) for subpattern in pattern]

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        if type(value) is not list:
            return _note_difference(report, value, "a list")
        if report is None and every is not None:
            return all(every(entry, boundary, None) for entry in value)
        entry_readers = readers if every is None else [every] * len(value)
        if len(entry_readers) != len(value):
            return _note_difference(report, f"{len(value)} entries", f"{len(entry_readers)}")
        same = True
        for number, (inner, entry) in enumerate(zip(entry_readers, value, strict=True)):
            same = _read_field(inner, entry, boundary, report, f"[{number}]") and same
        return same

    return read


def _compile_slot(pattern: str) -> PatternReader:
    match = _SLOT_PATTERN.fullmatch(pattern)
    is_so = _compile_whole_slot(match[1]) if match else _compile_embedded_slots(pattern)

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        return is_so(value, boundary) or _note_difference(
            report, value, _describe_slot(match[1], boundary) if match else pattern
        )

    return read


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
