"""What the commands share that look at what runs: where they look, at what, and what they say of names that nobody
knows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.completing import clusters
from allotment.cli.options import day_of, is_quiet, recalled, repository, repository_option
from allotment.problems import Refused, counted, printable, quoted

if TYPE_CHECKING:
    from allotment.observed.publishing import PublishState
    from allotment.pipeline.report.clone import Clone
    from allotment.pipeline.report.joining import View
    from allotment.pipeline.status_view.publish_check import PublishCheck


LOOK_SECONDS = 5  # between two looks; a reporter commits once a minute at most
from_option = click.option(
    "--from",
    "url",
    metavar="URL",
    help="The repository of the status branches; spec.git.status of the platform, or origin, if absent.",
)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --repo and --from."""
    for option in (
        from_option,
        repository_option,
    ):
        command = option(command)
    return command


def place(repo: Path | None, url: str | None) -> tuple[Any, Any, list[tuple[str, str | None]]]:
    """Return the repository, the remote of the status branches, and the declared clusters with their reporters' keys."""
    from allotment.adapters.folder import FolderSource
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.pipeline.declared import places, reporter_keys

    root = repository(repo)
    source, here = FolderSource(root), Repository(root)
    remote = Remote(here, places(source, "origin", status=url).status, keep=True)
    return here, remote, sorted(reporter_keys(source).items())


cluster_option = click.option("--cluster", metavar="NAME", shell_complete=clusters, help="Look at that cluster alone.")


def clone_of(repo: Path | None, url: str | None) -> Clone:
    """Return the clone to look from."""
    from allotment.pipeline.report.clone import Clone

    return Clone(repository(repo), url)


def parted(target: str) -> tuple[str, str]:
    """Return tenant and name of TENANT[/NAME]; the name is empty where there is none."""
    tenant, _, name = target.strip("/").partition("/")
    return tenant, name


def check_known(view: View, tenant: str, name: str, cluster: str | None = None) -> None:
    """Check that a tenant, one of its things and a cluster are declared or seen, where they are given. Raises Refused,
    with the names that are nearest."""
    if cluster is not None and cluster not in view.keys:
        raise Refused(f"no cluster is named {quoted(cluster)}{near(cluster, view.keys)}")
    if tenant and tenant not in (tenants := known_tenants(view)):
        raise Refused(
            f"no tenant is named {quoted(tenant)}: none is declared, and no cluster reports one{near(tenant, tenants)}"
        )
    if name and not any(row.thing.name == name for row in view.rows):
        known_names = {row.thing.name for row in view.rows}
        raise Refused(
            f"{printable(tenant)} has nothing named {quoted(name)}: nothing declares it, and no cluster reports it{near(name, known_names)}"
        )


def known_tenants(view: View) -> set[str]:
    """Return the tenants that are declared, or that a cluster reports."""
    return {*view.tenants, *(status.tenant for status in view.now.tenants)}


def near(word: str, candidates: Iterable[str]) -> str:
    """Return which of some known names was meant, perhaps. Whoever wrote them can do nothing to a terminal."""
    from allotment.declared.reading import nearest

    return nearest(word, [printable(candidate) for candidate in candidates])


def publish_check(root: Path) -> PublishCheck:
    """Return a check of publishing, as a clone sees it."""
    from allotment.pipeline.status_view.publish_check import PublishCheck

    return PublishCheck(lambda source: day_of(source, None), recalled(root, "-publish"))


def silent_clusters(view: View) -> set[str]:
    """Return the clusters of which nobody knows what runs there now."""
    from allotment.reports.tables import is_stale

    now = datetime.datetime.now(datetime.UTC)
    return {status.cluster for status in view.now.clusters if is_stale(status, now)} | view.now.troubles.keys()


def say_declared(
    view: View, now: datetime.datetime, cluster: str | None = None, state: PublishState | None = None
) -> None:
    """Say, on standard error, which commit's declarations count, whether publishing lags behind it, and what of the
    clusters, or of `cluster` alone, can't be told."""
    from allotment.observed.publishing import headline
    from allotment.pipeline.report.joining import reporting
    from allotment.pipeline.report.statuses import NEVER
    from allotment.reports.tables import age

    source, declared = view.declared.source, view.declared
    if not is_quiet():
        commit_time = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
        differing = view.clone.differing(declared)
        beside = f"; the folder's changes ({counted(differing, 'file')}) don't count" if differing else ""
        words = f"{declared.words} at {source.commit[:12]}, {age(commit_time.isoformat(), now)} old{beside}"
        click.echo(f"declared: {printable(words, 400)}", err=True)
    if state is not None and (lag := headline(state, declared.branch or "HEAD")):
        click.echo(printable(lag, 1000), err=True)
    for name, words in sorted(view.now.troubles.items()):
        if cluster in (None, name):
            more = f": {reporting(name)}" if words == NEVER else ""
            click.echo(f"{printable(name)}: {printable(words, 1000)}{printable(more)}", err=True)
