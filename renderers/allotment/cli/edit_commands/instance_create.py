"""`allot instance create`: writes the declarations of new instances and of the storages that they mount."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.change_options import ChangeOptions, InvalidChange, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_clusters, complete_gpu_specs, complete_tenants
from allotment.cli.edit_commands.field_options import question_options, read_file, require_resource_name, table_options
from allotment.cli.edit_commands.offers import open_offers
from allotment.cli.options import WholeNumber
from allotment.edits.option_tables import INSTANCE_OPTIONS

if TYPE_CHECKING:
    from allotment.cli.edit_commands.offers import OfferReader
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations
    from allotment.edits.instance_batch import InstanceRow
    from allotment.edits.instance_creation import InstanceOptions, NewInstance


_COMPLETERS = {"cluster": complete_clusters, "gpu-spec": complete_gpu_specs}


@click.command("create")
@click.argument("target", metavar="[TENANT/NAME]", required=False, shell_complete=complete_tenants)
@table_options(INSTANCE_OPTIONS, _COMPLETERS, absent="")
@click.option(
    "--count",
    type=WholeNumber(1, 1000),
    help="Create NAME-1, NAME-2 and so on, at most 1000. {n} in NAME is the number.",
)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Create the instances in a YAML list or a CSV file. Its columns are `name` (TENANT/NAME) and the names of options.",
)
@question_options
@change_options
def create(
    *,
    target: str | None,
    count: int | None,
    file: Path | None,
    is_confirmed: bool,
    no_input: bool,
    options: ChangeOptions,
    **values: Any,
) -> None:
    """Create an instance, and optionally the storages that it mounts. With --count or --from, create many.

    On a terminal, the command asks for missing options, with the prices and the limits of your tenant. It shows the new files
    and the plan, and asks before it writes.

    --app runs an app of the catalog, and --image runs your own image. --new-storage creates a storage in the same change.
    --source fills it, in one of the formats https://HOST/FILE#sha256=HASH, hf:OWNER/MODEL[@REVISION]/FILE#sha256=HASH,
    storage:[TENANT/]NAME, snapshot:NAME, s3:https://HOST/BUCKET/PREFIX or image:IMAGE@DIGEST.

    Many instances are one change: all are created, or none. In a CSV file, separate several values of a cell by semicolons.
    An option of the command line applies to each row that lacks it.

    Exit status: 0 success, 1 you declined, 2 an option is missing or wrong, or the result is invalid. Then nothing is written.

    \b
    Examples:
      allot instance create solo-ada/notebook
      allot instance create solo-ada/notebook --cluster eu-1 --gpu-spec l4-quarter --app jupyter
      allot instance create solo-ada/painter --cluster eu-1 --gpu-spec l4-quarter --app stable-diffusion-webui \\
        --new-storage checkpoints:50Gi:/workspace/models --new-storage pictures:20Gi:/workspace/outputs
      allot instance create uni-lab/student --count 20 --cluster eu-1 --gpu-spec l4-quarter --app jupyter
      allot instance create --from students.csv --app jupyter
    """
    from allotment.cli.prompts import choose_confirmation, has_terminal
    from allotment.edits.instance_creation import InstanceOptions

    rows = _read_instances(target, count, file, InstanceOptions(**values))
    offers = open_offers(options)
    is_interactive = has_terminal(options, no_input=no_input)
    is_incomplete = not count and file is None

    def build(declarations: Declarations) -> ChangeSet:
        from allotment.edits.instance_batch import create_instances

        nonlocal rows, is_incomplete
        offers.bind(declarations)
        if is_incomplete:
            rows = [_complete(declarations, rows[0], offers, options, asks=is_interactive)]
            is_incomplete = False  # each further call uses the same answers
        return create_instances(declarations, rows, offers.list_gpu_specs)

    try:
        run_change(options, build, choose_confirmation(is_interactive=is_interactive, is_confirmed=is_confirmed))
    except InvalidChange as error:
        raise _with_choices(error, [row.instance for row in rows], offers) from None


def _read_instances(
    target: str | None, count: int | None, file: Path | None, options: InstanceOptions
) -> list[InstanceRow]:
    """Return the instances that the arguments describe. Raises UsageError if the arguments exclude each other."""
    from allotment.edits.instance_batch import InstanceRow, number_instances, read_instances
    from allotment.edits.instance_creation import NewInstance

    if file is not None:
        if target is not None or count is not None:
            raise click.UsageError("--from excludes TENANT/NAME and --count: the file has the names")
        return read_instances(str(file), read_file("--from", file), options)
    if target is None:
        raise click.UsageError("name the instance as TENANT/NAME, or add --from FILE")
    tenant, name = require_resource_name(target)
    return [InstanceRow("", each) for each in number_instances(NewInstance(tenant, name, options), count or 1)]


def _complete(
    declarations: Declarations, row: InstanceRow, offers: OfferReader, change_options: ChangeOptions, *, asks: bool
) -> InstanceRow:
    """Return the instance with the answers to questions about its missing options, now or by an earlier command."""
    from allotment.cli.prompts import complete_options
    from allotment.cli.questions import ask_instance_options
    from allotment.declared.kinds.gpu_instance import GPUInstance
    from allotment.declared.layout import Scope

    new = row.instance
    path = declarations.create_path(GPUInstance, Scope("tenant", new.tenant), new.name)
    answers = complete_options(
        change_options,
        path,
        new.options,
        (lambda: ask_instance_options(declarations, new, offers.read(new.tenant))) if asks else None,
    )
    return row._replace(instance=new._replace(options=answers))


def _with_choices(error: InvalidChange, instances: list[NewInstance], offers: OfferReader) -> InvalidChange:
    """Return the error with the GPUSpecs that the tenants can use, if the error is about a GPUSpec, a quota or a stock."""
    if "spec.gpuSpec: " not in str(error) and "[quota]" not in str(error) and "[stock]" not in str(error):
        return error
    places = dict.fromkeys((new.tenant, new.options.cluster) for new in instances)
    lines = [
        f"{tenant} can use in {cluster}: {', '.join(offers.list_gpu_specs(tenant, cluster)) or 'no GPUSpec'}"
        for tenant, cluster in places
    ]
    return InvalidChange("\n".join([str(error), *lines]))
