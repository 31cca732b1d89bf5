"""Prices: what has begun to count is part of invoices, and never changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.declared.inventory import Declared
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.problems import Finding
from allotment.rules.change import Change

RULE = "price"


def check(change: Change) -> Iterator[Finding]:
    """Check the price lists of specs that are there before and after."""
    for kind in (GPUSpec, StorageSpec):
        for old, new in change.kept(kind):
            yield from _check_list(change, old, new)


def _check_list(change: Change, old: Declared[Any], new: Declared[Any]) -> Iterator[Finding]:
    before = {price.start: price for price in old.model.spec.prices}
    after = {price.start: price for price in new.model.spec.prices}
    for start in sorted(before):
        if start <= change.as_of and start not in after:
            yield new.finding(
                "spec.prices", f"the price from {start} has begun to count and is gone: put it back", RULE
            )
    for index, price in enumerate(new.model.spec.prices):
        if price.start > change.as_of:
            continue
        if price.start not in before:
            message = f"a new price can't begin on {price.start}, before tomorrow ({change.as_of} is today)"
            yield new.finding(f"spec.prices.{index}.from", message, RULE)
        elif before[price.start] != price:
            message = f"the price from {price.start} has begun to count and can't change: add an entry with a later day"
            yield new.finding(f"spec.prices.{index}", message, RULE)
