"""`tenant_pages` shows the log of a failed instance beside the reason."""

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
