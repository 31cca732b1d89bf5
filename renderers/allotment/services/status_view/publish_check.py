"""Finds out whether the declared commit is published, and if not, why.

If the record of the retained tenants is enough for the answer, the module reads only this record. Otherwise it runs a
publish that writes nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator

from allotment.adapters.declaration_source import Source
from allotment.adapters.git.commands import GitFailed
from allotment.branches.rendered_branches import PublicationUnproven
from allotment.observed.publish_state import PublishReason, PublishState
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.retention import WAYS_OUT, retained_tenant
from allotment.problems import AllotmentError
from allotment.services.check.check_options import OpenCache
from allotment.services.publish.publisher import BrakeEngaged, Publisher, SourceRewound
from allotment.services.publish.release_builder import ReleaseBuilder
from allotment.services.publish.tenant_retention import PlatformInvalid
from allotment.services.status_view.status_view import StatusView


def read_recorded_state(view: StatusView) -> PublishState:
    """Return the state of publishing according to the record of the last publish. It doesn't say why later commits wait."""
    release = view.published_release
    if release.source is None:
        reason: PublishReason = "never" if release.never_published else "unproven"
        return PublishState("", 0, reason, release.trouble, release.trouble)
    commit = release.source.commit
    ahead = view.clone.repository.count_between(commit, view.declared_commit.source.commit)
    faults = {name: branch.fault for name, branch in release.branches.items() if branch.fault}
    state = PublishState(
        commit, ahead, "pending" if ahead else "", record_trouble=release.record.trouble, branch_faults=faults
    )
    record = release.record.of_source(commit)
    if record is None:
        return state
    return state._replace(
        retained_tenants={tenant.tenant: tenant for tenant in record.tenants},
        retained_clusters=record.clusters,
        omitted_tenants=record.omitted_tenants,
    )


class PublishCheck:
    """Finds out the state of publishing.

    `today` returns the date whose prices apply to a source. `open_cache` opens the cache of rendered tenants.
    """

    def __init__(self, today: Callable[[Source], datetime.date], open_cache: OpenCache | None = None) -> None:
        self._find_date, self._open_cache = today, open_cache
        self._states: dict[tuple[str, ...], PublishState] = {}

    def find_state(self, view: StatusView) -> PublishState:
        """Return the state of publishing as a clone sees it. Writes nothing."""
        key = (view.declared_commit.source.commit, view.published_release.trouble, *sorted(view.published_release.tips))
        if key not in self._states:
            self._states[key] = self._determine_state(view)
        return self._states[key]

    def _determine_state(self, view: StatusView) -> PublishState:
        recorded_state, declared = read_recorded_state(view), view.declared_commit.source.commit
        state = recorded_state._replace(retained_tenants={}, retained_clusters=(), omitted_tenants=0)
        if not state.commit or view.is_behind:
            return state
        ahead = state.unpublished_commits
        if state.commit == declared and view.kept_tenants <= recorded_state.retained_tenants.keys():
            # A publish without writing renders everything, which would slow down every `allot status`.
            return recorded_state
        try:
            outcome = self._create_publisher(view).publish(declared)
        except BrakeEngaged as error:
            return state._replace(
                reason="braked", summary=f"the brake stopped it ({error.excess.deleted_text})", message=str(error)
            )
        except SourceRewound as error:
            return state._replace(reason="rewound", summary="the source was rewound", message=str(error))
        except PlatformInvalid as error:
            problems = f"{error.problems[0]}" + (f" (and {len(error.problems) - 1} more)" if error.problems[1:] else "")
            message = f"nothing can be published: the declarations of the platform are invalid: {problems}"
            return state._replace(
                reason="platform-invalid", summary="the declarations of the platform are invalid", message=message
            )
        except PublicationUnproven as error:
            return state._replace(reason="unproven", summary=str(error), message=str(error))
        except (AllotmentError, GitFailed) as error:
            return state._replace(reason="unknown", summary=str(error), message=str(error))
        state = state._replace(summary="not published yet" if ahead else "")
        if outcome.release is None:
            return state
        assembly = outcome.release
        retained = {name: retained_tenant(name, retention) for name, retention in assembly.retained_tenants.items()}
        return state._replace(retained_tenants=retained, retained_clusters=tuple(assembly.retained_clusters))

    def _create_publisher(self, view: StatusView) -> Publisher:
        clone, places = view.clone, view.branch_urls
        return Publisher(
            clone.root,
            clone.remote(places.rendered),
            ReleaseBuilder(open_cache=self._open_cache),
            self._find_date,
            status=clone.remote(places.status),
            find_tip=lambda: view.declared_commit.source.commit,
            dry_run=True,
        )


def explain_unpublished(
    view: StatusView, rows: Iterable[ResourceStatus], check: PublishCheck
) -> Iterator[ResourceStatus]:
    """Yield the rows. If a resource is not published, the message of its row explains why."""
    for row in rows:
        if row.stage.state in ("merged", "kept"):
            state = check.find_state(view)
            message = f"{row.stage.message}: {_explain_row(view, row, state)}"
            tenant = None if state.stopped else state.retained_tenants.get(row.resource.tenant)
            way_out = WAYS_OUT[tenant.reason] if tenant else row.stage.remedy
            yield row._replace(stage=row.stage._replace(message=message, remedy=way_out))
        else:
            yield row


def _explain_row(view: StatusView, row: ResourceStatus, state: PublishState) -> str:
    if state.stopped or state.reason in ("never", "unknown"):
        return state.message
    if tenant := state.retained_tenants.get(row.resource.tenant):
        return f"its tenant is retained: {tenant.words}"
    commit_time = view.clone.repository.committed_at(state.commit)
    day = datetime.datetime.fromtimestamp(commit_time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"the published version is {state.commit[:12]} of {day}"
