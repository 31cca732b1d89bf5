"""What is on offer, as tables on a terminal: what a tenant can have first, then what it can't, and why."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from allotment.accounts.capacity import gpu_memory_limit, mig_profile, physical_gpus
from allotment.accounts.pricing import HOURS_A_MONTH, is_sold, money_text, next_price, price_on
from allotment.declared.kinds.app import AppVersion
from allotment.declared.kinds.gpu_spec import GPUSpecSpec, HourlyPrice
from allotment.declared.kinds.sharing import replicas_of
from allotment.declared.kinds.storage_spec import MonthlyPrice
from allotment.declared.values import TEBI, cpu_text, decimal_text, size_text
from allotment.problems import counted
from allotment.reports.outputs.catalog import Ready, ready_units, snapshot_price
from allotment.reports.sheets import Facts, Sheet, plain, words
from allotment.rules.catalog import AppOffer, Asking, Barrier, Catalog, GPUOffer, StorageOffer
from allotment.rules.limits import way_of_sharing
from allotment.rules.spending import Spending, total_cost


class Shown(NamedTuple):
    """How a catalog is shown: with the units that are ready, the day whose prices count, and the tenant that asks."""

    ready: Ready
    day: datetime.date
    currency: str
    who: Asking | None = None

    @property
    def tenant(self) -> str:
        """The tenant's name; empty where nobody in particular asks."""
        return self.who.name if self.who is not None else ""


def tables(offered_catalog: Catalog, shown: Shown) -> RenderableType:
    """Return all of a catalog."""
    parts: list[RenderableType] = [] if shown.who is None else [_asking(shown.who, shown.currency)]
    parts += _sheets(offered_catalog, shown, barred=False)
    if barred := _sheets(offered_catalog, shown, barred=True):
        parts += [plain(f"Not for {shown.tenant} now"), *barred]
    if not parts:
        return Text("nothing is on offer")
    return Group(*[renderable for part in parts for renderable in (Text(), part)][1:])


class Declarations(NamedTuple):
    """Where declarations come from: a commit, empty where there is no repository, and whether its work tree is meant, in which
    so many files are `uncommitted`."""

    commit: str
    is_work_tree: bool
    uncommitted: int = 0

    @property
    def words(self) -> str:
        """Name them."""
        commit = f"commit {self.commit[:12]}" if self.commit else ""
        if not self.is_work_tree:
            return commit
        number = self.uncommitted
        beside = f" and {counted(number, 'file')} that {'is' if number == 1 else 'are'} not committed" if number else ""
        return f"the work tree at {commit}{beside}" if commit else "the work tree"


def spending_tables(
    spendings: Sequence[Spending], currency: str, day: datetime.date, declarations: Declarations
) -> Group:
    """Return the costs of all tenants a month, below a title with the day, the hours and the source of the declarations."""
    title = f"Forecast of {HOURS_A_MONTH} hours at the prices of {day}, from {declarations.words}. It is not a bill."
    return Group(Text(title), spending_table(spendings, currency))


def spending_table(spendings: Sequence[Spending], currency: str) -> Sheet:
    """Return a row a tenant with what it costs a month, and one with all of them together."""
    sheet = Sheet("TENANT", "PLAN", f"{currency}/MONTH", "BUDGET", "LEFT", "NOTE", long=("NOTE",))
    for spending in spendings:
        notes = [*_not_counted(spending.invalid), *_left_out(spending.without_price)]
        if spending.is_over and spending.budget is not None:
            notes.append("over its budget" + (", which only warns" if spending.budget.enforcement == "Warn" else ""))
        sheet.add(
            plain(spending.tenant),
            plain(spending.plan or "can't be read"),
            plain(_amount(spending.cost)),
            plain("-" if spending.budget is None else money_text(spending.budget.per_month)),
            plain("-" if spending.left is None else money_text(spending.left)),
            words("; ".join(notes)),
        )
    notes = _not_counted(sum(spending.invalid for spending in spendings)) + _left_out(
        sum(spending.without_price for spending in spendings)
    )
    sheet.add(*map(plain, ("TOTAL", "", _amount(total_cost(spendings)), "", "")), words("; ".join(notes)))
    return sheet


def _amount(cost: Decimal | None) -> str:
    return "no price" if cost is None else money_text(cost)


def _not_counted(invalid: int) -> list[str]:
    """Return the note on files of which the cost is unknown."""
    return [f"{counted(invalid, 'invalid file')} not counted"] if invalid else []


def _left_out(without_price: int) -> list[str]:
    """Return the note on things that have no price on the day."""
    return [f"{counted(without_price, 'resource')} without a price left out"] if without_price else []


def _sheets(offered_catalog: Catalog, shown: Shown, *, barred: bool) -> list[Sheet]:
    sheets = (
        _gpus([offer for offer in offered_catalog.gpus if bool(offer.barred) is barred], shown),
        _storages([offer for offer in offered_catalog.storages if bool(offer.barred) is barred], shown),
        _apps([offer for offer in offered_catalog.apps if bool(offer.barred) is barred]),
    )
    return [sheet for sheet in sheets if sheet]


def _asking(who: Asking, currency: str) -> Facts:
    """Return what is left to a tenant of its plan."""
    plan, limits, used = who.plan, who.limits, who.used
    facts: list[tuple[str, object]] = [
        ("Tenant", who.name),
        ("Plan", plan.model.name if plan is not None else "can't be read"),
        ("Lifecycle", who.lifecycle if who.lifecycle != "Active" else ""),
    ]
    if limits is not None:
        gpus = [
            f"{_left(used.gpus.get(model, Fraction(0)), limits.gpus[model])} {model}" for model in sorted(limits.gpus)
        ]
        counts = (
            f"{_left(getattr(used, field), getattr(limits, field))} {field}"
            for field in ("instances", "storages", "snapshots")
        )
        size = f"{size_text(max(0, limits.storage - used.storage))} of {size_text(limits.storage)} of storage"
        facts.append(("Left", ", ".join([*gpus, *counts, size])))
    if plan is not None and (budget := plan.model.spec.budget) is not None:
        warns = ", only a warning" if budget.enforcement == "Warn" else ""
        remaining = money_text(budget.per_month - who.cost)
        facts.append(("Budget left", f"{remaining} of {money_text(budget.per_month)} {currency} a month{warns}"))
    elif plan is not None:
        facts.append(("Cost", f"{money_text(who.cost)} {currency} a month, and no budget"))
    if plan is not None:
        facts.append(
            ("Own images", ", ".join(plan.model.spec.allow.image_registries) or "none: the platform's apps alone")
        )
    return Facts(facts)


def _left(used: Fraction | int, limit: int) -> str:
    return f"{decimal_text(Fraction(max(limit - used, 0)))} of {limit}"


def _gpus(offers: Sequence[GPUOffer], shown: Shown) -> Sheet:
    price = f"{shown.currency}/H"
    sheet = Sheet("GPU SPEC", "CLUSTER", "GPU", "SHARING", price, "FREE", "READY", "NOTE", long=("NOTE",))
    for offer in offers:
        spec, own = offer.spec.model.spec, offer.own(shown.tenant)
        ready = ready_units(offer, shown.ready, shown.tenant)
        sheet.add(
            plain(offer.spec.model.name),
            plain(offer.cluster),
            plain(f"{spec.gpu.count} {spec.gpu.model}"),
            plain(_sharing(spec)),
            plain(price_on(spec.prices, shown.day).per_hour if is_sold(spec.prices, shown.day) else "-"),
            plain(f"{offer.free + own.free}/{offer.units + own.units}"),
            plain("-" if ready is None else ready),
            words(
                "; ".join([*_not_sold(spec.prices, shown.day), *(_barriers(offer.barred) or _gpu_notes(offer, shown))])
            ),
        )
    return sheet


def _not_sold(prices: Sequence[HourlyPrice | MonthlyPrice], day: datetime.date) -> list[str]:
    """Return what says that nothing of it is sold yet."""
    return [] if is_sold(prices, day) else ["not sold yet"]


def _sharing(spec: GPUSpecSpec) -> str:
    way = way_of_sharing(spec)
    if (profile := mig_profile(spec)) is not None:
        return f"{way} {profile}"
    return f"{way} {physical_gpus(spec)}" if replicas_of(spec.sharing) is not None else way


def _gpu_notes(offer: GPUOffer, shown: Shown) -> Iterator[str]:
    spec = offer.spec.model.spec
    if spec.lifecycle != "Active":
        yield f"it is {spec.lifecycle}"
    yield f"{cpu_text(spec.cpu)} CPU, {size_text(spec.memory)} memory, {size_text(spec.disk)} disk"
    if (limit := gpu_memory_limit(spec)) is not None:
        yield f"{size_text(limit)} of GPU memory a process"
    if spec.capacity_type == "Spot":
        yield "Spot: the cloud may take it back"
    if (later := next_price(spec.prices, shown.day)) is not None:
        yield f"{later.per_hour} {shown.currency}/h from {later.start}"
    for each in offer.reserved:
        yield f"{each.units} held for {each.tenant}, {each.free} free"


def _storages(offers: Sequence[StorageOffer], shown: Shown) -> Sheet:
    price = f"{shown.currency}/GIB/MONTH"
    sheet = Sheet("STORAGE SPEC", "CLUSTER", "ACCESS", "SIZE", price, "FREE", "NOTE", long=("NOTE",))
    for offer in offers:
        spec = offer.spec.model.spec
        sheet.add(
            plain(offer.spec.model.name),
            plain(offer.cluster),
            plain(spec.volume.access_mode if spec.volume is not None else "Bucket"),
            plain(f"{size_text(spec.size.min)} to {size_text(spec.size.max)}"),
            plain(price_on(spec.prices, shown.day).per_gib_month if is_sold(spec.prices, shown.day) else "-"),
            plain(_roughly(offer.free)),
            words(
                "; ".join(
                    [*_not_sold(spec.prices, shown.day), *(_barriers(offer.barred) or _storage_notes(offer, shown))]
                )
            ),
        )
    return sheet


def _storage_notes(offer: StorageOffer, shown: Shown) -> Iterator[str]:
    spec = offer.spec.model.spec
    if spec.lifecycle != "Active":
        yield f"it is {spec.lifecycle}"
    if (price := snapshot_price(offer, shown.day)) is not None:
        yield f"snapshots {price}"
    if (later := next_price(spec.prices, shown.day)) is not None:
        yield f"{later.per_gib_month} from {later.start}"


def _apps(offers: Sequence[AppOffer]) -> Sheet:
    sheet = Sheet("APP", "VERSION", "OPEN TO", "NOTE", long=("NOTE",))
    for offer in offers:
        version = offer.version
        sheet.add(
            plain(offer.app.model.name),
            plain(version.version),
            plain(", ".join(sorted({port.exposure for port in version.container.ports})) or "-"),
            words("; ".join(_barriers(offer.barred) or _app_notes(version))),
        )
    return sheet


def _app_notes(version: AppVersion) -> Iterator[str]:
    if version.lifecycle != "Active":
        yield f"it is {version.lifecycle}" + (f": go to {version.replaced_by}" if version.replaced_by else "")
    if version.container.shm_size:
        yield f"for units of {size_text(version.container.shm_size)} memory or more"
    if version.folders:
        yield f"uses {', '.join(folder.path for folder in version.folders)}"


def _barriers(barriers: Iterable[Barrier]) -> list[str]:
    return [f"{barrier.words} ({barrier.path})" for barrier in barriers]


def _roughly(size: int) -> str:
    """Return a size that people can compare: of much, whole TiB."""
    return f"{size // TEBI}Ti" if size >= 10 * TEBI else size_text(size)
