"""Finds out whether publishing keeps up with the declared commit: by the record of the retained tenants where it is enough,
else by the verdict of a publish that writes nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator

from allotment.adapters.git.commands import SaidNo
from allotment.adapters.git.rendered import Unproven
from allotment.adapters.source import Source
from allotment.observed.joined import Joined
from allotment.observed.publishing import PublishState, Reason
from allotment.observed.retention import WAYS_OUT, retained_tenant
from allotment.pipeline.check.survey import Recall
from allotment.pipeline.publish.assembler import Assembler
from allotment.pipeline.publish.kept import PlatformInvalid
from allotment.pipeline.publish.publication import Braked, Publisher, Rewound
from allotment.pipeline.report.joining import View
from allotment.problems import AllotmentError


class PublishCheck:
    """Finds out the state of publishing; `today` returns a source's day, `recall` the memory of rendered tenants."""

    def __init__(self, today: Callable[[Source], datetime.date], recall: Recall | None = None) -> None:
        self._today, self._recall = today, recall
        self._known: dict[tuple[str, ...], PublishState] = {}

    def state(self, view: View) -> PublishState:
        """Return the state of publishing, as a clone sees it. Nothing is written."""
        key = (view.declared.source.commit, view.published.trouble, *sorted(view.published.tips))
        if key not in self._known:
            self._known[key] = self._found_out(view)
        return self._known[key]

    def _found_out(self, view: View) -> PublishState:
        published, declared = view.published.source, view.declared.source.commit
        if published is None:
            reason: Reason = "never" if view.published.never else "unproven"
            return PublishState("", 0, reason, view.published.trouble, view.published.trouble)
        ahead = view.clone.repository.count_between(published.commit, declared)
        record, trouble = view.published.record.of_source(published.commit), view.published.record.trouble
        state = PublishState(published.commit, ahead, "pending" if ahead else "", record_trouble=trouble)
        if view.is_behind:
            return state
        retained = {tenant.tenant: tenant for tenant in record.tenants} if record else {}
        if published.commit == declared and view.kept_tenants <= retained.keys():
            # A dry run renders everything and would slow down every look.
            return state._replace(retained=retained, retained_clusters=record.clusters if record else ())
        try:
            outcome = self._publisher(view).publish(declared)
        except Braked as error:
            return state._replace(
                reason="braked", brief=f"the brake stopped it ({error.excess.amount})", words=str(error)
            )
        except Rewound as error:
            return state._replace(reason="rewound", brief="the source was rewound", words=str(error))
        except PlatformInvalid as error:
            problems = f"{error.problems[0]}" + (f" (and {len(error.problems) - 1} more)" if error.problems[1:] else "")
            words = f"nothing can be: what the platform declares is wrong: {problems}"
            return state._replace(reason="platform-invalid", brief="what the platform declares is wrong", words=words)
        except Unproven as error:
            return state._replace(reason="unproven", brief=str(error), words=str(error))
        except (AllotmentError, SaidNo) as error:
            return state._replace(reason="unknown", brief=str(error), words=str(error))
        state = state._replace(brief="not published yet" if ahead else "")
        if outcome.assembly is None:
            return state
        assembly = outcome.assembly
        retained = {name: retained_tenant(name, retention) for name, retention in assembly.kept.items()}
        return state._replace(retained=retained, retained_clusters=tuple(assembly.retained_clusters))

    def _publisher(self, view: View) -> Publisher:
        clone, places = view.clone, view.places
        return Publisher(
            clone.root,
            clone.remote(places.rendered),
            Assembler(recall=self._recall),
            self._today,
            status=clone.remote(places.status),
            tip=lambda: view.declared.source.commit,
            dry_run=True,
        )


def explained(view: View, rows: Iterable[Joined], check: PublishCheck) -> Iterator[Joined]:
    """Yield rows that say why they aren't published, where they aren't."""
    for row in rows:
        if row.stage.state in ("merged", "kept"):
            state = check.state(view)
            words = f"{row.stage.words}: {_why_unpublished(view, row, state)}"
            tenant = None if state.stopped else state.retained.get(row.thing.tenant)
            way_out = WAYS_OUT[tenant.reason] if tenant else row.stage.way_out
            yield row._replace(stage=row.stage._replace(words=words, way_out=way_out))
        else:
            yield row


def _why_unpublished(view: View, row: Joined, state: PublishState) -> str:
    if state.stopped or state.reason in ("never", "unknown"):
        return state.words
    if tenant := state.retained.get(row.thing.tenant):
        return f"its tenant is retained: {tenant.words}"
    commit_time = view.clone.repository.committed_at(state.commit)
    day = datetime.datetime.fromtimestamp(commit_time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"what is published is of {state.commit[:12]}, of {day}"
