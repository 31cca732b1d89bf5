"""Write a declaration in its canonical form, and fix its notation on request: the changes of `allot fmt`."""

from __future__ import annotations

from allotment.declared import documents
from allotment.declared.autofix import autofix
from allotment.declared.canonical import canonicalize
from allotment.declared.layout import parse_path
from allotment.problems import Finding, Problem, format_field


def format_declaration(path: str, data: bytes, *, fix: bool) -> tuple[bytes, list[Problem]]:
    """Return a file in its canonical form. If the file can't be read, return it unformatted, with its problems.

    With `fix`, also add the missing quotes and the schema line, and remove a byte order mark. If all lines end with CR and LF,
    as in a checkout for Windows, they still do.
    """
    declaration_path = parse_path(path)
    if declaration_path is None or isinstance(declaration_path, Finding):
        return data, []
    if fix:
        data = autofix(path, data, declaration_path)
    document = documents.read(data)
    if document.findings:
        return data, [
            Problem(path, finding.line, finding.column, format_field(finding.field), finding.message, finding.rule)
            for finding in document.findings
        ]
    canonical = canonicalize(data, declaration_path.kind.model)
    has_windows_ends = 0 < data.count(b"\n") == data.count(b"\r\n")
    return canonical.replace(b"\n", b"\r\n") if has_windows_ends else canonical, []
