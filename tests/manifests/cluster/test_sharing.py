"""How each way of sharing is rendered: the device plugin's configurations, DeviceClasses, placeholders, quotas, nodes."""

from __future__ import annotations

import datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DAY, Allot, copy_sample
from tests.support.rendered_tree import misfits, rendered
from tests.support.ways_of_sharing import INSTANCES, TENANT, declare_all

from allotment.adapters.folder_source import FolderSource
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.sharing import PoolSharing, device_plugin_config
from allotment.isolation.boundary import Boundary
from allotment.isolation.expected_objects import judge_against_patterns
from allotment.manifests.cluster import device_plugin
from allotment.manifests.yaml_text import load
from allotment.services.check.repository_check import check_repository

Tree = dict[str, bytes]


@pytest.fixture
def tree(sample: Path, allot: Allot, tmp_path: Path) -> Tree:
    declare_all(sample)
    return rendered(allot, sample, tmp_path / "out")


def only(tree: Tree, path: str) -> dict[str, Any]:
    """Return the only object of a file of eu-1."""
    (manifest,) = load(tree[f"eu-1/{path}.rendered.yaml"])
    return manifest


def resources(tree: Tree, path: str) -> dict[str, str]:
    """Return what a Deployment's only container requests, which is its limit too."""
    deployment = next(
        manifest for manifest in load(tree[f"eu-1/{path}.rendered.yaml"]) if manifest["kind"] == "Deployment"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    requests: dict[str, str] = container["resources"]["requests"]
    return requests


def test_each_way_of_sharing_has_a_configuration(tree: Tree) -> None:
    data = only(tree, "platform/cluster/device-plugin")["data"]
    assert sorted(data) == ["exclusive", "mig", "mps-2", "mps-4", "time-slicing-2", "time-slicing-4"]
    assert yaml.safe_load(data["exclusive"]) == {"version": "v1", "flags": {"migStrategy": "none"}}
    assert yaml.safe_load(data["mps-4"]) == {
        "version": "v1",
        "flags": {"migStrategy": "none"},
        "sharing": {
            "mps": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
            }
        },
    }


def sharings() -> st.SearchStrategy[PoolSharing | None]:
    """Return ways of sharing that a pool may declare."""
    profiles = st.builds("{}g.{}gb{}".format, st.integers(1, 7), st.integers(1, 999), st.sampled_from(["", "+me"]))
    devices = st.dictionaries(profiles, st.integers(1, 7), min_size=1, max_size=4)
    whole, parts = st.just({"deviceClassName": "gpu.nvidia.com"}), st.just({"deviceClassName": "mig.nvidia.com"})
    members = st.one_of(
        st.fixed_dictionaries({"timeSlicing": st.fixed_dictionaries({"replicas": st.integers(2, 64)})}),
        st.fixed_dictionaries({"mps": st.fixed_dictionaries({"replicas": st.integers(2, 48)})}),
        st.fixed_dictionaries({"mig": st.fixed_dictionaries({"config": st.just("all-balanced"), "devices": devices})}),
        st.fixed_dictionaries({"dra": whole}),
        st.fixed_dictionaries(
            {"dra": st.builds(lambda device_class, some: {**device_class, "devices": some}, parts, devices)}
        ),
    )
    return st.none() | st.builds(PoolSharing.model_validate, members)


class Pools(NamedTuple):
    """What the device plugin's settings read of a cluster."""

    pools: list[NodePoolSpec]

    def of_kind(self, _: type[NodePool]) -> dict[str, Any]:
        return {str(index): _Declared(_Model(pool)) for index, pool in enumerate(self.pools)}


class _Model(NamedTuple):
    spec: NodePoolSpec


class _Declared(NamedTuple):
    model: _Model


def pool_of(sharing: PoolSharing | None) -> NodePoolSpec:
    base = NodePoolSpec.model_validate_json(
        '{"node": {"gpu": {"model": "nvidia-l4", "count": 4}, "cpu": 46, "memory": "180Gi"},'
        ' "static": {"nodes": 1, "nodeSelector": {"pool": "a"}}}'
    )
    return base.model_copy(update={"sharing": sharing})


@given(st.lists(sharings(), max_size=6))
def test_whatever_pools_declare_their_nodes_carry_a_key_that_there_is(declared: list[PoolSharing | None]) -> None:
    pools = [pool_of(sharing) for sharing in declared]
    cluster: ScopeDeclarations = Pools(pools)  # type: ignore[assignment]  # it is asked for its pools alone
    (config_map,) = device_plugin.render(cluster)
    carried = {device_plugin.node_labels(pool).get("nvidia.com/device-plugin.config") for pool in pools} - {None}
    assert {*carried, "exclusive"} == set(config_map["data"])
    for key, text in config_map["data"].items():
        config = yaml.safe_load(text)
        assert ("sharing" in config) is (key not in ("exclusive", "mig"))
        assert len(config.get("sharing", {})) <= 1
        assert not (config["flags"]["migStrategy"] == "mixed" and "sharing" in config)
        for shared in config.get("sharing", {}).values():
            assert shared["failRequestsGreaterThanOne"] is True
            assert all(resource["replicas"] >= 2 for resource in shared["resources"])


def test_keys_that_nodes_carry_already_stay() -> None:
    keys = [None, {"timeSlicing": {"replicas": 4}}, {"mig": {"config": "all-1g.10gb", "devices": {"1g.10gb": 7}}}]
    assert [device_plugin_config(sharing and PoolSharing.model_validate(sharing)) for sharing in keys] == [
        "exclusive",
        "time-slicing-4",
        "mig",
    ]


def test_nodes_that_a_pool_of_mps_or_dra_needs() -> None:
    mps = pool_of(PoolSharing.model_validate({"mps": {"replicas": 4}}))
    assert device_plugin.node_labels(mps) == {
        "nvidia.com/device-plugin.config": "mps-4",
        "nvidia.com/mps.capable": "true",
    }
    dra = pool_of(PoolSharing.model_validate({"dra": {"deviceClassName": "gpu.nvidia.com"}}))
    assert device_plugin.node_labels(dra) == {"nvidia.com/gpu.deploy.device-plugin": "false"}


def test_dra_has_a_device_class_for_each_kind_of_device(tree: Tree) -> None:
    classes = load(tree["eu-1/platform/cluster/device-classes.rendered.yaml"])
    assert [misfits(device_class) for device_class in classes] == [[], [], []]
    assert [(device_class["metadata"]["name"], device_class["spec"]) for device_class in classes] == [
        (
            "allotment-gpu",
            {
                "selectors": [
                    {
                        "cel": {
                            "expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
                        }
                    }
                ],
                "extendedResourceName": "gpu.allotment.dev/gpu",
            },
        ),
        *(
            (
                f"allotment-mig-{profile}",
                {
                    "selectors": [
                        {
                            "cel": {
                                "expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
                                f" && device.attributes['gpu.nvidia.com'].profile == '{profile}'"
                            }
                        }
                    ],
                    "extendedResourceName": f"gpu.allotment.dev/mig-{profile}",
                },
            )
            for profile in ("1g.10gb", "3g.40gb")
        ),
    ]
    assert not any("device-classes" in path for path in tree if path.startswith("us-1/"))


def test_instances_ask_for_a_unit_of_their_way(tree: Tree) -> None:
    requests = {name: resources(tree, f"tenants/{TENANT}/compute/{name}") for name in INSTANCES}
    assert requests == {
        "by-mps": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu.shared": "1"},
        "by-dra": {"cpu": "8", "memory": "8Gi", "gpu.allotment.dev/gpu": "1"},
        "by-mig-dra": {"cpu": "2", "memory": "8Gi", "gpu.allotment.dev/mig-1g.10gb": "1"},
    }


def test_placeholders_of_dra_hold_cpu_and_memory_and_no_device(tree: Tree) -> None:
    assert resources(tree, "platform/stock/l4-mps") == {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu.shared": "1"}
    # 46 CPU of a node are 4 GPUs, of which one is asked for with 8 CPU at most: 8 · 46/32 and 10 · 46/32.
    assert resources(tree, "platform/stock/l4-dra") == {"cpu": "11500m", "memory": "8Gi"}
    assert resources(tree, "platform/stock/l4-dra-pair") == {"cpu": "14375m", "memory": "8Gi"}
    # 16 slices with 2 CPU and 4 with 6 are 56, more than the node has: a placeholder is its unit.
    assert resources(tree, "platform/stock/a100-dra-1g") == {"cpu": "2", "memory": "8Gi"}


def test_a_tenants_quota_counts_units_of_every_way(tree: Tree) -> None:
    quotas = load(tree[f"eu-1/control/namespaces/{TENANT[0]}/{TENANT}.rendered.yaml"])
    hard = next(quota for quota in quotas if quota["metadata"]["name"] == "backstop")["spec"]["hard"]
    gpus = {name: amount for name, amount in hard.items() if name.startswith(("requests.nvidia", "requests.gpu"))}
    # Twice the plan's 8 L4 and 2 A100. Slices of time-slicing and of MPS have one name, so that it is the sum of the most of each
    # model: a pool of either cuts an L4 into 4 at most.
    assert gpus == {
        "requests.gpu.allotment.dev/gpu": "16",
        "requests.gpu.allotment.dev/mig-1g.10gb": "28",
        "requests.gpu.allotment.dev/mig-3g.40gb": "12",
        "requests.nvidia.com/gpu": "16",
        "requests.nvidia.com/gpu.shared": "64",
        "requests.nvidia.com/mig-1g.10gb": "28",
        "requests.nvidia.com/mig-2g.20gb": "4",
        "requests.nvidia.com/mig-3g.40gb": "12",
    }


def test_mps_leaves_the_daemons_shared_memory_in_sight(tree: Tree) -> None:
    """The device plugin mounts it at /dev/shm, and the kubelet mounts what a pod has there over that."""

    def mounts(name: str) -> list[str]:
        deployment = load(tree[f"eu-1/tenants/{TENANT}/compute/{name}.rendered.yaml"])[0]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        volumes = {volume["name"] for volume in deployment["spec"]["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        return [mount["mountPath"] for mount in container["volumeMounts"]]

    assert "/dev/shm" not in mounts("by-mps")  # a pod's
    assert "/dev/shm" in mounts("by-dra")


def selectors(tree: Tree) -> dict[str, list[dict[str, str]]]:
    """Return the labels of nodes that pods of each Deployment with a GPU may go to, by file."""
    labels_by_path = {}
    for path, data in tree.items():
        for manifest in load(data) if path.startswith(("eu-1/tenants/", "eu-1/platform/stock/")) else ():
            spec = manifest.get("spec", {}).get("template", {}).get("spec", {})
            affinity = spec.get("affinity", {}).get("nodeAffinity")
            if manifest["kind"] == "Deployment" and affinity and "tolerations" in spec:
                terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
                labels_by_path[path] = [
                    {each["key"]: each["values"][0] for each in term["matchExpressions"] if each["operator"] == "In"}
                    for term in terms
                ]
    return labels_by_path


def test_pods_run_only_on_nodes_with_the_sharing_of_their_spec(sample: Path, tree: Tree) -> None:
    """Pods go only to nodes of pools that share as their spec does, also where two ways have one resource."""
    sharing: dict[frozenset[tuple[str, str]], dict[str, Any]] = {}
    for file in sorted((sample / "clusters/eu-1/node-pools").glob("*.yaml")):
        spec = yaml.safe_load(file.read_text())["spec"]
        sharing[frozenset(spec["static"]["nodeSelector"].items())] = spec.get("sharing") or {}
    specs = {file.stem: yaml.safe_load(file.read_text())["spec"] for file in (sample / "platform/specs").glob("*.yaml")}
    pods = selectors(tree)
    assert len(pods) > len(INSTANCES) + 6
    for path, terms in pods.items():
        (deployment,) = [manifest for manifest in load(tree[path]) if manifest["kind"] == "Deployment"]
        wanted = specs[deployment["metadata"]["labels"]["allotment.dev/gpu-spec"]].get("sharing") or {}
        assert [set(sharing[frozenset(term.items())]) for term in terms] == [set(wanted)] * len(terms), path
    nodes = list(sharing)
    assert not any(node <= other or other <= node for node, other in combinations(nodes, 2))


def test_every_way_is_validated_and_passes_the_gate(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0, result.out


def test_the_gate_takes_no_other_device_class(sample: Path, tree: Tree) -> None:
    catalog = check_repository(FolderSource(sample), datetime.date.fromisoformat(DAY)).catalog
    boundary = Boundary.from_declarations(catalog, catalog.clusters["eu-1"])
    inner = "platform/cluster/device-classes.rendered.yaml"
    for device_class in load(tree[f"eu-1/{inner}"]):
        assert list(judge_against_patterns(boundary, "platform", "", inner, device_class)) == []
        for spec in ({"extendedResourceName": "nvidia.com/gpu"}, {"selectors": []}, {"config": []}):
            other = {**device_class, "spec": {**device_class["spec"], **spec}}
            assert list(judge_against_patterns(boundary, "platform", "", inner, other)) == [
                "DeviceClass device-classes differs from its declaration"
            ]


def test_a_cluster_without_dra_has_no_device_class(tmp_path: Path, allot: Allot) -> None:
    tree = rendered(allot, copy_sample(tmp_path / "sample"), tmp_path / "out")
    assert not any("device-classes" in path for path in tree)
