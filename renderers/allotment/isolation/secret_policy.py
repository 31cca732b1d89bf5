"""Check an ExternalSecret, which may read only below its tenant's own path in the secret store of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from allotment.declared.kinds.cluster import SecretStore
from allotment.isolation.field_policy import check_allowed_keys, check_equal
from allotment.problems import escape_unprintable

_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_SUFFIX = "--secret"
# Vault inserts a segment with this name into the path of each secret. If it was the name of a tenant, the paths of that
# tenant could be the paths of all tenants.
_VAULT_SEGMENT = "data"


def judge_external_secret(store: SecretStore | None, tenant: str, metadata: Any, spec: Any) -> Iterator[str]:
    """Yield the violations of an ExternalSecret of a tenant; `store` is the secret store that the cluster declares."""
    if store is None or tenant == _VAULT_SEGMENT:
        yield f"the cluster has no secret store for tenant {tenant}"
        return
    expected_store = {"kind": "ClusterSecretStore", "name": store.name}
    yield from check_equal("secretStoreRef", spec.get("secretStoreRef"), expected_store)
    target, name = spec.get("target", {}), str(metadata.get("name"))
    yield from check_allowed_keys("target", target, frozenset(("name", "creationPolicy", "deletionPolicy")))
    yield from check_equal("target.name", target.get("name"), name)
    if not name.endswith(_SUFFIX):
        yield f"metadata.name {escape_unprintable(name)} does not end with {_SUFFIX}"
    for entry in spec.get("data", ()):
        yield from check_allowed_keys("data", entry, frozenset(("secretKey", "remoteRef")))
        yield from _judge_remote_reference(f"{store.prefix}/{tenant}/", entry.get("remoteRef", {}))


def _judge_remote_reference(folder: str, reference: Any) -> Iterator[str]:
    allowed = frozenset(("key", "property", "conversionStrategy", "decodingStrategy", "metadataPolicy"))
    yield from check_allowed_keys("remoteRef", reference, allowed)
    key = str(reference.get("key"))
    if not key.startswith(folder) or not _PATH.fullmatch(key.removeprefix(folder)):
        yield f"remoteRef.key {escape_unprintable(key)} is not a path below {folder}"
