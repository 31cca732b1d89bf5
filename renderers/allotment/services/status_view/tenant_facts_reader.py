"""Reads the facts of tenants from a commit, and takes the facts of unchanged tenants from a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache, program_key
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.declared.tenant_facts import TenantFacts, summarize_tenant
from allotment.services.check.check_options import OpenCache
from allotment.services.check.workers import count_cores, read_scope, run_batches


class _CachedFacts(NamedTuple):
    stamp: Any
    facts: TenantFacts


class _FactsTask(NamedTuple):
    """Reads tenants in batches."""

    source: Source

    def load_modules(self) -> None:
        """Load nothing: the imports of this module are enough."""

    def run_batch(self, names: list[str]) -> list[_CachedFacts]:
        """Return the facts of some tenants, each with the stamp of its files."""
        results = []
        for name in names:
            content = read_scope(self.source, Scope("tenant", name), stamped=True)
            results.append(_CachedFacts(content.stamp, summarize_tenant(read_folder(content.scope, content.files)[0])))
        return results


def read_tenant_facts(
    source: Source, tenants: Sequence[str], open_cache: OpenCache | None = None, *, processes: int | None = None
) -> dict[str, TenantFacts]:
    """Return the facts of tenants by name. `open_cache` opens the cache of facts; it is used only for all tenants.

    `processes` is the number of processes for many tenants. By default, it is the number of cores.
    """
    cache = open_cache(program_key(), _CachedFacts) if open_cache is not None else FileCache.disabled()
    facts = {
        name: entry.facts
        for name in tenants
        if (entry := cache.values.get(name)) is not None and source.is_unchanged(Scope("tenant", name), entry.stamp)
    }
    missing = [name for name in tenants if name not in facts]
    for entry in run_batches(_FactsTask(source), missing, processes or count_cores()):
        facts[entry.facts.tenant] = entry.facts
        if entry.stamp is not None:
            cache.put(entry.facts.tenant, entry)
    cache.keep_only(set(tenants))
    cache.save()
    return {name: facts[name] for name in tenants}
