"""An instance may keep its published Deployment only where the catalog, its declaration and the gate let it run on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import edit
from tests.pipeline.publish.written import Written, checked

from allotment.accounts.capacity import Claim
from allotment.adapters.folder import FolderSource
from allotment.pipeline.publish.before import Before
from allotment.pipeline.publish.rendered import of_made
from allotment.pipeline.publish.retention import retainable, revoked_images
from allotment.pipeline.render import gate_of

PATH = "tenants/solo-ada/compute/webui.rendered.yaml"
OLD = Claim("eu-1", "l4-quarter", "solo-ada", "webui", 1, 1)
WANTED = OLD._replace(gpu_spec="l4-whole")
TOKEN = (b"automountServiceAccountToken: false", b"automountServiceAccountToken: true")
CLAIM = (b"claimName: models", b"claimName: styles")


def rendered_claim(sample: Path, claim: Claim, old: bytes = b"", new: bytes = b"") -> int:
    """Return the rendered units of the published claim; its file has `new` in the place of `old`."""
    found = checked(FolderSource(sample))
    made = found.made["solo-ada"]
    data = made[f"eu-1/{PATH}"]
    assert old in data
    before = Before({"eu-1": Written("eu-1", {PATH: data.replace(old, new, 1)})})
    rendered = {"solo-ada": of_made({path: ("", data) for path, data in made.items()}, ())}
    published = retainable(found.offers, rendered, before, gate_of(found.offers), lambda _: OLD)(claim)
    assert published is not None and published.units == 1
    return published.rendered


@pytest.mark.parametrize(("old", "new", "units"), [(b"", b"", 1), (*TOKEN, 0), (*CLAIM, 0)])
def test_it_keeps_no_deployment_that_the_gate_or_its_declaration_refuses(
    sample: Path, old: bytes, new: bytes, units: int
) -> None:
    assert rendered_claim(sample, WANTED, old, new) == units
    assert rendered_claim(sample, OLD, old, new) == 1, "an instance that does not move is not asked about"


def test_it_keeps_no_deployment_of_a_revoked_version(sample: Path) -> None:
    assert rendered_claim(sample, WANTED) == 1
    assert revoked_images(checked(FolderSource(sample)).offers) == frozenset()
    edit(
        sample,
        "platform/apps/stable-diffusion-webui.yaml",
        '- version: "1.11.0"\n',
        '- version: "1.11.0"\n      lifecycle: Revoked\n',
    )
    (image,) = revoked_images(checked(FolderSource(sample)).offers)
    assert ":1.11.0@" in image
    assert rendered_claim(sample, WANTED) == 0
