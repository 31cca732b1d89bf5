"""Set the number of the preparation attempt in the file of a storage, and write the file in canonical form."""

from __future__ import annotations

from allotment.declared import documents
from allotment.declared.canonical import canonicalize
from allotment.declared.kinds.gpu_storage import GPUStorage

_PREPARE_FIELD = ("spec", "prepare")


def with_attempt(data: bytes, attempt: int) -> bytes:
    """Return the content of a storage's file with a new value of `spec.prepare.attempt`, in canonical form.

    The file must declare a preparation.
    """
    lines = canonicalize(data, GPUStorage).decode("utf-8").splitlines(keepends=True)
    places = documents.find_positions("".join(lines).encode())
    place = places.get((*_PREPARE_FIELD, "attempt"))
    if place is not None:
        line = lines[place.line - 1]
        begin = place.column - 1
        end = begin + len(line[begin:]) - len(line[begin:].lstrip("0123456789"))
        lines[place.line - 1] = f"{line[:begin]}{attempt}{line[end:]}"
    else:
        source = places[(*_PREPARE_FIELD, "source")]
        lines.insert(source.key_line - 1, f"{' ' * (source.key_column - 1)}attempt: {attempt}\n")
    return canonicalize("".join(lines).encode(), GPUStorage)
