"""Limits: a tenant uses only features that its tariff plan allows.

The limited features are the modes of GPU sharing, the exposures, the spreads of replicas, and the image registries.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.container import Container
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.tenant import Tenant
from allotment.preparation.start_gates import app_version
from allotment.problems import Finding, quote_value

RULE = "limit"


def plan_of(catalog: Catalog, tenant: ScopeDeclarations) -> DeclarationFile[Plan] | None:
    """Return a tenant's plan; None if the tenant or the plan can't be read."""
    declared = tenant.get_singleton(Tenant)
    return catalog.platform.of_kind(Plan).get(declared.model.spec.plan) if declared else None


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's choices against its plan."""
    plan = plan_of(catalog, tenant)
    if plan is None:
        return
    for instance in tenant.of_kind(GPUInstance).values():
        yield from _check_instance(catalog, tenant, plan, instance)
    for storage in tenant.of_kind(GPUStorage).values():
        spec = storage.model.spec
        if spec.prepare is not None and spec.prepare.source.image is not None:
            yield from _check_image(plan, storage, "spec.prepare.source.image.image", spec.prepare.source.image.image)
        if spec.accessor is not None:
            yield from _check_exposure(catalog, plan, tenant, storage, "spec.accessor.exposure", spec.accessor.exposure)


def sharing_mode(spec: GPUSpecSpec) -> str:
    """Return the sharing mode of a GPUSpec as a Plan spells it, such as TimeSlicing."""
    chosen = spec.sharing.chosen_member if spec.sharing is not None else None
    return "Exclusive" if chosen is None else chosen.title().replace("_", "")


def has_no_users(tenant: ScopeDeclarations) -> bool:
    """Return whether a tenant has no user who can log in; False if its members can't be read."""
    if (Members.__name__, tenant.name) in tenant.invalid:
        return False
    members = tenant.get_singleton(Members)
    return members is None or not (members.model.spec.groups or any(user.subject for user in members.model.spec.users))


def _check_instance(
    catalog: Catalog, tenant: ScopeDeclarations, plan: DeclarationFile[Plan], instance: DeclarationFile[GPUInstance]
) -> Iterator[Finding]:
    spec = instance.model.spec
    offer = catalog.platform.of_kind(GPUSpec).get(spec.gpu_spec)
    if offer is not None:
        way = sharing_mode(offer.model.spec)
        allowed = plan.model.spec.allow.sharing
        if way not in allowed:
            message = f"{spec.gpu_spec} is {way}, and plan {plan.model.name} allows {', '.join(allowed) or 'nothing'}: choose another GPUSpec, or another plan"
            yield instance.make_finding("spec.gpuSpec", message, RULE, related=(plan.path,))
    for index, over in enumerate(spec.spread):
        if over not in plan.model.spec.allow.spread:
            allowed_spread = ", ".join(plan.model.spec.allow.spread)
            allowed_over = f"only over {allowed_spread}" if allowed_spread else "over nothing"
            message = f"plan {plan.model.name} allows a spread {allowed_over}, not over {over}: remove it, or ask for another plan"
            yield instance.make_finding(f"spec.spread.{index}", message, RULE, related=(plan.path,))
    version = app_version(catalog, instance.model)
    container: Container | None = version.container if version is not None else spec.container
    if container is None:
        return
    if version is None and container.image is not None:
        yield from _check_image(plan, instance, "spec.container.image", container.image)
    for index, port in enumerate(container.ports):
        field = "spec.app" if version is not None else f"spec.container.ports.{index}.exposure"
        yield from _check_exposure(catalog, plan, tenant, instance, field, port.exposure)


def _check_image(
    plan: DeclarationFile[Plan], declaration: DeclarationFile[Declaration], field: str, image: str
) -> Iterator[Finding]:
    registries = plan.model.spec.allow.image_registries
    if not registries:
        message = f"plan {plan.model.name} allows only images of the catalog: choose an app, or another plan"
        yield declaration.make_finding(field, message, "image", related=(plan.path,))
    elif not any(full_image(image).startswith(prefix) for prefix in registries):
        message = (
            f"plan {plan.model.name} doesn't allow the registry of {quote_value(image)}, only {', '.join(registries)}"
        )
        yield declaration.make_finding(field, message, "image", related=(plan.path,))


def full_image(image: str) -> str:
    """Return an image with the registry that a container runtime pulls it from: busybox → docker.io/library/busybox."""
    host, slash, rest = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    return image if "." in host or ":" in host or host == "localhost" else f"docker.io/{host}/{rest}"


def _check_exposure(
    catalog: Catalog,
    plan: DeclarationFile[Plan],
    tenant: ScopeDeclarations,
    declaration: DeclarationFile[GPUInstance] | DeclarationFile[GPUStorage],
    field: str,
    exposure: str,
) -> Iterator[Finding]:
    if exposure == "Namespace":
        return
    allowed = plan.model.spec.allow.exposure
    if exposure not in allowed:
        allowed_exposures = ", ".join(["Namespace", *allowed])
        yield declaration.make_finding(
            field,
            f"plan {plan.model.name} doesn't allow exposure {exposure}, only {allowed_exposures}",
            RULE,
            related=(plan.path,),
        )
    elif exposure == "Public" and (host := find_callback_host(catalog, declaration.model.spec.cluster)):
        message = f"cluster {declaration.model.spec.cluster} allows no Public port, because a login counts for all its hosts (oidc.callbackHost {host}): write Members"
        yield declaration.make_finding(
            field, message, RULE, related=(f"clusters/{declaration.model.spec.cluster}/cluster.yaml",)
        )
    elif exposure == "Members" and has_no_users(tenant):
        message = f"tenants/{tenant.name}/members.yaml names no group and no user with a subject, so nobody can log in: add a group or a subject"
        yield declaration.make_finding(field, message, RULE, related=(f"tenants/{tenant.name}/members.yaml",))


def find_callback_host(catalog: Catalog, cluster: str) -> str | None:
    """Return the callback host of a cluster's logins; None if each host has its own callback.

    Also returns None if the file of the cluster is missing or invalid.
    """
    place = catalog.clusters[cluster].get_singleton(Cluster) if cluster in catalog.clusters else None
    return place.model.spec.oidc.callback_host if place is not None else None
