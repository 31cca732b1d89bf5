"""Finds the reserved units that their tenants don't use, as uses of a kind of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from allotment.billing.late_changes import MergedTerms
from allotment.billing.periods import Period, split_interval
from allotment.billing.recorded_use import RESERVED_KIND, StockTime, Use
from allotment.declared.tenant_resources import INSTANCE


class _Unused(NamedTuple):
    """The units of a stock that its tenant doesn't use between two times."""

    stock: StockTime
    units: int
    start: int
    end: int


def list_reserved_uses(
    stocks: Iterable[StockTime], uses: Iterable[Use], period: Period, terms: Sequence[MergedTerms]
) -> list[Use]:
    """Return the unused time of reserved units within a period, sorted by tenant, cluster, stock and start.

    A tenant uses the stock with the first name first. A use counts until its end, whether somebody observed it or not. The
    `fraction` is that of the last merge before the time; it is 0 if the stock declares no reservation. `terms` are the merges in their order.
    """
    stocks_by_owner: dict[tuple[str, str, str], list[StockTime]] = defaultdict(list)
    for stock in stocks:
        start, end = period.clip(stock.start, stock.certain_end)
        if stock.tenant and start < end:
            owner = stock.tenant, stock.cluster, stock.gpu_spec
            stocks_by_owner[owner].append(stock._replace(start=start, certain_end=end))
    uses_by_owner: dict[tuple[str, str, str], list[Use]] = defaultdict(list)
    for use in uses:
        if use.kind == INSTANCE.kind.name:
            uses_by_owner[use.tenant, use.cluster, use.offer].append(use)
    times = [0, *(each.time for each in terms[1:])]
    fractions = [each.reservations for each in terms] or [{}]
    return [
        _build_use(unused, start, end, fractions[index])
        for owner, owned in sorted(stocks_by_owner.items())
        for unused in _find_unused(owned, uses_by_owner[owner])
        for index, start, end in split_interval(unused.start, unused.end, times)
    ]


def _find_unused(stocks: Sequence[StockTime], uses: Sequence[Use]) -> Iterator[_Unused]:
    """Yield the unused units of the stocks of a tenant, sorted by stock and start."""
    changes: dict[int, int] = defaultdict(int)  # of the units in use
    for use in uses:
        changes[use.start] += 1
        changes[use.end] -= 1
    times = sorted({*changes, *(time for stock in stocks for time in (stock.start, stock.certain_end))})
    parts: list[_Unused] = []
    in_use = 0
    for start, end in pairwise(times):
        in_use += changes.get(start, 0)
        left = in_use
        for stock in sorted(stocks, key=lambda stock: (stock.name, stock.start)):
            if stock.start <= start < stock.certain_end:
                unused = max(0, stock.units - left)
                left = max(0, left - stock.units)
                if unused:
                    parts.append(_Unused(stock, unused, start, end))
    parts.sort(key=lambda part: (part.stock.name, part.start))
    last: _Unused | None = None
    for part in parts:
        if last is not None and last._replace(start=part.start, end=part.end) == part and last.end == part.start:
            last = last._replace(end=part.end)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def _build_use(unused: _Unused, start: int, end: int, fractions: Mapping[tuple[str, str], Decimal | None]) -> Use:
    stock = unused.stock
    return Use(
        cluster=stock.cluster,
        tenant=stock.tenant,
        kind=RESERVED_KIND,
        name=stock.name,
        uid=stock.uid,
        offer=stock.gpu_spec,
        size=unused.units,
        labels={},
        node="",
        start=start,
        certain_end=end,
        end=end,
        is_open=False,
        commit=stock.commit,
        fraction=fractions.get((stock.cluster, stock.name)) or Decimal(0),
    )
