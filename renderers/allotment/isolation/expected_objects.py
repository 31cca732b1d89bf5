"""Compare a newly rendered object with its pattern in `allowed/`.

A pattern has slots, such as `<tenant>`, for values that depend on the cluster, the owner or the object. The patterns are
written by hand from the permissions of a tenant, independently of the code that renders. Therefore this check finds
mistakes in that code. The objects of the platform have no pattern, except those of add-ons: node pools,
stocks, the device plugin, device classes, the managed gateway and the portal. This check renders them again instead. `entitlements` checks the fields that a tenant's declarations determine,
such as logins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from allotment.capacity.units import pools_for, stocks_of_spec, unit_of_spec
from allotment.declared.kinds.add_on import OCI_PREFIX, AddOn
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.stock import Stock
from allotment.declared.tenant_resources import RESOURCE_KINDS, TREE_PARTS
from allotment.declared.values import format_cpu, format_size
from allotment.isolation.boundary import Boundary
from allotment.isolation.patterns import AnyOf, PatternReader, compile_pattern, find_differences
from allotment.manifests import argo_folders, names, paths, pods
from allotment.manifests.cluster import device_classes, device_plugin, managed_gateway, portal
from allotment.manifests.layout import CLUSTER_MANIFESTS, parse_cluster_file
from allotment.manifests.tenant import programs
from allotment.manifests.yaml_text import Object
from allotment.problems import escape_unprintable

_NAME = re.compile(r"[a-z](?:-?[a-z0-9])*")
_PREPARATION_JOB_SUFFIX = re.compile(
    r"--prepare-[0-9a-f]{10}-[0-9]{1,4}"
)  # the end of the name of a preparation Job, after the storage's name
_MATCHES_NOTHING = AnyOf()
_DEVICE_PLUGIN = f"platform/cluster/device-plugin{paths.FILE_SUFFIX}"
_DEVICE_CLASSES = f"platform/cluster/device-classes{paths.FILE_SUFFIX}"
_MANAGED_GATEWAY = f"platform/cluster/managed-gateway{paths.FILE_SUFFIX}"
_PORTAL = f"platform/cluster/portal{paths.FILE_SUFFIX}"
_DECLARED_PREFIXES = (
    "platform/node-pools/",
    "platform/stock/",
    _DEVICE_PLUGIN,
    _DEVICE_CLASSES,
    _MANAGED_GATEWAY,
    _PORTAL,
)
_SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@lru_cache
def _read_patterns_text(part: str) -> str:
    return (files(__package__) / "allowed" / f"{part}.yaml").read_text("utf-8")


def template_text() -> str:
    """Return the text of the patterns for tenants' objects.

    The text has all words in these objects that do not depend on the tenant.
    """
    return _read_patterns_text("tenant")


@lru_cache
def _load_readers(part: str) -> Mapping[str, list[PatternReader]]:
    """Return, by kind, the functions that compare an object of a part of the tree with a pattern."""
    readers: dict[str, list[PatternReader]] = {}
    for pattern in yaml.load_all(
        _read_patterns_text(part), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    ):  # both loaders are safe
        readers.setdefault(pattern["kind"], []).append(compile_pattern(pattern))
    return readers


def load_patterns() -> None:
    """Load the patterns for the objects of tenants."""
    for part in ("argo", "namespaces", "tenant"):
        _load_readers(part)


def judge_against_patterns(boundary: Boundary, part: str, tenant: str, inner: str, manifest: Object) -> Iterator[str]:
    """Yield the differences between an object and its patterns.

    For an object of the platform, `inner` is the path of its file. For a tenant's resource, it is the stem of the file.
    """
    if part == "platform" and _is_rendered_again(inner):
        yield from _judge_declared_object(boundary, inner, manifest)
        return
    candidates, values = select_patterns(boundary, part, tenant, inner, manifest)
    if not candidates:
        yield f"kind {escape_unprintable(str(manifest.get('kind')))} is not allowed"
    else:
        yield from map(str, find_differences(candidates, manifest, values))


def select_patterns(
    boundary: Boundary, part: str, tenant: str, inner: str, manifest: Object
) -> tuple[list[PatternReader], Mapping[str, Any]]:
    """Return the patterns for an object, and the values of their slots. The object must match any of the patterns."""
    in_add_ons = part == "platform" and argo_folders.folder_of(inner) == argo_folders.ADD_ONS_FOLDER
    is_add_on = in_add_ons and not paths.is_marker(inner)
    own = _add_on_slot_values(boundary, inner) if is_add_on else _slot_values(boundary, part, tenant, inner, manifest)
    candidates = _load_readers("add-ons" if is_add_on else part).get(str(manifest.get("kind")), [])
    return candidates, {**boundary.values, **own}


def _is_rendered_again(inner: str) -> bool:
    """Return whether the objects of a platform file have no pattern, so that this check renders them again."""
    if paths.is_marker(inner):
        return False
    declared_file = parse_cluster_file(inner)
    return inner.startswith(_DECLARED_PREFIXES) or (declared_file is not None and declared_file[0] is not AddOn)


def _judge_declared_object(boundary: Boundary, inner: str, manifest: Object) -> Iterator[str]:
    """Yield a violation if an object is not among the objects that we render from the declarations.

    A stock may have any number of placeholders up to its declared count.
    """
    name, catalog, cluster = paths.file_stem(inner), boundary.catalog, boundary.cluster_declarations
    expected_manifests: list[Any] = []
    if inner == _DEVICE_PLUGIN:
        expected_manifests = device_plugin.render(cluster)
    elif inner == _DEVICE_CLASSES:
        expected_manifests = device_classes.render(cluster)
    elif inner == _MANAGED_GATEWAY:
        expected_manifests = managed_gateway.render(catalog, cluster)
    elif inner == _PORTAL:
        expected_manifests = portal.render(catalog, cluster)
    elif declared_file := parse_cluster_file(inner):
        kind, declared_name = declared_file
        declared = catalog.platform.of_kind(kind).get(declared_name) or cluster.of_kind(kind).get(declared_name)
        placeholders = {}
        if declared is not None and isinstance(declared.model, Stock):
            replicas, most = manifest.get("spec", {}).get("replicas"), declared.model.spec.count
            if type(replicas) is not int or not 0 <= replicas <= most:
                yield f"replicas is {escape_unprintable(str(replicas))}, must be a number up to {most}"
                return
            placeholders = {(cluster.name, declared_name): replicas}
        if declared is not None:
            expected_manifests = CLUSTER_MANIFESTS[kind].render(catalog, cluster, declared, placeholders)
    if manifest not in expected_manifests:
        yield f"{escape_unprintable(str(manifest.get('kind')))} {name} differs from its declaration"


def _slot_values(boundary: Boundary, part: str, tenant: str, inner: str, manifest: Object) -> dict[str, Any]:
    """Return the values of the slots that depend on the object or its owner, not only on the cluster."""
    if part == "platform":
        return _platform_slot_values(boundary, inner, manifest)
    space = names.namespace(tenant)
    values: dict[str, Any] = {
        "tenant": tenant,
        "project": names.project(tenant, boundary.cluster),
        "destination-of-tenant": {**boundary.destination, "namespace": space},
    }
    metadata = manifest.get("metadata", {})
    name, labels = str(metadata.get("name")), metadata.get("labels", {})
    if part == "namespaces":
        return {**values, "opened": _valid_name(name.partition("--")[2])}
    if part == "argo":
        return values
    resource_names = {kind: _valid_name(labels.get(key)) for kind, key in _LABELS_BY_RESOURCE.items()}
    own = {**values, **resource_names, "part": AnyOf(TREE_PARTS), **_programs_values(manifest)}
    filled = name.removeprefix(resource_names["storage"]) if isinstance(resource_names["storage"], str) else ""
    own["job"] = name if _PREPARATION_JOB_SUFFIX.fullmatch(filled) else _MATCHES_NOTHING
    return {
        **own,
        **_route_values(boundary, tenant, name, resource_names),
        **_unit_values(boundary, tenant, labels.get(names.GPU_SPEC)),
    }


_LABELS_BY_RESOURCE = {word: names.label_of(word) for word in RESOURCE_KINDS}


def _valid_name(name: Any) -> Any:
    return name if isinstance(name, str) and _NAME.fullmatch(name) else _MATCHES_NOTHING


def _route_values(boundary: Boundary, tenant: str, name: str, resource_names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the slots `route`, `host` and `service` for the object `name`.

    `resource_names` has the names of the instance and the storage to which the object may belong.
    """
    instance, storage, domain = resource_names["instance"], resource_names["storage"], boundary.domain
    port = name.removeprefix(f"{instance}--")
    if isinstance(instance, str) and (name == instance or (port != name and _NAME.fullmatch(port))):
        host = names.instance_host(instance, "http" if name == instance else port, tenant, domain)
        return {"route": name, "host": host, "service": instance}
    if isinstance(storage, str) and name == names.files_service(storage):
        return {"route": name, "host": names.files_host(storage, tenant, domain), "service": name}
    return {"route": _MATCHES_NOTHING, "host": _MATCHES_NOTHING, "service": _MATCHES_NOTHING}


def _unit_values(boundary: Boundary, tenant: str, gpu_spec: Any) -> dict[str, Any]:
    """Return the slot values for an instance's GPUSpec: a unit, its disk, and the placement on pools that stock it."""
    declared = boundary.catalog.platform.of_kind(GPUSpec).get(gpu_spec) if isinstance(gpu_spec, str) else None
    if declared is None:
        return {"unit": _MATCHES_NOTHING, "disk": _MATCHES_NOTHING, "placement": _MATCHES_NOTHING}
    spec = declared.model.spec
    unit = unit_of_spec(spec)
    amounts = {"cpu": format_cpu(unit.cpu), "memory": format_size(unit.memory), unit.resource: str(unit.amount)}
    if spec.ephemeral_storage is not None:
        amounts["ephemeral-storage"] = format_size(spec.ephemeral_storage)
    owner = tenant if tenant in stocks_of_spec(boundary.cluster_declarations, declared.model.name).reserved else ""
    pools = [pool.model for pool in pools_for(boundary.cluster_declarations, declared.model.name, owner)]
    placement: dict[str, Any] = {"nodeAffinity": pods.require_pools(pools)}
    if spec.tenancy == "Single":
        expressions = [
            {"key": names.TENANT, "operator": "Exists"},
            {"key": names.TENANT, "operator": "NotIn", "values": [tenant]},
        ]
        selector = {"labelSelector": {"matchExpressions": expressions}, "namespaceSelector": {}}
        term = {**selector, "topologyKey": "kubernetes.io/hostname"}
        placement["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"unit": {"requests": amounts, "limits": amounts}, "disk": format_size(spec.disk), "placement": placement}


def _programs_values(manifest: Object) -> dict[str, Any]:
    """Return the name and content of a ConfigMap with programs.

    If the object is a Job, this is the ConfigMap that the Job must mount. Otherwise, it is the object itself.
    """
    name = str(manifest.get("metadata", {}).get("name"))
    if manifest.get("kind") == "Job":
        containers = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        command = containers[0].get("command") if containers else None
        program = next(
            (candidate for candidate in programs.PROGRAM_SETS if command == ["python3", "-m", f"programs.{candidate}"]),
            None,
        )
        name = programs.programs_name(program) if program is not None else ""
    data = programs.programs_by_name().get(name)
    return {
        "programs-name": name if data is not None else _MATCHES_NOTHING,
        "programs": data if data is not None else _MATCHES_NOTHING,
    }


def _platform_slot_values(boundary: Boundary, inner: str, manifest: Object) -> dict[str, Any]:
    name = str(manifest.get("metadata", {}).get("name"))
    folder = str(manifest.get("spec", {}).get("source", {}).get("path"))
    part = name.removeprefix(names.PLATFORM_PREFIX).removesuffix(f"--{boundary.cluster}")
    read = {
        **{f"{kind}-{letter}": f"control/{kind}/{letter}" for letter in _LETTERS for kind in ("argo", "namespaces")},
        "add-ons": argo_folders.ADD_ONS_FOLDER,
        "namespaces-of-add-ons": "platform/add-ons",
        "platform": "platform/cluster",
        "node-pools": "platform/node-pools",
        "stock": "platform/stock",
    }
    hub, destination = {"name": "in-cluster", "namespace": names.ARGO_NAMESPACE}, boundary.destination
    stocks = {**destination, "namespace": names.STOCK_NAMESPACE}
    marker = argo_folders.marker_identity(boundary.cluster, argo_folders.folder_of(inner))
    rank = name.removeprefix("allotment-stock-")
    ranked = rank.isascii() and rank.isdigit() and 1 <= int(rank) <= names.STOCK_PRIORITIES
    return {
        "add-on-namespace": AnyOf(_add_on_namespaces(boundary, inner, name)),
        "part": part if read.get(part) == folder else _MATCHES_NOTHING,
        "folder": folder if folder in argo_folders.folders_of_application_file(inner) else _MATCHES_NOTHING,
        "destination-of-part": hub
        if part == "add-ons" or part.startswith("argo-")
        else stocks
        if part == "stock"
        else destination,
        "marker": marker[0],
        "marker-namespace": marker[1],
        "stock-priority": name if ranked else _MATCHES_NOTHING,
        "stock-priority-value": int(rank) - 11 if ranked else _MATCHES_NOTHING,
    }


def _add_on_namespaces(boundary: Boundary, inner: str, name: str) -> Iterator[str]:
    """Yield the add-on namespaces that an object may create; none if its name is reserved for tenants or Kubernetes."""
    if inner.startswith("platform/add-ons/") and not name.startswith("t-") and name not in _SYSTEM_NAMESPACES:
        for add_on in boundary.catalog.platform.of_kind(AddOn).values():
            if add_on.model.spec.is_installed_in(boundary.cluster):
                yield add_on.model.spec.namespace


def _add_on_slot_values(boundary: Boundary, inner: str) -> dict[str, Any]:
    """Return the slot values from an add-on's declaration: its source, namespaces and cluster-scoped kinds."""
    declared = boundary.catalog.platform.of_kind(AddOn).get(paths.file_stem(inner))
    if declared is None or not declared.model.spec.is_installed_in(boundary.cluster):
        return dict.fromkeys(_ADD_ON_SLOTS, _MATCHES_NOTHING)
    name, spec = declared.model.name, declared.model.spec
    spaces = [{**boundary.destination, "namespace": space} for space in (spec.namespace, *spec.other_namespaces)]
    kinds = [{"group": kind.group, "kind": kind.kind} for kind in spec.cluster_resources]
    if spec.chart is None:
        assert spec.manifests is not None
        source: dict[str, Any] = {"targetRevision": spec.manifests.revision, "path": spec.manifests.path}
        repository = spec.manifests.repo_url
    else:
        helm = {"releaseName": name, **({"valuesObject": spec.values} if spec.values else {})}
        repository = spec.chart.repo_url
        if repository.startswith(OCI_PREFIX):
            repository = f"{repository.rstrip('/')}/{spec.chart.name}"
            source = {"targetRevision": spec.chart.digest or spec.chart.version, "path": ".", "helm": helm}
        else:
            source = {"chart": spec.chart.name, "targetRevision": spec.chart.version, "helm": helm}
    return {
        "add-on": name,
        "add-on-repository": repository,
        "add-on-source": {"repoURL": repository, **source},
        "add-on-destinations": spaces,
        "add-on-destination": spaces[0],
        "add-on-kinds": kinds,
        "add-on-wave": str(spec.wave),
    }


_ADD_ON_SLOTS = (
    "add-on",
    "add-on-repository",
    "add-on-source",
    "add-on-destinations",
    "add-on-destination",
    "add-on-kinds",
    "add-on-wave",
)
