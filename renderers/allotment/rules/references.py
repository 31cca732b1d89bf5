"""References: each name in a declaration refers to a declaration that exists.

A resource names only GPUSpecs and StorageSpecs that its cluster offers to its tenant. The use of a Deprecated, Retired
or Revoked offer gets a warning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.app import App
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.stock import Stock
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.reading import MISSING_NAME, suggest_declared_name, suggest_name
from allotment.declared.references import ReferenceTo, references
from allotment.preparation.sources import is_bucket
from allotment.problems import Finding, Problem, quote_value
from allotment.rules.tally import Tally

RULE = "reference"
LIFECYCLE = "lifecycle"
_MAX_OWNERS = 3  # a message names at most this many tenants


def _missing_reference(
    declaration: DeclarationFile[Declaration],
    field: str,
    kind: str,
    name: str,
    candidates: Iterable[str],
    where: str = "",
) -> Finding:
    return declaration.make_finding(
        field, f"no {kind} is named {quote_value(name)}{where}{suggest_name(name, candidates)}", RULE
    )


def _check_references(
    catalog: Catalog,
    folder: ScopeDeclarations,
    declared: DeclarationFile[Declaration],
    tenants: Collection[str] | None = None,
) -> Iterator[Finding]:
    """Check that a declaration exists for each name in `declared`.

    If `tenants` (the names of all tenants) is given, check only the names of tenants. Otherwise, check all names except
    the names of tenants.
    """
    for field, to, name in references(declared.model):
        if (to.kind == Tenant.__name__) != (tenants is not None):
            continue
        if (near := _absent(catalog, folder, to, name) if tenants is None else _unknown(name, tenants)) is not None:
            yield Finding(declared.path, field, f"no {to.kind} is named {quote_value(name)}{near}{to.advice}", RULE)


def _unknown(name: str, candidates: Collection[str]) -> str | None:
    return None if name in candidates else suggest_name(name, candidates)


def _absent(catalog: Catalog, folder: ScopeDeclarations, to: ReferenceTo, name: str) -> str | None:
    """Return the end of a message about an undeclared name: the scope that lacks it, and the closest declared name.

    Returns None if the name is declared.
    """
    kind = KINDS[to.kind]
    if kind.name == Cluster.__name__:
        return _unknown(name, catalog.clusters)
    target = catalog.platform if kind.scope == "platform" else folder
    if not target.is_absent(kind.model, name):
        return None
    where = {"platform": "", "cluster": f" in cluster {target.name}", "tenant": f" in tenants/{target.name}"}
    volumes = (
        [key for key, storage in target.of_kind(GPUStorage).items() if not is_bucket(catalog, storage.model)]
        if to.bucket
        else ()
    )
    return where[kind.scope] + suggest_declared_name(name, target, kind.model, without=volumes)


def add_names(catalog: Catalog, folder: ScopeDeclarations, problem: Problem) -> Problem:
    """Return a problem; if it is a missing reference, with the names that the field may have."""
    _, is_reference, kind = problem.message.partition(MISSING_NAME)
    if not is_reference or kind not in KINDS or problem.rule != "required":
        return problem
    names = (
        catalog.clusters
        if kind == Cluster.__name__
        else (catalog.platform if KINDS[kind].scope == "platform" else folder).of_kind(KINDS[kind].model)
    )
    return problem._replace(message=problem.message + suggest_name("", names))


def _lifecycle_findings(
    declaration: DeclarationFile[Declaration], field: str, subject: str, lifecycle: str, more: str = ""
) -> Iterator[Finding]:
    if lifecycle in ("Deprecated", "Retired"):
        yield declaration.make_finding(
            field, f"{subject} is {lifecycle}: nothing new should use it{more}", LIFECYCLE, warning=True
        )
    elif lifecycle == "Revoked":
        yield declaration.make_finding(
            field, f"{subject} is Revoked: its instances are stopped{more}", LIFECYCLE, warning=True
        )


def check_offers(catalog: Catalog) -> Iterator[Finding]:
    """Check the references in the declarations of the platform and of the clusters, except references to tenants."""
    platform = catalog.platform
    if platform.is_absent(Platform, "platform"):
        yield Finding("platform/platform.yaml", (), "is missing: a platform needs this file", "required")
    for app in platform.of_kind(App).values():
        versions = [version.version for version in app.model.spec.versions]
        for index, version in enumerate(app.model.spec.versions):
            if version.replaced_by is not None and (
                version.replaced_by not in versions or version.replaced_by == version.version
            ):
                other_versions = [version_name for version_name in versions if version_name != version.version]
                yield _missing_reference(
                    app, f"spec.versions.{index}.replacedBy", "other version", version.replaced_by, other_versions
                )
    for declared in platform.all_declarations():
        yield from _check_references(catalog, platform, declared)
    for cluster in catalog.clusters.values():
        yield from _check_cluster(catalog, cluster)


def _check_cluster(catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Finding]:
    if cluster.is_absent(Cluster, cluster.name):
        yield Finding(
            f"clusters/{cluster.name}/cluster.yaml",
            (),
            "is missing: a cluster needs this file",
            "required",
            related=cluster.paths(),
        )
    for declared in cluster.all_declarations():
        yield from _check_references(catalog, cluster, declared)


def check_across_tenants(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check the names of tenants in the declarations of the platform and of the clusters, and warn if an instance uses
    the name of another tenant's storage."""
    for folder in (catalog.platform, *catalog.clusters.values()):
        for declared in folder.all_declarations():
            yield from _check_references(catalog, folder, declared, tally.tenants)
    yield from _check_storages_of_others(tally)


def _check_storages_of_others(tally: Tally) -> Iterator[Finding]:
    """Warn about each instance that names the storage of another tenant. `check_tenant` yields the error."""
    if not tally.unknown_storages:
        return
    owners: dict[str, list[str]] = defaultdict(list)
    for storage in tally.storages:
        owners[storage.storage].append(storage.tenant)
    for unknown in tally.unknown_storages:
        other_owners = [owner for owner in owners.get(unknown.name, ()) if owner != unknown.tenant]
        if other_owners:
            more = f" and {len(other_owners) - _MAX_OWNERS} more" if len(other_owners) > _MAX_OWNERS else ""
            message = (
                f"{unknown.name} is a storage of tenant {', '.join(other_owners[:_MAX_OWNERS])}{more}, and an instance uses only storages"
                " of its own tenant: declare a storage that copies it (spec.prepare.source.storage), once its tenant shares it"
            )
            yield Finding(unknown.path, unknown.field, message, RULE, warning=True)


def check_tenant(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's references to the platform, to clusters, and to its own declarations."""
    declared = tenant.get_singleton(Tenant)
    plans = catalog.platform.of_kind(Plan)
    if tenant.is_absent(Tenant, tenant.name):
        yield Finding(
            f"tenants/{tenant.name}/tenant.yaml",
            (),
            "is missing: a tenant needs this file",
            "required",
            related=tenant.paths(),
        )
    elif declared is not None and declared.model.spec.plan in plans:
        yield from _lifecycle_findings(
            declared,
            "spec.plan",
            f"Plan {declared.model.spec.plan}",
            plans[declared.model.spec.plan].model.spec.lifecycle,
        )
    for resource in tenant.all_declarations():
        yield from _check_references(catalog, tenant, resource)
    for storage in tenant.of_kind(GPUStorage).values():
        yield from _check_storage(catalog, storage)
    for instance in tenant.of_kind(GPUInstance).values():
        yield from _check_instance(catalog, tenant, instance)


def _check_cluster_choice(catalog: Catalog, declaration: DeclarationFile[Declaration], name: str) -> Iterator[Finding]:
    folder = catalog.clusters.get(name)
    if folder is not None and (cluster := folder.get_singleton(Cluster)) is not None:
        yield from _lifecycle_findings(declaration, "spec.cluster", f"Cluster {name}", cluster.model.spec.lifecycle)


def _check_storage(catalog: Catalog, storage: DeclarationFile[GPUStorage]) -> Iterator[Finding]:
    spec, offered = storage.model.spec, catalog.platform.of_kind(StorageSpec)
    platform = catalog.platform.get_singleton(Platform)
    if platform is not None and platform.model.spec.images.files is None:
        for field, is_set in (
            ("spec.accessor", spec.accessor is not None),
            ("spec.sharedWith", bool(spec.shared_with)),
        ):
            if is_set:
                message = (
                    "platform/platform.yaml names no image that shows files: the platform team sets spec.images.files"
                )
                yield storage.make_finding(field, message, RULE, related=(platform.path,))
    yield from _check_cluster_choice(catalog, storage, spec.cluster)
    if spec.storage_spec not in offered:
        return
    yield from _lifecycle_findings(
        storage, "spec.storageSpec", f"StorageSpec {spec.storage_spec}", offered[spec.storage_spec].model.spec.lifecycle
    )
    cluster = catalog.clusters[spec.cluster].get_singleton(Cluster) if spec.cluster in catalog.clusters else None
    if cluster is not None:
        available_specs = [entry.storage_spec for entry in cluster.model.spec.storages]
        if spec.storage_spec not in available_specs:
            yield _missing_reference(
                storage,
                "spec.storageSpec",
                "StorageSpec",
                spec.storage_spec,
                available_specs,
                f" in cluster {spec.cluster}",
            )


def _check_stocked(
    cluster: ScopeDeclarations, tenant: ScopeDeclarations, instance: DeclarationFile[GPUInstance]
) -> Iterator[Finding]:
    """Check that the cluster has a stock of the instance's GPUSpec for the tenant.

    The stock must be shared or reserved for the tenant. Without such a stock, the instance would get no node.
    """
    gpu_spec = instance.model.spec.gpu_spec
    owners: dict[str, set[str | None]] = defaultdict(set)
    for stock in cluster.of_kind(Stock).values():
        owners[stock.model.spec.gpu_spec].add(stock.model.spec.tenant)
    if any(kind == "Stock" for kind, _ in cluster.invalid) or owners.get(gpu_spec, set()) & {None, tenant.name}:
        return
    available_specs = [name for name, tenants in owners.items() if tenants & {None, tenant.name}]
    where = f" in the stocks of cluster {cluster.name}"
    if gpu_spec in owners:
        owner_names = ", ".join(sorted(str(owner) for owner in owners[gpu_spec]))
        message = f"the stocks of {gpu_spec} in cluster {cluster.name} are held for {owner_names}{suggest_name(gpu_spec, available_specs)}"
        yield instance.make_finding("spec.gpuSpec", message, RULE)
    else:
        yield _missing_reference(instance, "spec.gpuSpec", "GPUSpec", gpu_spec, available_specs, where)


def _check_instance(
    catalog: Catalog, tenant: ScopeDeclarations, instance: DeclarationFile[GPUInstance]
) -> Iterator[Finding]:
    spec, specs, apps = instance.model.spec, catalog.platform.of_kind(GPUSpec), catalog.platform.of_kind(App)
    yield from _check_cluster_choice(catalog, instance, spec.cluster)
    if spec.gpu_spec in specs:
        yield from _lifecycle_findings(
            instance, "spec.gpuSpec", f"GPUSpec {spec.gpu_spec}", specs[spec.gpu_spec].model.spec.lifecycle
        )
        if spec.cluster in catalog.clusters:
            yield from _check_stocked(catalog.clusters[spec.cluster], tenant, instance)
    if spec.app is not None and spec.app.name in apps:
        versions = {version.version: version for version in apps[spec.app.name].model.spec.versions}
        if spec.app.version not in versions:
            yield _missing_reference(
                instance, "spec.app.version", f"version of {spec.app.name}", spec.app.version, versions
            )
        else:
            chosen = versions[spec.app.version]
            command = f"allot set instance/{tenant.name}/{instance.model.name} app.version={chosen.replaced_by}"
            more = f", use {chosen.replaced_by} with `{command}`" if chosen.replaced_by else ""
            yield from _lifecycle_findings(
                instance, "spec.app.version", f"{spec.app.name} {spec.app.version}", chosen.lifecycle, more
            )
