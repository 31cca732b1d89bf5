"""An instance that waits for its storage, and the reported state of the preparation."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.manifests.yaml_text import load
from allotment.observed.status import Instance, Preparation, Storage, TenantStatus
from tests.conftest import Begin
from tests.support.published import Place

TENANT, STORAGE, INSTANCE = "studio-kite", "model-cache", "webui"
STORED, COMPUTED = (
    f"tenants/{TENANT}/storage/{STORAGE}.rendered.yaml",
    f"tenants/{TENANT}/compute/{INSTANCE}.rendered.yaml",
)


def seen(
    place: Place, state: str = "Succeeded", *, uid: str = "j1", instance: str = "", reason: str = "", **other: Any
) -> str:
    """Report the state of the preparation that is published."""
    objects = load(place.tree("eu-1")[STORED].encode())
    noted = next(manifest for manifest in objects if manifest["kind"] == "Job")["metadata"]["annotations"]
    fields = {"attempt": int(noted["allotment.dev/attempt"]), "input_hash": noted["allotment.dev/input-hash"], **other}
    retained = bool(fields.pop("kept", False))
    prepare = Preparation(
        uid, fields["attempt"], fields["input_hash"], state, reason=reason, is_prune_protected=retained
    )
    storage = Storage(STORAGE, "b", "Ready", "", claim="c1", prepare=prepare)
    run = (Instance(INSTANCE, "b", instance, "", nodes=("n1",)),) if instance else ()
    return place.report("eu-1", TenantStatus(TENANT, "eu-1", storages=(storage,), instances=run))


def replicas(place: Place) -> int:
    deployment = load(place.tree("eu-1")[COMPUTED].encode())[0]
    count: int = deployment["spec"]["replicas"]
    assert (count == 0) == ("allotment.dev/waits-for" in deployment["metadata"]["annotations"])
    return count


@pytest.fixture
def waiting(begin: Begin) -> Place:
    """Return a place where one instance waits for its storage, alone."""

    def make(place: Place) -> None:
        for file in (place.root / f"tenants/{TENANT}/instances").glob("*.yaml"):
            if STORAGE in file.read_text() and file.stem != INSTANCE:
                file.unlink()
        assert place.merged(hours_ago=6).code == 0
        assert replicas(place) == 0

    return begin("waiting for a storage", make)
