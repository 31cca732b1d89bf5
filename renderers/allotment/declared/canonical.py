"""Write declarations in canonical form: fields in the order of the pydantic model, sorted lists, one item per line.

A free-form mapping, such as the values of a chart, keeps its order. The keys of a mapping of text, such as labels, are
sorted. Only the form changes: a parser reads the same values from `canonicalize(text)` as from `text`. A comment stays
above or beside its item. Comments above the first item stay at the top of the file.
"""

from __future__ import annotations

import json
import re
import typing
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from allotment.declared import documents
from allotment.declared.reading import without_optional
from allotment.declared.scalars import reads_as_text

LIST_KEYS = ("name", "version", "mountPath", "from", "storageSpec", "key")
ORDERED_LISTS = ("command", "args")

_PLAIN = re.compile(
    r"[^\W\d_](?:[\w ./@+()'*;!?-]|,(?= )|:(?=[\w/@-]))*|/[\w./@+-]*|[1-9][0-9]*(?:Mi|Gi|Ti|m)|(?:[0-9]+h)?(?:[0-9]+m)?[0-9]+[hms]"
)
_ESCAPED = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#")


class _Comments(NamedTuple):
    above: list[str]
    inline: str


class _Entry(NamedTuple):
    """A field of a mapping, or an item of a list. An item has no key."""

    key: str | None
    value: Any
    comments: _Comments


class _Group(NamedTuple):
    """A mapping or a list."""

    mapping: bool
    entries: list[_Entry]


def canonicalize(data: bytes, model: type[BaseModel] | None) -> bytes:
    """Return the canonical form of a document.

    The document must have no syntax errors. `model` defines the order of the fields.
    """
    text = data.decode("utf-8").replace("\r\n", "\n")
    tree, comments = _CommentedTree(text).read_document()
    header = comments.header
    lines = [*header]
    _write(tree, model, "", lines, "")
    lines += comments.footer
    return ("\n".join(lines) + "\n").encode("utf-8")


class _DocumentComments(NamedTuple):
    header: list[str]
    footer: list[str]


class _CommentedTree:
    """Reads a document into entries with their comments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events: list[Any] = [
            event for event in documents.parse_events(text) if not isinstance(event, _FRAME_EVENTS)
        ]
        self.at = 0
        self.comments = _find_comments(text, [event for event in self.events if isinstance(event, yaml.ScalarEvent)])

    def read_document(self) -> tuple[_Group, _DocumentComments]:
        first = self.events[0].start_mark.line
        header = self._take_comments_before(first, whole_lines=True)
        group = self._read_node()
        footer = [text for line, (text, _) in sorted(self.comments.items())]
        return group, _DocumentComments(header, footer)

    def _take_comments_before(self, line: int, whole_lines: bool) -> list[str]:
        numbers = [
            number for number, (_, alone) in sorted(self.comments.items()) if number < line and alone is whole_lines
        ]
        return [self.comments.pop(number)[0] for number in numbers]

    def _read_node(self) -> Any:
        event = self.events[self.at]
        self.at += 1
        if isinstance(event, yaml.ScalarEvent):
            return event
        mapping = isinstance(event, yaml.MappingStartEvent)
        entries = []
        while not isinstance(self.events[self.at], (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            start: Any = self.events[self.at].start_mark
            line: int = start.line
            above = self._take_comments_before(line, whole_lines=True)
            key = None
            if mapping:
                key = self.events[self.at].value
                self.at += 1
            inline_comment = self._take_comment_beside(self._find_last_line(self.events[self.at], line))
            entries.append(_Entry(key, self._read_node(), _Comments(above, inline_comment)))
        self.at += 1
        return _Group(mapping, entries)

    @staticmethod
    def _find_last_line(event: Any, line: int) -> int:
        """Return the line on which a comment beside an entry can be.

        A comment beside a block scalar is on the first line of the scalar. A comment beside any other scalar is on its
        last line. A comment beside a mapping or a list is on `line`, the line of the key.
        """
        if not isinstance(event, yaml.ScalarEvent):
            return line
        mark: Any = event.start_mark if event.style in ("|", ">") else event.end_mark
        last: int = mark.line
        return last

    def _take_comment_beside(self, line: int) -> str:
        """Return the comment at the end of a line; empty if there is none, or if a later entry starts on the line."""
        if line not in self.comments or self.comments[line][1]:
            return ""
        later: list[Any] = [event for event in self.events[self.at + 1 :] if isinstance(event, yaml.ScalarEvent)]
        if any(event.start_mark.line == line for event in later):
            return ""
        return self.comments.pop(line)[0]


_FRAME_EVENTS = (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)


def _find_comments(text: str, scalars: list[Any]) -> dict[int, tuple[str, bool]]:
    """Return the comment of each line, and whether the line contains only the comment."""
    lines = text.split("\n")
    scalar_spans: dict[int, list[tuple[int, int]]] = {}
    for event in scalars:
        start, end = event.start_mark, event.end_mark
        block = event.style in ("|", ">")
        for line in range(start.line + 1 if block else start.line, end.line + 1):
            first = start.column if line == start.line else 0
            last = end.column if line == end.line else len(lines[line]) if line < len(lines) else 0
            scalar_spans.setdefault(line, []).append((first, last))
    comments: dict[int, tuple[str, bool]] = {}
    for number, text_line in enumerate(lines):
        for hit in _COMMENT.finditer(text_line):
            if not any(first <= hit.start() < last for first, last in scalar_spans.get(number, ())):
                comments[number] = (text_line[hit.start() :].rstrip(), not text_line[: hit.start()].strip())
                break
    return comments


def _write(group: _Group, annotation: Any, pad: str, lines: list[str], first: str) -> None:
    """Append the lines of a group to `lines`.

    If the group is an item of a list, `first` is the start of its first line: the padding and a dash.
    """
    fields = _field_order(annotation) if group.mapping else {}
    entries = group.entries
    if group.mapping and fields:
        order = {alias: index for index, alias in enumerate(fields)}
        entries = sorted(entries, key=lambda entry: order.get(str(entry.key), len(order)))
    elif group.mapping:
        keeps = annotation is None or _is_free_form(annotation)
        entries = entries if keeps else sorted(entries, key=lambda entry: str(entry.key))
    inner = Any if _is_free_form(annotation) else annotation
    for entry in entries:
        lines += [f"{pad}{comment}" for comment in entry.comments.above]
        lead = first or pad
        first = ""
        start = f"{lead}{quote_text(str(entry.key))}:" if group.mapping else f"{lead}-"
        inline_comment = f"  {entry.comments.inline}" if entry.comments.inline else ""
        below = fields.get(str(entry.key)) if group.mapping and inner is not Any else inner
        _write_value(entry, below, pad, start, inline_comment, lines)


def _write_value(entry: _Entry, annotation: Any, pad: str, start: str, inline_comment: str, lines: list[str]) -> None:
    value = entry.value
    if not isinstance(value, _Group):
        lines.append(f"{start} {_write_scalar(value, pad)[0]}{inline_comment}")
        lines.extend(_write_scalar(value, pad)[1])
    elif not value.entries:
        lines.append(f"{start} {'{}' if value.mapping else '[]'}{inline_comment}")
    elif value.mapping and entry.key is None:
        inner = _order_fields(value, annotation)
        if inline_comment or inner.entries[0].comments.above:
            lines += [
                f"{pad}{comment}"
                for comment in ([inline_comment.strip()] if inline_comment else []) + inner.entries[0].comments.above
            ]
            inner.entries[0] = inner.entries[0]._replace(comments=inner.entries[0].comments._replace(above=[]))
        _write(inner, annotation, pad + "  ", lines, f"{pad}- ")
    elif value.mapping:
        lines.append(f"{start}{inline_comment}")
        _write(value, annotation, pad + "  ", lines, "")
    else:
        lines.append(f"{start}{inline_comment}")
        is_free = annotation is Any
        items = value if is_free else _sort_list(value, entry.key)
        _write(items, Any if is_free else _item_annotation(annotation), pad + "  ", lines, "")


def _order_fields(group: _Group, annotation: Any) -> _Group:
    order = {alias: index for index, alias in enumerate(_field_order(annotation))}
    return _Group(True, sorted(group.entries, key=lambda entry: order.get(str(entry.key), len(order))))


def _sort_list(group: _Group, key: str | None) -> _Group:
    """Return a list sorted by the key field of its items, or by the items themselves if they are scalars.

    Lists in ORDERED_LISTS and lists of mappings without a key field stay unchanged.
    """
    if key in ORDERED_LISTS:
        return group
    keys: list[tuple[Any, ...]] = []
    for entry in group.entries:
        value = entry.value
        if not isinstance(value, _Group):
            keys.append((value.value,))
            continue
        texts = {
            field_entry.key: field_entry.value.value
            for field_entry in value.entries
            if not isinstance(field_entry.value, _Group)
        }
        name = next((name for name in LIST_KEYS if name in texts), None)
        if name is None:
            return group
        keys.append((texts[name], texts.get("mountPath", ""), texts.get("operator", "")))
    order = sorted(range(len(keys)), key=lambda index: keys[index])
    return _Group(False, [group.entries[index] for index in order])


def _is_free_form(annotation: Any) -> bool:
    """Return whether a mapping may have any values, such as the values of a chart. Its order may have a meaning."""
    annotation = without_optional(annotation)
    return annotation is Any or typing.get_args(annotation)[-1:] == (Any,)


def _field_order(annotation: Any) -> dict[str, Any]:
    """Return the annotations of a model's fields by alias; empty if `annotation` is not a model."""
    annotation = without_optional(annotation)
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return {}
    return {str(field.alias): field.annotation for field in annotation.model_fields.values()}


def _item_annotation(annotation: Any) -> Any:
    arguments = typing.get_args(without_optional(annotation)) if annotation is not None else ()
    return without_optional(arguments[-1]) if arguments else None


def _write_scalar(event: Any, pad: str) -> tuple[str, list[str]]:
    """Return the text for the line of the key, and the further lines if the scalar becomes a block scalar."""
    value: str = event.value
    if not event.style:
        return value, []
    if "\n" in value and _fits_block(value):
        ending = "" if value.endswith("\n") and not value.endswith("\n\n") else "-" if not value.endswith("\n") else "+"
        body = value.removesuffix("\n").split("\n")
        return f"|{ending}", [f"{pad}  {line}" if line else "" for line in body]
    return quote_text(value), []


def _fits_block(value: str) -> bool:
    lines = value.split("\n")
    return (
        bool(lines[0].strip())
        and not value.startswith(" ")
        and all(line == line.rstrip() and line.replace("\t", " ").isprintable() for line in lines)
        and not value.endswith("\n\n")
    )


def quote_text(value: str) -> str:
    """Return a text as a key or value: plain if every parser reads it as this text, and otherwise in double quotes."""
    if _PLAIN.fullmatch(value) and not value.endswith(" ") and reads_as_text(value):
        return value
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))
