"""Checks how nodes share GPUs: the device plugin's configurations, the labels that select them, and the resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from allotment.capacity.units import GPU, node_resources
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.sharing import EXCLUSIVE_CONFIG
from allotment.diagnosis.cluster_snapshot import PLUGIN_CONFIG, RESOURCE_SLICES, ClusterSnapshot, Object, name_of
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, warning
from allotment.diagnosis.pool_nodes import GPU_PRESENT_LABEL, PoolNodes, labels_of, pools_with_nodes
from allotment.manifests import names
from allotment.manifests.cluster import device_plugin
from allotment.observed.quantity import parse_quantity
from allotment.problems import pluralize

DRA_DRIVER = "gpu.nvidia.com"
GPU_FEATURE_LABEL = "feature.node.kubernetes.io/pci-10de.present"  # node-feature-discovery sets this label
MIG_STATE_LABEL = "nvidia.com/mig.config.state"


def check_config(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the ConfigMap with the configurations that the pools select. Raises NotReadable."""
    subject = f"ConfigMap {PLUGIN_CONFIG.namespace}/{PLUGIN_CONFIG.name}"
    (expected_config,) = device_plugin.render(cluster)
    config_map, advice = (
        snapshot.get_object(PLUGIN_CONFIG),
        f"let Argo CD sync the Application {names.platform_application('platform', cluster.name)}",
    )
    if config_map is None:
        yield error(subject, "doesn't exist, so the device plugin has no configuration", advice)
        return
    data = config_map.get("data", {})
    lacking = sorted(expected_config["data"].keys() - data.keys())
    other = sorted(
        key for key in expected_config["data"].keys() & data.keys() if expected_config["data"][key] != data[key]
    )
    if lacking:
        yield error(
            subject, f"lacks {', '.join(lacking)}: nodes with such a label share no GPUs, without an error", advice
        )
    if other:
        yield error(subject, f"differs from the rendered configuration in {', '.join(other)}", advice)
    if not lacking and not other:
        yield ok(subject, f"has {', '.join(sorted(expected_config['data']))}")


def check_devices(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each pool: whether its nodes have the declared labels and resources. Raises NotReadable."""
    for pool in pools_with_nodes(snapshot, cluster):
        wrong = [
            diagnosis
            for node in pool.nodes
            for diagnosis in (*_check_labels(pool, node), *_check_resources(pool, node))
        ]
        if wrong or not pool.nodes:
            yield from wrong
        else:
            has = "" if _is_dra(pool) else f", each with {_format_resources(node_resources(pool.spec))}"
            yield ok(f"NodePool {pool.name}", f"{pluralize(len(pool.nodes), 'node')} as declared{has}")


def _check_labels(pool: PoolNodes, node: Object) -> Iterator[Diagnosis]:
    name, labels = name_of(node), labels_of(node)
    subject = f"Node {name}"
    if not _is_dra(pool) and "true" not in (labels.get(GPU_PRESENT_LABEL), labels.get(GPU_FEATURE_LABEL)):
        yield error(
            subject,
            f"lacks the label {GPU_PRESENT_LABEL}=true, so no device plugin starts there",
            f"kubectl label node {name} {GPU_PRESENT_LABEL}=true",
        )
    for key, value in device_plugin.node_labels(pool.spec).items():
        label_value = labels.get(key)
        if label_value == value:
            continue
        has = f"has {key}={label_value}" if label_value is not None else f"lacks the label {key}"
        message = f"{has}, but pool {pool.name} needs {value}"
        if pool.spec.karpenter is not None:
            yield warning(
                subject,
                f"{message}: the node was created before this declaration",
                f"kubectl get nodeclaims --selector karpenter.sh/nodepool={pool.name}; Karpenter replaces the node when no instance runs there",
            )
        elif label_value is None and value == EXCLUSIVE_CONFIG:
            yield warning(
                subject,
                f"{message}: the device plugin uses its config.default",
                f"kubectl label node {name} {key}={value}",
            )
        else:
            yield error(subject, message, f"kubectl label node {name} {key}={value} --overwrite")
    state = labels.get(MIG_STATE_LABEL)
    if names.MIG_CONFIG in device_plugin.node_labels(pool.spec) and state not in (None, "success"):
        tell = error if state == "failed" else warning
        yield tell(
            subject,
            f"has {MIG_STATE_LABEL}={state}: its GPUs aren't partitioned as in {labels.get(names.MIG_CONFIG)}",
            "look at the log of the MIG manager's pod on the node",
        )


def _check_resources(pool: PoolNodes, node: Object) -> Iterator[Diagnosis]:
    if _is_dra(pool):
        return
    status, name = node.get("status", {}), name_of(node)
    for resource, declared_count in {GPU: 0, **node_resources(pool.spec)}.items():
        has = int(parse_quantity(status.get("allocatable", {}).get(resource, 0)))
        most = int(parse_quantity(status.get("capacity", {}).get(resource, 0)))
        if has < declared_count <= most:
            yield error(
                f"Node {name}",
                f"has {resource}: {has} of {most}: the device plugin reports the others as unhealthy",
                "look at the log of the device plugin's pod on the node, and for Xid errors in the kernel log",
            )
        elif has != declared_count:
            tell, consequence = (
                (error, "more units are on offer than the node has")
                if has < declared_count
                else (warning, "the others are never allocated")
            )
            if declared_count == 0:
                tell, consequence = error, "the GPUs aren't shared"
            yield tell(
                f"Node {name}",
                f"has {resource}: {has}, but pool {pool.name} declares {declared_count}: {consequence}",
                "look at the log of the device plugin's pod on the node, or declare the actual number",
            )


def check_slices(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the devices that the DRA driver published for each node, if a pool uses DRA. Raises
    NotReadable."""
    if not any(_shares_by_dra(node_pool.model) for node_pool in cluster.of_kind(NodePool).values()):
        return
    counts = Counter[str]()
    for resource_slice in snapshot.list_objects(RESOURCE_SLICES):
        if resource_slice["spec"].get("driver") == DRA_DRIVER:
            counts[resource_slice["spec"].get("nodeName", "")] += len(resource_slice["spec"].get("devices", ()))
    for pool in pools_with_nodes(snapshot, cluster):
        if _is_dra(pool):
            yield from _check_published_devices(pool, counts)


def _check_published_devices(pool: PoolNodes, counts: Counter[str]) -> Iterator[Diagnosis]:
    declared_count = sum(node_resources(pool.spec).values())
    short = [name_of(node) for node in pool.nodes if counts[name_of(node)] < declared_count]
    for name in short:
        yield error(
            f"Node {name}",
            f"has {counts[name]} devices of {DRA_DRIVER} in ResourceSlices, but pool {pool.name} declares {declared_count}",
            "look at the log of the DRA driver's pod on the node",
        )
    if pool.nodes and not short:
        yield ok(f"NodePool {pool.name}", f"{declared_count} devices of {DRA_DRIVER} on each node")


def _is_dra(pool: PoolNodes) -> bool:
    return _shares_by_dra(pool.pool)


def _shares_by_dra(pool: NodePool) -> bool:
    return pool.spec.sharing is not None and pool.spec.sharing.dra is not None


def _format_resources(resources: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(resources.items()))
