"""Finds the pod of a declared instance, or of the preparation of a declared storage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder, suggest_name
from allotment.manifests import names
from allotment.manifests.links import node_page_url, percent_encode
from allotment.manifests.tenant import project_roles
from allotment.observed.objects import Pod
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.services.check.workers import read_scope

_POD_NAME = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")


class PodOwner(NamedTuple):
    """A declared instance, or a declared storage with a preparation in a pod."""

    kind: str
    tenant: str
    name: str
    cluster: str

    def __str__(self) -> str:
        return f"{self.kind} {self.tenant}/{self.name}"

    @property
    def namespace(self) -> str:
        """The namespace of the pods."""
        return names.namespace(self.tenant)

    @property
    def application(self) -> str:
        """The Application of Argo CD that has the pods."""
        part = project_roles.INSTANCES_PART if self.kind == "instance" else "storage"
        return names.application(self.tenant, self.cluster, part)

    def log_page(self, argocd_url: str) -> str:
        """Return the URL of the log in Argo CD; for a storage, that of its Application."""
        application = percent_encode(self.application)
        if self.kind != "instance":
            return f"{argocd_url.rstrip('/')}/applications/{names.ARGO_NAMESPACE}/{application}"
        return node_page_url(argocd_url, application, f"apps/Deployment/{self.namespace}/{self.name}", "logs")

    def owns(self, pod: Pod) -> bool:
        """Return whether `selector` selects a pod."""
        if self.kind == "instance":
            return pod.instance == self.name
        return pod.storage == self.name and pod.role in (names.PREPARE_ROLE, names.COPY_ROLE)

    @property
    def selector(self) -> str:
        """The label selector of the pods. A storage also has the pod of its file accessor, which has another role."""
        if self.kind == "instance":
            return f"{names.INSTANCE}={self.name}"
        return f"{names.STORAGE}={self.name},{names.ROLE} in ({names.PREPARE_ROLE},{names.COPY_ROLE})"


def read_tenant(source: Source, tenant: str) -> ScopeDeclarations:
    """Return the valid declarations of a tenant. Raises OperationRefused if there is no such tenant, with similar names."""
    scope = Scope("tenant", tenant)
    scopes, _ = source.scopes()
    tenants = [each.name for each in scopes if each.kind == "tenant"]
    if tenant not in tenants:
        raise OperationRefused(f"no tenant is named {quote_value(tenant)}{suggest_name(tenant, tenants)}")
    return read_folder(scope, read_scope(source, scope).files)[0]


def find_owner(source: Source, tenant: str, name: str) -> PodOwner:
    """Return the declared instance or storage. Raises OperationRefused if there is none, with similar names."""
    folder = read_tenant(source, tenant)
    instances, storages = folder.of_kind(GPUInstance), folder.of_kind(GPUStorage)
    if name in instances:
        return PodOwner("instance", tenant, name, instances[name].model.spec.cluster)
    if name in storages:
        return PodOwner("storage", tenant, name, storages[name].model.spec.cluster)
    similar = suggest_name(name, [*instances, *storages])
    raise OperationRefused(
        f"{escape_unprintable(tenant)} declares no valid instance or storage named {quote_value(name)}"
        + (similar or "; `allot validate` shows files with errors")
    )


def choose_pod(owner: PodOwner, pods: Iterable[Pod], name: str | None = None) -> Pod:
    """Return the pod named `name`, or else the newest running pod, or else the newest pod.

    Raises OperationRefused if there is no such pod.
    """
    # A hostile server could send names that change the terminal, or the path of the next request.
    named = [pod for pod in pods if _POD_NAME.fullmatch(pod.name)]
    newest_first = sorted(named, key=lambda pod: (pod.created, pod.name), reverse=True)
    if name is not None:
        for pod in newest_first:
            if pod.name == name:
                return pod
        listed = ", ".join(pod.name for pod in newest_first) or "none"
        raise OperationRefused(f"{owner} has no pod named {quote_value(name)} in {owner.cluster}; its pods: {listed}")
    if not newest_first:
        raise OperationRefused(
            f"{owner} has no pod in {owner.cluster}: `allot status {owner.tenant}/{owner.name}` shows the reason"
        )
    return next((pod for pod in newest_first if pod.phase == "Running" and not pod.terminating), newest_first[0])
