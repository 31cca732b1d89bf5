"""Read the YAML of declarations strictly into plain values, with the line and column of every field.

No other module parses declarations. YAML has more notations for a value than a reviewer of a pull request can know. If
two YAML parsers, or a parser and a person, could interpret a notation differently, the notation is an error, and the
message names a replacement.

This module uses only the parsers of PyYAML, which produce events. If PyYAML was built with libyaml, the fast parser of
libyaml reads valid files. The parser in pure Python reads all other files, and finds the positions of fields. This
module does not use the loaders of PyYAML, because they recurse and accept notations that are errors here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from allotment.declared.encoding import SKIP_MARKER, LocatedFinding, UnreadableDeclaration, decode_text
from allotment.declared.scalars import AmbiguousScalar, parse_scalar, reads_as_text
from allotment.problems import FieldPath, Finding, escape_unprintable

MAX_DEPTH = 32
# An event is a key, a value, or the start or end of a list or mapping. This limit bounds the time of the pure parser,
# which takes 20 µs for an event.
MAX_EVENTS = 20_000
MAX_EVENTS_PER_CHARACTER = 4  # a safe limit: `[:,:,` has two events per character
MAX_FINDINGS = 50
TOO_MANY_MESSAGE = f"more than {MAX_EVENTS:,} keys and values are too many for one file: split it"


class _PureParser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):
    """The parser in pure Python. It produces the same events as the parser of libyaml, and loads no values."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: Any) -> Any:
        r"""Return a part of a quoted value. Raises ScannerError, also for an escape of no character such as "\Uffffffff"."""
        try:
            return super().scan_flow_scalar_non_spaces(double, start_mark)
        except (OverflowError, ValueError):
            raise yaml.scanner.ScannerError(None, None, "found an escape of no character", self.get_mark()) from None

    def dispose(self) -> None:
        """Do nothing: the pure parser has no state to release."""


# The parser of libyaml if PyYAML was built with libyaml, and otherwise the pure parser.
PARSER: Any = vars(yaml.cyaml)["CParser"] if yaml.__with_libyaml__ else _PureParser


_valid_keys: set[str] = set()  # keys that passed the check, so that each key is checked only once
_MAX_VALID_KEYS = 5_000


class FieldPosition(NamedTuple):
    """The positions of the value and the key of a field, as 1-based lines and columns.

    A list item has no key, so its key position is the position of its value.
    """

    line: int
    column: int
    key_line: int
    key_column: int


class Document(NamedTuple):
    """The content of a file, and the findings about the file.

    `value` consists of dict, list, str, int and bool. It is None if a finding stopped the reader.
    """

    value: dict[str, Any] | None
    findings: list[LocatedFinding]


class _TooManyEvents(UnreadableDeclaration):
    """The file has more events than MAX_EVENTS."""


MISSING_BLANK = re.compile(r"[ -]*([A-Za-z][A-Za-z0-9]*):((?!//)[^\s:][^:]*)")  # `name:webui`, and no URL
MISSING_DASH_BLANK = re.compile(r" *(-)([A-Za-z].*)")  # `-name: webui`
_UNCLOSED_QUOTE = re.compile(r"""[ -]*(?:[A-Za-z][A-Za-z0-9]*: +)?(["'])(?:(?!\1).)*""")
_FIELD_WITH_VALUE = re.compile(
    r"[ -]*([A-Za-z][A-Za-z0-9]*): +(?![{\[](?!.*[}\]]\s*$))[^\s#|>]"
)  # the value ends in its line
_QUOTE_ADVICE = "the quote that opens here isn't closed: write the same quote at the end of the value"
_MAX_LINE = 200

# libyaml accepts a comment directly after the indicator of a block scalar (`|#`); YAML and the pure parser do not.
_DISPUTED_BLOCK = re.compile(r"[|>][+0-9-]*#")


def read(data: bytes) -> Document:
    """Return the mapping in `data`, and the findings about its notation.

    If the parser of libyaml finds a problem, the pure parser reads the file again, so that messages and positions do
    not depend on libyaml. If the two parsers could disagree about the file, only the pure parser reads it. Both parsers
    stop after MAX_EVENTS events.
    """
    findings: list[LocatedFinding] = []
    try:
        text = decode_text(data)
        if PARSER is not _PureParser and not _DISPUTED_BLOCK.search(text):
            try:
                value = _DocumentBuilder(text, findings, None).build(PARSER)
            except _TooManyEvents:
                raise
            except (yaml.YAMLError, UnreadableDeclaration):
                findings.clear()
            else:
                if not findings:
                    return Document(value, findings)
                findings.clear()
        return Document(_read_with_pure_parser(text, findings, None), findings)
    except _TooManyEvents as stop:
        return Document(None, [stop.finding])
    except UnreadableDeclaration as stop:
        return Document(None, [*findings, stop.finding])


def _read_with_pure_parser(
    text: str, findings: list[LocatedFinding], marks: dict[FieldPath, FieldPosition] | None
) -> dict[str, Any]:
    try:
        return _DocumentBuilder(text, findings, marks).build(_PureParser)
    except (yaml.YAMLError, ValueError) as error:
        context_mark = getattr(error, "context_mark", None)
        mark = getattr(error, "problem_mark", None) or context_mark
        reason = escape_unprintable(str(getattr(error, "problem", None) or "it can't be read"))
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        advice = "look at this line and the one before"
        if context_mark and getattr(error, "context", None) == "while scanning a quoted scalar":
            line, column, advice = context_mark.line + 1, context_mark.column + 1, _QUOTE_ADVICE
        elif match := _find_mistake(text, [each.line + 1 for each in (context_mark, mark) if each]):
            line, column, advice = match
        raise UnreadableDeclaration(f"invalid YAML: {reason}; {advice}", "syntax", line, column) from None


def _find_mistake(text: str, lines: list[int]) -> tuple[int, int, str] | None:
    """Return the line and column of a frequent mistake at or before a syntax error, with an advice."""
    every = text.splitlines()
    for line in dict.fromkeys(number for each in lines for number in (each, each - 1)):
        if 1 <= line <= len(every):
            line_text = every[line - 1][:_MAX_LINE].rstrip()
            if match := MISSING_BLANK.fullmatch(line_text):
                return line, match.start(1) + 1, advise_blank(match)
            if match := MISSING_DASH_BLANK.fullmatch(line_text):
                return line, match.start(1) + 1, advise_dash_blank(match)
            if match := _UNCLOSED_QUOTE.fullmatch(line_text):
                return line, match.start(1) + 1, _QUOTE_ADVICE
    for line in lines:
        if 2 <= line <= len(every) and (match := _FIELD_WITH_VALUE.match(every[line - 2][:_MAX_LINE])):
            indent, least = len(every[line - 1]) - len(every[line - 1].lstrip(" ")), match.start(1)
            if indent > least:
                return line, indent + 1, f"indent this line like the field in the line before, with {least} blanks"
    return None


def advise_blank(match: re.Match[str]) -> str:
    """Return the advice for a match of MISSING_BLANK."""
    return f"a blank is missing after the colon: write `{match[1]}: {escape_unprintable(match[2], 60)}`"


def advise_dash_blank(match: re.Match[str]) -> str:
    """Return the advice for a match of MISSING_DASH_BLANK."""
    return f"a blank is missing after the dash: write `- {escape_unprintable(match[2], 60)}`"


def parse_events(text: str) -> Iterator[Any]:
    """Yield the parser's events."""
    parser = PARSER(text)
    while parser.check_event():
        yield parser.get_event()


def find_plain_scalars(text: str) -> Iterator[Any]:
    """Yield the events of all unquoted keys and values, up to the first syntax error."""
    with contextlib.suppress(yaml.YAMLError):
        yield from (event for event in parse_events(text) if type(event) is yaml.ScalarEvent and not event.style)


def find_positions(data: bytes) -> dict[FieldPath, FieldPosition]:
    """Return the positions of the fields in `data`, up to an error that stops the reader.

    The key `()` is the document itself.
    """
    marks: dict[FieldPath, FieldPosition] = {(): FieldPosition(1, 1, 1, 1)}
    # An error stops the reader, which then raises UnreadableDeclaration. `marks` has the positions before the error.
    with contextlib.suppress(UnreadableDeclaration):
        _read_with_pure_parser(decode_text(data), [], marks)
    return marks


def locate_finding(marks: dict[FieldPath, FieldPosition], finding: Finding) -> tuple[int, int]:
    """Return the line and column of the field of a finding.

    The result is the position of the value. If the finding is about the key, or if the value starts on a later line
    than the key, the result is the position of the key. If the field is absent, the result is the position of the
    nearest enclosing field that exists.
    """
    field = finding.field
    while field and field not in marks:
        field = field[:-1]
    place = marks[field]
    at_key = finding.points_at_key or place.line != place.key_line
    return (place.key_line, place.key_column) if at_key else (place.line, place.column)


class _DocumentBuilder:
    """Builds the value of a document from parser events, without recursion.

    If `marks` is given, the builder also records the position of every field in `marks`.
    """

    def __init__(self, text: str, findings: list[LocatedFinding], marks: dict[FieldPath, FieldPosition] | None) -> None:
        self.text = text
        self.findings = findings
        self.marks = marks
        self.path: list[str | int] = []

    def build(self, parser_type: Any) -> dict[str, Any]:
        """Return the document's value. Raises UnreadableDeclaration, or the YAMLError of the parser."""
        parser = parser_type(self.text)
        next_event = self._limit_events(parser.get_event)
        value: Any = None
        document_count = 0
        try:
            while type(event := next_event()) is not yaml.StreamEndEvent:
                if type(event) is not yaml.DocumentStartEvent:
                    continue
                document_count += 1
                if document_count > 1:
                    raise self._build_stop(
                        event, "a second document starts here: write one document per file", "document"
                    )
                if event.version or event.tags:
                    raise self._build_stop(event, "a directive (%) is not allowed: remove it", "directive")
                value = self._read_root(next_event)
        finally:
            parser.dispose()
        if value is None:
            raise UnreadableDeclaration("the file is empty: write one document, or remove the file", "document", 1, 1)
        result: dict[str, Any] = value
        return result

    def _limit_events(self, next_event: Any) -> Any:
        """Return a function that returns the next event, and raises after MAX_EVENTS events.

        If the text is too short for MAX_EVENTS events, the events are not counted.
        """
        if len(self.text) * MAX_EVENTS_PER_CHARACTER <= MAX_EVENTS:
            return next_event
        numbers = iter(range(MAX_EVENTS))

        def limited() -> Any:
            event = next_event()
            if next(numbers, None) is None:
                raise self._build_stop(event, TOO_MANY_MESSAGE, "size", _TooManyEvents)
            return event

        return limited

    def _read_root(self, next_event: Any) -> Any:
        event = next_event()
        kind = type(event)
        self._check_plain_node(event)
        if kind is yaml.SequenceStartEvent:
            raise self._build_stop(
                event, "the top level is a list: write a mapping with apiVersion, kind, metadata, spec", "document"
            )
        if kind is yaml.ScalarEvent and event.value == "" and not event.style:
            return None
        if kind is not yaml.MappingStartEvent:
            raise self._build_stop(
                event, "the file is not a mapping: write apiVersion, kind, metadata and spec", "document"
            )
        if self.marks is not None:
            mark = event.start_mark
            self.marks[()] = FieldPosition(mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 1)
        return self._read_content({}, next_event)

    def _read_content(self, root: dict[str, Any], next_event: Any) -> dict[str, Any]:
        """Read events up to the end of `root`. This is the hottest loop of the program, so it is one long function."""
        scalar_event, mapping_end, sequence_end = yaml.ScalarEvent, yaml.MappingEndEvent, yaml.SequenceEndEvent
        path, marks = self.path, self.marks
        stack: list[Any] = []
        keys: list[Any] = [{}]
        good_keys = _valid_keys
        current: Any = root
        in_mapping = True
        while True:
            event = next_event()
            kind = type(event)
            if kind is mapping_end or kind is sequence_end:
                keys.pop()
                if not stack:
                    return root
                current = stack.pop()
                in_mapping = type(current) is dict
                path.pop()
                continue
            key_mark = None
            if in_mapping:
                key_mark = event.start_mark
                key_lines: dict[str, int] = keys[-1]
                key = event.value if kind is scalar_event else ""
                if (
                    key in good_keys
                    and key not in key_lines
                    and not event.style
                    and event.anchor is None
                    and event.tag is None
                ):
                    key_lines[key] = key_mark.line + 1
                else:
                    key = self._read_key(event, key_lines)
                path.append(key)
                event = next_event()
                kind = type(event)
            else:
                path.append(len(current))
            if marks is not None:
                mark = event.start_mark
                key_mark = key_mark or mark
                marks[tuple(path)] = FieldPosition(
                    mark.line + 1, mark.column + 1, key_mark.line + 1, key_mark.column + 1
                )
            if kind is scalar_event:
                value: Any = event.value
                if event.anchor is not None or event.tag is not None:
                    self._check_plain_node(event)
                if not event.style:
                    value = self._read_plain_scalar(event, value)
                elif not value.isprintable() or SKIP_MARKER in value:
                    self._check_text(event, value)
                if in_mapping:
                    current[key] = value
                else:
                    current.append(value)
                path.pop()
                continue
            self._check_plain_node(event)
            child: Any = {} if kind is yaml.MappingStartEvent else []
            if in_mapping:
                current[key] = child
            else:
                current.append(child)
            if len(stack) + 2 > MAX_DEPTH:
                raise self._build_stop(event, f"the file nests deeper than {MAX_DEPTH} levels: flatten it", "depth")
            stack.append(current)
            current = child
            in_mapping = kind is yaml.MappingStartEvent
            keys.append({} if in_mapping else None)

    def _read_key(self, event: Any, key_lines: dict[str, int]) -> str:
        if type(event) is not yaml.ScalarEvent:
            self._check_plain_node(event)
            raise self._build_stop(event, "a key must be plain text: write `key: value`", "key")
        self._check_plain_node(event)
        key: str = event.value
        line: int = self._line_number(event)
        if not event.style:
            if key == "<<":
                raise self._build_stop(event, "a merge key (<<) is not allowed: write the fields out", "merge-key")
            if not key:
                raise self._build_stop(event, "a key is missing before the colon", "key")
            if reads_as_text(key):
                if len(_valid_keys) < _MAX_VALID_KEYS:
                    _valid_keys.add(key)
            else:
                self._note_finding(
                    event,
                    f'key {escape_unprintable(key, 40)} is not text to every YAML reader: quote it, "{escape_unprintable(key, 40)}"',
                    "scalar",
                )
        else:
            self._check_text(event, key)
        if key in key_lines:
            self.path.append(key)
            self._note_finding(
                event,
                f"key '{escape_unprintable(key, 40)}' is written twice, first in line {key_lines[key]}: remove one",
                "duplicate-key",
            )
            self.path.pop()
        else:
            key_lines[key] = line
        return key

    def _read_plain_scalar(self, event: Any, text: str) -> Any:
        value = parse_scalar(text)
        if type(value) is AmbiguousScalar:
            self._note_finding(event, value.message, value.rule)
            return value.value
        return value

    def _check_plain_node(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise self._build_stop(
                event,
                f"alias *{escape_unprintable(str(event.anchor), 40)} is not allowed: write the value out",
                "alias",
            )
        if event.anchor is not None:
            raise self._build_stop(
                event, f"anchor &{escape_unprintable(event.anchor, 40)} is not allowed: remove it", "anchor"
            )
        if event.tag is not None:
            tag = escape_unprintable(event.tag, 80).replace("tag:yaml.org,2002:", "!!")
            raise self._build_stop(event, f"tag {tag} is not allowed: remove it", "tag")

    def _check_text(self, event: Any, value: str) -> None:
        """Report text that an escape in a quoted string can produce, although a file must not contain it.

        Such text is a null character, a surrogate, or SKIP_MARKER.
        """
        for character in value:
            code = ord(character)
            if code == 0 or 0xD800 <= code <= 0xDFFF:
                self._note_finding(event, f"character U+{code:04X} is not allowed in text: remove it", "encoding")
                return
        if SKIP_MARKER in value:
            self._note_finding(event, f"'{SKIP_MARKER}' makes Argo CD drop a file: remove it", "reserved")

    @staticmethod
    def _line_number(event: Any) -> int:
        line: int = event.start_mark.line
        return line + 1

    def _note_finding(self, event: Any, message: str, rule: str) -> None:
        mark = event.start_mark
        if len(self.findings) >= MAX_FINDINGS:
            raise self._build_stop(event, "and more like it: correct these first", rule)
        self.findings.append(LocatedFinding(message, rule, mark.line + 1, mark.column + 1, tuple(self.path)))

    def _build_stop(
        self, event: Any, message: str, rule: str, kind: type[UnreadableDeclaration] = UnreadableDeclaration
    ) -> UnreadableDeclaration:
        mark = event.start_mark
        return kind(message, rule, mark.line + 1, mark.column + 1, tuple(self.path))
