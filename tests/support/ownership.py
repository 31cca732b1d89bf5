"""The declared owners and members of the sample organization."""

from __future__ import annotations

from allotment.declared.kinds.members import Members
from allotment.declared.kinds.ownership import OwnershipSpec

SPEC = OwnershipSpec.model_validate(
    {
        "teams": [{"name": "finance", "logins": ["fin-ann"]}, {"name": "platform", "forgeTeam": "@acme/platform"}],
        "paths": [
            {"path": "tenants/*/*/*.yaml", "approvers": [{"tenantRole": "Member"}]},
            {"path": "tenants/*/members.yaml", "approvers": [{"tenantRole": "Admin"}]},
            {"path": "docs/**", "approvers": [{"login": "dora#31"}]},
        ],
        "fields": [{"kind": "GPUSpec", "field": "spec.prices", "approvers": [{"team": "finance"}]}],
    }
)
ACME = Members.model_validate(
    {
        "apiVersion": "allotment.dev/v1alpha1",
        "kind": "Members",
        "metadata": {"name": "acme"},
        "spec": {
            "users": [
                {"name": "ada", "role": "Admin", "login": "Ada-K"},
                {"name": "bob", "role": "Member", "login": "bob"},
                {"name": "eve", "role": "Viewer", "login": "eve"},
            ]
        },
    }
)
