"""Provides the options and the sources of all commands that read the recorded usage."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.completers import complete_clusters
from allotment.cli.options import find_repository, is_quiet, repository_option
from allotment.problems import OperationRefused, escape_unprintable, quote_value

if TYPE_CHECKING:
    from allotment.billing.periods import Period
    from allotment.billing.recorded_use import ClusterRecord, UsageRecord
    from allotment.services.billing.billing_source import BillingSource

status_url_option = click.option(
    "--status-url",
    "url",
    metavar="URL",
    help="The repository of the status branches. Default: spec.git.status of the platform, or origin.",
)


class Moment(click.ParamType[str]):
    """The start of a day, such as 2026-11-01, or a time with a time zone, such as 2026-11-01T10:00:00+01:00."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from allotment.billing.periods import FIRST_YEAR, LAST_YEAR

        try:
            moment = datetime.datetime.fromisoformat(value)
        except ValueError:
            moment = None
        is_day = moment is not None and value == f"{moment:%Y-%m-%d}"
        if moment is None or not (moment.tzinfo or is_day) or not FIRST_YEAR <= moment.year <= LAST_YEAR:
            self.fail(
                f"{quote_value(value)} is no time: write a day such as 2026-11-01, or a time with a time zone such as"
                " 2026-11-01T10:00:00+01:00",
                param,
                ctx,
            )
        return str(value)


class Month(click.ParamType[str]):
    """A month, such as 2026-11."""

    name = "month"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from allotment.billing.periods import month_period

        try:
            month_period(value, datetime.UTC)
        except ValueError:
            self.fail(f"{quote_value(value)} is no month: write a month such as 2026-11", param, ctx)
        return str(value)


class Dimension(click.ParamType[str]):
    """A dimension of sums: tenant, instance, spec, storage, cluster, day, hour or label:KEY."""

    name = "dimension"

    def __init__(self, *excluded: str) -> None:
        """`excluded` are the dimensions that the command suggests to nobody, because it refuses them with a reason."""
        self._excluded = excluded

    def _list_names(self) -> list[str]:
        from allotment.billing.usage_totals import DIMENSIONS

        return [name for name in DIMENSIONS if name not in self._excluded]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from allotment.billing.usage_totals import DIMENSIONS, LABEL_PREFIX

        if "," in value:
            self.fail("give --by again for each dimension", param, ctx)
        name, separator, key = str(value).partition(":")
        if value not in DIMENSIONS and not (f"{name}{separator}" == LABEL_PREFIX and key):
            from allotment.declared.reading import suggest_name

            hint = suggest_name(str(value), self._list_names())
            if "did you mean" not in hint:
                hint = f": write {', '.join(self._list_names())} or label:KEY"
            self.fail(f"no dimension is named {quote_value(value)}{hint}", param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from allotment.billing.usage_totals import LABEL_PREFIX

        names = [name for name in (*self._list_names(), LABEL_PREFIX) if name.startswith(incomplete)]
        return [click.shell_completion.CompletionItem(name) for name in names]


def billing_output_option(*styles: str) -> Callable[..., Any]:
    """Return the option -o/--output. Its value `style` is one of `styles`, by default the first."""
    return click.option(
        "-o",
        "--output",
        "style",
        type=click.Choice(styles, case_sensitive=False),
        default=styles[0],
        show_default=True,
        help="The output format; schemas/output/ has the JSON Schemas.",
    )


cluster_filter = click.option("--cluster", metavar="NAME", shell_complete=complete_clusters, help="Only this cluster.")


def period_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --month, --from and --to, from which `find_period` returns the period."""
    for option in (
        click.option(
            "--to", "end", type=Moment(), help="The end: a day, which is not included, or a time. Default: now."
        ),
        click.option(
            "--from",
            "start",
            type=Moment(),
            help="The start: a day, or a time with a time zone. Default: the start of this month.",
        ),
        click.option("--month", type=Month(), help="Only this month. Default: the current month."),
    ):
        command = option(command)
    return command


def record_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --repo and --status-url."""
    for option in (status_url_option, repository_option):
        command = option(command)
    return command


def open_source(repo: Path | None, url: str | None) -> BillingSource:
    """Return the source of the recorded usage.

    Raises OperationRefused if origin doesn't answer, or if the Platform declaration can't be read.
    """
    from allotment.branches.declarations_clone import DeclarationsClone
    from allotment.services.billing.billing_source import open_billing_source

    return open_billing_source(DeclarationsClone(find_repository(repo), url))


def read_tenant_record(source: BillingSource, tenant: str | None, since: int) -> UsageRecord:
    """Return the recorded usage of a tenant, or of all tenants, that ended after `since` or continues.

    Raises OperationRefused if there is no such tenant, or if the remote doesn't answer.
    """
    from allotment.services.billing.billing_source import read_record

    record = read_record(source, tenant, since)
    if tenant is not None:
        check_tenant(source, tenant, record.tenants)
    return record


def check_tenant(source: BillingSource, tenant: str, recorded: frozenset[str]) -> None:
    """Raise OperationRefused if a tenant is neither declared nor one of the tenants with recorded usage."""
    if tenant in recorded:
        return
    declared_tenants = set(source.declared.source.list_folders("tenants"))
    if tenant not in declared_tenants:
        from allotment.declared.reading import suggest_name

        raise OperationRefused(
            f"no tenant is named {quote_value(tenant)}: no tenant with this name is declared or recorded"
            f"{suggest_name(tenant, declared_tenants | recorded)}"
        )


def find_period(month: str | None, start: str | None, end: str | None, zone: datetime.tzinfo) -> Period:
    """Return the period of the options. Raises click.UsageError if they exclude each other."""
    from allotment.billing.periods import Period, format_moment, month_period

    now = datetime.datetime.now(zone)
    if month is not None and (start or end):
        raise click.UsageError("--month can't be combined with --from or --to: give a month, or a start and an end")
    this_month = month_period(month or f"{now:%Y-%m}", zone)
    if month is not None:
        return this_month
    begin = _parse_moment(start, zone) if start else this_month.start
    until = _parse_moment(end, zone) if end else int(now.timestamp())
    if begin >= until:
        first, last = format_moment(begin, zone), format_moment(until, zone)
        raise click.UsageError(
            f"--from ({first}) must be before --to ({last}); by default, they are the start of this month and now"
        )
    return Period(begin, until)


def _parse_moment(text: str, zone: datetime.tzinfo) -> int:
    from allotment.billing.periods import find_midnight

    moment = datetime.datetime.fromisoformat(text)
    return find_midnight(moment.date(), zone) if moment.tzinfo is None else int(moment.timestamp())


def select_cluster(record: UsageRecord, cluster: str | None) -> UsageRecord:
    """Return the record of a cluster, or of all clusters. Raises OperationRefused if there is no such cluster."""
    if cluster is None:
        return record
    clusters = {each.cluster for each in record.clusters}
    if cluster not in clusters:
        from allotment.declared.reading import suggest_name

        raise OperationRefused(f"no cluster is named {quote_value(cluster)}{suggest_name(cluster, clusters)}")
    return record._replace(
        clusters=tuple(each for each in record.clusters if each.cluster == cluster),
        uses=tuple(use for use in record.uses if use.cluster == cluster),
        stocks=tuple(stock for stock in record.stocks if stock.cluster == cluster),
    )


def print_record_notes(records: tuple[ClusterRecord, ...], period: Period, zone: datetime.tzinfo) -> bool:
    """Print the limits of the record to standard error. Return whether a part of it can't be read."""
    from allotment.reports.record_notes import describe_record

    has_problem = False
    for record in records:
        for note in describe_record(record, period, zone):
            has_problem |= note.is_problem
            if note.is_problem or not is_quiet():
                click.echo(escape_unprintable(f"{record.cluster}: {note.text}", 1000), err=True)
    return has_problem
