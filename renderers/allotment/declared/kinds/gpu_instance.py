"""GPUInstance: a container with a GPU."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.container import Container
from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel, unique_by
from allotment.declared.references import (
    AppReference,
    BucketReference,
    ClusterReference,
    GPUSpecReference,
    GPUStorageReference,
)
from allotment.declared.values import EnvPrefix, MountPath, SubPath


class AppChoice(StrictModel):
    """A catalog app and its version."""

    name: AppReference = Field(description="An App of the catalog.")
    version: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="One of its versions, quoted.")


class Mount(StrictModel):
    """A storage of the same tenant and cluster, mounted into the container."""

    name: GPUStorageReference = Field(description="The GPUStorage.")
    mount_path: MountPath = Field(description="Where the container finds it.")
    sub_path: SubPath | None = Field(
        default=None, description="A folder of the storage that is mounted instead of all of it."
    )
    read_only: bool = Field(default=False, description="Whether the container may only read.")


class BucketUse(StrictModel):
    """A bucket of the same tenant and cluster, whose address and credentials the container gets as environment variables.

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, BUCKET_NAME, BUCKET_HOST, BUCKET_PORT, BUCKET_REGION, and AWS_ENDPOINT_URL where
    the cluster declares one.
    """

    name: BucketReference = Field(description="The GPUStorage, of a StorageSpec with bucket.")
    env_prefix: EnvPrefix = Field(
        default="",
        description="Before the names of the variables, such as DATA_; the names of two buckets must differ.",
    )


class GPUInstanceSpec(Spec):
    """What runs, where, on which unit: exactly one of app and container.image."""

    state: Literal["Running", "Stopped"] = Field(
        default="Running", description="Stopped gives the units back; the storages stay."
    )
    cluster: ClusterReference = Field(description="The Cluster that it runs in.")
    gpu_spec: GPUSpecReference = Field(
        description="The GPUSpec whose unit each copy holds: GPU, cores, memory, disk, price."
    )
    app: AppChoice | None = None
    container: Container | None = Field(default=None, description="With an app only args (replaced) and env (by name).")
    replicas: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="Copies behind one URL; each holds a unit."
    )
    spread: list[Literal["Zones", "Nodes"]] = Field(
        default=[],
        max_length=2,
        description="What the copies are spread over evenly: no zone, or no node, has two more than another. A copy that"
        " finds no such place waits, also where the place that it should have is full; nodes without the label"
        " topology.kubernetes.io/zone are in no zone. The plan says what is allowed.",
    )
    storages: Annotated[list[Mount], unique_by("mount_path")] = Field(default=[], max_length=30)
    buckets: Annotated[list[BucketUse], unique_by("name"), unique_by("env_prefix")] = Field(default=[], max_length=10)

    def mounts(self, storage: str) -> bool:
        """Return whether the container has a storage mounted."""
        return any(mount.name == storage for mount in self.storages)

    @model_validator(mode="after")
    def _check_one_program(self) -> Self:
        own = self.container
        if self.app is None:
            if own is None or own.image is None:
                raise PydanticCustomError("one-of", "exactly one of app and container.image must be given, found none")
            return self
        if own is None:
            return self
        if own.image is not None:
            raise PydanticCustomError("one-of", "exactly one of app and container.image must be given, found both")
        if own.command or own.ports or own.probe or own.shm_size is not None:
            raise PydanticCustomError(
                "app-container", "with an app only container.args and container.env may be given: remove the rest"
            )
        return self


class GPUInstance(Declaration):
    """A container with a GPU: an app from the catalog or an image of the tenant's own, on units of a GPUSpec in one cluster.

    While it is Running it holds `replicas` units, also while it waits for a storage to be prepared.
    """

    kind: Literal["GPUInstance"]
    spec: GPUInstanceSpec
