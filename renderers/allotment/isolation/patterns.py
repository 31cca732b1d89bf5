"""Compile patterns of Kubernetes objects, and report where an object differs from its patterns.

A pattern looks like an object. An object must have exactly the same keys and values, except for these forms:

    <name>          a slot: the value with this name in the boundary, the mapping of the values that a cluster allows
    <a-name>        a slot: a text or number that the tenant chooses, in a form of `slots`
    key*            the key may be absent
    <a-label-key>:  any number of keys of this form
    - each: …       a list in which every item matches
    either: […]     any of these alternatives

A pattern is compiled to functions once (`compile_pattern`), because many objects are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from allotment.isolation.hidden_values import FieldPath, HiddenValue, HiddenValueRead
from allotment.isolation.slots import AnyOf, compile_slot
from allotment.problems import escape_unprintable

__all__ = ["AnyOf", "PatternReader", "compile_pattern", "find_chosen_slots", "find_differences", "matches"]


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


class DifferenceReport(list[PatternDifference]):
    """The differences found so far, and the path of the field that is being compared.

    `chosen_slots` has the slots that accepted a value by their form, by the path of the value.
    """

    def __init__(self, at: FieldPath = ()) -> None:
        super().__init__()
        self.at = at
        self.chosen_slots: dict[FieldPath, str] = {}


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


def matches(readers: list[PatternReader], value: Any, boundary: Mapping[str, Any]) -> bool:
    """Return whether a value, which may contain hidden values, matches one of several patterns."""
    return _matches_any(readers, value, boundary, None)


def find_chosen_slots(
    readers: list[PatternReader], value: Any, boundary: Mapping[str, Any]
) -> dict[FieldPath, str] | None:
    """Return the slots that accept a part of `value` by their form, by the path of the part.

    The result is None if the value matches none of the patterns.
    """
    report = DifferenceReport()
    return report.chosen_slots if _matches_any(readers, value, boundary, report) else None


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
        try:
            matched = alternative(value, boundary, None)
        except HiddenValueRead:
            continue  # this alternative depends on a hidden value
        if matched:
            if report is not None:
                alternative(value, boundary, report)  # reports the chosen slots, and no difference
            return True
    if report is not None and readers:
        report += sorted(
            (_report_differences(alternative, value, boundary, report.at) for alternative in readers), key=len
        )[0]
    return False


def _report_differences(
    alternative: PatternReader, value: Any, boundary: Mapping[str, Any], at: FieldPath
) -> DifferenceReport:
    report = DifferenceReport(at)
    alternative(value, boundary, report)
    return report


def _note_difference(report: DifferenceReport | None, value: Any, expected_value: Any, field: FieldPath = ()) -> bool:
    """Report a difference at the current value or one of its fields; return False."""
    if report is not None:
        report.append(PatternDifference(_format_path((*report.at, *field)), value, expected_value))
    return False


def _format_path(path: FieldPath) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


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
                same = _read_field(inner, value[key], boundary, report, key) and same
            elif not optional:
                same = _note_difference(report, ABSENT, expected_value, (key,))
        return read_others(value, boundary, report) and same

    return read


def _compile_unnamed_entries(named: Collection[str], forms: list[tuple[PatternReader, PatternReader]]) -> PatternReader:
    """Return the reader for the entries that the pattern does not name: each must match a pair of patterns in `forms`."""

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        same = True
        for key in [field for field in value if field not in named]:
            inner = next((inner for form, inner in forms if form(key, boundary, None)), None)
            if inner is None:
                same = _note_difference(report, value[key], NOT_ALLOWED, (key,))
            else:
                same = _read_field(inner, value[key], boundary, report, key) and same
        return same

    return read


def _read_field(
    inner: PatternReader, value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None, field: str | int
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
            same = _read_field(inner, entry, boundary, report, number) and same
        return same

    return read


def _compile_slot(pattern: str) -> PatternReader:
    slot = compile_slot(pattern)
    is_so, is_chosen = slot.matches, slot.is_chosen

    def read(value: Any, boundary: Mapping[str, Any], report: DifferenceReport | None) -> bool:
        if type(value) is HiddenValue:
            return value.slot == pattern and is_chosen(boundary)
        if not is_so(value, boundary):
            return _note_difference(report, value, slot.describe(boundary) if report is not None else None)
        if report is not None and is_chosen(boundary):
            report.chosen_slots[report.at] = pattern
        return True

    return read
