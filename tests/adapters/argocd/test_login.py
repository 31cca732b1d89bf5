"""Whose token goes to which Argo CD: the login of the declared server, and never that of another server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.adapters.argocd.login import ArgoCDLogin, find_login
from allotment.problems import OperationRefused

DECLARED = "https://argocd.northlight.example/"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the configuration of `argocd` with two logins; a test changes it and writes it with `write`."""
    for name in ("ARGOCD_AUTH_TOKEN", "ARGOCD_SERVER", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ARGOCD_CONFIG_DIR", str(tmp_path))
    return {
        "current-context": "other.example",
        "contexts": [
            {"name": "other.example", "server": "other.example", "user": "other.example"},
            {"name": "north", "server": "argocd.northlight.example:443", "user": "ada"},
        ],
        "servers": [{"server": "other.example", "insecure": True}, {"server": "argocd.northlight.example:443"}],
        "users": [{"name": "other.example", "auth-token": "theirs"}, {"name": "ada", "auth-token": "mine"}],
    }


def write(folder: Path, config: object) -> None:
    """Write the configuration of `argocd`."""
    (folder / "config").write_text(config if isinstance(config, str) else yaml.safe_dump(config), encoding="utf-8")


def test_the_declared_server_gets_its_own_token(config: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, config)
    assert find_login(DECLARED) == ArgoCDLogin("https://argocd.northlight.example:443", "mine", True)


def test_without_a_declared_server_the_current_context_counts(config: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, config)
    assert find_login("") == ArgoCDLogin("https://other.example", "theirs", False)


def test_another_server_gives_no_login(config: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, config)
    assert find_login("https://third.example") is None
    assert find_login("https://argocd.northlight.example:8443") is None


def test_a_user_without_a_token_has_no_login(config: dict[str, Any], tmp_path: Path) -> None:
    del config["users"][1]["auth-token"]
    write(tmp_path, config)
    assert find_login(DECLARED) is None


def test_plain_text_and_a_path_make_the_url(config: dict[str, Any], tmp_path: Path) -> None:
    config["servers"][1].update({"plain-text": True, "grpc-web-root-path": "/argo/"})
    write(tmp_path, config)
    assert find_login(DECLARED) == ArgoCDLogin("http://argocd.northlight.example:443/argo", "mine", True)


def test_a_token_in_the_environment_goes_to_the_server_in_the_environment_only(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, config)
    monkeypatch.setenv("ARGOCD_AUTH_TOKEN", "from-ci")
    assert find_login("https://evil.example") is None
    monkeypatch.setenv("ARGOCD_SERVER", "argo.example")
    assert find_login(DECLARED) == ArgoCDLogin("https://argo.example", "from-ci")
    monkeypatch.setenv("ARGOCD_SERVER", "[::1")
    with pytest.raises(OperationRefused, match="is no URL of a server: correct ARGOCD_SERVER"):
        find_login(DECLARED)


def test_no_configuration_is_no_login(config: dict[str, Any]) -> None:
    assert find_login(DECLARED) is None


@pytest.mark.parametrize("text", ["", "[]", "contexts: 3", "contexts: [3]\nservers: {}\n", "contexts: [{server: 3}]"])
def test_a_strange_configuration_is_no_login(text: str, config: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, text)
    assert find_login(DECLARED) is None


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "auth-token: *S3cretTokenOfAda", "auth-token: !S3cretTokenOfAda x"]
)
def test_an_unreadable_configuration_is_named(text: str, config: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, text)
    with pytest.raises(OperationRefused, match="the configuration of argocd, is no YAML: log in again") as refused:
        find_login(DECLARED)
    assert ("\n" in str(refused.value), "S3cret" in str(refused.value)) == (False, False)


def test_white_space_around_a_token_is_no_part_of_it(config: dict[str, Any], tmp_path: Path) -> None:
    config["users"][0]["auth-token"] += "\n"
    write(tmp_path, config)
    login = find_login("")
    assert login is not None
    assert login.token == "theirs"


def test_a_token_that_no_header_can_have_is_refused_without_showing_it(config: dict[str, Any], tmp_path: Path) -> None:
    config["users"][0]["auth-token"] = "s3cret\nsecond"
    write(tmp_path, config)
    with pytest.raises(OperationRefused) as caught:
        find_login("")
    assert "the token for Argo CD has a character that a header can't have" in str(caught.value)
    assert "s3cret" not in str(caught.value)
