"""Objects in tenants' namespaces that somebody edited or added by hand, as a comparison with the published manifests finds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.diagnosis.looked import Unseen, diagnosis_of
from allotment.manifests import names
from allotment.observed.edits import Edit
from allotment.problems import counted, printable

TOPIC = "edits"
WHAT = "tenants' objects"
MOST = 50  # edits that are listed
# Kinds that keep tenants apart, and strangers out of an instance.
_GUARDS = frozenset({"Namespace", "NetworkPolicy", "SecurityPolicy"})


class Comparison(NamedTuple):
    """The comparison of live objects with the published manifests: the number of `objects`, and the `edits`. `unseen` are the
    kinds that can't be read, `unsynced` the tenants of whom Argo CD hasn't applied everything that is published. Nothing was
    compared where `skipped` or `failed` says why."""

    edits: Sequence[Edit] = ()
    objects: int = 0
    unseen: Sequence[Unseen] = ()
    unsynced: Sequence[str] = ()
    skipped: str = ""
    failed: str = ""


def diagnose(comparison: Comparison) -> list[Diagnosis]:
    """Return a diagnosis of each edit and addition by hand, and of the kinds that couldn't be compared."""
    return [each._replace(topic=TOPIC) for each in _diagnoses(comparison)]


def _diagnoses(comparison: Comparison) -> Iterator[Diagnosis]:
    if comparison.skipped:
        yield skipped(WHAT, comparison.skipped)
        return
    if comparison.failed:
        yield error(
            WHAT, f"can't be compared: {printable(comparison.failed, 1000)}", "allot status looks at the same branch"
        )
        return
    edits = sorted(comparison.edits, key=lambda edit: (edit.kind not in _GUARDS, edit))
    for edit in edits[:MOST]:
        subject = f"{edit.kind} {names.namespace(edit.tenant)}/{printable(edit.name, 63)}"
        yield (error if edit.kind in _GUARDS else warning)(subject, edit.fault, edit.way_out)
    if len(edits) > MOST:
        more = f"{counted(len(edits) - MOST, 'more object')} aren't as published"
        yield warning(WHAT, more, "undo the edits above, then look again")
    yield from map(diagnosis_of, comparison.unseen)
    if comparison.unsynced:
        words = f"{counted(len(comparison.unsynced), 'tenant')} aren't compared in full: Argo CD hasn't applied the last publish"
        yield skipped(WHAT, f"{words}, or its Applications can't be read: {comparison.unsynced[0]} first")
    if not (edits or comparison.unseen or comparison.unsynced):
        yield ok(WHAT, f"{counted(comparison.objects, 'object')} are as published")
