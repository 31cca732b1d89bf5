"""Plans a change: checks, renders and counts the base and the merge result, and compares the two.

Nothing of the head is checked out, run or imported: its blobs are read as any declarations are, by this program.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from allotment.adapters.git.apart import apart, offline
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.merge import Conflicted, changed, lands_by_rebase, merged
from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tree_comparison import Changed
from allotment.adapters.git.trees import REGULAR, MalformedTree
from allotment.adapters.git.work_tree import checked_out, commit_of_folder
from allotment.adapters.source import place_problem
from allotment.changes.cold import ColdTime, ColdUnits
from allotment.changes.plan import Loss, Plan, WorkTree
from allotment.observed.deletion_point import point_of_no_return, saving_words
from allotment.pipeline.check.survey import Recall, Survey, survey
from allotment.pipeline.check.workers import cores
from allotment.pipeline.declared import platform_of, reporter_keys
from allotment.pipeline.pulls.brake_forecast import remembered
from allotment.pipeline.pulls.merge_plan import Asked, MergePlan, Reviewed, declared_of, is_within_a_tenant
from allotment.pipeline.report.statuses import remembered_cold_times, remembered_marks
from allotment.readiness.standing import all_prepared

LOST_AT_ONCE = (
    "its cluster was seen to have it marked for so long already that its data may go with the next publish: afterwards a"
    " new declaration of its name gets a new, empty volume"
)
MOST_BYTES = 64 << 20  # of the files that a change writes
REMOTES = "refs/remotes/"  # what branches of remotes are named before, and nobody says
_WHOLE, _SIZE, _TREE = "(pull request)", "size", "tree"
_OTHERWISE = (
    "merged by rebase it would land something else than merged: its merge commits say more than a merge does, or it takes back"
    " what the base has too. Squash it into one commit on top of the base"
)


def plan(
    root: Path,
    base_ref: str,
    head_ref: str | None,
    day: datetime.date,
    *,
    today: datetime.date | None = None,
    recall: Recall | None = None,
    reviewed: Reviewed | None = None,
    processes: int | None = None,
    first: Survey | None = None,
) -> Plan:
    """Return what merging `head_ref`, or without one what lies in the folder `root` now, into `base_ref` would change.

    `day` is that whose prices count, `today` the one before which no new price may begin, if it is another. `first` is
    what `surveyed` said of the base, if it was asked.
    Raises Refused where a ref names no commit, or the base can't be read.
    """
    here = offline(root)
    commits = [here.commit(base_ref)]
    commits.append(checked_out(here) if head_ref is None else here.commit(head_ref))
    with apart(here, commits[0]) as repository:
        base = CommitSource(root, commits[0], repository)
        base.scopes()  # whatever is wrong with its trees isn't the head's fault
        options = Asked(
            base_name=base_ref.removeprefix(REMOTES),
            day=day,
            today=today or day,
            recall=recall,
            reviewed=reviewed,
            processes=processes or cores(),
            first=first,
            published=remembered(here, base),
        )
        if head_ref is not None:
            plan_result = _planned(root, base, commits[1], options)
        else:
            plan_result = _of_folder(here, root, base, commits[1], options)
        losses = tuple(_dated(here, base, plan_result.losses))
        return replace(plan_result, cold=tuple(_timed(here, base, plan_result.cold)), losses=losses)


def _dated(here: Repository, base: CommitSource, losses: Iterable[Loss]) -> Iterator[Loss]:
    """Yield losses; of a volume that is deleted with the time until which a new declaration keeps its data, by the status that
    was fetched last."""
    platform, keys = platform_of(base), reporter_keys(base)
    now = datetime.datetime.now(datetime.UTC)
    marks = cache(lambda cluster, tenant: remembered_marks(here, cluster, keys.get(cluster), tenant))
    for loss in losses:
        if loss.volume is None or platform is None:
            yield loss
            continue
        cluster, tenant, kind, name = loss.volume
        mark = marks(cluster, tenant).get((kind, name), "")
        point = point_of_no_return(mark, platform.spec.deletion.after)
        words = LOST_AT_ONCE if point is not None and point <= now else saving_words(mark, platform.spec.deletion.after)
        yield replace(loss, words=f"{loss.words}; {words}")


def _timed(here: Repository, base: CommitSource, cold_units: Iterable[ColdUnits]) -> Iterator[ColdUnits]:
    """Yield units that start cold, with how long nodes took to come for such, as far as that was fetched once."""
    times_by_cluster: dict[str, Mapping[str, ColdTime]] = {}
    for units in cold_units:
        if units.cluster not in times_by_cluster:
            times_by_cluster[units.cluster] = remembered_cold_times(
                here, units.cluster, reporter_keys(base).get(units.cluster)
            )
        yield units._replace(time=times_by_cluster[units.cluster].get(units.gpu_spec))


def _of_folder(here: Repository, root: Path, base: CommitSource, commit: str, options: Asked) -> Plan:
    """Return the plan of what lies in a folder, of which `commit` is checked out."""
    try:
        head = commit_of_folder(here, base.repository, root, commit, MOST_BYTES)
        everything = changed(base.repository, commit, head)
    except TooMuch as error:
        return _stopped(base, commit, options, str(error), _SIZE)
    except MalformedTree as error:
        return _stopped(base, commit, options, str(error), _TREE)
    differing = declared_of(_apart(everything, base.repository.top(root))[0])
    return replace(_planned(root, base, head, options), head=commit, work_tree=WorkTree(len(differing)))


def _stopped(base: CommitSource, head: str, options: Asked, words: str, rule: str) -> Plan:
    """Return the plan of what can't be merged as a whole."""
    problem = place_problem(_WHOLE, words, rule)
    return Plan(
        base=base.commit, head=head, day=options.day, currency="", base_name=options.base_name, problems=(problem,)
    )


def _planned(root: Path, base: CommitSource, head: str, options: Asked) -> Plan:
    try:
        tree = merged(base.repository, base.commit, head)
        if isinstance(tree, Conflicted):
            return _stopped(base, head, options, str(tree), "merge")
        prefix = base.repository.top(root)
        after = base.repository.tree_of(tree, prefix)
        if after is None:
            return _stopped(base, head, options, f"after the merge there is no folder {prefix}", "layout")
        if not lands_by_rebase(base.repository, base.commit, head, tree):
            return _stopped(base, head, options, _OTHERWISE, "rebase")
        differing, beside = _apart(changed(base.repository, base.commit, tree), prefix)
        source = _merge_result(base, after, differing)
    except TooMuch as error:
        return _stopped(base, head, options, str(error), _SIZE)
    except MalformedTree as error:
        return _stopped(base, head, options, str(error), _TREE)
    if _bytes(base.repository, differing) > MOST_BYTES:
        return _stopped(base, head, options, f"it writes more than {MOST_BYTES >> 20} MiB of files: split it", _SIZE)
    first = options.first or surveyed(base, options.day, options.recall, options.processes)
    return MergePlan(base, head, source, differing=differing, beside=beside, options=options, first=first).plan()


def _apart(everything: Iterable[Changed], folder: str) -> tuple[list[Changed], list[Changed]]:
    """Return what changes in the declarations' folder, and what changes beside it, both by the path from that folder."""
    inside = f"{folder}/" if folder else ""
    differing: list[Changed] = []
    beside: list[Changed] = []
    for changed_file in everything:
        if changed_file.path.startswith(inside):
            differing.append(changed_file._replace(path=changed_file.path[len(inside) :]))
        else:
            beside.append(changed_file._replace(path="../" * inside.count("/") + changed_file.path))
    return differing, beside


def _merge_result(base: CommitSource, tree: str, differing: list[Changed]) -> TreeSource:
    """Return the declarations of a merge result, listed. Raises TooMuch and MalformedTree."""
    declared = declared_of(differing)
    if all(is_within_a_tenant(changed_file) for changed_file in declared):
        return base.changed(tree, {changed_file.path: changed_file.blob for changed_file in declared})
    merge_source = TreeSource(base.repository, tree)
    merge_source.scopes()
    return merge_source


def surveyed(base: CommitSource, day: datetime.date, recall: Recall | None, processes: int | None) -> Survey:
    """Return what a plan needs to know of its base alone."""
    return survey(base, day, recall=recall, standings=all_prepared, processes=processes or cores())


def is_too_large(plan_result: Plan) -> bool:
    """Return whether a change is more than is planned at all."""
    return any((problem.path, problem.rule) == (_WHOLE, _SIZE) for problem in plan_result.problems)


def _bytes(repository: Repository, differing: Iterable[Changed]) -> int:
    blobs = [changed_file.blob for changed_file in differing if changed_file.mode in REGULAR]
    blob_info = repository.objects.info(sorted(set(blobs)))
    return sum(blob_info[blob].size for blob in blobs)
