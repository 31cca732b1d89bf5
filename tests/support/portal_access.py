"""The access list of a portal: its platform team and the members of its tenants."""

from __future__ import annotations

from allotment.declared.tenant_facts import MemberFacts, TenantFacts
from allotment.portal.pages.access import build_access_list


def tenant(name: str, *members: MemberFacts) -> TenantFacts:
    return TenantFacts(name, "team", "Active", {}, (), (), (), members)


ACCESS = build_access_list(
    ["platform-team"],
    [
        tenant(
            "kite",
            MemberFacts("User", "mia", "Viewer", "", 0, "00u1mia"),
            MemberFacts("User", "nobody", "Admin", "nobody", 0),
            MemberFacts("Group", "kite-team", "Member", "", 0),
        ),
        tenant("kite-two", MemberFacts("User", "zoe", "Admin", "", 0, "00u1zoe")),
        tenant("empty"),
    ],
)
