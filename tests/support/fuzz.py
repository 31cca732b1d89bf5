"""Declarations with wrong values in every field: `python -m tests.support.fuzz SECONDS [SEED]` tries random ones and prints the bad."""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from allotment.declared.kinds import KINDS
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration, without_optional

MOST_SECONDS = 3.0  # of processor time that one file may take
MOST_MEGABYTES = 200  # of memory that one file may take
ENVELOPE = ("apiVersion", "kind", "metadata", "spec")
DEEP = 40


def _nested(opening: str, closing: str) -> str:
    return opening * DEEP + closing * DEEP


# YAML in flow style, so that each stands wherever a value may.
VALUES = (
    *("[]", "{}", "null", "~", "true", "no", "3", "-1", "0", "1.5", "1e999", ".nan", "0x10", "2026-01-01", '""', '"x"'),
    *(
        '" "',
        '"\\0"',
        '"\\uD800"',
        '"\\U0010FFFF"',
        '"a\\nb"',
        '"../../etc/passwd"',
        '"{{ x }}"',
        "[[]]",
        "[{}]",
        "[null]",
    ),
    *(
        "[x, x]",
        "{x: {}}",
        "{1: 2}",
        "{true: 1}",
        "{[a]: 1}",
        "{{a: b}: 1}",
        "{null: 1}",
        "&a [1]",
        "*a",
        "!!binary aa",
    ),
    *("9" * 18, "9" * 5_000, '"' + "x" * 70_000 + '"', "[" + "x, " * 5_000 + "]"),
    "{" + ", ".join(f"k{number}: 1" for number in range(3_000)) + "}",
    _nested("[", "]"),
    _nested("{a: ", "}"),
)


class Case(NamedTuple):
    """A file of the sample with one field replaced."""

    path: str
    field: tuple[str | int, ...]
    value: str
    data: bytes


def fields_of(model: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every field of a model, with 0 for the first entry of a list and `key` for a mapping's."""
    for field in model.model_fields.values():
        annotation, path = without_optional(field.annotation), (field.alias or "",)
        yield path
        while typing.get_origin(annotation) in (list, dict):
            path += (0,) if typing.get_origin(annotation) is list else ("key",)
            annotation = without_optional(typing.get_args(annotation)[-1])
            yield path
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from (path + below for below in fields_of(annotation))


def samples(root: Path) -> dict[str, tuple[str, Any]]:
    """Return a file of the sample for each kind that has one: its path and its content."""
    files_by_kind: dict[str, tuple[str, Any]] = {}
    for kind in KINDS.values():
        for file in sorted(root.glob(kind.pattern)):
            files_by_kind.setdefault(
                kind.name, (str(file.relative_to(root)), yaml.safe_load(file.read_text(encoding="utf-8")))
            )
    return files_by_kind


def cases(root: Path) -> Iterator[Case]:
    """Yield each field of each kind with each value."""
    for kind, (path, content) in samples(root).items():
        for field in dict.fromkeys((*((name,) for name in ENVELOPE), *fields_of(KINDS[kind].model))):
            text = _text(content, field)
            yield from (Case(path, field, value, text.replace("@@", value).encode("utf-8")) for value in VALUES)


def structural_cases(root: Path, folders: tuple[str, ...]) -> Iterator[Case]:
    """Yield each file of some folders with each of its lists and mappings replaced by ones that are almost empty."""
    for file in sorted(file for folder in folders for file in (root / folder).rglob("*.yaml")):
        content, path = yaml.safe_load(file.read_text(encoding="utf-8")), file.relative_to(root).as_posix()
        for field in _list_collections(content):
            text = _text(content, field)
            yield from (Case(path, field, value, text.replace("@@", value).encode()) for value in ("[{}]", "{}"))


def _list_collections(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each list and mapping in a document, but of lists only the first entry."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in entries:
        if isinstance(item, dict | list):
            yield (key,)
            yield from ((key, *below) for below in _list_collections(item))


def _text(content: Any, field: tuple[str | int, ...]) -> str:
    """Return a document in flow style with `@@` at a field; what the document lacks on the way is added."""
    return _flow(content, field) + "\n"


def _flow(value: Any, field: tuple[str | int, ...] | None) -> str:
    if field == ():
        return "@@"
    if field and isinstance(field[0], int):
        items = list(value) if isinstance(value, list) and value else [None]
        return f"[{', '.join(_flow(item, field[1:] if index == 0 else None) for index, item in enumerate(items))}]"
    if field:
        entries = dict(value) if isinstance(value, dict) else {}
        entries.setdefault(field[0], None)
        return f"{{{', '.join(f'{key}: {_flow(item, field[1:] if key == field[0] else None)}' for key, item in entries.items())}}}"
    return yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True).removesuffix("...\n").strip()


def read(case: Case) -> bool:
    """Read a case as its file is read; return whether it is valid. Raises the reader's own errors, and AssertionError
    where that takes too much."""
    spot = parse_path(case.path)
    assert isinstance(spot, DeclarationPath)
    seconds, kilobytes = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    declared, problems = read_declaration(case.path, case.data, spot)
    assert declared is not None or problems, "a file that is refused has a problem"
    assert all("\n" not in str(problem) for problem in problems)
    assert time.process_time() - seconds <= MOST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - kilobytes <= MOST_MEGABYTES * 1024
    return declared is not None


def run(root: Path, case: Case, command: str = "validate") -> int:
    """Return the exit status of a command over the sample with the case in it; the file is put back."""
    from allotment.cli.main import main

    file = root / case.path
    before = file.read_bytes()
    file.write_bytes(case.data)
    seconds, kilobytes = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        main(["-C", str(root), command])
    except SystemExit as ended:
        assert time.process_time() - seconds <= MOST_SECONDS
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - kilobytes <= MOST_MEGABYTES * 1024
        return ended.code if isinstance(ended.code, int) else 0
    finally:
        file.write_bytes(before)
    raise AssertionError("the command line always exits")


def _main() -> int:
    from tests.conftest import copy_sample

    end, chance, bad = time.monotonic() + float(sys.argv[1]), random.Random(int((*sys.argv, "0", "0")[2])), 0
    with tempfile.TemporaryDirectory() as folder:
        root = copy_sample(Path(folder) / "repo")
        all_cases = list(cases(root))
        while time.monotonic() < end:
            case = chance.choice(all_cases)
            try:
                read(case)
                status = run(root, case)
                assert status in (0, 1), f"exit status {status}"
            except Exception as error:
                bad += 1
                print(case.path, case.field, case.value[:80], type(error).__name__, error, file=sys.stderr)
    print(f"{bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(_main())
