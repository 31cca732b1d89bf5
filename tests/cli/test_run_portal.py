"""`allot run --portal` builds the pages when something changes, and serves them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import edit
from tests.portal.pages.sample_site import create_place
from tests.support.published import Place
from tests.support.running_portal import RunningPortal
from tests.support.waiting import eventually

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return create_place(tmp_path)


@pytest.fixture
def portal(place: Place, tmp_path: Path) -> Iterator[RunningPortal]:
    running = RunningPortal(f"file://{place.remote}", tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


def wait_for(portal: RunningPortal, path: str, text: str) -> None:
    eventually(lambda: text in portal.page(path), f"{text!r} on {path} of {portal.log}", pause=0.1)


def wait_until_ready(portal: RunningPortal) -> None:
    eventually(lambda: portal.get("/readyz")[0] == 200, f"the portal of {portal.log} to be ready", pause=0.1)


def test_a_merge_changes_the_pages_of_its_tenant(portal: RunningPortal, place: Place) -> None:
    first = portal.event("portal built")
    assert (first["tenants"], first["changed"]) == (7, first["pages"])
    wait_for(portal, "/tenants/solo-ada/", "<h1>Ada</h1>")
    wait_until_ready(portal)
    edit(place.root, "tenants/solo-ada/tenant.yaml", "displayName: Ada", "displayName: Countess")
    commit = place.merge()
    wait_for(portal, "/tenants/solo-ada/", "<h1>Countess</h1>")
    assert portal.event("portal built", commit=commit)["tenants"] == 1
    assert portal.metric("allotment_portal_pages") == first["pages"]
    assert portal.end() == 0


def test_the_pages_stay_while_the_source_is_away(portal: RunningPortal, place: Place) -> None:
    wait_for(portal, "/tenants/solo-ada/", "<h1>Ada</h1>")
    wait_until_ready(portal)
    place.remote.rename(place.remote.with_name("away.git"))
    portal.event("portal not built")
    assert "<h1>Ada</h1>" in portal.page("/tenants/solo-ada/")
    assert portal.get("/readyz")[0] == 200
    assert portal.metric('allotment_portal_errors_total{reason="unreachable"}') > 0
    place.remote.with_name("away.git").rename(place.remote)
    edit(place.root, "tenants/solo-ada/tenant.yaml", "displayName: Ada", "displayName: Countess")
    place.merge()
    wait_for(portal, "/tenants/solo-ada/", "<h1>Countess</h1>")


def test_the_start_of_the_log_names_the_address(portal: RunningPortal) -> None:
    line = json.loads(portal.log.read_text(encoding="utf-8").splitlines()[0])
    assert line["portal"].startswith("127.0.0.1:")


def test_a_declared_portal_shows_a_tenant_to_its_members_only(place: Place, tmp_path: Path) -> None:
    path = place.root / "platform/platform.yaml"
    text = "  portal:\n    cluster: eu-1\n    groups:\n      - platform-team\n"
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    place.merge()
    portal = RunningPortal(f"file://{place.remote}", tmp_path / "data")
    wait_for(portal, "/catalog/", "<h1>Catalog</h1>")
    team = base64.urlsafe_b64encode(b'["platform-team"]').decode()
    assert portal.request("/tenants/solo-ada/")[0] == 403
    assert "<h1>Ada</h1>" in portal.page("/tenants/solo-ada/", X_Portal_Subject="00u1ada")
    assert portal.request("/tenants/studio-kite/", X_Portal_Subject="00u1ada")[0] == 403
    assert portal.request("/platform/", X_Portal_Subject="00u1ada")[0] == 403
    assert portal.request("/tenants/", X_Portal_Subject="00u1ada")[0] == 302
    assert "<h1>Platform</h1>" in portal.page("/platform/", X_Portal_Groups=team)
    assert "<h1>Ada</h1>" in portal.page("/tenants/solo-ada/", X_Portal_Groups=team)
    edit(place.root, "tenants/solo-ada/members.yaml", "subject: 00u1ada", "subject: 00u1other")
    place.merge()
    path, subject = "/tenants/solo-ada/", "00u1ada"
    eventually(lambda: portal.request(path, X_Portal_Subject=subject)[0] != 200, "the subject to be refused", pause=0.1)
    assert portal.end() == 0


@pytest.mark.parametrize("has_file", [True, False], ids=["with its file", "without its file"])
def test_a_declared_credential_is_required(has_file: bool, place: Place, tmp_path: Path) -> None:
    path, credential = place.root / "platform/platform.yaml", "correct-horse-battery"
    text = "  portal:\n    cluster: eu-1\n    proxySecretName: portal-proxy\n"
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    place.merge()
    file = tmp_path / "credential"
    file.write_text(f"{credential}\n", encoding="utf-8")
    options = ["--portal-secret-file", str(file)] if has_file else []
    portal = RunningPortal(f"file://{place.remote}", tmp_path / "data", *options)
    wait_for(portal, "/catalog/", "<h1>Catalog</h1>")
    status, reason = portal.request("/tenants/solo-ada/", X_Portal_Subject="00u1ada")
    assert (status, "--portal-secret-file" in reason) == (403, True)
    status, _ = portal.request("/tenants/solo-ada/", X_Portal_Subject="00u1ada", X_Portal_Credential=credential)
    assert status == (200 if has_file else 403)
    assert portal.request("/tenants/solo-ada/", X_Portal_Subject="00u1mia", X_Portal_Credential=credential)[0] == 403
    if not has_file:
        assert "set --portal-secret-file" in portal.event("logins not checked")["message"]
    assert portal.end() == 0
    assert credential not in portal.log.read_text(encoding="utf-8")
