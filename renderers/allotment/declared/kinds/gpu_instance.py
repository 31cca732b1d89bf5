"""GPUInstance: a container with a GPU."""

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
from allotment.declared.values import EnvPrefix, LineOfText, MountPath, SubPath


class AppChoice(StrictModel):
    """A version of an app in the catalog."""

    name: AppReference = Field(description="The name of the App.")
    version: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="The version of the App, quoted.")


class Mount(StrictModel):
    """A storage of the same tenant and cluster, mounted into the container."""

    name: GPUStorageReference = Field(description="The name of the GPUStorage.")
    mount_path: MountPath = Field(description="The path in the container at which the storage is mounted.")
    sub_path: SubPath | None = Field(
        default=None, description="The folder of the storage to mount. Default: the whole storage."
    )
    read_only: bool = Field(default=False, description="Mounts the storage read-only.")


class BucketUse(StrictModel):
    """A bucket of the same tenant and cluster.

    The container gets the address and the credentials of the bucket in environment variables: AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY, BUCKET_NAME, BUCKET_HOST, BUCKET_PORT, BUCKET_REGION, and, if the cluster declares an
    endpoint, AWS_ENDPOINT_URL.
    """

    name: BucketReference = Field(description="The name of a GPUStorage that is a bucket.")
    env_prefix: EnvPrefix = Field(
        default="",
        description="The prefix of the variables' names, such as DATA_. Each bucket of an instance needs a different"
        " prefix.",
    )


class Hold(StrictModel):
    """Stops an instance on behalf of the platform team. Its storages stay, and its units are free for others."""

    reason: LineOfText = Field(description="The reason, for the members of the tenant.")


class GPUInstanceSpec(Spec):
    """The program (exactly one of app and container.image), the cluster and the units of the instance."""

    state: Literal["Running", "Stopped"] = Field(
        default="Running", description="Stopped: the instance has no pods and releases its units. Its storages stay."
    )
    cluster: ClusterReference = Field(description="The name of the Cluster that the instance runs in.")
    gpu_spec: GPUSpecReference = Field(
        description="The name of the GPUSpec whose unit each replica holds. It sets GPU, CPU, memory, disk and price."
    )
    app: AppChoice | None = None
    container: Container | None = Field(
        default=None,
        description="The container to run. With an app: only args, which replace those of the app, and env, which is"
        " merged by name.",
    )
    replicas: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="The number of replicas behind the URL of the instance. Each replica holds a unit."
    )
    spread: list[Literal["Zones", "Nodes"]] = Field(
        default=[],
        max_length=2,
        description="Spreads the replicas evenly over zones, nodes or both: their numbers in two zones, or on two"
        " nodes, differ by at most 1. A replica waits until such a place is free. Zones are values of the node label"
        " topology.kubernetes.io/zone. The tenant's tariff plan must allow the value.",
    )
    access: list[Literal["SSH"]] = Field(
        default=[],
        max_length=1,
        description="SSH: Admins and Members of the tenant can connect to the container with the SSH keys in the tenant's"
        " Members. The image needs a shell, and no SSH server. Default: no access besides the ports.",
    )
    on_secret_change: Literal["Keep", "Restart"] = Field(
        default="Keep",
        description="Keep: the instance gets a value that changes in the secret store at its next start. Restart: it restarts"
        " once the cluster has read the new value of a SecretReference in container.env. The cluster must declare"
        " secretStore.restartsInstances.",
    )
    restarts: Annotated[int, Field(ge=0, le=999_999)] = Field(
        default=0,
        description="The number of restarts that people requested. A change of the number replaces the pods of the instance:"
        " their disks are erased, and the storages stay. `allot instance restart` raises the number.",
    )
    storages: Annotated[list[Mount], unique_by("mount_path")] = Field(default=[], max_length=30)
    buckets: Annotated[list[BucketUse], unique_by("name"), unique_by("env_prefix")] = Field(default=[], max_length=10)
    hold: Hold | None = Field(
        default=None,
        description="The instance is on hold: it has no pods and releases its units, also with state Running. Only the team"
        " `platform` changes the field, unless the Ownership has a rule for it.",
    )

    @property
    def is_running(self) -> bool:
        """Whether the instance is declared to run, and not on hold."""
        return self.state == "Running" and self.hold is None

    def mounts(self, storage: str) -> bool:
        """Return whether the container mounts a storage."""
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
    """A container with a GPU in a cluster, on units of a GPUSpec. It runs an app of the catalog or the tenant's own image.

    A Running instance holds `replicas` units, even while it waits for the preparation of a storage.
    """

    kind: Literal["GPUInstance"]
    spec: GPUInstanceSpec
