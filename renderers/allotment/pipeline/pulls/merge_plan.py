"""The plan of a base and a merge result: both are checked, rendered and counted, and compared with each other."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from allotment.accounts.capacity import Claim
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.tree_comparison import Changed
from allotment.adapters.git.trees import REGULAR
from allotment.adapters.source import place_problem
from allotment.changes import brake
from allotment.changes.addresses import addresses_lost
from allotment.changes.brake import Excess
from allotment.changes.cold import cold_units
from allotment.changes.comparison import pools_lost, units_changed
from allotment.changes.declared import NEVER_CUT, DeclaredChange, declared_changes, in_order
from allotment.changes.effects import with_allocation
from allotment.changes.fields import Noted
from allotment.changes.files import Diff, Files, checksum
from allotment.changes.money import MOST_DAYS, totals
from allotment.changes.outside import outside_of
from allotment.changes.plan import Loss, Plan, caused
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import ROOTS, Scope, folder_of
from allotment.declared.people import Account
from allotment.pipeline.check.survey import Recall, Survey, resurvey, survey
from allotment.pipeline.check.workers import results
from allotment.pipeline.pulls.authority import unauthorised
from allotment.pipeline.pulls.brake_forecast import BrakeForecast, Remembered, excesses_of
from allotment.pipeline.pulls.outcomes import MOST_TEXTS, Comparing, TenantOutcome, own_markers, take_changed
from allotment.pipeline.render import cluster_files
from allotment.problems import Problem, counted, printable
from allotment.readiness.standing import all_prepared
from allotment.rules.ownership import Review

MOST_DECLARED = 60  # fields of each topic that a plan names, and all of access and approvals; all are counted
_UNKNOWN_WINDOW = (
    "what else was deleted within 24 hours, which the brake counts too: the rendered branches are not here; run `git fetch`"
    " or `allot status`"
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


class Asked(NamedTuple):
    """What a plan is made with, as `planning.plan` says."""

    base_name: str
    day: datetime.date
    today: datetime.date
    recall: Recall | None
    reviewed: Reviewed | None
    processes: int
    first: Survey | None
    published: Remembered | None = None


class MergePlan:
    """One plan, of a base and a merge result."""

    def __init__(
        self,
        base: CommitSource,
        head: str,
        after: TreeSource,
        *,
        differing: list[Changed],
        beside: list[Changed],
        options: Asked,
        first: Survey,
    ) -> None:
        self.base, self.head, self.asked = base, head, options
        self.changed, self.beside = differing, beside
        self.first = first
        self.after = after
        declared = declared_of(differing)
        if all(
            is_within_a_tenant(changed_file) for changed_file in declared
        ):  # nothing but these tenants needs to be read again
            owners = {changed_file.path.split("/")[1] for changed_file in declared}
            self.second = resurvey(self.first, after, sorted(owners), base=base)
        else:
            self.second = survey(
                after, options.day, standings=all_prepared, processes=options.processes, base=base, today=options.today
            )

        faults = self.first.faults, self.second.faults
        self.wrong = faults[0].of_all, faults[1].of_all  # of the platform, at both ends
        self.unsound = frozenset(faults[0].by_cluster) | frozenset(faults[1].by_cluster)
        self.offers = self._sound(self.first.offers), self._sound(self.second.offers)
        ends = zip((self.first, self.second), faults, strict=True)
        self.invalid = tuple(_invalid(end, frozenset(end_faults.by_cluster)) for end, end_faults in ends)

    def _sound(self, offers: Offers) -> Offers:
        """Return the catalog with the clusters that have no error at either end: only those are published, and compared."""
        clusters = {name: folder for name, folder in offers.clusters.items() if name not in self.unsound}
        return offers._replace(clusters=clusters)

    def plan(self) -> Plan:
        """Return the plan."""
        outcomes, files, skipped = self._compared()
        problems = caused(
            self.second.problems, self.first.problems, [changed_file.path for changed_file in self.changed]
        )
        unauthorised = self._unauthorised()
        problems += [problem for problem in unauthorised or () if problem not in problems]
        excesses, deletes = self._foreseen(outcomes)
        if deletes and self.asked.published is None:
            skipped.append(_UNKNOWN_WINDOW)
        problems += [_brake_problem(excess) for excess in excesses]
        standing = sum(not problem.warning for problem in self.first.problems)
        comparisons = [outcome.compared for outcome in outcomes if outcome.compared]
        costs = [outcome.cost for outcome in outcomes if outcome.cost and outcome.cost.differs]
        unpriced = sorted(outcome.name for outcome in outcomes if outcome.cost is None)
        costs.sort(key=lambda cost: (-max(abs(day.after - day.before) for day in cost.days), cost.tenant))
        steps = [
            *files.steps,
            *(
                (changed_file.path, changed_file.old_blob or None, changed_file.blob or None)
                for changed_file in self.changed
            ),
        ]
        moved = [resource for comparison in comparisons for resource in comparison.moved]
        if later := max((cost.more_days for cost in costs), default=0):
            skipped.append(
                f"what it costs from {later:,} later days on that a price changes: a plan shows {MOST_DAYS} of them"
            )
        skipped += [f"what tenant {printable(name)} costs, as not all of it is known" for name in unpriced]
        offers = self.offers
        urls: Counter[str] = Counter()  # by the cluster whose domain is another
        for tenant in outcomes:
            urls.update(tenant.reach.with_domain)
        declared = self._declared(outcomes, urls)
        declarations = declared_of(self.changed)
        sides = self._sides(outcomes)
        resource_changes, losses = with_allocation(
            (resource_change for comparison in comparisons for resource_change in comparison.things),
            (loss for comparison in comparisons for loss in comparison.losses),
            *sides,
        )
        return Plan(
            base=self.base.commit,
            head=self.head,
            day=self.asked.day,
            currency=self._currency,
            base_name=self.asked.base_name,
            is_today=self.asked.day == self.asked.today,
            problems=tuple(sorted(problems, key=lambda problem: (problem.warning, problem))),
            missing_approvals=None if unauthorised is None else tuple(unauthorised),
            standing=standing,
            losses=(
                *addresses_lost(*offers, moved),
                *pools_lost(*offers),
                *losses,
            ),
            perhaps_lost=tuple(self._perhaps_lost(outcomes)),
            declared=tuple(_first_of(declared)),
            declared_count=len(declared),
            urls=urls.total() + sum(outcome.reach.urls for outcome in outcomes),
            units=tuple(units_changed(*sides)),
            cold=tuple(cold_units(*sides)),
            quota=tuple(amount for comparison in comparisons for amount in comparison.quota),
            costs=tuple(costs),
            totals=tuple(totals(costs)),
            unpriced=tuple(unpriced),
            things=resource_changes,
            declarations=tuple(self._diff(changed_file) for changed_file in declarations[:MOST_TEXTS]),
            declared_files=len(declarations),
            outside=outside_of((changed_file.path, changed_file.written) for changed_file in self._outside()),
            brake=excesses[0] if excesses else None,
            objects=tuple(files.diffs),
            files=files.counts(),
            checksum=checksum(steps),
            skipped=tuple(skipped),
        )

    @property
    def _currency(self) -> str:
        platform = self.second.offers.platform.one(Platform) or self.first.offers.platform.one(Platform)
        return platform.model.spec.billing.currency if platform else ""

    def _declared(self, outcomes: Iterable[TenantOutcome], urls: Mapping[str, int]) -> list[DeclaredChange]:
        """Return what is declared otherwise, what is most dangerous first."""
        before, after = self.first.offers, self.second.offers
        noted = Noted()
        changes = declared_changes(before.platform, after.platform, self._currency, noted)
        for name in sorted(before.clusters.keys() | after.clusters.keys()):
            nothing = Folder(Scope("cluster", name))
            was, is_now = (offers.clusters.get(name, nothing) for offers in (before, after))
            count = f"{counted(urls[name], 'URL')} changed" if name in urls else ""
            for change in declared_changes(was, is_now, self._currency, noted):
                changes.append(replace(change, note=count) if count and change.field == "spec.domain" else change)
        changes += [each for outcome in outcomes for each in (*outcome.declared, *outcome.reach.told)]
        return sorted(changes, key=in_order)

    def _foreseen(self, outcomes: Iterable[TenantOutcome]) -> tuple[list[Excess], bool]:
        """Return the deletions that the brake will stop, a deletion across tenants first, and whether the merge deletes
        anything that the brake counts."""
        platforms = [each.offers.platform.one(Platform) for each in (self.first, self.second)]
        if self.wrong[1] or platforms[1] is None:
            return [], False
        published = self.asked.published or Remembered()
        limits, forecast = platforms[1].model.spec.brake, BrakeForecast(self.base, self.after, published.items)
        sides = forecast.sides(outcomes, self.invalid[1], self.offers[1].clusters)
        other_items = forecast.others(sides)
        deletes = any(before - after for before, after in sides.values())
        window = brake.Window(published.day_ago)
        excesses = excesses_of(limits, sides, other_items, window)
        if not excesses:
            return [], deletes
        used = published.used()
        if used is None:  # a checksum is not known, and so no approval
            return [replace(excess, checksum="") for excess in excesses], deletes
        approvals = platforms[0].model.spec.brake.approved_plans if platforms[0] else ()
        return excesses_of(limits, sides, other_items, window._replace(approvals=approvals, used=used)), deletes

    def _outside(self) -> Iterator[Changed]:
        """Yield the files that change outside the declarations, beside their folder or in it."""
        inside = frozenset(declared_of(self.changed))
        return (changed_file for changed_file in (*self.changed, *self.beside) if changed_file not in inside)

    def _unauthorised(self) -> list[Problem] | None:
        if self.asked.reviewed is None:
            return None
        changed_files = [*self.changed, *self.beside]
        return unauthorised(self.base, self.after, self.first.offers.platform, changed_files, *self.asked.reviewed)

    def _compared(self) -> tuple[list[TenantOutcome], Files, list[str]]:
        """Return what becomes of every tenant that the change may reach, and all files that it changes."""
        files = Files(MOST_TEXTS)
        skipped = []
        if self.asked.reviewed is None:
            skipped.append("who may change it: no author was named, add --author LOGIN")
        ends = (self.base, self.after), self.offers
        tenant_names = frozenset(self.first.parts), frozenset(self.second.parts)
        invalid = self.invalid[0] | self.invalid[1]
        if self.wrong[0] or self.wrong[1]:
            skipped.append("what it would render: what the platform declares is wrong")
            names = self._owners() & (tenant_names[0] | tenant_names[1])
            work = Comparing(*ends, tenant_names, names, self._currency)  # what they declare is told all the same
            return list(results(work, sorted(names), self.asked.processes)), files, skipped
        skipped += [f"what it would render of cluster {name}, which is invalid" for name in sorted(self.unsound)]
        reached = {name for end in (self.first, self.second) for name in _in_clusters(end, self.unsound)}
        work = Comparing(*ends, tenant_names, invalid | reached, self._currency)
        outcomes = list(results(work, self._reached(tenant_names[0] | tenant_names[1]), self.asked.processes))
        for outcome in outcomes:
            if outcome.compared is None:
                when = "" if outcome.name in self.invalid[1] else " before the merge"
                skipped.append(f"what it would render of tenant {printable(outcome.name)}, which is invalid{when}")
            files.add(outcome.files)
        sides = self._sides(outcomes)
        letters = self.first.letters, self.second.letters
        own = [dict(cluster_files(*side, has)) for side, has in zip(sides, letters, strict=True)]
        take_changed(files, own[0], own[1])
        files.markers += own_markers(files.steps, own)
        return outcomes, files, skipped

    def _perhaps_lost(self, outcomes: Iterable[TenantOutcome]) -> Iterator[Loss]:
        """Yield the tenants, or the platform, that are invalid at the base and valid after the merge."""
        if self.wrong[0] and not self.wrong[1]:
            yield Loss("what the platform offers", _OLDER)
        for outcome in outcomes:
            if outcome.name in self.invalid[0] - self.invalid[1]:
                yield Loss(f"tenant {printable(outcome.name)}", _OLDER)

    def _reached(self, everyone: Collection[str]) -> list[str]:
        """Return the tenants that may differ: those whose files did, or all where the offers did."""
        roots = {changed_file.path.split("/")[0] for changed_file in self.changed}
        if roots & {"platform", "clusters"}:
            return sorted(everyone)
        return sorted(self._owners() & set(everyone))

    def _owners(self) -> set[str]:
        """Return the tenants whose files differ."""
        return {
            changed_file.path.split("/")[1] for changed_file in self.changed if changed_file.path.startswith("tenants/")
        }

    def _sides(self, outcomes: Iterable[TenantOutcome]) -> list[tuple[Offers, list[Any]]]:
        """Return both ends' offers with the claims of all tenants, as exactly as they were compared."""
        sides = []
        for end, repository_check in enumerate((self.first, self.second)):
            claims = {name: part.claims for name, part in repository_check.parts.items()}
            for outcome in outcomes:
                if outcome.compared is not None:
                    claims[outcome.name] = tuple(Claim(*claim) for claim in outcome.claims[end])
            clusters = self.offers[end].clusters
            side_claims = (claim for name in sorted(claims) for claim in claims[name] if claim.cluster in clusters)
            sides.append((self.offers[end], list(side_claims)))
        return sides

    def _diff(self, changed_file: Changed) -> Diff:
        def text(source: TreeSource, blob: str) -> bytes | None:
            try:
                return source.read(changed_file.path) if blob else None
            except KeyError:
                return b""  # no regular file: the problems say so

        return Diff(changed_file.path, text(self.base, changed_file.old_blob), text(self.after, changed_file.blob))


def _in_clusters(repository_check: Survey, clusters: frozenset[str]) -> frozenset[str]:
    """Return the tenants that declare something in some clusters."""
    return frozenset(name for name, part in repository_check.parts.items() if clusters & set(part.clusters))


def _invalid(repository_check: Survey, unsound: frozenset[str]) -> frozenset[str]:
    """Return the tenants that a publish retains: those with errors of their own, and those of an unsound cluster."""
    return frozenset(repository_check.by_owner()[1]) | _in_clusters(repository_check, unsound)


def _brake_problem(excess: Excess) -> Problem:
    path = folder_of(Scope("tenant", excess.tenant)) if excess.tenant else "tenants/"
    return place_problem(path, excess.forecast, brake.RULE)


def _first_of(declared: Iterable[DeclaredChange]) -> Iterator[DeclaredChange]:
    """Yield all that opens something to somebody or says who approves, and the first of each topic else."""
    named: Counter[str] = Counter()  # by topic: many changes of one push no other out
    for change in declared:
        named[change.topic] += 1
        if change.topic in NEVER_CUT or named[change.topic] <= MOST_DECLARED:
            yield change


def declared_of(changed_files: Iterable[Changed]) -> list[Changed]:
    """Return those of some files that lie among the declarations."""
    return [changed_file for changed_file in changed_files if changed_file.path.split("/")[0] in ROOTS]


def is_within_a_tenant(changed_file: Changed) -> bool:
    """Return whether a file is, and was, a regular one in a tenant's folder."""
    parts = changed_file.path.split("/")
    regular = all(mode in ("", *REGULAR) for mode in (changed_file.old_mode, changed_file.mode))
    return parts[0] == "tenants" and len(parts) > 2 and regular and "\\" not in changed_file.path
