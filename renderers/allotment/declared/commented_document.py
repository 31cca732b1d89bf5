"""Read a YAML document into a tree of entries, each with its comments."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

from allotment.declared import documents

_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#")


class Comments(NamedTuple):
    """The comments of an entry: whole lines above it, and a comment at the end of its line."""

    above: list[str]
    inline: str


class Entry(NamedTuple):
    """A field of a mapping, or an item of a list. An item has no key."""

    key: str | None
    value: Any
    comments: Comments


class Group(NamedTuple):
    """A mapping or a list."""

    is_mapping: bool
    entries: list[Entry]


class CommentedDocument(NamedTuple):
    """A document, with the comments above its first entry (`header`) and below its last (`footer`)."""

    header: list[str]
    root: Group
    footer: list[str]


def read_commented_document(data: bytes) -> CommentedDocument:
    """Return a document that has no syntax errors. Its scalars are events of the parser."""
    return _CommentedTree(data.decode("utf-8").replace("\r\n", "\n")).read_document()


class _CommentedTree:
    """Reads a document into entries with their comments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events: list[Any] = [
            event for event in documents.parse_events(text) if not isinstance(event, _FRAME_EVENTS)
        ]
        self.at = 0
        self.comments = _find_comments(text, [event for event in self.events if isinstance(event, yaml.ScalarEvent)])

    def read_document(self) -> CommentedDocument:
        first = self.events[0].start_mark.line
        header = self._take_comments_before(first, whole_lines=True)
        group = self._read_node()
        footer = [text for line, (text, _) in sorted(self.comments.items())]
        return CommentedDocument(header, group, footer)

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
            entries.append(Entry(key, self._read_node(), Comments(above, inline_comment)))
        self.at += 1
        return Group(mapping, entries)

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
