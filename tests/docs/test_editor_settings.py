"""The settings for editors are well formed, start `allot lsp`, and are those of the guide."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from tests.conftest import PROJECT

EDITORS = PROJECT / "editors"
GUIDE = (PROJECT / "docs/guides/editor.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["neovim/allot.lua", "helix/languages.toml"])
def test_the_guide_shows_the_file(path: str) -> None:
    (block,) = re.findall(rf'^```\w+ title="editors/{path}"\n(.*?)^```$', GUIDE, re.MULTILINE | re.DOTALL)
    assert block == (EDITORS / path).read_text(encoding="utf-8")


def test_helix_starts_the_server_for_yaml() -> None:
    settings = tomllib.loads((EDITORS / "helix/languages.toml").read_text(encoding="utf-8"))
    server = settings["language-server"]["allot"]
    assert [server["command"], *server["args"]] == ["allot", "lsp"]
    assert settings["language"] == [{"name": "yaml", "language-servers": ["allot"]}]


def test_a_repository_cannot_choose_the_program_that_vs_code_starts() -> None:
    manifest = json.loads((EDITORS / "vscode/package.json").read_text(encoding="utf-8"))
    settings = manifest["contributes"]["configuration"]["properties"]
    assert {name: (setting["default"], setting["scope"]) for name, setting in settings.items()} == {
        "allotment.command": ("allot", "machine"),
        "allotment.arguments": ([], "machine"),
    }
    assert manifest["capabilities"]["untrustedWorkspaces"] == {"supported": False}
    assert 'args: ["lsp", ...settings.get("arguments")]' in (EDITORS / "vscode" / manifest["main"]).read_text(
        encoding="utf-8"
    )
