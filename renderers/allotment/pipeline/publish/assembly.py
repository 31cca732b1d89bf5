"""What is published next: the trees of all clusters, and who is not in them as declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.declared.inventory import blob_id
from allotment.problems import Problem

if TYPE_CHECKING:
    from allotment.declared.inventory import Offers

Branches = Mapping[str, Branch]
Blobs = dict[str, str]  # blob by `<cluster>/<path>`
Compared = dict[str, tuple[str, bytes | None]]


class Assembly(NamedTuple):
    """What is published next.

    `files` has the blob of every file by cluster and path, `data` the bytes of those that weren't published so. `kept`
    are the tenants that stay as they were, with their problems; `waiting`, `leaving`, `held` and `holding` say in words
    who waits for a unit, what is on its way out, which preparations wait, and whose pods keep units that nobody declares
    any more; `problems` are those that stop nobody; `declared` are the tenants that have a folder, `rendered` counts
    those that were rendered now.
    """

    offers: Offers
    files: dict[str, Blobs]
    data: dict[str, dict[str, bytes]]
    kept: dict[str, list[Problem]]
    waiting: list[str]
    leaving: list[str]
    held: list[str]
    holding: list[str]
    problems: list[Problem]
    declared: frozenset[str]
    rendered: int


def compared(files: Iterable[tuple[str, bytes]], branches: Branches) -> Compared:
    """Return the blob of each file, and its bytes where it isn't published so."""
    made: Compared = {}
    for path, data in files:
        cluster, _, inner = path.partition("/")
        blob = blob_id(data)
        made[path] = (blob, None if branches[cluster].files.get(inner) == blob else data)
    return made
