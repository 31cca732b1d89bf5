"""`merge_verdict` says which changes of a form can merge by themselves, and why the others wait for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import edit
from tests.portal.pages.page_text import read_facts
from tests.portal.pages.sample_site import build, create_place
from tests.support.published import Place

KITE = "tenants/studio-kite"
WAITS = "This change waits for a merge by a person:"
UNLISTED = f"{WAITS} the tariff plan team doesn't list"
QUOTA = f"{WAITS} no tenant changes its quota alone."


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = create_place(tmp_path / "place")
    policy = 'spec:\n  selfService:\n    changes: [Change, Create, Start, Stop]\n    maxMonthlyCost: "500"\n'
    edit(place.root, "platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n")
    edit(place.root, "platform/plans/team.yaml", "spec:\n", policy)
    return place


def read_form(place: Place, folder: Path, page: str) -> dict[str, Any]:
    """Return the facts of a form of a tenant."""
    place.merge()
    build(place, folder / "site", tenant="studio-kite")
    return read_facts(folder / f"site/{KITE}/{page}.html")


def list_verdicts(place: Place, folder: Path, page: str) -> dict[str, str]:
    """Return the verdict of each change of a form."""
    return {name: action["verdict"] for name, action in read_form(place, folder, page)["actions"].items()}


@pytest.mark.parametrize(
    ("page", "verdicts"),
    [
        (
            "instances/webui",
            dict.fromkeys(("state", "restart", "resize", "app", "mount", "unmount", "ssh"), "")
            | {"delete": f"{UNLISTED} Delete."},
        ),
        (
            "storages/outputs",
            {
                "grow": f"{UNLISTED} Grow.",
                "snapshot": f"{UNLISTED} Snapshot.",
                "clone": "",
                "share": f"{UNLISTED} Access.",
                "accessor": "",
            }
            | {"delete": f"{UNLISTED} Delete."},
        ),
        ("members", dict.fromkeys(("add", "role", "remove", "key"), f"{UNLISTED} Members.")),
        ("new-secret", {"secret": ""}),
        ("index", {"quota": QUOTA, "spec": QUOTA}),
    ],
)
def test_each_change_has_its_own_verdict(place: Place, tmp_path: Path, page: str, verdicts: dict[str, str]) -> None:
    assert list_verdicts(place, tmp_path, page) == verdicts


def test_the_form_of_a_new_instance_knows_the_limit_of_the_cost(place: Place, tmp_path: Path) -> None:
    facts = read_form(place, tmp_path, "new-instance")
    assert (facts["verdict"], facts["costLimit"]) == ("", "500")


def test_the_merge_that_deletes_data_always_waits(place: Place, tmp_path: Path) -> None:
    edit(place.root, "platform/plans/team.yaml", "[Change, ", "[Delete, Change, ")
    assert list_verdicts(place, tmp_path, "storages/outputs")["delete"] == ""
    edit(place.root, f"{KITE}/storages/outputs.yaml", "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    assert list_verdicts(place, tmp_path, "storages/outputs")["delete"] == f"{WAITS} it deletes the data."


def test_without_the_policy_a_person_merges_each_change(place: Place, tmp_path: Path) -> None:
    edit(place.root, "platform/platform.yaml", "selfService: Enabled", "selfService: Disabled")
    person = "A person with the right to merge merges it. It needs"
    for page, who in (("instances/webui", "a Member or Admin"), ("members", "an Admin")):
        verdicts = set(list_verdicts(place, tmp_path, page).values())
        assert verdicts == {f"{person} {who} of studio-kite as its author, or as an approver."}
    edit(
        place.root,
        "platform/ownership.yaml",
        "    - path: tenants/*/members.yaml\n      approvers:\n        - tenantRole: Admin\n",
        "",
    )
    assert set(list_verdicts(place, tmp_path, "members").values()) == {"A person with the right to merge merges it."}


@pytest.mark.parametrize(
    ("path", "old", "new", "reason"),
    [
        (
            "platform/ownership.yaml",
            "  paths:\n",
            "  paths:\n    - path: tenants/*/instances/*.yaml\n      approvers: [{team: platform}]\n      selfService: Disabled\n",
            "the Ownership excludes its file from self service",
        ),
        (f"{KITE}/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n", "the tenant is Suspended"),
    ],
)
def test_a_verdict_names_what_keeps_a_file_from_self_service(
    place: Place, tmp_path: Path, path: str, old: str, new: str, reason: str
) -> None:
    edit(place.root, path, old, new)
    assert list_verdicts(place, tmp_path, "instances/webui")["restart"] == f"{WAITS} {reason}."


def test_a_change_that_erases_a_folder_of_the_app_waits(place: Place, tmp_path: Path) -> None:
    mount = "    - name: outputs\n      mountPath: /workspace/outputs\n"
    edit(place.root, f"{KITE}/instances/webui.yaml", mount, "")
    reason = f"{WAITS} it erases folders of the app that are on no storage."
    verdicts = list_verdicts(place, tmp_path, "instances/webui")
    assert {verdicts[name] for name in ("state", "restart", "resize", "mount")} == {reason}
    assert list_verdicts(place, tmp_path, "instances/comfy")["state"] == "", "its folder is on a storage"


def test_the_plan_decides_where_the_ownership_excludes_a_field(place: Place, tmp_path: Path) -> None:
    rule = "    - {kind: GPUInstance, field: spec.gpuSpec, approvers: [{tenantRole: Member}], selfService: Disabled}\n"
    edit(place.root, "platform/ownership.yaml", "  fields:\n", f"  fields:\n{rule}")
    doubt = "The plan says whether this change can merge by itself: the Ownership excludes spec.gpuSpec."
    assert list_verdicts(place, tmp_path, "instances/webui")["resize"] == doubt
    assert list_verdicts(place, tmp_path, "storages/outputs")["clone"] == ""


def test_the_plan_decides_where_an_app_has_a_public_page(place: Place, tmp_path: Path) -> None:
    edit(place.root, "platform/apps/jupyter.yaml", "exposure: Members", "exposure: Public")
    verdict = "The plan says whether this change can merge by itself: an app with a public page needs Access."
    assert read_form(place, tmp_path, "new-instance")["verdict"] == verdict
