"""Diagnoses objects of tenants and of the platform that somebody edited or added by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from allotment.diagnosis.cluster_snapshot import NotReadable, diagnose_unreadable
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.observed.edits import ManualEdit
from allotment.problems import escape_unprintable, pluralize

TOPIC = "edits"
SUBJECT = "objects"
MAX_EDITS = 50  # maximum number of edits in the list
# The kinds that separate tenants, or restrict the access to instances. An edit of such an object is an error.
_ISOLATION_KINDS = frozenset(
    {
        "Namespace",
        "NetworkPolicy",
        "SecurityPolicy",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "AppProject",
        "Application",
    }
)


class EditComparison(NamedTuple):
    """The comparison of live objects with the published manifests: the number of `objects`, and the `edits`.

    `unreadable` has an entry for each kind that can't be read. `unsynced_tenants` are the tenants with published
    objects that Argo CD hasn't applied. If nothing was compared, `skipped` or `failed` is the reason.
    """

    edits: Sequence[ManualEdit] = ()
    objects: int = 0
    unreadable: Sequence[NotReadable] = ()
    unsynced_tenants: Sequence[str] = ()
    skipped: str = ""
    failed: str = ""


def diagnose_edits(comparison: EditComparison) -> list[Diagnosis]:
    """Return a diagnosis of each edit and addition by hand, and of the kinds that could not be compared.

    After MAX_EDITS edits and additions, a single diagnosis has the number of the others.
    """
    return [msgspec.structs.replace(each, topic=TOPIC) for each in _diagnose_comparison(comparison)]


def _diagnose_comparison(comparison: EditComparison) -> Iterator[Diagnosis]:
    if comparison.skipped:
        yield skipped(SUBJECT, comparison.skipped)
        return
    if comparison.failed:
        yield error(
            SUBJECT,
            f"can't be compared: {escape_unprintable(comparison.failed, 1000)}",
            "allot status reads the same branch",
        )
        return
    edits = sorted(comparison.edits, key=lambda edit: (edit.kind not in _ISOLATION_KINDS, edit))
    for edit in edits[:MAX_EDITS]:
        severity = error if edit.kind in _ISOLATION_KINDS else warning
        yield severity(edit.qualified_label, edit.description, edit.remedy)
    if len(edits) > MAX_EDITS:
        more = f"{pluralize(len(edits) - MAX_EDITS, 'more object')} differ from the published manifests"
        yield warning(SUBJECT, more, "undo the edits above, then look again")
    yield from map(diagnose_unreadable, comparison.unreadable)
    if comparison.unsynced_tenants:
        message = f"{pluralize(len(comparison.unsynced_tenants), 'tenant')} can't be compared in full: Argo CD hasn't applied the last publish"
        yield skipped(SUBJECT, f"{message}, or its Applications can't be read: {comparison.unsynced_tenants[0]} first")
    if not (edits or comparison.unreadable or comparison.unsynced_tenants):
        yield ok(SUBJECT, f"{pluralize(comparison.objects, 'object')} match the published manifests")
