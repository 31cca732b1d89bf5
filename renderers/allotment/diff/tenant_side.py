"""Define the state of a tenant on one side of a change."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from allotment.declared.inventory import Catalog, ScopeDeclarations


class TenantSide(NamedTuple):
    """The catalog, the declarations of a tenant, and its rendered files by `<cluster>/<path>` if they are known."""

    catalog: Catalog
    folder: ScopeDeclarations
    files: Mapping[str, bytes] = MappingProxyType({})
