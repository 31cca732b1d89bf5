"""`allot portal build --pending` lists the open pull requests of each tenant with the verdicts of their plans."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from tests.adapters.forge.server import REPOSITORY, TOKEN
from tests.conftest import Allot, Result
from tests.support.comment_desk import Desk, desk, on_each_forge
from tests.support.pending_proposals import find_urls, propose_new
from tests.support.published import INSTANCE, git

from allotment.adapters import forge
from allotment.adapters.forge.forge import CommitStatus, Token

__all__ = ["desk"]


@pytest.fixture
def build(desk: Desk, allot: Allot, tmp_path: Path) -> Allot:
    def run(*words: object) -> Result:
        api = ("--pending", "--forge-api", desk.world.api)
        return allot("portal", "build", "--out", tmp_path / "site", "--repo", desk.place.root, *api, *words)

    return run


def read_rows(tmp_path: Path, tenant: str) -> list[str]:
    """Return the rows of open pull requests on the page of a tenant."""
    page = (tmp_path / f"site/tenants/{tenant}/index.html").read_text(encoding="utf-8")
    section = page.partition('id="pull-requests"')[2].partition("<h2")[0]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", section, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in rows]


@on_each_forge
def test_each_tenant_has_its_pull_requests_with_their_verdicts(desk: Desk, build: Allot, tmp_path: Path) -> None:
    propose_new(desk, 1, "tenants/solo-ada/instances/notebook.yaml", INSTANCE.format(name="notebook", labels=""))
    desk.propose(2, "l4-quarter", "l4-whole")
    connection = forge.connect(desk.world.kind, f"https://forge.example/{REPOSITORY}", Token(TOKEN), desk.world.api)
    heads = {request.number: request.head for request in connection.open_pull_requests("main")}
    connection.set_status(
        heads[2],
        CommitStatus("allot/plan", "failure", "can't be merged", connection.identity(), "https://forge.example"),
    )
    result = build()
    assert result.code == 0, result.err
    assert read_rows(tmp_path, "solo-ada") == [
        "#1 add GPUInstance notebook no plan yet",
        "#2 change GPUInstance webui can't be merged",
    ]
    page = (tmp_path / "site/tenants/solo-ada/index.html").read_text(encoding="utf-8")
    assert all(f'href="{url}"' in page for url in find_urls(desk).values())
    assert read_rows(tmp_path, "uni-lab") == []


def test_a_pull_request_of_two_tenants_shows_each_its_own_changes(desk: Desk, build: Allot, tmp_path: Path) -> None:
    root = desk.place.root
    git(root, "checkout", "-q", "-B", "change-1")
    for tenant in ("solo-ada", "uni-lab"):
        path = root / f"tenants/{tenant}/instances/notebook-{tenant[:3]}.yaml"
        path.write_text(INSTANCE.format(name=f"notebook-{tenant[:3]}", labels=""), encoding="utf-8")
    git(root, "add", "-A")
    desk.open(1, "ada-k")
    assert build().code == 0
    assert read_rows(tmp_path, "solo-ada") == ["#1 add GPUInstance notebook-sol no plan yet"]
    assert read_rows(tmp_path, "uni-lab") == ["#1 add GPUInstance notebook-uni no plan yet"]


def test_without_the_forge_the_other_pages_are_built(desk: Desk, build: Allot, tmp_path: Path) -> None:
    desk.world.close()
    result = build()
    assert result.code == 0, result.err
    assert "the open pull requests can't be read" in result.err
    assert (tmp_path / "site/tenants/solo-ada/index.html").exists()


def test_without_a_token_it_is_an_error(desk: Desk, build: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALLOT_FORGE_TOKEN")
    result = build()
    assert result.code == 2
    assert "The token of the forge is missing" in result.err
