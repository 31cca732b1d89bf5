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


def settle(
    tenant: str, declared: bool, rendered: Rendered | None, published_trees: Before, watched: Watched
) -> Settled:
    """Return what becomes of what a tenant had; `declared` says whether it has a folder."""
    now = rendered or Rendered({}, {}, ())
    tenant_transition = Settled([], {}, {}, [], [])
    removed_paths = published_trees.tenants.get(tenant, {}).keys() - now.blobs.keys()
    for cluster in sorted({path.partition("/")[0] for path in removed_paths}):
        prefix = f"{cluster}/"
        leaver = Leaver(
            tenant=tenant,
            declared=declared,
            rendered={path.removeprefix(prefix) for path in now.blobs if path.startswith(prefix)},
            gone={path.removeprefix(prefix) for path in removed_paths if path.startswith(prefix)},
            read=published_trees.branches[cluster].read,
            seen=_sighting(cluster, watched),
            after=watched.after,
        )
        removal_step = remains(leaver)
        tenant_transition.findings.extend(removal_step.findings)
        tenant_transition.stays.update({prefix + inner: data for inner, data in removal_step.files.items()})
        tenant_transition.leaving.extend(f"{cluster}: {words}" for words in removal_step.pending)
    for path in _changed_storages(tenant, now, published_trees):
        _succeed(tenant, path, now, published_trees, watched, tenant_transition)
    for path, uid in _anew(now, published_trees, watched):
        tenant_transition.follows[path] = with_predecessor(now.data[path], uid)
    return _with_programs(now, published_trees, tenant_transition)


def _with_programs(now: Rendered, published_trees: Before, tenant_transition: Settled) -> Settled:
    """Where storages aren't as they were rendered, have beside them the programs that their Jobs name."""
    folders = {folder_of(path) for path in (*tenant_transition.follows, *tenant_transition.stays)}
    if not folders:
        return tenant_transition
    files = [
        path
        for path in {**now.blobs, **tenant_transition.follows, **tenant_transition.stays}
        if (folder := folder_of(path)) in folders and folder.endswith("/storage")
    ]
    data_by_path = {**now.data, **tenant_transition.follows, **tenant_transition.stays}

    def read(path: str) -> bytes:
        return data_by_path[path] if path in data_by_path else published_trees.read(path)

    missing, unnamed = job_programs.beside(files, read)
    tenant_transition.stays.update(
        {path: published_trees.read(path) for path in sorted(missing) if published_trees.blob(path)}
    )
    return tenant_transition._replace(unnamed=unnamed)


def _succeed(
    tenant: str, path: str, now: Rendered, published_trees: Before, watched: Watched, tenant_transition: Settled
) -> None:
    cluster, _, inner = path.partition("/")
    spot = paths.spot_of(inner)
    assert spot is not None
    was = published_trees.read(path) if published_trees.blob(path) else taken_back(published_trees.read(leaving(path)))
    follows = succeeded(declaration_of(spot), was, now.data[path], lambda: watched.users(cluster, spot.name))
    tenant_transition.follows[path] = follows.data
    tenant_transition.findings.extend(follows.findings)
    if follows.pending:
        tenant_transition.held.append(f"{cluster}: {spot.kind} {tenant}/{spot.thing}: {follows.pending}")


def _changed_storages(tenant: str, now: Rendered, published_trees: Before) -> list[str]:
    """Return the paths of what follows a storage or snapshot that was published, also as one that was leaving."""
    part = f"/tenants/{tenant}/storage/"
    changed = [path for path, blob in now.blobs.items() if part in path and published_trees.blob(path) != blob]
    return [
        path
        for path in changed
        if _is_of_thing(path) and (published_trees.blob(path) or published_trees.blob(leaving(path)))
    ]


def _is_of_thing(path: str) -> bool:
    spot = paths.spot_of(path.partition("/")[2])
    return spot is not None and spot.is_of_thing


def _anew(now: Rendered, published_trees: Before, watched: Watched) -> Iterator[tuple[str, str]]:
    """Yield the paths of storages that are new, and the uid of the Job that prepared another one of the name: by
    that the new one isn't prepared."""
    for path in now.blobs:
        if published_trees.blob(path) is not None:
            continue
        cluster, _, inner = path.partition("/")
        spot = paths.spot_of(inner)
        if spot is None or spot.kind != "storage":
            continue
        if published_trees.branches[cluster].published is None:
            continue  # nothing was ever published there: the branch is new, not the storage
        uid = watched.last(cluster, spot.name)
        if uid and not published_trees.blob(leaving(path)):
            yield path, uid


def _sighting(cluster: str, watched: Watched) -> Sighting:
    """Return what a cluster was seen to have of a tenant, by its own clock."""
    observed, observed_tenant = watched.observed.get(cluster, ""), watched.known
    if not observed or cluster in observed_tenant.unreadable:
        return Sighting()
    marked = {
        resource_key[1:]: _seconds(since, observed)
        for resource_key, since in observed_tenant.marked.items()
        if resource_key[0] == cluster
    }
    return Sighting(
        True,
        {resource_key[1:] for resource_key in observed_tenant.there if resource_key[0] == cluster},
        {resource_key: seconds for resource_key, seconds in marked.items() if seconds is not None},
        {resource_key[1:] for resource_key in observed_tenant.unprotected if resource_key[0] == cluster},
    )


def _seconds(since: str, until: str) -> float | None:
    """Return the seconds between two times of a cluster's API server; None where a status says something that is no
    time."""
    try:
        return seconds_between(since, until)
    except ValueError:
        return None
