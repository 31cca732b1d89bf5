"""GPU sharing: the modes that GPUSpecs request and node pools provide."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import StrictModel, check_one_of
from allotment.declared.values import Count, name_field, pattern_field

MIG_PROFILE = r"^[1-7]g\.[1-9][0-9]{0,2}gb(?:\+me)?$"
# The name of a mig-parted configuration, such as all-balanced or all-1g.10gb. It must be a valid label value.
_MIG_CONFIG = r"^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$"
_MigProfileName = Annotated[str, pattern_field(MIG_PROFILE, "a MIG profile such as 1g.10gb")]
GpuModel = Annotated[str, name_field(32)]


EXCLUSIVE_CONFIG = "exclusive"  # the default configuration of the device plugin, without sharing
_PARTITIONS_CLASS = "mig.nvidia.com"
_SHARING_MODES = ("time_slicing", "mig", "mps", "dra")
_ONE_MODE_REASON = "a node shares its GPUs in one way, and NVIDIA's device plugin has no MPS for MIG slices"
DeviceClassName = Literal["gpu.nvidia.com", "mig.nvidia.com"]


class TimeSlicing(StrictModel):
    """Several units share a GPU in turn. Neither memory nor faults are isolated."""

    replicas: Annotated[int, Field(ge=2, le=64)] = Field(
        description="The number of slices of each GPU. NVIDIA's device plugin requires at least 2."
    )


class Mps(StrictModel):
    """Several units share a GPU concurrently through NVIDIA's Multi-Process Service. Experimental in the device plugin.

    Each process may use an equal part of the GPU's memory (`gpu.memory` divided by `replicas`) and of its threads. Faults
    aren't isolated: an error in a process can end processes of other units. All units of a node share the same /dev/shm.

    NVIDIA's daemon serves a single user ID at a time, unless it is started with `nvidia-cuda-mps-control -M`. The
    device plugin 0.20 starts the daemon without -M, but each instance has its own user IDs. docs/guides/platform.md
    describes the consequences.
    """

    replicas: Annotated[int, Field(ge=2, le=48)] = Field(
        description="The number of units of each GPU: at least 2, as with time-slicing, and at most 48, the client"
        " limit of an MPS server."
    )


class MigProfile(StrictModel):
    """A hardware partition (MIG) of a GPU, with isolated memory and faults."""

    profile: _MigProfileName = Field(description="NVIDIA's name of the MIG profile, such as 1g.10gb.")


class SpecDra(StrictModel):
    """A device that Kubernetes allocates (dynamic resource allocation), on nodes with NVIDIA's DRA driver.

    A pod requests the device as an extended resource, like any GPU. An extended resource is a whole GPU or a MIG
    partition, so a part of a GPU's memory can't be requested.
    """

    device_class_name: DeviceClassName = Field(
        description="The device class of the driver: gpu.nvidia.com for whole GPUs, or mig.nvidia.com for MIG partitions."
    )
    profile: _MigProfileName | None = Field(
        default=None, description="NVIDIA's name of the MIG profile, such as 1g.10gb. Only with mig.nvidia.com."
    )

    @model_validator(mode="after")
    def _check_profile(self) -> Self:
        _check_partitions(self.device_class_name, "profile", is_given=self.profile is not None)
        return self


class SpecSharing(StrictModel):
    """The sharing mode of a unit: exactly one of the fields."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = _SHARING_MODES
    ONE_OF_WHY: ClassVar[str] = _ONE_MODE_REASON
    time_slicing: TimeSlicing | None = None
    mig: MigProfile | None = None
    mps: Mps | None = None
    dra: SpecDra | None = None
    _check_one_of = model_validator(mode="after")(check_one_of)


class MigLayout(StrictModel):
    """The MIG partitions of every GPU of a node."""

    config: Annotated[
        str, pattern_field(_MIG_CONFIG, "a name such as all-1g.10gb: a-z, 0-9, '.', '_' and '-', at most 63")
    ] = Field(description="The name of the MIG manager's configuration, such as all-balanced or all-1g.10gb.")
    devices: dict[_MigProfileName, Count] = Field(
        min_length=1, description="The number of partitions of each profile that the configuration creates on a GPU."
    )


class PoolDra(StrictModel):
    """Devices that Kubernetes allocates, on nodes with NVIDIA's DRA driver instead of its device plugin.

    Static nodes only: Karpenter doesn't count DRA devices (kubernetes-sigs/karpenter#3231), so a node that Karpenter
    creates for DRA devices never becomes ready.
    """

    device_class_name: DeviceClassName = Field(
        description="The device class of the driver: gpu.nvidia.com for whole GPUs, or mig.nvidia.com for MIG partitions."
    )
    devices: dict[_MigProfileName, Count] | None = Field(
        default=None,
        min_length=1,
        description="The number of partitions of each profile on a GPU. Only with mig.nvidia.com.",
    )

    @model_validator(mode="after")
    def _check_devices(self) -> Self:
        _check_partitions(self.device_class_name, "devices", is_given=self.devices is not None)
        return self


class PoolSharing(StrictModel):
    """The sharing mode of all GPUs of every node: exactly one of the fields."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = _SHARING_MODES
    ONE_OF_WHY: ClassVar[str] = _ONE_MODE_REASON
    time_slicing: TimeSlicing | None = None
    mig: MigLayout | None = None
    mps: Mps | None = None
    dra: PoolDra | None = None
    _check_one_of = model_validator(mode="after")(check_one_of)


def _check_partitions(device_class: str, field: str, *, is_given: bool) -> None:
    """Raise if MIG partitions are given for a class of whole GPUs, or if they are missing for a class of partitions."""
    if is_given is not (device_class == _PARTITIONS_CLASS):
        raise PydanticCustomError(
            "dra-shape",
            "{field} is given, but devices of {device_class} are whole GPUs: remove it"
            if is_given
            else "{field} is missing: devices of {device_class} are partitions: write the partition",
            {"field": field, "device_class": device_class},
        )


def replicas_of(sharing: SpecSharing | PoolSharing | None) -> int | None:
    """Return the number of units that share a GPU by time-slicing or MPS; None otherwise."""
    shared = sharing and (sharing.time_slicing or sharing.mps)
    return shared.replicas if shared else None


def device_plugin_config(sharing: PoolSharing | None) -> str | None:
    """Return the configuration of NVIDIA's device plugin on the nodes of a pool; None for DRA, which needs no plugin.

    The name of the configuration is the value of a label on the nodes. Never change the name for an existing mode: the
    label is in Karpenter's node templates, so Karpenter would replace all nodes (drift).
    """
    if sharing is None:
        return EXCLUSIVE_CONFIG
    if sharing.time_slicing is not None:
        return f"time-slicing-{sharing.time_slicing.replicas}"
    if sharing.mps is not None:
        return f"mps-{sharing.mps.replicas}"
    return "mig" if sharing.mig is not None else None
