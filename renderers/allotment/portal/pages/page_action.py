"""Defines the changes of a resource that a form offers, and their fields."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from allotment.declared.kinds.plan import SelfServiceChange
from allotment.declared.layout import DEFAULT_MAX_NAME_LENGTH

_FIELD = re.compile(r"\{(\w+)\}")


class ActionField(NamedTuple):
    """A field of a form. With `options`, a person chooses one of these pairs of value and text.

    `pattern` is a regular expression for the whole value, with the flag `v` of scripts; empty if every text is valid.
    """

    name: str
    label: str
    hint: str = ""
    value: str = ""
    options: tuple[tuple[str, str], ...] | None = None
    pattern: str = ""
    is_optional: bool = False


class Action(NamedTuple):
    """A change. `{field}` in a text stands for the value of a field.

    `command` has the words of the command. `text` has the lines of the declaration to set, or the new file; it is empty if a file is
    removed. `new_path` is the path of a new file; empty for an existing file. `names` are the names that a new resource can't
    have. `form` is the name of the part of the script that knows more about the action; empty for other actions.
    `barriers` are the reasons why the change is impossible. `variants` has a change for values of the first field with options.
    `change` is the kind of change of self service. `waiting_reason` is why the change always waits for a person; empty for other changes.
    `cost` is the exact text of the money that the change adds in a month; empty if the plan or the script computes it.
    `warning` has a field, a regular expression, and the text that the form shows if the value of the field doesn't match.
    `minimum` has a field for a number, a limit, and the text for a number that isn't above it. With a `gpuSpec`, the limit is the
    number of units that the tenant can have already.
    `instruction` is the text above the lines, and ends before the path of the file; it is empty if only the command can make the change.
    """

    name: str
    title: str
    command: tuple[str, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()
    fields: tuple[ActionField, ...] = ()
    new_path: str = ""
    names: Sequence[str] = ()
    form: str = ""
    barriers: Sequence[str] = ()
    variants: Mapping[str, Action] = MappingProxyType({})
    instruction: str = "Or set these fields below the existing spec of"
    change: SelfServiceChange | None = None
    waiting_reason: str = ""
    cost: str = "0"
    warning: tuple[str, str, str] | None = None
    minimum: Mapping[str, Any] | None = None

    @property
    def example(self) -> str:
        """The command for people without scripts, with the names of fields in upper case."""
        return shlex.join(_FIELD.sub(lambda match: match[1].upper(), word) for word in self.command)

    def describe(self) -> dict[str, Any]:
        """Return the facts for the script. A variant has only the facts that differ."""
        facts: dict[str, Any] = {
            "command": self.command,
            "text": self.text,
            "notes": self.notes,
            "path": self.new_path,
            "names": self.names,
            "longest": DEFAULT_MAX_NAME_LENGTH,
            "form": self.form,
            "barriers": self.barriers,
            "instruction": self.instruction,
            "cost": self.cost,
            "warning": self.warning,
            "minimum": self.minimum,
        }
        variants = {
            value: {
                name: fact for name, fact in action._replace(variants={}).describe().items() if facts.get(name) != fact
            }
            for value, action in self.variants.items()
        }
        return facts | {"variants": variants}


def add_item(text: str, path: Sequence[str], item: str) -> tuple[str, str]:
    """Return the lines that add an item to a list in a file, and the instruction for them.

    `text` is the file, and `path` has the keys from its spec to the list.
    """
    keys, parent = _list_missing_keys(text, path)
    if not keys:
        return item, f"Or add this item to the list {parent} of"
    return "\n".join([*keys, item]), f"Or add these lines below the existing {parent} of"


def remove_item(count: int, list_name: str, item: str) -> tuple[str, str]:
    """Return the first line of an item to remove, and the instruction. `count` is the number of items of the list in the spec."""
    if count > 1:
        return item, f"Or remove this item with all its lines from the list {list_name} of"
    return f"  {list_name}:\n{item}", "Or remove this list with all its lines below the existing spec of"


def set_field(text: str, path: Sequence[str], value: str) -> tuple[str, str]:
    """Return the lines that set a field in a file, and the instruction. `path` has the keys from its spec to the field."""
    keys, parent = _list_missing_keys(text, path[:-1])
    line = f"{'  ' * len(path)}{path[-1]}: {value}"
    return "\n".join([*keys, line]), f"Or set these fields below the existing {parent} of"


def _list_missing_keys(text: str, path: Sequence[str]) -> tuple[list[str], str]:
    """Return the lines of the keys that a file lacks, and the last key that it has."""
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path, 1)]
    count = sum(1 for _ in takewhile(lambda line: f"\n{line}" in text, lines))
    return lines[count:], path[count - 1] if count else "spec"
