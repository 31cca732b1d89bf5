"""Brings a source and what was published together into the trees that are published next.

Who is invalid keeps what was published, who came too late for a unit waits, what is declared no more leaves in steps, what
runs keeps running: one tenant never stops the others, and none loses data by what another merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from allotment.accounts.capacity import Claim
from allotment.accounts.grants import beyond, grants
from allotment.adapters.source import Source
from allotment.changes.departure import Leaver, Remains, Sighting, declaration_of, remains
from allotment.changes.volumes import Successor, Users, succeeded
from allotment.declared.inventory import blob_id
from allotment.declared.kinds.platform import Platform
from allotment.manifests import paths
from allotment.manifests.folders import folder_of
from allotment.manifests.published import claim_of, taken_back, with_predecessor
from allotment.observed.conditions import seconds_between
from allotment.pipeline.check.survey import Survey, tenants_part
from allotment.pipeline.check.workers import Work, placed, results
from allotment.pipeline.publish.known import NOTHING, Known
from allotment.pipeline.publish.preparations import Preparations
from allotment.pipeline.render import cluster_files, gate_of, marker_files, tenants_with
from allotment.problems import Problem
from allotment.readiness.standing import Standing
from allotment.rules import stock

if TYPE_CHECKING:
    from allotment.manifests.gate.isolation import Gate

from allotment.pipeline.publish.assembly import Assembly, Blobs, Branches, Compared, compared


class Assembling:
    """One assembly, of what was found in a source.

    `wrong` has the problems of tenants that are invalid, `rendered` what each tenant was rendered to, now or before,
    `known` what the clusters say of each tenant, `observed` when each was last looked at.
    """

    def __init__(
        self,
        source: Source,
        found: Survey,
        branches: Branches,
        wrong: Mapping[str, list[Problem]],
        rendered: Mapping[str, Blobs],
        known: Mapping[str, Known],
        observed: Mapping[str, str],
        processes: int,
    ) -> None:
        self.source = source
        self.processes = processes
        self.found = found
        self.branches = branches
        self.known, self.observed = known, observed
        self.preparations = Preparations(known, branches)
        self.claims = {name: part.claims for name, part in found.parts.items()}
        self.held: dict[str, list[str]] = defaultdict(list)
        self.holding: list[str] = []
        self.kept = dict(wrong)
        self.data: dict[str, bytes] = {}
        self.touched: dict[str, set[str]] = defaultdict(set)
        self.remains: dict[str, list[tuple[str, Remains]]] = {}
        self.published: dict[str, Blobs] = defaultdict(dict)
        for cluster in found.offers.clusters:
            for path, blob in branches[cluster].files.items():
                if spot := paths.spot_of(path):
                    self.published[spot.tenant][f"{cluster}/{path}"] = blob
        self.rendered = {name: blobs for name, blobs in rendered.items() if name not in self.kept}
        for tenant in self.rendered:
            self._take(found.made.get(tenant))

    def assembly(self) -> Assembly:
        """Return what is published next."""
        self._complete()
        for tenant in sorted(self.published.keys() | self.rendered.keys()):
            if tenant not in self.kept and (findings := self._settle(tenant)):
                self.kept[tenant] = findings
        claims, waiting = self._grant()
        files = self._tenants_files()
        kept = dict(sorted(self.kept.items()))
        for path, data in cluster_files(self.found.offers, claims, self._letters):
            self._put(files, path, data)
        by_cluster = self._marked(files)
        bytes_of: dict[str, dict[str, bytes]] = {name: {} for name in by_cluster}
        for path in files.keys() & self.data.keys():
            cluster, _, inner = path.partition("/")
            bytes_of[cluster][inner] = self.data[path]
        leaving = [
            f"{cluster}: {words}"
            for tenant, several in sorted(self.remains.items())
            if tenant not in kept
            for cluster, one in several
            for words in one.pending
        ]
        held = [words for tenant, several in sorted(self.held.items()) if tenant not in kept for words in several]
        loud = [one for one in self.found.shared if one.rule != stock.RULE and not one.warning]
        loud += placed(stock.beneath_held(self.found.offers, claims), self.source)
        return Assembly(
            self.found.offers,
            by_cluster,
            bytes_of,
            kept,
            waiting,
            leaving,
            held,
            self.holding,
            loud,
            frozenset(self.found.parts),
            len(self.found.made),
        )

    def _by_cluster(self, files: Blobs) -> dict[str, Blobs]:
        found: dict[str, Blobs] = {name: {} for name in self.found.offers.clusters}
        for path, blob in files.items():
            cluster, _, inner = path.partition("/")
            found[cluster][inner] = blob
        return found

    def _marked(self, files: Blobs) -> dict[str, Blobs]:
        """Write the markers of all folders that hold something else than what their tenant was rendered to, or what somebody else
        wrote there; return each cluster's whole tree."""
        trees, over = self._by_cluster(files), {}
        for cluster, tree in trees.items():
            branch = self.branches[cluster]
            if strayed := branch.strayed():
                strayed &= {folder_of(path) for path in tree}
                self.touched[cluster] |= {folder for folder in strayed if folder.startswith("tenants/")}
                over[cluster] = dict.fromkeys(strayed, branch.tip or "")
        for path, data in list(marker_files(self.found.offers, trees, self.touched, over)):
            self._put(files, path, data)
            cluster, _, inner = path.partition("/")
            trees[cluster][inner] = files[path]
        return trees

    def _take(self, made: Compared | None) -> None:
        for path, (_, data) in (made or {}).items():
            self._have(path, data)

    def _have(self, path: str, data: bytes | None) -> None:
        """Note the bytes of a file; None where they are those that were published."""
        self.data.pop(path, None)
        if data is not None:
            self.data[path] = data

    def _complete(self) -> None:
        """Render those tenants again that were rendered before, and some file of which must be written now."""
        again = [
            tenant
            for tenant, blobs in self.rendered.items()
            if any(path not in self.data and self._was(path) != blob for path, blob in blobs.items())
        ]
        self._render(again)

    def _render(
        self, tenants: list[str], fewer: Mapping[tuple[str, str], int] = MappingProxyType({})
    ) -> dict[str, tuple[Claim, ...]]:
        """Render some tenants, with `fewer` units for their instances than they declare; return what they claim then."""

        def standing(tenant: str) -> Standing:
            granted = {instance: units for (owner, instance), units in fewer.items() if owner == tenant}
            return self.found.standings(tenant)._replace(granted=granted)

        each = tenants_with(lambda files: compared(files, self.branches))
        work = Work(self.source, self.found.offers, each, False, standing)
        claims = {}
        for result in results(work, tenants, self.processes):
            if result.made is None and (wrong := [one for one in result.problems if not one.warning]):
                self.kept[result.name] = wrong  # with what it gets now the gate stops it
                continue
            self._take(result.made)
            self.rendered[result.name] = {path: blob for path, (blob, _) in (result.made or {}).items()}
            claims[result.name] = tenants_part(result.part).claims
        return claims

    def _was(self, path: str) -> str | None:
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].files.get(inner)

    def _read(self, path: str) -> bytes:
        cluster, _, inner = path.partition("/")
        return self.branches[cluster].read(inner)

    def _settle(self, tenant: str) -> list[Problem]:
        """Find what stays of what is gone; return what is wrong with that, or with what became of its volumes."""
        findings = []
        rendered, published = self.rendered.get(tenant, {}), self.published.get(tenant, {})
        self.remains[tenant] = []
        for cluster in sorted({path.partition("/")[0] for path in published.keys() - rendered.keys()}):
            prefix = f"{cluster}/"
            branch = self.branches[cluster]
            leaver = Leaver(
                tenant,
                tenant in self.found.parts,
                {path.removeprefix(prefix) for path in rendered if path.startswith(prefix)},
                {path.removeprefix(prefix) for path in published.keys() - rendered.keys() if path.startswith(prefix)},
                branch.read,
                self._sighting(cluster, tenant),
                self._after(),
            )
            one = remains(leaver)
            findings += one.findings
            self.remains[tenant].append((cluster, one))
        for path in self._changed_storages(tenant):
            spot = paths.spot_of(path.partition("/")[2])
            assert spot is not None
            follows = self._successor(tenant, path, declaration_of(spot))
            findings += follows.findings
            if follows.pending:
                self.held[tenant].append(
                    f"{path.partition('/')[0]}: {spot.kind} {tenant}/{spot.thing}: {follows.pending}"
                )
        return sorted(placed(findings, self.source))

    def _sighting(self, cluster: str, tenant: str) -> Sighting:
        """Return what a cluster was seen to have of a tenant, by its own clock."""
        observed, known = self.observed.get(cluster, ""), self.known.get(tenant, NOTHING)
        if not observed or cluster in known.unreadable:
            return Sighting()
        marked = {place[1:]: _seconds(since, observed) for place, since in known.marked.items() if place[0] == cluster}
        return Sighting(
            True,
            {place[1:] for place in known.there if place[0] == cluster},
            {thing: seconds for thing, seconds in marked.items() if seconds is not None},
            {place[1:] for place in known.unprotected if place[0] == cluster},
        )

    def _after(self) -> float:
        platform = self.found.offers.platform.one(Platform)
        assert platform is not None
        return platform.model.spec.deletion.after

    def _successor(self, tenant: str, path: str, declared: str) -> Successor:
        cluster, _, inner = path.partition("/")
        spot = paths.spot_of(inner)
        assert spot is not None
        storage = spot.name

        def users() -> Users:
            claims = {claim.instance: claim for claim in self.claims[tenant]}
            return self.preparations.users(cluster, tenant, storage, claims, self.published[tenant])

        return succeeded(declared, self._before(path), self.data[path], users)

    def _changed_storages(self, tenant: str) -> list[str]:
        """Return the paths of what follows a storage or snapshot that was published, also as one that was leaving."""
        part = f"/tenants/{tenant}/storage/"
        return [
            path
            for path, blob in self.rendered.get(tenant, {}).items()
            if part in path and self._was(path) != blob and (self._was(path) or self._was(_leaving(path)))
        ]

    def _before(self, path: str) -> bytes:
        """Return what was published of a storage or snapshot; one that was leaving is taken back."""
        return self._read(path) if self._was(path) else taken_back(self._read(_leaving(path)))

    def _grant(self) -> tuple[list[Claim], list[str]]:
        """Return what all hold now, and in words who waits; render those again who get fewer units than they declare."""
        claims = {
            name: claims for name, claims in self.claims.items() if name not in self.kept and name in self.rendered
        }
        for tenant in self.kept:
            claims[tenant] = tuple(self._published_claims(tenant))
        everything = [claim for name in sorted(claims) for claim in claims[name]]
        live = beyond(everything, self._live())
        self.holding = [
            f"{one.cluster}: instance {one.tenant}/{one.instance}: its pods still run, and keep"
            f" {one.rendered} unit{'' if one.rendered == 1 else 's'} of {one.gpu_spec}, by its status of {self.observed.get(one.cluster, 'no known time')}"
            for one in live
        ]
        fewer = grants(self.found.offers, everything, self._had, live)
        if not fewer:
            return [*everything, *live], []
        late = sorted({tenant for tenant, _ in fewer})
        claims |= self._render(late, fewer)
        waiting = [
            f"{claim.tenant}/{claim.instance}: gets {fewer[claim.tenant, claim.instance]} of {claim.units} units of"
            f" {claim.gpu_spec} on {claim.cluster}, others held them first"
            for claim in everything
            if (claim.tenant, claim.instance) in fewer
        ]
        return [*(claim for name in sorted(claims) for claim in claims[name]), *live], waiting

    def _live(self) -> Iterator[Claim]:
        """Yield what pods were seen to hold, whatever is declared of their instances."""
        for tenant, known in sorted(self.known.items()):
            for (cluster, instance), (gpu_spec, units) in sorted(known.holding.items()):
                yield Claim(cluster, gpu_spec, tenant, instance, units, units)

    def _had(self, claim: Claim) -> Claim | None:
        """Return what an instance was published with, or what its pods hold already, if that is more; None if neither."""
        published = self.preparations.published_claim(claim.cluster, claim.tenant, claim.instance)
        here = claim.cluster, claim.gpu_spec
        gpu_spec, units = self.known.get(claim.tenant, NOTHING).holding.get((claim.cluster, claim.instance), ("", 0))
        before = published.units if published is not None and (published.cluster, published.gpu_spec) == here else 0
        return claim._replace(units=units) if gpu_spec == claim.gpu_spec and units > before else published

    def _published_claims(self, tenant: str) -> Iterable[Claim]:
        for path in sorted(self.published.get(tenant, ())):
            cluster, _, inner = path.partition("/")
            spot = paths.spot_of(inner)
            if spot is not None and spot.kind == "instance":
                claim = claim_of(cluster, tenant, self._read(path))
                if claim is not None:
                    yield claim

    def _tenants_files(self) -> Blobs:
        files: Blobs = {}
        gate = gate_of(self.found.offers)
        for tenant, blobs in self.rendered.items():
            if tenant not in self.kept:
                files |= blobs
                for path in self._changed_storages(tenant):
                    data = self._successor(tenant, path, "").data
                    gate.check(path, data, published=True)
                    self._put(files, path, data)
                self._note_predecessors(tenant, files, gate)
        for tenant, several in self.remains.items():
            if tenant not in self.kept:
                for cluster, one in several:
                    for inner, data in one.files.items():
                        left, _ = gate.sift(f"{cluster}/{inner}", data)
                        if left:
                            self._put(files, f"{cluster}/{inner}", left)
        self._keep(files, gate)
        return files

    def _note_predecessors(self, tenant: str, files: Blobs, gate: Gate) -> None:
        """A storage that is declared anew isn't prepared because another of its name was."""
        for path in self.rendered[tenant]:
            cluster, _, inner = path.partition("/")
            spot = paths.spot_of(inner)
            if spot is None or spot.kind != "storage" or self._was(path) is not None:
                continue
            if self.branches[cluster].published is None:
                continue  # nothing was ever published there: the branch is new, not the storage
            uid = self.preparations.last(cluster, tenant, spot.name)
            if uid and not self._was(_leaving(path)):
                data = with_predecessor(self.data[path], uid)
                gate.check(path, data, published=True)
                self._put(files, path, data)

    def _keep(self, files: Blobs, gate: Gate) -> None:
        """Leave each kept tenant's files as they were published, less what no longer passes the gate."""
        for tenant in self.kept:
            for path in self.published.get(tenant, ()):
                data, dropped = gate.sift(path, self._read(path))
                if dropped:
                    what = f"what was published of it no longer fits its cluster, and is left out: {'; '.join(dropped)}"
                    self.kept[tenant] = [*self.kept[tenant], Problem(path, 1, 1, "(file)", what, "isolation")]
                if data:
                    self._put(files, path, data)

    def _put(self, files: Blobs, path: str, data: bytes) -> None:
        cluster, _, inner = path.partition("/")
        if inner.startswith("tenants/"):
            self.touched[cluster].add(folder_of(inner))
        files[path] = blob_id(data)
        self._have(path, data if self._was(path) != files[path] else None)

    def _letters(self, cluster: str) -> set[str]:
        """A letter's shard stays, whoever goes: Argo CD would prune what it holds on the way."""
        there = {letter for path in self.branches[cluster].files if (letter := paths.letter_of(path))}
        return there | self.found.letters(cluster)


def _leaving(path: str) -> str:
    """Return where a storage's or snapshot's file lies while it leaves."""
    return f"{path.removesuffix(paths.ENDING)}{paths.LEAVING}{paths.ENDING}"


def _seconds(since: str, until: str) -> float | None:
    """Return the seconds between two times of a cluster's API server; None where a status says something that is no time."""
    try:
        return seconds_between(since, until)
    except (ValueError, TypeError, OverflowError):
        return None
