"""Reads the declared secrets of tenants from a commit."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.adapters.declaration_source import Source
from allotment.branches.platform_settings import list_cluster_names, read_cluster
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder, suggest_name
from allotment.declared.tenant_resources import SECRET
from allotment.observed.secret_rows import SecretRowOutput, build_secret_rows
from allotment.problems import OperationRefused, quote_value
from allotment.services.check.workers import read_scope


def read_secrets(source: Source, tenants: Sequence[str]) -> list[SecretRowOutput]:
    """Return the secrets of tenants, or of all tenants without a name. Raises OperationRefused for an unknown tenant."""
    declared = [scope.name for scope in source.scopes()[0] if scope.kind == "tenant"]
    for name in tenants:
        if name not in declared:
            raise OperationRefused(f"no tenant is named {quote_value(name)}{suggest_name(name, declared)}")
    clusters = {name: cluster for name in list_cluster_names(source) if (cluster := read_cluster(source, name))}
    rows: list[SecretRowOutput] = []
    for name in declared:
        scope = Scope("tenant", name)
        has_secrets = any(f"/{SECRET.plural}/" in path for path in source.files(scope).paths)
        if has_secrets and (not tenants or name in tenants):
            rows += build_secret_rows(read_folder(scope, read_scope(source, scope).files)[0], clusters)
    return rows


def find_secret(source: Source, tenant: str, name: str) -> SecretRowOutput:
    """Return a secret of a tenant. Raises OperationRefused if the tenant has no such secret."""
    rows = {row.name: row for row in read_secrets(source, [tenant])}
    if name not in rows:
        hint = suggest_name(name, rows) or ""
        raise OperationRefused(
            f"{tenant} has no secret named {quote_value(name)}{hint}; `allot secret create {tenant}/NAME` declares a secret"
        )
    return rows[name]
