"""Check an ExternalSecret, which may read only below its tenant's own path in the secret store of the cluster.

A Secret is either values for instances, or a credential with which pods pull images. The platform's own credential is the
only value outside the path of the tenant, and only one name may read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from allotment.declared.kinds.cluster import SecretStore
from allotment.isolation.field_policy import check_allowed_keys, check_equal
from allotment.manifests import names
from allotment.problems import escape_unprintable

_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_SUFFIX, _PULL_SUFFIX = "--secret", "--image-pull"
_PLATFORM_PULL_SECRET = "image-pull--platform"  # noqa: S105  # a name, not a password
PULL_SECRET = re.compile(rf"[a-z](?:-?[a-z0-9])*{_PULL_SUFFIX}|{_PLATFORM_PULL_SECRET}")
_DOCKER_CONFIG_KEY = ".dockerconfigjson"
_TEMPLATE = {"type": "kubernetes.io/dockerconfigjson", "engineVersion": "v2", "mergePolicy": "Replace"}
_REFERENCE_FIELDS = frozenset(("key", "property", "conversionStrategy", "decodingStrategy", "metadataPolicy"))
# Vault inserts a segment with this name into the path of each secret. If it was the name of a tenant, the paths of that
# tenant could be the paths of all tenants.
_VAULT_SEGMENT = "data"


def judge_external_secret(store: SecretStore | None, tenant: str, metadata: Any, spec: Any) -> Iterator[str]:
    """Yield the violations of an ExternalSecret of a tenant; `store` is the secret store that the cluster declares."""
    if store is None or tenant == _VAULT_SEGMENT:
        yield f"the cluster has no secret store for tenant {tenant}"
        return
    name = str(metadata.get("name"))
    is_image_pull = name.endswith(_PULL_SUFFIX)
    if not is_image_pull and not name.endswith(_SUFFIX):
        yield f"metadata.name {escape_unprintable(name)} ends with neither {_SUFFIX} nor {_PULL_SUFFIX}"
    yield from _judge_frame(store, name, spec, is_image_pull=is_image_pull)
    for entry in spec.get("data", ()):
        yield from _judge_remote_reference(f"{store.prefix}/{tenant}/", entry.get("remoteRef", {}))


def judge_platform_pull_secret(store: SecretStore | None, metadata: Any, spec: Any) -> Iterator[str]:
    """Yield the violations of the ExternalSecret with the platform's pull credential in the namespace of a tenant."""
    if store is None or store.image_pull is None:
        yield "the cluster declares no pull credential of the platform"
        return
    yield from check_equal("metadata.name", metadata.get("name"), _PLATFORM_PULL_SECRET)
    allowed = frozenset(("secretStoreRef", "refreshInterval", "target", "data"))
    yield from check_allowed_keys("spec", spec, allowed)
    yield from _judge_frame(store, _PLATFORM_PULL_SECRET, spec, is_image_pull=True)
    for entry in spec.get("data", ()):
        reference = entry.get("remoteRef", {})
        yield from check_allowed_keys("remoteRef", reference, _REFERENCE_FIELDS)
        yield from check_equal("remoteRef.key", reference.get("key"), store.image_pull.path)
        yield from check_equal("remoteRef.property", reference.get("property"), store.image_pull.property_)


def judge_service_account(manifest: Any) -> Iterator[str]:
    """Yield the violations of the ServiceAccount of a tenant's pods: it lists pull credentials, and nothing else."""
    metadata = manifest.get("metadata", {})
    yield from check_equal("metadata.name", metadata.get("name"), "default")
    # Another annotation could give the pods an identity of the cloud.
    allowed = frozenset((names.SYNC_OPTIONS, names.PROTECTED))
    yield from check_allowed_keys("metadata.annotations", metadata.get("annotations", {}), allowed)
    for reference in manifest.get("imagePullSecrets", ()):
        yield from check_allowed_keys("imagePullSecrets", reference, frozenset(("name",)))
        if not PULL_SECRET.fullmatch(str(reference.get("name"))):
            yield f"imagePullSecrets {escape_unprintable(str(reference.get('name')))} is not a pull credential"


def _judge_frame(store: SecretStore, name: str, spec: Any, *, is_image_pull: bool) -> Iterator[str]:
    """Yield the violations of the store, the target and the keys of an ExternalSecret."""
    expected_store = {"kind": "ClusterSecretStore", "name": store.name}
    yield from check_equal("secretStoreRef", spec.get("secretStoreRef"), expected_store)
    target, fields = spec.get("target", {}), frozenset(("name", "creationPolicy", "deletionPolicy"))
    yield from check_allowed_keys("target", target, fields | {"template"} if is_image_pull else fields)
    yield from check_equal("target.name", target.get("name"), name)
    entries = spec.get("data", ())
    for entry in entries:
        yield from check_allowed_keys("data", entry, frozenset(("secretKey", "remoteRef")))
    if is_image_pull:
        yield from check_equal("target.template", target.get("template"), _TEMPLATE)
        yield from check_equal("data keys", [entry.get("secretKey") for entry in entries], [_DOCKER_CONFIG_KEY])


def _judge_remote_reference(folder: str, reference: Any) -> Iterator[str]:
    yield from check_allowed_keys("remoteRef", reference, _REFERENCE_FIELDS)
    key = str(reference.get("key"))
    if not key.startswith(folder) or not _PATH.fullmatch(key.removeprefix(folder)):
        yield f"remoteRef.key {escape_unprintable(key)} is not a path below {folder}"
