"""Units: exact for whole GPUs, slices and MIG; packing; placeholders."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import copy_sample
from tests.support.sample_catalog import DAY, OFFERS, SPECS
from tests.support.ways_of_sharing import declare_all

from allotment.adapters.folder_source import FolderSource
from allotment.capacity.units import (
    UnitClaim,
    compute_unit_usage,
    count_placeholders,
    gpu_memory_limit,
    pack_stocks,
    physical_gpus,
    placeholder_cpu,
    unit_of_spec,
    units_per_node,
)
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.sharing import SpecSharing
from allotment.declared.values import GIBI, MEBI
from allotment.services.check.repository_check import check_repository

POOLS = {
    name: declaration.model.spec
    for cluster in OFFERS.clusters.values()
    for name, declaration in cluster.of_kind(NodePool).items()
}


def test_units_per_node() -> None:
    assert units_per_node(SPECS["l4-whole"], POOLS["l4-whole"]) == 4
    assert units_per_node(SPECS["l4-quarter"], POOLS["l4-ts4"]) == 15  # 16 slices, but CPU for 15
    assert units_per_node(SPECS["a100-1g"], POOLS["a100-mig"]) == 8
    assert units_per_node(SPECS["a100-3g"], POOLS["a100-mig"]) == 4
    assert units_per_node(SPECS["h100-eight"], POOLS["h100"]) == 1
    assert units_per_node(SPECS["l4-quarter"], POOLS["l4-whole"]) == 0


def test_physical_gpus_are_exact() -> None:
    assert physical_gpus(SPECS["l4-quarter"]) == Fraction(1, 4)
    assert physical_gpus(SPECS["a100-3g"]) == Fraction(3, 7)
    assert physical_gpus(SPECS["h100-eight"]) == 8


def test_large_units_are_packed_first() -> None:
    packing = pack_stocks(POOLS["h100"], [("small", SPECS["h100-one"], 8), ("large", SPECS["h100-eight"], 1)])
    assert packing == (2, {})
    packing = pack_stocks(POOLS["h100"], [("small", SPECS["h100-one"], 9), ("large", SPECS["h100-eight"], 1)])
    assert packing == (2, {"small": 1})


@given(st.integers(0, 60), st.integers(0, 60))
def test_packing_loses_nothing(ones: int, threes: int) -> None:
    pool = POOLS["a100-mig"]
    packing = pack_stocks(pool, [("one", SPECS["a100-1g"], ones), ("three", SPECS["a100-3g"], threes)])
    assert packing.nodes <= pool.node_limit
    placed_units = ones + threes - sum(packing.missing.values())
    assert placed_units <= 2 * (8 + 4)
    if ones <= 16 and threes <= 8:
        assert packing.missing == {}


def one_by_one(pool: NodePoolSpec, units: list[tuple[str, int]]) -> int:
    """Return the units that find no place, each put on the first node that takes it: the rule as a person applies it."""
    nodes = [[pool.node.gpu.count, pool.node.cpu, pool.node.memory] for _ in range(pool.node_limit)]
    lost = 0
    for name, count in sorted(units, key=lambda wanted_unit: -SPECS[wanted_unit[0]].gpu.count):
        spec = SPECS[name]
        wanted = [spec.gpu.count, spec.cpu, spec.memory]
        for _ in range(count):
            node = next(
                (node for node in nodes if all(free >= want for free, want in zip(node, wanted, strict=True))), None
            )
            if node is None:
                lost += 1
            else:
                node[:] = [free - want for free, want in zip(node, wanted, strict=True)]
    return lost


@given(st.integers(0, 4), st.integers(0, 40), st.integers(1, 5))
def test_packing_is_first_fit(large: int, small: int, most: int) -> None:
    karpenter = POOLS["h100"].karpenter.model_copy(update={"max_nodes": most})
    pool = POOLS["h100"].model_copy(update={"karpenter": karpenter})
    units = [("h100-one", small), ("h100-eight", large)]
    assert sum(pack_stocks(pool, [(name, SPECS[name], count) for name, count in units]).missing.values()) == one_by_one(
        pool, units
    )


def test_a_million_nodes_are_packed_at_once() -> None:
    karpenter = POOLS["h100"].karpenter.model_copy(update={"max_nodes": 1_000_000})
    pool = POOLS["h100"].model_copy(update={"karpenter": karpenter})
    assert pack_stocks(pool, [("one", SPECS["h100-one"], 7_999_999), ("large", SPECS["h100-eight"], 1)]) == (
        1_000_000,
        {"one": 7},
    )


TENANTS = st.sampled_from(["studio-kite", "uni-lab", "solo-ada"])


@given(st.lists(st.tuples(TENANTS, st.integers(1, 3), st.booleans()), max_size=12))
def test_placeholders_and_units_never_exceed_the_stock(wishes: list[tuple[str, int, bool]]) -> None:
    claims = [
        UnitClaim("eu-1", "l4-whole", tenant, f"i{index}", units, units if runs else 0)
        for index, (tenant, units, runs) in enumerate(wishes)
    ]
    held = next(
        unit_usage
        for unit_usage in compute_unit_usage(OFFERS, claims)
        if (unit_usage.cluster, unit_usage.gpu_spec) == ("eu-1", "l4-whole")
    )
    placeholders = count_placeholders(OFFERS, claims)
    free = placeholders[("eu-1", "l4-whole")] + placeholders[("eu-1", "l4-whole-kite")]
    if held.total_shared_use <= held.stocks.shared_units:
        rendered = sum(claim.rendered for claim in claims)
        assert rendered + free <= 7 or rendered == 0
        assert free == 7 - rendered


@given(st.dictionaries(st.sampled_from(["acme-robotics", "film-house", "solo-ada", "uni-lab"]), st.integers(0, 60)))
def test_shared_units_are_those_beyond_each_tenants_reserved_stocks(held_units: dict[str, int]) -> None:
    for unused in compute_unit_usage(OFFERS, ()):
        usage = unused._replace(held_by_tenant=held_units)
        assert usage.total_shared_use == sum(map(usage.shared_use, held_units))


def test_warm_limits_placeholders() -> None:
    assert count_placeholders(OFFERS, [])[("us-1", "l40s-spot")] == 1
    assert count_placeholders(OFFERS, [])[("us-1", "h100-eight")] == 0
    twelve = [UnitClaim("us-1", "l40s-spot", "acme-robotics", "all", 12, 12)]
    assert count_placeholders(OFFERS, twelve)[("us-1", "l40s-spot")] == 0


@cache
def of_all_ways() -> tuple[dict[str, GPUSpecSpec], dict[str, NodePoolSpec]]:
    """Return the specs and pools of the sample with MPS and DRA."""
    with TemporaryDirectory() as folder:
        root = copy_sample(Path(folder) / "sample")
        declare_all(root)
        catalog = check_repository(FolderSource(root), DAY).catalog
        specs = {name: declaration.model.spec for name, declaration in catalog.platform.of_kind(GPUSpec).items()}
        return specs, {
            name: declaration.model.spec for name, declaration in catalog.clusters["eu-1"].of_kind(NodePool).items()
        }


def test_units_of_mps_and_of_dra() -> None:
    specs, pools = of_all_ways()
    assert unit_of_spec(specs["l4-mps"])[:2] == ("nvidia.com/gpu.shared", 1)
    assert unit_of_spec(specs["l4-dra-pair"])[:2] == ("gpu.allotment.dev/gpu", 2)
    assert unit_of_spec(specs["a100-dra-3g"])[:2] == ("gpu.allotment.dev/mig-3g.40gb", 1)
    assert units_per_node(specs["l4-mps"], pools["l4-mps"]) == 16  # four land on each of four GPUs
    assert units_per_node(specs["l4-dra"], pools["l4-dra"]) == 4
    assert units_per_node(specs["l4-dra-pair"], pools["l4-dra"]) == 2
    assert units_per_node(specs["a100-dra-1g"], pools["a100-dra"]) == 16
    assert units_per_node(specs["l4-dra"], pools["l4-whole"]) == 0
    shares = {name: physical_gpus(specs[name]) for name in ("l4-mps", "l4-mps-single", "l4-dra-pair", "a100-dra-3g")}
    assert shares == {
        "l4-mps": Fraction(1, 4),
        "l4-mps-single": Fraction(1, 2),
        "l4-dra-pair": Fraction(2),
        "a100-dra-3g": Fraction(3, 7),
    }


def test_gpu_memory_is_limited_by_mps_alone() -> None:
    specs, _ = of_all_ways()
    limits = {name: gpu_memory_limit(spec) for name, spec in specs.items() if gpu_memory_limit(spec) is not None}
    assert limits == {"l4-mps": 6 * GIBI, "l4-mps-single": 12 * GIBI}
    thirds = specs["l4-mps"].model_copy(update={"sharing": SpecSharing.model_validate({"mps": {"replicas": 7}})})
    assert gpu_memory_limit(thirds) == 3510 * MEBI  # the daemon gives whole MiB


@given(st.integers(1, 8), st.integers(500, 64_000), st.integers(500, 256_000))
def test_an_empty_node_takes_as_many_placeholders_of_dra_as_units(gpus: int, cpu: int, node_cpu: int) -> None:
    specs, pools = of_all_ways()
    base = pools["l4-dra"]
    node = base.node.model_copy(update={"gpu": base.node.gpu.model_copy(update={"count": gpus}), "cpu": node_cpu})
    pool, spec = base.model_copy(update={"node": node}), specs["l4-dra"].model_copy(update={"cpu": cpu})
    held = placeholder_cpu(pool, spec, [spec])
    assert held >= cpu
    capacity = min(node_cpu // held, node.memory // spec.memory)
    assert capacity == units_per_node(spec, pool)


@given(st.integers(0, 4), st.integers(1, 4))
def test_units_and_placeholders_of_dra_lie_on_a_node_together(running: int, each: int) -> None:
    """Where some units run, placeholders for the rest find room beside them."""
    specs, pools = of_all_ways()
    pool, spec = pools["l4-dra"], specs["l4-dra"].model_copy(update={"cpu": each * 1000})
    held = placeholder_cpu(pool, spec, [spec])
    assert running * spec.cpu + (4 - running) * held <= pool.node.cpu
