"""Builds the rows of the list of secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.values import format_duration
from allotment.manifests import names
from allotment.output_part import Part


class SecretKeyOutput(Part, frozen=True, kw_only=True):
    """A key of a secret. `path` is the place of its value in the store, and `property` the field there, if not the whole."""

    name: str
    path: str
    property: str | None


class SecretRowOutput(Part, frozen=True, kw_only=True):
    """A declared secret of a tenant, without its values.

    `store` is the secret store of the cluster; it is null if the cluster declares none. The path of a key then has no prefix.
    `usedBy` are the instances with a variable that reads the secret, and the storages with a source that reads it, as
    storage/NAME.
    """

    tenant: str
    name: str
    cluster: str
    type: Literal["Values", "ImagePull"]
    store: str | None
    keys: tuple[SecretKeyOutput, ...]
    refresh_interval: str
    used_by: tuple[str, ...]
    labels: dict[str, str]

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"


def build_secret_rows(tenant: ScopeDeclarations, clusters: Mapping[str, Cluster]) -> list[SecretRowOutput]:
    """Return a row for each secret of a tenant, by name."""
    return [_build_row(tenant, declared, clusters) for declared in tenant.of_kind(SecretReference).values()]


def _build_row(
    tenant: ScopeDeclarations, declared: DeclarationFile[SecretReference], clusters: Mapping[str, Cluster]
) -> SecretRowOutput:
    spec = declared.model.spec
    cluster = clusters.get(spec.cluster)
    store = cluster.spec.secret_store if cluster is not None else None
    folder = names.secret_folder(store.prefix, tenant.name) if store is not None else ""
    return SecretRowOutput(
        tenant=tenant.name,
        name=declared.model.name,
        cluster=spec.cluster,
        type=spec.type_,
        store=store.name if store is not None else None,
        keys=tuple(
            SecretKeyOutput(name=key.name, path=f"{folder}{key.path}", property=key.property_) for key in spec.keys
        ),
        refresh_interval=format_duration(spec.refresh_interval),
        used_by=(
            *(
                instance.model.name
                for instance in tenant.of_kind(GPUInstance).values()
                if declared.model.name in _list_secrets(instance.model)
            ),
            *(
                f"storage/{storage.model.name}"
                for storage in tenant.of_kind(GPUStorage).values()
                if declared.model.name == _find_source_secret(storage.model)
            ),
        ),
        labels=dict(declared.model.metadata.labels),
    )


def _list_secrets(instance: GPUInstance) -> set[str]:
    """Return the names of the secrets that the variables of an instance read."""
    container = instance.spec.container
    variables = container.env if container is not None else []
    return {variable.value_from.secret_key_ref.name for variable in variables if variable.value_from is not None}


def _find_source_secret(storage: GPUStorage) -> str:
    """Return the name of the secret that the source of a storage reads; empty if it reads none."""
    source = storage.spec.prepare.source.s3 if storage.spec.prepare is not None else None
    return source.secret_ref.name if source is not None and source.secret_ref is not None else ""
