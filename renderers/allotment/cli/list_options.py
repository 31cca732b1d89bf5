"""Provides the options, the sources and the formats of all commands that list."""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from allotment.cli.completers import complete_clusters, complete_gpu_specs, complete_tenants
from allotment.cli.options import choose_day, create_cache_opener, is_quiet
from allotment.cli.status_options import State, open_clone, print_commit_age
from allotment.problems import OperationRefused, escape_unprintable, quote_value

if TYPE_CHECKING:
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.branches.declarations_clone import DeclarationsClone
    from allotment.declared.instance_selection import LabelRequirement
    from allotment.observed.row_filters import RowFilter
    from allotment.reports.list_table import ListColumn
    from allotment.reports.outputs.output import Output
    from allotment.services.status_view.resource_list import ListingReader, ResourceListing

R = TypeVar("R")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Amount(click.ParamType[Decimal]):
    """An amount of money, such as 2.50."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(value)
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount < 0:
            self.fail(f"{quote_value(str(value))} is not an amount: write a number such as 2.50", param, ctx)
        return amount


class Size(click.ParamType[int]):
    """A size in the format of declarations, such as 40Gi. The value of the option is in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from pydantic_core import PydanticCustomError

        from allotment.declared.values import parse_size

        try:
            return parse_size(value)
        except PydanticCustomError as error:
            return self.fail(error.message(), param, ctx)


class LabelSelector(click.ParamType["list[LabelRequirement]"]):
    """A label selector, such as team=vision,!temporary."""

    name = "selector"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[LabelRequirement]:
        from allotment.declared.instance_selection import parse_label_requirements

        try:
            return parse_label_requirements(value)
        except OperationRefused as error:
            return self.fail(str(error), param, ctx)


class _ListFormat(click.Choice[str]):
    """The format of a list. `text` is another name of table."""

    def __init__(self) -> None:
        super().__init__(["table", "wide", "json", "yaml", "name"], case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert("table" if str(value).lower() == "text" else value, param, ctx)


def list_output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -o/--output and --sort-by. The value `style` is table, wide, json, yaml or name."""
    for option in (
        click.option(
            "--sort-by",
            metavar="COLUMN",
            help="Sort by this column, such as cost; with a minus sign, such as -cost, in descending order.",
        ),
        click.option(
            "-o",
            "--output",
            "style",
            type=_ListFormat(),
            default="table",
            show_default=True,
            help="The output format: wide has more columns, name has one name a line; schemas/output/ has the JSON Schemas.",
        ),
    ):
        command = option(command)
    return command


TENANT_FILTER = click.option(
    "--tenant", "tenants", multiple=True, metavar="NAME", shell_complete=complete_tenants, help="Only this tenant."
)


def tenant_filter(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --tenant and the argument TENANT. The value `tenants` has the names of both."""

    @functools.wraps(command)
    def run(*, tenant: str | None, tenants: tuple[str, ...], **values: Any) -> Any:
        return command(tenants=(*tenants, *([tenant] if tenant is not None else [])), **values)

    return TENANT_FILTER(click.argument("tenant", required=False, shell_complete=complete_tenants)(run))


CLUSTER_FILTER = click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME", shell_complete=complete_clusters, help="Only this cluster."
)
SPEC_FILTER = click.option(
    "--spec", "specs", multiple=True, metavar="NAME", shell_complete=complete_gpu_specs, help="Only this GPUSpec."
)
MODEL_FILTER = click.option(
    "--gpu", "models", multiple=True, metavar="MODEL", help="Only this GPU model, such as nvidia-l4."
)
MEMORY_FILTER = click.option(
    "--min-memory", type=Size(), default=0, metavar="SIZE", help="At least this memory of each GPU or GPU slice."
)
STATE_FILTER = click.option("--state", "states", type=State(), multiple=True, help="Only this state, such as failed.")
NODE_FILTER = click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only with a pod on this node.")
UNIT_PRICE_FILTER = click.option(
    "--max-price", type=Amount(), metavar="AMOUNT", help="At most this price of a unit per hour."
)
PRICE_FILTER = click.option("--max-price", type=Amount(), metavar="AMOUNT", help="At most this cost per hour.")
LABEL_FILTER = click.option(
    "-l",
    "--label",
    "selectors",
    type=LabelSelector(),
    multiple=True,
    metavar="SELECTOR",
    help="Only with these labels: key=value, key!=value, key or !key, separated by commas.",
)


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in the order of its help."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def build_filter(
    *,
    tenants: Sequence[str] = (),
    clusters: Sequence[str] = (),
    specs: Sequence[str] = (),
    models: Sequence[str] = (),
    min_memory: int = 0,
    max_price: Decimal | None = None,
    states: Sequence[str] = (),
    nodes: Sequence[str] = (),
    selectors: Sequence[list[LabelRequirement]] = (),
) -> RowFilter:
    """Return the conditions that the options of a list state."""
    from allotment.observed.row_filters import RowFilter

    labels = [requirement for requirements in selectors for requirement in requirements]
    return RowFilter(
        tenants=tenants,
        clusters=clusters,
        specs=specs,
        models=models,
        min_memory=min_memory,
        max_price=max_price,
        states=states,
        nodes=nodes,
        labels=labels,
    )


def open_listing(clone: DeclarationsClone) -> ListingReader:
    """Return the reader of a clone's listing, with its caches."""
    from allotment.services.status_view.resource_list import ListingReader

    return ListingReader(
        clone,
        lambda source: choose_day(source, None),
        create_cache_opener(clone.root, "-listing"),
        create_cache_opener(clone.root, "-facts"),
    )


def read_listing(reader: ListingReader) -> ResourceListing:
    """Return the listing. When the command ends, it prints the commit of the declarations, unless --quiet was given."""
    if not is_quiet():
        declared = reader.refs.declared_commit
        differing = reader.refs.clone.start_folder_comparison(declared)  # takes as long as the rest of the command
        click.get_current_context().call_on_close(
            lambda: print_commit_age(declared, differing.result(), current_time())
        )
    return reader.read()


def open_merged_source(repo: Path | None) -> CommitSource:
    """Return the merged declarations, and print their commit unless --quiet was given."""
    clone = open_clone(repo, None)
    declared = clone.fetch_declared_commit()
    if not is_quiet():
        print_commit_age(declared, clone.count_differing_files(declared), current_time())
    return declared.source


def print_troubles(listing: ResourceListing) -> None:
    """Print to standard error which clusters have no usable or no recent report, unless --quiet was given."""
    print_stale_notices(listing)
    if not is_quiet():
        for name, message in sorted(listing.troubles.items()):
            click.echo(f"{escape_unprintable(name)}: {escape_unprintable(message, 1000)}", err=True)


def print_stale_notices(listing: ResourceListing) -> None:
    """Print to standard error which clusters have no recent report, unless --quiet was given."""
    from allotment.reports.status_tables import stale_notices

    if not is_quiet():
        for notice in stale_notices(listing.reports, current_time()):
            click.echo(notice.plain, err=True)


def print_rows(
    rows: Sequence[R],
    columns: Sequence[ListColumn[R]],
    style: str,
    output: Output,
    label_of: Callable[[R], str],
) -> None:
    """Print rows in a format; `output` has them for JSON and YAML. Without rows, say so on standard error."""
    if not rows:
        click.echo("nothing matches", err=True)
    if style in ("json", "yaml"):
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.yaml_form import as_yaml

        click.echo(as_json(output) if style == "json" else as_yaml(output), nl=False)
    elif style == "name":
        click.echo("".join(f"{escape_unprintable(label_of(row), 400)}\n" for row in rows), nl=False)
    elif rows:
        print_table(rows, columns, wide=style == "wide")


def print_table(rows: Sequence[R], columns: Sequence[ListColumn[R]], *, wide: bool) -> None:
    """Print a table: with styles and wrapped to the width of a terminal, or as text for a pipe."""
    from allotment.reports.list_table import build_sheet, format_table

    if sys.stdout.isatty():
        from allotment.reports.sheets import print_output

        print_output(build_sheet(rows, columns, wide=wide))
    else:
        click.echo(format_table(rows, columns, wide=wide), nl=False)


def current_time() -> datetime.datetime:
    """Return the current time in UTC."""
    return datetime.datetime.now(datetime.UTC)
