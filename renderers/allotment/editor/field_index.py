"""Finds the fields in a text that may be incomplete: an editor asks about a declaration while it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from allotment.declared import documents
from allotment.declared.encoding import MAX_BYTES
from allotment.problems import FieldPath

_CURSOR = "allotment-cursor"
_WORD = re.compile(r"[\w./@+'\"-]*")
_ITEM_DASHES = re.compile(r"\s*(?:-\s+)*-?\Z")


class Token(NamedTuple):
    """A key or a scalar value, with the offsets of its start and end.

    `field` is the field of the value, or the field that the key begins.
    """

    field: FieldPath
    is_key: bool
    text: str
    start: int
    end: int


class Cursor(NamedTuple):
    """The place in a declaration at which the next word is written.

    If `is_key` is true, the word is a key in the mapping at `field`. Otherwise it is the value of `field`. The word
    replaces the text between the offsets `start` and `end`. `tokens` are all other keys and values of the declaration.
    If `needs_space` or `needs_colon` is true, the space before the word or the colon after it is missing.
    """

    field: FieldPath
    is_key: bool
    start: int
    end: int
    tokens: tuple[Token, ...]
    needs_space: bool = False
    needs_colon: bool = False

    def text_at(self, field: FieldPath) -> str | None:
        """Return the text of a scalar value; None if the field has none."""
        return next((token.text for token in self.tokens if token.field == field and not token.is_key), None)

    def keys_in(self, field: FieldPath) -> set[str]:
        """Return the keys of the mapping at a field."""
        return {str(token.field[-1]) for token in self.tokens if token.is_key and token.field[:-1] == field}


def find_tokens(text: str) -> list[Token]:
    """Return the keys and scalar values of a text, in their order, up to the first syntax error."""
    tokens: list[Token] = []
    if len(text) > MAX_BYTES:
        return tokens
    try:
        for count, token in enumerate(_walk_events(documents.parse_events(text))):
            tokens.append(token)
            if count > documents.MAX_EVENTS:
                break
    except (yaml.YAMLError, ValueError):  # ValueError: a lone surrogate can't be encoded
        pass
    return tokens


def find_token(tokens: Iterable[Token], offset: int) -> Token | None:
    """Return the key or value at an offset; None if there is none."""
    return next((token for token in tokens if token.start <= offset <= token.end and token.start < token.end), None)


def find_cursor(text: str, offset: int) -> Cursor | None:
    """Return the place at an offset of a text; None if the text before it can't be read, such as within a comment."""
    if len(text) > MAX_BYTES:
        return None
    line_start = text.rfind("\n", 0, offset) + 1
    start = offset - _measure_word(text[line_start:offset][::-1])
    end = offset + _measure_word(text[offset:])
    before = text[line_start:start]
    line_end = text.find("\n", end)
    after = text[end : line_end if line_end >= 0 else len(text)]
    has_colon = after.lstrip().startswith(":")
    needs_space = before.endswith(":") or (before.endswith("-") and bool(_ITEM_DASHES.match(before)))
    word = f"{' ' if needs_space else ''}{_CURSOR}"
    # In block style, only a colon marks a word as a key. In flow style, and as a value, the word stands alone.
    words = [f"{word}:", word] if _ITEM_DASHES.match(before) and not has_colon else [word]
    rest = text[line_end:] if line_end >= 0 else ""
    for candidate in words:
        # The text after the cursor has the other keys of the mapping. If it can't be read, the text before must do.
        for tail in (after + rest, after, ""):
            tokens = find_tokens(text[:start] + candidate + tail)
            place = next((token for token in tokens if token.text == _CURSOR), None)
            if place is not None:
                return Cursor(
                    field=place.field[:-1] if place.is_key else place.field,
                    is_key=place.is_key,
                    start=start,
                    end=end,
                    tokens=tuple(token for token in tokens if token is not place),
                    needs_space=needs_space,
                    needs_colon=place.is_key and not has_colon,
                )
    return None


def _measure_word(text: str) -> int:
    """Return the number of characters of the word at the start of a text."""
    match = _WORD.match(text)
    return match.end() if match is not None else 0


class _Group:
    """A mapping or list that the walk is in. `key` is the current key of a mapping; None before a key."""

    def __init__(self, field: FieldPath, is_mapping: bool) -> None:
        self.field, self.is_mapping = field, is_mapping
        self.key: str | None = None
        self.index = 0

    def begin_value(self) -> FieldPath:
        """Return the field of the next value."""
        return (*self.field, self.key if self.is_mapping else self.index)  # type: ignore[arg-type]

    def end_value(self) -> None:
        """Continue with the next key or item."""
        self.key = None
        self.index += 1


def _walk_events(events: Iterator[Any]) -> Iterator[Token]:
    """Yield the keys and scalar values of the first document, without recursion. Stops at a key that is no scalar."""
    groups: list[_Group] = []
    for event in events:
        kind = type(event)
        if kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
            groups.pop()
            if not groups:
                return
            groups[-1].end_value()
        elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
            if groups and (len(groups) >= documents.MAX_DEPTH or (groups[-1].is_mapping and groups[-1].key is None)):
                return
            field = groups[-1].begin_value() if groups else ()
            groups.append(_Group(field, kind is yaml.MappingStartEvent))
        elif kind is yaml.ScalarEvent and groups:
            start, end = event.start_mark.index, event.end_mark.index
            group = groups[-1]
            if group.is_mapping and group.key is None:
                group.key = event.value
                yield Token((*group.field, event.value), True, event.value, start, end)
            else:
                yield Token(group.begin_value(), False, event.value, start, end)
                group.end_value()
        elif kind is yaml.AliasEvent and groups:
            if groups[-1].is_mapping and groups[-1].key is None:
                return
            groups[-1].end_value()
