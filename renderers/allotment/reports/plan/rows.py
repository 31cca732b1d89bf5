"""Build the tables of a plan. A terminal and a comment show the same rows."""

from __future__ import annotations

import datetime
import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.capacity.pricing import HOURS_A_MONTH, format_money, format_signed
from allotment.declared.values import format_decimal, format_size
from allotment.diff.change_plan import MAX_NAMED_TENANTS, ChangePlan, Effect, QuotaOutput
from allotment.diff.cold_starts import ColdStart
from allotment.diff.cost_diff import CostChange
from allotment.diff.declared_change import ACCESS_GROUPS, NEVER_TRUNCATED, TOPICS, DeclaredChange
from allotment.diff.file_diff import FileDiff
from allotment.diff.merge_verdict import waiting_reasons
from allotment.diff.other_files import MAX_SHOWN_PER_TOPIC, TOPIC_TEXT
from allotment.problems import escape_unprintable, pluralize
from allotment.reports.cold_starts import format_cold_start

MAX_DIFF_LINES = 1_500  # a file with more lines is not compared line by line
MAX_DIFF_WIDTH = 500  # characters per line
MAX_COST_PARTS = 8
MAX_NAMED_URLS = 5  # a line about the new Members URLs names at most this many of them
OTHER_FILES_TITLE = "Outside the declarations"
MAX_SHOWN_DAYS = 6  # per tenant, in the table of costs
_EFFECTS: tuple[Effect, ...] = ("restarts", "starts", "stops")
_STYLES = {"added": "good", "removed": "bad", "replaced": "warn", "changed": ""}


class Table(NamedTuple):
    """A table: its title, column heads and rows.

    `numeric_columns` are the positions of the columns that are aligned to the right. Allotment writes all of their text
    (numbers, sizes, dates, fixed words), so the text needs no escaping. `total_rows` come after all other rows.
    `styles` has the style of each row (good, bad, warn). `hidden_rows` counts the rows that the table leaves out. The
    last `long_columns` columns contain sentences.
    """

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric_columns: frozenset[int]
    note: str = ""
    total_rows: Sequence[tuple[str, ...]] = ()
    styles: Sequence[str] = ()
    hidden_rows: int = 0
    long_columns: int = 0

    @property
    def short_columns(self) -> int:
        """Return the number of columns without sentences."""
        return len(self.heads) - self.long_columns


def plan_tables(plan: ChangePlan) -> Iterator[Table]:
    """Yield the tables that have rows, the most important table first."""
    for table in (
        _cost_table(plan),
        _month_table(plan),
        _declared_table(plan),
        _resource_table(plan),
        _units_table(plan),
        _quota_table(plan),
        _cost_part_table(plan),
        _other_files_table(plan),
    ):
        if table.rows:
            yield table


def decisive_changes(plan: ChangePlan) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield a title for each topic in `NEVER_TRUNCATED` that has changes, and the path and text of each change.

    Each reader must see these changes, so none of them is left out, except that new Members URLs share an entry with the
    number of them and the first URLs.
    """
    for topic in NEVER_TRUNCATED:
        if changes := plan.changes_of_topics(topic):
            title, is_access = topic.capitalize(), topic == "access"
            urls = [change for change in changes if is_access and change.access_group == "Members URL"]
            folded = frozenset(urls if len(urls) > 1 else ())
            texts = [(change.path, change.text) for change in changes if change not in folded]
            if folded:
                texts.append((pluralize(len(urls), "Members URL"), _members_urls_text([url.field for url in urls])))
            yield f"{title}: {_access_counts(changes)}" if is_access else title, texts


def _access_counts(changes: Sequence[DeclaredChange]) -> str:
    """Return the number of people and fields in each group, such as `1 Admin, 2 Public URLs`."""
    counts = Counter(group for group, _ in {(change.access_group, change.subject) for change in changes})
    return ", ".join(pluralize(counts[group], group) for group in ACCESS_GROUPS if counts[group])


def _members_urls_text(urls: Sequence[str]) -> str:
    more = f" and {len(urls) - MAX_NAMED_URLS:,} more" if len(urls) > MAX_NAMED_URLS else ""
    return f"{', '.join(urls[:MAX_NAMED_URLS])}{more} added (open to members of their tenants after login)"


def other_file_lines(
    plan: ChangePlan, format_path: Callable[[str], str], most: int = MAX_SHOWN_PER_TOPIC
) -> Iterator[str]:
    """Yield lines about changed files that are not declarations but affect a topic, such as CI.

    For each topic, the first `most` files have a line each, and another line counts the rest. `format_path` formats the
    path of a file.
    """
    for decides, named, more in plan.other_files.decisive_topics:
        does = f"changes {TOPIC_TEXT[decides]}"
        yield from (f"{does}: {format_path(file.path)} {file.action}" for file in named[:most])
        if remaining := more + len(named[most:]):
            yield f"{does}: and {remaining:,} more"


def effects_text(plan: ChangePlan) -> str:
    """Return a sentence with the numbers of instances that restart, start and stop.

    If all numbers are 0, the sentence is "No instance restarts." But the result is empty if nothing changes, or if a
    restart can't be excluded: the plan has errors that no approval solves, destructions, or changes of capacity or
    clusters.
    """
    counts = Counter(change.effect for change in plan.resource_changes)
    if parts := [f"{effect} {pluralize(counts[effect], 'instance')}" for effect in _EFFECTS if counts[effect]]:
        return f"The merge {', '.join(parts)}."
    unknown = (
        plan.destructions
        or plan.possible_destructions
        or plan.changes_of_topics("capacity", "clusters")
        or _has_unapprovable_errors(plan)
    )
    return "No instance restarts." if plan.has_changes and not unknown else ""


def merge_lines(plan: ChangePlan, quote: Callable[[str], str]) -> Iterator[str]:
    """Yield whether a change that can be merged merges by itself; nothing if the platform has no self service.

    `quote` displays text from tenants.
    """
    if plan.self_service is None or plan.errors:
        return
    if reasons := waiting_reasons(plan):
        yield f"Waits for a merge by a person: {quote('; '.join(reasons))}."
    else:
        who = "" if plan.self_service.is_reviewed else ", if an approver of each file opens the pull request"
        changes = ", ".join(plan.self_service.changes)
        yield f"Can merge by itself{who}: {changes}, allowed by tariff plan {plan.self_service.plan}."


def _has_unapprovable_errors(plan: ChangePlan) -> bool:
    """Return whether a plan has errors that no approval solves."""
    return bool(frozenset(plan.errors) - frozenset(plan.missing_approvals or ()))


def _other_files_table(plan: ChangePlan) -> Table:
    named, more = plan.other_files.undecisive_files
    rows = [(escape_unprintable(file.path, 400), file.action) for file in named]
    return Table(f"Other files {OTHER_FILES_TITLE.lower()}", ("File", "Change"), rows, frozenset(), hidden_rows=more)


def _declared_table(plan: ChangePlan) -> Table:
    changes = plan.changes_of_topics(*(topic for topic in TOPICS if topic not in NEVER_TRUNCATED))
    rows = [(change.path, change.text) for change in changes]
    return Table(
        "Declared",
        ("File", "Change"),
        rows,
        frozenset(),
        hidden_rows=plan.declared_count - len(plan.declared_changes),
        long_columns=1,
    )


def _units_table(plan: ChangePlan) -> Table:
    rows = [
        (
            units.cluster,
            units.gpu_spec,
            _change_text(units.stock_before, units.stock),
            _change_text(units.held_before, units.held_units),
            str(units.free),
        )
        for units in plan.unit_changes
    ]
    styles = ["bad" if units.free < 0 else "" for units in plan.unit_changes]
    heads = ("Cluster", "GPU spec", "Stock", "Held", "Free")
    note = "\n".join(map(cold_start_line, plan.cold_starts))
    return Table("GPU units", heads, rows, frozenset((2, 3, 4)), note, styles=styles)


def cold_start_line(cold_units: ColdStart) -> str:
    """Return a sentence about instances that must wait for a node.

    If earlier cold starts are known, the sentence includes their duration.
    """
    who = f"instance{'' if len(cold_units.instances) == 1 else 's'} {_name_tenants(cold_units.instances)}"
    warm = f"no unit of {cold_units.gpu_spec} is kept warm in {cold_units.cluster}"
    if cold_units.warm_units:
        are = f"{pluralize(cold_units.warm_units, 'unit')} of {cold_units.gpu_spec} {'is' if cold_units.warm_units == 1 else 'are'} kept warm in {cold_units.cluster}"
        warm = f"{are} and {cold_units.unit_count} start"
    rest = " for the rest" if cold_units.warm_units else ""
    comes = f"a new node must start first{rest}" + ("" if cold_units.is_one_per_node else " if no node has room")
    took = (
        "the duration is unknown here"
        if cold_units.cold_start_time is None
        else f"this took {format_cold_start(cold_units.cold_start_time)}"
    )
    return f"{who}: {warm}: {comes}; {took}"


def _quota_table(plan: ChangePlan) -> Table:
    rows, styles = [], []
    for amount in plan.quota_changes:
        limit = "no plan"
        if amount.limit is not None:
            limit = _quota_amount(amount, Fraction(amount.limit))
            limit = (
                limit
                if amount.limit_before is None
                else _change_text(_quota_amount(amount, Fraction(amount.limit_before)), limit)
            )
        rows.append(
            (
                amount.tenant,
                amount.dimension,
                _change_text(_quota_amount(amount, amount.before), _quota_amount(amount, amount.after)),
                limit,
            )
        )
        styles.append("bad" if amount.limit is not None and amount.after > amount.limit else "")
    return Table("Quota", ("Tenant", "Of", "Used", "Limit"), rows, frozenset((2, 3)), styles=styles)


def _cost_table(plan: ChangePlan) -> Table:
    rows, styles = [], []
    for cost in plan.cost_changes:
        for at, cost_day in enumerate(cost.days[:MAX_SHOWN_DAYS]):
            remaining = None if cost.budget is None else cost.budget - cost_day.after
            start = _since_text(plan, at, cost_day.day)
            difference = format_signed(cost_day.after - cost_day.before)
            months = _change_text(format_money(cost_day.before), format_money(cost_day.after))
            rows.append(
                (
                    cost.tenant,
                    start,
                    months,
                    difference,
                    _budget_text(cost),
                    "" if remaining is None else format_money(remaining),
                )
            )
            styles.append("bad" if remaining is not None and remaining < 0 else "")
        if len(cost.days) > MAX_SHOWN_DAYS:
            rows.append((cost.tenant, f"{pluralize(len(cost.days) - MAX_SHOWN_DAYS, 'day')} more", "", "", "", ""))
            styles.append("")
    total_label = f"total of {pluralize(len(plan.cost_changes), 'tenant')}"
    if plan.unpriced_tenants:
        total_label += f", without {_name_tenants(plan.unpriced_tenants)}"
    totals = [
        (total_label, _since_text(plan, at, cost_day.day), _change_text(format_money(cost_day.before), format_money(cost_day.after)),
         format_signed(cost_day.after - cost_day.before), "", "")
        for at, cost_day in enumerate(plan.total_costs[:MAX_SHOWN_DAYS])
    ]  # fmt: skip
    note = f"A month has {HOURS_A_MONTH} hours. Prices may change from day to day. Instances cost money while they are declared to run."
    note = "\n".join([note, *_invalid_cost_notes(plan), *_over_budget_notes(plan)])
    heads = ("Tenant", "From", f"{plan.currency} a month", "Difference", "Budget", "Left")
    return Table(
        title="Cost",
        heads=heads,
        rows=rows,
        numeric_columns=frozenset((1, 2, 3, 4, 5)),
        note=note,
        total_rows=totals,
        styles=styles,
    )


def _month_table(plan: ChangePlan) -> Table:
    """Return the table of the costs of the month, with a note about the times that they are computed from."""
    rows = [
        (
            forecast.tenant,
            format_money(forecast.so_far),
            _change_text(format_money(forecast.before), format_money(forecast.after)),
            "no budget" if forecast.budget is None else format_money(forecast.budget),
            "" if forecast.percent is None else f"{forecast.percent} %",
        )
        for forecast in plan.month_forecasts
    ]
    styles = [
        "bad" if forecast.is_over_budget else "warn" if forecast.is_near_budget else ""
        for forecast in plan.month_forecasts
    ]
    observed = {forecast.observed_until for forecast in plan.month_forecasts}
    month = next((forecast.month for forecast in plan.month_forecasts), "")
    note = (
        f"The recorded usage until {', '.join(sorted(observed))}, and the declared resources until the end of the month. A running"
        " instance counts until now."
    )
    if unobserved := sum((forecast.unobserved for forecast in plan.month_forecasts), Decimal(0)):
        note += (
            f" {format_money(unobserved)} {plan.currency} so far are the declared cost of a time that nobody observed."
        )
    return Table(
        title=f"Cost in {month}",
        heads=("Tenant", f"{plan.currency} so far", "Forecast", "Budget", "Used"),
        rows=rows,
        numeric_columns=frozenset((1, 2, 3, 4)),
        note=note,
        styles=styles,
    )


def _since_text(plan: ChangePlan, at: int, day: datetime.date) -> str:
    return "today" if at == 0 and plan.is_today else f"{day}"


def _name_tenants(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    named = ", ".join(escape_unprintable(name) for name in names[:MAX_NAMED_TENANTS])
    return f"{named} and {len(names) - MAX_NAMED_TENANTS:,} more" if len(names) > MAX_NAMED_TENANTS else named


def _invalid_cost_notes(plan: ChangePlan) -> Iterator[str]:
    """Yield notes about tenants with a misleading cost, or with an unknown cost.

    The cost of an invalid tenant is misleading: the table shows the cost of the tenant's declarations, but the tenant's
    published manifests don't change.
    """
    if invalid := [cost.tenant for cost in plan.cost_changes if not cost.is_valid]:
        which = f"{_name_tenants(invalid)} {'is' if len(invalid) == 1 else 'are'} invalid"
        yield f"⚠ {which}: the cost is that of the declarations, but the published manifests don't change."
    if plan.unpriced_tenants:
        yield f"⚠ The cost of {_name_tenants(plan.unpriced_tenants)} is unknown: a declaration can't be read, or uses a resource that isn't on offer."


def _over_budget_notes(plan: ChangePlan) -> Iterator[str]:
    """Yield notes about tenants with a cost that will exceed their budget on a later day.

    Tenants with a budget that only warns are left out.
    """
    over = [
        (cost.tenant, excess)
        for cost in plan.cost_changes
        if (excess := cost.over_budget) and excess.is_denied and excess.day != cost.days[0].day
    ]
    for tenant, excess in over[:MAX_NAMED_TENANTS]:
        yield (
            f"⚠ From {excess.day} on {tenant} costs {format_money(excess.amount)} {plan.currency} more than its budget. From "
            "that day on, it keeps its last published manifests until it declares less or its budget grows."
        )
    if len(over) > MAX_NAMED_TENANTS:
        yield f"⚠ The same applies to {len(over) - MAX_NAMED_TENANTS:,} more tenants."


def _budget_text(cost: CostChange) -> str:
    now = "no budget" if cost.budget is None else format_money(cost.budget)
    return now if cost.budget_before is None else _change_text(format_money(cost.budget_before), now)


def _cost_part_table(plan: ChangePlan) -> Table:
    rows = []
    for cost in plan.cost_changes:
        for part in cost.parts[:MAX_COST_PARTS]:
            step = _change_text(format_money(part.before), format_money(part.after))
            rows.append((cost.tenant, part.label, step, format_signed(part.after - part.before)))
        if len(cost.parts) > MAX_COST_PARTS:
            rest = sum((cost_part.after - cost_part.before for cost_part in cost.parts[MAX_COST_PARTS:]), Decimal(0))
            rows.append((cost.tenant, f"{len(cost.parts) - MAX_COST_PARTS} more", "", format_signed(rest)))
    return Table("What makes the difference", ("Tenant", "What", "A month", "Difference"), rows, frozenset((2, 3)))


def _resource_table(plan: ChangePlan) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            change.tenant,
            change.cluster,
            f"{change.kind} {change.name}",
            change.action,
            change.effect or "",
            _causes_text(change.causes),
        )
        for change in plan.resource_changes
    ]
    styles = [_STYLES[change.action] for change in plan.resource_changes]
    heads = ("Tenant", "Cluster", "What", "Change", "Effect", "Why")
    return Table("What changes", heads, rows, frozenset(), styles=styles, long_columns=1)


def _causes_text(reasons: Sequence[str]) -> str:
    """Return causes on one line. If consecutive causes have the same path, only the first of them shows the path."""
    texts: list[str] = []
    last = ""
    for reason in reasons:
        path, colon, message = reason.partition(": ")
        texts.append(message if colon and path == last else reason)
        last = path
    return "; ".join(texts)


def files_text(plan: ChangePlan) -> str:
    """Return the numbers of changed files."""
    files = plan.files
    kinds = ((files.added, "added"), (files.changed, "changed"), (files.removed, "removed"))
    how = ", ".join(f"{count:,} {word}" for count, word in kinds if count)
    markers = f", including {pluralize(files.markers, 'folder marker')}" if files.markers else ""
    other_files = f", {pluralize(plan.other_files.total, 'other file')}" if plan.other_files.total else ""
    declared = f"{pluralize(files.declared, 'declared file')}{other_files} and {pluralize(files.total, 'rendered file')} change"
    return f"{declared}{f' ({how}{markers})' if how else ''}."


def _change_text(before: object, after: object) -> str:
    return str(after) if before == after else f"{before} → {after}"


def _quota_amount(amount: QuotaOutput, value: Fraction) -> str:
    return format_size(int(value)) if amount.dimension == "storage" else format_decimal(value)


def diff_lines(diff: FileDiff) -> list[str]:
    """Return the differences of a file as a unified diff.

    If the file is too long, the result has only the number of lines before and after the change.
    """
    before, after = ([] if data is None else _text_lines(data) for data in (diff.before, diff.after))
    if len(before) > MAX_DIFF_LINES or len(after) > MAX_DIFF_LINES:
        return [f"  {len(before):,} lines → {len(after):,} lines"]
    old, new = (
        "/dev/null" if data is None else escape_unprintable(diff.path, 400) for data in (diff.before, diff.after)
    )
    return list(difflib.unified_diff(before, after, old, new, lineterm="", n=2))


def _text_lines(data: bytes) -> list[str]:
    return [
        line if len(line) <= MAX_DIFF_WIDTH else f"{line[:MAX_DIFF_WIDTH]}… ({len(line)} characters)"
        for line in data.decode("utf-8", "backslashreplace").replace("\r", "\\r").removesuffix("\n").split("\n")
    ]
