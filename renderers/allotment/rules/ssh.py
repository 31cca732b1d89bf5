"""SSH: an instance with `access: [SSH]` is in a cluster with an SSH gateway, and a member of its tenant has an SSH key."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.members import Members
from allotment.problems import Finding

RULE = "ssh"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's instances that declare SSH access, and the keys of its Viewers."""
    members = tenant.get_singleton(Members)
    for index, user in enumerate(members.model.spec.users if members is not None else ()):
        if members is not None and user.ssh_keys and user.role == "Viewer":
            message = f"{user.name} is a Viewer, who can't connect by SSH: remove the keys, or change the role"
            yield members.make_finding(f"spec.users.{index}.sshKeys", message, RULE, warning=True)
    for instance in tenant.of_kind(GPUInstance).values():
        if "SSH" not in instance.model.spec.access:
            continue
        folder = catalog.clusters.get(instance.model.spec.cluster)
        place = folder.get_singleton(Cluster) if folder is not None else None
        if folder is not None and place is not None and place.model.spec.ssh is None:
            message = (
                f"cluster {folder.name} has no SSH gateway: the platform team declares spec.ssh in {place.path}; until then,"
                " `allot exec` opens a shell"
            )
            yield instance.make_finding("spec.access.0", message, RULE, related=(place.path,))
        elif members is not None and not members.model.spec.ssh_users:
            message = f"no Admin or Member of the tenant has an SSH key: add sshKeys to a user in {members.path}"
            yield instance.make_finding("spec.access.0", message, RULE, warning=True)
