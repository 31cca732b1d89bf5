"""The verbs of `allot storage` that edit declarations: create, grow, snapshot, clone and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_clusters, complete_tenants, create_resource_completer
from allotment.cli.edit_commands.field_options import question_options, require_resource_name, table_options
from allotment.cli.edit_commands.offers import open_offers
from allotment.cli.options import find_repository
from allotment.edits.option_tables import STORAGE_OPTIONS

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations

_COMPLETE_STORAGE = create_resource_completer("storages")
_EXAMPLE = "solo-ada/models"


@click.command("create")
@click.argument("target", metavar="TENANT/NAME", shell_complete=complete_tenants)
@table_options(STORAGE_OPTIONS, {"cluster": complete_clusters}, absent="")
@question_options
@change_options
def create(*, target: str, is_confirmed: bool, no_input: bool, options: ChangeOptions, **values: Any) -> None:
    """Create a storage, and optionally fill it.

    On a terminal, the command asks for missing options, with the prices and the limits of your tenant. It shows the new file
    and the plan, and asks before it writes.

    The formats of --source are https://HOST/FILE#sha256=HASH, hf:OWNER/MODEL[@REVISION]/FILE#sha256=HASH,
    storage:[TENANT/]NAME, snapshot:NAME, s3:https://HOST/BUCKET/PREFIX and image:IMAGE@DIGEST.

    Exit status: 0 success, 1 you declined, 2 an option is missing or wrong, or the result is invalid. Then nothing is written.

    \b
    Examples:
      allot storage create solo-ada/checkpoints
      allot storage create solo-ada/checkpoints --cluster eu-1 --size 50Gi
      allot storage create solo-ada/files --cluster eu-1 --size 50Gi --storage-spec shared-files --push
      allot storage create solo-ada/objects --cluster eu-1 --size 100Gi --bucket
    """
    from allotment.cli.prompts import choose_confirmation, complete_options, has_terminal
    from allotment.cli.questions import ask_storage_options
    from allotment.declared.kinds.gpu_storage import GPUStorage
    from allotment.declared.layout import Scope
    from allotment.edits.storage_creation import StorageOptions, create_storage

    tenant, name = require_resource_name(target, _EXAMPLE)
    arguments, offers = StorageOptions(**values), open_offers(options)
    storage = arguments
    is_interactive = has_terminal(options, no_input=no_input)
    is_incomplete = not (storage.cluster and storage.size)

    def build(declarations: Declarations) -> ChangeSet:
        nonlocal storage, is_incomplete
        if is_incomplete:
            path = declarations.create_path(GPUStorage, Scope("tenant", tenant), name)
            storage = complete_options(
                options,
                path,
                arguments,
                (lambda: ask_storage_options(declarations, arguments, offers.bind(declarations).read(tenant)))
                if is_interactive
                else None,
            )
            is_incomplete = False  # each further call uses the same answers
        return create_storage(declarations, tenant, name, storage)

    run_change(options, build, choose_confirmation(is_interactive=is_interactive, is_confirmed=is_confirmed))


@click.command("grow")
@click.argument("target", metavar="TENANT/NAME", shell_complete=_COMPLETE_STORAGE)
@click.argument("size", metavar="SIZE")
@change_options
def grow(*, target: str, size: str, options: ChangeOptions) -> None:
    """Grow a storage. Its content stays, and it never shrinks.

    \b
    Examples:
      allot storage grow solo-ada/models 200Gi
    """
    from allotment.edits.storage_edits import grow_storage

    tenant, name = require_resource_name(target, _EXAMPLE)
    run_change(options, lambda declarations: grow_storage(declarations, tenant, name, size))


@click.command("snapshot")
@click.argument("target", metavar="TENANT/STORAGE", shell_complete=_COMPLETE_STORAGE)
@click.argument("name", metavar="NAME")
@change_options
def snapshot(*, target: str, name: str, options: ChangeOptions) -> None:
    """Create a snapshot of a storage. The cluster takes it after the merge.

    \b
    Examples:
      allot storage snapshot solo-ada/models models-before-upgrade
    """
    from allotment.edits.storage_edits import create_snapshot

    tenant, storage = require_resource_name(target, _EXAMPLE)
    run_change(options, lambda declarations: create_snapshot(declarations, tenant, storage, name))


@click.command("clone")
@click.argument("source", metavar="TENANT/STORAGE", shell_complete=_COMPLETE_STORAGE)
@click.argument("new", metavar="[TENANT/]NEW")
@click.option(
    "--snapshot", default="", metavar="NAME", help="Copy this snapshot of the storage, not its present content."
)
@click.option("--size", default="", metavar="SIZE", help="The size of the copy. Default: the size of the storage.")
@change_options
def clone(*, source: str, new: str, snapshot: str, size: str, options: ChangeOptions) -> None:
    """Create a storage with the content of another storage, or of a snapshot.

    The copy is in the same cluster, and has the same StorageSpec. To copy a storage that another tenant shares, write your
    tenant before the name NEW.

    \b
    Examples:
      allot storage clone solo-ada/models models-trial
      allot storage clone solo-ada/models models-restored --snapshot models-before-upgrade
      allot storage clone northlight/base-models solo-ada/base
    """
    from allotment.edits.storage_edits import clone_storage

    owner, storage = require_resource_name(source, _EXAMPLE)
    tenant, slash, name = new.rpartition("/")
    copy = (tenant if slash else owner, name)
    run_change(options, lambda declarations: clone_storage(declarations, (owner, storage), copy, snapshot, size))


@click.command("delete")
@click.argument("targets", metavar="TENANT/NAME...", nargs=-1, required=True, shell_complete=_COMPLETE_STORAGE)
@click.option("--snapshot", default="", metavar="NAME", help="Delete this snapshot of the storage, not the storage.")
@change_options
def delete(*, targets: tuple[str, ...], snapshot: str, options: ChangeOptions) -> None:
    """Delete storages with their data, or a snapshot of a storage, in two merges.

    The first call sets `deletionPolicy: Delete`, which deletes no data. After the merge of this change, the second call removes
    the files. It refuses if the first change is not merged yet.

    \b
    Examples:
      allot storage delete solo-ada/models
      allot storage delete solo-ada/models --push
      allot storage delete studio-kite/outputs --snapshot before-upgrade
    """
    from allotment.edits.storage_edits import delete_snapshot, delete_storages
    from allotment.services.changes.declared_files import read_merged_versions

    storages = [require_resource_name(target, _EXAMPLE) for target in targets]
    if snapshot and len(storages) > 1:
        raise click.UsageError(f"--snapshot needs one storage, and {len(storages)} are named: write one TENANT/NAME")

    def build(declarations: Any) -> Any:
        def read_merged(path: str) -> list[bytes | None]:
            if options.changes_folder:
                return read_merged_versions(find_repository(options.repo), path)
            return [declarations.read(path)]

        if snapshot:
            return delete_snapshot(declarations, storages[0], snapshot, read_merged)
        return delete_storages(declarations, storages, read_merged)

    run_change(options, build)
