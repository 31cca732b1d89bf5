"""A reference to a file that is there but invalid names that file, and suggests no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Allot, edit, errors

WEBUI = "tenants/solo-ada/instances/webui.yaml"
INVALID = "exists but is invalid: correct its problems first"


def spoil(sample: Path, path: str) -> None:
    """Make a file invalid."""
    edit(sample, path, "\nspec:\n", "\nspec:\n  bogus: 1\n")


@pytest.mark.parametrize(
    ("invalid", "path", "change", "line"),
    [
        (
            "tenants/solo-ada/storages/models.yaml",
            WEBUI,
            ("- name: models", "- name: model"),
            f"{WEBUI}:15:13: spec.storages[0].name: no GPUStorage is named 'model' in tenants/solo-ada; did you mean 'models'?"
            f" tenants/solo-ada/storages/models.yaml {INVALID} [reference]",
        ),
        (
            "platform/specs/l4-quarter.yaml",
            WEBUI,
            ("gpuSpec: l4-quarter", "gpuSpec: l4-quarte"),
            f"{WEBUI}:8:12: spec.gpuSpec: no GPUSpec is named 'l4-quarte'; did you mean 'l4-quarter'?"
            f" platform/specs/l4-quarter.yaml {INVALID} [reference]",
        ),
        (
            "tenants/studio-kite/storages/outputs.yaml",
            "tenants/studio-kite/snapshots/before-upgrade.yaml",
            ("storage: outputs", "storage: output"),
            "tenants/studio-kite/snapshots/before-upgrade.yaml:7:12: spec.storage: no GPUStorage is named 'output' in"
            f" tenants/studio-kite; did you mean 'outputs'? tenants/studio-kite/storages/outputs.yaml {INVALID};"
            " a storage stays while a snapshot of it exists [reference]",
        ),
    ],
)
def test_an_invalid_file_is_the_one_that_is_meant(
    invalid: str, path: str, change: tuple[str, str], line: str, sample: Path, allot: Allot
) -> None:
    spoil(sample, invalid)
    edit(sample, path, *change)
    assert line in errors(allot("validate", "--repo", sample))


def test_an_invalid_storage_of_another_tenant_is_not_called_absent(sample: Path, allot: Allot) -> None:
    spoil(sample, "tenants/northlight/storages/base-models.yaml")
    lines = errors(allot("validate", "--repo", sample))
    assert (
        "tenants/studio-kite/storages/base.yaml:14:15: spec.prepare.source.storage.name:"
        f" tenants/northlight/storages/base-models.yaml {INVALID} [reference]"
    ) in lines


@pytest.mark.parametrize(
    ("path", "change", "place"),
    [
        (WEBUI, ("- name: models", "- name: comfy-home"), f"{WEBUI}:15:13: spec.storages[0].name"),
        (
            "tenants/ml-orbit/instances/lab.yaml",
            ("- name: datasets", "- name: comfy-home"),
            "tenants/ml-orbit/instances/lab.yaml:18:13: spec.buckets[0].name",
        ),
    ],
    ids=["mount", "bucket"],
)
def test_a_storage_of_another_tenant_is_named_with_its_owner(
    path: str, change: tuple[str, str], place: str, sample: Path, allot: Allot
) -> None:
    edit(sample, path, *change)
    lines = allot("validate", "--repo", sample).out.splitlines()
    findings = [line for line in lines if line.startswith(place)]
    assert findings[1].startswith(f"{place}: no GPUStorage is named 'comfy-home' in tenants/")
    assert findings[:1] == [
        f"{place}: warning: comfy-home is a storage of tenant studio-kite, and an instance uses only storages of its own tenant:"
        " declare a storage that copies it (spec.prepare.source.storage), once its tenant shares it [reference]"
    ]
