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
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.observed.joined import Joined
    from allotment.pipeline.report.clone import Clone
    from allotment.pipeline.report.joining import View, Wrong


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


def parted(what: str) -> tuple[str, str]:
    """Return tenant and name of TENANT[/NAME]; the name is empty where there is none."""
    tenant, _, name = what.strip("/").partition("/")
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
        known = {row.thing.name for row in view.rows}
        raise Refused(
            f"{printable(tenant)} has nothing named {quoted(name)}: nothing declares it, and no cluster reports it{near(name, known)}"
        )


def known_tenants(view: View) -> set[str]:
    """Return the tenants that are declared, or that a cluster reports."""
    return {*view.tenants, *(one.tenant for one in view.now.tenants)}


def near(word: str, known: Iterable[str]) -> str:
    """Return which of some known names was meant, perhaps. Whoever wrote them can do nothing to a terminal."""
    from allotment.declared.reading import nearest

    return nearest(word, [printable(one) for one in known])


class Invalid:
    """What is invalid in commits, each of them checked once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Wrong] = {}

    def explained(self, view: View, rows: Iterable[Joined]) -> list[Joined]:
        """Return rows that say why they aren't published, where they aren't."""
        return list(view.explained(rows, self._judge))

    def _judge(self, source: CommitSource) -> Wrong:
        from allotment.pipeline.check.survey import survey
        from allotment.pipeline.report.joining import Wrong

        if source.commit not in self._known:
            found = survey(source, day_of(source, None), recall=recalled(self._root, "-commit"))
            self._known[source.commit] = Wrong(*found.by_owner())
        return self._known[source.commit]


def silent_clusters(view: View) -> set[str]:
    """Return the clusters of which nobody knows what runs there now."""
    from allotment.reports.tables import is_stale

    now = datetime.datetime.now(datetime.UTC)
    return {one.cluster for one in view.now.clusters if is_stale(one, now)} | view.now.troubles.keys()


def say_declared(view: View, now: datetime.datetime) -> None:
    """Say, on standard error, which commit's declarations count, and what of the clusters can't be told."""
    from allotment.pipeline.report.joining import reporting
    from allotment.pipeline.report.statuses import NEVER
    from allotment.reports.tables import age

    source, declared = view.declared.source, view.declared
    if not is_quiet():
        made = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
        differing = view.clone.differing(declared)
        beside = f"; the folder's changes ({counted(differing, 'file')}) don't count" if differing else ""
        words = f"{declared.words} at {source.commit[:12]}, {age(made.isoformat(), now)} old{beside}"
        click.echo(f"declared: {printable(words, 400)}", err=True)
    for cluster, words in sorted(view.now.troubles.items()):
        more = f": {reporting(cluster)}" if words == NEVER else ""
        click.echo(f"{printable(cluster)}: {printable(words, 1000)}{printable(more)}", err=True)
