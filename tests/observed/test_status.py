"""A status is read back as it was written, by our reader and by any other; what isn't one is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests import live
from tests.observed.test_instances import RUNS, look

from allotment.manifests.text import Malformed
from allotment.observed.status import (
    ClusterStatus,
    ColdStart,
    Stock,
    Storage,
    TenantStatus,
    read_cluster,
    read_tenant,
    text_of,
)
from allotment.observed.tenants import Live, tenant_status


def test_a_tenants_status_is_read_back() -> None:
    found = look(*RUNS, live.claim(), live.job(condition="Complete"), live.application(), live.route())
    data = text_of(found)
    assert read_tenant(data) == found
    document = yaml.safe_load(data)
    assert (document["kind"], document["metadata"]) == ("TenantStatus", {"name": "solo-ada"})
    assert document["status"]["instances"][0]["state"] == "Running"


@given(st.text(), st.integers(0, 10**9))
def test_a_clusters_status_is_read_back(text: str, number: int) -> None:
    cold = (ColdStart("b", text, text, number % 99),)
    stock = Stock("a", "b", number, 0, 0, 0, "", text)
    found = ClusterStatus("eu-1", "2026-11-21T10:00:00Z", (stock,), message=text, cold_starts=cold)
    assert read_cluster(text_of(found)) == found


def test_a_clusters_status_of_before_there_were_cold_starts_is_read() -> None:
    data = text_of(ClusterStatus("eu-1", "2026-11-21T10:00:00Z", (Stock("a", "b", 1, 0, 1, 1),)))
    assert b"cold" not in data
    assert b"nodePool" not in data
    assert read_cluster(data).cold_starts == ()


@pytest.mark.parametrize("seconds", [-1, 10**9])
def test_a_start_that_nobody_saw_is_refused(seconds: int) -> None:
    cold = (ColdStart("b", "a/b", "", seconds),)
    with pytest.raises(Malformed):
        read_cluster(text_of(ClusterStatus("eu-1", "2026-11-21T10:00:00Z", cold_starts=cold)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\n",
        b"a: 1\n",
        b"apiVersion: allotment.dev/v1alpha1\nkind: TenantStatus\n",
        b"apiVersion: allotment.dev/v1alpha1\nkind: TenantStatus\nmetadata:\n  name: x\nstatus:\n  cluster: 5\n",
        b"apiVersion: allotment.dev/v1alpha1\nkind: ClusterStatus\nmetadata:\n  name: x\nstatus:\n  cluster: a\n",
        text_of(TenantStatus("x", "a", storages=2 * (Storage("models", "b", "Ready", ""),))),
    ],
)
def test_what_is_no_status_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_tenant(data)


def test_a_tenant_whose_instances_stay_on_drained_nodes_is_said_to_be_protected() -> None:
    def budget(name: str = "instances", **more: Any) -> dict[str, Any]:
        return {"kind": "PodDisruptionBudget", "metadata": live.metadata(name, f"b-{name}", {}, **more)}

    def disruption(*objects: dict[str, Any]) -> str:
        return tenant_status(live.TENANT, "eu-1", Live.of(live.seen(*objects)), None, live.AT.format(9)).disruption

    assert disruption(budget()) == "Protected"
    assert disruption() == disruption(budget("copies--webui")) == ""
    assert disruption(budget(deletionTimestamp=live.AT.format(5))) == ""
