"""An instance may keep its published Deployment only where the catalog, its declaration and the gate let it run on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import edit
from tests.services.publish.written import Written, check_and_render, checked

from allotment.adapters.folder_source import FolderSource
from allotment.capacity.units import UnitClaim
from allotment.services.publish.instance_retention import limit_retention, list_revoked_images
from allotment.services.publish.published_trees import PublishedTrees
from allotment.services.publish.rendered_tenant import build_rendered_tenant
from allotment.services.publish.renderer import build_gate

PATH = "tenants/solo-ada/compute/webui.rendered.yaml"
OLD = UnitClaim("eu-1", "l4-quarter", "solo-ada", "webui", 1, 1)
WANTED = OLD._replace(gpu_spec="l4-whole")
TOKEN = (b"automountServiceAccountToken: false", b"automountServiceAccountToken: true")
CLAIM = (b"claimName: models", b"claimName: styles")


def rendered_claim(sample: Path, claim: UnitClaim, old: bytes = b"", new: bytes = b"") -> int:
    """Return the rendered units of the published claim; its file has `new` in the place of `old`."""
    repository_check, rendered_tenants = check_and_render(FolderSource(sample))
    rendered_files = rendered_tenants["solo-ada"]
    data = rendered_files[f"eu-1/{PATH}"]
    assert old in data
    before = PublishedTrees({"eu-1": Written("eu-1", {PATH: data.replace(old, new, 1)})})
    rendered = {"solo-ada": build_rendered_tenant({path: ("", data) for path, data in rendered_files.items()}, ())}
    published = limit_retention(
        repository_check.catalog, rendered, before, build_gate(repository_check.catalog), lambda _: OLD
    )(claim)
    assert published is not None and published.units == 1
    return published.rendered


@pytest.mark.parametrize(("old", "new", "units"), [(b"", b"", 1), (*TOKEN, 0), (*CLAIM, 0)])
def test_limit_retention_excludes_a_forbidden_or_undeclared_deployment(
    sample: Path, old: bytes, new: bytes, units: int
) -> None:
    assert rendered_claim(sample, WANTED, old, new) == units
    assert rendered_claim(sample, OLD, old, new) == 1, "an instance that does not move is not asked about"


def test_limit_retention_excludes_a_deployment_of_a_revoked_version(sample: Path) -> None:
    assert rendered_claim(sample, WANTED) == 1
    assert list_revoked_images(checked(FolderSource(sample)).catalog) == frozenset()
    edit(
        sample,
        "platform/apps/stable-diffusion-webui.yaml",
        '- version: "1.11.0"\n',
        '- version: "1.11.0"\n      lifecycle: Revoked\n',
    )
    (image,) = list_revoked_images(checked(FolderSource(sample)).catalog)
    assert ":1.11.0@" in image
    assert rendered_claim(sample, WANTED) == 0
