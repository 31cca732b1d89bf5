"""Tenant: who declares instances and storages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.kinds.plan import PartialQuota
from allotment.declared.references import PlanReference


class TenantSpec(Spec):
    """The tenant's plan and state. The platform team's."""

    plan: PlanReference = Field(description="The Plan that it is on: quota, budget and what it may choose.")
    quota: PartialQuota | None = Field(default=None, description="Replaces the plan's quota, key by key.")
    lifecycle: Literal["Active", "Suspended", "Retired"] = Field(
        default="Active", description="Suspended: nothing runs, all is kept. Retired: the first step of deleting."
    )


class Tenant(Declaration):
    """Who declares instances and storages: a team with a folder, a plan and a namespace of its own in every cluster it uses.

    The folder's name is the tenant's; it can't be renamed.
    """

    kind: Literal["Tenant"]
    spec: TenantSpec
