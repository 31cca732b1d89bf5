"""What becomes of what a tenant had: its volumes go on as what they may become, and what is declared no more leaves
in steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from allotment.changes import job_programs
from allotment.changes.departure import Leaver, Sighting, declaration_of, remains
from allotment.changes.volumes import Users, succeeded
from allotment.manifests import paths
from allotment.manifests.folders import folder_of
from allotment.manifests.published import taken_back, with_predecessor
from allotment.observed.conditions import seconds_between
from allotment.pipeline.publish.before import Before, leaving
from allotment.pipeline.publish.known import Known
from allotment.pipeline.publish.rendered import Rendered
from allotment.problems import Finding


class Settled(NamedTuple):
    """What becomes of what a tenant had.

    `findings` say what may not become so, which keeps the tenant. `follows` are the files that differ from what it
    is rendered to, since they follow what was published; `stays` are those of what is declared no more, and
    programs that Jobs still name; `unnamed` are the paths of programs that no Job names yet. `leaving` and `held`
    say in words what is on its way out, and which preparations wait.
    """

    findings: list[Finding]
    follows: dict[str, bytes]
    stays: dict[str, bytes]
    leaving: list[str]
    held: list[str]
    unnamed: frozenset[str] = frozenset()


class Watched(NamedTuple):
    """What is known where a tenant settles: of it by its clusters' statuses, when each cluster was last looked at,
    by its API server's clock, and for how many seconds a thing must have been seen to be marked before it goes.

    `users` returns who keeps a storage of a cluster from being prepared anew, `last` the uid of the Job that last
    prepared one of its name.
    """

    known: Known
    observed: Mapping[str, str]
    after: float
    users: Callable[[str, str], Users]
    last: Callable[[str, str], str]


def settle(tenant: str, declared: bool, rendered: Rendered | None, before: Before, watched: Watched) -> Settled:
    """Return what becomes of what a tenant had; `declared` says whether it has a folder."""
    now = rendered or Rendered({}, {}, ())
    found = Settled([], {}, {}, [], [])
    gone = before.tenants.get(tenant, {}).keys() - now.blobs.keys()
    for cluster in sorted({path.partition("/")[0] for path in gone}):
        prefix = f"{cluster}/"
        leaver = Leaver(
            tenant=tenant,
            declared=declared,
            rendered={path.removeprefix(prefix) for path in now.blobs if path.startswith(prefix)},
            gone={path.removeprefix(prefix) for path in gone if path.startswith(prefix)},
            read=before.branches[cluster].read,
            seen=_sighting(cluster, watched),
            after=watched.after,
        )
        left = remains(leaver)
        found.findings.extend(left.findings)
        found.stays.update({prefix + inner: data for inner, data in left.files.items()})
        found.leaving.extend(f"{cluster}: {words}" for words in left.pending)
    for path in _changed_storages(tenant, now, before):
        _succeed(tenant, path, now, before, watched, found)
    for path, uid in _anew(now, before, watched):
        found.follows[path] = with_predecessor(now.data[path], uid)
    return _with_programs(now, before, found)


def _with_programs(now: Rendered, before: Before, found: Settled) -> Settled:
    """Where storages aren't as they were rendered, have beside them the programs that their Jobs name."""
    folders = {folder_of(path) for path in (*found.follows, *found.stays)}
    if not folders:
        return found
    files = [
        path
        for path in {**now.blobs, **found.follows, **found.stays}
        if (folder := folder_of(path)) in folders and folder.endswith("/storage")
    ]
    made = {**now.data, **found.follows, **found.stays}

    def read(path: str) -> bytes:
        return made[path] if path in made else before.read(path)

    missing, unnamed = job_programs.beside(files, read)
    found.stays.update({path: before.read(path) for path in sorted(missing) if before.blob(path)})
    return found._replace(unnamed=unnamed)


def _succeed(tenant: str, path: str, now: Rendered, before: Before, watched: Watched, found: Settled) -> None:
    cluster, _, inner = path.partition("/")
    spot = paths.spot_of(inner)
    assert spot is not None
    was = before.read(path) if before.blob(path) else taken_back(before.read(leaving(path)))
    follows = succeeded(declaration_of(spot), was, now.data[path], lambda: watched.users(cluster, spot.name))
    found.follows[path] = follows.data
    found.findings.extend(follows.findings)
    if follows.pending:
        found.held.append(f"{cluster}: {spot.kind} {tenant}/{spot.thing}: {follows.pending}")


def _changed_storages(tenant: str, now: Rendered, before: Before) -> list[str]:
    """Return the paths of what follows a storage or snapshot that was published, also as one that was leaving."""
    part = f"/tenants/{tenant}/storage/"
    changed = [path for path, blob in now.blobs.items() if part in path and before.blob(path) != blob]
    return [path for path in changed if _is_of_thing(path) and (before.blob(path) or before.blob(leaving(path)))]


def _is_of_thing(path: str) -> bool:
    spot = paths.spot_of(path.partition("/")[2])
    return spot is not None and spot.is_of_thing


def _anew(now: Rendered, before: Before, watched: Watched) -> Iterator[tuple[str, str]]:
    """Yield the paths of storages that are new, and the uid of the Job that prepared another one of the name: by
    that the new one isn't prepared."""
    for path in now.blobs:
        if before.blob(path) is not None:
            continue
        cluster, _, inner = path.partition("/")
        spot = paths.spot_of(inner)
        if spot is None or spot.kind != "storage":
            continue
        if before.branches[cluster].published is None:
            continue  # nothing was ever published there: the branch is new, not the storage
        uid = watched.last(cluster, spot.name)
        if uid and not before.blob(leaving(path)):
            yield path, uid


def _sighting(cluster: str, watched: Watched) -> Sighting:
    """Return what a cluster was seen to have of a tenant, by its own clock."""
    observed, known = watched.observed.get(cluster, ""), watched.known
    if not observed or cluster in known.unreadable:
        return Sighting()
    marked = {thing[1:]: _seconds(since, observed) for thing, since in known.marked.items() if thing[0] == cluster}
    return Sighting(
        True,
        {thing[1:] for thing in known.there if thing[0] == cluster},
        {thing: seconds for thing, seconds in marked.items() if seconds is not None},
        {thing[1:] for thing in known.unprotected if thing[0] == cluster},
    )


def _seconds(since: str, until: str) -> float | None:
    """Return the seconds between two times of a cluster's API server; None where a status says something that is no
    time."""
    try:
        return seconds_between(since, until)
    except ValueError:
        return None
