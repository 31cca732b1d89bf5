"""Prices: once a price applies, it can't be changed or removed, because invoices contain it.

A new price starts tomorrow or later.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.problems import Finding
from allotment.rules.folder_change import FolderChange

RULE = "price"


def check(change: FolderChange) -> Iterator[Finding]:
    """Check the price lists of the GPUSpecs and StorageSpecs that exist at the base and now."""
    for gpu, new_gpu in change.common_declarations(GPUSpec):
        yield from _check_list(change, new_gpu, "spec.prices", gpu.model.spec.prices, new_gpu.model.spec.prices)
    for kind, new_kind in change.common_declarations(StorageSpec):
        old, new = kind.model.spec, new_kind.model.spec
        yield from _check_list(change, new_kind, "spec.prices", old.prices, new.prices)
        if old.snapshot_prices:
            yield from _check_list(change, new_kind, "spec.snapshotPrices", old.snapshot_prices, new.snapshot_prices)


def _check_list(
    change: FolderChange, new: DeclarationFile[Any], field: str, old_prices: Sequence[Any], new_prices: Sequence[Any]
) -> Iterator[Finding]:
    old_by_day = {price.start: price for price in old_prices}
    new_by_day = {price.start: price for price in new_prices}
    for start in sorted(old_by_day):
        if start <= change.today and start not in new_by_day:
            yield new.make_finding(field, f"the price from {start} already applies and was removed: restore it", RULE)
    for index, price in enumerate(new_prices):
        if price.start > change.today:
            continue
        if price.start not in old_by_day:
            message = f"a new price can't start on {price.start}, before tomorrow: write {change.today + datetime.timedelta(days=1)} or a later day"
            yield new.make_finding(f"{field}.{index}.from", message, RULE)
        elif old_by_day[price.start] != price:
            message = f"the price from {price.start} already applies and can't change: add an entry with a later day"
            yield new.make_finding(f"{field}.{index}", message, RULE)
