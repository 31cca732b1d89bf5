"""Secrets: a SecretReference is in a cluster with a secret store. Instances and the S3 sources of storages use its keys in
the same cluster.

The tenant's part of the store is the path <prefix>/<tenant>. No tenant named `data` may read the store, because Vault
stores its secrets below a path of this name, so that this tenant would read the secrets of all tenants. A tenant
declares at most 100 keys in a cluster, because the cluster reads all of them again and again.

No variable and no source reads a SecretReference with the type ImagePull. An instance with `onSecretChange: Restart` reads a secret, and is
in a cluster with `secretStore.restartsInstances`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import S3_KEYS, GPUStorage
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.reading import suggest_name
from allotment.declared.secret_stores import DOCKER_CONFIG_KEY
from allotment.problems import Finding, quote_value

RULE = "secret-reference"
MAX_KEYS = 100  # keys of a tenant in a cluster
AMBIGUOUS_TENANT = "data"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's SecretReferences, and the instances and storages that use them."""
    references = tenant.of_kind(SecretReference)
    counts = Counter[str]()
    for _, reference in sorted(references.items()):
        yield from _check_store(catalog, tenant.name, reference)
        cluster = reference.model.spec.cluster
        counts[cluster] += len(reference.model.spec.keys)
        if counts[cluster] > MAX_KEYS >= counts[cluster] - len(reference.model.spec.keys):
            message = (
                f"with this file, the tenant declares {counts[cluster]} keys in cluster {cluster}, and at most {MAX_KEYS}"
                " are allowed: remove keys that no instance uses"
            )
            yield reference.make_finding("spec.keys", message, RULE)
    for instance in tenant.of_kind(GPUInstance).values():
        yield from _check_instance(catalog, instance, references)
    for storage in tenant.of_kind(GPUStorage).values():
        yield from _check_storage(storage, references)


def _check_store(catalog: Catalog, tenant: str, reference: DeclarationFile[SecretReference]) -> Iterator[Finding]:
    name = reference.model.spec.cluster
    folder = catalog.clusters.get(name)
    place = folder.get_singleton(Cluster) if folder is not None else None
    if place is not None and place.model.spec.secret_store is None:
        message = f"cluster {name} has no secret store: the platform team declares spec.secretStore in {place.path}"
        yield reference.make_finding("spec.cluster", message, RULE, related=(place.path,))
    if tenant == AMBIGUOUS_TENANT:
        message = (
            f"a tenant named '{AMBIGUOUS_TENANT}' can't read a secret store, because Vault would let it read the secrets of"
            " all tenants: use a tenant with another name"
        )
        yield reference.make_finding("metadata.name", message, RULE)
    store = place.model.spec.secret_store if place is not None else None
    yield from _check_keys(tenant, reference, store.prefix if store is not None else "")


def _check_keys(tenant: str, reference: DeclarationFile[SecretReference], prefix: str) -> Iterator[Finding]:
    """Yield warnings of keys that are valid, but probably not as meant."""
    spec = reference.model.spec
    for index, key in enumerate(spec.keys):
        folder = f"{prefix}/{tenant}/"
        if prefix and key.path.startswith(folder):
            message = f"the store is read at {folder}{key.path}: write {key.path.removeprefix(folder)}, without the tenant's folder"
            yield reference.make_finding(f"spec.keys.{index}.path", message, RULE, warning=True)
        if key.name == DOCKER_CONFIG_KEY and not spec.is_image_pull:
            message = (
                "no pod pulls images with this key, because the type is Values: write `type: ImagePull`, or another key"
            )
            yield reference.make_finding(f"spec.keys.{index}.name", message, RULE, warning=True)


def _check_restart(catalog: Catalog, instance: DeclarationFile[GPUInstance]) -> Iterator[Finding]:
    spec = instance.model.spec
    if spec.on_secret_change != "Restart":  # noqa: S105  # not a password
        return
    folder = catalog.clusters.get(spec.cluster)
    place = folder.get_singleton(Cluster) if folder is not None else None
    store = place.model.spec.secret_store if place is not None else None
    if not any(variable.value_from for variable in (spec.container.env if spec.container is not None else ())):
        message = "no variable of the instance reads a SecretReference, so no change can restart it: remove the field"
        yield instance.make_finding("spec.onSecretChange", message, RULE)
    elif place is not None and (store is None or not store.restarts_instances):
        message = (
            f"cluster {spec.cluster} restarts no instances: the platform team declares spec.secretStore.restartsInstances in"
            f" {place.path}; until then, write Keep, or stop the instance and start it again after a change"
        )
        yield instance.make_finding("spec.onSecretChange", message, RULE, related=(place.path,))


def _check_instance(
    catalog: Catalog, instance: DeclarationFile[GPUInstance], references: Mapping[str, DeclarationFile[SecretReference]]
) -> Iterator[Finding]:
    yield from _check_restart(catalog, instance)
    spec = instance.model.spec
    for index, variable in enumerate(spec.container.env if spec.container is not None else ()):
        if variable.value_from is None:
            continue
        field, source = f"spec.container.env.{index}.valueFrom.secretKeyRef", variable.value_from.secret_key_ref
        reference = references.get(source.name)
        if reference is None:
            continue  # `references` yields the error
        keys = [key.name for key in reference.model.spec.keys]
        if message := _find_unreadable(reference, "instance", spec.cluster, "variable"):
            yield instance.make_finding(f"{field}.name", message, RULE, related=(reference.path,))
        elif source.key not in keys:
            message = (
                f"SecretReference {source.name} has no key {quote_value(source.key)}{suggest_name(source.key, keys)}"
            )
            yield instance.make_finding(f"{field}.key", message, RULE, related=(reference.path,))


def _check_storage(
    storage: DeclarationFile[GPUStorage], references: Mapping[str, DeclarationFile[SecretReference]]
) -> Iterator[Finding]:
    """Check the SecretReference with the credentials of the bucket from which a storage is filled."""
    prepare = storage.model.spec.prepare
    source = prepare.source.s3 if prepare is not None else None
    reference = references.get(source.secret_ref.name) if source is not None and source.secret_ref is not None else None
    if reference is None:
        return  # `references` yields the error if the name is missing
    missing = [key for key in S3_KEYS if key not in [declared.name for declared in reference.model.spec.keys]]
    message = _find_unreadable(reference, "storage", storage.model.spec.cluster, "source")
    if not message and missing:
        message = (
            f"SecretReference {reference.model.name} has no key {' and no key '.join(missing)}, which the preparation reads:"
            f" add it to spec.keys in {reference.path}"
        )
    if message:
        yield storage.make_finding("spec.prepare.source.s3.secretRef.name", message, RULE, related=(reference.path,))


def _find_unreadable(reference: DeclarationFile[SecretReference], noun: str, cluster: str, reader: str) -> str:
    """Return why a variable or a source in a cluster can't read a SecretReference; empty if it can."""
    name, spec = reference.model.name, reference.model.spec
    if spec.cluster != cluster:
        return (
            f"SecretReference {name} is in cluster {spec.cluster}, and the {noun} is in {cluster}: use the same cluster"
            " for both"
        )
    if spec.is_image_pull:
        remedy = "remove the variable" if reader == "variable" else "name another SecretReference"
        return (
            f"SecretReference {name} has the type ImagePull, and no {reader} can read a pull credential: {remedy},"
            " because all pods of the tenant pull images with the credential"
        )
    return ""
