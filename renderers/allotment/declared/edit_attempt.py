"""Set a storage's preparation attempt in its file: one line changes or is added, everything else stays."""

from __future__ import annotations

from allotment.declared import documents
from allotment.declared.canonical import canonicalize
from allotment.declared.kinds.gpu_storage import GPUStorage

_PREPARE_FIELD = ("spec", "prepare")


def with_attempt(data: bytes, attempt: int) -> bytes:
    """Return the canonical text of a storage's file with this `spec.prepare.attempt`. The file must declare a
    preparation.
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
