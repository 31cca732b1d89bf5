"""`allot set`: sets fields of a declaration."""

from __future__ import annotations

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change


@click.command()
@click.argument("target", metavar="KIND/NAME")
@click.argument("assignments", metavar="FIELD=VALUE...", nargs=-1, required=True)
@change_options
def command(*, target: str, assignments: tuple[str, ...], options: ChangeOptions) -> None:
    """Set fields of a declaration. Comments and all other lines stay as they are.

    KIND/NAME is a kind and a name. The tenant or the cluster comes before the name: GPUInstance/TENANT/NAME,
    Stock/CLUSTER/NAME. FIELD is a path such as spec.gpuSpec; a path without spec or metadata begins in spec. An item of a
    list has its name as its key: storages.models.mountPath. A name with dots is in double quotes. FIELD+=ITEM adds an item
    to a list, and FIELD- removes a field or an item.

    By default, the command changes the file in the folder. It prints the difference and the plan. An invalid result changes
    nothing.

    Exit status: 0 success, 2 the field or the value is wrong.

    \b
    Examples:
      allot set instance/solo-ada/webui state=Stopped
      allot set instance/solo-ada/webui gpuSpec=l4 metadata.labels.team=design --commit
      allot set instance/solo-ada/webui 'storages+={name: models, mountPath: /models}' --push
      allot set storage/solo-ada/models size=200Gi
      allot set Stock/eu-1/l4-whole description-
      allot set Members/ml-orbit 'groups."team.research".role=Viewer'
    """
    from allotment.edits.field_assignments import parse_declaration_name, set_fields

    name = parse_declaration_name(target)
    run_change(options, lambda declarations: set_fields(declarations, name, assignments))
