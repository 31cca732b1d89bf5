"""The options of a repository check: reading, rendering and storing tenants, and the comparison with another source."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache
from allotment.preparation.runtime_state import RuntimeStates, unknown_state
from allotment.services.check.workers import RenderBatch

if TYPE_CHECKING:
    from allotment.rules.tally import ChangedFiles


OpenCache = Callable[[str], FileCache]


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """How a check treats tenants.

    - `open_cache` returns the cache for a key. The check neither reads nor renders an unchanged tenant in the cache.
      Without `open_cache`, the check reads all tenants.
    - `render` renders the tenants without errors, in the process that read them.
    - `store_artifacts` receives the name of each tenant and the result of `render`, in the order of names. Without it,
      `RepositoryCheck.artifacts` holds the results.
    - `report_progress` receives the number of tenants checked so far, and the number of all tenants to check.
    - `processes` is the number of processes, by default the number of cores.
    - `runtime_states` returns the runtime state of a tenant.
    - `cpu_seconds` limits the processor time of each tenant. A tenant that exceeds the limit gets a problem.
    - `partial` limits the effect of a cluster's error to the tenants of that cluster. Otherwise any error of the
      platform or of a cluster prevents the rendering of all tenants.
    """

    open_cache: OpenCache | None = None
    render: RenderBatch | None = None
    store_artifacts: Callable[[str, Any], None] | None = None
    report_progress: Callable[[int, int], None] | None = None
    processes: int | None = None
    runtime_states: RuntimeStates = unknown_state
    cpu_seconds: float | None = None
    partial: bool = False


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of a check's source with another state.

    - `base` is the source before the change. If it is given, the check also applies the rules about changes.
    - `today` is the day before which no new price may begin, by default the day of the check.
    - `changed_files` returns the files that differ from the last commit. If there is no `base`, the check treats the
      declarations in these files as new. It calls `changed_files` only if a stock is oversold.
    """

    base: Source | None = None
    today: datetime.date | None = None
    changed_files: ChangedFiles | None = None


DEFAULT_OPTIONS = CheckOptions()
NO_COMPARISON = Comparison()
