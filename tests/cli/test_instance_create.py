"""`allot instance create` writes the declarations of an instance and its storages, or nothing."""

from __future__ import annotations

import json

import pytest
from tests.conftest import Allot
from tests.published import Place, git

TENANT = """\
apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata:
  name: studio-new
spec:
  plan: starter
"""
MEMBERS = """\
apiVersion: allotment.dev/v1alpha1
kind: Members
metadata:
  name: studio-new
spec:
  users:
    - name: eve
      role: Admin
      login: eve-k
      subject: 00u1eve
"""
INSTANCE, STORAGE = "tenants/studio-new/instances/webui.yaml", "tenants/studio-new/storages/checkpoints.yaml"
PLACE = ("--cluster", "eu-1", "--gpu-spec", "l4-quarter")


@pytest.fixture
def empty_tenant(published: Place) -> Place:
    """Return a published cloud with the tenant studio-new, which has declared nothing yet."""
    folder = published.root / "tenants/studio-new"
    folder.mkdir()
    (folder / "tenant.yaml").write_text(TENANT)
    (folder / "members.yaml").write_text(MEMBERS)
    git(published.root, "add", "--all")
    git(published.root, "commit", "--quiet", "--message", "Add studio-new")
    return published


def test_an_empty_tenant_gets_a_webui_with_a_storage_in_one_command(empty_tenant: Place, allot: Allot) -> None:
    words = ("studio-new/webui", *PLACE, "--app", "stable-diffusion-webui")
    storage = ("--new-storage", "checkpoints:50Gi:/workspace/models")
    result = allot("instance", "create", *words, *storage, "--commit", "--repo", empty_tenant.root)
    assert result.code == 0, result
    assert "+  gpuSpec: l4-quarter\n" in result.out
    assert "instance webui       added   starts" in result.out
    assert git(empty_tenant.root, "log", "-1", "--format=%s") == "Create instance studio-new/webui"
    assert git(empty_tenant.root, "show", "--name-only", "--format=", "HEAD").split() == [INSTANCE, STORAGE]
    check = allot("validate", "tenants/studio-new", "--repo", empty_tenant.root)
    assert (check.code, check.err) == (0, "")


def test_json_names_the_new_files_and_resources(empty_tenant: Place, allot: Allot) -> None:
    words = ("studio-new/webui", *PLACE, "--app", "jupyter", "--new-storage", "checkpoints:50Gi:/workspace")
    answer = json.loads(allot("instance", "create", *words, "-o", "json", "--repo", empty_tenant.root).out)
    assert answer["files"] == [{"path": INSTANCE, "action": "Added"}, {"path": STORAGE, "action": "Added"}]
    assert answer["resources"] == ["GPUInstance studio-new/webui", "GPUStorage studio-new/checkpoints"]


def test_missing_options_are_named_with_the_values_that_the_tenant_can_use(empty_tenant: Place, allot: Allot) -> None:
    result = allot("instance", "create", "studio-new/webui", "--cluster", "eu-1", "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "allot: add --gpu-spec: studio-new can use in eu-1 l4-quarter\n"
        "add --app: comfyui, jupyter, lora-trainer, stable-diffusion-webui, triton, vllm; or --image IMAGE@DIGEST\n"
    )
    result = allot("instance", "create", "nobody/webui", *PLACE, "--app", "jupyter", "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("allot: no tenant is named 'nobody'; ")
    result = allot("instance", "create", "webui", *PLACE, "--app", "jupyter", "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith("Error: webui is not in the format TENANT/NAME, such as solo-ada/webui\n")


def test_a_gpu_spec_outside_of_the_plan_is_refused_with_the_alternatives(empty_tenant: Place, allot: Allot) -> None:
    words = ("--cluster", "eu-1", "--gpu-spec", "l4-whole", "--app", "jupyter")
    result = allot("instance", "create", "studio-new/webui", *words, "--repo", empty_tenant.root)
    assert (result.code, result.out) == (2, "")
    assert f"{INSTANCE}:8:12: spec.gpuSpec: l4-whole is Exclusive, and plan starter allows TimeSlicing" in result.err
    assert result.err.endswith("studio-new can use in eu-1: l4-quarter\n")
    assert git(empty_tenant.root, "status", "--short") == ""
