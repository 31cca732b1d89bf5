"""`allot bootstrap`: what a platform team applies to Argo CD once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from allotment.cli.options import output_option, repository, repository_option


@click.command()
@output_option()
@repository_option
def command(style: str, repo: Path | None) -> None:
    """Write what Argo CD needs to begin with: root Applications, health checks, links, permissions.

    Apply it at the start, after each upgrade of Allotment, and for each new cluster. Then restart Argo CD's application
    controller if its ConfigMap argocd-cmd-params-cm changed: the controller reads it only when it starts. The text is YAML;
    the JSON is one List of Kubernetes.

    \b
    Examples:
      allot bootstrap | kubectl apply --server-side --force-conflicts --filename -
    """
    from allotment.adapters.folder import FolderSource
    from allotment.cli.formats import Judged, as_text
    from allotment.cli.options import day_of
    from allotment.manifests.cluster.bootstrap import render
    from allotment.manifests.text import dump
    from allotment.pipeline.check.survey import survey

    root = repository(repo)
    source = FolderSource(root)
    repository_check = survey(source, day_of(source, None))
    if wrong := repository_check.by_owner()[0]:
        click.echo(as_text(wrong, Judged(repository_check.files, len(repository_check.parts))), nl=False, err=True)
        raise click.exceptions.Exit(1)
    objects = render(repository_check.offers)
    if style == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
    else:
        sys.stdout.buffer.write(dump(objects))
