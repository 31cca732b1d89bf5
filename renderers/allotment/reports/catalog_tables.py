"""Render the catalog as tables on a terminal.

The offers that the tenant can use come first. The other offers follow, each with the reason why the tenant can't use
the offer.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from allotment.capacity.pricing import HOURS_A_MONTH, format_money, is_sold, next_price, price_on
from allotment.capacity.units import gpu_memory_limit, mig_profile, physical_gpus
from allotment.declared.kinds.app import AppVersion
from allotment.declared.kinds.gpu_spec import GPUSpecSpec, HourlyPrice
from allotment.declared.kinds.sharing import replicas_of
from allotment.declared.kinds.storage_spec import MonthlyPrice
from allotment.declared.values import TEBI, format_cpu, format_decimal, format_size
from allotment.problems import pluralize
from allotment.reports.outputs.catalog import Ready, ready_units, snapshot_price
from allotment.reports.sheets import FactList, Sheet, sanitize_sentence, sanitize_value
from allotment.rules.availability import AppOffer, AvailableOffers, Barrier, GPUOffer, StorageOffer, TenantAllowance
from allotment.rules.limits import sharing_mode
from allotment.rules.spending import TenantSpending, total_cost


class CatalogView(NamedTuple):
    """The context of a catalog: the ready units, the day for which prices are shown, and the tenant, if any."""

    ready_units: Ready
    day: datetime.date
    currency: str
    allowance: TenantAllowance | None = None

    @property
    def tenant_name(self) -> str:
        """Return the tenant's name; empty if the catalog is for no tenant."""
        return self.allowance.name if self.allowance is not None else ""


def render_catalog(offered_catalog: AvailableOffers, view: CatalogView) -> RenderableType:
    """Return the complete catalog."""
    parts: list[RenderableType] = [] if view.allowance is None else [tenant_facts(view.allowance, view.currency)]
    parts += _catalog_sheets(offered_catalog, view, barred=False)
    if barred := _catalog_sheets(offered_catalog, view, barred=True):
        parts += [sanitize_value(f"Not for {view.tenant_name} now"), *barred]
    if not parts:
        return Text("nothing is on offer")
    return Group(*[renderable for part in parts for renderable in (Text(), part)][1:])


class DeclarationSource(NamedTuple):
    """The source of declarations: a commit, or a work tree.

    `commit` is empty outside a Git repository. `uncommitted` counts the files that differ between the work tree and the
    commit.
    """

    commit: str
    is_work_tree: bool
    uncommitted: int = 0

    @property
    def description(self) -> str:
        """Return a description of the source."""
        commit = f"commit {self.commit[:12]}" if self.commit else ""
        if not self.is_work_tree:
            return commit
        number = self.uncommitted
        note = f" and {pluralize(number, 'file')} that {'is' if number == 1 else 'are'} not committed" if number else ""
        return f"the work tree at {commit}{note}" if commit else "the work tree"


def render_spending(
    spendings: Sequence[TenantSpending], currency: str, day: datetime.date, declarations: DeclarationSource
) -> Group:
    """Return the monthly costs of all tenants under a title.

    The title has the day, the hours and the source of the declarations.
    """
    title = (
        f"Forecast of {HOURS_A_MONTH} hours at the prices of {day}, from {declarations.description}. It is not a bill."
    )
    return Group(Text(title), spending_sheet(spendings, currency))


def spending_sheet(spendings: Sequence[TenantSpending], currency: str) -> Sheet:
    """Return a table with a row for each tenant's monthly cost, and a row with the total."""
    sheet = Sheet("TENANT", "PLAN", f"{currency}/MONTH", "BUDGET", "LEFT", "NOTE", long=("NOTE",))
    for spending in spendings:
        notes = [*_uncosted_notes(spending.invalid_files), *_unpriced_notes(spending.unpriced_resources)]
        if spending.is_over_budget and spending.budget is not None:
            notes.append("over its budget" + (", which only warns" if spending.budget.enforcement == "Warn" else ""))
        sheet.add_row(
            sanitize_value(spending.tenant),
            sanitize_value(spending.plan or "can't be read"),
            sanitize_value(_cost_text(spending.cost)),
            sanitize_value("-" if spending.budget is None else format_money(spending.budget.per_month)),
            sanitize_value("-" if spending.remaining_budget is None else format_money(spending.remaining_budget)),
            sanitize_sentence("; ".join(notes)),
        )
    notes = _uncosted_notes(sum(spending.invalid_files for spending in spendings)) + _unpriced_notes(
        sum(spending.unpriced_resources for spending in spendings)
    )
    sheet.add_row(
        *map(sanitize_value, ("TOTAL", "", _cost_text(total_cost(spendings)), "", "")),
        sanitize_sentence("; ".join(notes)),
    )
    return sheet


def _cost_text(cost: Decimal | None) -> str:
    return "no price" if cost is None else format_money(cost)


def _uncosted_notes(invalid: int) -> list[str]:
    """Return a note with the number of invalid files, which have no known cost; empty if there are no invalid files."""
    return [f"{pluralize(invalid, 'invalid file')} not counted"] if invalid else []


def _unpriced_notes(without_price: int) -> list[str]:
    """Return a note with the number of resources that have no price on the day; empty if all resources have a price."""
    return [f"{pluralize(without_price, 'resource')} without a price left out"] if without_price else []


def _catalog_sheets(offered_catalog: AvailableOffers, view: CatalogView, *, barred: bool) -> list[Sheet]:
    sheets = (
        gpu_sheet([offer for offer in offered_catalog.gpu_offers if bool(offer.barriers) is barred], view),
        storage_sheet([offer for offer in offered_catalog.storage_offers if bool(offer.barriers) is barred], view),
        app_sheet([offer for offer in offered_catalog.app_offers if bool(offer.barriers) is barred]),
    )
    return [sheet for sheet in sheets if sheet]


def tenant_facts(who: TenantAllowance, currency: str) -> FactList:
    """Return the remaining quota and budget of a tenant."""
    plan, limits, used = who.plan, who.limits, who.usage
    facts: list[tuple[str, object]] = [
        ("Tenant", who.name),
        ("Plan", plan.model.name if plan is not None else "can't be read"),
        ("Lifecycle", who.lifecycle if who.lifecycle != "Active" else ""),
    ]
    if limits is not None:
        gpus = [
            f"{_remaining_text(used.gpus.get(model, Fraction(0)), limits.gpus[model])} {model}"
            for model in sorted(limits.gpus)
        ]
        counts = (
            f"{_remaining_text(getattr(used, field), getattr(limits, field))} {field}"
            for field in ("instances", "storages", "snapshots")
        )
        size = f"{format_size(max(0, limits.storage - used.storage))} of {format_size(limits.storage)} of storage"
        facts.append(("Left", ", ".join([*gpus, *counts, size])))
    if plan is not None and (budget := plan.model.spec.budget) is not None:
        warns = ", only a warning" if budget.enforcement == "Warn" else ""
        remaining = format_money(budget.per_month - who.cost)
        facts.append(("Budget left", f"{remaining} of {format_money(budget.per_month)} {currency} a month{warns}"))
    elif plan is not None:
        facts.append(("Cost", f"{format_money(who.cost)} {currency} a month, and no budget"))
    if plan is not None:
        facts.append(
            ("Own images", ", ".join(plan.model.spec.allow.image_registries) or "none: the platform's apps alone")
        )
    return FactList(facts)


def _remaining_text(used: Fraction | int, limit: int) -> str:
    return f"{format_decimal(Fraction(max(limit - used, 0)))} of {limit}"


def gpu_sheet(offers: Sequence[GPUOffer], view: CatalogView) -> Sheet:
    """Return a table of GPUSpecs in clusters."""
    price = f"{view.currency}/H"
    sheet = Sheet("GPU SPEC", "CLUSTER", "GPU", "SHARING", price, "FREE", "READY", "NOTE", long=("NOTE",))
    for offer in offers:
        spec, own = offer.spec.model.spec, offer.reserved_for(view.tenant_name)
        ready = ready_units(offer, view.ready_units, view.tenant_name)
        sheet.add_row(
            sanitize_value(offer.spec.model.name),
            sanitize_value(offer.cluster),
            sanitize_value(f"{spec.gpu.count} {spec.gpu.model}"),
            sanitize_value(_sharing_text(spec)),
            sanitize_value(price_on(spec.prices, view.day).per_hour if is_sold(spec.prices, view.day) else "-"),
            sanitize_value(f"{offer.free_units + own.free_units}/{offer.units + own.unit_count}"),
            sanitize_value("-" if ready is None else ready),
            sanitize_sentence(
                "; ".join(
                    [
                        *_not_sold_notes(spec.prices, view.day),
                        *(_barrier_texts(offer.barriers) or _gpu_notes(offer, view)),
                    ]
                )
            ),
        )
    return sheet


def _not_sold_notes(prices: Sequence[HourlyPrice | MonthlyPrice], day: datetime.date) -> list[str]:
    """Return a note if the offer has no price yet."""
    return [] if is_sold(prices, day) else ["not sold yet"]


def _sharing_text(spec: GPUSpecSpec) -> str:
    way = sharing_mode(spec)
    if (profile := mig_profile(spec)) is not None:
        return f"{way} {profile}"
    return f"{way} {physical_gpus(spec)}" if replicas_of(spec.sharing) is not None else way


def _gpu_notes(offer: GPUOffer, view: CatalogView) -> Iterator[str]:
    spec = offer.spec.model.spec
    if spec.lifecycle != "Active":
        yield f"it is {spec.lifecycle}"
    yield f"{format_cpu(spec.cpu)} CPU, {format_size(spec.memory)} memory, {format_size(spec.disk)} disk"
    if (limit := gpu_memory_limit(spec)) is not None:
        yield f"{format_size(limit)} of GPU memory a process"
    if spec.capacity_type == "Spot":
        yield "Spot: the cloud may take it back"
    if (later := next_price(spec.prices, view.day)) is not None:
        yield f"{later.per_hour} {view.currency}/h from {later.start}"
    for each in offer.reserved:
        yield f"{each.unit_count} held for {each.tenant}, {each.free_units} free"


def storage_sheet(offers: Sequence[StorageOffer], view: CatalogView) -> Sheet:
    """Return a table of StorageSpecs in clusters."""
    price = f"{view.currency}/GIB/MONTH"
    sheet = Sheet("STORAGE SPEC", "CLUSTER", "ACCESS", "SIZE", price, "FREE", "NOTE", long=("NOTE",))
    for offer in offers:
        spec = offer.spec.model.spec
        sheet.add_row(
            sanitize_value(offer.spec.model.name),
            sanitize_value(offer.cluster),
            sanitize_value(spec.access),
            sanitize_value(f"{format_size(spec.size.min)} to {format_size(spec.size.max)}"),
            sanitize_value(price_on(spec.prices, view.day).per_gib_month if is_sold(spec.prices, view.day) else "-"),
            sanitize_value(_approximate_size(offer.free_bytes)),
            sanitize_sentence(
                "; ".join(
                    [
                        *_not_sold_notes(spec.prices, view.day),
                        *(_barrier_texts(offer.barriers) or _storage_notes(offer, view)),
                    ]
                )
            ),
        )
    return sheet


def _storage_notes(offer: StorageOffer, view: CatalogView) -> Iterator[str]:
    spec = offer.spec.model.spec
    if spec.lifecycle != "Active":
        yield f"it is {spec.lifecycle}"
    if (price := snapshot_price(offer, view.day)) is not None:
        yield f"snapshots {price}"
    if (later := next_price(spec.prices, view.day)) is not None:
        yield f"{later.per_gib_month} from {later.start}"


def app_sheet(offers: Sequence[AppOffer]) -> Sheet:
    """Return a table of versions of apps."""
    sheet = Sheet("APP", "VERSION", "OPEN TO", "NOTE", long=("NOTE",))
    for offer in offers:
        version = offer.version
        sheet.add_row(
            sanitize_value(offer.app.model.name),
            sanitize_value(version.version),
            sanitize_value(", ".join(sorted({port.exposure for port in version.container.ports})) or "-"),
            sanitize_sentence("; ".join(_barrier_texts(offer.barriers) or _app_notes(version))),
        )
    return sheet


def _app_notes(version: AppVersion) -> Iterator[str]:
    if version.lifecycle != "Active":
        yield f"it is {version.lifecycle}" + (f": use {version.replaced_by}" if version.replaced_by else "")
    if version.container.shm_size:
        yield f"for units of {format_size(version.container.shm_size)} memory or more"
    if version.folders:
        yield f"uses {', '.join(folder.path for folder in version.folders)}"


def _barrier_texts(barriers: Iterable[Barrier]) -> list[str]:
    return [f"{barrier.message} ({barrier.path})" for barrier in barriers]


def _approximate_size(size: int) -> str:
    """Return a size that people can compare easily: sizes of 10 TiB and more are in whole TiB."""
    return f"{size // TEBI}Ti" if size >= 10 * TEBI else format_size(size)
