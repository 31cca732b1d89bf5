"""Where the running program comes from: what pip recorded of it, or the remote and the commit of a checkout."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.support.published import git

from allotment.adapters.installed import checkout_address, installed_address, without_password

SHA = 40 * "a"


def recorded(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    class Recorded:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return text

    def distribution(name: str) -> Any:
        return Recorded()

    monkeypatch.setattr(metadata, "distribution", distribution)


@pytest.mark.parametrize(
    ("direct_url", "address"),
    [
        (
            {"url": "https://bot:key@git.acme.dev/allotment", "vcs_info": {"vcs": "git", "commit_id": SHA}},
            f"git+https://git.acme.dev/allotment@{SHA}",
        ),
        (
            {"url": "https://files.acme.dev/a.whl", "archive_info": {"hashes": {"sha256": 64 * "b"}}},
            f"https://files.acme.dev/a.whl#sha256={64 * 'b'}",
        ),
        ({"url": "https://files.acme.dev/a.whl", "archive_info": {}}, ""),
        ({"url": "file:///nowhere/at/all", "dir_info": {"editable": True}}, ""),
        ({}, ""),
        ([], ""),
        ({"url": 3, "archive_info": {"hashes": None}}, ""),
        ({"url": "x", "archive_info": [1]}, ""),
    ],
    ids=["commit", "wheel", "wheel without a hash", "folder without Git", "index", "no mapping", "no hashes", "a list"],
)
def test_installed_address_reads_pip_records(direct_url: object, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, json.dumps(direct_url))
    assert installed_address() == address


def test_a_record_that_is_missing_or_damaged_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (None, "{"):
        recorded(monkeypatch, text)
        assert installed_address() == ""


def test_a_checkout_has_the_address_of_its_commit_once_its_remote_has_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "there.git")
    git(tmp_path, "init", "-q", "-b", "main", "here")
    here = tmp_path / "here"
    git(here, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "Begin")
    assert checkout_address(here) == "", "it has no remote"
    git(here, "remote", "add", "origin", str(tmp_path / "there.git"))
    assert checkout_address(here) == "", "the remote does not have the commit"
    git(here, "push", "-q", "origin", "main")
    git(here, "remote", "set-url", "origin", "git@git.acme.dev:acme/allotment.git")
    commit = git(here, "rev-parse", "HEAD").strip()
    assert checkout_address(here) == f"git+ssh://git@git.acme.dev/acme/allotment.git@{commit}"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://ann:secret@git.acme.dev:8443/a.git", "https://git.acme.dev:8443/a.git"),
        ("ssh://git:secret@git.acme.dev/a.git", "ssh://git@git.acme.dev/a.git"),
        ("git@git.acme.dev:acme/a.git", "ssh://git@git.acme.dev/acme/a.git"),
    ],
)
def test_an_address_has_no_password(url: str, address: str) -> None:
    assert without_password(url) == address
