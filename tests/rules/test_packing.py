"""A packing error names the resource that is short on a pool, and both amounts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import Allot, edit, errors
from tests.support.published import Place, git

STOCK, SPEC = "clusters/us-1/stocks/h100-one.yaml", "platform/specs/h100-one.yaml"


def why(sample: Path, allot: Allot) -> str:
    """Return the reason that the only packing error gives."""
    (line,) = [line for line in errors(allot("validate", "--repo", sample)) if line.endswith("[packing]")]
    match = re.search(r"\(its stocks: [^)]*\): (.*): write at most [0-9]+, or more nodes", line)
    assert match is not None, line
    return match[1]


@pytest.mark.parametrize(
    ("count", "cpu", "memory", "reason"),
    [
        (9, 20, "100Gi", "they need 17 nvidia.com/gpu (the nodes have 16)"),
        (8, 40, "100Gi", "they need 500 CPU (the nodes have 376)"),
        (8, 20, "500Gi", "they need 5800Gi memory (the nodes have 3800Gi)"),
        (
            7,
            27,
            "100Gi",
            "a unit needs 1 nvidia.com/gpu, 27 CPU, 100Gi memory of the same node, and no node has all of it left",
        ),
    ],
)
def test_the_packing_error_names_the_short_resource(
    count: int, cpu: int, memory: str, reason: str, sample: Path, allot: Allot
) -> None:
    edit(sample, STOCK, "count: 8", f"count: {count}")
    edit(sample, SPEC, "  cpu: 22\n  memory: 220Gi", f"  cpu: {cpu}\n  memory: {memory}")
    assert why(sample, allot) == reason


def test_the_stock_that_a_change_adds_is_to_blame(place: Place, allot: Allot) -> None:
    """The large units of the new stock are packed first, so the small units of an old stock have no room."""
    new = "clusters/us-1/stocks/another-eight.yaml"
    text = (
        (place.root / "clusters/us-1/stocks/h100-eight.yaml")
        .read_text()
        .replace("name: h100-eight", "name: another-eight")
    )
    (place.root / new).write_text(text)
    git(place.root, "add", "-A")
    for words in (["--base", "main"], []):
        lines = [line for line in errors(allot("validate", "--repo", place.root, *words)) if line.endswith("[packing]")]
        assert [line.partition(":")[0] for line in lines] == [new], words
