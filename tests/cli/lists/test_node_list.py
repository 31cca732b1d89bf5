"""`allot node list` shows the recorded nodes, with the instances that have a pod there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support import live
from tests.support.placeholders import placeholder
from tests.support.published import Place
from tests.support.reported_webui import RecentBed, report_webui, rows


@pytest.fixture
def list_nodes(place: Place, allot: Allot, tmp_path: Path) -> Allot:
    place.publish()
    stock = placeholder("shared", 4, pool="l4-ts4", gpu="l4")
    nodes = live.node("n1", gpu="l4"), live.node("n2", gpu="l4")
    report_webui(place, RecentBed(tmp_path / "data", place.remote), stock, *nodes)

    def run(*words: object) -> Result:
        return allot("node", "list", "--repo", place.root, *words)

    return run


def test_a_node_has_its_pool_and_its_instances(list_nodes: Allot) -> None:
    nodes = checked("node list", list_nodes("-o", "json").out)["nodes"]
    names = [(row["cluster"], row["name"], row["pool"], row["instances"]) for row in nodes]
    assert names == [("eu-1", "n1", "l4-ts4", ["solo-ada/webui"]), ("eu-1", "n2", "l4-ts4", [])]
    result = list_nodes("--pool", "l4-ts4", "--sort-by", "instances", "-o", "wide")
    head, empty, used = rows(result)
    assert head == "NODE CLUSTER POOL AGE INSTANCES CORDON NAMES"
    assert (empty.startswith("n2 eu-1 l4-ts4 "), empty.endswith(" 0 - -")) == (True, True)
    assert (used.startswith("n1 eu-1 l4-ts4 "), used.endswith(" 1 - solo-ada/webui")) == (True, True)
    assert "us-1: no reporter has reported it yet" in result.err
    assert list_nodes("--cluster", "us-1").out == ""
    assert list_nodes("--pool", "l4-whole").out == ""


@pytest.mark.parametrize(
    ("verb", "target", "effect"),
    [
        ("cordon", "n1", "the instance stays there until it stops, and then starts on another node"),
        ("drain", "n1", "the instance restarts on another node on 2027-03-01"),
        ("drain", "", "the instance restarts on another node on 2027-03-01"),
    ],
)
def test_a_planned_cordon_is_told_of_the_node_and_of_the_instance(
    verb: str, target: str, effect: str, list_nodes: Allot, place: Place, allot: Allot
) -> None:
    """Without a node, the cordon takes the whole pool."""
    days = ("--from", "2027-03-01", "--until", "2027-03-02", "--name", "driver")
    words = ("--pool", "l4-ts4", "--reason", "New driver", *days, "--repo", place.root)
    assert allot("node", verb, f"eu-1/{target or 'n9'}", *words).code == 0
    if not target:
        edit(place.root, "clusters/eu-1/cordons/driver.yaml", "  node: n9\n", "")
    place.merge()
    text = "from 2027-03-01 until 2027-03-02: New driver"
    nodes = checked("node list", list_nodes("-o", "json").out)["nodes"]
    assert [row["cordons"] for row in nodes] == [[text], [] if target else [text]]
    listed = checked("instance list", allot("instance", "list", "--repo", place.root, "-o", "json").out)["instances"]
    told = {f"{row['tenant']}/{row['name']}": row["maintenance"] for row in listed if row["maintenance"]}
    assert told == {"solo-ada/webui": f"{text}; {effect}"}
    assert f"{text}; {effect}" in allot("instance", "show", "solo-ada/webui", "--repo", place.root).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster", "eu-2"), "allot: no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (("--pool", "l4-ts5"), "allot: no node pool is named 'l4-ts5'; did you mean 'l4-ts4'?"),
    ],
)
def test_an_unknown_name_is_an_error(words: tuple[str, ...], message: str, list_nodes: Allot) -> None:
    result = list_nodes(*words)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(message)
