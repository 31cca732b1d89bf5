"""Builds the portal in a loop: when declarations, reports or rendered branches have changed, and once an hour."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence

from allotment.adapters.git.clone import CloneDamage
from allotment.adapters.log import Log
from allotment.adapters.metrics import PortalMetrics
from allotment.portal.pages.access import AccessList
from allotment.portal.site.page_gate import PageGate
from allotment.portal.site.site_builder import SiteBuilder
from allotment.problems import AllotmentError
from allotment.services.loop import FAILURE_REASONS, Failure, Loop, LoopTiming, repair_if_clone

STALLED_SECONDS = 1_800  # a first build of many tenants takes minutes
UpdateReaders = Callable[[AccessList | None], None]


class PortalLoop(Loop):
    """Builds the portal repeatedly, until it is stopped. `create_builder` opens the clone and the folder of the pages.

    The builder gets the function that sets the readers of the pages in `gate`.
    """

    def __init__(
        self,
        create_builder: Callable[[UpdateReaders], SiteBuilder],
        url: str,
        metrics: PortalMetrics,
        log: Log,
        interval: float,
        *,
        gate: PageGate,
    ) -> None:
        super().__init__(LoopTiming(interval, STALLED_SECONDS), log, "portal not built", metrics.record_error)
        self._create_builder, self._url, self._metrics, self._gate = create_builder, url, metrics, gate
        self._builder: SiteBuilder | None = None
        self._logged_tracebacks: Mapping[str, str] = {}
        self._lacked_credential = False
        metrics.initialize_reasons(FAILURE_REASONS)

    @property
    def display_url(self) -> str:
        """The URL of the source, without secrets."""
        return self._url

    def on_leadership_lost(self) -> None:
        """Forget nothing: each replica builds and serves its own pages."""

    def classify_error(self, error: Exception) -> Failure:
        """Return the failure. While the source doesn't answer, the pages of the last build are served."""
        return super().classify_error(error)._replace(connected=isinstance(error, AllotmentError) and self._has_pages)

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone. If it was replaced, the next turn builds everything again."""
        if self._builder is None:
            return None
        damage = repair_if_clone(self._builder.repository, errors)
        if damage is not None and damage.is_replaced:
            self._builder = None
        return damage

    def run_once(self) -> None:
        """Build the changed pages."""
        self._builder = self._builder or self._create_builder(self._gate.update)
        begun = time.monotonic()
        result = self._builder.build(datetime.datetime.now(datetime.UTC))
        self._gate.open()
        if self._gate.lacks_credential and not self._lacked_credential:
            self.log.error(
                "logins not checked",
                message="the platform declares spec.portal.proxySecretName: set --portal-secret-file",
            )
        self._lacked_credential = self._gate.lacks_credential
        self._metrics.record_build(result.pages)
        for tenant, trace in result.tracebacks.items():
            if self._logged_tracebacks.get(tenant) != trace:  # each turn tries again
                self.log.error("tenant ran into a bug", tenant=tenant, trace=trace)
        self._logged_tracebacks = result.tracebacks
        if result.changed or result.removed:
            self.log.info(
                "portal built",
                commit=result.commit,
                pages=result.pages,
                changed=result.changed,
                removed=result.removed,
                tenants=result.tenants,
                seconds=round(time.monotonic() - begun, 2),
            )
        self._builder.repository.run_maintenance()

    @property
    def _has_pages(self) -> bool:
        return self._builder is not None and self._builder.is_built
