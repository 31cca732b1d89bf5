"""The options of a repository check: how it reads tenants, and the states for a comparison."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache
from allotment.preparation.runtime_state import RuntimeStates, unknown_state

if TYPE_CHECKING:
    from allotment.rules.tally import ChangedFiles
    from allotment.services.check.catalog_check import CatalogCheck


OpenCache = Callable[[str, Any], FileCache]  # takes a key and the type of the values


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """How a check treats tenants.

    - `open_cache` returns the cache for a key and a type of values. If the cache has a tenant that is unchanged, the
      check does not read the tenant. Without `open_cache`, the check reads all tenants.
    - `report_progress` receives the number of tenants checked so far, and the number of all tenants to check.
    - `processes` is the number of processes, by default the number of cores.
    - `runtime_states` returns the runtime state of a tenant.
    - `cpu_seconds` limits the processor time of each tenant. A tenant that exceeds the limit gets a problem.
    - `check_catalog` checks the platform and the clusters; by default, `catalog_check.check_catalog`.
    - If `partial` is true, an error of a cluster prevents the artifacts only of the tenants that declare something in
      this cluster. If `partial` is false, any error of the platform or of a cluster prevents all artifacts.
    """

    open_cache: OpenCache | None = None
    report_progress: Callable[[int, int], None] | None = None
    processes: int | None = None
    runtime_states: RuntimeStates = unknown_state
    cpu_seconds: float | None = None
    partial: bool = False
    check_catalog: Callable[[Source, datetime.date], CatalogCheck] | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The states with which a check compares its source.

    - `base` is an earlier state of the source. If `base` is given, the check also applies the rules about changes.
    - `committed` is the last commit, if `base` has uncommitted files too. The rules about changes compare with this state,
      because only a commit can be published: nothing runs on a storage that nobody has committed.
    - `today` is the earliest day on which a new price may begin, by default the day of the check.
    - `changed_files` returns the files that differ from the last commit. The check calls it only if a stock is oversold
      and there is no `base`. The check then looks for the cause of the excess in these files first.
    """

    base: Source | None = None
    committed: Source | None = None
    today: datetime.date | None = None
    changed_files: ChangedFiles | None = None


DEFAULT_OPTIONS = CheckOptions()
NO_COMPARISON = Comparison()
