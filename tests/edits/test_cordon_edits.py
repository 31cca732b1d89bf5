"""`cordon_edits` writes the cordon of a node, changes it to a drain, and removes it."""

from __future__ import annotations

import datetime

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.cordon_edits import cordon_node, uncordon_node
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
  name: ip-10-0-3-7
spec:
  nodePool: l4-ts4
  node: ip-10-0-3-7.eu.internal
  reason: New driver
  from: "2026-10-06"
"""


def test_a_cordon_begins_today_and_is_named_after_the_node() -> None:
    values = NONE | {"pool": "l4-ts4", "reason": "New driver"}
    change = cordon_node(DECLARED, "eu-1", "ip-10-0-3-7.eu.internal", values, TODAY, drain=False)
    assert change.files == {"clusters/eu-1/cordons/ip-10-0-3-7.yaml": TEXT.encode()}
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


def test_an_ended_cordon_makes_room_for_another() -> None:
    values = NONE | {"pool": "l4-whole", "reason": "New driver"}
    later = TODAY + datetime.timedelta(1)
    (path,) = cordon_node(DECLARED, "eu-1", "gpu-l4-02", values, later, drain=False).files
    assert path == "clusters/eu-1/cordons/gpu-l4-02.yaml"


def test_the_end_of_a_cordon_removes_its_file() -> None:
    assert uncordon_node(DECLARED, "eu-1", "gpu-l4-02").files == {SAMPLE: None}
    with pytest.raises(OperationRefused, match="no cordon names node 'gpu-l4-03' of cluster eu-1"):
        uncordon_node(DECLARED, "eu-1", "gpu-l4-03")
