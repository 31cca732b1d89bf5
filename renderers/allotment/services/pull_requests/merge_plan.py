"""Plans a merge: checks and renders the base and the merge result, and compares the two."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from allotment.adapters.declaration_source import path_problem
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.tree_comparison import ChangedFile
from allotment.adapters.git.trees import REGULAR
from allotment.capacity.units import UnitClaim
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import ROOTS, Scope, folder_of, scope_of
from allotment.declared.people import Account
from allotment.diff.change_plan import ChangePlan, LossOutput, problems_caused
from allotment.diff.cluster_moves import address_losses
from allotment.diff.cold_starts import find_cold_starts
from allotment.diff.cost_diff import MAX_DAYS, total_costs
from allotment.diff.declaration_diff import declared_changes
from allotment.diff.declared_change import NEVER_TRUNCATED, DeclaredChange, sort_key
from allotment.diff.field_diff import DiffCache
from allotment.diff.file_diff import FileDiff, RenderedFileDiff, plan_checksum
from allotment.diff.merge_verdict import AUTHOR_UNKNOWN
from allotment.diff.other_files import group_other_files
from allotment.diff.pod_effects import with_allocation
from allotment.diff.self_service import SelfServiceFacts
from allotment.diff.tenant_diff import compare_units, node_pool_losses
from allotment.lifecycle import brake
from allotment.lifecycle.brake import BrakeExcess
from allotment.preparation.runtime_state import all_prepared_state
from allotment.problems import Problem, escape_unprintable, pluralize
from allotment.rules.ownership import Review
from allotment.services.check.check_options import CheckOptions, Comparison, OpenCache
from allotment.services.check.cross_checks import list_change_problems
from allotment.services.check.repository_check import RepositoryCheck, check_repository, recheck_tenants
from allotment.services.check.workers import locate_findings, run_batches
from allotment.services.publish.rendered_catalog_check import check_rendered_catalog
from allotment.services.publish.renderer import ClusterRenderer
from allotment.services.pull_requests.authorization import find_unauthorized_changes
from allotment.services.pull_requests.brake_forecast import BrakeForecast, CachedItems, find_stopped_deletions
from allotment.services.pull_requests.cordon_effects import ReadNodes, describe_cordons
from allotment.services.pull_requests.reported_storages import (
    ReadStorages,
    check_returning_volumes,
    check_waiting_mounts,
)
from allotment.services.pull_requests.self_service import read_self_service_facts
from allotment.services.pull_requests.tenant_comparison import (
    MAX_TEXTS,
    CompareTask,
    TenantComparison,
    list_platform_markers,
)

MAX_DECLARED = 60  # changed fields that a plan lists for one topic; no limit for access and approvals
_UNKNOWN_WINDOW_NOTE = (
    "other deletions within 24 hours, which the brake also counts: the rendered branches are not in this clone; run `git fetch`"
    " or `allot status`"
)
_INVALID_BASE_NOTE = (
    "was invalid before the merge, so an earlier published version may still run. The plan can't compare with that version:"
    " resources that are no longer declared stop, changed resources may be replaced, and everything on the"
    " own disks of these instances is lost"
)


class ReviewContext(NamedTuple):
    """The author and the approvers of a change, and the members of the forge's teams; None for a team that can't be read."""

    review: Review
    teams: Mapping[str, frozenset[Account] | None]


class PlanOptions(NamedTuple):
    """The options of a plan, as `change_plan.plan_change` describes them.

    `committed` is the last commit, if the base of the plan has uncommitted files too. `read_storages` reads the reported
    storages, and `read_nodes` the reported nodes of clusters.
    """

    base_name: str
    day: datetime.date
    current_day: datetime.date
    open_cache: OpenCache | None
    review_context: ReviewContext | None
    processes: int
    base_check: RepositoryCheck | None
    read_storages: ReadStorages
    read_nodes: ReadNodes
    cached_items: CachedItems | None = None
    committed: CommitSource | None = None


class MergePlan:
    """The plan of one base and one merge result."""

    def __init__(
        self,
        base: CommitSource,
        head: str,
        after: TreeSource,
        *,
        differing: list[ChangedFile],
        outside_files: list[ChangedFile],
        options: PlanOptions,
        first: RepositoryCheck,
    ) -> None:
        self.base, self.head, self.options = base, head, options
        self.changed_files, self.outside_files = differing, outside_files
        self.base_check = first
        self.merge_result = after
        declared = filter_declarations(differing)
        if all(is_tenant_file(changed_file) for changed_file in declared):  # read only the changed tenants again
            owners = {changed_file.path.split("/")[1] for changed_file in declared}
            self.result_check = recheck_tenants(
                self.base_check, after, sorted(owners), Comparison(base=base, committed=options.committed)
            )
        else:
            self.result_check = check_repository(
                after,
                options.day,
                CheckOptions(
                    runtime_states=all_prepared_state,
                    processes=options.processes,
                    check_catalog=check_rendered_catalog,
                ),
                Comparison(base=base, committed=options.committed, today=options.current_day),
            )

        faults = self.base_check.faults, self.result_check.faults
        self.platform_errors = faults[0].blocking, faults[1].blocking  # at the base and after the merge
        self.invalid_clusters = frozenset(faults[0].by_cluster) | frozenset(faults[1].by_cluster)
        self.catalogs = (
            self._without_invalid_clusters(self.base_check.catalog),
            self._without_invalid_clusters(self.result_check.catalog),
        )
        ends = zip((self.base_check, self.result_check), faults, strict=True)
        self.invalid_tenants = tuple(
            _find_invalid_tenants(end, frozenset(end_faults.by_cluster)) for end, end_faults in ends
        )

    def _without_invalid_clusters(self, catalog: Catalog) -> Catalog:
        """Return the catalog with the clusters that are valid both before and after the merge.

        Other clusters are neither published nor compared.
        """
        clusters = {name: folder for name, folder in catalog.clusters.items() if name not in self.invalid_clusters}
        return catalog._replace(clusters=clusters)

    def build_plan(self) -> ChangePlan:
        """Return the plan."""
        outcomes, files, skipped = self._compare_tenants()
        problems = problems_caused(
            self.result_check.problems,
            [*self.base_check.problems, *self._find_earlier_problems()],
            [changed_file.path for changed_file in self.changed_files],
        )
        unauthorised = self._find_unauthorized_changes(self.options.review_context)
        problems += [problem for problem in unauthorised or () if problem not in problems]
        excesses, deletes = self._predict_brake(outcomes)
        if deletes and self.options.cached_items is None:
            skipped.append(_UNKNOWN_WINDOW_NOTE)
        problems += [_build_brake_problem(excess) for excess in excesses]
        preexisting_count = sum(not problem.warning for problem in self.base_check.problems)
        comparisons = [outcome.diff for outcome in outcomes if outcome.diff]
        costs = [outcome.cost for outcome in outcomes if outcome.cost and outcome.cost.has_effect]
        unpriced = sorted(outcome.name for outcome in outcomes if outcome.cost is None)
        costs.sort(key=lambda cost: (-max(abs(day.after - day.before) for day in cost.days), cost.tenant))
        steps = [
            *files.steps,
            *(
                (changed_file.path, changed_file.old_blob or None, changed_file.blob or None)
                for changed_file in self.changed_files
            ),
        ]
        moved = [resource for comparison in comparisons for resource in comparison.moved_resources]
        if later := max((cost.more_days for cost in costs), default=0):
            skipped.append(f"the cost after {later:,} more price changes: a plan shows {MAX_DAYS} of them")
        skipped += [f"the cost of tenant {escape_unprintable(name)}, which is not fully known" for name in unpriced]
        catalog = self.catalogs
        urls: Counter[str] = Counter()  # the number of changed URLs, by cluster with a changed domain
        for tenant in outcomes:
            urls.update(tenant.exposure.moved_with_domain)
        declared = self._diff_declarations(outcomes, urls)
        declarations = filter_declarations(self.changed_files)
        other_files = group_other_files((file.path, file.action) for file in self._list_outside_files())
        sides = self._list_claims(outcomes)
        resource_changes, losses = with_allocation(
            (resource_change for comparison in comparisons for resource_change in comparison.resource_changes),
            (loss for comparison in comparisons for loss in comparison.losses),
            *sides,
        )
        read_storages = self.options.read_storages
        returning = check_returning_volumes(resource_changes, self.merge_result, read_storages)
        waiting = check_waiting_mounts(resource_changes, (self.base, self.merge_result), read_storages)
        problems += locate_findings([*returning, *waiting], self.merge_result)
        problems += locate_findings(describe_cordons(*catalog, self.options.read_nodes), self.merge_result)
        return ChangePlan(
            base=self.base.commit,
            head=self.head,
            day=self.options.day,
            currency=self._currency,
            base_name=self.options.base_name,
            is_today=self.options.day == self.options.current_day,
            problems=tuple(sorted(problems, key=lambda problem: (problem.warning, problem))),
            missing_approvals=None if unauthorised is None else tuple(unauthorised),
            preexisting_problems=preexisting_count,
            destructions=(
                *address_losses(*catalog, moved),
                *node_pool_losses(*catalog),
                *losses,
            ),
            possible_destructions=tuple(self._find_possible_losses(outcomes)),
            declared_changes=tuple(_truncate_changes(declared)),
            declared_count=len(declared),
            url_count=urls.total() + sum(outcome.exposure.url_count for outcome in outcomes),
            unit_changes=tuple(compare_units(*sides)),
            cold_starts=tuple(find_cold_starts(*sides)),
            quota_changes=tuple(amount for comparison in comparisons for amount in comparison.quota_changes),
            cost_changes=tuple(costs),
            total_costs=tuple(total_costs(costs)),
            unpriced_tenants=tuple(unpriced),
            resource_changes=resource_changes,
            declaration_diffs=tuple(self._diff_file(changed_file) for changed_file in declarations[:MAX_TEXTS]),
            other_files=other_files,
            brake_excess=excesses[0] if excesses else None,
            object_diffs=tuple(files.diffs),
            files=files.count_files(len(declarations), other_files.total),
            checksum=plan_checksum(steps),
            self_service=self._read_self_service_facts(declared),
            skipped_checks=tuple(skipped),
        )

    def _find_earlier_problems(self) -> list[Problem]:
        """Return the problems of the uncommitted changes that the base has already, in the folders that the plan changes."""
        if self.options.committed is None:
            return []
        scopes = sorted({scope_of(changed_file.path) for changed_file in filter_declarations(self.changed_files)})
        return list_change_problems(
            self.base_check.catalog, self.options.committed, self.base, scopes, self.options.current_day
        )

    @property
    def _currency(self) -> str:
        platform = self.result_check.catalog.platform.get_singleton(
            Platform
        ) or self.base_check.catalog.platform.get_singleton(Platform)
        return platform.model.spec.billing.currency if platform else ""

    def _diff_declarations(self, outcomes: Iterable[TenantComparison], urls: Mapping[str, int]) -> list[DeclaredChange]:
        """Return the changed fields of the declarations, the most dangerous first."""
        before, after = self.base_check.catalog, self.result_check.catalog
        cache = DiffCache()
        changes = declared_changes(before.platform, after.platform, self._currency, cache)
        for name in sorted(before.clusters.keys() | after.clusters.keys()):
            nothing = ScopeDeclarations(Scope("cluster", name))
            old, new = (catalog.clusters.get(name, nothing) for catalog in (before, after))
            count = f"{pluralize(urls[name], 'URL')} changed" if name in urls else ""
            for change in declared_changes(old, new, self._currency, cache):
                changes.append(
                    msgspec.structs.replace(change, note=count) if count and change.field == "spec.domain" else change
                )
        changes += [each for outcome in outcomes for each in (*outcome.declaration_changes, *outcome.exposure.changes)]
        return sorted(changes, key=sort_key)

    def _predict_brake(self, outcomes: Iterable[TenantComparison]) -> tuple[list[BrakeExcess], bool]:
        """Return the deletions that the brake will stop, and whether the merge deletes anything that the brake counts.

        A deletion by several tenants together comes first.
        """
        platforms = [each.catalog.platform.get_singleton(Platform) for each in (self.base_check, self.result_check)]
        if self.platform_errors[1] or platforms[1] is None:
            return [], False
        published = self.options.cached_items or CachedItems()
        limits, forecast = platforms[1].model.spec.brake, BrakeForecast(self.base, self.merge_result, published.items)
        sides = forecast.build_item_changes(outcomes, self.invalid_tenants[1], self.catalogs[1].clusters)
        if not any(before - after for before, after in sides.values()):
            return [], False
        other_items = forecast.list_other_items(sides)
        window = brake.BrakeWindow(published.day_ago)
        excesses = find_stopped_deletions(limits, sides, other_items, window)
        if not excesses:
            return [], True
        used = published.find_approved_commits()
        if used is None:  # the checksum depends on unknown commits, so it can't be computed, and no approval matches
            return [replace(excess, checksum="") for excess in excesses], True
        approvals = platforms[0].model.spec.brake.approved_plans if platforms[0] else ()
        return find_stopped_deletions(
            limits, sides, other_items, window._replace(approved_checksums=approvals, used_approvals=used)
        ), True

    def _list_outside_files(self) -> Iterator[ChangedFile]:
        """Yield the changed files that are no declarations, inside and outside the folder of the declarations."""
        inside = frozenset(filter_declarations(self.changed_files))
        return (
            changed_file for changed_file in (*self.changed_files, *self.outside_files) if changed_file not in inside
        )

    def _find_unauthorized_changes(self, context: ReviewContext | None) -> list[Problem] | None:
        if context is None:
            return None
        changed_files = [*self.changed_files, *self.outside_files]
        return find_unauthorized_changes(
            self.base, self.merge_result, self.base_check.catalog.platform, changed_files, *context
        )

    def _read_self_service_facts(self, declared: Iterable[DeclaredChange]) -> SelfServiceFacts | None:
        """Return the facts about self service: no approval counts for it, because it replaces the second person."""
        context = self.options.review_context
        unapproved = context and context._replace(review=context.review._replace(approvers=frozenset()))
        facts = read_self_service_facts(
            self.base,
            self.merge_result,
            self.base_check.catalog.platform,
            [*self.changed_files, *self.outside_files],
            self._find_unauthorized_changes(unapproved),
        )
        if facts is not None and any(change.opens_to_others for change in declared):
            facts = facts._replace(changes=tuple(sorted((*facts.changes, "Access"))))
        return facts

    def _compare_tenants(self) -> tuple[list[TenantComparison], RenderedFileDiff, list[str]]:
        """Return the comparisons of the tenants that may differ, the changed rendered files, and the skipped checks."""
        files = RenderedFileDiff(MAX_TEXTS)
        skipped = []
        if self.options.review_context is None:
            skipped.append(AUTHOR_UNKNOWN)
        ends = (self.base, self.merge_result), self.catalogs
        tenant_names = frozenset(self.base_check.tally_entries), frozenset(self.result_check.tally_entries)
        invalid = self.invalid_tenants[0] | self.invalid_tenants[1]
        if self.platform_errors[0] or self.platform_errors[1]:
            skipped.append("the rendered manifests: the declarations of the platform are invalid")
            names = self._list_changed_tenants() & (tenant_names[0] | tenant_names[1])
            work = CompareTask(*ends, tenant_names, names, self._currency)  # compares declarations only
            return list(run_batches(work, sorted(names), self.options.processes)), files, skipped
        skipped += [
            f"the rendered manifests of cluster {name}, which is invalid" for name in sorted(self.invalid_clusters)
        ]
        reached = {
            name
            for end in (self.base_check, self.result_check)
            for name in _find_tenants_in_clusters(end, self.invalid_clusters)
        }
        work = CompareTask(*ends, tenant_names, invalid | reached, self._currency)
        outcomes = list(
            run_batches(work, self._list_affected_tenants(tenant_names[0] | tenant_names[1]), self.options.processes)
        )
        for outcome in outcomes:
            if outcome.diff is None:
                when = "" if outcome.name in self.invalid_tenants[1] else " before the merge"
                skipped.append(
                    f"the rendered manifests of tenant {escape_unprintable(outcome.name)}, which is invalid{when}"
                )
            files.merge(outcome.files)
        sides = self._list_claims(outcomes)
        letters = self.base_check.list_letters, self.result_check.list_letters
        # If a cluster has the same inputs on both sides, its renderer renders it only once.
        renderer = ClusterRenderer(self.catalogs[0])
        renderers = renderer, ClusterRenderer(self.catalogs[1]) if self._changes_catalog() else renderer
        own = [
            dict(renderer.render_files(claims, has))
            for renderer, (_, claims), has in zip(renderers, sides, letters, strict=True)
        ]
        files.add_changes(own[0], own[1])
        files.markers += list_platform_markers(files.steps, own)
        return outcomes, files, skipped

    def _find_possible_losses(self, outcomes: Iterable[TenantComparison]) -> Iterator[LossOutput]:
        """Yield a possible loss for each tenant that is invalid only before the merge.

        If the catalog is invalid only before the merge, also yield a possible loss for the catalog.
        """
        if self.platform_errors[0] and not self.platform_errors[1]:
            yield LossOutput("the platform's catalog", _INVALID_BASE_NOTE)
        for outcome in outcomes:
            if outcome.name in self.invalid_tenants[0] - self.invalid_tenants[1]:
                yield LossOutput(f"tenant {escape_unprintable(outcome.name)}", _INVALID_BASE_NOTE)

    def _list_affected_tenants(self, everyone: Collection[str]) -> list[str]:
        """Return the tenants that may differ: those with changed files, or all if the catalog changed."""
        return sorted(everyone if self._changes_catalog() else self._list_changed_tenants() & set(everyone))

    def _changes_catalog(self) -> bool:
        """Return whether the files of the platform or of a cluster changed."""
        roots = {changed_file.path.split("/")[0] for changed_file in self.changed_files}
        return bool(roots & {"platform", "clusters"})

    def _list_changed_tenants(self) -> set[str]:
        """Return the tenants with changed files."""
        return {
            changed_file.path.split("/")[1]
            for changed_file in self.changed_files
            if changed_file.path.startswith("tenants/")
        }

    def _list_claims(self, outcomes: Iterable[TenantComparison]) -> list[tuple[Catalog, list[Any]]]:
        """Return the catalog and the claims of all tenants, at the base and after the merge.

        If a tenant was rendered for the comparison, return the claims that the comparison used.
        """
        sides = []
        for end, repository_check in enumerate((self.base_check, self.result_check)):
            claims = {name: part.claims for name, part in repository_check.tally_entries.items()}
            for outcome in outcomes:
                if outcome.diff is not None:
                    claims[outcome.name] = tuple(UnitClaim(*claim) for claim in outcome.claims[end])
            clusters = self.catalogs[end].clusters
            side_claims = (claim for name in sorted(claims) for claim in claims[name] if claim.cluster in clusters)
            sides.append((self.catalogs[end], list(side_claims)))
        return sides

    def _diff_file(self, changed_file: ChangedFile) -> FileDiff:
        def text(source: TreeSource, blob: str) -> bytes | None:
            try:
                return source.read(changed_file.path) if blob else None
            except KeyError:
                return b""  # the path is no regular file, which the check reports as a problem

        return FileDiff(
            changed_file.path, text(self.base, changed_file.old_blob), text(self.merge_result, changed_file.blob)
        )


def _find_tenants_in_clusters(repository_check: RepositoryCheck, clusters: frozenset[str]) -> frozenset[str]:
    """Return the tenants that declare something in one of the clusters."""
    return frozenset(name for name, part in repository_check.tally_entries.items() if clusters & set(part.clusters))


def _find_invalid_tenants(repository_check: RepositoryCheck, unsound: frozenset[str]) -> frozenset[str]:
    """Return the tenants that a publish retains: tenants with errors, and tenants in one of the `unsound` clusters.

    An unsound cluster has invalid declarations.
    """
    return frozenset(repository_check.split_errors_by_owner()[1]) | _find_tenants_in_clusters(repository_check, unsound)


def _build_brake_problem(excess: BrakeExcess) -> Problem:
    path = folder_of(Scope("tenant", excess.tenant)) if excess.tenant else "tenants/"
    return path_problem(path, excess.plan_message, brake.RULE)


def _truncate_changes(declared: Iterable[DeclaredChange]) -> Iterator[DeclaredChange]:
    """Yield every change that opens access or changes the approvers, and the first changes of each other topic."""
    named: Counter[str] = Counter()  # by topic, so that many changes of one topic do not displace others
    for change in declared:
        named[change.topic] += 1
        if change.topic in NEVER_TRUNCATED or named[change.topic] <= MAX_DECLARED:
            yield change


def filter_declarations(changed_files: Iterable[ChangedFile]) -> list[ChangedFile]:
    """Return the files that are declarations."""
    return [changed_file for changed_file in changed_files if changed_file.path.split("/")[0] in ROOTS]


def is_tenant_file(changed_file: ChangedFile) -> bool:
    """Return whether a changed file is a regular file in a tenant's folder, both before and after the change."""
    parts = changed_file.path.split("/")
    regular = all(mode in ("", *REGULAR) for mode in (changed_file.old_mode, changed_file.mode))
    return parts[0] == "tenants" and len(parts) > 2 and regular and "\\" not in changed_file.path
