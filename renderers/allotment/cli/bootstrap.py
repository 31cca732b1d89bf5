"""`allot bootstrap`: writes the initial configuration of Argo CD, which the platform team applies."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from allotment.cli.options import find_repository, output_option, repository_option


@click.command()
@output_option()
@repository_option
def command(style: str, repo: Path | None) -> None:
    """Write the initial configuration of Argo CD: root Applications, health checks, links, permissions.

    The command reads the merged declarations of `origin`, because a branch can name other repositories for Argo CD. Without
    `origin`, it reads the folder.

    Apply it at the start, after each upgrade of Allotment, and for each new cluster. Then restart Argo CD's application
    controller if its ConfigMap argocd-cmd-params-cm changed: the controller reads it only when it starts. The text is YAML;
    the JSON is one List of Kubernetes.

    \b
    Examples:
      allot bootstrap | kubectl apply --server-side --force-conflicts --filename -
    """
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.branches.declarations_clone import open_merged_source
    from allotment.cli.formats import CheckedScope, as_text
    from allotment.cli.options import choose_day
    from allotment.manifests.cluster.bootstrap import render
    from allotment.manifests.yaml_text import dump
    from allotment.services.check.repository_check import check_repository

    root = find_repository(repo)
    source = open_merged_source(root)
    if isinstance(source, CommitSource):
        click.echo(f"reads the merged commit {source.commit[:12]} of origin", err=True)
    repository_check = check_repository(source, choose_day(source, None))
    if wrong := repository_check.split_errors_by_owner()[0]:
        click.echo(
            as_text(wrong, CheckedScope(repository_check.file_count, len(repository_check.tally_entries))),
            nl=False,
            err=True,
        )
        raise click.exceptions.Exit(1)
    objects = render(repository_check.catalog)
    if style == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
    else:
        sys.stdout.buffer.write(dump(objects))
