"""Provides --pending, which adds the resources of open pull requests to a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from allotment.cli.comment_options import forge_api_option
from allotment.problems import OperationRefused, escape_unprintable

if TYPE_CHECKING:
    from allotment.observed.resource_rows import InstanceRowOutput, StorageRowOutput
    from allotment.services.pull_requests.pending_resources import PendingChange
    from allotment.services.status_view.clone_refs import CloneRefs
    from allotment.services.status_view.resource_list import ResourceListing

R = TypeVar("R", bound="InstanceRowOutput | StorageRowOutput")


class PendingOptions(NamedTuple):
    """The values of --pending, --forge-token-file and --forge-api."""

    is_requested: bool
    token_file: Path | None
    api: str | None


def pending_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --pending, --forge-token-file and --forge-api. The command gets them as `pending` (`PendingOptions`)."""

    def wrapped(*, pending: bool, forge_token_file: Path | None, forge_api: str | None, **values: Any) -> Any:
        return command(pending=PendingOptions(pending, forge_token_file, forge_api), **values)

    wrapped.__doc__ = command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    result: Callable[..., Any] = wrapped
    for option in (
        forge_api_option,
        click.option(
            "--forge-token-file",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            help="A file with the forge's token, for --pending. Default: the environment variable ALLOT_FORGE_TOKEN.",
        ),
        click.option(
            "--pending", is_flag=True, help="Show the resources of open pull requests too, with their numbers."
        ),
    ):
        result = option(result)
    return result


def read_pending(options: PendingOptions, refs: CloneRefs, listing: ResourceListing) -> list[PendingChange]:
    """Return the changes of open pull requests; empty without --pending. Prints a note for each unreadable pull request.

    Raises UsageError without a token, and OperationRefused without a branch at origin.
    """
    if not options.is_requested:
        return []
    from allotment.adapters import forge
    from allotment.adapters.git.remote import Remote
    from allotment.branches.platform_settings import ORIGIN, read_platform
    from allotment.cli.comment_options import read_token
    from allotment.services.pull_requests.pending_resources import PendingReader

    token, declared = read_token(options.token_file), refs.declared_commit
    platform = read_platform(declared.source)
    if platform is None or not declared.branch:
        raise OperationRefused("--pending needs the remote origin with the branch that pull requests merge into")
    git = platform.spec.git
    connection = forge.connect(git.forge, git.url, token, options.api)
    remote = Remote(refs.clone.repository, ORIGIN)  # it keeps no refs of pull requests in the clone
    pending = PendingReader(declared.source, declared.branch, connection, remote, listing.tenants).read()
    for note in pending.notes:
        click.echo(f"pull request {escape_unprintable(note, 1000)}", err=True)
    return pending.changes


def merge_rows(rows: Sequence[R], pending: Iterable[R]) -> list[R]:
    """Return rows with the rows of pull requests after the row of the same name."""
    if not (additional := list(pending)):
        return list(rows)
    return sorted([*rows, *additional], key=lambda row: (row.tenant, row.name, row.cluster))


def pending_instances(changes: list[PendingChange], listing: ResourceListing) -> Iterator[InstanceRowOutput]:
    """Yield the rows of the instances that pull requests change."""
    from allotment.declared.tenant_facts import InstanceFacts
    from allotment.observed.resource_rows import pending_instance_row, removal_rows

    for change in changes:
        if isinstance(change.facts, InstanceFacts):
            tenant = listing.tenants.get(change.tenant)
            yield pending_instance_row(change.facts, tenant, listing.offers, change.path, change.pull_request)
        elif change.kind == "GPUInstance":
            yield from removal_rows(listing.instances, change.tenant, change.name, change.pull_request)


def pending_storages(changes: list[PendingChange], listing: ResourceListing) -> Iterator[StorageRowOutput]:
    """Yield the rows of the storages that pull requests change."""
    from allotment.declared.tenant_facts import StorageFacts
    from allotment.observed.resource_rows import declared_storage_row, removal_rows

    for change in changes:
        if isinstance(change.facts, StorageFacts):
            yield declared_storage_row(change.facts, listing.offers, change.path, change.pull_request)
        elif change.kind == "GPUStorage":
            yield from removal_rows(listing.storages, change.tenant, change.name, change.pull_request)
