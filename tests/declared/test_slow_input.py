"""No file costs more than its size: what it holds is counted, what is wrong with it is found once, and no pattern of ours is slow."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import allotment
from allotment.declared import documents, reading
from allotment.declared.kinds.container import SECRET_VALUES
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.values import BasePath
from allotment.problems import Problem

parser: Any = importlib.import_module("re._parser")
PATH = "tenants/solo-ada/instances/webui.yaml"
HEAD = "apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata:\n  name: webui\nspec:\n"
BYTES = 240_000
SHORT, SMALL, LARGE = 1_000, 10_000, 100_000  # characters
# What an exponential pattern ends just in time with, it ends some seconds later with a quarter more.
GROWING = (24, 30, 38, 48, 60, 75, 94, 118, 148, 185, 231, 289, 361, 451, 564, 705, 881, SHORT)
SEARCHES = re.compile(r"\b(\w+)\.(?:search|sub|subn|split|findall|finditer)\b")
MOST_SAMPLES = 60
SLICES = 16  # tests that share the patterns of the package
MOST_TIMES = 40  # as long for ten times the text: a quadratic pattern takes 100 times as long
SOON = 0.02  # seconds; what takes less for the large text is quick, and too short to be compared


def _modules() -> Iterator[Any]:
    for module_info in pkgutil.walk_packages(allotment.__path__, "allotment."):
        if not module_info.name.endswith("__main__"):
            yield importlib.import_module(module_info.name)


def _within(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list)):
        for element in value:
            yield from _within(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from _within(element)


@cache
def _searched_by_pattern() -> dict[re.Pattern[Any], bool]:
    """Return all patterns of the package, and whether each is searched: looked for from every place of a text on, and not from
    the first one alone."""
    texts = [file.read_text(encoding="utf-8") for file in Path(allotment.__path__[0]).rglob("*.py")]
    searched = {name for text in texts for name in SEARCHES.findall(text)}
    patterns: dict[re.Pattern[Any], bool] = {}
    for module in _modules():
        for name, value in vars(module).items():
            for pattern in _within(value):
                patterns[pattern] = patterns.get(pattern, False) or name in searched
    return patterns


def _patterns() -> list[re.Pattern[Any]]:
    return sorted(_searched_by_pattern(), key=lambda pattern: str(pattern.pattern))


def _characters(parsed: Any) -> Iterator[str]:
    """Yield a character or two of every set that a part of a pattern may be."""
    for code, value in parsed:
        if str(code) == "LITERAL":
            yield chr(value)
        elif str(code) == "RANGE":
            yield chr(value[0])
        elif str(code) == "CATEGORY":
            yield from {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(str(value), "-")
        elif str(code) == "NEGATE":
            yield "a"


def _samples(parsed: Any) -> list[str]:
    """Return texts that a pattern begins to match: of every branch, with everything that is repeated once."""
    texts = [""]
    for code, value in parsed:
        name = str(code)
        if name == "LITERAL":
            more = [chr(value)]
        elif name == "NOT_LITERAL":
            more = ["a" if value != ord("a") else "b"]
        elif name == "ANY":
            more = ["a"]
        elif name == "IN":
            more = list(_characters(value)) or ["a"]
        elif name == "BRANCH":
            more = [text for branch in value[1] for text in _samples(branch)]
        elif name == "SUBPATTERN":
            more = _samples(value[-1])
        elif name == "ATOMIC_GROUP":
            more = _samples(value)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            more = _samples(value[2])
        else:
            more = [""]
        texts = [before + after for after in more for before in texts][:MOST_SAMPLES]
    return texts


def _seeds(pattern: re.Pattern[Any]) -> set[tuple[str, str]]:
    """Return what a text that is slow to search might be made of: how it begins, and what it repeats then."""
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else 0
    texts = _samples(parser.parse(pattern.pattern, flags))
    beginnings = {text[:to] for text in texts for to in range(1, min(len(text), 12) + 1)} | {
        text for text in texts if text
    }
    parts = {text[at : at + n] for text in texts for at in range(len(text)) for n in (1, 2)}
    few = sorted({text[:to] for text in texts[:3] for to in range(1, min(len(text), 8) + 1)})
    return {("", seed) for seed in beginnings | parts} | {
        (prefix, part) for prefix in few for part in parts if len(part) == 1
    }


def _seconds(ask: Callable[[Any], object], text: Any, most: int) -> float:
    """Return the processor time of the quickest of several measurements, whatever else runs; what took its time is measured once."""
    times: list[float] = []
    while len(times) < most and sum(times) < 10 * SOON:
        begun = time.thread_time()
        ask(text)
        times.append(time.thread_time() - begun)
    return min(times)


def _asked(pattern: re.Pattern[Any], seed: tuple[str, str], end: str, size: int, most: int = 5) -> float:
    """Return the seconds that a text of a repeated seed takes, searched through or matched as a whole."""
    whole = not _searched_by_pattern().get(pattern, True)
    text: Any = (seed[0] + seed[1] * (size // len(seed[1]) + 1))[:size] + end
    if isinstance(pattern.pattern, bytes):
        text = text.encode("latin-1", "replace")
    return _seconds(
        pattern.fullmatch if whole else lambda subject: sum(1 for _ in pattern.finditer(subject)), text, most
    )


def _slow(pattern: re.Pattern[Any]) -> list[str]:
    """Return the texts, shortened, that take a pattern much longer than they are longer.

    All are tried tiny and then a little longer each time, since an exponential pattern would never end with much more; the
    slowest of them long, up to the first that is slow.
    """
    tried = []
    for seed in sorted(_seeds(pattern)):
        for end in ("", "\x00"):
            for size in GROWING:
                if (seconds := _asked(pattern, seed, end, size, 1)) > 10 * SOON:
                    return [f"{seed!r} * {size}, {end!r}: {seconds}"]
            tried.append((seconds, seed, end))
    for _, seed, end in sorted(tried, reverse=True)[:6]:
        small = _asked(pattern, seed, end, SMALL)
        if small > 10 * SOON or (small > SOON and small > MOST_TIMES * _asked(pattern, seed, end, SHORT)):
            return [f"{seed!r}, {end!r}: {small} s"]
        for most in (1, 5):  # what is quick at once needn't be measured again
            large = _asked(pattern, seed, end, LARGE, most)
            if large <= 5 * SOON or large <= MOST_TIMES * small:
                break
        else:
            return [f"{seed!r}, {end!r}: {small} s, {large} s"]
    return []


@pytest.mark.parametrize("number", range(SLICES))
def test_a_pattern_takes_ten_times_as_long_for_ten_times_the_text(number: int) -> None:
    patterns = _patterns()[number::SLICES]
    assert len(patterns) > 5
    assert {pattern.pattern: texts for pattern in patterns if (texts := _slow(pattern))} == {}


@pytest.mark.parametrize("text", [r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ", r"/(?:[A-Za-z0-9._~-]+/?)*", r"(?:a|a)*b"])
def test_a_slow_pattern_is_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for searched in (False, True):
        monkeypatch.setitem(_searched_by_pattern(), re.compile(text), searched)
        if slow_texts := _slow(re.compile(text)):
            return
    assert slow_texts


def test_every_pattern_of_ours_stands_in_a_module_where_it_is_found() -> None:
    pattern_texts = {pattern.pattern for pattern in _patterns()}
    for file in Path(allotment.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and ast.unparse(node.func.value) == "re"
            ):
                assert node.func.attr in ("compile", "escape"), f"{file.name}:{node.lineno}: compile it once, for all"
                if node.func.attr == "compile" and isinstance(node.args[0], ast.Constant):
                    assert node.args[0].value in pattern_texts, f"{file.name}:{node.lineno}"


@pytest.mark.parametrize(
    "value",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
        "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0",
        "a-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0",
        "eyJ-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0",
    ],
)
def test_a_web_token_is_a_secret_wherever_it_begins(value: str) -> None:
    assert SECRET_VALUES.search(value)


@pytest.mark.parametrize(
    "value", ["keyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0", "eyJhbGc.eyJzdWIiOiIxMjM0", "eyJhbGciOiJIUzI1NiJ9"]
)
def test_the_secret_pattern_ignores_an_incomplete_token(value: str) -> None:
    assert not SECRET_VALUES.search(value)


def test_a_base_path_is_what_it_was() -> None:
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(BasePath)
    for good in ("/", "/lab", "/lab/", "/a/b.c/~d"):
        assert adapter.validate_python(good) == good
    for bad in ("", "lab", "//", "/a//b", "/a b", "/" + "a" * 150 + "!"):
        with pytest.raises(ValidationError):
            adapter.validate_python(bad)


def _hostile(unit: str, before: str = "", after: str = "") -> bytes:
    room = BYTES - len(HEAD) - len(before) - len(after)
    return (HEAD + before + unit * (room // len(unit)) + after).encode()


def _spot() -> DeclarationPath:
    spot = parse_path(PATH)
    assert isinstance(spot, DeclarationPath)
    return spot


HOSTILE = {
    "a list without an end": _hostile("a,", "  x: ["),
    "entries": _hostile("  - a\n", after=" ]\n"),
    "pairs of nothing": _hostile("?,", "  x: ["),
    "mappings": _hostile("{a: b},", "  storages: [", "{}]\n"),
    "texts for mappings": _hostile("a,", "  storages: [", "a]\n"),
    "another kind": _hostile("a,", "  storages: [", "a]\n").replace(b"GPUInstance", b"App"),
    "a disputed comment": _hostile("a,", "  y: |#\n    a\n  x: ["),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("pure", [False, True])
def test_no_more_of_a_file_is_read_than_anybody_declares(
    data: bytes, pure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0
    once = documents._PureParser.get_event

    def counted(self: Any) -> Any:
        nonlocal seen
        seen += 1
        return once(self)

    monkeypatch.setattr(documents._PureParser, "get_event", counted)
    if pure:
        monkeypatch.setattr(documents, "PARSER", documents._PureParser)
    reading._read_cache.clear()
    for _ in range(8):
        declared, problems = reading.read_declaration(PATH, data, _spot())
        assert declared is None
        assert 1 <= len(problems) <= 2 * (documents.MAX_FINDINGS + 1)
    assert seen <= 2 * documents.MAX_EVENTS + 2  # its values once, its places once, however often it is asked for


def test_a_file_that_holds_too_much_says_so_alike_with_both_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HOSTILE["entries"]
    quick = documents.read(data)
    monkeypatch.setattr(documents, "PARSER", documents._PureParser)
    assert documents.read(data) == quick
    assert [(finding.rule, finding.message) for finding in quick.findings] == [("size", documents.TOO_MANY_MESSAGE)]


def test_as_many_members_as_a_file_can_hold_are_read() -> None:
    users = "".join(
        f"  - name: user-{n}\n    role: Member\n    login: user-{n}\n    subject: 00u1ab{n:05}\n    sshKeys:\n"
        f"    - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{n:043}\n"
        for n in range(1_400)
    )
    data = f"apiVersion: allotment.dev/v1alpha1\nkind: Members\nmetadata:\n  name: solo-ada\nspec:\n  users:\n{users}".encode()
    assert len(data) > 200_000
    assert documents.read(data).findings == []


def test_of_very_many_problems_the_first_are_told_and_the_others_counted() -> None:
    data = (HEAD + "".join(f"  k{n:04}: b\n" for n in range(3_000))).encode()
    declared, problems = reading.read_declaration(PATH, data, _spot())
    assert declared is None
    assert len(problems) == documents.MAX_FINDINGS + 1
    assert sum(problem.rule == "size" and "more problems of this file" in problem.message for problem in problems) == 1


def test_read_declaration_repeats_problems_for_the_same_content_only() -> None:
    def problems(text: str) -> list[Problem]:
        return reading.read_declaration(PATH, text.encode(), _spot())[1]

    wrong = problems(HEAD + "  x: 1\n")
    assert problems(HEAD + "  x: 1\n") == wrong
    assert problems(HEAD + "  y: 1\n") != wrong
    wrong.clear()
    assert problems(HEAD + "  x: 1\n")
