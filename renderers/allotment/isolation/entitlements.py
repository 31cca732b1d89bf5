"""Check the fields of a tenant's objects that the tenant's own declarations determine.

These fields decide, for example, which people can log in, which tenants can read a storage, which routes are public, and
how many replicas run. The patterns in `allowed/` are the same for all tenants, so they cannot check these fields.
Except for the replicas, the fields come last in the text of an object. Therefore this check compares the end of the
text. It finds the replicas with a regular expression, and parses no YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from allotment.capacity.units import holds_units, is_active
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant
from allotment.manifests import names
from allotment.manifests.tenant import (
    accessor,
    applications,
    disruption,
    exposure,
    gpu_instance,
    image_pull,
    namespace,
    project_roles,
    sharing,
    ssh_access,
)
from allotment.manifests.yaml_text import dump
from allotment.problems import escape_unprintable
from allotment.rules.quota import limits_of

_KIND = re.compile(r"^kind: ([A-Za-z]+)$", re.MULTILINE)
_NAME = re.compile(r"^metadata:\n(?:  .*\n)*?  name: \"?([a-z0-9-]+)\"?$", re.MULTILINE)
_REPLICAS = re.compile(r"^  replicas: ([0-9]{1,7})$", re.MULTILINE)
_OPENING_NAME = re.compile(r"(?:share|read|buckets)--")


class Entitlements(NamedTuple):
    """The objects to which a tenant's declarations entitle the tenant in a cluster.

    `required_endings` maps the kind and name of an object to the text with which the object must end. It has all
    AppProjects, SecurityPolicies and PodDisruptionBudgets that the tenant may have, all NetworkPolicies that open the
    namespace to another namespace, the ResourceQuota `backstop`, the objects for the SSH gateway, and the ServiceAccount. An object of these sorts that is absent from
    `required_endings` is a violation. `max_replicas` has the maximum number of replicas of each Deployment.
    `file_writers` has the names of the file servers that may change files. `token_routes` has the names of the HTTPRoutes
    that admit programs with a token, and must remove the token. `reload_secrets` has the Secrets of each Deployment that
    restarts when one of them changes.
    """

    required_endings: dict[tuple[str, str], str]
    max_replicas: dict[str, int]
    file_writers: frozenset[str]
    token_routes: frozenset[str] = frozenset()
    reload_secrets: Mapping[str, str] = MappingProxyType({})

    @staticmethod
    def from_declarations(catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> Entitlements:
        """Return the entitlements of a tenant in a cluster."""
        endings = {
            (kind, name): _dump_ending(fields)
            for kind, name, fields in _list_entitled_objects(catalog, cluster, tenant)
        }
        if ssh_data := ssh_access.build_data(cluster, tenant):
            endings["ConfigMap", names.SSH_GATEWAY] = "\n" + dump([{"data": ssh_data}]).decode().removesuffix("\n")
            endings["RoleBinding", names.SSH_GATEWAY] = ""  # a pattern checks it
        if pull_secrets := image_pull.list_pull_secrets(cluster, tenant):
            ending = "\n" + dump([{"imagePullSecrets": pull_secrets}]).decode().removesuffix("\n")
            endings["ServiceAccount", names.SERVICE_ACCOUNT] = ending
        writers = frozenset(_list_file_writers(cluster, tenant))
        routes = frozenset(_list_token_routes(catalog, cluster, tenant))
        reload_secrets = {
            instance.model.name: secrets
            for instance in tenant.of_kind(GPUInstance).values()
            if instance.model.spec.cluster == cluster.name
            and (secrets := gpu_instance.list_reload_secrets(instance.model))
        }
        max_replicas = dict(_max_replicas_by_deployment(cluster, tenant))
        return Entitlements(endings, max_replicas, writers, routes, reload_secrets)

    def judge(self, text: str) -> Iterator[str]:
        """Yield the violations in the text of one object."""
        match = _KIND.search(text)
        if match is None:
            yield "an object has no kind"
        elif match[1] in _JUDGED_KINDS:
            yield from self._judge_kind(match[1], text)

    def _judge_kind(self, kind: str, text: str) -> Iterator[str]:
        match = _NAME.search(text)
        if match is None:
            yield f"{kind} has no name"
            return
        name = match[1]
        if kind == "Deployment":
            replicas = _REPLICAS.search(text)
            if replicas is None or int(replicas[1]) > self.max_replicas.get(name, 0):
                yield f"Deployment {name} has more replicas than are declared to run: at most {self.max_replicas.get(name, 0)}"
            yield from _judge_reload(name, text, self.reload_secrets.get(name, ""))
            if name.endswith(_FILES_SUFFIX) and name not in self.file_writers:
                yield from _judge_reading_server(name, text)
            return
        if kind == "HTTPRoute":
            if text.endswith(_REMOVED_TOKEN) is not (name in self.token_routes):
                yield f"HTTPRoute {name} must {'' if name in self.token_routes else 'not '}remove the header Authorization"
            return
        if (
            (kind == "NetworkPolicy" and not _OPENING_NAME.match(name))
            or (kind == "ResourceQuota" and name != "backstop")
            or (kind == "ConfigMap" and name != names.SSH_GATEWAY)
        ):
            return  # the object is the same for all tenants, so a pattern checks it
        ending = self.required_endings.get((kind, name))
        if ending is None:
            yield f"{kind} {escape_unprintable(name)} follows from nothing that the tenant declares"
        elif not text.endswith(ending):
            yield f"{kind} {escape_unprintable(name)} isn't what the tenant's declarations come to: it must end with {escape_unprintable(ending, 300)}"


def _max_replicas_by_deployment(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> Iterator[tuple[str, int]]:
    for instance in tenant.of_kind(GPUInstance).values():
        if instance.model.spec.cluster == cluster.name:
            yield (
                instance.model.name,
                instance.model.spec.replicas if holds_units(tenant, instance.model) else 0,
            )
    for storage in tenant.of_kind(GPUStorage).values():
        if storage.model.spec.cluster == cluster.name and accessor.needs_accessor(storage.model):
            yield names.files_service(storage.model.name), 1 if is_active(tenant) else 0


def _list_file_writers(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> Iterator[str]:
    for storage in tenant.of_kind(GPUStorage).values():
        spec = storage.model.spec
        if spec.cluster == cluster.name and spec.accessor is not None and spec.accessor.allows_writing:
            yield names.files_service(storage.model.name)


def _list_token_routes(catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> Iterator[str]:
    place = cluster.get_singleton(Cluster)
    if place is not None and place.model.spec.oidc.cli_client_id is not None:
        yield from (url.name for url in _list_urls(catalog, cluster, tenant) if url.exposure != "Public")


def _judge_reload(name: str, text: str, secrets: str) -> Iterator[str]:
    """Yield a violation if other changes restart a Deployment than its instance declares. The metadata precedes the spec."""
    metadata = text.partition("\nspec:\n")[0]
    lines = [line for line in metadata.splitlines() if _RELOADER in line]
    if lines != ([f"    {names.RELOAD_SECRETS}: {secrets}"] if secrets else []):
        yield f"Deployment {name} must restart at changes of {secrets or 'no Secret'}"


def _judge_reading_server(name: str, text: str) -> Iterator[str]:
    """Yield the violations of a file server that may only read.

    The kubelet mounts a volume read-only in all containers of a pod if the volume's claim is `readOnly`.
    """
    claim = {"claimName": name.removesuffix(_FILES_SUFFIX), "readOnly": True}
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": claim}]}
    ending = _dump_ending({"template": {"spec": volumes}}).removeprefix("\n  template:\n    spec:")
    # A backslash could hide a flag in a quoted text.
    if not text.endswith(ending) or "\\" in text or any(flag in text for flag in _WRITER_FLAGS):
        yield f"Deployment {name} may change files, but its storage declares no accessor with mode ReadWrite"


_RELOADER = "reloader.stakater.com"
_FILES_SUFFIX = names.files_service("")
_WRITER_FLAGS = ("--allow-upload", "--allow-delete")
_JUDGED_KINDS = frozenset(
    (
        "AppProject",
        "ConfigMap",
        "Deployment",
        "HTTPRoute",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "ResourceQuota",
        "RoleBinding",
        "SecurityPolicy",
        "ServiceAccount",
    )
)


_REMOVE_HEADER = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["Authorization"]}}


def _dump_ending(fields: dict[str, Any]) -> str:
    """Return the text with which an object ends if `fields` are the last fields of its spec."""
    return dump([{"spec": fields}]).decode().removeprefix("spec:").removesuffix("\n")


# The filters come last in the only rule of a route.
_REMOVED_TOKEN = "\n    " + _dump_ending({"rules": [{"filters": [_REMOVE_HEADER]}]}).removeprefix("\n  rules:\n  - ")


def _list_entitled_objects(
    catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    limits = limits_of(catalog, tenant)
    assert limits is not None
    project = names.project(tenant.name, cluster.name)
    roles = project_roles.render(project, tenant)
    yield (
        "AppProject",
        project,
        {"roles": roles} if roles else {"namespaceResourceWhitelist": applications.list_permitted_kinds(cluster)},
    )
    yield "ResourceQuota", "backstop", {"hard": namespace.quota_amounts(catalog, cluster, limits)}
    for manifest in [*sharing.render_declared(catalog, cluster, tenant), *disruption.render(cluster, tenant)]:
        yield manifest["kind"], manifest["metadata"]["name"], manifest["spec"]
    for url in _list_urls(catalog, cluster, tenant):
        yield "SecurityPolicy", url.name, _list_admitted(tenant, url.exposure, url.roles, url.reader_roles)


class _TenantUrl(NamedTuple):
    """A URL of a tenant: the name of its HTTPRoute and its SecurityPolicy, its exposure, and the roles that it admits."""

    name: str
    exposure: str
    roles: tuple[str, ...]
    reader_roles: tuple[str, ...] = ()


def _list_urls(catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> Iterator[_TenantUrl]:
    for instance in tenant.of_kind(GPUInstance).values():
        if instance.model.spec.cluster != cluster.name:
            continue
        for port in gpu_instance.effective_container(catalog, instance.model).ports:
            if port.exposure != "Namespace":
                name = instance.model.name if port.name == "http" else f"{instance.model.name}--{port.name}"
                yield _TenantUrl(name, port.exposure, exposure.INSTANCE_ROLES)
    for storage in tenant.of_kind(GPUStorage).values():
        declared = storage.model.spec.accessor
        if storage.model.spec.cluster == cluster.name and declared is not None and declared.exposure != "Namespace":
            name = names.files_service(storage.model.name)
            yield _TenantUrl(name, declared.exposure, exposure.FILES_WRITERS, exposure.FILES_READERS)


def _list_admitted(
    tenant: ScopeDeclarations, exposed: str, roles: tuple[str, ...], reader_roles: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the end of a SecurityPolicy: it admits members or everybody, and only from the declared addresses."""
    declared = tenant.get_singleton(Tenant)
    ranges = sorted(set(declared.model.spec.allowed_cidrs)) if declared is not None else []
    if exposed != "Public":
        rules = exposure.build_member_rules(tenant, roles, reader_roles)
        for rule in rules if ranges else ():
            rule["principal"] = {"clientCIDRs": ranges, **rule["principal"]}
        return {"authorization": {"defaultAction": "Deny", "rules": rules}}
    if ranges:
        rule = {"name": "addresses", "action": "Allow", "principal": {"clientCIDRs": ranges}}
        return {"authorization": {"defaultAction": "Deny", "rules": [rule]}}
    return {"authorization": {"defaultAction": "Allow"}}
