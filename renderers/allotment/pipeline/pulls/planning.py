"""Plans a change: checks, renders and counts the base and the merge result, and compares the two.

Nothing of the head is checked out, run or imported: its blobs are read as any declarations are, by this program.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.merge import Conflicted, changed, lands_by_rebase, merged
from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tree_comparison import Changed
from allotment.adapters.git.trees import REGULAR, MalformedTree
from allotment.adapters.source import Source, place_problem
from allotment.changes.addresses import addresses_lost
from allotment.changes.comparison import Compared, Side, compare, pools_lost, units_changed
from allotment.changes.plan import Diff, Files, Loss, Plan, Step, caused, checksum
from allotment.declared.inventory import Folder, Offers, blob_id
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import ROOTS, Scope
from allotment.declared.people import Account
from allotment.declared.reading import read_folder
from allotment.manifests import paths
from allotment.pipeline.check.survey import Recall, Survey, resurvey, survey, tenants_part
from allotment.pipeline.check.workers import cores, read_scope, results
from allotment.pipeline.pulls.authority import unauthorised
from allotment.pipeline.render import check_tenant, cluster_files, gate_of
from allotment.problems import Problem, quoted
from allotment.readiness.standing import Standing, all_prepared
from allotment.rules.ownership import Review

MOST_BYTES = 64 << 20  # of the files that a change writes
MOST_TEXTS = 400  # files whose texts a plan holds; all are counted, and in its checksum
_WHOLE, _SIZE = "(pull request)", "size"
_OTHERWISE = (
    "merged by rebase it would land something else than merged: its merge commits say more than a merge does, or it takes back"
    " what the base has too. Squash it into one commit on top of the base"
)
_OLDER = (
    "was invalid before the merge, so its last published version may still run, which a plan can't compare with:"
    " whatever the merge result declares no more ends, whatever it declares otherwise may be replaced, and what lies on"
    " instances' own disks is lost then"
)


class Reviewed(NamedTuple):
    """Who made and approved a change, and who is in the forge's teams, None for one that could not be read."""

    review: Review
    teams: Mapping[str, frozenset[Account] | None]


class TenantOutcome(NamedTuple):
    """What came of comparing a tenant: None where one of its sides is invalid, the files that differ, and its claims."""

    name: str
    compared: Compared | None
    steps: list[Step]
    diffs: list[Diff]
    claims: tuple[tuple[Any, ...], tuple[Any, ...]]


class Comparing(NamedTuple):
    """What a process needs to compare tenants at both ends."""

    sources: tuple[Source, Source]
    offers: tuple[Offers, Offers]
    there: tuple[frozenset[str], frozenset[str]]
    invalid: frozenset[str]

    def check(self, names: list[str]) -> list[TenantOutcome]:
        """Return what becomes of some tenants."""
        gate = gate_of(self.offers[1])
        return [self._one(name, gate) for name in names]

    def _one(self, name: str, gate: Any) -> TenantOutcome:
        from allotment.declared.kinds.gpu_storage import GPUStorage
        from allotment.manifests.tree import render_tenant
        from allotment.readiness.preparation import job_name
        from allotment.rules.tally import part_of

        if name in self.invalid:
            return TenantOutcome(name, None, [], [], ((), ()))
        scope = Scope("tenant", name)
        folders = [
            read_folder(scope, read_scope(source, scope).files)[0] if name in there else Folder(scope)
            for source, there in zip(self.sources, self.there, strict=True)
        ]
        done = frozenset(
            (one.model.spec.cluster, job_name(one.model.name, one.model.spec.prepare))
            for one in folders[0].of(GPUStorage).values()
            if one.model.spec.prepare is not None
        )
        ends, standing = list(zip(self.offers, folders, strict=True)), Standing(done)
        claims = tuple(tuple(part_of(*end, standing).claims) for end in ends)
        rendered = [dict(render_tenant(*end, standing)) for end in ends]
        files = Files(MOST_TEXTS)
        take_changed(files, *rendered)
        new = [(path, data) for path, data in rendered[1].items() if rendered[0].get(path) != data]
        check_tenant(gate, *ends[1], new)
        sides = [Side(*both) for both in zip(self.offers, folders, rendered, strict=True)]
        return TenantOutcome(name, compare(*sides), files.steps, files.diffs, (claims[0], claims[1]))


def take_changed(files: Files, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Note the files that differ; a marker, or programs that Jobs name, follow from those beside them, and say
    nothing more to anybody."""
    for path in sorted(before.keys() | after.keys()):
        if paths.is_marker(path) or paths.is_programs(path):
            continue
        old, new = before.get(path), after.get(path)
        if old != new:
            blobs = tuple(None if data is None else blob_id(data) for data in (old, new))
            files.take(path, old, new, (blobs[0], blobs[1]))


def plan(
    root: Path,
    base_ref: str,
    head_ref: str,
    day: datetime.date,
    *,
    recall: Recall | None = None,
    reviewed: Reviewed | None = None,
    processes: int | None = None,
    first: Survey | None = None,
) -> Plan:
    """Return what merging `head_ref` into `base_ref` would change; `first` is what `surveyed` said of the base, if
    it was asked.

    Raises Refused where a ref names no commit, or the base can't be read.
    """
    base = CommitSource(root, base_ref)
    base.scopes()  # whatever is wrong with its trees isn't the head's fault
    head = base.repository.resolve(head_ref, f"{quoted(head_ref)} names no commit here: fetch it, or write another")
    try:
        tree = merged(base.repository, base.commit, head)
        if isinstance(tree, Conflicted):
            return _stopped(base, head, day, str(tree), "merge")
        prefix = base.repository.top(root)
        after = base.repository.tree_of(tree, prefix)
        if after is None:
            return _stopped(base, head, day, f"after the merge there is no folder {prefix}", "layout")
        if not lands_by_rebase(base.repository, base.commit, head, tree):
            return _stopped(base, head, day, _OTHERWISE, "rebase")
        differing, beside = _apart(changed(base.repository, base.commit, tree), prefix)
        source = _merge_result(base, after, differing)
    except TooMuch as error:
        return _stopped(base, head, day, str(error), _SIZE)
    except MalformedTree as error:
        return _stopped(base, head, day, str(error), "tree")
    if _bytes(base.repository, differing) > MOST_BYTES:
        return _stopped(base, head, day, f"it writes more than {MOST_BYTES >> 20} MiB of files: split it", _SIZE)
    first = first or surveyed(base, day, recall, processes)
    return _Planning(base, head, source, differing, beside, day, first, reviewed, processes or cores()).plan()


def _apart(everything: Iterable[Changed], folder: str) -> tuple[list[Changed], list[Changed]]:
    """Return what changes in the declarations' folder, and what changes beside it, both by the path from that folder."""
    inside = f"{folder}/" if folder else ""
    differing: list[Changed] = []
    beside: list[Changed] = []
    for one in everything:
        if one.path.startswith(inside):
            differing.append(one._replace(path=one.path[len(inside) :]))
        else:
            beside.append(one._replace(path="../" * inside.count("/") + one.path))
    return differing, beside


def _merge_result(base: CommitSource, tree: str, differing: list[Changed]) -> TreeSource:
    """Return the declarations of a merge result, listed. Raises TooMuch and MalformedTree."""
    declared = _declared(differing)
    if all(_is_within_a_tenant(one) for one in declared):
        return base.changed(tree, {one.path: one.blob for one in declared})
    found = TreeSource(base.repository, tree)
    found.scopes()
    return found


def _declared(several: Iterable[Changed]) -> list[Changed]:
    return [one for one in several if one.path.split("/")[0] in ROOTS]


def surveyed(base: CommitSource, day: datetime.date, recall: Recall | None, processes: int | None) -> Survey:
    """Return what a plan needs to know of its base alone."""
    return survey(base, day, recall=recall, standings=all_prepared, processes=processes or cores())


def is_too_large(found: Plan) -> bool:
    """Return whether a change is more than is planned at all."""
    return any((one.path, one.rule) == (_WHOLE, _SIZE) for one in found.problems)


def _stopped(base: CommitSource, head: str, day: datetime.date, words: str, rule: str) -> Plan:
    return Plan(base.commit, head, day, "", (place_problem(_WHOLE, words, rule),))


def _bytes(repository: Repository, differing: Iterable[Changed]) -> int:
    blobs = [one.blob for one in differing if one.mode in REGULAR]
    known = repository.objects.info(sorted(set(blobs)))
    return sum(known[blob].size for blob in blobs)


class _Planning:
    """One plan, of a base and a merge result."""

    def __init__(
        self,
        base: CommitSource,
        head: str,
        after: TreeSource,
        differing: list[Changed],
        beside: list[Changed],
        day: datetime.date,
        first: Survey,
        reviewed: Reviewed | None,
        processes: int,
    ) -> None:
        self.base, self.head, self.day = base, head, day
        self.reviewed = reviewed
        self.processes = processes
        self.changed, self.beside = differing, beside
        self.first = first
        self.after = after
        declared = _declared(differing)
        if all(_is_within_a_tenant(one) for one in declared):  # nothing but these tenants needs to be read again
            owners = {one.path.split("/")[1] for one in declared}
            self.second = resurvey(self.first, after, sorted(owners), base=base)
        else:
            self.second = survey(after, day, standings=all_prepared, processes=processes, base=base)

        owners_of = self.first.by_owner(), self.second.by_owner()
        self.wrong = owners_of[0][0], owners_of[1][0]  # of the platform, at both ends
        self.invalid = frozenset(owners_of[0][1]), frozenset(owners_of[1][1])

    def plan(self) -> Plan:
        """Return the plan."""
        problems = caused(self.second.problems, self.first.problems, [one.path for one in self.changed])
        problems += [one for one in self._unauthorised() if one not in problems]
        platform = self.second.offers.platform.one(Platform) or self.first.offers.platform.one(Platform)
        standing = sum(not one.warning for one in self.first.problems)
        outcomes, files, skipped = self._compared()
        declared = _declared(self.changed)
        found = [one.compared for one in outcomes if one.compared]
        costs = [one.cost for one in found if one.cost.parts]
        costs.sort(key=lambda one: (-abs(one.after - one.before), one.tenant))
        steps = [*files.steps, *((one.path, one.old_blob or None, one.blob or None) for one in self.changed)]
        return Plan(
            base=self.base.commit,
            head=self.head,
            day=self.day,
            currency=platform.model.spec.billing.currency if platform else "",
            problems=tuple(sorted(problems, key=lambda one: (one.warning, one))),
            standing=standing,
            losses=(
                *addresses_lost(self.first.offers, self.second.offers, [thing for one in found for thing in one.moved]),
                *pools_lost(self.first.offers, self.second.offers),
                *(loss for one in found for loss in one.losses),
            ),
            perhaps_lost=tuple(self._perhaps_lost(outcomes)),
            units=tuple(units_changed(*self._sides(outcomes))),
            quota=tuple(amount for one in found for amount in one.quota),
            costs=tuple(costs),
            things=tuple(thing for one in found for thing in one.things),
            platform=tuple(one.path for one in self.changed if one.path.split("/")[0] in ("platform", "clusters")),
            declarations=tuple(self._diff(one) for one in declared[:MOST_TEXTS]),
            objects=tuple(files.diffs),
            changed_files=len(files.steps),
            checksum=checksum(steps),
            skipped=tuple(skipped),
            cost_before=sum((one.before for one in costs), Decimal(0)),
            cost_after=sum((one.after for one in costs), Decimal(0)),
        )

    def _unauthorised(self) -> Iterable[Problem]:
        if self.reviewed is None:
            return []
        several = [*self.changed, *self.beside]
        return unauthorised(self.base, self.after, self.first.offers.platform, several, *self.reviewed)

    def _compared(self) -> tuple[list[TenantOutcome], Files, list[str]]:
        """Return what becomes of every tenant that the change may reach, and all files that it changes."""
        files = Files(MOST_TEXTS)
        skipped = []
        if self.reviewed is None:
            skipped.append("who may change it: no author was named")
        if self.wrong[0] or self.wrong[1]:
            skipped.append("what it would render: what the platform declares is wrong")
            return [], files, skipped
        invalid = self.invalid[0] | self.invalid[1]
        ends = (self.base, self.after), (self.first.offers, self.second.offers)
        there = frozenset(self.first.parts), frozenset(self.second.parts)
        work = Comparing(*ends, there, invalid)
        outcomes = list(results(work, self._reached(there[0] | there[1]), self.processes))
        for one in outcomes:
            if one.compared is None:
                when = "" if one.name in self.invalid[1] else " before the merge"
                skipped.append(f"what it would render of tenant {one.name}, which is invalid{when}")
            files.steps += one.steps
            files.diffs += one.diffs[: MOST_TEXTS - len(files.diffs)]
        sides = self._sides(outcomes)
        letters = self.first.letters, self.second.letters
        take_changed(files, *(dict(cluster_files(*side, has)) for side, has in zip(sides, letters, strict=True)))
        return outcomes, files, skipped

    def _perhaps_lost(self, outcomes: Iterable[TenantOutcome]) -> Iterator[Loss]:
        """Yield the tenants, or the platform, that are invalid at the base and valid after the merge."""
        if self.wrong[0] and not self.wrong[1]:
            yield Loss("what the platform offers", _OLDER)
        for one in outcomes:
            if one.name in self.invalid[0] - self.invalid[1]:
                yield Loss(f"tenant {one.name}", _OLDER)

    def _reached(self, everyone: Collection[str]) -> list[str]:
        """Return the tenants that may differ: those whose files did, or all where the offers did."""
        roots = {one.path.split("/")[0] for one in self.changed}
        if roots & {"platform", "clusters"}:
            return sorted(everyone)
        owners = {one.path.split("/")[1] for one in self.changed if one.path.startswith("tenants/") and "/" in one.path}
        return sorted(owners & set(everyone))

    def _sides(self, outcomes: Iterable[TenantOutcome]) -> list[tuple[Offers, list[Any]]]:
        """Return both ends' offers with the claims of all tenants, as exactly as they were compared."""
        sides = []
        for end, found in enumerate((self.first, self.second)):
            claims = {name: part.claims for name, part in found.parts.items()}
            for one in outcomes:
                if one.compared is not None:
                    claims[one.name] = tenants_part((one.claims[end], (), (), (), ())).claims
            sides.append((found.offers, [claim for name in sorted(claims) for claim in claims[name]]))
        return sides

    def _diff(self, one: Changed) -> Diff:
        def text(source: TreeSource, there: str) -> bytes | None:
            try:
                return source.read(one.path) if there else None
            except KeyError:
                return b""  # no regular file: the problems say so

        return Diff(one.path, text(self.base, one.old_blob), text(self.after, one.blob))


def _is_within_a_tenant(one: Changed) -> bool:
    """Return whether a file is, and was, a regular one in a tenant's folder."""
    parts = one.path.split("/")
    regular = all(mode in ("", *REGULAR) for mode in (one.old_mode, one.mode))
    return parts[0] == "tenants" and len(parts) > 2 and regular and "\\" not in one.path
