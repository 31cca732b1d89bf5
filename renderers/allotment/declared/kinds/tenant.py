"""Tenant: a team or person that declares instances and storages."""

from typing import Literal

from pydantic import Field

from allotment.declared.addresses import AllowedCidr
from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.kinds.plan import PartialQuota
from allotment.declared.references import PlanReference


class TenantSpec(Spec):
    """The plan and lifecycle of the tenant. The platform team owns this file."""

    plan: PlanReference = Field(
        description="The name of the Plan, which sets the quota, the budget and the allowed features of the tenant."
    )
    quota: PartialQuota | None = Field(default=None, description="Replaces single fields of the plan's quota.")
    allowed_cidrs: list[AllowedCidr] = Field(
        default=[],
        min_length=1,
        max_length=64,
        alias="allowedCIDRs",
        description="The address ranges from which people may open the URLs of the tenant, such as those of its offices and"
        " its VPN. The Gateway denies requests from other addresses, also to Public ports and with a valid login. Default:"
        " from every address.",
    )
    lifecycle: Literal["Active", "Suspended", "Retired"] = Field(
        default="Active",
        description="Suspended: all instances are stopped, and all data is kept. Retired: the first of the two merges"
        " that delete the tenant.",
    )


class Tenant(Declaration):
    """A team or person that declares instances and storages.

    A tenant has a folder, a plan, and a namespace in every cluster that it uses. The name of the folder is the name of the
    tenant, and it can't be changed.
    """

    kind: Literal["Tenant"]
    spec: TenantSpec
