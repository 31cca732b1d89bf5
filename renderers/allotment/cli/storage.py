"""`allot storage`: lists and edits storages, and copies files between the local computer and a storage."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.shell_completion import CompletionItem

from allotment.cli import recover
from allotment.cli.completers import create_resource_completer
from allotment.cli.edit_commands import storage_verbs
from allotment.cli.lists import storage_list
from allotment.cli.lists.show import show_storage
from allotment.cli.options import find_repository, is_quiet, open_source, output_option
from allotment.cli.pod_access_options import find_contexts, kubeconfig_options, open_kubeconfig
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import OperationRefused, escape_unprintable, pluralize, quote_value

if TYPE_CHECKING:
    from allotment.access.copy.download import DownloadPlan
    from allotment.access.copy.transfer import Progress
    from allotment.access.copy.upload import UploadPlan
    from allotment.access.pods.file_access import FileAccess

_REMOTE = re.compile(r"([a-z0-9-]+)/([a-z0-9-]+):(.*)", re.DOTALL)


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List, create, change and delete storages, and copy files between this computer and a storage.

    \b
    Examples:
      allot storage list solo-ada
      allot storage show solo-ada/models
      allot storage create solo-ada/checkpoints --cluster eu-1 --size 50Gi
      allot storage cp model.safetensors solo-ada/models:/checkpoints/
      allot storage cp solo-ada/outputs:/ ./outputs
    """


for verb in (
    storage_verbs.create,
    storage_verbs.grow,
    storage_verbs.snapshot,
    storage_verbs.clone,
    storage_verbs.delete,
):
    command.add_command(verb)
command.add_command(recover.command, "recover")
command.add_command(storage_list.command)
command.add_command(show_storage)


class RemotePath(NamedTuple):
    """A path on a storage, with a slash at its start."""

    tenant: str
    storage: str
    path: str


def _complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the storages, and let the shell complete local files."""
    storages = create_resource_completer("storages")(context, parameter, incomplete)
    remote = [CompletionItem(f"{name}:/") for name in storages if "/" in name]
    return [*remote, CompletionItem(incomplete, type="file")]


@command.command("cp")
@click.argument("source", metavar="SOURCE", shell_complete=_complete_path)
@click.argument("target", metavar="TARGET", shell_complete=_complete_path)
@output_option()
@click.option(
    "--url",
    "uses_url",
    is_flag=True,
    help="Use the URL of the storage and your `allot login`. Default: your kubeconfig, or this login without a kubeconfig.",
)
@kubeconfig_options
def copy(
    *,
    source: str,
    target: str,
    style: str,
    uses_url: bool,
    kubeconfig: Path | None,
    context: str | None,
    repo: Path | None,
) -> None:
    """Copy a file or a folder to a storage, or from a storage.

    Either SOURCE or TARGET is a path on a storage, such as solo-ada/models:/checkpoints; the other is a local path. The content of a
    folder goes into the folder TARGET. A file becomes TARGET, or goes into TARGET if it is a folder or ends with a slash. Folders are
    created. Write ./ before a local path that looks like a path on a storage.

    Every file is compared by its SHA-256 hash, and replaces the old file only when it is complete. A file with the same content is
    not copied again. After an interruption, run the same command again: it sends only the rest.

    The storage needs an `accessor`, and its `mode: ReadWrite` to copy files to it. Copy files to a ReadWriteOnce storage that a
    running instance mounts through this instance: the error has the command. The command connects to its file server with your
    own rights: those of a kubeconfig that permits listing pods and forwarding ports, or your role in the tenant at the URL of the
    storage, after `allot login`. This URL comes from the merged declarations of `origin`, because a branch can name other hosts.
    In a browser, open the URL that `allot status TENANT/NAME` prints.

    Exit status: 0 all files are copied, 2 the command is wrong, or the copy is not complete.

    \b
    Examples:
      allot storage cp model.safetensors solo-ada/models:/checkpoints/
      allot storage cp ./dataset solo-ada/models:/dataset
      allot storage cp solo-ada/outputs:/ ./outputs
      allot storage cp --url solo-ada/outputs:/2026/a.png .
    """
    from allotment.adapters.file_server import TransferError

    remote, local, is_upload = _parse_paths(source, target)
    if uses_url and (kubeconfig or context):
        raise click.UsageError("--url needs no kubeconfig: omit --kubeconfig and --context, or --url")
    access = _open_access(find_repository(repo), remote, uses_url, kubeconfig, context, is_upload=is_upload)
    started = time.monotonic()
    progress = None
    try:
        plan = _plan_upload(access, local, remote) if is_upload else _plan_download(access, local, remote, target)
        with _show_bytes("Copying and checking", [each.size for each in plan.files]) as progress:
            _run(access, plan, progress)
    except TransferError as error:
        raise OperationRefused(f"{access.explain(error, is_upload)}{_explain_rest(progress)}") from None
    _show_left_out(progress.left_out)
    _print_summary(progress, time.monotonic() - started, style)
    if progress.left_out:
        raise click.exceptions.Exit(2)


def _open_access(
    root: Path, remote: RemotePath, uses_url: bool, kubeconfig: Path | None, context: str | None, *, is_upload: bool
) -> FileAccess:
    """Return the access that the options choose, or else that with a kubeconfig, or else that with a login."""
    from allotment.access.pods.file_access import ForwardedFiles, PublishedFiles, find_storage
    from allotment.access.pods.tokens import read_token
    from allotment.branches.declarations_clone import DeclarationsClone, open_merged_source
    from allotment.branches.platform_settings import read_cluster

    is_forwarded = not uses_url and bool(kubeconfig or context or find_contexts(kubeconfig))
    source = open_source(root, None) if is_forwarded else open_merged_source(root, may_be_folder=False)
    storage = find_storage(source, remote.tenant, remote.storage, is_upload=is_upload)
    cluster = storage.model.spec.cluster
    if is_forwarded:
        return ForwardedFiles(open_kubeconfig(cluster, kubeconfig, context), remote.tenant, storage.model.name)
    declared = read_cluster(source, cluster)
    if declared is None:
        raise OperationRefused(f"clusters/{cluster}/cluster.yaml can't be read: `allot validate` shows its errors")
    return PublishedFiles(
        declared, remote.tenant, storage.model, partial(read_token, repository=DeclarationsClone(root).origin_url)
    )


def _plan_upload(access: FileAccess, local: Path, remote: RemotePath) -> UploadPlan:
    from allotment.access.copy.upload import plan_upload

    with access.open() as server:
        entry = server.find_entry(remote.path)
    plan = plan_upload(local, remote.path, remote.path.endswith("/") or (entry is not None and entry.is_folder))
    _show_left_out((str(path), reason) for path, reason in plan.left_out)
    return plan


def _show_left_out(left_out: Iterable[tuple[str, str]]) -> None:
    for name, reason in left_out:
        click.echo(f"{escape_unprintable(name)} is left out: {reason}", err=True)


def _plan_download(access: FileAccess, local: Path, remote: RemotePath, target: str) -> DownloadPlan:
    from allotment.access.copy.download import plan_download

    with access.open() as server:
        plan = plan_download(server, remote.path, local, target.endswith("/"))
    _show_left_out(plan.left_out)
    return plan


def _run(access: FileAccess, plan: UploadPlan | DownloadPlan, progress: Progress) -> None:
    from allotment.access.copy.download import DownloadPlan, download
    from allotment.access.copy.upload import upload

    if isinstance(plan, DownloadPlan):
        download(access.open, plan, progress)
    else:
        upload(access.open, plan, progress)


def _parse_paths(source: str, target: str) -> tuple[RemotePath, Path, bool]:
    """Return the path on the storage, the local path, and whether the copy goes to the storage. Raises UsageError."""
    from_storage, to_storage = _REMOTE.fullmatch(source), _REMOTE.fullmatch(target)
    if (from_storage is None) == (to_storage is None):
        number = "no" if from_storage is None else "each"
        raise click.UsageError(
            f"{number} argument is a path on a storage: write one of them as TENANT/STORAGE:/PATH, such as solo-ada/models:/a.bin,"
            " and the other as a local path"
        )
    match = from_storage or to_storage
    assert match is not None
    path = "/" + match[3].lstrip("/")
    parts = path.split("/")
    if any("\ud800" <= letter <= "\udfff" for letter in path):  # bytes of an argument that are not UTF-8
        raise click.UsageError(f"{quote_value(path)} is not UTF-8, as the paths on a storage are")
    if ".." in parts or "." in parts or "" in parts[1:-1] or "\0" in path:
        raise click.UsageError(
            f"{quote_value(path)} is no path on a storage: write it without '.', '..' and empty parts"
        )
    from allotment.programs.volume import LEFT_OUT

    if parts[1] in LEFT_OUT:
        raise click.UsageError(
            f"{quote_value(path)} is in a folder that belongs to the storage itself: choose another folder"
        )
    local = target if from_storage is not None else source
    return RemotePath(match[1], match[2], path), Path(local), to_storage is not None


@contextmanager
def _show_bytes(title: str, sizes: list[int]) -> Iterator[Progress]:
    """Provide a progress that shows the copied bytes on a terminal."""
    import sys

    from allotment.access.copy.transfer import Progress

    if not sys.stderr.isatty() or is_quiet():
        yield Progress(sum(sizes), None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=sum(sizes))
        yield Progress(sum(sizes), lambda done, total: bar.update(task, completed=done))


def _explain_rest(progress: Progress | None) -> str:
    if progress is None:
        return ""
    files = pluralize(progress.copied_files + progress.unchanged_files, "file")
    return f"; {files} complete: run the same command again to continue"


def _print_summary(progress: Progress, seconds: float, style: str) -> None:
    if style == "json":
        summary = {
            "copiedFiles": progress.copied_files,
            "unchangedFiles": progress.unchanged_files,
            "sentBytes": progress.sent_bytes,
            "seconds": round(seconds, 3),
        }
        click.echo(json.dumps(summary, indent=2))
        return
    from rich.filesize import decimal

    unchanged = f", {progress.unchanged_files} unchanged" if progress.unchanged_files else ""
    copied = pluralize(progress.copied_files, "file")
    if not is_quiet():
        click.echo(f"copied {copied}{unchanged}: sent {decimal(progress.sent_bytes)} in {seconds:.1f} s")
