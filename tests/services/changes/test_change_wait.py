"""A wait for a change has one target for each changed instance, storage and snapshot."""

from __future__ import annotations

from pathlib import Path

from tests.support.running_tenant import WEBUI

from allotment.edits.change_set import ChangeSet
from allotment.services.changes.change_wait import list_targets

STOPPED = WEBUI.replace("webui", "stopped")
STORAGES = "tenants/solo-ada/storages"


def test_targets_of_a_change(sample: Path) -> None:
    instance = (sample / WEBUI).read_bytes()
    files = {
        WEBUI: instance,
        STOPPED: instance.replace(b"webui", b"stopped", 1).replace(b"\nspec:\n", b"\nspec:\n  state: Stopped\n"),
        f"{STORAGES}/models.yaml": (sample / STORAGES / "models.yaml").read_bytes(),
        f"{STORAGES}/styles.yaml": None,
        "tenants/solo-ada/tenant.yaml": (sample / "tenants/solo-ada/tenant.yaml").read_bytes(),
    }
    assert [(str(target), target.goal) for target in list_targets(ChangeSet("Change", files, ()))] == [
        ("solo-ada/stopped", "Stopped"),
        ("solo-ada/webui", "Running"),
        ("solo-ada/models", "Ready"),
        ("solo-ada/styles", "Gone"),
    ]
