"""How a GPU is divided, as GPUSpecs ask for it and node pools provide it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import StrictModel, check_one_of
from allotment.declared.values import Count, name_field

MIG_PROFILE = r"^[1-7]g\.[1-9][0-9]{0,2}gb(?:\+me)?$"
# A label's value, as mig-parted names its configurations: all-balanced, all-1g.10gb.
_MIG_CONFIG = r"^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$"
GpuModel = Annotated[str, name_field(32)]


EXCLUSIVE_CONFIG = "exclusive"  # the device plugin's configuration that shares nothing, and its default
_PARTITIONS_CLASS = "mig.nvidia.com"
_SHARING_MODES = ("time_slicing", "mig", "mps", "dra")
_ONE_MODE_REASON = "a node shares its GPUs in one way, and NVIDIA's device plugin has no MPS for MIG slices"
DeviceClassName = Literal["gpu.nvidia.com", "mig.nvidia.com"]


class TimeSlicing(StrictModel):
    """One GPU, several users in turn. Neither memory nor faults are isolated."""

    replicas: Annotated[int, Field(ge=2, le=64)] = Field(
        description="Slices of each GPU. NVIDIA's device plugin takes no configuration with fewer than 2."
    )


class Mps(StrictModel):
    """One GPU, several users at once, by NVIDIA's Multi-Process Service, which the device plugin calls experimental.

    Each process may take an equal part of the GPU's memory (`gpu.memory` divided by `replicas`) and of its threads. Faults
    aren't isolated: an error of one process can end those of its neighbours. All units of a node share one /dev/shm.

    NVIDIA's daemon serves one user ID at a time, unless it is started for several (`nvidia-cuda-mps-control -M`), which the
    device plugin 0.20 doesn't do; and each instance has user IDs of its own. docs/guides/platform.md says what that means.
    """

    replicas: Annotated[int, Field(ge=2, le=48)] = Field(
        description="Units of each GPU: at least 2, as for time-slicing, and at most the 48 clients that an MPS server takes."
    )


class MigProfile(StrictModel):
    """A hardware slice of a GPU, with memory and faults of its own."""

    profile: Annotated[str, Field(pattern=MIG_PROFILE)] = Field(description="The slice, as NVIDIA names it: 1g.10gb.")


class SpecDra(StrictModel):
    """A device that Kubernetes itself hands out (dynamic resource allocation), of nodes with NVIDIA's DRA driver.

    A pod asks for it as for any GPU, by an extended resource: that takes whole GPUs or MIG partitions, and no part of
    either. So a share of a GPU's memory can't be declared here.
    """

    device_class_name: DeviceClassName = Field(
        description="Which of the driver's devices: whole GPUs (gpu.nvidia.com), or MIG partitions (mig.nvidia.com)."
    )
    profile: Annotated[str, Field(pattern=MIG_PROFILE)] | None = Field(
        default=None, description="Of mig.nvidia.com only: the partition, as NVIDIA names it: 1g.10gb."
    )

    @model_validator(mode="after")
    def _check_profile(self) -> Self:
        _check_partitions(self.device_class_name, "profile", is_given=self.profile is not None)
        return self


class SpecSharing(StrictModel):
    """Which part of a GPU a unit gets: exactly one of the members."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = _SHARING_MODES
    ONE_OF_WHY: ClassVar[str] = _ONE_MODE_REASON
    time_slicing: TimeSlicing | None = None
    mig: MigProfile | None = None
    mps: Mps | None = None
    dra: SpecDra | None = None
    _check_one_of = model_validator(mode="after")(check_one_of)


class MigLayout(StrictModel):
    """How every GPU of a node is cut."""

    config: Annotated[str, Field(pattern=_MIG_CONFIG)] = Field(
        description="The MIG manager's configuration, such as all-balanced or all-1g.10gb."
    )
    devices: dict[Annotated[str, Field(pattern=MIG_PROFILE)], Count] = Field(
        min_length=1, description="How many slices of each profile that configuration makes of one GPU."
    )


class PoolDra(StrictModel):
    """Devices that Kubernetes itself hands out, of nodes with NVIDIA's DRA driver instead of its device plugin.

    Of static nodes only: Karpenter counts no devices of DRA (kubernetes-sigs/karpenter#3231), so that a node which it bought for
    them would never be ready.
    """

    device_class_name: DeviceClassName = Field(
        description="Which of the driver's devices: whole GPUs (gpu.nvidia.com), or MIG partitions (mig.nvidia.com)."
    )
    devices: dict[Annotated[str, Field(pattern=MIG_PROFILE)], Count] | None = Field(
        default=None,
        min_length=1,
        description="Of mig.nvidia.com only: how many partitions of each profile one GPU is cut into.",
    )

    @model_validator(mode="after")
    def _check_devices(self) -> Self:
        _check_partitions(self.device_class_name, "devices", is_given=self.devices is not None)
        return self


class PoolSharing(StrictModel):
    """How the whole of every node is divided: exactly one of the members."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = _SHARING_MODES
    ONE_OF_WHY: ClassVar[str] = _ONE_MODE_REASON
    time_slicing: TimeSlicing | None = None
    mig: MigLayout | None = None
    mps: Mps | None = None
    dra: PoolDra | None = None
    _check_one_of = model_validator(mode="after")(check_one_of)


def _check_partitions(device_class: str, field: str, *, is_given: bool) -> None:
    """Partitions are named where the class is theirs, and nowhere else."""
    if is_given is not (device_class == _PARTITIONS_CLASS):
        raise PydanticCustomError(
            "dra-shape",
            "{field} is given, but devices of {device_class} are whole GPUs: remove it"
            if is_given
            else "{field} is missing: devices of {device_class} are partitions, so write which",
            {"field": field, "device_class": device_class},
        )


def replicas_of(sharing: SpecSharing | PoolSharing | None) -> int | None:
    """Return how many units each GPU is shared by in software (time-slicing, MPS); None where it isn't."""
    shared = sharing and (sharing.time_slicing or sharing.mps)
    return shared.replicas if shared else None


def device_plugin_config(sharing: PoolSharing | None) -> str | None:
    """Return the key of the device plugin's configuration that nodes of a pool carry as their label; None under DRA, whose
    nodes have no device plugin.

    A key that nodes carry never becomes another: it is a label of Karpenter's templates, and a changed one drifts nodes.
    """
    if sharing is None:
        return EXCLUSIVE_CONFIG
    if sharing.time_slicing is not None:
        return f"time-slicing-{sharing.time_slicing.replicas}"
    if sharing.mps is not None:
        return f"mps-{sharing.mps.replicas}"
    return "mig" if sharing.mig is not None else None
