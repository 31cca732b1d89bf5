"""Sets a field of a spec that has a few named values, such as a lifecycle or a state."""

from __future__ import annotations

from allotment.declared.document_editor import RemoveField, SetField, edit_document
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration


def set_enum_field(declared: DeclarationFile[Declaration], field: str, value: str, default: str) -> bytes:
    """Return the content of a declaration with a value of a field of its spec. The default value removes the field."""
    path, kind = ("spec", field), type(declared.model)
    if getattr(declared.model.spec, field) == value:
        return declared.data
    return edit_document(declared.data, kind, [RemoveField(path) if value == default else SetField(path, value)])
