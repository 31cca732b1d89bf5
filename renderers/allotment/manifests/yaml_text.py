"""Write manifests as YAML in a restricted form, which is fast to write, and read only this form back.

The form is block style. Mappings are indented by two spaces, the items of a list begin at the column of the list's key,
and each scalar is on its own line. If some YAML parser could read a string as another type, the string is written in
double quotes with JSON's escapes. Therefore no parser can read a value as structure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

Object = dict[str, Any]

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*|[1-9][0-9]{0,9}(?:Mi|Gi|Ti|m|s|h)")
YAML_WORDS = frozenset(
    form
    for word in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    for form in (word, word.title(), word.upper())
)
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_KEY = re.compile(rf"({_PLAIN.pattern}):(?: |$)")
_SEPARATOR = "---\n"
_DECODER = json.JSONDecoder()

_MAX_REMEMBERED = 5_000  # maximum number of strings or lines in each cache


def dump_scalar(text: str) -> str:
    """Return a string as YAML: without quotes if every YAML parser reads it as a string, else in double quotes."""
    if is_plain(text):
        return text
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(text, ensure_ascii=False))


def is_plain(text: str) -> bool:
    """Return whether every YAML parser reads a string without quotes as the same string."""
    return _PLAIN.fullmatch(text) is not None and text not in YAML_WORDS


class _ScalarCache(dict[str, str]):
    """Maps a string to its YAML text between `prefix` and `suffix`, and caches this text."""

    def __init__(self, prefix: str, suffix: str) -> None:
        super().__init__()
        self.prefix = prefix
        self.suffix = suffix

    def __missing__(self, text: str) -> str:
        written = f"{self.prefix}{dump_scalar(text)}{self.suffix}"
        if len(self) >= _MAX_REMEMBERED:
            # Strings that all tenants share are soon cached again. A string of a single tenant rarely occurs again.
            self.clear()
        self[text] = written
        return written


class _KeyCache(dict[str, _ScalarCache]):
    """Maps an indentation to the cache of the keys that are written with this indentation."""

    def __missing__(self, pad: str) -> _ScalarCache:
        keys = self[pad] = _ScalarCache(pad, ":")
        return keys


_key_cache = _KeyCache()
_value_cache = _ScalarCache(" ", "")


class Frozen(dict[str, Any]):
    """A mapping that never changes after construction. It caches its YAML text for each indentation, in `texts`."""

    __slots__ = ("texts",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.texts: dict[str, str] = {}


def without_empty(keys: Object) -> Object:
    """Return a mapping without its empty entries: None, and an empty string, list or mapping."""
    return {key: value for key, value in keys.items() if value is not None and value not in ("", [], {})}


def dump(objects: Iterable[Object]) -> bytes:
    """Return objects as a YAML stream, in the given order and with the given order of keys."""
    lines: list[str] = []
    for manifest in objects:
        if lines:
            lines.append("---")
        _dump_mapping(manifest, "", lines)
    lines.append("")
    return "\n".join(lines).encode("utf-8")


def _dump_mapping(mapping: dict[str, Any], pad: str, lines: list[str]) -> None:
    append, keys, values = lines.append, _key_cache[pad], _value_cache
    for key, value in mapping.items():
        kind = type(value)
        if kind is str:
            append(keys[key] + values[value])
        elif kind is dict:
            if value:
                append(keys[key])
                _dump_mapping(value, pad + "  ", lines)
            else:
                append(keys[key] + " {}")
        elif kind is list:
            if value:
                append(keys[key])
                _dump_sequence(value, pad, lines)
            else:
                append(keys[key] + " []")
        elif kind is Frozen:
            append(keys[key])
            append(_dump_frozen(value, pad + "  "))
        else:
            append(f"{keys[key]} {_dump_atom(value)}")


def _dump_sequence(items: list[Any], pad: str, lines: list[str]) -> None:
    inner = pad + "  "
    for item in items:
        kind = type(item)
        if kind is str:
            lines.append(f"{pad}-{_value_cache[item]}")
        elif kind is dict and not item:
            lines.append(f"{pad}- {{}}")
        elif kind is dict or kind is Frozen:
            at = len(lines)
            if kind is Frozen:
                lines.append(_dump_frozen(item, inner))
            else:
                _dump_mapping(item, inner, lines)
            lines[at] = f"{pad}- {lines[at][len(inner) :]}"
        else:
            lines.append(f"{pad}- {_dump_atom(item)}")


def _dump_frozen(value: Frozen, pad: str) -> str:
    text = value.texts.get(pad)
    if text is None:
        lines: list[str] = []
        _dump_mapping(value, pad, lines)
        text = value.texts[pad] = "\n".join(lines)
    return text


def _dump_atom(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is int:
        return str(value)
    raise TypeError(f"{type(value).__name__} can't stand in a manifest here")


class Malformed(ValueError):
    """Raised for text that is not in the form that `dump` writes."""


def load(data: bytes) -> list[Object]:
    """Return the objects in `data`. Raises Malformed if `data` does not have the form that `dump` writes.

    Raises UnicodeDecodeError if `data` is not UTF-8.
    """
    return [load_one(part) for part in split(data)]


def split(data: bytes) -> list[str]:
    """Return the text of each object. No value contains a line break, so a separator is never part of a value."""
    text = data.decode("utf-8")
    if not text.endswith("\n"):
        raise Malformed("no line end at the end")
    return text[:-1].split("\n" + _SEPARATOR)


def load_one(text: str) -> Object:
    """Return one object; see `load`."""
    return _build_object([_token_cache.get(line) or _parse_line(line) for line in text.split("\n")])


def number_values(text: str) -> Object:
    """Return one object in which the number of its line replaces each text, number and boolean. The first line is 0."""
    lines = [parse_line(line) for line in text.split("\n")]
    return _build_object(
        [
            line if line.value is _NO_VALUE or type(line.value) in (dict, list) else line._replace(value=number)
            for number, line in enumerate(lines)
        ]
    )


def parse_line(line: str) -> Line:
    """Return a parsed line. Raises Malformed if `dump` never writes such a line.

    An object depends on nothing but its parsed lines, and its structure only on their indentations, dashes and keys.
    """
    return _token_cache.get(line) or _parse_line(line)


def _build_object(lines: list[Line]) -> Object:
    reader = _ManifestReader(lines)
    try:
        manifest = reader.read_mapping(0)
    except RecursionError:
        raise Malformed("too deep") from None
    if reader.at != reader.count:
        raise Malformed(f"line {reader.at + 1} is out of place")
    return manifest


class Line(NamedTuple):
    """A parsed line: its indentation, whether it begins a list item, its key and its value.

    The key is None if the line is a list item without a key. The value is _NO_VALUE if the next lines contain it.
    """

    indent: int
    dash: bool
    key: str | None
    value: Any


_NO_VALUE: Any = object()
_MAX_NUMBER_LENGTH = 100  # characters: Python refuses to parse numbers of several thousand digits
_token_cache: dict[str, Line] = {}


class _ManifestReader:
    """Builds one object from its lines."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.at = 0
        self.count = len(lines)

    def read_mapping(self, indent: int) -> Object:
        """Return the mapping with keys at the column `indent`. In a list item, a dash stands before the first key."""
        entries: Object = {}
        lines, count = self.lines, self.count
        while self.at < count:
            at, dash, key, value = lines[self.at]
            if dash:
                if entries or at != indent - 2:
                    break
            elif at != indent:
                break
            if key is None or key in entries:
                raise Malformed(f"line {self.at + 1}: no key of its own")
            self.at += 1
            if value is _NO_VALUE:
                if self.at < count and lines[self.at][1] and lines[self.at][0] == indent:
                    value = self._read_sequence(indent)
                else:
                    value = self.read_mapping(indent + 2)
            entries[key] = value
        if not entries:
            raise Malformed(f"line {self.at + 1}: a mapping without entries")
        return entries

    def _read_sequence(self, indent: int) -> list[Any]:
        entries: list[Any] = []
        lines, count = self.lines, self.count
        while self.at < count:
            at, dash, key, value = lines[self.at]
            if not dash or at != indent:
                break
            if key is None:
                entries.append(value)
                self.at += 1
            else:
                entries.append(self.read_mapping(indent + 2))
        return entries


def _parse_line(line: str) -> Line:
    """Return the parsed line, from the cache if possible."""
    stripped = line.lstrip(" ")
    indent = len(line) - len(stripped)
    dash = stripped.startswith("- ")
    if dash:
        stripped = stripped[2:]
    key, value = _parse_entry(stripped, dash)
    if type(value) in (dict, list):
        return Line(indent, dash, key, value)  # not cached: every caller needs its own empty collection
    token = Line(indent, dash, key, value)
    if len(_token_cache) >= _MAX_REMEMBERED:
        _token_cache.clear()
    _token_cache[line] = token
    return token


def _parse_entry(text: str, dash: bool) -> tuple[str | None, Any]:
    if text.startswith('"'):
        key, end = _parse_quoted(text)
        if end == len(text) and dash:
            return None, key
        rest = text[end:]
    else:
        match = _KEY.match(text)
        if match is None:
            if not dash:
                raise Malformed(f"no key: {text!r}")
            return None, _parse_value(text)
        key, rest = match[1], text[match.end(1) :]
        if key in YAML_WORDS:
            raise Malformed(f"key {key!r}")
    if rest == ":":
        return key, _NO_VALUE
    if not rest.startswith(": "):
        raise Malformed(f"no key: {text!r}")
    return key, _parse_value(rest[2:])


def _parse_quoted(text: str) -> tuple[str, int]:
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        raise Malformed(f"text {text!r}") from None
    return str(value), end


def _parse_value(text: str) -> Any:
    if text.startswith('"'):
        value, end = _parse_quoted(text)
        if end != len(text):
            raise Malformed(f"text {text!r}")
        return value
    if text in ("true", "false"):
        return text == "true"
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if len(text) <= _MAX_NUMBER_LENGTH and _NUMBER.fullmatch(text):
        return int(text)
    if is_plain(text):
        return text
    raise Malformed(f"value {text!r}")
