"""`make controlplane`, `make cluster`, `make cluster-down`: builds the programs, starts a cluster, ends it."""

from __future__ import annotations

import sys
import time

import click

from tests.controlplane import bed, crates, crds, debian, gitea_pages, node, programs, protocols
from tests.controlplane.processes import NotStarted
from tests.support.waiting import NotInTime


@click.group()
def main() -> None:
    """The test bed: a Kubernetes control plane with Argo CD, as processes of this machine."""


@main.command()
def build() -> None:
    """Build the programs that are missing into the cache: those of a real node too, where this machine can have one."""
    started = time.monotonic()
    programs.build()
    if why := gitea_pages.why_not():
        click.echo(f"Gitea's pages: skipped, {why}")
    else:
        gitea_pages.build()
    crates.build()
    crds.build()
    programs.build(programs.REFERENCES)
    if why := node.why_not():
        click.echo(f"A node that runs containers: skipped, {why}")
    else:
        debian.build()
        programs.build(programs.NODE)
        protocols.build()
    for line in programs.list_versions():
        click.echo(line)
    for name, crate in crates.CRATES.items():
        click.echo(f"{name} {crate.version}")
    click.echo(f"The control plane's programs are there, after {time.monotonic() - started:.0f} s.")


@main.command()
@click.option("--cluster", "name", default="eu-1", show_default=True, help="The declared cluster to simulate.")
@click.option("--argocd/--no-argocd", default=True, show_default=True)
@click.option("--karpenter", is_flag=True, help="Nodes come when pods need them.")
@click.option(
    "--node", "kind", type=click.Choice(["real"]), help="A node beside the simulated ones that runs containers."
)
def up(name: str, argocd: bool, karpenter: bool, kind: str | None) -> None:
    """Start a cluster, or say that it already runs."""
    started = time.monotonic()
    test_cluster, fresh = bed.up(
        name, with_argocd=argocd, with_karpenter=karpenter, with_node=kind is not None, say=click.echo
    )
    beside = f", of which {node.NAME} runs containers" if kind else ""
    node_logs = f", and of the node {node.folder(test_cluster)}/logs" if kind else ""
    took = f"runs, after {time.monotonic() - started:.0f} s" if fresh else "already runs"
    click.echo(f"""
{name} {took}: {len(test_cluster.client.list("v1", "Node"))} nodes{beside}.
    export KUBECONFIG={test_cluster.kubeconfig}
    {programs.program("kubectl")} get nodes
    logs: {test_cluster.folder}/logs{node_logs}""")
    if argocd:
        password = "get secret argocd-initial-admin-secret -n argocd -o jsonpath={.data.password} | base64 -d"
        click.echo(f"    Argo CD's API: {bed.argocd_of(test_cluster).url}, user admin; password: kubectl {password}")
    click.echo("    make cluster-down ends it")


@main.command()
def down() -> None:
    """End all clusters of this checkout, and remove their folders."""
    running = bed.names()
    if not running:
        click.echo("No cluster of this checkout runs.")
    for name in running:
        click.echo(f"{name}: {bed.down(name)} processes ended")


if __name__ == "__main__":
    try:
        main(prog_name="python -m tests.controlplane")
    except (programs.NotBuilt, NotStarted, NotInTime, ValueError) as why:
        sys.exit(f"The test bed: {why}")
