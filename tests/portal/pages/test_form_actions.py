"""`form_actions` offers the changes of a storage's page, and names the reasons against a share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot, edit
from tests.portal.pages.page_text import read_facts
from tests.portal.pages.sample_site import build, create_place
from tests.support.published import Place

STORAGE = "tenants/studio-kite/storages/outputs.yaml"
EXPOSURE = "    exposure: Members\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return create_place(tmp_path / "place")


def read_share(place: Place, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the action that shares a storage, and the HTML of the storage's page."""
    build(place, folder / "site", tenant="studio-kite")
    page = folder / "site/tenants/studio-kite/storages/outputs.html"
    action: dict[str, Any] = read_facts(page)["actions"]["share"]
    return action, page.read_text(encoding="utf-8")


def test_a_tenant_that_can_copy_a_storage_is_no_new_reader(place: Place, tmp_path: Path) -> None:
    edit(place.root, STORAGE, EXPOSURE, f"{EXPOSURE}  sharedWith:\n    - tenant: solo-ada\n")
    place.merge()
    action, page = read_share(place, tmp_path)
    (pattern,) = re.findall(r'data-field="other"[^>]*pattern="([^"]*)"', page)
    accepted = [name for name in ("solo-ada", "studio-kite", "solo-ada2", "uni-lab") if re.fullmatch(pattern, name)]
    assert (accepted, action["barriers"]) == (["solo-ada2", "uni-lab"], [])


@pytest.mark.parametrize(
    ("text", "barrier"),
    [
        (f"{EXPOSURE}  sharedWith:\n    - tenants: All\n", "Every tenant may copy it already."),
        (
            f"{EXPOSURE}    mode: ReadWrite\n",
            "Its accessor changes files, and a shared storage can't change: first make the accessor ReadOnly.",
        ),
    ],
)
def test_a_share_that_the_plan_refuses_has_a_reason(place: Place, tmp_path: Path, text: str, barrier: str) -> None:
    edit(place.root, STORAGE, EXPOSURE, text)
    place.merge()
    assert read_share(place, tmp_path)[0]["barriers"] == [barrier]


def read_admin_changes(place: Place, folder: Path) -> list[dict[str, Any]]:
    """Return the removal and the demotion of the user ada."""
    place.merge()
    build(place, folder / "site", tenant="solo-ada")
    actions = read_facts(folder / "site/tenants/solo-ada/members.html")["actions"]
    return [actions[name]["variants"]["ada"] for name in ("remove", "role")]


def test_the_last_admin_stays_unless_a_group_gives_admins(place: Place, tmp_path: Path) -> None:
    reason = ["ada is the last Admin: first give another member the role Admin."]
    assert [change["barriers"] for change in read_admin_changes(place, tmp_path)] == [reason, reason]
    group = "spec:\n  groups:\n    - name: leads\n      role: Admin\n"
    edit(place.root, "tenants/solo-ada/members.yaml", "spec:\n", group)
    for change in read_admin_changes(place, tmp_path):
        assert not change.get("barriers")
        assert (
            change["notes"][-1] == "Without the Admin ada, no member can approve changes of the members at the forge."
        )


def test_the_present_role_of_a_member_is_no_change(place: Place, tmp_path: Path) -> None:
    field, pattern, text = read_admin_changes(place, tmp_path)[1]["warning"]
    assert (field, text) == ("role", "ada has the role Admin already: nothing changes.")
    assert [bool(re.fullmatch(pattern, role)) for role in ("Admin", "Member", "Viewer")] == [False, True, True]


def read_action(place: Place, folder: Path, page: str, name: str) -> dict[str, Any]:
    """Return a change of a form of the tenant studio-kite."""
    build(place, folder / "site", tenant="studio-kite")
    action: dict[str, Any] = read_facts(folder / f"site/tenants/studio-kite/{page}.html")["actions"][name]
    return action


def test_an_instance_gets_the_access_ssh(place: Place, tmp_path: Path, allot: Allot) -> None:
    action = read_action(place, tmp_path, "instances/webui", "ssh")
    assert allot(*action["command"][1:-1], "--repo", place.root).code == 0
    assert f"\n{action['text']}\n" in (place.root / "tenants/studio-kite/instances/webui.yaml").read_text()
    place.merge()
    with pytest.raises(KeyError, match="ssh"):
        read_action(place, tmp_path, "instances/webui", "ssh")


def test_an_instance_gets_the_active_version_of_its_app(place: Place, tmp_path: Path, allot: Allot) -> None:
    action = read_action(place, tmp_path, "instances/webui", "app")
    assert (
        "stable-diffusion-webui 1.10.1 is Deprecated" in (tmp_path / "site/tenants/studio-kite/index.html").read_text()
    )
    assert action["command"][:-1] == ["allot", "set", "instance/studio-kite/webui", "app.version={version}"]
    words = [word.replace("{version}", "1.11.0") for word in action["command"][1:-1]]
    assert allot(*words, "--repo", place.root).code == 0
    text = (place.root / "tenants/studio-kite/instances/webui.yaml").read_text()
    assert action["text"].replace("{version}", '"1.11.0"') in text, "the script quotes the value"
    place.merge()
    with pytest.raises(KeyError, match="app"):
        read_action(place, tmp_path, "instances/webui", "app")


def test_each_change_of_a_running_instance_names_the_folders_that_it_erases(place: Place, tmp_path: Path) -> None:
    edit(
        place.root,
        "tenants/studio-kite/instances/webui.yaml",
        "    - name: outputs\n      mountPath: /workspace/outputs\n",
        "",
    )
    place.merge()
    erased = "/workspace/outputs (The pictures that it makes) is on no storage: this erases its files."
    build(place, tmp_path / "site", tenant="studio-kite")
    actions = read_facts(tmp_path / "site/tenants/studio-kite/instances/webui.html")["actions"]
    assert {name for name, action in actions.items() if erased in action["notes"]} == set(actions) > {"state", "delete"}
    edit(place.root, "tenants/studio-kite/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    place.merge()
    build(place, tmp_path / "site", tenant="studio-kite")
    actions = read_facts(tmp_path / "site/tenants/studio-kite/instances/webui.html")["actions"]
    assert not any(erased in action["notes"] for action in actions.values())


def test_a_marked_storage_can_be_retained(place: Place, tmp_path: Path, allot: Allot) -> None:
    before = (place.root / STORAGE).read_text()
    with pytest.raises(KeyError, match="retain"):
        read_action(place, tmp_path, "storages/outputs", "retain")
    assert allot("storage", "delete", "studio-kite/outputs", "--repo", place.root).code == 0
    place.merge()
    action = read_action(place, tmp_path, "storages/outputs", "retain")
    assert f"\n{action['text']}\n" in (place.root / STORAGE).read_text()
    assert allot(*action["command"][1:-1], "--repo", place.root).code == 0
    assert (place.root / STORAGE).read_text() == before


def test_a_failed_preparation_can_be_tried_again(place: Place, tmp_path: Path, allot: Allot) -> None:
    build(place, tmp_path / "site", tenant="solo-ada")
    pages = {
        name: read_facts(tmp_path / f"site/tenants/solo-ada/storages/{name}.html") for name in ("styles", "models")
    }
    assert "retry" not in pages["models"]["actions"]
    action = pages["styles"]["actions"]["retry"]
    assert allot(*action["command"][1:-1], "--repo", place.root).code == 0
    assert "\n    attempt: 2\n" in (place.root / "tenants/solo-ada/storages/styles.yaml").read_text()
    assert action["text"] == "  prepare:\n    attempt: 2"


def test_a_snapshot_and_a_copy_show_their_price(place: Place, tmp_path: Path) -> None:
    snapshot, copy = (read_action(place, tmp_path, "storages/outputs", name) for name in ("snapshot", "clone"))
    assert snapshot["notes"] == [
        "The cluster takes the snapshot after the merge. It costs 40.00 EUR a month while it exists."
    ]
    assert copy["notes"] == ["The copy has 500Gi and costs 80.00 EUR a month."]
    assert [round(float(action["cost"]), 2) for action in (snapshot, copy)] == [40, 80]


def test_the_role_of_a_group_with_dots_is_changed(place: Place, tmp_path: Path, allot: Allot) -> None:
    members = "tenants/studio-kite/members.yaml"
    edit(place.root, members, "  groups:\n", "  groups:\n    - name: sso.research\n      role: Viewer\n")
    place.merge()
    action = read_action(place, tmp_path, "members", "role")["variants"]["group sso.research"]
    words = [word.replace("{role}", "Member") for word in action["command"][1:-1]]
    assert allot(*words, "--repo", place.root).code == 0
    assert "    - name: sso.research\n      role: Member\n" in (place.root / members).read_text()


def test_an_instance_on_hold_can_be_neither_started_nor_stopped(place: Place, tmp_path: Path) -> None:
    assert read_action(place, tmp_path, "instances/webui", "state")["notes"]
    edit(
        place.root,
        "tenants/studio-kite/instances/webui.yaml",
        "spec:\n",
        "spec:\n  hold:\n    reason: It sends spam.\n",
    )
    place.merge()
    for name in ("state", "restart", "delete"):
        with pytest.raises(KeyError, match=name):
            read_action(place, tmp_path, "instances/webui", name)
    page = (tmp_path / "site/tenants/studio-kite/instances/webui.html").read_text(encoding="utf-8")
    assert "Only the platform team ends the hold, or deletes the instance." in page
