"""Computes the offers of the catalog for a command that edits declarations, when the command first needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allotment.cli.change_options import find_change_root
from allotment.cli.options import choose_day, create_cache_opener

if TYPE_CHECKING:
    from allotment.cli.change_options import ChangeOptions
    from allotment.edits.declarations import Declarations
    from allotment.services.changes.tenant_offers import TenantOffers


class OfferReader:
    """The offers for each tenant, from the declarations of `bind`."""

    def __init__(self, options: ChangeOptions) -> None:
        self._options = options
        self._declarations: Declarations | None = None
        self._offers: dict[str, TenantOffers] = {}

    def bind(self, declarations: Declarations) -> OfferReader:
        """Set the declarations, and return the reader."""
        self._declarations = declarations
        return self

    def read(self, tenant: str) -> TenantOffers:
        """Return the offers for a tenant. Raises OperationRefused if there is no such tenant."""
        from allotment.services.changes.tenant_offers import compute_tenant_offers

        assert self._declarations is not None
        if tenant not in self._offers:
            opener = create_cache_opener(find_change_root(self._options), "-offers")
            self._offers[tenant] = compute_tenant_offers(
                self._declarations, tenant, lambda source: choose_day(source, None), opener
            )
        return self._offers[tenant]

    def list_gpu_specs(self, tenant: str, cluster: str) -> list[str]:
        """Return the names of the GPUSpecs that a tenant can use in a cluster; in any cluster if it is empty."""
        return self.read(tenant).list_gpu_specs(cluster)


def open_offers(options: ChangeOptions) -> OfferReader:
    """Return a reader of offers that has read nothing yet."""
    return OfferReader(options)
