"""Finds the addresses of a declared instance: the URLs of its ports, and its SSH login."""

from __future__ import annotations

import base64
import datetime
import hashlib
from typing import NamedTuple

from allotment.access.pods.pod_choice import read_tenant
from allotment.adapters.declaration_source import Source
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder, suggest_name
from allotment.manifests import names
from allotment.manifests.tenant.gpu_instance import effective_container, sorted_ports
from allotment.preparation.start_gates import app_version
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.reports.outputs.instance import PortAddressOutput, SshAddressOutput
from allotment.services.check.workers import read_scope


class InstanceAddresses(NamedTuple):
    """The addresses of an instance. `path` is the path of its declaration. `ssh` is None if the instance has no SSH."""

    path: str
    urls: tuple[PortAddressOutput, ...]
    ssh: SshAddressOutput | None
    cluster_has_ssh: bool


def find_addresses(source: Source, tenant: str, name: str) -> InstanceAddresses:
    """Return the addresses of a declared instance, the port `http` first.

    Raises OperationRefused if there is no such instance, with similar names, or if its cluster or its app can't be read.
    """
    instances = read_tenant(source, tenant).of_kind(GPUInstance)
    if name not in instances:
        raise OperationRefused(
            f"{escape_unprintable(tenant)} declares no valid instance named {quote_value(name)}"
            + (suggest_name(name, instances) or "; `allot validate` shows files with errors")
        )
    instance, path = instances[name].model, instances[name].path
    scope = Scope("cluster", instance.spec.cluster)
    cluster = read_folder(scope, read_scope(source, scope).files)[0]
    place = cluster.get_singleton(Cluster)
    platform_scope = Scope("platform", "")
    platform = read_folder(platform_scope, read_scope(source, platform_scope).files)[0]
    catalog = Catalog(platform, {cluster.name: cluster}, datetime.datetime.now(datetime.UTC).date())
    if place is None or (instance.spec.app is not None and app_version(catalog, instance) is None):
        raise OperationRefused(f"the cluster or the app of {path} can't be read: `allot validate` shows the reason")
    spec = place.model.spec
    ports = sorted(sorted_ports(effective_container(catalog, instance)), key=lambda port: port.name != "http")
    urls = tuple(
        PortAddressOutput(
            port.name,
            f"https://{names.instance_host(name, port.name, tenant, spec.domain)}{port.base_path}",
            port.exposure,
        )
        for port in ports
        if port.exposure != "Namespace"
    )
    ssh = None
    if spec.ssh is not None and "SSH" in instance.spec.access:
        ssh = SshAddressOutput(
            names.ssh_command(name, tenant, spec.ssh.host, spec.ssh.port),
            names.ssh_user(name, tenant),
            spec.ssh.host,
            spec.ssh.port,
            spec.ssh.host_key,
            _compute_fingerprint(spec.ssh.host_key) if spec.ssh.host_key else None,
        )
    return InstanceAddresses(path, urls, ssh, spec.ssh is not None)


def _compute_fingerprint(public_key: str) -> str:
    digest = hashlib.sha256(base64.b64decode(public_key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
