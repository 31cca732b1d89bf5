"""Cordons: stocks lose the units without room, shared stocks first, on the days of the cordon only."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_catalog import OFFERS

from allotment.capacity.cordons import apply_cordons
from allotment.capacity.units import pack_stocks, pool_stocks
from allotment.declared.inventory import DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cordon import Cordon
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.stock import Stock

EU_1 = OFFERS.clusters["eu-1"]
FIRST, LAST, AFTER = (datetime.date(2026, 12, day) for day in (1, 2, 3))


def cordon(name: str, pool: str, node: str | None = None, **fields: Any) -> DeclarationFile[Cordon]:
    """Return a cordon from `FIRST` until `AFTER`."""
    spec = {"nodePool": pool, "reason": "New driver", "from": str(FIRST), "until": str(AFTER), **fields}
    if node is not None:
        spec["node"] = node
    document = {
        "apiVersion": "allotment.dev/v1alpha1",
        "kind": "Cordon",
        "metadata": {"name": name},
        "spec": spec,
    }
    return DeclarationFile(f"clusters/eu-1/cordons/{name}.yaml", b"", Cordon.model_validate(document))


def eu_1(*cordons: DeclarationFile[Cordon]) -> ScopeDeclarations:
    """Return eu-1 of the sample with these cordons alone."""
    others = [declared for declared in EU_1.all_declarations() if not isinstance(declared.model, Cordon)]
    return ScopeDeclarations(EU_1.scope, [*others, *cordons])


def units(cluster: ScopeDeclarations) -> dict[str, tuple[int, int]]:
    """Return the units and the cordoned units of each stock that has cordoned units."""
    specs = {name: stock.model.spec for name, stock in cluster.of_kind(Stock).items()}
    return {name: (spec.count, spec.cordoned_units) for name, spec in specs.items() if spec.cordoned_units}


def test_a_stock_has_the_units_that_fit_on_the_other_nodes_on_each_day_of_the_cordon() -> None:
    cluster = eu_1(cordon("driver", "l4-ts4", "gpu-7.eu.internal"))
    days = [FIRST - datetime.timedelta(1), FIRST, LAST, AFTER]
    lost = {"l4-quarter": (30, 10)}  # a node has room for 15 of the 40 units
    assert [units(apply_cordons(OFFERS.platform, cluster, day)) for day in days] == [{}, lost, lost, {}]


def test_a_cordon_without_an_end_lasts() -> None:
    cluster = eu_1(cordon("driver", "l4-ts4", "gpu-7", until=None))
    assert units(apply_cordons(OFFERS.platform, cluster, datetime.date(2030, 1, 1))) == {"l4-quarter": (30, 10)}


def test_two_cordons_of_a_node_take_it_once() -> None:
    twice = eu_1(cordon("driver", "l4-ts4", "gpu-7"), cordon("fans", "l4-ts4", "gpu-7"))
    both = eu_1(cordon("driver", "l4-ts4", "gpu-7"), cordon("fans", "l4-ts4", "gpu-8"))
    assert units(apply_cordons(OFFERS.platform, twice, FIRST)) == {"l4-quarter": (30, 10)}
    assert units(apply_cordons(OFFERS.platform, both, FIRST)) == {"l4-quarter": (15, 25)}


def test_a_cordon_without_a_node_takes_the_pool() -> None:
    cluster = eu_1(cordon("driver", "a100-mig"))
    assert units(apply_cordons(OFFERS.platform, cluster, FIRST)) == {"a100-1g": (0, 14), "a100-3g": (0, 5)}


def test_shared_stocks_lose_their_units_before_reserved_stocks() -> None:
    cluster = eu_1(cordon("driver", "l4-whole", "gpu-7"))  # 4 of 8 GPUs stay for 2 reserved and 5 shared units
    assert units(apply_cordons(OFFERS.platform, cluster, FIRST)) == {"l4-whole": (2, 3)}


def test_the_stocks_of_a_day_do_not_depend_on_the_day_before() -> None:
    cluster = eu_1(cordon("driver", "l4-ts4", "gpu-7"))
    then = apply_cordons(OFFERS.platform, cluster, FIRST)
    assert units(apply_cordons(OFFERS.platform, then, FIRST)) == {"l4-quarter": (30, 10)}
    assert units(apply_cordons(OFFERS.platform, then, AFTER)) == {}


@given(
    nodes=st.sets(st.sampled_from(["gpu-1", "gpu-2", "gpu-3", "gpu-4"])), pool=st.sampled_from(["l4-ts4", "a100-mig"])
)
def test_the_units_of_stocks_fit_on_the_nodes_in_service(nodes: set[str], pool: str) -> None:
    cluster = eu_1(*(cordon(f"of-{node}", pool, node) for node in sorted(nodes)))
    spec = cluster.of_kind(NodePool)[pool].model.spec
    reduced = apply_cordons(OFFERS.platform, cluster, FIRST)
    stocks = [
        (name, gpu_spec, reduced.of_kind(Stock)[name].model.spec.count)
        for name, gpu_spec, _ in pool_stocks(OFFERS.platform, reduced, pool)
    ]
    assert pack_stocks(spec, stocks, nodes=max(0, spec.node_limit - len(nodes))).missing == {}
