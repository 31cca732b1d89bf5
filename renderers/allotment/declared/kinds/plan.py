"""Plan: the quota, budget and allowed features of a tenant."""

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel
from allotment.declared.kinds.sharing import GpuModel
from allotment.declared.values import CountOrZero, Money, Registry, Size


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


class PlanSpec(CatalogSpec):
    """The quota, budget and allowed features of a plan."""

    quota: Quota
    budget: Budget | None = None
    allow: Allow = Allow(sharing=["Exclusive"], exposure=[], imageRegistries=[])


class Plan(Declaration):
    """A tariff plan. It limits the resources and the costs of a tenant, and sets the features that the tenant may use.

    A Tenant names its plan, and may replace parts of the quota.
    """

    kind: Literal["Plan"]
    spec: PlanSpec
