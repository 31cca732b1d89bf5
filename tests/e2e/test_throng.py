"""Hundreds of tenants that come at once: `make e2e-scale`, by hand, since it takes a quarter of an hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from tests.e2e.cloud import Cloud
from tests.support.cloud_objects import deployment
from tests.support.published import INSTANCE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.scale]

CROWD = 300
TENANT = "apiVersion: allotment.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n{spec}"


@pytest.fixture(scope="module")
def cloud(start_cloud: Callable[..., AbstractContextManager[Cloud]]) -> Iterator[Cloud]:
    with start_cloud() as shared_cloud:
        yield shared_cloud


def test_three_hundred_tenants_at_once(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    names = [f"{'abcdefghijklmnopqrstuvwxyz'[number % 26]}team-{number}x" for number in range(CROWD)]
    for name in names:
        folder = f"tenants/{name}"
        cloud.declare(f"{folder}/tenant.yaml", TENANT.format(kind="Tenant", name=name, spec="  plan: starter\n"))
        members = f"  groups:\n    - name: {name}-people\n      role: Member\n"
        cloud.declare(f"{folder}/members.yaml", TENANT.format(kind="Members", name=name, spec=members))
        storage = "  cluster: eu-1\n  storageSpec: block-ssd\n  size: 10Gi\n"
        cloud.declare(f"{folder}/storages/models.yaml", TENANT.format(kind="GPUStorage", name="models", spec=storage))
        stopped = INSTANCE.format(name="lab", labels="").replace("spec:\n", "spec:\n  state: Stopped\n")
        cloud.declare(f"{folder}/instances/lab.yaml", stopped)
    cloud.merged()

    def synced() -> bool:
        applications = cloud.applications()
        wanted = {f"{name}--eu-1--{part}" for name in names for part in ("storage", "compute")}
        left = [
            name
            for name in wanted
            if applications.get(name, {}).get("status", {}).get("sync", {}).get("status") != "Synced"
        ]
        assert not left, f"{len(left)} left, such as {left[:3]}"
        return True

    eventually(synced, "600 Applications to be Synced", 1800, pause=3)

    def bound() -> bool:
        claims = client.list("v1", "PersistentVolumeClaim", labels="allotment.dev/storage=models")
        return len([claim for claim in claims if claim["status"].get("phase") == "Bound"]) >= CROWD

    eventually(bound, "all volumes to be bound", 300, pause=2)
    cloud.edit(f"tenants/{names[7]}/instances/lab.yaml", "  state: Stopped\n", "")
    cloud.merged()
    cloud.argocd.refresh(f"{names[7]}--eu-1--compute")
    eventually(lambda: deployment(cloud, names[7], "lab")["status"].get("readyReplicas") == 1, "one to start", 120)
