"""Find out which lines of an accepted object a tenant chooses, and prove that the verdict does not depend on them.

The proof has three steps:

1. The gate judges the object with stand-ins for the names. It depends on the names only by comparing them with the names
   of the owner, so it judges the same text with other names in the same way.
2. The patterns report which values they accepted by their form alone. Hidden values replace these values, and the gate
   judges the object again. A check that reads a hidden value raises HiddenValueRead, so the value stays fixed. A verdict
   without such an error holds for all values of these forms.
3. An object depends only on its parsed lines, and its structure only on their indentations, dashes and keys. Therefore
   a text that differs only in the values of chosen lines has the same structure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from allotment.isolation.boundary import Boundary
from allotment.isolation.expected_objects import select_patterns, template_text
from allotment.isolation.frames import (
    JOB_SUFFIX,
    STAND_IN,
    STAND_IN_JOB_SUFFIX,
    STAND_IN_RESOURCE,
    STAND_IN_TENANT,
    ChosenLine,
    Frame,
    Scope,
    find_chosen_line,
)
from allotment.isolation.hidden_values import FieldPath, HiddenValue, HiddenValueRead
from allotment.isolation.patterns import find_chosen_slots, matches
from allotment.isolation.published_policy import FileOwner, judge_object
from allotment.manifests.yaml_text import YAML_WORDS, Object, load_one, number_values, parse_line

_NAME = re.compile(r"[a-z](?:-?[a-z0-9])*")
_SNAPSHOT_SUFFIX = "--snapshot"
_JOB_NAME = re.compile(rf"^  name: {STAND_IN_RESOURCE}({JOB_SUFFIX.pattern})$", re.MULTILINE)
# With such a name, a plain text could become a word of YAML, such as `no`.
_PARTS_OF_YAML_WORDS = frozenset(
    word[start:end] for word in YAML_WORDS for start in range(len(word)) for end in range(start + 1, len(word) + 1)
)


class FrameLearner:
    """Learns frames of one cluster's objects. It remembers which fields the checks read, so that it hides them only once."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._read_fields: set[tuple[str, FieldPath]] = set()

    def learn(self, owner: FileOwner, text: str) -> Frame | None:
        """Return the frame of an object, or None if the gate does not accept the object with stand-ins for its names."""
        text = replace_names(owner, text)
        owner = FileOwner(owner.part, STAND_IN_TENANT, scope_resource(owner))
        manifest = load_one(text)
        readers, values = select_patterns(self._boundary, owner.part, owner.tenant, owner.resource, manifest)
        slots = find_chosen_slots(readers, manifest, values)
        if slots is None:
            return None
        kind = str(manifest["kind"])
        if kind == "Application":  # another check, of the file, reads the spec
            slots = {path: slot for path, slot in slots.items() if path[0] == "metadata"}
        slots = self._select_hidden(owner, kind, text, slots)
        return _build_frame(text, slots) if slots or self._passes(owner, manifest) else None

    def _select_hidden(
        self, owner: FileOwner, kind: str, text: str, slots: dict[FieldPath, str]
    ) -> dict[FieldPath, str]:
        """Return the slots with values that play no part in the acceptance of an object; empty if there are none."""
        while True:
            slots = {
                path: slot for path, slot in slots.items() if (kind, _without_indices(path)) not in self._read_fields
            }
            try:
                return slots if self._passes(owner, _hide(load_one(text), slots)) else {}
            except HiddenValueRead as error:
                self._read_fields.add((kind, _without_indices(error.path)))
            except (AttributeError, TypeError, ValueError, LookupError):  # a check misuses a hidden value
                return {}

    def _passes(self, owner: FileOwner, manifest: Object) -> bool:
        """Return whether the gate accepts an object with hidden values."""
        if any(True for _ in judge_object(self._boundary, owner, manifest)):
            return False
        readers, values = select_patterns(self._boundary, owner.part, owner.tenant, owner.resource, manifest)
        return matches(readers, manifest, values)


def scope_of(cluster: str, owner: FileOwner) -> Scope:
    """Return the scope in which the frames of a file's objects count."""
    return cluster, owner.part, scope_resource(owner)


def scope_resource(owner: FileOwner) -> str:
    """Return the stand-in of a resource, or the stem of a file that belongs to no resource."""
    return STAND_IN_RESOURCE if resource_name(owner) else owner.resource


def resource_name(owner: FileOwner) -> str:
    """Return the declared name of a resource; empty for a file that belongs to no resource."""
    name = owner.resource.removesuffix(_SNAPSHOT_SUFFIX)
    return name if _NAME.fullmatch(name) else ""


def may_have_frame(owner: FileOwner) -> bool:
    """Return whether the names of an owner have the form of declared names, and may stand in a text without quotes."""
    return (
        owner.part != "platform"
        and _NAME.fullmatch(owner.tenant) is not None
        and len(owner.tenant) <= len(STAND_IN_TENANT)
        and len(resource_name(owner)) <= len(STAND_IN_RESOURCE)
        and _PARTS_OF_YAML_WORDS.isdisjoint((owner.tenant, resource_name(owner)))
    )


def replace_names(owner: FileOwner, text: str) -> str:
    """Return a text in which stand-ins replace the names of the tenant, the resource and the preparation Job.

    Raises ValueError if the text contains a stand-in.
    """
    if STAND_IN in text or STAND_IN_JOB_SUFFIX in text:
        raise ValueError("a text with a stand-in")
    name = resource_name(owner)
    text = text.replace(owner.tenant, STAND_IN_TENANT)
    if name and name not in STAND_IN_TENANT:
        text = _replace_resource_name(name, text)
    job = _JOB_NAME.search(text)
    return text.replace(job[1], STAND_IN_JOB_SUFFIX) if job is not None else text


def _replace_resource_name(name: str, text: str) -> str:
    """Return a text in which the stand-in replaces a resource's name.

    If the name also occurs in the patterns, as `lab` does in `labels`, it is replaced only where it is a whole word.
    """
    if name not in template_text():
        return text.replace(name, STAND_IN_RESOURCE)
    return _name_pattern(name).sub(STAND_IN_RESOURCE, text)


@lru_cache
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9./:])")


def _without_indices(path: FieldPath) -> FieldPath:
    return tuple("[]" if isinstance(key, int) else key for key in path)


def _get(manifest: Any, path: FieldPath) -> Any:
    for key in path:
        manifest = manifest[key]
    return manifest


def _hide(manifest: Object, slots: dict[FieldPath, str]) -> Object:
    for path, slot in slots.items():
        _get(manifest, path[:-1])[path[-1]] = HiddenValue(slot, path)
    return manifest


def _build_frame(text: str, slots: dict[FieldPath, str]) -> Frame:
    """Return the frame of a text, in which the values with these paths are chosen."""
    lines: list[str | ChosenLine] = [*text.split("\n")]
    numbers = number_values(text)
    for path, slot in slots.items():
        number = _get(numbers, path)
        line = lines[number]
        assert isinstance(line, str)  # each value has its own line
        own = parse_line(line)
        lines[number] = find_chosen_line(own.indent, own.dash, own.key, slot)
    return Frame(lines)
