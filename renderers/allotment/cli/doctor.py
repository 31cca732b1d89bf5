"""`allot doctor`: finds faults of a cluster or of the repository, and shows a remedy for each fault."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import complete_clusters
from allotment.cli.options import (
    choose_day,
    create_cache_opener,
    find_repository,
    is_quiet,
    open_source,
    output_option,
    print_note,
    repository_option,
)
from allotment.cli.reporter_options import FILE_TYPE
from allotment.cli.status_options import create_publish_check
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.adapters.declaration_source import Source
    from allotment.diagnosis.diagnosis import Diagnosis
    from allotment.services.check.repository_check import RepositoryCheck


@click.command()
@click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=complete_clusters,
    help="Compare this cluster with its declarations. Default: check only the repository.",
)
@click.option(
    "--kubeconfig",
    type=FILE_TYPE,
    help="The kubeconfig of the cluster. Default: the service account of a pod in the cluster, otherwise the usual kubeconfig.",
)
@click.option("--context", metavar="NAME", help="The context in the kubeconfig.")
@click.option(
    "--argocd-kubeconfig",
    type=FILE_TYPE,
    help="The kubeconfig of the cluster where Argo CD runs. Default: Argo CD runs in the same cluster.",
)
@click.option("--argocd-context", metavar="NAME", help="The context for the cluster where Argo CD runs.")
@click.option(
    "--commit", metavar="REF", help="With --cluster: read the declarations of this commit instead of the folder."
)
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
    """Diagnose a cluster or the repository, with a remedy for each problem.

    With --cluster, the command compares the declarations of the cluster with its API server: versions and APIs, storage
    classes, the Gateway and its certificate, nodes and their pools, GPU sharing, Karpenter, and Argo CD. It compares the
    objects of tenants with the published manifests, which it fetches from the remote of the repository, and the declared
    login with the discovery document of the identity provider. It writes nothing and reads no Secret. A kind that it may not
    read is an error. Without --cluster, it checks the repository: declarations, CI, branches and keys.

    Exit status: 0 no errors, 1 errors, 2 the command is wrong or the cluster doesn't answer. With --quiet, only errors and
    warnings are printed.

    \b
    Examples:
      allot doctor
      allot doctor --cluster eu-1 --context eu-1-admin
      allot doctor --cluster us-1 --kubeconfig us-1.yaml --argocd-context hub -o json
    """
    from allotment.diagnosis import sort_by_severity

    if cluster is None and (kubeconfig or context or argocd_kubeconfig or argocd_context or commit):
        raise click.UsageError(
            "these options need --cluster: without it, doctor checks the folder of the repository alone"
        )
    root = find_repository(repo)
    if cluster is None:
        diagnoses = sort_by_severity(_diagnose_repository(root))
    else:
        diagnoses = _diagnose_cluster(root, commit, cluster, (kubeconfig, context), (argocd_kubeconfig, argocd_context))
    _print_diagnoses(cluster, diagnoses, style)
    if any(diagnosis.severity == "error" for diagnosis in diagnoses):
        raise click.exceptions.Exit(1)


KubeconfigContext = tuple[Path | None, str | None]  # a kubeconfig and a context in it


def _diagnose_cluster(
    root: Path, commit: str | None, name: str, at: KubeconfigContext, hub: KubeconfigContext
) -> list[Diagnosis]:
    """Return the diagnoses of a cluster.

    `at` gives access to the cluster, and `hub` to the cluster where Argo CD runs. Raises OperationRefused if the
    cluster isn't declared, if its declaration can't be read, or if the cluster doesn't answer.
    """
    from allotment.adapters.cluster.api import ApiServer
    from allotment.adapters.cluster.snapshot_reader import take_snapshot
    from allotment.declared.kinds.cluster import Cluster
    from allotment.declared.reading import suggest_name
    from allotment.diagnosis import apis, diagnose_cluster, edits, sort_by_severity
    from allotment.diagnosis.cluster_snapshot import ALL_QUERIES, WHOLE_OBJECT_QUERIES
    from allotment.services.reporter.edit_check import compare_live_objects, fetch_published_commit
    from allotment.services.reporter.login_check import check_login

    source = open_source(root, commit)
    check = _check_declarations(root, source, commit)
    catalog = check.catalog
    declared = catalog.clusters.get(name)
    if declared is None:
        raise OperationRefused(f"no cluster is named {quote_value(name)}{suggest_name(name, catalog.clusters)}")
    declaration = declared.get_singleton(Cluster)
    if declaration is None:
        raise OperationRefused(f"clusters/{name}/cluster.yaml can't be read: allot validate shows the reason")
    tenant_api = ApiServer.from_kubeconfig(*at)
    hub_api = tenant_api if hub == (None, None) else ApiServer.from_kubeconfig(hub[0] or at[0], hub[1])
    published, begun = fetch_published_commit(root, name), time.monotonic()
    snapshot = take_snapshot(
        tenant_api,
        hub_api,
        (*ALL_QUERIES, *WHOLE_OBJECT_QUERIES),
        (requirement.api for requirement in apis.list_required_apis(catalog, declared)),
    )
    since = snapshot.now - datetime.timedelta(seconds=time.monotonic() - begun)
    logins = check_login(source, check, name, declaration.model.spec.oidc, snapshot.now)
    compared = compare_live_objects(published, name, snapshot, since)
    diagnoses = diagnose_cluster(snapshot, catalog, declared)
    return sort_by_severity([*diagnoses, *logins, *edits.diagnose_edits(compared)])


def _diagnose_repository(root: Path) -> list[Diagnosis]:
    from allotment.cli.ownership import find_outdated_code_owners
    from allotment.diagnosis.repository import diagnose_repository
    from allotment.services.status_view.repository_facts import collect_repository_facts

    return diagnose_repository(
        collect_repository_facts(
            root,
            _check_declarations(root, open_source(root, None), None),
            create_publish_check(root),
            find_outdated_code_owners(root),
        )
    )


def _check_declarations(root: Path, source: Source, commit: str | None) -> RepositoryCheck:
    from allotment.services.check.check_options import CheckOptions
    from allotment.services.check.repository_check import check_repository

    return check_repository(
        source,
        choose_day(source, None),
        CheckOptions(open_cache=create_cache_opener(root, "-commit" if commit else "")),
    )


def _print_diagnoses(cluster: str | None, diagnoses: list[Diagnosis], style: str) -> None:
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.doctor import doctor_output

        click.echo(as_json(doctor_output(cluster, diagnoses)), nl=False)
        return
    from allotment.reports.diagnoses import diagnosis_sheet, diagnosis_summary
    from allotment.reports.sheets import print_output

    displayed_diagnoses = [
        diagnosis for diagnosis in diagnoses if diagnosis.severity in ("error", "warning") or not is_quiet()
    ]
    if displayed_diagnoses:
        print_output(diagnosis_sheet(displayed_diagnoses))
    print_note(f"{cluster or 'the repository'}: {diagnosis_summary(diagnoses)}")
