"""Operation IDs: a caller's ID of a change, so that a repeated command changes nothing.

The ID is `metadata.operationID` of each written declaration, a trailer of the commit, and part of the branch's name.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping

from allotment.declared.document_editor import SetField, edit_document
from allotment.declared.kinds.declaration import OPERATION_ID_PATTERN
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.problems import OperationRefused, quote_value

BuildChange = Callable[[Declarations], ChangeSet]
"""Returns a change of some declarations.

The function is pure: a command with an operation ID calls it several times, on the declarations of several commits. It
therefore asks a person or a registry at most once, and each further call uses the same answer.
"""
BRANCH_PREFIX = "allot/op-"
TRAILER = "Operation-ID"
_PATTERN = re.compile(OPERATION_ID_PATTERN)
_FIELD = ("metadata", "operationID")
_DIGEST_LENGTH = 24


def check_operation_id(text: str) -> str:
    """Return an operation ID. Raises OperationRefused if the format is wrong."""
    if not _PATTERN.fullmatch(text):
        raise OperationRefused(
            f"the operation ID {quote_value(text)} is invalid: write 8 to 63 letters, digits, dots, underscores and"
            " hyphens, with a letter or a digit first"
        )
    return text


def name_operation_branch(operation_id: str) -> str:
    """Return the name of the branch that an operation pushes. All tenants share these names."""
    return f"{BRANCH_PREFIX}{hashlib.sha256(operation_id.encode()).hexdigest()[:_DIGEST_LENGTH]}"


def add_operation_id(files: Mapping[str, bytes | None], operation_id: str) -> dict[str, bytes | None]:
    """Return the files of a change with the operation ID in each written declaration."""
    return {path: data and _set_operation_id(path, data, operation_id) for path, data in files.items()}


def _set_operation_id(path: str, data: bytes, operation_id: str) -> bytes:
    declaration_path = parse_path(path)
    if not isinstance(declaration_path, DeclarationPath):
        return data
    return edit_document(data, declaration_path.kind.model, [SetField(_FIELD, operation_id)])


def write_message(change_set: ChangeSet, operation_id: str) -> str:
    """Return the commit message of a change: its title, its reason, and the trailer. An empty ID adds no trailer."""
    reason = f"Reason: {change_set.reason}" if change_set.reason else ""
    trailer = f"{TRAILER}: {operation_id}" if operation_id else ""
    return "\n\n".join(part for part in (change_set.title, reason, trailer) if part) + "\n"


def has_trailer(message: str, operation_id: str) -> bool:
    """Return whether a commit message has the trailer of an operation."""
    return f"{TRAILER}: {operation_id}" in map(str.strip, message.splitlines())


def trailer_pattern(operation_id: str) -> str:
    """Return the POSIX extended regular expression of the line with the ID in a commit message."""
    return f"^[[:space:]]*{TRAILER}: {_escape(operation_id)}[[:space:]]*$"


def field_pattern(operation_id: str) -> str:
    """Return the POSIX extended regular expression of the line with the ID in a declaration."""
    return f"^ +operationID: [\"']?{_escape(operation_id)}[\"']?$"


def _escape(operation_id: str) -> str:
    """Return the regular expression of an ID. Only a dot has another meaning there."""
    return operation_id.replace(".", "[.]")


def list_read_paths(declarations: Declarations, build: BuildChange) -> set[str]:
    """Return the paths that a change reads or writes, even if the change can't be built."""
    paths: set[str] = set()

    def read(path: str) -> bytes | None:
        paths.add(path)
        return declarations.read(path)

    # The build fails, for example, if the first use of the ID has created the declaration.
    with contextlib.suppress(OperationRefused):
        paths.update(build(declarations._replace(read=read)).files)
    return paths
