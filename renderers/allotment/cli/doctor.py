"""`allot doctor`: what is wrong with a cluster, or with the repository, and what to do."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completing import clusters
from allotment.cli.looking import near, publish_check
from allotment.cli.options import (
    day_of,
    is_quiet,
    note,
    output_option,
    recalled,
    repository,
    repository_option,
    source_of,
)
from allotment.cli.reporter import FILE
from allotment.problems import Refused, quoted

if TYPE_CHECKING:
    from allotment.diagnosis.diagnosis import Diagnosis
    from allotment.pipeline.check.survey import Survey


@click.command()
@click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=clusters,
    help="Compare this cluster with what is declared of it; the repository alone if absent.",
)
@click.option(
    "--kubeconfig",
    type=FILE,
    help="How the cluster is reached; if absent, as a pod in it, or else by the usual kubeconfig.",
)
@click.option("--context", metavar="NAME", help="The kubeconfig's context.")
@click.option(
    "--argocd-kubeconfig",
    type=FILE,
    help="How the cluster that Argo CD runs in is reached; as the cluster itself if absent.",
)
@click.option("--argocd-context", metavar="NAME", help="The context of the cluster that Argo CD runs in.")
@click.option("--commit", metavar="REF", help="With --cluster: read this commit's declarations, not the folder's.")
@output_option()
@repository_option
def command(
    *,
    cluster: str | None,
    kubeconfig: Path | None,
    context: str | None,
    argocd_kubeconfig: Path | None,
    argocd_context: str | None,
    commit: str | None,
    style: str,
    repo: Path | None,
) -> None:
    """Say what is wrong with a cluster, or with the repository, and what to do.

    With --cluster, what is declared of it is compared with what its API server has: versions and APIs, storage classes, the
    Gateway and its certificate, nodes against their pools, how GPUs are shared, Karpenter, Argo CD, and tenants' objects
    against the published manifests, which are fetched from the repository's remote. It reads, and writes nothing; no Secret is read. What it may not read is an error, so that nothing is taken for fine unseen. Without
    --cluster, the repository is looked at: its declarations, CI, branches and keys.

    Exit status: 0 no errors, 1 errors, 2 the command is wrong or the cluster doesn't answer. With --quiet only errors and
    warnings are shown.

    \b
    Examples:
      allot doctor
      allot doctor --cluster eu-1 --context eu-1-admin
      allot doctor --cluster us-1 --kubeconfig us-1.yaml --argocd-context hub -o json
    """
    from allotment.diagnosis import ranked

    if cluster is None and (kubeconfig or context or argocd_kubeconfig or argocd_context or commit):
        raise click.UsageError("without --cluster no cluster is looked at, and the repository as it is")
    root = repository(repo)
    if cluster is None:
        diagnoses = ranked(_of_repository(root))
    else:
        diagnoses = _of_cluster(root, commit, cluster, (kubeconfig, context), (argocd_kubeconfig, argocd_context))
    _print(cluster, diagnoses, style)
    if any(diagnosis.severity == "error" for diagnosis in diagnoses):
        raise click.exceptions.Exit(1)


Place = tuple[Path | None, str | None]  # a kubeconfig and a context in it


def _of_cluster(root: Path, commit: str | None, name: str, at: Place, hub: Place) -> list[Diagnosis]:
    """Return what is found about a cluster. Raises Refused where it isn't declared, can't be read, or doesn't answer."""
    from allotment.adapters.cluster.api import Api
    from allotment.adapters.cluster.looking import look
    from allotment.declared.kinds.cluster import Cluster
    from allotment.diagnosis import apis, diagnose, edits, ranked
    from allotment.diagnosis.looked import ALL, WHOLE
    from allotment.pipeline.report.edit_check import compare_live, published_commit

    offers = _survey(root, commit).offers
    declared = offers.clusters.get(name)
    if declared is None:
        raise Refused(f"no cluster is named {quoted(name)}{near(name, offers.clusters)}")
    if declared.one(Cluster) is None:
        raise Refused(f"clusters/{name}/cluster.yaml can't be read: allot validate says why")
    here = Api.at(*at)
    hub_api = here if hub == (None, None) else Api.at(hub[0] or at[0], hub[1])
    published, begun = published_commit(root, name), time.monotonic()
    looked = look(here, hub_api, (*ALL, *WHOLE), (requirement.api for requirement in apis.needed(offers, declared)))
    since = looked.now - datetime.timedelta(seconds=time.monotonic() - begun)
    compared = compare_live(published, name, looked, since)
    return ranked([*diagnose(looked, offers, declared), *edits.diagnose(compared)])


def _of_repository(root: Path) -> list[Diagnosis]:
    from allotment.diagnosis.repository import diagnose
    from allotment.pipeline.status_view.repository_facts import repository_facts

    return diagnose(repository_facts(root, _survey(root, None), publish_check(root)))


def _survey(root: Path, commit: str | None) -> Survey:
    from allotment.pipeline.check.survey import survey

    source = source_of(root, commit)
    return survey(source, day_of(source, None), recall=recalled(root, "-commit" if commit else ""))


def _print(cluster: str | None, diagnoses: list[Diagnosis], style: str) -> None:
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.doctor import doctor_output

        click.echo(as_json(doctor_output(cluster, diagnoses)), nl=False)
        return
    from allotment.reports.diagnoses import sheet, summary
    from allotment.reports.sheets import show

    shown = [diagnosis for diagnosis in diagnoses if diagnosis.severity in ("error", "warning") or not is_quiet()]
    if shown:
        show(sheet(shown))
    note(f"{cluster or 'the repository'}: {summary(diagnoses)}")
