"""References: a field that names something of ours names something that exists, is on offer, and is in reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from allotment.declared.inventory import Declared, Folder, Offers
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
from allotment.declared.reading import nearest, nearest_declared
from allotment.declared.references import ReferenceTo, references
from allotment.problems import Finding, quoted
from allotment.readiness.sources import is_bucket
from allotment.rules.tally import Tally

RULE = "reference"
LIFECYCLE = "lifecycle"
_MOST_OWNERS = 3  # named in one message


def _missing(
    declaration: Declared[Declaration], field: str, kind: str, name: str, candidates: Iterable[str], where: str = ""
) -> Finding:
    return declaration.finding(field, f"no {kind} is named {quoted(name)}{where}{nearest(name, candidates)}", RULE)


def _check_references(
    offers: Offers, folder: Folder, declared: Declared[Declaration], tenants: Collection[str] | None = None
) -> Iterator[Finding]:
    """Check that all that a declaration names is declared: with `tenants` the tenants that it names, else all others."""
    for field, to, name in references(declared.model):
        if (to.kind == Tenant.__name__) != (tenants is not None):
            continue
        if (near := _absent(offers, folder, to, name) if tenants is None else _unknown(name, tenants)) is not None:
            yield Finding(declared.path, field, f"no {to.kind} is named {quoted(name)}{near}{to.advice}", RULE)


def _unknown(name: str, known: Collection[str]) -> str | None:
    return None if name in known else nearest(name, known)


def _absent(offers: Offers, folder: Folder, to: ReferenceTo, name: str) -> str | None:
    """Return where nothing of a name is declared, and the nearest name that is; None where it is declared."""
    kind = KINDS[to.kind]
    if kind.name == Cluster.__name__:
        return _unknown(name, offers.clusters)
    target = offers.platform if kind.scope == "platform" else folder
    if not target.lacks(kind.model, name):
        return None
    where = {"platform": "", "cluster": f" in cluster {target.name}", "tenant": f" in tenants/{target.name}"}
    volumes = (
        [key for key, one in target.of(GPUStorage).items() if not is_bucket(offers, one.model)] if to.bucket else ()
    )
    return where[kind.scope] + nearest_declared(name, target, kind.model, without=volumes)


def _deprecated(
    declaration: Declared[Declaration], field: str, subject: str, lifecycle: str, more: str = ""
) -> Iterator[Finding]:
    if lifecycle in ("Deprecated", "Retired"):
        yield declaration.finding(
            field, f"{subject} is {lifecycle}: nothing new should use it{more}", LIFECYCLE, warning=True
        )
    elif lifecycle == "Revoked":
        yield declaration.finding(field, f"{subject} is Revoked: it runs no more{more}", LIFECYCLE, warning=True)


def check_offers(offers: Offers) -> Iterator[Finding]:
    """Check what clusters and catalog name of each other."""
    platform = offers.platform
    if platform.lacks(Platform, "platform"):
        yield Finding("platform/platform.yaml", (), "is missing: every platform has one", "required")
    for app in platform.of(App).values():
        versions = [version.version for version in app.model.spec.versions]
        for index, version in enumerate(app.model.spec.versions):
            if version.replaced_by is not None and (
                version.replaced_by not in versions or version.replaced_by == version.version
            ):
                other_versions = [version_name for version_name in versions if version_name != version.version]
                yield _missing(
                    app, f"spec.versions.{index}.replacedBy", "other version", version.replaced_by, other_versions
                )
    for declared in platform.all():
        yield from _check_references(offers, platform, declared)
    for cluster in offers.clusters.values():
        yield from _check_cluster(offers, cluster)


def _check_cluster(offers: Offers, cluster: Folder) -> Iterator[Finding]:
    if cluster.lacks(Cluster, cluster.name):
        yield Finding(
            f"clusters/{cluster.name}/cluster.yaml",
            (),
            "is missing: every cluster has one",
            "required",
            related=cluster.paths(),
        )
    for declared in cluster.all():
        yield from _check_references(offers, cluster, declared)


def check_across_tenants(offers: Offers, tally: Tally) -> Iterator[Finding]:
    """Check the names that cross from a cluster or a tenant to other tenants."""
    for folder in (offers.platform, *offers.clusters.values()):
        for declared in folder.all():
            yield from _check_references(offers, folder, declared, tally.tenants)
    yield from _check_storages_of_others(tally)


def _check_storages_of_others(tally: Tally) -> Iterator[Finding]:
    """Yield a warning for each storage that an instance uses and another tenant declares; `check_tenant` yields the error."""
    if not tally.unknown:
        return
    owners: dict[str, list[str]] = defaultdict(list)
    for held in tally.storages:
        owners[held.storage].append(held.tenant)
    for unknown in tally.unknown:
        other_owners = [owner for owner in owners.get(unknown.name, ()) if owner != unknown.tenant]
        if other_owners:
            more = f" and {len(other_owners) - _MOST_OWNERS} more" if len(other_owners) > _MOST_OWNERS else ""
            message = (
                f"{unknown.name} is a storage of tenant {', '.join(other_owners[:_MOST_OWNERS])}{more}, and an instance uses only storages"
                " of its own tenant: declare a storage that copies it (spec.prepare.source.storage), once its tenant shares it"
            )
            yield Finding(unknown.path, unknown.field, message, RULE, warning=True)


def check_tenant(offers: Offers, tenant: Folder) -> Iterator[Finding]:
    """Check what a tenant names of the platform's and of its own."""
    declared = tenant.one(Tenant)
    plans = offers.platform.of(Plan)
    if tenant.lacks(Tenant, tenant.name):
        yield Finding(
            f"tenants/{tenant.name}/tenant.yaml",
            (),
            "is missing: every tenant has one",
            "required",
            related=tenant.paths(),
        )
    elif declared is not None and declared.model.spec.plan in plans:
        yield from _deprecated(
            declared,
            "spec.plan",
            f"Plan {declared.model.spec.plan}",
            plans[declared.model.spec.plan].model.spec.lifecycle,
        )
    for resource in tenant.all():
        yield from _check_references(offers, tenant, resource)
    for storage in tenant.of(GPUStorage).values():
        yield from _check_storage(offers, storage)
    for instance in tenant.of(GPUInstance).values():
        yield from _check_instance(offers, tenant, instance)


def _check_cluster_choice(offers: Offers, declaration: Declared[Declaration], name: str) -> Iterator[Finding]:
    folder = offers.clusters.get(name)
    if folder is not None and (cluster := folder.one(Cluster)) is not None:
        yield from _deprecated(declaration, "spec.cluster", f"Cluster {name}", cluster.model.spec.lifecycle)


def _check_storage(offers: Offers, storage: Declared[GPUStorage]) -> Iterator[Finding]:
    spec, offered = storage.model.spec, offers.platform.of(StorageSpec)
    platform = offers.platform.one(Platform)
    if platform is not None and platform.model.spec.images.files is None:
        for field, is_set in (
            ("spec.accessor", spec.accessor is not None),
            ("spec.sharedWith", bool(spec.shared_with)),
        ):
            if is_set:
                message = (
                    "platform/platform.yaml names no image that shows files: the platform team sets spec.images.files"
                )
                yield storage.finding(field, message, RULE, related=(platform.path,))
    yield from _check_cluster_choice(offers, storage, spec.cluster)
    if spec.storage_spec not in offered:
        return
    yield from _deprecated(
        storage, "spec.storageSpec", f"StorageSpec {spec.storage_spec}", offered[spec.storage_spec].model.spec.lifecycle
    )
    cluster = offers.clusters[spec.cluster].one(Cluster) if spec.cluster in offers.clusters else None
    if cluster is not None:
        available_specs = [entry.storage_spec for entry in cluster.model.spec.storages]
        if spec.storage_spec not in available_specs:
            yield _missing(
                storage,
                "spec.storageSpec",
                "StorageSpec",
                spec.storage_spec,
                available_specs,
                f" in cluster {spec.cluster}",
            )


def _check_stocked(cluster: Folder, tenant: Folder, instance: Declared[GPUInstance]) -> Iterator[Finding]:
    """Check that the cluster stocks the instance's spec, and not for others alone: else no node is for it."""
    wanted = instance.model.spec.gpu_spec
    owners: dict[str, set[str | None]] = defaultdict(set)
    for stock in cluster.of(Stock).values():
        owners[stock.model.spec.gpu_spec].add(stock.model.spec.tenant)
    if any(kind == "Stock" for kind, _ in cluster.broken) or owners.get(wanted, set()) & {None, tenant.name}:
        return
    available_specs = [name for name, held in owners.items() if held & {None, tenant.name}]
    where = f" in the stocks of cluster {cluster.name}"
    if wanted in owners:
        held = ", ".join(sorted(str(owner) for owner in owners[wanted]))
        message = (
            f"the stocks of {wanted} in cluster {cluster.name} are held for {held}{nearest(wanted, available_specs)}"
        )
        yield instance.finding("spec.gpuSpec", message, RULE)
    else:
        yield _missing(instance, "spec.gpuSpec", "GPUSpec", wanted, available_specs, where)


def _check_instance(offers: Offers, tenant: Folder, instance: Declared[GPUInstance]) -> Iterator[Finding]:
    spec, specs, apps = instance.model.spec, offers.platform.of(GPUSpec), offers.platform.of(App)
    yield from _check_cluster_choice(offers, instance, spec.cluster)
    if spec.gpu_spec in specs:
        yield from _deprecated(
            instance, "spec.gpuSpec", f"GPUSpec {spec.gpu_spec}", specs[spec.gpu_spec].model.spec.lifecycle
        )
        if spec.cluster in offers.clusters:
            yield from _check_stocked(offers.clusters[spec.cluster], tenant, instance)
    if spec.app is not None and spec.app.name in apps:
        versions = {version.version: version for version in apps[spec.app.name].model.spec.versions}
        if spec.app.version not in versions:
            yield _missing(instance, "spec.app.version", f"version of {spec.app.name}", spec.app.version, versions)
        else:
            chosen = versions[spec.app.version]
            more = f", go to {chosen.replaced_by}" if chosen.replaced_by else ""
            yield from _deprecated(
                instance, "spec.app.version", f"{spec.app.name} {spec.app.version}", chosen.lifecycle, more
            )
