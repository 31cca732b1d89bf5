"""Provides the options, the clone and the check of names for all commands that read the status."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allotment.cli.completers import complete_clusters
from allotment.cli.options import choose_day, create_cache_opener, find_repository, is_quiet, repository_option
from allotment.problems import escape_unprintable, pluralize, quote_value

if TYPE_CHECKING:
    from allotment.branches.declarations_clone import DeclarationsClone, DeclaredCommit
    from allotment.observed.publish_state import PublishState
    from allotment.observed.status import ClusterStatus
    from allotment.reports.outputs.status import DeclaredOutput
    from allotment.services.status_view.publish_check import PublishCheck
    from allotment.services.status_view.status_view import StatusView


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
        from allotment.declared.reading import suggest_name

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


def create_publish_check(root: Path) -> PublishCheck:
    """Return the check that finds out whether the declared commit is published."""
    from allotment.services.status_view.publish_check import PublishCheck

    return PublishCheck(lambda source: choose_day(source, None), create_cache_opener(root, "-publish"))


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
