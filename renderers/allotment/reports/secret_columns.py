"""Defines the columns of the list of secrets, and the facts of one secret."""

from __future__ import annotations

from allotment.observed.secret_rows import SecretKeyOutput, SecretRowOutput
from allotment.reports.list_columns import format_labels
from allotment.reports.list_table import ListColumn
from allotment.reports.sheets import FactList


def secret_columns() -> list[ListColumn[SecretRowOutput]]:
    """Return the columns of a list of secrets."""
    return [
        ListColumn("secret", lambda row: row.label),
        ListColumn("cluster", lambda row: row.cluster),
        ListColumn("type", lambda row: row.type),
        ListColumn("keys", lambda row: ",".join(key.name for key in row.keys), lambda row: len(row.keys)),
        ListColumn("used-by", lambda row: ",".join(row.used_by) or "-", lambda row: len(row.used_by)),
        ListColumn("store", lambda row: row.store or "-", wide=True),
        ListColumn("labels", lambda row: format_labels(row.labels), wide=True),
        ListColumn("places", lambda row: " ".join(map(_format_place, row.keys)), wide=True, long=True),
    ]


def secret_facts(row: SecretRowOutput) -> FactList:
    """Return the declared facts of a secret, with the place of each value in the store."""
    return FactList(
        [
            ("Secret", row.label),
            ("Cluster", row.cluster),
            ("Type", row.type),
            ("Store", row.store or f"cluster {row.cluster} declares none"),
            *((f"Key {key.name}", _format_place(key)) for key in row.keys),
            ("Read every", row.refresh_interval),
            ("Used by", " ".join(row.used_by) or "none"),
            ("Labels", format_labels(row.labels)),
        ]
    )


def _format_place(key: SecretKeyOutput) -> str:
    return f"{key.path}#{key.property}" if key.property else key.path
