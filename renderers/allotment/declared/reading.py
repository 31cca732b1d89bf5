"""Read the bytes of a file. The result is a declaration, or the problems of the file."""

from __future__ import annotations

import hashlib
import types
import typing
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from allotment import API_VERSION
from allotment.declared import documents
from allotment.declared.documents import MAX_FINDINGS
from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.layout import DeclarationPath, Scope, find_singleton, parse_path, path_of
from allotment.declared.references import reference_fields
from allotment.declared.values import RULES_BY_PATTERN
from allotment.problems import FieldPath, Finding, Problem, escape_unprintable, format_field, pluralize, quote_value

MAX_REMEMBERED = 500
_VALID_NAME = "valid-name"
_ReadResult = tuple[DeclarationFile[Declaration] | None, list[Problem]]
_read_cache: dict[tuple[str, bytes], _ReadResult] = {}  # the newest results, by path and SHA-256


def read_declaration(path: str, data: bytes, declaration_path: DeclarationPath) -> _ReadResult:
    """Return the declaration in `data`, or None and the problems of the file with their positions.

    If a problem stops the parser, or if `apiVersion` or `kind` is wrong, the fields of the kind are not checked.

    A plan and a publish read a file several times, so some results are cached. The results of invalid files are cached
    because it takes long to find the problems. The results of files outside tenants are cached because the checks of
    every tenant need these files. The results of valid files of tenants are not cached, because there may be too many
    such files.
    """
    key = path, hashlib.sha256(data).digest()
    if (cache_entry := _read_cache.get(key)) is not None:
        return cache_entry[0], list(cache_entry[1])
    declared, problems = _read_uncached(path, data, declaration_path)
    if declared is None or declaration_path.scope.kind != "tenant":
        if len(_read_cache) >= MAX_REMEMBERED:
            del _read_cache[next(iter(_read_cache))]
        _read_cache[key] = declared, problems
    return declared, list(problems)


def _read_uncached(
    path: str, data: bytes, declaration_path: DeclarationPath
) -> tuple[DeclarationFile[Declaration] | None, list[Problem]]:
    document = documents.read(data)
    noted = [
        Problem(path, finding.line, finding.column, format_field(finding.field), finding.message, finding.rule)
        for finding in document.findings
    ]
    value = document.value
    if value is None:
        return None, noted
    if wrong := list(_check_envelope(path, value, declaration_path)):
        return None, noted + locate_problems(wrong, data)
    try:
        model = declaration_path.kind.model.model_validate(value)
    except ValidationError as error:
        findings = [
            *_check_name(path, value, declaration_path),
            *_build_findings(path, declaration_path.kind.model, error),
        ]
        return None, _merge_problems(noted, locate_problems(findings, data))
    noted += locate_problems(list(_check_name(path, value, declaration_path)), data)
    return (None if noted else DeclarationFile(path, data, model)), noted


def _check_name(path: str, value: dict[str, Any], declaration_path: DeclarationPath) -> Iterator[Finding]:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str) and name != declaration_path.name:
        message = f"{quote_value(name)} does not match the path: write {declaration_path.name}, or move the file"
        yield Finding(path, ("metadata", "name"), message, "name")


def read_folder(scope: Scope, files: Iterable[tuple[str, bytes]]) -> tuple[ScopeDeclarations, list[Problem]]:
    """Return the valid declarations of a scope, and the problems of its invalid files."""
    declared: list[DeclarationFile[Declaration]] = []
    broken: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for path, data in files:
        declaration_path = parse_path(path)
        if declaration_path is None:
            continue
        if isinstance(declaration_path, Finding):
            problems += locate_problems([declaration_path], b"")
            problems += _read_misnamed(path, data)
            if declaration_path.rule == "name" and (kind := find_singleton(path)):
                broken.append((kind.name, scope.name))
            continue
        declaration, wrong = read_declaration(path, data, declaration_path)
        problems += wrong
        if declaration is None:
            broken.append((declaration_path.kind.name, declaration_path.name))
        else:
            declared.append(declaration)
    return ScopeDeclarations(scope, declared, broken), problems


def _read_misnamed(path: str, data: bytes) -> list[Problem]:
    """Return the problems of a file with an invalid name, except those of the name."""
    folder = path.rpartition("/")[0]
    declaration_path = parse_path(f"{folder}/{_VALID_NAME}.yaml") if path.endswith(".yaml") else None
    if not isinstance(declaration_path, DeclarationPath):
        return []
    problems = read_declaration(path, data, declaration_path)[1]
    return [problem for problem in problems if problem.field != "metadata.name"]


def _merge_problems(noted: list[Problem], wrong: list[Problem]) -> list[Problem]:
    """Merge the problems that the parser noted with those that the model found, so that no field is reported by both.

    `noted` has the problems of the parser, and `wrong` has the problems of the model. If both lists have a problem with
    a field, the problem of the parser stays. If this problem is only an ambiguous scalar, and the problem of the model
    is more specific, the problem of the model stays instead. The problems of the model inside a repeated key are omitted.
    """
    repeated = {problem.field for problem in noted if problem.rule == "duplicate-key"}
    wrong = [problem for problem in wrong if not any(problem.field.startswith(f"{field}.") for field in repeated)]
    specific = {problem.field for problem in wrong if problem.rule != "type" or "whole number" in problem.message}
    noted = [problem for problem in noted if problem.rule != "scalar" or problem.field not in specific]
    noted_fields = {problem.field for problem in noted}
    return noted + [problem for problem in wrong if problem.field not in noted_fields]


def locate_problems(findings: list[Finding], data: bytes) -> list[Problem]:
    """Return findings about a file as problems, with the lines and columns in `data`, the content of the file."""
    if not findings:
        return []
    marks = documents.find_positions(data)
    return [
        Problem(
            finding.path,
            *documents.locate_finding(marks, finding),
            format_field(finding.field),
            finding.message,
            finding.rule,
            warning=finding.warning,
            related=finding.related,
        )
        for finding in findings
    ]


def suggest_name(word: object, candidates: Iterable[str], limit: int = 8) -> str:
    """Return "; did you mean 'x'?" with the candidate that is closest to a word.

    If no candidate is close, return a list of the first `limit` candidates. If there are no candidates, return an empty text.
    The candidates are escaped, because tenants choose the names of their folders and files.
    """
    names = sorted(map(escape_unprintable, candidates))
    if not names:
        return ""
    if close := _closest_name(word, names):
        return f"; did you mean '{close}'?"
    listed_names = ", ".join(names[:limit]) + (" …" if len(names) > limit else "")
    return f"; known: {listed_names}"


def suggest_declared_name(
    word: object, folder: ScopeDeclarations, kind: type[Declaration], without: Collection[str] = ()
) -> str:
    """Return the suggestion of `suggest_name` from the names of a kind's declarations in a folder.

    Names in `without` are not suggested. If the file of the suggested declaration is invalid, the text says so.
    """
    invalid = {name for each, name in folder.invalid if each == kind.__name__}
    names = {*folder.of_kind(kind), *invalid}.difference(without)
    close = _closest_name(word, names)
    return suggest_name(word, names) + (
        f" {invalid_file_hint(kind.__name__, folder.scope, close)}" if close in invalid else ""
    )


def invalid_file_hint(kind: str, scope: Scope, name: str) -> str:
    """Return a note that the file of a declaration exists but is invalid."""
    return f"{path_of(kind, scope, name)} exists but is invalid: correct its problems first"


def _closest_name(word: object, names: Collection[str]) -> str:
    """Return the name that is closest to a word; empty if no name is close."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(str(word)[:64], sorted(names), 1, 0.7)), "")


def _check_envelope(path: str, value: dict[str, Any], declaration_path: DeclarationPath) -> Iterator[Finding]:
    version, kind = value.get("apiVersion"), value.get("kind")
    if version != API_VERSION:
        message = (
            f"{quote_value(version)} is not known: write {API_VERSION}"
            if "apiVersion" in value
            else f"is missing: write {API_VERSION}"
        )
        yield Finding(path, ("apiVersion",), message, "api-version")
    if kind != declaration_path.kind.name:
        if "kind" not in value:
            message = f"is missing: write {declaration_path.kind.name}"
        elif isinstance(kind, str) and kind in KINDS:
            message = f"{quote_value(kind)} does not belong here: write {declaration_path.kind.name}, or move the file to {KINDS[kind].path}"
        else:
            message = f"{quote_value(kind)} is not known: write {declaration_path.kind.name}"
        yield Finding(path, ("kind",), message, "kind")


_QUOTED_TEXT = "text: write it in quotes"
_TYPE_TEXTS = {
    "int_type": "a whole number: write digits only, such as 4",
    "string_type": _QUOTED_TEXT,
    "bool_type": "a boolean: write true or false, without quotes",
    "list_type": "a list: write entries that begin with '-'",
    "dict_type": "a mapping: write `key: value`",
    "model_type": "a mapping: write `field: value`",
    "model_attributes_type": "a mapping: write `field: value`",
}


MISSING_NAME = "write the name of a declared "  # the start of the advice in a finding about a missing reference
_STORAGES_HINT = "mount a GPUStorage in spec.storages, with its name and mountPath"
_UNIT_HINT = "the GPUSpec sets the GPU, CPU, memory and disk: write spec.gpuSpec"
_SCHEDULE_HINT = "not yet: no instance starts or stops by itself; `allot instance stop` stops it"
# Fields of other programs, which people write into the spec of an instance.
_INSTANCE_HINTS = {
    **dict.fromkeys(("volumes", "volumeMounts", "mounts", "volume"), _STORAGES_HINT),
    **dict.fromkeys(("gpu", "gpus", "cpu", "memory", "resources", "disk"), _UNIT_HINT),
    **dict.fromkeys(("schedule", "idleTimeout", "autoStop", "ttl"), _SCHEDULE_HINT),
    "sshKeys": "write `access: [SSH]` here, and the key at its person in members.yaml: spec.users[].sshKeys",
    "ports": "did you mean spec.container.ports? With an app, the App declares the ports",
    "secrets": "did you mean spec.container.env, with valueFrom.secretKeyRef?",
}


def _build_findings(path: str, model: type[BaseModel], error: ValidationError) -> list[Finding]:
    """Return the first MAX_FINDINGS errors as findings. If there are more errors, a last finding says how many."""
    errors = _without_misspelt_twins(model, error.errors(include_url=False))
    findings = [_build_finding(path, model, detail) for detail in errors[:MAX_FINDINGS]]
    if (remaining := len(errors) - MAX_FINDINGS) > 0:
        findings.append(
            findings[-1]._replace(
                message=f"and {remaining:,} more problems of this file: correct these first", rule="size"
            )
        )
    return findings


def _without_misspelt_twins(model: type[BaseModel], errors: list[Any]) -> list[Any]:
    """Return the errors, but omit a missing field if the same mapping contains the field with a misspelt name."""
    missing = {error["loc"] for error in errors if error["type"] == "missing"}
    around = {loc[:-1] for loc in missing}
    unknown = [error["loc"] for error in errors if error["type"] == "extra_forbidden" and error["loc"][:-1] in around]
    meant = {
        (*loc[:-1], near)
        for loc in unknown[:MAX_FINDINGS]
        if (near := _closest_name(loc[-1], _fields_at(model, tuple(part for part in loc[:-1] if part != "[key]"))))
    }
    explained_fields = missing & meant
    return [error for error in errors if error["type"] != "missing" or error["loc"] not in explained_fields]


def is_fixed_by_quotes(problem: Problem) -> bool:
    """Return whether a problem disappears if only quotes are added to the value or key."""
    return problem.rule == "scalar" or (problem.rule == "type" and problem.message.endswith(f" is not {_QUOTED_TEXT}"))


def _build_finding(path: str, model: type[BaseModel], detail: Any) -> Finding:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    field: FieldPath = tuple(part for part in detail["loc"] if part != "[key]")
    at_key = "[key]" in detail["loc"]
    if kind == "missing":
        return Finding(path, field, f"is missing: {_describe_missing(model, field)}", "required")
    if kind == "extra_forbidden":
        return Finding(
            path,
            field,
            f"no such field{_intended_field(model, field)}",
            "unknown-field",
            points_at_key=True,
        )
    if kind == "literal_error":
        choices = [part.strip("' ") for part in context["expected"].replace(" or ", ", ").split(",")]
        return Finding(path, field, f"{quote_value(value)} is not allowed: write one of {', '.join(choices)}", "enum")
    if kind in _TYPE_TEXTS:
        if kind != "string_type" and isinstance(value, str) and (match := documents.MISSING_BLANK.fullmatch(value)):
            message = f"{quote_value(value)} is text, because {documents.advise_blank(match)}"
            return Finding(path, field, message, "type")
        first = next((f"{key}: VALUE" for key in value), "") if isinstance(value, dict) else str(value)
        if kind == "list_type" and (match := documents.MISSING_DASH_BLANK.fullmatch(first)):
            message = f"{quote_value(value)} is not a list, because {documents.advise_dash_blank(match)}"
            return Finding(path, field, message, "type")
        return Finding(path, field, f"{quote_value(value)} is not {_TYPE_TEXTS[kind]}", "type")
    if kind == "string_pattern_mismatch":
        rule, want = RULES_BY_PATTERN[context["pattern"]]
        return Finding(path, field, f"{quote_value(value)} is not allowed: {want}", rule, points_at_key=at_key)
    if kind in ("string_too_short", "string_too_long"):
        bound = f"at least {context['min_length']}" if "min_length" in context else f"at most {context['max_length']}"
        return Finding(
            path,
            field,
            f"{quote_value(value)} has {pluralize(len(value), 'character')}: write {bound}",
            "length",
            points_at_key=at_key,
        )
    if kind in ("too_short", "too_long"):
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        return Finding(path, field, f"{len(value)} entries: write {bound}", "length")
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return Finding(path, field, f"{quote_value(value)} is out of range: write {bound}", "range")
    from pydantic_core.core_schema import ErrorType

    # If the error comes from our own types and not from pydantic, its message already escapes the value.
    own = kind not in typing.get_args(ErrorType)
    return Finding(
        path,
        field,
        detail["msg"] if own else escape_unprintable(detail["msg"], 500),
        kind if own else "value",
        points_at_key=at_key,
    )


def _describe_missing(model: type[BaseModel], field: FieldPath) -> str:
    """Return what to write into a missing field: the values of an enum, or the kind of the declaration that it names."""
    parent = _model_at(model, field[:-1])
    info = next((each for each in parent.model_fields.values() if each.alias == field[-1]), None) if parent else None
    if parent is None or info is None:
        return "write it"
    annotation = without_optional(info.annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return f"write one of {', '.join(map(str, typing.get_args(annotation)))}"
    kind = next((each.to.kind for each in reference_fields(parent) if each.alias == field[-1] and each.to), "")
    return f"{MISSING_NAME}{kind}" if kind and annotation is str else "write it"


def _intended_field(model: type[BaseModel], field: FieldPath) -> str:
    """Return a suggestion for an unknown field.

    The suggestion is a field with a similar name in the same mapping, a field with the same name elsewhere, or a field
    of the same mapping that has the unknown name as an allowed value. Without such a field, it is a short list of the
    fields of the mapping.
    """
    here, name = _fields_at(model, field[:-1]), str(field[-1])
    hint = suggest_name(name, here)
    if hint.startswith("; did you mean"):
        return hint
    if len(field) == 2 and field[0] == "spec" and model.__name__ == "GPUInstance" and name in _INSTANCE_HINTS:
        return f"; {_INSTANCE_HINTS[name]}"
    fields = list(_fields_below(model))
    for path, _ in fields:
        if path.rpartition(".")[2] == name:
            return f"; did you mean {path}?"
    around = format_field(tuple(part for part in field[:-1] if isinstance(part, str)))
    for path, annotation in fields:
        if path.rpartition(".")[0] == around and typing.get_origin(annotation) is typing.Literal:
            for value in typing.get_args(annotation):
                if str(value).lower() == name.lower():
                    return f"; did you mean `{path.rpartition('.')[2]}: {value}`?"
    return hint


def _fields_below(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield every field of a model and its type, the least nested first."""
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
    """Return the names of the fields that `model` allows in the mapping at `field`."""
    current = _model_at(model, field)
    return [field_info.alias or "" for field_info in current.model_fields.values()] if current else []


def _model_at(model: Any, field: FieldPath) -> type[BaseModel] | None:
    """Return the model of the mapping at `field`; None if it is no model."""
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
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def without_optional(annotation: Any) -> Any:
    """Return an annotation without `Annotated` and `| None`."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in (typing.Union, types.UnionType):
            annotation = next(argument for argument in typing.get_args(annotation) if argument is not type(None))
        else:
            return annotation
