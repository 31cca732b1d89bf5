"""Pin an add-on to another version and digest in its file, and change no other byte."""

from __future__ import annotations

import re
from typing import Any

import yaml

from allotment.declared import documents
from allotment.declared.kinds.add_on import COMMIT, DIGEST, OCI_PREFIX, VERSION, AddOnSpec
from allotment.declared.scalars import reads_as_text
from allotment.problems import OperationRefused, quote_value

_SEMANTIC_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")


def is_older(version: str, other: str) -> bool:
    """Return whether a chart's version is older than another, by the order of https://semver.org.

    This order ignores build metadata.
    """
    return _sort_key(version) < _sort_key(other)


def _sort_key(version: str) -> tuple[tuple[int, ...], bool, list[tuple[bool, int, str]]]:
    match = _SEMANTIC_VERSION.fullmatch(version)
    assert match is not None, version
    words = match[4].split(".") if match[4] else []
    pre_release = [(not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]
    return tuple(int(part) for part in match.groups()[:3]), not words, pre_release


def check_version(spec: AddOnSpec, version: str, digest: str | None) -> None:
    """Raise OperationRefused if an add-on cannot be pinned to a version.

    The reasons are: the version or the digest has the wrong form, the file needs a digest and none is given, or a
    digest is given for a source that takes none.
    """
    if spec.chart is None:
        if not COMMIT.fullmatch(version):
            raise OperationRefused(
                f"{quote_value(version)} can't pin manifests: write the 40 hexadecimal digits of a commit"
            )
        if digest is not None:
            raise OperationRefused("manifests have no digest beside their commit: leave --digest out")
        return
    if not VERSION.fullmatch(version):
        raise OperationRefused(
            f"{quote_value(version)} is not an exact version: write a version such as {spec.chart.version}"
        )
    if digest is not None and not DIGEST.fullmatch(digest):
        raise OperationRefused(f"{quote_value(digest)} is not a digest: write sha256: and 64 hexadecimal digits")
    if digest is not None and not spec.chart.repo_url.startswith(OCI_PREFIX):
        raise OperationRefused("Argo CD checks no digest of an https:// chart: leave --digest out")
    if digest is None and spec.chart.digest is not None:
        raise OperationRefused(
            f"the file pins the chart by digest, and version {version} has a different digest: add --digest sha256:…"
        )


def with_version(data: bytes, version: str, digest: str | None = None) -> bytes:
    """Return the content of an add-on's file with another version, and with another digest if `digest` is given.

    Everything else stays unchanged. The file must be valid, and `check_version` must have accepted the version and the
    digest. If the file has no digest yet, the digest gets a new line. If this line can't be added because the chart is
    written in a single line, raises OperationRefused.
    """
    text = data.decode("utf-8")
    where = documents.find_positions(data)
    chart = ("spec", "chart")
    field = (*chart, "version") if chart in where else ("spec", "manifests", "revision")
    edits = [(field, version)]
    if digest is not None and (*chart, "digest") in where:
        edits.append(((*chart, "digest"), digest))
    elif digest is not None:
        place = where[field]
        pad = " " * (place.key_column - 1)
        lines = text.split("\n")
        if lines[place.key_line - 1][: place.key_column - 1].strip():
            raise OperationRefused("the chart is written in a single line: add its digest to the file by hand")
        ending = "\r" if lines[place.line - 1].endswith("\r") else ""
        lines.insert(place.line, f"{pad}digest: {digest}{ending}")
        text = "\n".join(lines)
    for field_path, value in edits:
        text = _replace_scalar(
            text,
            where[field_path] if field_path == field else documents.find_positions(text.encode())[field_path],
            value,
        )
    return text.encode()


def _replace_scalar(text: str, place: documents.FieldPosition, value: str) -> str:
    """Return a text in which `value` replaces the scalar at a position.

    The new scalar has the quotes of the old scalar. If the old scalar has none, quotes are added only if `value` needs
    them.
    """
    lines = text.split("\n")
    prefix = "\n".join(lines[: place.line - 1])
    spot = place.line - 1, place.column - 1
    scalars = [event for event in documents.parse_events(text) if isinstance(event, yaml.ScalarEvent)]
    marks = [(event, *_scalar_bounds(event)) for event in scalars]
    scalar, end = next((event, end) for event, start, end in marks if start == spot)
    assert end[0] == spot[0], "a version must be on a single line"
    begin = len(prefix) + (1 if prefix else 0)
    start, stop = begin + spot[1], begin + end[1]
    mark = scalar.style if scalar.style in ("'", '"') else "" if reads_as_text(value) else '"'
    return f"{text[:start]}{mark}{value}{mark}{text[stop:]}"


def _scalar_bounds(scalar: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the start and the end of a scalar, each as a 0-based line and column."""
    start, end = scalar.start_mark, scalar.end_mark
    return (start.line, start.column), (end.line, end.column)
