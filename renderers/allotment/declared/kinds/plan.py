"""Plan: quota, budget and limits that a tenant is on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel
from allotment.declared.kinds.sharing import GpuModel
from allotment.declared.values import CountOrZero, Money, Registry, Size


class Quota(StrictModel):
    """The most a tenant may declare, over all clusters."""

    gpus: dict[GpuModel, CountOrZero] = Field(
        description="Physical GPUs by model, exact: a quarter counts 1/4. A model not named: none."
    )
    instances: CountOrZero = Field(description="The most instances, stopped ones included.")
    storages: CountOrZero = Field(description="The most storages.")
    storage: Size = Field(description="Sum of the storages' sizes.")
    snapshots: CountOrZero | None = Field(default=None, description="Absent: as many as storages.")


class PartialQuota(StrictModel):
    """Parts of a quota that replace the plan's, key by key."""

    gpus: dict[GpuModel, CountOrZero] = Field(default={}, description="Models named here replace the plan's.")
    instances: CountOrZero | None = Field(default=None, description="Replaces the plan's.")
    storages: CountOrZero | None = Field(default=None, description="Replaces the plan's.")
    storage: Size | None = Field(default=None, description="Replaces the plan's sum of sizes.")
    snapshots: CountOrZero | None = Field(default=None, description="Replaces the plan's.")


class Budget(StrictModel):
    """The most that what is declared to run may cost a month of 730 hours."""

    per_month: Money = Field(description="In the platform's currency, quoted.")
    enforcement: Literal["Deny", "Warn"] = Field(
        default="Deny", description="What is over the budget is an error (Deny) or a warning (Warn)."
    )


class Allow(StrictModel):
    """What a tenant may choose."""

    sharing: list[Literal["Exclusive", "TimeSlicing", "Mig", "Mps", "Dra"]] = Field(
        default=["Exclusive"], description="Ways of sharing GPUs."
    )
    exposure: list[Literal["Members", "Public"]] = Field(default=[], description="Exposures besides Namespace.")
    spread: list[Literal["Zones", "Nodes"]] = Field(
        default=[],
        max_length=2,
        description="What copies of an instance may be spread over: each then takes a node, or a zone, that others could"
        " have filled.",
    )
    image_registries: list[Registry] = Field(
        default=[], description="Where the tenant's own images may come from; none: catalog apps only."
    )


class PlanSpec(CatalogSpec):
    """A plan's quota, budget and limits."""

    quota: Quota
    budget: Budget | None = None
    allow: Allow = Allow(sharing=["Exclusive"], exposure=[], imageRegistries=[])


class Plan(Declaration):
    """What a tenant is on: how much it may declare, what it may spend, what it may choose.

    A Tenant names its plan, and may replace parts of the quota.
    """

    kind: Literal["Plan"]
    spec: PlanSpec
