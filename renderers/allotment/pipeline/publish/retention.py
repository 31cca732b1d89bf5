"""Decides which instances may keep their published Deployments until units of another GPUSpec are free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from allotment.declared.kinds.app import App
from allotment.declared.things import INSTANCE
from allotment.manifests.paths import tenant_file
from allotment.manifests.retained_instance import may_keep_deployment
from allotment.manifests.text import split

if TYPE_CHECKING:
    from allotment.accounts.capacity import Claim
    from allotment.declared.inventory import Offers
    from allotment.manifests.gate.isolation import Gate
    from allotment.pipeline.publish.before import Before
    from allotment.pipeline.publish.rendered import Rendered

PublishedClaim = Callable[["Claim"], "Claim | None"]


def retainable(
    offers: Offers, rendered: Mapping[str, Rendered], published_trees: Before, gate: Gate, published: PublishedClaim
) -> PublishedClaim:
    """Return `published` with 0 rendered units for an instance that moves to another GPUSpec and may not keep its Deployment."""
    revoked = revoked_images(offers)

    @cache
    def claim_of(claim: Claim) -> Claim | None:
        old = published(claim)
        if old is None or not old.rendered or old.gpu_spec == claim.gpu_spec:
            return old
        path = f"{claim.cluster}/{tenant_file(claim.tenant, INSTANCE.part, claim.instance)}"
        data, now = published_trees.read(path), rendered[claim.tenant].data.get(path)
        deployment, _ = gate.sift(path, f"{split(data)[0]}\n".encode())
        may_keep = deployment and may_keep_deployment(data, data if now is None else now, revoked)
        return old if may_keep else old._replace(rendered=0)

    return claim_of


def revoked_images(offers: Offers) -> frozenset[str]:
    """Return the images of all Revoked versions of the catalog's apps."""
    versions = (version for app in offers.platform.of(App).values() for version in app.model.spec.versions)
    return frozenset(
        version.container.image
        for version in versions
        if version.lifecycle == "Revoked" and version.container.image is not None
    )
