"""Decides whether an instance that moves to another GPUSpec may keep its published Deployment until units are free, and reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from allotment.declared.kinds.app import App
from allotment.declared.tenant_resources import INSTANCE
from allotment.lifecycle.retained_instance import may_keep_deployment, with_published_deployment
from allotment.manifests.paths import resource_file
from allotment.manifests.yaml_text import split
from allotment.services.publish.tenant_retention import drop_refused_objects

if TYPE_CHECKING:
    from allotment.capacity.allocation import InstanceKey
    from allotment.capacity.units import UnitClaim
    from allotment.declared.inventory import Catalog
    from allotment.isolation.gate import IsolationGate
    from allotment.problems import Problem
    from allotment.services.publish.published_trees import PublishedTrees
    from allotment.services.publish.release import ClusterTrees
    from allotment.services.publish.rendered_tenant import RenderedTenant
    from allotment.services.publish.unit_allocation import RetainedInstance

FindPublishedClaim = Callable[["UnitClaim"], "UnitClaim | None"]


def limit_retention(
    catalog: Catalog,
    rendered: Mapping[str, RenderedTenant],
    published_trees: PublishedTrees,
    gate: IsolationGate,
    published: FindPublishedClaim,
) -> FindPublishedClaim:
    """Return a function that returns the published claim of an instance, as `published` does.

    If the instance moves to another GPUSpec and may not keep its published Deployment, the claim has 0 rendered units.
    """
    revoked = list_revoked_images(catalog)

    @cache
    def claim_of(claim: UnitClaim) -> UnitClaim | None:
        old = published(claim)
        if old is None or not old.rendered or old.gpu_spec == claim.gpu_spec:
            return old
        path = f"{claim.cluster}/{resource_file(claim.tenant, INSTANCE.tree_part, claim.instance)}"
        tenant, data = rendered[claim.tenant], published_trees.read_file(path)
        is_changed = published_trees.find_blob(path) != tenant.blobs.get(path, "")
        now = tenant.read_file(path) if path in tenant.blobs and is_changed else data
        deployment, _ = gate.drop_forbidden(path, f"{split(data)[0]}\n".encode())
        may_keep = deployment and may_keep_deployment(data, now, revoked)
        return old if may_keep else old._replace(rendered=0)

    return claim_of


def list_revoked_images(catalog: Catalog) -> frozenset[str]:
    """Return the images of all Revoked versions of the catalog's apps."""
    versions = (version for app in catalog.platform.of_kind(App).values() for version in app.model.spec.versions)
    return frozenset(
        version.container.image
        for version in versions
        if version.lifecycle == "Revoked" and version.container.image is not None
    )


def read_retained_instance_files(
    retained: Mapping[InstanceKey, RetainedInstance], published_trees: PublishedTrees, trees: ClusterTrees
) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the files of instances that keep their published Deployments until units of their new GPUSpec are free.

    Also returns a problem for each file that lost objects because the gate refuses them. `trees` has the rendered files
    of these instances.
    """
    files = {}
    for (tenant, name), instance in retained.items():
        path = f"{instance.claim.cluster}/{resource_file(tenant, INSTANCE.tree_part, name)}"
        files[path] = with_published_deployment(
            published_trees.read_file(path), trees.read_file(path), instance.message
        )
    return drop_refused_objects(files, trees.gate)
