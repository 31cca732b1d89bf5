"""Provides the options, the clone and the check of names for all commands that read the status."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allotment.cli.completers import complete_clusters
from allotment.cli.options import choose_day, create_cache_opener, find_repository, is_quiet, repository_option
from allotment.problems import OperationRefused, escape_unprintable, pluralize, quote_value

if TYPE_CHECKING:
    from allotment.branches.declarations_clone import DeclarationsClone, DeclaredCommit
    from allotment.observed.publish_state import PublishState
    from allotment.observed.status import ClusterStatus
    from allotment.reports.outputs.status import DeclaredOutput
    from allotment.services.status_view.publish_check import PublishCheck
    from allotment.services.status_view.status_view import StatusView


POLL_SECONDS = 5  # seconds between two reads of the status; by default, a reporter commits at most once a minute
status_url_option = click.option(
    "--from",
    "url",
    metavar="URL",
    help="The repository of the status branches. Default: spec.git.status of the platform, or origin.",
)


def clone_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --repo and --from."""
    for option in (
        status_url_option,
        repository_option,
    ):
        command = option(command)
    return command


def open_status_remote(repo: Path | None, url: str | None) -> tuple[Any, Any, list[tuple[str, str | None]]]:
    """Return the repository, the remote of the status branches, and the merged clusters with their reporters' keys."""
    from allotment.branches.declarations_clone import DeclarationsClone
    from allotment.branches.platform_settings import read_reporter_keys

    clone = DeclarationsClone(find_repository(repo), url)
    declared = clone.fetch_declared_commit()
    remote = clone.remote(clone.resolve_urls(declared).status)
    return clone.repository, remote, sorted(read_reporter_keys(declared.source).items())


class State(click.ParamType[str]):
    """A state of an instance, storage or snapshot, in upper or lower case."""

    name = "state"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        states = _list_states()
        choice = {state.lower(): state for state in states}.get(str(value).lower())
        if choice is None:
            hint = suggest_name(str(value).capitalize(), states)
            if "did you mean" not in hint:
                hint = f": write one of {', '.join(state.lower() for state in states)}"
            self.fail(f"no state is named {quote_value(value)}{hint}", param, ctx)
        return choice

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        states = [state.lower() for state in _list_states()]
        return [CompletionItem(state) for state in states if state.startswith(incomplete.lower())]


def _list_states() -> tuple[str, ...]:
    """Return the states in the JSON output, and the state that only the text output shows."""
    from allotment.conditions import STARTING, STATES

    return (*STATES, STARTING)


cluster_option = click.option(
    "--cluster", metavar="NAME", shell_complete=complete_clusters, help="Show only this cluster."
)


def open_clone(repo: Path | None, url: str | None) -> DeclarationsClone:
    """Return the user's clone, from which the commands read the status; `url` has the status branches."""
    from allotment.branches.declarations_clone import DeclarationsClone

    return DeclarationsClone(find_repository(repo), url)


def split_resource_name(target: str) -> tuple[str, str]:
    """Return the tenant and the name in TENANT[/NAME]; the name is empty if the text is only TENANT."""
    tenant, _, name = target.strip("/").partition("/")
    return tenant, name


def check_names(view: StatusView, tenant: str, name: str, cluster: str | None = None) -> None:
    """Raise OperationRefused if a given tenant, resource or cluster is unknown. The error suggests similar names.

    A tenant or resource is known if it is declared or published, or if a cluster reports it. A cluster is known if it is declared.
    An empty tenant or name is not checked, and neither is the cluster None.
    """
    if cluster is not None and cluster not in view.reporter_keys:
        raise OperationRefused(f"no cluster is named {quote_value(cluster)}{suggest_name(cluster, view.reporter_keys)}")
    if tenant and tenant not in (tenants := list_known_tenants(view)) and tenant not in view.published_tenants:
        raise OperationRefused(
            f"no tenant is named {quote_value(tenant)}: no tenant with this name is declared, published or reported"
            f"{suggest_name(tenant, tenants)}{_note_folder(view)}"
        )
    if name and not any(row.resource.name == name for row in view.rows):
        known_names = {row.resource.name for row in view.rows}
        raise OperationRefused(
            f"{escape_unprintable(tenant)} has no resource named {quote_value(name)}: no such name is declared, published or reported"
            f"{suggest_name(name, known_names)}{_note_folder(view)}"
        )


def _note_folder(view: StatusView) -> str:
    """Return a note about the files in the folder that are not merged: a name that is not found may be one of theirs."""
    differing = view.clone.count_differing_files(view.declared_commit)
    files = pluralize(differing, "file")
    return f"; the folder's changes ({files}) are not in {view.declared_commit.label} yet" if differing else ""


def list_known_tenants(view: StatusView) -> set[str]:
    """Return the tenants that are declared, or that a cluster reports."""
    return {*view.tenants, *(status.tenant for status in view.reported_status.tenants)}


def suggest_name(word: str, candidates: Iterable[str]) -> str:
    """Return a suggestion of similar names, as `reading.suggest_name` does. It loads that module only when it is called."""
    from allotment.declared.reading import suggest_name

    return suggest_name(word, candidates)


def create_publish_check(root: Path) -> PublishCheck:
    """Return the check that finds out whether the declared commit is published."""
    from allotment.services.status_view.publish_check import PublishCheck

    return PublishCheck(lambda source: choose_day(source, None), create_cache_opener(root, "-publish"))


def find_silent_clusters(view: StatusView) -> set[str]:
    """Return the clusters with an old, an unusable or no last report. Their current state is unknown."""
    from allotment.reports.status_tables import is_stale

    now = datetime.datetime.now(datetime.UTC)
    return {
        status.cluster for status in view.reported_status.clusters if is_stale(status, now)
    } | view.reported_status.troubles.keys()


def list_cluster_statuses(view: StatusView, cluster: str | None) -> list[ClusterStatus]:
    """Return the status of each declared cluster, or of `cluster` alone; an empty status for a cluster without a report."""
    from allotment.observed.status import ClusterStatus

    statuses = {status.cluster: status for status in view.reported_status.clusters}
    names = sorted(name for name in view.reporter_keys if cluster in (None, name))
    return [statuses.get(name, ClusterStatus(name, "")) for name in names]


def build_declared_output(view: StatusView) -> DeclaredOutput:
    """Return the part of the JSON output that describes the commit of the declarations."""
    from allotment.reports.outputs.status import DeclaredOutput

    source = view.declared_commit.source
    commit_time = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
    differing = view.clone.count_differing_files(view.declared_commit)
    return DeclaredOutput(view.declared_commit.label, source.commit, commit_time.isoformat(), differing)


def print_declared_commit(
    view: StatusView,
    now: datetime.datetime,
    cluster: str | None = None,
    state: PublishState | None = None,
    tenant: str | None = None,
) -> None:
    """Print to standard error how current the status is.

    It prints the commit of the declarations, whether publishing is behind this commit, the retained tenants, and the
    clusters without a usable report. With `cluster`, it leaves out the other clusters. With `tenant`, it names no other
    retained tenant.
    """
    from allotment.branches.status_reader import NEVER_REPORTED
    from allotment.observed.publish_state import format_headline
    from allotment.services.status_view.status_view import suggest_reporter

    declared = view.declared_commit
    if not is_quiet():
        print_commit_age(declared, view.clone.count_differing_files(declared), now)
    if state is not None and (lag := format_headline(state, declared.branch or "HEAD", tenant)):
        click.echo(escape_unprintable(lag, 1000), err=True)
    for name, message in sorted(view.reported_status.troubles.items()):
        if cluster in (None, name):
            more = f": {suggest_reporter(name)}" if message == NEVER_REPORTED else ""
            click.echo(
                f"{escape_unprintable(name)}: {escape_unprintable(message, 1000)}{escape_unprintable(more)}", err=True
            )


def print_commit_age(declared: DeclaredCommit, differing: int, now: datetime.datetime) -> None:
    """Print to standard error the commit of the declarations and its age. `differing` files of the folder differ from it."""
    from allotment.reports.status_tables import format_age

    source = declared.source
    commit_time = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
    note = f"; the folder's changes ({pluralize(differing, 'file')}) don't count" if differing else ""
    message = f"{declared.label} at {source.commit[:12]}, {format_age(commit_time.isoformat(), now)} old{note}"
    click.echo(f"declared: {escape_unprintable(message, 400)}", err=True)
