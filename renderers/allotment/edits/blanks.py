"""Lists the values of new declarations that the platform team must replace, because only the team knows them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from allotment.declared import documents


class Blank(NamedTuple):
    """A value that the team must supply: its path, line and field, and what to write there."""

    path: str
    line: int
    field: str
    description: str

    def __str__(self) -> str:
        return f"Replace {self.field} in {self.path}:{self.line}: {self.description}."


_CLUSTER_FIELDS = (
    ("spec.destination.name", "the cluster's name in Argo CD, as `argocd cluster list` says it"),
    ("spec.gateway.name", "your Gateway, with its namespace and the HTTPS listener of *.{domain}"),
    ("spec.oidc.clientID", "the client that your identity provider knows"),
    ("spec.oidc.clientSecretRef.name", "a Secret in that namespace, with the key client-secret"),
    ("spec.storages[0].storageClassName", "a StorageClass with the reclaim policy Retain, and its capacity"),
    ("spec.diskStorageClassName", "a StorageClass with the reclaim policy Delete"),
)


def locate_blank(path: str, data: bytes, field: str, description: str) -> Blank:
    """Return the blank of a field that a file has."""
    return Blank(path, documents.find_positions(data)[_split_field(field)].key_line, field, description)


def list_cluster_blanks(path: str, data: bytes, domain: str, filled: Collection[str] = ()) -> list[Blank]:
    """Return the values of a new cluster that the team must supply, without the fields in `filled`."""
    positions = documents.find_positions(data)
    return [
        locate_blank(path, data, field, description.format(domain=domain))
        for field, description in _CLUSTER_FIELDS
        if field not in filled and _split_field(field) in positions
    ]


def _split_field(field: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    for part in field.split("."):
        name, _, rest = part.partition("[")
        parts += [name, int(rest.rstrip("]"))] if rest else [name]
    return tuple(parts)
