"""`cordon_edits` writes the cordon of a node, changes it to a drain, and removes it."""

from __future__ import annotations

import datetime
import re

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.cordon_edits import cordon_node, renew_nodes, uncordon_node
from allotment.edits.option_tables import CORDON_OPTIONS
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
TODAY = datetime.date(2026, 10, 6)  # the first day of the cordon of the sample
NONE: dict[str, str | None] = dict.fromkeys(row.key for row in CORDON_OPTIONS)
SAMPLE = "clusters/eu-1/cordons/l4-fans.yaml"
TEXT = """\
# yaml-language-server: $schema=../../../schemas/Cordon.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Cordon
metadata:
  name: ip-10-0-3-7-eu-internal
spec:
  nodePool: l4-ts4
  node: ip-10-0-3-7.eu.internal
  reason: New driver
  from: "2026-10-06"
"""


def test_a_cordon_begins_today_and_is_named_after_the_node() -> None:
    values = NONE | {"pool": "l4-ts4", "reason": "New driver"}
    change = cordon_node(DECLARED, "eu-1", "ip-10-0-3-7.eu.internal", values, TODAY, drain=False)
    assert change.files == {"clusters/eu-1/cordons/ip-10-0-3-7-eu-internal.yaml": TEXT.encode()}
    assert change.title == "Cordon node eu-1/ip-10-0-3-7.eu.internal"
    dates = values | {"start": "2026-11-01", "until": "2026-11-02"}
    (data,) = cordon_node(DECLARED, "eu-1", "ip-10-0-3-7", dates, TODAY, drain=True).files.values()
    assert data is not None
    assert data.decode().endswith('  from: "2026-11-01"\n  until: "2026-11-02"\n  drain: Now\n')


def test_a_drain_changes_the_present_cordon() -> None:
    change = cordon_node(DECLARED, "eu-1", "gpu-l4-02", NONE, TODAY, drain=True)
    (data,) = change.files.values()
    assert data is not None
    assert data.decode() == (PROJECT / SAMPLE).read_text().replace("drain: WhenStopped", "drain: Now")
    assert (list(change.files), change.title) == ([SAMPLE], "Drain node eu-1/gpu-l4-02")


@pytest.mark.parametrize(("drain", "values"), [(False, {}), (True, {"reason": "New driver"})])
def test_a_node_has_a_single_cordon(drain: bool, values: dict[str, str]) -> None:
    with pytest.raises(OperationRefused, match=f"eu-1/gpu-l4-02 has a cordon in {SAMPLE}: edit it, or uncordon"):
        cordon_node(DECLARED, "eu-1", "gpu-l4-02", NONE | values, TODAY, drain=drain)


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("10.0.3.7", "node-10-0-3-7"),
        ("gpu.a.example", "gpu-a-example"),
        ("ip-10-0-3-7.eu-central-1.compute.internal", "ip-10-0-3-7-eu-central-1-42807a"),
    ],
)
def test_a_node_of_any_name_has_a_cordon(node: str, name: str) -> None:
    values = NONE | {"pool": "l4-ts4", "reason": "New driver"}
    (path,) = cordon_node(DECLARED, "eu-1", node, values, TODAY, drain=False).files
    assert path == f"clusters/eu-1/cordons/{name}.yaml"


def test_an_ended_cordon_of_the_same_name_is_replaced() -> None:
    values = NONE | {"pool": "l4-whole", "reason": "New driver", "name": "l4-fans"}
    later = TODAY + datetime.timedelta(1)
    (data,) = cordon_node(DECLARED, "eu-1", "gpu-l4-02", values, later, drain=False).files.values()
    assert data is not None
    assert b'from: "2026-10-07"' in data


def test_an_ended_cordon_makes_room_for_another() -> None:
    values = NONE | {"pool": "l4-whole", "reason": "New driver"}
    later = TODAY + datetime.timedelta(1)
    (path,) = cordon_node(DECLARED, "eu-1", "gpu-l4-02", values, later, drain=False).files
    assert path == "clusters/eu-1/cordons/gpu-l4-02.yaml"


RENEWAL = {"start": "2026-10-06", "days": "2", "reason": "New image"}


def test_a_renewal_cordons_the_nodes_in_turn() -> None:
    nodes = ["gpu-l4-03", "gpu-l4-01", "gpu-l4-02"]  # the last has a cordon
    change = renew_nodes(DECLARED, "eu-1", "l4-whole", nodes, RENEWAL, TODAY, drain=True)
    assert change.title == "Renew 2 nodes of pool eu-1/l4-whole"
    days = {path: re.findall(r'"(2026-.*)"', (data or b"").decode()) for path, data in change.files.items()}
    assert days == {
        "clusters/eu-1/cordons/gpu-l4-01.yaml": ["2026-10-06", "2026-10-08"],
        "clusters/eu-1/cordons/gpu-l4-03.yaml": ["2026-10-08", "2026-10-10"],
    }
    assert all(b"drain: Now" in (data or b"") for data in change.files.values())


@pytest.mark.parametrize(
    ("nodes", "pool", "values", "message"),
    [
        (["gpu-l4-02"], "l4-whole", {}, "no report has a node of pool eu-1/l4-whole without a cordon"),
        (["gpu-1"], "l4-hole", {}, "eu-1 has no NodePool named 'l4-hole'; did you mean 'l4-whole'?"),
        (["gpu-1"], "l4-whole", {"days": "0"}, "--days: '0' is not a whole number from 1 to 30"),
        (["gpu-1"], "l4-whole", {"start": "9999-12-31"}, "--from: 9999-12-31 is too late for 1 node"),
        (["gpu-1"], "l4-whole", {"start": "soon"}, "--from: 'soon' is not a date: write a day such as 2026-01-31"),
    ],
)
def test_a_renewal_without_sense_is_refused(nodes: list[str], pool: str, values: dict[str, str], message: str) -> None:
    with pytest.raises(OperationRefused, match=re.escape(message)):
        renew_nodes(DECLARED, "eu-1", pool, nodes, RENEWAL | values, TODAY, drain=False)


def test_the_end_of_a_cordon_removes_its_file() -> None:
    assert uncordon_node(DECLARED, "eu-1", "gpu-l4-02").files == {SAMPLE: None}
    with pytest.raises(OperationRefused, match="no cordon names node 'gpu-l4-03' of cluster eu-1"):
        uncordon_node(DECLARED, "eu-1", "gpu-l4-03")
