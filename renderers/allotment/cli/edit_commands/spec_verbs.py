"""`allot spec add`, `price`, `deprecate`, `retire` and `activate`: declare GPUSpecs, and change prices and lifecycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from allotment.cli.change_options import ChangeOptions, change_options
from allotment.cli.change_run import run_change
from allotment.cli.completers import complete_gpu_specs
from allotment.cli.edit_commands.field_options import (
    RequiredOption,
    list_choices,
    read_billing_day,
    require_options,
    require_table_options,
    run_field_change,
    table_options,
)
from allotment.edits.option_tables import GPU_SPEC_OPTIONS, list_inputs

if TYPE_CHECKING:
    from allotment.declared.kinds.declaration import Lifecycle
    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations

_specs_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_gpu_specs)


@click.command("add")
@click.argument("name", metavar="NAME")
@table_options(GPU_SPEC_OPTIONS)
@change_options
def add(*, name: str, options: ChangeOptions, **values: Any) -> None:
    """Declare a GPUSpec: a size of GPU instance, with its price.

    Sizes have a unit: Mi, Gi or Ti. All values except the price, the texts and the lifecycle are immutable once merged.
    `allot stock add` then adds units of the GPUSpec to clusters.

    Exit status: 0 success, 2 the GPUSpec exists, or a value is wrong.

    \b
    Examples:
      allot spec add l4-two --gpu nvidia-l4 --gpu-count 2 --gpu-memory 24Gi --cpu 16 --memory 64Gi --disk 200Gi --price 1.60
      allot spec add a100-2g --gpu nvidia-a100-80gb --gpu-memory 80Gi --mig 2g.20gb --cpu 8 --memory 60Gi --disk 100Gi
        --price 0.79 --from 2027-01-01
    """
    from allotment.edits.spec_edits import add_spec, list_gpu_models

    if options.operation_id:
        message = "a day such as 2027-01-01, because a repeat with --operation-id has another default on the next day"
        require_options(RequiredOption("--from", values["start"], message))

    def build(declarations: Declarations) -> ChangeSet:
        models = f"a GPU model: {list_choices(list_gpu_models(declarations))}"
        require_table_options(GPU_SPEC_OPTIONS, values, {"gpu": models})
        today = read_billing_day(declarations)
        return add_spec(declarations, name, _build_spec(values | {"start": values["start"] or today.isoformat()}))

    inputs = {"spec": "--tenancy", "spec.sharing": "--time-slicing, --mps, --mig", **list_inputs(GPU_SPEC_OPTIONS)}
    run_field_change(options, build, inputs)


def _build_spec(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a GPUSpec from the values of the options."""
    from allotment.edits.new_declaration import parse_number
    from allotment.manifests.yaml_text import without_empty

    sharing = {
        "timeSlicing": values["time_slicing"] and {"replicas": parse_number(values["time_slicing"])},
        "mps": values["mps"] and {"replicas": parse_number(values["mps"])},
        "mig": values["mig"] and {"profile": values["mig"]},
    }
    gpu = {
        "model": values["model"],
        "count": parse_number(values["gpu_count"]),
        "memory": values["gpu_memory"],
        "cudaCores": parse_number(values["cuda_cores"] or ""),
    }
    fields = {
        "displayName": values["display_name"],
        "description": values["description"],
        "gpu": without_empty(gpu),
        "cpu": parse_number(values["cpu"]),
        "memory": values["memory"],
        "disk": values["disk"],
        "sharing": without_empty(sharing),
        "tenancy": values["tenancy"],
        "capacityType": "Spot" if values["spot"] else None,
        "prices": [{"from": values["start"], "perHour": values["price"]}],
    }
    return without_empty(fields)


@click.command("price")
@click.argument("name", metavar="NAME", shell_complete=complete_gpu_specs)
@click.argument("amount", metavar="AMOUNT")
@click.option(
    "--from", "start", metavar="DAY", help="The first day of the price: tomorrow or later, such as 2027-01-01."
)
@change_options
def price(*, name: str, amount: str, start: str | None, options: ChangeOptions) -> None:
    """Set the price of a GPUSpec per unit and hour from a day on. Prices that already apply never change.

    The price starts at midnight in the billing time zone. A price that does not apply yet can be set again.

    Exit status: 0 success, 2 the day is not after today, or a value is wrong.

    \b
    Examples:
      allot spec price l4-quarter 0.18 --from 2031-01-01
      allot spec price l4-quarter 0.18 --from 2031-01-01 --push
    """
    from allotment.edits.spec_edits import check_price_day, set_price

    def check_first(declarations: Declarations) -> None:
        today = read_billing_day(declarations)
        require_options(RequiredOption("--from", start, f"a day after today, {today}, such as {today.year + 1}-01-01"))
        check_price_day(declarations, name, start or "", today)

    def build(declarations: Declarations) -> ChangeSet:
        return set_price(declarations, name, amount, start or "")

    run_field_change(options, build, list_inputs(GPU_SPEC_OPTIONS) | {"spec.prices[].perHour": "AMOUNT"}, check_first)


@click.command("deprecate")
@_specs_argument
@change_options
def deprecate(*, names: tuple[str, ...], options: ChangeOptions) -> None:
    """Deprecate GPUSpecs: their users get a warning, and their instances keep running.

    \b
    Examples:
      allot spec deprecate l4-half
      allot spec deprecate l4-half l40s-spot --push
    """
    _set_lifecycles(names, "Deprecated", options)


@click.command("retire")
@_specs_argument
@change_options
def retire(*, names: tuple[str, ...], options: ChangeOptions) -> None:
    """Retire GPUSpecs: no other instance can use them, and their instances keep running.

    \b
    Examples:
      allot spec retire l4-half
      allot spec retire l4-half --commit
    """
    _set_lifecycles(names, "Retired", options)


@click.command("activate")
@_specs_argument
@change_options
def activate(*, names: tuple[str, ...], options: ChangeOptions) -> None:
    """Offer deprecated or retired GPUSpecs again.

    \b
    Examples:
      allot spec activate l4-half
      allot spec activate l4-half --commit
    """
    _set_lifecycles(names, "Active", options)


def _set_lifecycles(names: tuple[str, ...], lifecycle: Lifecycle, options: ChangeOptions) -> None:
    from allotment.edits.spec_edits import set_spec_lifecycles

    run_change(options, lambda declarations: set_spec_lifecycles(declarations, names, lifecycle))


COMMANDS = (add, price, deprecate, retire, activate)
