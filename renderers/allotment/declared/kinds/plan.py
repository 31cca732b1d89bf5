"""Plan: the quota, budget and allowed features of a tenant."""

from typing import Annotated, Literal

from pydantic import Field

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel
from allotment.declared.kinds.sharing import GpuModel
from allotment.declared.values import CountOrZero, Money, Registry, Size

SelfServiceChange = Literal["Start", "Stop", "Create", "Change", "Grow", "Snapshot", "Delete", "Members", "Access"]


class Quota(StrictModel):
    """The most that a tenant may declare in all clusters together."""

    gpus: dict[GpuModel, CountOrZero] = Field(
        description="The physical GPUs, by model. A part of a GPU counts as a fraction. Models that are not listed are"
        " not allowed."
    )
    instances: CountOrZero = Field(description="The maximum number of instances, including stopped instances.")
    storages: CountOrZero = Field(description="The maximum number of storages.")
    storage: Size = Field(description="The maximum total size of the storages.")
    snapshots: CountOrZero | None = Field(
        default=None, description="The maximum number of snapshots. Default: the number of storages."
    )


class PartialQuota(StrictModel):
    """A part of a quota. Each field that is set replaces the same field in the quota of the plan."""

    gpus: dict[GpuModel, CountOrZero] = Field(
        default={}, description="Replaces the quota of the plan for the listed models."
    )
    instances: CountOrZero | None = Field(default=None, description="Replaces the value of the plan.")
    storages: CountOrZero | None = Field(default=None, description="Replaces the value of the plan.")
    storage: Size | None = Field(default=None, description="Replaces the total size in the plan.")
    snapshots: CountOrZero | None = Field(default=None, description="Replaces the value of the plan.")


class Budget(StrictModel):
    """The maximum cost of a tenant's running instances, storages and snapshots in a month of 730 hours."""

    per_month: Money = Field(description="In the platform's currency, quoted.")
    enforcement: Literal["Deny", "Warn"] = Field(
        default="Deny",
        description="Deny: a cost above the budget is an error, and so is a change with which the current month exceeds it."
        " Warn: a plan only shows the excess.",
    )


class Allow(StrictModel):
    """The features that a tenant may use."""

    sharing: list[Literal["Exclusive", "TimeSlicing", "Mig", "Mps", "Dra"]] = Field(
        default=["Exclusive"], description="The allowed modes of GPU sharing."
    )
    exposure: list[Literal["Members", "Public"]] = Field(
        default=[], description="The allowed exposures besides Namespace."
    )
    spread: list[Literal["Zones", "Nodes"]] = Field(
        default=[],
        max_length=2,
        description="The allowed topologies to spread replicas over. A spread replica takes space on a node, or in a"
        " zone, that other instances could have filled.",
    )
    image_registries: list[Registry] = Field(
        default=[],
        description="The registries of the tenant's own images. Default: only apps of the catalog are allowed.",
    )


class SelfService(StrictModel):
    """The changes of a tenant's own resources that merge without a second person, if the Platform sets selfService: Enabled."""

    changes: list[SelfServiceChange] = Field(
        min_length=1,
        max_length=9,
        description="The kinds of change. Start, Stop: the state of an instance. Create: an instance, a storage or a secret."
        " Snapshot: a snapshot. Grow: the size of a storage. Change: other fields of these files. Delete: the removal of an"
        " instance or a secret, and the first of the two merges that delete a storage or a snapshot. Members: the members of the"
        " tenant. Access: also opens a resource to other people than the members: by a public page, or by sharing a storage.",
    )
    max_monthly_cost: Money | None = Field(
        default=None,
        description="The most that a change may add to the monthly cost, in the platform's currency, quoted. Default: the"
        " budget is the only limit.",
    )
    max_merges_per_day: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=20, description="The maximum number of a tenant's changes that merge by themselves in 24 hours."
    )


class PlanSpec(CatalogSpec):
    """The quota, budget and allowed features of a plan."""

    quota: Quota
    budget: Budget | None = None
    allow: Allow = Allow(sharing=["Exclusive"], exposure=[], imageRegistries=[])
    self_service: SelfService | None = Field(
        default=None, description="Default: a person merges each change of a tenant."
    )


class Plan(Declaration):
    """A tariff plan. It limits the resources and the costs of a tenant, and sets the features that the tenant may use.

    A Tenant names its plan, and may replace parts of the quota.
    """

    kind: Literal["Plan"]
    spec: PlanSpec
