"""Assembles what is published next, again and again: every step of it in order, and only what changed since is
rendered.

One tenant never stops the others, and none loses data by what another merged: who is invalid keeps what was published
(`kept`), what runs goes on and what is declared no more leaves in steps (`settled`), who came too late for a unit waits
(`granted`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping

from allotment.adapters.git.branch import Branch
from allotment.adapters.source import Source, place_problem
from allotment.changes.brake import Window
from allotment.changes.volumes import Users
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import Scope, folder_of
from allotment.pipeline.check.share import SECONDS
from allotment.pipeline.check.survey import Recall, Survey, survey
from allotment.pipeline.check.tenant_error import rejection_of
from allotment.pipeline.check.workers import cores, placed
from allotment.pipeline.publish.assembly import Assembly, ClusterTrees
from allotment.pipeline.publish.before import Before, Blobs
from allotment.pipeline.publish.brake_tenants import brake_tenants
from allotment.pipeline.publish.granted import Granted, grant
from allotment.pipeline.publish.kept import (
    Kept,
    invalid,
    kept_files,
    may_not_settle,
    of_unsound_clusters,
    rejection,
    retained_instance_files,
)
from allotment.pipeline.publish.known import NOTHING, Known
from allotment.pipeline.publish.preparations import Preparations
from allotment.pipeline.publish.published_units import PodUnits
from allotment.pipeline.publish.remembered import Remembered
from allotment.pipeline.publish.rendered import Again, Rendered, Rerendered, complete, of_made
from allotment.pipeline.publish.retention import retainable
from allotment.pipeline.publish.settled import Settled, Watched, settle
from allotment.pipeline.publish.turnover import Turnover
from allotment.pipeline.render import Renderer
from allotment.readiness.standing import Standing
from allotment.rules import stock


class Assembler:
    """Assembles trees again and again; it renders only the tenants that changed since it last did.

    A tenant that takes more than `share` seconds of processor time is kept as it was published. With `recall` it goes
    on from what another process rendered last.
    """

    def __init__(
        self,
        processes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        share: float | None = SECONDS,
        recall: Recall | None = None,
    ) -> None:
        self._share = share
        self._processes = processes or cores()
        self._progress = progress
        self._remembered = Remembered(recall)

    def assemble(
        self,
        source: Source,
        as_of: datetime.date,
        branches: Mapping[str, Branch],
        *,
        known: Mapping[str, Known],
        observed: Mapping[str, str] | None = None,
        doubted: Collection[str] = (),
        window: Callable[[], Window] = Window,
    ) -> Assembly:
        """Return the trees that follow those of `branches`. `known` has each tenant's status, `observed` the time of
        each cluster's last status, `doubted` the clusters without a trusted or readable status. `window` returns the
        brake's facts; it is called only where a tenant deletes something.

        Raises PlatformInvalid.
        """
        before = Before(branches)
        _ = before.tenants  # listed once, before other processes are forked
        observed = observed or {}
        preparations = Preparations(known, branches)
        found, kept, rendered = self._rendered_now(source, as_of, before, preparations)
        traces = dict(found.traces)
        again = Again(source, found, before, self._processes)
        rendered, kept = _with_rerendered(again.render(complete(rendered, before)), rendered, kept, traces)

        trees = ClusterTrees(found.sound_offers, before)
        settled: dict[str, Settled] = {}
        for tenant in sorted((before.tenants.keys() | rendered.keys()) - kept.keys()):
            watched = _watched(tenant, found, known, observed, preparations, before)
            try:
                one = settle(tenant, tenant in found.parts, rendered.get(tenant), before, watched)
                trees.check(one)
                settled[tenant] = one
            except Exception as error:
                _reject(tenant, error, kept, traces)
        kept |= may_not_settle(settled, source)
        braked = brake_tenants(found.sound_offers, settled, rendered, before, window, kept)
        kept |= braked.retained

        offers, pods = found.sound_offers, PodUnits(known, branches, preparations.published)
        published = retainable(offers, rendered, before, trees.gate, preparations.published)
        while True:  # each further round retains a tenant more
            claims = {name: one.claims for name, one in rendered.items() if name not in kept}
            claims |= {name: tuple(before.claims(name)) for name in kept}
            claims = {
                name: tuple(one for one in some if one.cluster in offers.clusters) for name, some in claims.items()
            }
            granted = grant(offers, claims, pods, observed, published)
            reduced = again.render({tenant for tenant, _ in granted.fewer if tenant not in kept}, granted.fewer)
            kept |= reduced.rejected
            traces |= reduced.traces
            if not reduced.rejected:
                break
        rendered |= reduced.rendered
        turnover = Turnover(offers, before, known, observed, doubted)
        made = _assembled(
            source,
            found,
            kept,
            rendered=rendered,
            settled=settled,
            granted=granted,
            turnover=turnover,
            before=before,
            traces=traces,
            trees=trees,
        )
        return made._replace(released=braked.released)

    def _rendered_now(
        self, source: Source, as_of: datetime.date, before: Before, preparations: Preparations
    ) -> tuple[Survey, Kept, dict[str, Rendered]]:
        """Return the checked source, who is kept, and what the others are rendered to. Raises PlatformInvalid."""
        try:
            found = self._checked(source, as_of, before, preparations)
            kept = of_unsound_clusters(found, before) | invalid(found)
            return found, kept, self._taken_up(found, kept)
        except BaseException:
            self._remembered.forget()  # the survey noted tenants as known whose files weren't taken up
            raise

    def _checked(self, source: Source, as_of: datetime.date, before: Before, preparations: Preparations) -> Survey:
        """Return the whole source, checked, with what those tenants are rendered to that aren't as they were."""
        prepared = preparations.succeeded()
        return survey(
            source,
            as_of,
            recall=self._remembered.recall(prepared),
            render=Renderer(before.made),
            progress=self._progress,
            processes=self._processes,
            standings=lambda tenant: Standing(prepared.get(tenant, frozenset())),
            share=self._share,
            partial=True,
        )

    def _taken_up(self, found: Survey, kept: Kept) -> dict[str, Rendered]:
        """Return what each tenant is rendered to, now or before, but those that are kept."""
        now = {name: of_made(made, found.parts[name].claims) for name, made in found.made.items()}
        self._remembered.take({name: one.blobs for name, one in now.items()}, found.parts)
        return {
            name: now[name] if name in now else Rendered(blobs, {}, found.parts[name].claims)
            for name, blobs in self._remembered.rendered.items()
            if name not in kept
        }

    @property
    def rendered(self) -> Mapping[str, Blobs]:
        """What each tenant was last rendered to."""
        return self._remembered.rendered


def _with_rerendered(
    again: Rerendered, rendered: dict[str, Rendered], kept: Kept, traces: dict[str, str]
) -> tuple[dict[str, Rendered], Kept]:
    """Return the rendered and the retained tenants with those that were rendered again; add the traces of bugs."""
    traces |= again.traces
    return rendered | again.rendered, kept | again.rejected


def _reject(tenant: str, error: Exception, kept: Kept, traces: dict[str, str]) -> None:
    """Retain a tenant that ran into a bug. Raises the error where it does not concern one tenant."""
    stopped = rejection_of(error)
    kept[tenant] = rejection([place_problem(folder_of(Scope("tenant", tenant)), stopped.words, stopped.rule)])
    traces[tenant] = stopped.trace


def _watched(
    tenant: str,
    found: Survey,
    known: Mapping[str, Known],
    observed: Mapping[str, str],
    preparations: Preparations,
    before: Before,
) -> Watched:
    platform = found.offers.platform.one(Platform)
    assert platform is not None

    def users(cluster: str, storage: str) -> Users:
        claims = {claim.instance: claim for claim in found.parts[tenant].claims}
        return preparations.users(cluster, tenant, storage, claims, before.tenants.get(tenant, ()))

    def last(cluster: str, storage: str) -> str:
        return preparations.last(cluster, tenant, storage)

    return Watched(known.get(tenant, NOTHING), observed, platform.model.spec.deletion.after, users, last)


def _assembled(
    source: Source,
    found: Survey,
    kept: Kept,
    *,
    rendered: Mapping[str, Rendered],
    settled: Mapping[str, Settled],
    granted: Granted,
    turnover: Turnover,
    before: Before,
    traces: dict[str, str],
    trees: ClusterTrees,
) -> Assembly:
    """Return the trees of all clusters, and in words who isn't in them as declared."""
    published = {tenant: one for tenant, one in sorted(settled.items()) if tenant not in kept}
    for tenant, one in published.items():
        trees.take_tenant(rendered.get(tenant), one)
    files, left_out = retained_instance_files(granted.retained, before, trees)
    trees.take_kept(files)
    for tenant in kept:
        files, problems = kept_files(tenant, before, trees.gate)
        trees.take_kept(files)
        kept[tenant] = kept[tenant]._replace(problems=[*kept[tenant].problems, *problems])
    claims = granted.all({name: one.claims for name, one in rendered.items() if name not in kept})
    trees.take_clusters(claims, lambda cluster: before.letters(cluster) | found.letters(cluster), turnover)
    trees.take_markers()
    faults = found.faults
    trees.retain_clusters(faults.by_cluster)
    problems = [
        *faults.harmless,
        *left_out,
        *(one for one in found.shared if one.rule != stock.RULE and not one.warning),
    ]
    return Assembly(
        offers=found.sound_offers,
        files=trees.files,
        data=trees.data,
        kept=dict(sorted(kept.items())),
        waiting=granted.waiting,
        leaving=[words for one in published.values() for words in one.leaving],
        held=[*turnover.held, *(words for one in published.values() for words in one.held)],
        holding=granted.holding,
        problems=[*problems, *placed(stock.beneath_held(found.sound_offers, claims), source)],
        declared=frozenset(found.parts),
        rendered=len(found.made),
        traces=traces,
        retained_clusters=faults.by_cluster,
    )
