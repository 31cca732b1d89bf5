"""Computes the offers of the catalog for a tenant, from the declarations that a command edits."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

from allotment.adapters.declaration_source import ScopeFiles
from allotment.declared.kinds.platform import Platform
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import read_folder
from allotment.edits.declarations import Declarations
from allotment.problems import AllotmentError, Problem
from allotment.rules.availability import AvailableOffers, TenantAllowance, list_offers
from allotment.services.check.check_options import CheckOptions, OpenCache
from allotment.services.check.repository_check import check_repository
from allotment.services.check.workers import read_scope


class TenantOffers(NamedTuple):
    """The offers of the catalog with their barriers for a tenant, the tenant's allowance, and the day of the prices."""

    offers: AvailableOffers
    allowance: TenantAllowance
    currency: str
    day: datetime.date

    def list_gpu_specs(self, cluster: str) -> list[str]:
        """Return the sorted names of the GPUSpecs that the tenant can use in a cluster; an empty cluster stands for all."""
        return sorted(
            {
                offer.spec.model.name
                for offer in self.offers.gpu_offers
                if not offer.barriers and cluster in ("", offer.cluster)
            }
        )


ChooseDay = Callable[[Any], datetime.date]


class DeclarationsSource:
    """A source of the declarations that a command edits."""

    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the sorted scopes. Paths outside of all scopes are left out."""
        owned = [Scope(kind, name) for kind in ("cluster", "tenant") for name in self._declarations.list_scopes(kind)]
        return sorted([PLATFORM, *owned]), []

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return the files of a scope, without a stamp."""
        return ScopeFiles(tuple(self._declarations.list_paths(scope)))

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return False, because no scope has a stamp."""
        return False

    def read(self, path: str) -> bytes:
        """Return the bytes of a listed file."""
        data = self._declarations.read(path)
        if data is None:
            raise KeyError(path)
        return data


def compute_tenant_offers(
    declarations: Declarations, tenant: str, choose_day: ChooseDay, open_cache: OpenCache | None = None
) -> TenantOffers:
    """Return the offers for a tenant. Raises OperationRefused if there is no such tenant."""
    declarations.check_scope(scope := Scope("tenant", tenant))
    source = DeclarationsSource(declarations)
    day = choose_day(source)
    check = check_repository(source, day, CheckOptions(open_cache=open_cache))
    platform = check.catalog.platform.get_singleton(Platform)
    if platform is None:
        raise AllotmentError("platform/platform.yaml can't be read: `allot validate` shows the reason")
    folder = read_folder(scope, read_scope(source, scope).files)[0]
    entries = check.tally_entries.values()
    offers = list_offers(
        check.catalog,
        [claim for entry in entries for claim in entry.claims],
        [storage for entry in entries for storage in entry.storages],
        folder,
    )
    return TenantOffers(offers, TenantAllowance(check.catalog, folder), platform.model.spec.billing.currency, day)
