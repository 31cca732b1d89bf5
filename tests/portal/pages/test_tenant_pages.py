"""`tenant_pages` shows the log of a failed instance beside the reason, and the replacement of a deprecated app."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.portal.pages.sample_site import build, create_place


def read_instance(folder: Path, tenant: str, instance: str) -> str:
    """Return the HTML of an instance's page."""
    build(create_place(folder / "place"), folder / "site", tenant=tenant)
    return (folder / f"site/tenants/{tenant}/instances/{instance}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("tenant", "instance", "is_shown"),
    [("ml-orbit", "lab", True), ("studio-kite", "webui-next", True), ("studio-kite", "webui", False)],
)
def test_a_failed_or_waiting_instance_names_its_log_beside_the_reason(
    tenant: str, instance: str, is_shown: bool, tmp_path: Path
) -> None:
    page = read_instance(tmp_path, tenant, instance)
    assert (f"<code>allot logs {tenant}/{instance}</code>" in page) == is_shown
    assert page.count("<dt>Log</dt>") == 1


def test_an_instance_names_the_replacement_of_its_deprecated_version(tmp_path: Path) -> None:
    place = create_place(tmp_path / "place")
    build(place, tmp_path / "site", tenant="studio-kite")
    folder = tmp_path / "site/tenants/studio-kite/instances"
    mark = (
        'stable-diffusion-webui 1.10.1 <span class="state off">Deprecated</span>, replaced by 1.11.0<div class="copy">'
    )
    pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.html")}
    assert {name: mark in page for name, page in pages.items()} == {"comfy": False, "webui": True, "webui-next": False}
    command = "allot set instance/studio-kite/webui app.version=1.11.0 --pr"
    assert {name for name, page in pages.items() if command in page} == {"webui"}
