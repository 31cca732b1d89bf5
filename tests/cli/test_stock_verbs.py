"""`allot stock add` and `remove`: their files, and one error with the valid values for a wrong option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

ADD = ("stock", "add", "eu-1/whole-uni", "--spec", "l4-whole")


def test_a_stock_is_added_and_planned(place: Place, allot: Allot) -> None:
    result = allot(*ADD, "--count", "1", "--tenant", "uni-lab", "--warm", "1", "--repo", place.root)
    assert result.code == 0, result
    assert "  eu-1     l4-whole  7 → 8     3     5\n" in result.out
    assert (
        (place.root / "clusters/eu-1/stocks/whole-uni.yaml").read_text()
        == """\
# yaml-language-server: $schema=../../../schemas/Stock.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Stock
metadata:
  name: whole-uni
spec:
  gpuSpec: l4-whole
  nodePool: l4-whole
  count: 1
  warm: 1
  tenant: uni-lab
"""
    )


def test_a_file_of_stocks_is_one_commit(place: Place, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "stocks.csv"
    file.write_text(
        "name,spec,count,node-pool\neu-1/quarter-a,l4-quarter,4,l4-ts4\neu-1/quarter-b,l4-quarter,1,l4-ts4\n"
    )
    result = allot("stock", "add", "--from", file, "--commit", "-o", "json", "--repo", place.root)
    assert result.code == 0, result
    answer = json.loads(result.out)
    assert (answer["stage"], answer["title"]) == ("Commit", "Add 2 stocks")
    assert answer["resources"] == ["Stock eu-1/quarter-a", "Stock eu-1/quarter-b"]
    files = git(place.root, "show", "--name-only", "--format=", "HEAD").splitlines()
    assert files == ["clusters/eu-1/stocks/quarter-a.yaml", "clusters/eu-1/stocks/quarter-b.yaml"]


def test_a_wrong_row_adds_no_stock(place: Place, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "stocks.yaml"
    file.write_text(
        "- {name: eu-1/quarter-a, spec: l4-quarter, count: 1}\n- {name: eu-1/quarter-b, spec: l4, count: 1}\n"
    )
    result = allot("stock", "add", "--from", file, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert f"{file}:2: the platform has no GPUSpec named 'l4'" in result.err
    # Each row fits alone, and both do not fit on the nodes.
    file.write_text(
        "- {name: eu-1/quarter-a, spec: l4-quarter, count: 5}\n- {name: eu-1/quarter-b, spec: l4-quarter, count: 5}\n"
    )
    result = allot("stock", "add", "--from", file, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert "units do not fit on the 3 nodes of pool l4-ts4" in result.err
    assert git(place.root, "status", "--short") == ""


def test_a_stock_is_removed_unless_instances_hold_its_units(place: Place, allot: Allot) -> None:
    assert allot("stock", "remove", "eu-1/l4-whole-kite", "--commit", "--repo", place.root).code == 0
    assert git(place.root, "log", "-1", "--format=%s") == "Remove stock eu-1/l4-whole-kite"
    result = allot("stock", "remove", "eu-1/l4-quarter", "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert "17 units of l4-quarter are held in eu-1, 17 more than its stock" in result.err
    assert git(place.root, "status", "--short") == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ADD[:3],
            "allot: 2 options missing: add --spec (a100-1g, a100-3g, h100-eight, h100-one, l4-half, l4-quarter, ",
        ),
        (ADD, "allot: 1 option missing: add --count (a whole number of units such as 4)"),
        (("stock", "add"), "Error: name the stock: add CLUSTER/NAME, or --from FILE to add several stocks"),
        (("stock", "add", "whole"), "allot: 'whole' is not in the format CLUSTER/NAME, such as eu-1/l4-whole"),
        (
            ("stock", "add", "eu-2/whole", "--spec", "l4-whole", "--count", "1"),
            "allot: no cluster is named 'eu-2'; did ",
        ),
        (("stock", "add", "eu-1/Whole", "--spec", "l4-whole", "--count", "1"), "allot: name 'Whole' is not allowed: "),
        (
            ("stock", "add", "eu-1/whole", "--spec", "l4-whol", "--count", "1"),
            "allot: the platform has no GPUSpec named ",
        ),
        ((*ADD, "--count", "many"), "allot: --count: 'many' is not a whole number: write digits only, such as 4"),
        ((*ADD, "--count", "-1"), "allot: --count: -1 is out of range: write at least 0"),
        ((*ADD, "--count", "1", "--warm", "few"), "allot: --warm: 'few' is not a whole number: write digits only"),
        (
            (*ADD, "--count", "1", "--tenant", "uni"),
            "allot: no tenant is named 'uni'; known: acme-robotics, film-house, ",
        ),
        ((*ADD, "--count", "1", "--node-pool", "l4"), "allot: eu-1 has no NodePool named 'l4'; known: a100-mig, "),
        (
            (*ADD, "--count", "1", "--node-pool", "l4-ts4"),
            "allot: node pool 'l4-ts4' can't have units of l4-whole: shar",
        ),
        (("stock", "add", "--from", "/no/file"), "allot: --from: '/no/file' can't be read: No such file or directory"),
        ((*ADD, "--from", "x.csv"), "Error: CLUSTER/NAME: the rows of --from have the values: omit it, or omit --from"),
        (("stock", "remove", "eu-1/l4-whol"), "allot: eu-1 has no Stock named 'l4-whol'; did you mean 'l4-whole'?"),
        (("stock", "remove", "l4-whole"), "allot: 'l4-whole' is not in the format CLUSTER/NAME, such as eu-1/l4-whole"),
    ],
)
def test_a_wrong_value_is_one_error_and_changes_nothing(
    words: tuple[str, ...], message: str, place: Place, allot: Allot
) -> None:
    result = allot(*words, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    errors = [line for line in result.err.splitlines() if line and not line.startswith(("Usage: ", "Try "))]
    assert [line[: len(message)] for line in errors] == [message]
    assert git(place.root, "status", "--short") == ""
