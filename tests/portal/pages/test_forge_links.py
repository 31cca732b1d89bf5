"""The addresses of files, commits and editors at each forge."""

from __future__ import annotations

import pytest

from allotment.declared.forges import FORGES
from allotment.portal.pages.forge_links import ForgeLinks

URL = "https://git.example/team/cloud.git"


@pytest.mark.parametrize(
    ("forge", "commit", "file", "editor", "removal", "new"),
    [
        (
            "GitHub",
            "/commit/abc",
            "/blob/main/a%20b.yaml",
            "/edit/main/a%20b.yaml",
            "/delete/main/a%20b.yaml",
            "/new/main",
        ),
        (
            "GitLab",
            "/-/commit/abc",
            "/-/blob/main/a%20b.yaml",
            "/-/edit/main/a%20b.yaml",
            "/-/blob/main/a%20b.yaml",
            "/-/new/main",
        ),
        (
            "Gitea",
            "/commit/abc",
            "/src/branch/main/a%20b.yaml",
            "/_edit/main/a%20b.yaml",
            "/_delete/main/a%20b.yaml",
            "/_new/main",
        ),
        (
            "Forgejo",
            "/commit/abc",
            "/src/branch/main/a%20b.yaml",
            "/_edit/main/a%20b.yaml",
            "/_delete/main/a%20b.yaml",
            "/_new/main",
        ),
    ],
)
def test_addresses(forge: str, commit: str, file: str, editor: str, removal: str, new: str) -> None:
    links = ForgeLinks.of_repository(forge, URL, "main")
    base = "https://git.example/team/cloud"
    assert links.commit("abc") == base + commit
    assert links.file("a b.yaml") == base + file
    assert links.editor("a b.yaml") == base + editor
    assert links.removal("a b.yaml") == base + removal
    assert links.new_file == base + new
    assert links.name == "team/cloud"


def test_gitlab_takes_no_content_of_a_new_file() -> None:
    fields = {forge: ForgeLinks.of_repository(forge, URL, "main").new_file_fields for forge in FORGES}
    assert fields.pop("GitLab") == ("file_name", "")
    assert set(fields.values()) == {("filename", "value")}


def test_a_branch_with_a_slash_keeps_it() -> None:
    assert ForgeLinks.of_repository("Gitea", URL, "live/2026 a").file("x").endswith("/src/branch/live/2026%20a/x")


def test_the_list_of_pull_requests() -> None:
    assert ForgeLinks.of_repository("GitLab", URL, "main").pull_requests.endswith("/-/merge_requests")
    assert ForgeLinks.of_repository("Gitea", URL, "main").pull_requests.endswith("/pulls")
