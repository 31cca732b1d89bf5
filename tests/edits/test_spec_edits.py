"""`spec_edits` writes GPUSpecs, and exactly the lines of a price or of a lifecycle."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.declared.kinds.declaration import Lifecycle
from allotment.edits.new_declaration import InvalidField
from allotment.edits.spec_edits import (
    add_spec,
    check_price_day,
    list_gpu_models,
    read_time_zone,
    set_price,
    set_spec_lifecycles,
)
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
TODAY = datetime.date(2026, 11, 21)
QUARTER = "platform/specs/l4-quarter.yaml"
SPEC: dict[str, Any] = {
    "gpu": {"model": "nvidia-l4", "count": 2, "memory": "24Gi"},
    "cpu": 16,
    "memory": "64Gi",
    "disk": "200Gi",
    "prices": [{"from": "2027-01-01", "perHour": "1.60"}],
}


def test_a_spec_is_a_file() -> None:
    change = add_spec(DECLARED, "l4-two", SPEC)
    text = """\
# yaml-language-server: $schema=../../schemas/GPUSpec.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUSpec
metadata:
  name: l4-two
spec:
  gpu:
    model: nvidia-l4
    count: 2
    memory: 24Gi
  cpu: 16
  memory: 64Gi
  disk: 200Gi
  prices:
    - from: "2027-01-01"
      perHour: "1.60"
"""
    assert change.files == {"platform/specs/l4-two.yaml": text.encode()}
    assert (change.title, change.resources) == ("Add GPUSpec l4-two", ("GPUSpec l4-two",))
    assert change.notes == (
        "No cluster has units of l4-two yet: `allot stock add CLUSTER/NAME --spec l4-two --count COUNT` adds them.",
    )


def test_a_model_without_nodes_is_noted() -> None:
    change = add_spec(DECLARED, "b200", SPEC | {"gpu": {"model": "nvidia-b200", "count": 1, "memory": "180Gi"}})
    models = "nvidia-a100-80gb, nvidia-h100-80gb, nvidia-l4, nvidia-l40s"
    assert list_gpu_models(DECLARED) == models.split(", ")
    assert change.notes == (f"No node pool has GPUs of the model nvidia-b200. The models of node pools are {models}.",)


def test_an_existing_spec_and_an_invalid_value_are_refused() -> None:
    with pytest.raises(OperationRefused, match=r"^platform/specs/l4-half\.yaml exists already: choose another name"):
        add_spec(DECLARED, "l4-half", SPEC)
    for changes, field in (
        ({"cpu": "1.5"}, "spec.cpu"),
        ({"disk": "4G"}, "spec.disk"),
        ({"prices": [{"from": "soon", "perHour": "1"}]}, "spec.prices[0].from"),
        ({"tenancy": "Single"}, "spec"),
    ):
        with pytest.raises(InvalidField) as refused:
            add_spec(DECLARED, "l4-two", SPEC | changes)
        assert refused.value.field == field


def test_a_price_is_added_and_can_change_until_it_applies() -> None:
    before = (PROJECT / QUARTER).read_bytes()
    change = set_price(DECLARED, "l4-quarter", "0.18", "2026-11-22")
    added = before + b'    - from: "2026-11-22"\n      perHour: "0.18"\n'
    assert change.files == {QUARTER: added}
    assert change.title == "Set the price of l4-quarter from 2026-11-22"
    changed = DECLARED._replace(read=lambda path: change.files.get(path) or DECLARED.read(path))
    again = set_price(changed, "l4-quarter", "0.19", "2026-11-22")
    assert again.files == {QUARTER: added.replace(b"0.18", b"0.19")}
    with pytest.raises(
        InvalidField, match="^" + re.escape("spec.prices[].from: the price from 2026-11-22 already applies")
    ):
        check_price_day(changed, "l4-quarter", "2026-11-22", TODAY + datetime.timedelta(days=1))


@pytest.mark.parametrize(
    ("name", "amount", "start", "message"),
    [
        ("l4-quart", "1", "2027-01-01", "the platform has no GPUSpec named 'l4-quart'; did you mean 'l4-quarter'?"),
        (
            "l4-quarter",
            "1",
            "2026-11-21",
            "spec.prices[].from: a new price can't start on 2026-11-21, before tomorrow: write 2026-11-22 or a later day",
        ),
        (
            "l4-quarter",
            "1",
            "2026-10-01",
            "spec.prices[].from: the price from 2026-10-01 already applies and can't chang",
        ),
        ("l4-quarter", "1", "tomorrow", "spec.prices[].from: 'tomorrow' is not a date: write a quoted day such as"),
        ("l4-quarter", "-1", "2027-01-01", "spec.prices[2].perHour: '-1' is not an amount: write a quoted decimal"),
    ],
)
def test_a_wrong_price_is_refused(name: str, amount: str, start: str, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}"):
        check_price_day(DECLARED, name, start, TODAY)
        set_price(DECLARED, name, amount, start)


@pytest.mark.parametrize(
    ("lifecycle", "title"), [("Deprecated", "Deprecate GPUSpec l4-quarter"), ("Retired", "Retire GPUSpec l4-quarter")]
)
def test_a_lifecycle_is_one_line_that_activate_removes(lifecycle: Lifecycle, title: str) -> None:
    before = (PROJECT / QUARTER).read_text(encoding="utf-8")
    change = set_spec_lifecycles(DECLARED, ["l4-quarter"], lifecycle)
    assert change.files == {QUARTER: before.replace("  gpu:\n", f"  lifecycle: {lifecycle}\n  gpu:\n").encode()}
    assert (change.title, len(change.notes)) == (title, 1)
    changed = DECLARED._replace(read=lambda path: change.files.get(path) or DECLARED.read(path))
    active = set_spec_lifecycles(changed, ["l4-quarter"], "Active")
    assert (active.title, active.files) == ("Activate GPUSpec l4-quarter", {QUARTER: before.encode()})


def test_several_specs_are_one_change() -> None:
    change = set_spec_lifecycles(DECLARED, ["l4-half", "l4-whole", "l4-half"], "Deprecated")
    assert (change.title, len(change.files)) == ("Deprecate 2 GPUSpecs", 2)


def test_the_day_is_that_of_the_billing_time_zone() -> None:
    assert read_time_zone(DECLARED) == "Europe/Berlin"
