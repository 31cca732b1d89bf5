"""`allot stock add` and `remove`: declare the units of node pools, one stock or a file of stocks at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import (
    complete_gpu_specs,
    complete_node_pools,
    complete_stocks,
    complete_tenants,
)
from allotment.cli.edit_commands.field_options import (
    list_choices,
    read_option_rows,
    require_table_options,
    run_field_change,
    table_options,
)
from allotment.edits.option_tables import STOCK_OPTIONS, list_inputs

if TYPE_CHECKING:
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations

_COMPLETERS = {"spec": complete_gpu_specs, "tenant": complete_tenants, "node-pool": complete_node_pools}


@click.command("add")
@click.argument("target", metavar="[CLUSTER/NAME]", required=False)
@table_options(STOCK_OPTIONS, _COMPLETERS)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Add a stock for each row: a YAML list (.yaml), or CSV with a header. Columns: name (CLUSTER/NAME), spec, count,"
    " tenant, node-pool, warm.",
)
@change_options
def add(
    *,
    target: str | None,
    file: Path | None,
    options: ChangeOptions,
    **values: str | None,
) -> None:
    """Declare a stock: the units of a GPUSpec in a node pool.

    With --from, the command adds the stocks of all rows in one change. If a row has a problem, the command adds none, and
    reports the problems of all rows with their lines.

    Exit status: 0 success, 2 the stock exists, or a value is wrong.

    \b
    Examples:
      allot stock add eu-1/l4-whole-uni --spec l4-whole --count 2 --tenant uni-lab
      allot stock add us-1/h100-more --spec h100-one --count 8 --warm 1 --commit
      allot stock add --from stocks.csv --push
    """
    from allotment.edits.declarations import split_cluster_name
    from allotment.edits.stock_edits import COLUMNS, NewStock, add_stock, add_stocks

    settings = {f"--{row.name}": values[row.key] for row in STOCK_OPTIONS}
    if file is not None:
        rows = read_option_rows(file, COLUMNS, {"CLUSTER/NAME": target, **settings})
        run_change(options, lambda declarations: add_stocks(declarations, rows))
        return
    if target is None:
        raise click.UsageError("name the stock: add CLUSTER/NAME, or --from FILE to add several stocks")
    cluster, name = split_cluster_name(target)

    def build(declarations: Declarations) -> ChangeSet:
        require_table_options(STOCK_OPTIONS, values, {"spec": list_choices(_list_specs(declarations))})
        texts = {key: text or "" for key, text in values.items()}
        stock = NewStock(cluster=cluster, name=name, gpu_spec=texts.pop("spec"), **texts)
        return add_stock(declarations, stock)

    run_field_change(options, build, list_inputs(STOCK_OPTIONS))


def _list_specs(declarations: Declarations) -> list[str]:
    from allotment.declared.kinds.gpu_spec import GPUSpec

    return declarations.list_names(GPUSpec)


@click.command("remove")
@click.argument("targets", metavar="CLUSTER/NAME...", nargs=-1, required=True, shell_complete=complete_stocks)
@change_options
def remove(*, targets: tuple[str, ...], options: ChangeOptions) -> None:
    """Remove stocks. Tenants can't hold the units any more; the nodes stay.

    Exit status: 0 success, 2 a stock is not declared, or instances hold its units.

    \b
    Examples:
      allot stock remove eu-1/l4-whole-kite
      allot stock remove eu-1/a100-1g eu-1/a100-3g --push
    """
    from allotment.edits.declarations import split_cluster_name
    from allotment.edits.stock_edits import remove_stocks

    names = [split_cluster_name(target) for target in targets]
    run_change(options, lambda declarations: remove_stocks(declarations, names))


COMMANDS = (add, remove)
