"""`accessor_action` offers the other modes of a storage's page, and names the reasons against each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import edit
from tests.portal.pages.page_text import read_facts
from tests.portal.pages.sample_site import build, create_place
from tests.support.published import Place

STORAGE = "tenants/studio-kite/storages/outputs.yaml"
EXPOSURE = "    exposure: Members\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return create_place(tmp_path_factory.mktemp("portal"))


def read_actions(place: Place, folder: Path, storage: str = "outputs") -> dict[str, Any]:
    """Return the changes of a storage that its page offers."""
    build(place, folder / "site", tenant="studio-kite")
    actions: dict[str, Any] = read_facts(folder / f"site/tenants/studio-kite/storages/{storage}.html")["actions"]
    for action in actions.values():
        action["variants"] = {mode: action | variant for mode, variant in action["variants"].items()}
    return actions


def test_a_storage_with_a_page_can_change_its_mode_or_lose_it(place: Place, tmp_path: Path) -> None:
    variants = read_actions(place, tmp_path)["accessor"]["variants"]
    assert {
        mode: (each["command"][2:-1], each["text"], each["instruction"].split()[1]) for mode, each in variants.items()
    } == {
        "ReadWrite": (
            ["storage/studio-kite/outputs", "accessor.mode=ReadWrite"],
            "    mode: ReadWrite",
            "set",
        ),
        "Off": (["storage/studio-kite/outputs", "accessor-"], "  accessor:\n    exposure: Members", "remove"),
    }
    assert [each["barriers"] for each in variants.values()] == [[], []]


def test_a_storage_without_a_page_can_have_a_page(place: Place, tmp_path: Path) -> None:
    variants = read_actions(place, tmp_path, "base")["accessor"]["variants"]
    assert list(variants) == ["ReadOnly", "ReadWrite"]
    assert variants["ReadOnly"]["notes"] == [
        "Members of the tenant, after login, can open the page.",
        "Nobody can change files on the page.",
    ]


@pytest.mark.parametrize(
    ("path", "change", "problems"),
    [
        (
            STORAGE,
            (EXPOSURE, "    exposure: Public\n"),
            [
                "Your tariff plan doesn't allow the exposure Public.",
                "The exposure of the page is Public, so anyone could change the files: first set the exposure Members.",
            ],
        ),
        (
            STORAGE,
            (EXPOSURE, f"{EXPOSURE}  sharedWith:\n    - tenants: All\n"),
            ["Other tenants may copy this storage, so nobody can change its files on a page: choose ReadOnly."],
        ),
        (
            "platform/plans/team.yaml",
            ("    exposure:\n      - Members\n", ""),
            ["Your tariff plan doesn't allow the exposure Members."],
        ),
    ],
)
def test_a_page_that_the_rules_refuse_names_the_reason(
    place: Place, tmp_path: Path, path: str, change: tuple[str, str], problems: list[str]
) -> None:
    copy = place.copy(tmp_path)
    edit(copy.root, path, *change)
    copy.merge()
    assert read_actions(copy, tmp_path)["accessor"]["variants"]["ReadWrite"]["barriers"] == problems


def test_a_tenant_without_members_can_have_no_page(place: Place, tmp_path: Path) -> None:
    copy = place.copy(tmp_path)
    (copy.root / "tenants/studio-kite/members.yaml").unlink()
    copy.merge()
    variants = read_actions(copy, tmp_path)["accessor"]["variants"]
    assert {mode: each["barriers"] for mode, each in variants.items()} == {
        "ReadWrite": ["Nobody could log in to the page: first add a member with a subject."],
        "Off": [],
    }


def remove_image(root: Path) -> None:
    text = (root / "platform/platform.yaml").read_text(encoding="utf-8")
    start = text.index("  images:\n")
    (root / "platform/platform.yaml").write_text(text[:start] + text[text.index("  argocd:") :], encoding="utf-8")


def choose_bucket(root: Path) -> None:
    edit(root, STORAGE, "shared-files", "objects")


@pytest.mark.parametrize("change", [remove_image, choose_bucket])
def test_a_bucket_and_a_platform_without_the_image_have_no_page(
    place: Place, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    copy = place.copy(tmp_path)
    change(copy.root)
    copy.merge()
    assert "accessor" not in read_actions(copy, tmp_path)
