"""How a GPU is divided, as GPUSpecs ask for it and node pools provide it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from allotment.declared.kinds.declaration import Strict, one_of
from allotment.declared.values import Count, name_of

MIG_PROFILE = r"^[1-7]g\.[1-9][0-9]{0,2}gb(?:\+me)?$"
# A label's value, as mig-parted names its configurations: all-balanced, all-1g.10gb.
_MIG_CONFIG = r"^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$"
GpuModel = Annotated[str, name_of(32)]


class TimeSlicing(Strict):
    """One GPU, several users in turn. Neither memory nor faults are isolated."""

    replicas: Annotated[int, Field(ge=2, le=64)] = Field(description="Slices of each GPU.")


class MigProfile(Strict):
    """A hardware slice of a GPU, with memory and faults of its own."""

    profile: Annotated[str, Field(pattern=MIG_PROFILE)] = Field(description="The slice, as NVIDIA names it: 1g.10gb.")


class SpecSharing(Strict):
    """Which part of a GPU a unit gets: exactly one of the members."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("time_slicing", "mig")
    time_slicing: TimeSlicing | None = None
    mig: MigProfile | None = None
    _exactly_one = model_validator(mode="after")(one_of)


class MigLayout(Strict):
    """How every GPU of a node is cut."""

    config: Annotated[str, Field(pattern=_MIG_CONFIG)] = Field(
        description="The MIG manager's configuration, such as all-balanced or all-1g.10gb."
    )
    devices: dict[Annotated[str, Field(pattern=MIG_PROFILE)], Count] = Field(
        min_length=1, description="How many slices of each profile that configuration makes of one GPU."
    )


class PoolSharing(Strict):
    """How the whole of every node is divided: exactly one of the members."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("time_slicing", "mig")
    time_slicing: TimeSlicing | None = None
    mig: MigLayout | None = None
    _exactly_one = model_validator(mode="after")(one_of)
