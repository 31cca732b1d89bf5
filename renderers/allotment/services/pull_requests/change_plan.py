"""Plans a change: checks and renders the base and the merge result, and compares the two.

The program never checks out, runs or imports files of the head. It only reads them as declarations.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from allotment.adapters.declaration_source import path_problem
from allotment.adapters.git.commit_source import CommitSource, TreeSource, open_listed_commit
from allotment.adapters.git.commits import write_temporary_commit
from allotment.adapters.git.merge import MergeConflict, is_same_by_rebase, list_changed_files, merge_tree_of
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.sandbox_repository import open_offline, sandbox_repository
from allotment.adapters.git.tree_comparison import ChangedFile
from allotment.adapters.git.trees import REGULAR, MalformedTree
from allotment.adapters.git.work_tree import checked_out_commit, commit_of_folder
from allotment.branches.platform_settings import has_status_at_origin, read_platform, read_reporter_keys
from allotment.branches.status_reader import read_cached_cold_times, read_cached_deletion_marks
from allotment.declared.layout import scope_of
from allotment.declared.tenant_resources import INSTANCE, RESOURCE_KINDS
from allotment.diff.change_plan import ChangePlan, LossOutput, WorkTree
from allotment.diff.cold_starts import ColdStart, ColdStartTime
from allotment.observed.deletion_point import compute_point_of_no_return, describe_data_deadline
from allotment.preparation.runtime_state import all_prepared_state
from allotment.services.check.check_options import CheckOptions, OpenCache
from allotment.services.check.repository_check import RepositoryCheck, check_repository
from allotment.services.check.workers import count_cores
from allotment.services.publish.rendered_catalog_check import check_rendered_catalog
from allotment.services.pull_requests.brake_forecast import read_cached_items
from allotment.services.pull_requests.cordon_effects import create_node_reader
from allotment.services.pull_requests.merge_plan import (
    MergePlan,
    PlanOptions,
    ReviewContext,
    filter_declarations,
    is_tenant_file,
)
from allotment.services.pull_requests.month_budget import with_month_forecasts
from allotment.services.pull_requests.reported_storages import create_storage_reader

LOST_IMMEDIATELY = (
    "its grace period has ended, so the next publish may delete its data: a later"
    " declaration with its name gets a new, empty volume"
)
MAX_BYTES = 64 << 20  # the limit on the size of all files that a change writes
REMOTES_PREFIX = "refs/remotes/"  # Git's prefix of remote branches; a plan shows the name without it
_WHOLE_REQUEST, _SIZE, _TREE = "(pull request)", "size", "tree"
_REBASE_DIFFERS = (
    "a rebase gives another result than a merge: its merge commits contain extra changes, or it reverts"
    " changes that the base also has. Squash it into one commit on top of the base"
)


def plan_change(
    root: Path,
    base_ref: str,
    head_ref: str | None,
    day: datetime.date,
    *,
    today: datetime.date | None = None,
    now: datetime.datetime | None = None,
    open_cache: OpenCache | None = None,
    reviewed: ReviewContext | None = None,
    processes: int | None = None,
    first: RepositoryCheck | None = None,
) -> ChangePlan:
    """Return the plan of a merge of `head_ref` into `base_ref`.

    If `head_ref` is None, plan the current files of the folder `root` instead. `day` is the day of the prices. `today`
    is the earliest day on which a new price may begin, by default `day`. `now` is the time for which the costs of the
    month are forecast, by default the current time. There is no forecast if `day` is not the day of this time. `first` is
    the result of `check_base`, if the caller has it.

    Raises OperationRefused if a ref names no commit, or if the base can't be read.
    """
    local_repository = open_offline(root)
    commits = [local_repository.resolve_named_commit(base_ref)]
    commits.append(
        checked_out_commit(local_repository) if head_ref is None else local_repository.resolve_named_commit(head_ref)
    )
    with sandbox_repository(local_repository, commits[0]) as repository:
        base = CommitSource(root, commits[0], repository)
        base.scopes()  # if a tree of the base is damaged, raise the error here: it isn't the head's fault
        options = PlanOptions(
            base_name=base_ref.removeprefix(REMOTES_PREFIX),
            day=day,
            current_day=today or day,
            open_cache=open_cache,
            review_context=reviewed,
            processes=processes or count_cores(),
            base_check=first,
            read_storages=create_storage_reader(local_repository, base),
            read_nodes=create_node_reader(local_repository, base),
            cached_items=read_cached_items(local_repository, base),
        )
        if head_ref is not None:
            plan_result = _plan_commits(root, base, commits[1], options)
        else:
            plan_result = _plan_folder(local_repository, root, base, commits[1], options)
        return _with_status(local_repository, base, plan_result, now)


def plan_files(
    root: Path,
    commit: str,
    files: Mapping[str, bytes | None],
    day: datetime.date,
    *,
    with_folder: bool,
    open_cache: OpenCache | None = None,
    open_listings: OpenCache | None = None,
) -> ChangePlan:
    """Return the plan of new contents of some declarations on top of a commit. None removes a file.

    With `with_folder`, the base of the plan also has the uncommitted declarations of the folder `root`. The rules about
    changes and the losses still compare with the commit, because nothing else runs. Nothing is written to the repository
    or the folder. `day` is the day of the prices. `open_listings` opens the cache of
    `open_listed_commit`.
    """
    local_repository = open_offline(root)
    with sandbox_repository(local_repository, commit) as repository:
        committed = open_listed_commit(root, commit, repository, open_listings) if with_folder else None
        start = commit_of_folder(local_repository, repository, root, commit, MAX_BYTES) if with_folder else commit
        base = open_listed_commit(root, start, repository, open_listings, saves=not with_folder)
        prefix = repository.folder_prefix(root)
        changes = {f"{prefix}/{path}" if prefix else path: data for path, data in files.items()}
        head = write_temporary_commit(repository, start, changes)
        options = PlanOptions(
            base_name="the folder" if with_folder else commit,
            day=day,
            current_day=day,
            open_cache=open_cache,
            review_context=None,
            processes=count_cores(),
            base_check=None,
            read_storages=create_storage_reader(local_repository, base),
            read_nodes=create_node_reader(local_repository, base),
            cached_items=read_cached_items(local_repository, base),
            committed=committed,
        )
        plan_result = _plan_commits(root, base, head, options)
        if committed is not None:
            plan_result = replace(plan_result, destructions=tuple(_list_committed_losses(plan_result, committed)))
        return _with_status(local_repository, base, plan_result, None)


def _list_committed_losses(plan: ChangePlan, committed: CommitSource) -> Iterator[LossOutput]:
    """Yield the losses of a plan, except those of resources that nobody has committed, because these hold no data."""
    paths = {
        change.subject: RESOURCE_KINDS[change.kind].kind.path.format(tenant=change.tenant, name=change.name)
        for change in plan.resource_changes
    }
    for loss in plan.destructions:
        path = paths.get(loss.subject)
        if path is None or path in committed.files(scope_of(path)).paths:
            yield loss


def _with_status(
    repository: Repository, base: CommitSource, plan_result: ChangePlan, now: datetime.datetime | None
) -> ChangePlan:
    """Return a plan with the facts of the last fetched status: deadlines, times of cold starts, and costs of the month."""
    return with_month_forecasts(
        repository,
        base,
        replace(
            plan_result,
            cold_starts=tuple(_with_cold_times(repository, base, plan_result.cold_starts)),
            destructions=tuple(_with_recovery_deadlines(repository, base, plan_result)),
        ),
        now or datetime.datetime.now(datetime.UTC),
    )


def _with_recovery_deadlines(repository: Repository, base: CommitSource, plan: ChangePlan) -> Iterator[LossOutput]:
    """Yield the losses of a plan. A message about a lost volume also gets the deadline for saving the data.

    To save the data, a user declares the volume again before the deadline. The deadline is computed from the last
    fetched status.
    """
    platform, keys, is_at_origin = read_platform(base), read_reporter_keys(base), has_status_at_origin(base)
    now = datetime.datetime.now(datetime.UTC)
    marks = cache(
        lambda cluster, tenant: read_cached_deletion_marks(
            repository, cluster, keys.get(cluster), tenant, is_at_origin=is_at_origin
        )
    )
    removed = {change.subject: change for change in plan.resource_changes if change.action == "removed"}
    for loss in plan.destructions:
        lost = removed.get(loss.subject)
        if lost is None or lost.kind == INSTANCE.word or platform is None:
            yield loss
            continue
        mark = marks(lost.cluster, lost.tenant).get((lost.kind, lost.name), "")
        point = compute_point_of_no_return(mark, platform.spec.deletion.after)
        message = (
            LOST_IMMEDIATELY
            if point is not None and point <= now
            else describe_data_deadline(mark, platform.spec.deletion.after)
        )
        yield msgspec.structs.replace(loss, message=f"{loss.message}; {message}")


def _with_cold_times(
    repository: Repository, base: CommitSource, cold_units: Iterable[ColdStart]
) -> Iterator[ColdStart]:
    """Yield the cold starts. If the last fetched status has the time that nodes took to arrive, add this time."""
    keys, is_at_origin = read_reporter_keys(base), has_status_at_origin(base)
    times_by_cluster: dict[str, Mapping[str, ColdStartTime]] = {}
    for units in cold_units:
        if units.cluster not in times_by_cluster:
            times_by_cluster[units.cluster] = read_cached_cold_times(
                repository, units.cluster, keys.get(units.cluster), is_at_origin=is_at_origin
            )
        yield msgspec.structs.replace(units, cold_start_time=times_by_cluster[units.cluster].get(units.gpu_spec))


def _plan_folder(
    repository: Repository, root: Path, base: CommitSource, commit: str, options: PlanOptions
) -> ChangePlan:
    """Return the plan of the current files of a folder. `commit` is the checked-out commit."""
    try:
        head = commit_of_folder(repository, base.repository, root, commit, MAX_BYTES)
        everything = list_changed_files(base.repository, commit, head)
    except LimitExceeded as error:
        return _refused_plan(base, commit, options, str(error), _SIZE)
    except MalformedTree as error:
        return _refused_plan(base, commit, options, str(error), _TREE)
    differing = filter_declarations(_split_by_folder(everything, base.repository.folder_prefix(root))[0])
    return replace(_plan_commits(root, base, head, options), head=commit, work_tree=WorkTree(len(differing)))


def _refused_plan(base: CommitSource, head: str, options: PlanOptions, message: str, rule: str) -> ChangePlan:
    """Return a plan with a single problem: the reason why the whole change can't be merged."""
    problem = path_problem(_WHOLE_REQUEST, message, rule)
    return ChangePlan(
        base=base.commit, head=head, day=options.day, currency="", base_name=options.base_name, problems=(problem,)
    )


def _plan_commits(root: Path, base: CommitSource, head: str, options: PlanOptions) -> ChangePlan:
    try:
        tree = merge_tree_of(base.repository, base.commit, head)
        if isinstance(tree, MergeConflict):
            return _refused_plan(base, head, options, str(tree), "merge")
        prefix = base.repository.folder_prefix(root)
        after = base.repository.tree_of(tree, prefix)
        if after is None:
            return _refused_plan(base, head, options, f"the merge removes the folder {prefix}", "layout")
        if not is_same_by_rebase(base.repository, base.commit, head, tree):
            return _refused_plan(base, head, options, _REBASE_DIFFERS, "rebase")
        differing, outside_files = _split_by_folder(list_changed_files(base.repository, base.commit, tree), prefix)
        source = _read_merge_result(base, after, differing)
    except LimitExceeded as error:
        return _refused_plan(base, head, options, str(error), _SIZE)
    except MalformedTree as error:
        return _refused_plan(base, head, options, str(error), _TREE)
    if _count_bytes(base.repository, differing) > MAX_BYTES:
        return _refused_plan(
            base, head, options, f"the change writes more than {MAX_BYTES >> 20} MiB of files: split it", _SIZE
        )
    first = options.base_check or check_base(base, options.day, options.open_cache, options.processes)
    return MergePlan(
        base, head, source, differing=differing, outside_files=outside_files, options=options, first=first
    ).build_plan()


def _split_by_folder(everything: Iterable[ChangedFile], folder: str) -> tuple[list[ChangedFile], list[ChangedFile]]:
    """Return the changed files inside and outside the declarations' folder, with paths relative to this folder."""
    inside = f"{folder}/" if folder else ""
    differing: list[ChangedFile] = []
    outside_files: list[ChangedFile] = []
    for changed_file in everything:
        if changed_file.path.startswith(inside):
            differing.append(changed_file._replace(path=changed_file.path[len(inside) :]))
        else:
            outside_files.append(changed_file._replace(path="../" * inside.count("/") + changed_file.path))
    return differing, outside_files


def _read_merge_result(base: CommitSource, tree: str, differing: list[ChangedFile]) -> TreeSource:
    """Return the declarations of a merge result. Raises LimitExceeded or MalformedTree."""
    declared = filter_declarations(differing)
    if all(is_tenant_file(changed_file) for changed_file in declared):
        return base.with_changes(tree, {changed_file.path: changed_file.blob for changed_file in declared})
    merge_source = TreeSource(base.repository, tree)
    merge_source.scopes()
    return merge_source


def check_base(
    base: CommitSource, day: datetime.date, open_cache: OpenCache | None, processes: int | None
) -> RepositoryCheck:
    """Return the check of a plan's base."""
    options = CheckOptions(
        open_cache=open_cache,
        runtime_states=all_prepared_state,
        processes=processes or count_cores(),
        check_catalog=check_rendered_catalog,
    )
    return check_repository(base, day, options)


def is_too_large(plan_result: ChangePlan) -> bool:
    """Return whether a change is too large to plan."""
    return any((problem.path, problem.rule) == (_WHOLE_REQUEST, _SIZE) for problem in plan_result.problems)


def _count_bytes(repository: Repository, differing: Iterable[ChangedFile]) -> int:
    blobs = [changed_file.blob for changed_file in differing if changed_file.mode in REGULAR]
    blob_info = repository.objects.info(sorted(set(blobs)))
    return sum(blob_info[blob].size for blob in blobs)
