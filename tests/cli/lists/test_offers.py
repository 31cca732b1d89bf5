"""`allot spec list` and `allot stock search`: units, prices and filters."""

from __future__ import annotations

import pytest
from tests.conftest import Allot, Result, checked
from tests.support.published import Place


@pytest.fixture
def run_in_place(place: Place, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot(*words, "--repo", place.root)

    return run


def rows(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [" ".join(line.split()) for line in result.out.splitlines()]


def test_specs_have_their_units_and_price(run_in_place: Allot) -> None:
    assert rows(run_in_place("spec", "list", "--gpu", "nvidia-l4")) == [
        "GPU SPEC CLUSTER MODEL MEMORY GPUS SHARING TOTAL HELD FREE EUR/HOUR LIFECYCLE",
        "l4-half eu-1 nvidia-l4 24Gi 0.5 TimeSlicing 0 0 0 0.46 Active",
        "l4-quarter eu-1 nvidia-l4 24Gi 0.25 TimeSlicing 40 17 23 0.21 Active",
        "l4-whole eu-1 nvidia-l4 24Gi 1 Exclusive 5 1 4 0.84 Active",
    ]
    output = checked("spec list", run_in_place("spec", "list", "-o", "json").out)
    assert {spec["name"]: spec["gpuMemory"] for spec in output["specs"]}["a100-3g"] == "40Gi", "a slice, not the GPU"


def test_a_search_orders_free_units_by_price(run_in_place: Allot) -> None:
    assert rows(run_in_place("stock", "search", "--min-memory", "40Gi", "--max-price", "2.50", "--free", "3")) == [
        "STOCK CLUSTER GPU SPEC MODEL MEMORY TOTAL HELD FREE EUR/HOUR",
        "l40s-spot us-1 l40s-spot nvidia-l40s 48Gi 12 6 6 0.78",
        "a100-3g eu-1 a100-3g nvidia-a100-80gb 40Gi 5 2 3 1.18",
    ]


def test_a_reserved_stock_is_for_its_tenant(run_in_place: Allot) -> None:
    search = ("stock", "search", "--spec", "l4-half", "-o", "name")
    assert run_in_place(*search).err.splitlines()[:-1] == ["nothing matches"]
    assert run_in_place(*search, "--tenant", "film-house").out == "eu-1/l4-half-film\n"
    output = checked("stock search", run_in_place("stock", "search", "--tenant", "film-house", "-o", "json").out)
    assert {stock["name"]: stock["tenant"] for stock in output["stocks"]}["l4-half-film"] == "film-house"


@pytest.mark.parametrize("words", [("spec", "list"), ("stock", "search")])
def test_an_unknown_model_is_an_error(words: tuple[str, ...], run_in_place: Allot) -> None:
    result = run_in_place(*words, "--gpu", "nvidia-l5")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[1:] == ["allot: no GPU model is named 'nvidia-l5'; did you mean 'nvidia-l4'?"]
