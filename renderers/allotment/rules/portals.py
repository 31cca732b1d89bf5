"""Portal: the host of the portal is used for nothing else.

The Gateway of a cluster serves the portal at portal.<domain>. The callback host of the logins and the host of the SSH gateway
need another host.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.platform import Platform
from allotment.problems import Finding

RULE = "portal"


def check(catalog: Catalog) -> Iterator[Finding]:
    """Yield a finding for each other use of the portal's host."""
    platform = catalog.platform.get_singleton(Platform)
    portal = platform.model.spec.portal if platform is not None else None
    folder = catalog.clusters.get(portal.cluster) if portal is not None else None
    cluster = folder.get_singleton(Cluster) if folder is not None else None
    if platform is None or cluster is None:
        return
    spec = cluster.model.spec
    uses = {"spec.oidc.callbackHost": spec.oidc.callback_host, "spec.ssh.host": spec.ssh.host if spec.ssh else None}
    for field, host in uses.items():
        if host == spec.portal_host:
            message = f"{host} is the host of the portal: write another host"
            yield cluster.make_finding(field, message, RULE, related=(platform.path,))
