"""From a file's bytes to a declaration, or to every problem in it, in words."""

from __future__ import annotations

import hashlib
import types
import typing
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from allotment import API_VERSION
from allotment.declared import documents
from allotment.declared.documents import MOST_FINDINGS
from allotment.declared.inventory import Declared, Folder
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.layout import Meaning, Scope, path_of, spot_of
from allotment.declared.values import PATTERNS
from allotment.problems import FieldPath, Finding, Problem, field_text, printable, quoted

MOST_REMEMBERED = 500
_Found = tuple[Declared[Declaration] | None, list[Problem]]
_known: dict[tuple[str, bytes], _Found] = {}  # by path and SHA-256, those that were read last


def read_declaration(path: str, data: bytes, spot: Meaning) -> _Found:
    """Return the declaration in `data`, or None and all its problems, placed.

    A plan and a publish ask for a file several times. What is wrong with one takes long to find, and what the platform
    declares is asked for by everybody, so both are remembered; of tenants there may be too many.
    """
    key = path, hashlib.sha256(data).digest()
    if (cache_entry := _known.get(key)) is not None:
        return cache_entry[0], list(cache_entry[1])
    declared, problems = _read(path, data, spot)
    if declared is None or spot.scope.kind != "tenant":
        if len(_known) >= MOST_REMEMBERED:
            del _known[next(iter(_known))]
        _known[key] = declared, problems
    return declared, list(problems)


def _read(path: str, data: bytes, spot: Meaning) -> tuple[Declared[Declaration] | None, list[Problem]]:
    document = documents.read(data)
    noted = [
        Problem(path, finding.line, finding.column, field_text(finding.field), finding.message, finding.rule)
        for finding in document.findings
    ]
    value = document.value
    if value is None:
        return None, noted
    if wrong := list(_envelope(path, value, spot)):
        return None, noted + place(wrong, data)
    try:
        model = spot.kind.model.model_validate(value)
    except ValidationError as error:
        return None, _merged(noted, place(_findings(path, spot.kind.model, error), data))
    if model.metadata.name != spot.name:
        message = f"{quoted(model.metadata.name)} is not what the path says: write {spot.name}, or move the file"
        noted += place([Finding(path, ("metadata", "name"), message, "name")], data)
    return (None if noted else Declared(path, data, model)), noted


def read_folder(scope: Scope, files: Iterable[tuple[str, bytes]]) -> tuple[Folder, list[Problem]]:
    """Return all declarations of a scope that can be read, and the problems of those that can't."""
    declared: list[Declared[Declaration]] = []
    broken: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for path, data in files:
        spot = spot_of(path)
        if spot is None:
            continue
        if isinstance(spot, Finding):
            problems += place([spot], b"")
            continue
        declaration, wrong = read_declaration(path, data, spot)
        problems += wrong
        if declaration is None:
            broken.append((spot.kind.name, spot.name))
        else:
            declared.append(declaration)
    return Folder(scope, declared, broken), problems


def _merged(noted: list[Problem], wrong: list[Problem]) -> list[Problem]:
    """Return both, one a field: what the field asks for says more than how its scalar reads."""
    specific = {problem.field for problem in wrong if problem.rule != "type" or "whole number" in problem.message}
    noted = [problem for problem in noted if problem.rule != "scalar" or problem.field not in specific]
    noted_fields = {problem.field for problem in noted}
    return noted + [problem for problem in wrong if problem.field not in noted_fields]


def place(findings: list[Finding], data: bytes) -> list[Problem]:
    """Return findings about one file as problems, with lines and columns looked up in its bytes."""
    if not findings:
        return []
    marks = documents.places(data)
    return [
        Problem(
            finding.path,
            *documents.locate(marks, finding),
            field_text(finding.field),
            finding.message,
            finding.rule,
            warning=finding.warning,
            related=finding.related,
        )
        for finding in findings
    ]


def nearest(word: object, candidates: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known word nearest to `word`, or the few that are known, or nothing."""
    names = sorted(candidates)
    if not names:
        return ""
    if close := _nearest(word, names):
        return f"; did you mean '{close}'?"
    shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    return f"; known: {shown}"


def nearest_declared(word: object, folder: Folder, kind: type[Declaration], without: Collection[str] = ()) -> str:
    """Return the same among the files of a kind in a folder, except some names. It says that a file is invalid."""
    invalid = {name for each, name in folder.broken if each == kind.__name__}
    names = {*folder.of(kind), *invalid}.difference(without)
    close = _nearest(word, names)
    return nearest(word, names) + (f" {invalid_file(kind.__name__, folder.scope, close)}" if close in invalid else "")


def invalid_file(kind: str, scope: Scope, name: str) -> str:
    """Return that the file of a declaration is there, and invalid."""
    return f"{path_of(kind, scope, name)} exists but is invalid: correct its problems first"


def _nearest(word: object, names: Collection[str]) -> str:
    """Return the name that a word is nearly; empty where it is none."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(str(word)[:64], sorted(names), 1, 0.7)), "")


def _envelope(path: str, value: dict[str, Any], spot: Meaning) -> Iterator[Finding]:
    version, kind = value.get("apiVersion"), value.get("kind")
    if version != API_VERSION:
        message = (
            f"{quoted(version)} is not known: write {API_VERSION}"
            if "apiVersion" in value
            else f"is missing: write {API_VERSION}"
        )
        yield Finding(path, ("apiVersion",), message, "api-version")
    if kind != spot.kind.name:
        if "kind" not in value:
            message = f"is missing: write {spot.kind.name}"
        elif isinstance(kind, str) and kind in KINDS:
            message = (
                f"{quoted(kind)} does not lie here: write {spot.kind.name}, or move the file to {KINDS[kind].path}"
            )
        else:
            message = f"{quoted(kind)} is not known: write {spot.kind.name}"
        yield Finding(path, ("kind",), message, "kind")


_QUOTED_TEXT = "text: write it in quotes"
_TYPES = {
    "int_type": "whole number: write digits alone, such as 4",
    "string_type": _QUOTED_TEXT,
    "bool_type": "truth value: write true or false, without quotes",
    "list_type": "list: write entries that begin with '-'",
    "dict_type": "mapping: write `key: value`",
    "model_type": "mapping: write `field: value`",
    "model_attributes_type": "mapping: write `field: value`",
}


def _findings(path: str, model: type[BaseModel], error: ValidationError) -> list[Finding]:
    """Return what is wrong, the first of very many, and how many there are besides."""
    errors = _once(model, error.errors(include_url=False))
    findings = [_finding(path, model, detail) for detail in errors[:MOST_FINDINGS]]
    if (remaining := len(errors) - MOST_FINDINGS) > 0:
        findings.append(
            findings[-1]._replace(
                message=f"and {remaining:,} more problems of this file: correct these first", rule="size"
            )
        )
    return findings


def _once(model: type[BaseModel], errors: list[Any]) -> list[Any]:
    """Return errors without the missing fields that a misspelt one beside them stands for: that says which is meant."""
    missing = {error["loc"] for error in errors if error["type"] == "missing"}
    around = {loc[:-1] for loc in missing}
    unknown = [error["loc"] for error in errors if error["type"] == "extra_forbidden" and error["loc"][:-1] in around]
    meant = {
        (*loc[:-1], near)
        for loc in unknown[:MOST_FINDINGS]
        if (near := _nearest(loc[-1], _fields_at(model, tuple(part for part in loc[:-1] if part != "[key]"))))
    }
    explained_fields = missing & meant
    return [error for error in errors if error["type"] != "missing" or error["loc"] not in explained_fields]


def wants_quotes(problem: Problem) -> bool:
    """Return whether a problem of reading is mended by quotes around a value or key, and by nothing else."""
    return problem.rule == "scalar" or (problem.rule == "type" and problem.message.endswith(f" is no {_QUOTED_TEXT}"))


def _finding(path: str, model: type[BaseModel], detail: Any) -> Finding:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    field: FieldPath = tuple(part for part in detail["loc"] if part != "[key]")
    at_key = "[key]" in detail["loc"]
    if kind == "missing":
        return Finding(path, field, "is missing: write it", "required")
    if kind == "extra_forbidden":
        return Finding(
            path,
            field,
            f"no such field{_meant(model, field)}",
            "unknown-field",
            at_key=True,
        )
    if kind == "literal_error":
        choices = [part.strip("' ") for part in context["expected"].replace(" or ", ", ").split(",")]
        return Finding(path, field, f"{quoted(value)} is not allowed: write one of {', '.join(choices)}", "enum")
    if kind in _TYPES:
        return Finding(path, field, f"{quoted(value)} is no {_TYPES[kind]}", "type")
    if kind == "string_pattern_mismatch":
        rule, want = PATTERNS.get(context["pattern"], ("pattern", f"it must match {context['pattern']}"))
        return Finding(path, field, f"{quoted(value)} is not allowed: {want}", rule, at_key=at_key)
    if kind in ("string_too_short", "string_too_long"):
        bound = f"at least {context['min_length']}" if "min_length" in context else f"at most {context['max_length']}"
        return Finding(
            path, field, f"{quoted(value)} has {len(value)} characters: write {bound}", "length", at_key=at_key
        )
    if kind in ("too_short", "too_long"):
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return Finding(path, field, f"{len(value)} entries: write {bound}", "length")
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return Finding(path, field, f"{quoted(value)} is out of range: write {bound}", "range")
    from pydantic_core.core_schema import ErrorType

    own = kind not in typing.get_args(ErrorType)  # our own words have their values escaped already
    return Finding(
        path, field, detail["msg"] if own else printable(detail["msg"], 500), kind if own else "value", at_key=at_key
    )


def _meant(model: type[BaseModel], field: FieldPath) -> str:
    """Return what somebody meant by a field that isn't there: one beside it, one that stands elsewhere, or a value of
    one beside it."""
    here, name = _fields_at(model, field[:-1]), str(field[-1])
    hint = nearest(name, here)
    if hint.startswith("; did you mean"):
        return hint
    fields = list(_fields_below(model))
    for path, _ in fields:
        if path.rpartition(".")[2] == name:
            return f"; did you mean {path}?"
    around = field_text(tuple(part for part in field[:-1] if isinstance(part, str)))
    for path, annotation in fields:
        if path.rpartition(".")[0] == around and typing.get_origin(annotation) is typing.Literal:
            for value in typing.get_args(annotation):
                if str(value).lower() == name.lower():
                    return f"; did you mean `{path.rpartition('.')[2]}: {value}`?"
    return hint


def _fields_below(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield every field of a model and its type, those that lie least deep first."""
    level: list[tuple[str, Any]] = [("", model)]
    while level:
        below: list[tuple[str, Any]] = []
        for path, each in level:
            for field_info in each.model_fields.values():
                annotation = without_optional(field_info.annotation)
                here = f"{path}.{field_info.alias}" if path else str(field_info.alias)
                yield here, annotation
                while typing.get_origin(annotation) in (list, dict):
                    annotation = without_optional(typing.get_args(annotation)[-1])
                if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                    below.append((here, annotation))
        level = below


def _fields_at(model: Any, field: FieldPath) -> list[str]:
    """Return the aliases that may stand in the mapping at `field` of a document of `model`."""
    current: Any = model
    for part in field:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = next(
                (field_info.annotation for field_info in current.model_fields.values() if field_info.alias == part),
                None,
            )
        elif typing.get_args(current):
            current = typing.get_args(current)[-1]
        current = without_optional(current)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return [field_info.alias or "" for field_info in current.model_fields.values()]
    return []


def without_optional(annotation: Any) -> Any:
    """Return what an annotation says beneath `Annotated` and `| None`."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in (typing.Union, types.UnionType):
            annotation = next(argument for argument in typing.get_args(annotation) if argument is not type(None))
        else:
            return annotation
