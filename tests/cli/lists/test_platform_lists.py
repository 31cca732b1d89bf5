"""`allot cluster list`, `allot pool list` and `allot tariff list` show what the sample declares."""

from __future__ import annotations

import pytest
from tests.conftest import Allot, checked
from tests.support.published import Place

CLUSTERS = """\
CLUSTER   TITLE       DOMAIN                        POOLS   STOCKS   LIFECYCLE
eu-1      Frankfurt   eu-1.gpu.northlight.example   4       6        Active
us-1      Oregon      us-1.gpu.northlight.example   2       3        Active
"""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("cluster", "list"), ["eu-1", "us-1"]),
        (("pool", "list", "--cluster", "us-1", "--sort-by", "-nodes"), ["us-1/l40s-spot", "us-1/h100"]),
        (("pool", "list", "--gpu", "nvidia-a100-80gb"), ["eu-1/a100-mig"]),
        (("tariff", "list", "--sort-by", "-budget"), ["team", "starter", "enterprise"]),
    ],
)
def test_names(words: tuple[str, ...], names: list[str], place: Place, allot: Allot) -> None:
    assert allot(*words, "--repo", place.root, "-o", "name").out.splitlines() == names


def test_the_table_of_clusters(place: Place, allot: Allot) -> None:
    assert allot("cluster", "list", "--repo", place.root).out == CLUSTERS
    wide = allot("cluster", "list", "--repo", place.root, "-o", "wide").out
    assert "block-ssd,objects,shared-files" in wide


def test_the_output_as_json(place: Place, allot: Allot) -> None:
    def read(noun: str, *words: str) -> list[dict[str, object]]:
        output = checked(f"{noun} list", allot(noun, "list", *words, "--repo", place.root, "-o", "json").out)
        rows: list[dict[str, object]] = output[f"{noun}s"]
        return rows

    assert read("cluster")[1] == {
        "name": "us-1",
        "displayName": "Oregon",
        "domain": "us-1.gpu.northlight.example",
        "lifecycle": "Active",
        "pools": 2,
        "stocks": 3,
        "storageSpecs": ["block-ssd", "objects", "shared-files"],
    }
    assert read("pool", "--gpu", "nvidia-l40s") == [
        {
            "cluster": "us-1",
            "name": "l40s-spot",
            "gpuModel": "nvidia-l40s",
            "gpus": 4,
            "nodes": 3,
            "source": "Karpenter",
            "capacityType": "Spot",
        }
    ]
    enterprise, starter, _ = read("tariff")
    assert starter == {
        "name": "starter",
        "lifecycle": "Active",
        "gpus": {"nvidia-l4": 1},
        "instances": 3,
        "storages": 5,
        "storage": "500Gi",
        "budget": 300,
    }
    assert enterprise["budget"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster", "eu-2"), "allot: no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (("--gpu", "nvidia-l5"), "allot: no GPU model is named 'nvidia-l5'; did you mean 'nvidia-l4'?"),
    ],
)
def test_an_unknown_name_is_an_error(words: tuple[str, ...], message: str, place: Place, allot: Allot) -> None:
    result = allot("pool", "list", *words, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == message
