"""A repository's folder and its remote's branches → what is known of it, for a diagnosis."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from allotment.adapters.folder import FolderSource, is_regular
from allotment.adapters.git.repository import Repository as Git
from allotment.declared.forges import FORGES
from allotment.declared.kinds.platform import Platform
from allotment.diagnosis.repository import ClusterBranches, Repository
from allotment.observed.publishing import headline
from allotment.pipeline.check.survey import Survey
from allotment.pipeline.report.clone import Clone
from allotment.pipeline.report.joining import View
from allotment.pipeline.status_view.publish_check import PublishCheck
from allotment.problems import Refused
from allotment.reports.tables import age, is_stale
from allotment.rules import placeholders
from allotment.starter.program import LOCK, PROGRAM


def repository_facts(root: Path, repository_check: Survey, check: PublishCheck) -> Repository:
    """Return the facts of a repository that was checked; without a commit or a remote, those of its files alone. `check`
    finds out whether publishing keeps up."""
    platform = repository_check.offers.platform.one(Platform)
    workflow = FORGES[platform.model.spec.git.forge].workflow if platform else None
    facts = Repository(
        errors=len(repository_check.errors),
        warnings=len(repository_check.problems) - len(repository_check.errors),
        placeholders=sum(
            problem.rule == placeholders.RULE and problem.warning for problem in repository_check.problems
        ),
        missing=tuple(_missing(root, workflow) if workflow else ()),
        has_publisher_key=bool(platform and platform.model.spec.publisher),
        unpublished=0,
        trouble="",
        clusters=None,
    )
    try:
        clone = Clone(root) if Git(root).has_commits() else None
    except Refused:  # no repository of Git's
        clone = None
    return _with_branches(View(clone), facts, check) if clone is not None and clone.has_origin else facts


def _missing(root: Path, workflow: str) -> Iterator[str]:
    """Yield the paths of the workflow and of the files that it installs the program by, where they are absent. A workflow that
    runs its jobs in an image names no such files. A checkout decides where its links lead, so no link counts as such a file."""
    try:
        data = FolderSource(root).read(workflow) if is_regular(root, workflow) else None
    except OSError:
        data = None
    if data is None:
        yield workflow
        return
    text = data.decode("utf-8", "replace")
    yield from (path for path in (LOCK, PROGRAM) if path in text and not is_regular(root, path))


def _with_branches(view: View, facts: Repository, check: PublishCheck) -> Repository:
    published, state = view.published, check.state(view)
    behind = sum(row.stage.state in ("merged", "kept") for row in view.rows) if published.source else 0
    return facts._replace(
        unpublished=behind,
        trouble="" if published.source or published.never else published.trouble,
        lag=headline(state, view.declared.branch or "HEAD") if published.source else "",
        stopped=state.words if published.source and (state.stopped or state.reason == "unknown") else "",
        retained=tuple(tenant for _, tenant in sorted(state.retained.items())),
        record_trouble=state.record_trouble,
        clusters=tuple(_branches(view, name) for name in sorted(view.keys)),
    )


def _branches(view: View, name: str) -> ClusterBranches:
    now = datetime.datetime.now(datetime.UTC)
    status = next((cluster_status for cluster_status in view.now.clusters if cluster_status.cluster == name), None)
    branch = view.published.branches.get(name)
    return ClusterBranches(
        name,
        published=branch is not None and branch.published is not None,
        trouble=view.now.troubles.get(name, ""),
        silent=status is None or is_stale(status, now),
        age=age(status.observed_at, now) if status else "",
        has_key=view.keys[name] is not None,
    )
