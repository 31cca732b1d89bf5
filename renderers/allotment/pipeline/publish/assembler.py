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
        observed_tenants: Mapping[str, Known],
        observed: Mapping[str, str] | None = None,
        doubted: Collection[str] = (),
        window: Callable[[], Window] = Window,
    ) -> Assembly:
        """Return the trees that follow those of `branches`. `observed_tenants` has each tenant's status, `observed` the time of
        each cluster's last status, `doubted` the clusters without a trusted or readable status. `window` returns the
        brake's facts; it is called only where a tenant deletes something.

        Raises PlatformInvalid.
        """
        published_trees = Before(branches)
        _ = published_trees.tenants  # listed once, before other processes are forked
        observed = observed or {}
        preparations = Preparations(observed_tenants, branches)
        repository_check, retained_tenants, rendered = self._rendered_now(source, as_of, published_trees, preparations)
        traces = dict(repository_check.traces)
        rerenderer = Again(source, repository_check, published_trees, self._processes)
        rendered, retained_tenants = _with_rerendered(
            rerenderer.render(complete(rendered, published_trees)), rendered, retained_tenants, traces
        )

        trees = ClusterTrees(repository_check.sound_offers, published_trees)
        tenant_transitions: dict[str, Settled] = {}
        for tenant in sorted((published_trees.tenants.keys() | rendered.keys()) - retained_tenants.keys()):
            watched = _watched(tenant, repository_check, observed_tenants, observed, preparations, published_trees)
            try:
                tenant_transition = settle(
                    tenant, tenant in repository_check.parts, rendered.get(tenant), published_trees, watched
                )
                trees.check(tenant_transition)
                tenant_transitions[tenant] = tenant_transition
            except Exception as error:
                _reject(tenant, error, retained_tenants, traces)
        retained_tenants |= may_not_settle(tenant_transitions, source)
        braked = brake_tenants(
            repository_check.sound_offers, tenant_transitions, rendered, published_trees, window, retained_tenants
        )
        retained_tenants |= braked.retained

        offers, pods = repository_check.sound_offers, PodUnits(observed_tenants, branches, preparations.published)
        published = retainable(offers, rendered, published_trees, trees.gate, preparations.published)
        while True:  # each further round retains a tenant more
            claims = {
                name: rendered_tenant.claims
                for name, rendered_tenant in rendered.items()
                if name not in retained_tenants
            }
            claims |= {name: tuple(published_trees.claims(name)) for name in retained_tenants}
            claims = {
                name: tuple(claim for claim in some if claim.cluster in offers.clusters)
                for name, some in claims.items()
            }
            allocation = grant(offers, claims, pods, observed, published)
            reduced = rerenderer.render(
                {tenant for tenant, _ in allocation.fewer if tenant not in retained_tenants}, allocation.fewer
            )
            retained_tenants |= reduced.rejected
            traces |= reduced.traces
            if not reduced.rejected:
                break
        rendered |= reduced.rendered
        turnover = Turnover(offers, published_trees, observed_tenants, observed, doubted)
        release = _assembled(
            source,
            repository_check,
            retained_tenants,
            rendered=rendered,
            tenant_transitions=tenant_transitions,
            allocation=allocation,
            turnover=turnover,
            published_trees=published_trees,
            traces=traces,
            trees=trees,
        )
        return release._replace(released=braked.released)

    def _rendered_now(
        self, source: Source, as_of: datetime.date, published_trees: Before, preparations: Preparations
    ) -> tuple[Survey, Kept, dict[str, Rendered]]:
        """Return the checked source, who is kept, and what the others are rendered to. Raises PlatformInvalid."""
        try:
            repository_check = self._checked(source, as_of, published_trees, preparations)
            retained_tenants = of_unsound_clusters(repository_check, published_trees) | invalid(repository_check)
            return repository_check, retained_tenants, self._taken_up(repository_check, retained_tenants)
        except BaseException:
            self._remembered.forget()  # the survey noted tenants as known whose files weren't taken up
            raise

    def _checked(
        self, source: Source, as_of: datetime.date, published_trees: Before, preparations: Preparations
    ) -> Survey:
        """Return the whole source, checked, with what those tenants are rendered to that aren't as they were."""
        prepared = preparations.succeeded()
        return survey(
            source,
            as_of,
            recall=self._remembered.recall(prepared),
            render=Renderer(published_trees.made),
            progress=self._progress,
            processes=self._processes,
            standings=lambda tenant: Standing(prepared.get(tenant, frozenset())),
            share=self._share,
            partial=True,
        )

    def _taken_up(self, repository_check: Survey, retained_tenants: Kept) -> dict[str, Rendered]:
        """Return what each tenant is rendered to, now or before, but those that are kept."""
        now = {
            name: of_made(artifact, repository_check.parts[name].claims)
            for name, artifact in repository_check.made.items()
        }
        self._remembered.take(
            {name: rendered_tenant.blobs for name, rendered_tenant in now.items()}, repository_check.parts
        )
        return {
            name: now[name] if name in now else Rendered(blobs, {}, repository_check.parts[name].claims)
            for name, blobs in self._remembered.rendered.items()
            if name not in retained_tenants
        }

    @property
    def rendered(self) -> Mapping[str, Blobs]:
        """What each tenant was last rendered to."""
        return self._remembered.rendered


def _with_rerendered(
    rerender_result: Rerendered, rendered: dict[str, Rendered], retained_tenants: Kept, traces: dict[str, str]
) -> tuple[dict[str, Rendered], Kept]:
    """Return the rendered and the retained tenants with those that were rendered again; add the traces of bugs."""
    traces |= rerender_result.traces
    return rendered | rerender_result.rendered, retained_tenants | rerender_result.rejected


def _reject(tenant: str, error: Exception, retained_tenants: Kept, traces: dict[str, str]) -> None:
    """Retain a tenant that ran into a bug. Raises the error where it does not concern one tenant."""
    stopped = rejection_of(error)
    retained_tenants[tenant] = rejection(
        [place_problem(folder_of(Scope("tenant", tenant)), stopped.words, stopped.rule)]
    )
    traces[tenant] = stopped.trace


def _watched(
    tenant: str,
    repository_check: Survey,
    observed_tenants: Mapping[str, Known],
    observed: Mapping[str, str],
    preparations: Preparations,
    published_trees: Before,
) -> Watched:
    platform = repository_check.offers.platform.one(Platform)
    assert platform is not None

    def users(cluster: str, storage: str) -> Users:
        claims = {claim.instance: claim for claim in repository_check.parts[tenant].claims}
        return preparations.users(cluster, tenant, storage, claims, published_trees.tenants.get(tenant, ()))

    def last(cluster: str, storage: str) -> str:
        return preparations.last(cluster, tenant, storage)

    return Watched(observed_tenants.get(tenant, NOTHING), observed, platform.model.spec.deletion.after, users, last)


def _assembled(
    source: Source,
    repository_check: Survey,
    retained_tenants: Kept,
    *,
    rendered: Mapping[str, Rendered],
    tenant_transitions: Mapping[str, Settled],
    allocation: Granted,
    turnover: Turnover,
    published_trees: Before,
    traces: dict[str, str],
    trees: ClusterTrees,
) -> Assembly:
    """Return the trees of all clusters, and in words who isn't in them as declared."""
    published = {
        tenant: tenant_transition
        for tenant, tenant_transition in sorted(tenant_transitions.items())
        if tenant not in retained_tenants
    }
    for tenant, tenant_transition in published.items():
        trees.take_tenant(rendered.get(tenant), tenant_transition)
    files, left_out = retained_instance_files(allocation.retained, published_trees, trees)
    trees.take_kept(files)
    for tenant in retained_tenants:
        files, problems = kept_files(tenant, published_trees, trees.gate)
        trees.take_kept(files)
        retained_tenants[tenant] = retained_tenants[tenant]._replace(
            problems=[*retained_tenants[tenant].problems, *problems]
        )
    claims = allocation.all(
        {name: rendered_tenant.claims for name, rendered_tenant in rendered.items() if name not in retained_tenants}
    )
    trees.take_clusters(
        claims, lambda cluster: published_trees.letters(cluster) | repository_check.letters(cluster), turnover
    )
    trees.take_markers()
    faults = repository_check.faults
    trees.retain_clusters(faults.by_cluster)
    problems = [
        *faults.harmless,
        *left_out,
        *(problem for problem in repository_check.shared if problem.rule != stock.RULE and not problem.warning),
    ]
    return Assembly(
        offers=repository_check.sound_offers,
        files=trees.files,
        data=trees.data,
        kept=dict(sorted(retained_tenants.items())),
        waiting=allocation.waiting,
        leaving=[words for tenant_transition in published.values() for words in tenant_transition.leaving],
        held=[*turnover.held, *(words for tenant_transition in published.values() for words in tenant_transition.held)],
        holding=allocation.holding,
        problems=[*problems, *placed(stock.beneath_held(repository_check.sound_offers, claims), source)],
        declared=frozenset(repository_check.parts),
        rendered=len(repository_check.made),
        traces=traces,
        retained_clusters=faults.by_cluster,
    )
