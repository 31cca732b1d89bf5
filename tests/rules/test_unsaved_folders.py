"""A folder of an app on no storage gets a warning, and the plan of a stop names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, edit
from tests.support.published import Place

ADA = "tenants/solo-ada/instances/webui.yaml"
MODELS, OUTPUTS = (
    "/workspace/models (Checkpoints, LoRAs and upscalers)",
    "/workspace/outputs (The pictures that it makes)",
)


def list_warnings(sample: Path, allot: Allot) -> list[str]:
    """Return the warnings of the rule without the rest of the message."""
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0
    return [line.split(" is a folder of")[0] for line in result.lines if line.endswith("[unsaved-folder]")]


def test_the_warning_names_the_folder_its_content_and_the_way_out(sample: Path, allot: Allot) -> None:
    edit(sample, ADA, "mountPath: /workspace", "mountPath: /workspace/models")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert [line for line in result.lines if "unsaved-folder" in line] == [
        f"{ADA}:14:3: spec.storages: warning: {OUTPUTS} is a folder of app stable-diffusion-webui 1.11.0 on no storage:"
        " each stop or restart erases it; mount a storage at /workspace/outputs; `allot storage create"
        " solo-ada/NAME --cluster eu-1` creates it [unsaved-folder]"
    ]


@pytest.mark.parametrize(
    ("mount", "unsaved"),
    [
        ("/workspace", []),
        ("/workspace/outputs", [MODELS]),
        ("/workspace/outputs/today", [MODELS, OUTPUTS]),
        ("/workspace/outputs-2", [MODELS, OUTPUTS]),
        ("/workspace/models\n      readOnly: true", [OUTPUTS]),
    ],
)
@pytest.mark.parametrize("state", ["Running", "Stopped"])
def test_a_mount_at_a_folder_or_above_it_saves_the_folder(
    mount: str, unsaved: list[str], state: str, sample: Path, allot: Allot
) -> None:
    edit(sample, ADA, "mountPath: /workspace", f"mountPath: {mount}")
    edit(sample, ADA, "spec:\n", f"spec:\n  state: {state}\n")
    assert [line.split("warning: ")[1] for line in list_warnings(sample, allot)] == unsaved


def test_args_that_replace_a_folder_of_the_app_need_no_storage_there(sample: Path, allot: Allot) -> None:
    edit(sample, ADA, "mountPath: /workspace", "mountPath: /models")
    assert len(list_warnings(sample, allot)) == 2
    edit(sample, ADA, "  storages:\n", "  container:\n    args:\n      - --ckpt-dir=/models\n  storages:\n")
    assert list_warnings(sample, allot) == [f"{ADA}:17:3: spec.storages: warning: {OUTPUTS}"]


def test_an_optional_folder_and_an_own_container_need_no_storage(sample: Path, allot: Allot) -> None:
    edit(sample, "platform/apps/stable-diffusion-webui.yaml", "          optional: true\n", "")
    assert len(list_warnings(sample, allot)) == 1, "the preview of film-house mounts nothing at /workspace/base"
    edit(sample, "tenants/ml-orbit/instances/pretrain.yaml", "mountPath: /workspace/checkpoints", "mountPath: /out")
    assert len(list_warnings(sample, allot)) == 1


def test_the_plan_of_a_stop_names_the_folders_that_are_lost(published: Place, allot: Allot) -> None:
    edit(published.root, ADA, "mountPath: /workspace", "mountPath: /workspace/models")
    published.merge()
    result = allot("instance", "stop", "solo-ada/webui", "--dry-run", "--repo", published.root)
    lost = f"stops: everything on its own disk (50Gi at /scratch) is lost, including {OUTPUTS}"
    assert f"  instance solo-ada/webui in eu-1 {lost}\n" in result.out
    edit(published.root, ADA, "spec:\n", "spec:\n  state: Stopped\n")
    plan = json.loads(allot("plan", "--base", "HEAD", "-o", "json", "--repo", published.root).out)
    assert [loss["words"] for loss in plan["losses"]] == [lost]
