"""Set the number of the preparation attempt in the file of a storage."""

from __future__ import annotations

from allotment.declared.document_editor import SetField, edit_document
from allotment.declared.kinds.gpu_storage import GPUStorage


def with_attempt(data: bytes, attempt: int) -> bytes:
    """Return the content of a storage's file with a new value of `spec.prepare.attempt`, in canonical form.

    The file must declare a preparation.
    """
    return edit_document(data, GPUStorage, [SetField(("spec", "prepare", "attempt"), attempt)])
