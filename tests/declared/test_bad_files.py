"""Every file in `bad/` gives exactly the lines beside it, under libyaml's parser and under the pure one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import golden

from allotment.declared import documents
from allotment.declared.kinds import KINDS
from allotment.declared.layout import Scope, parse_path, path_of
from allotment.declared.reading import read_declaration

BAD = Path(__file__).parent / "bad"
NAMES = {
    "AddOn": "add-on",
    "App": "app",
    "Cluster": "eu-1",
    "GPUInstance": "webui",
    "GPUSpec": "spec",
    "GPUStorage": "models",
    "GPUStorageSnapshot": "before",
    "Members": "acme",
    "NodePool": "pool",
    "Platform": "platform",
    "SecretReference": "huggingface",
    "Stock": "stock",
    "StorageSpec": "block",
    "Tenant": "acme",
}


def spoken(file: Path) -> str:
    kind = file.stem.split("-")[0] if file.stem.split("-")[0] in KINDS else "GPUInstance"
    scope = Scope(KINDS[kind].scope, {"tenant": "acme", "cluster": "eu-1", "platform": ""}[KINDS[kind].scope])
    path = path_of(kind, scope, NAMES.get(kind, "example"))
    spot = parse_path(path)
    assert isinstance(spot, tuple)
    declared, problems = read_declaration(path, file.read_bytes(), spot)
    assert declared is None
    return "".join(f"{problem}\n" for problem in sorted(problems))


@pytest.mark.parametrize("file", sorted(BAD.glob("*.yaml")), ids=lambda file: file.stem)
def test_bad_file_says_exactly_what_is_wrong(file: Path) -> None:
    message = spoken(file)
    assert message
    golden(file.with_suffix(".txt"), message)


@pytest.mark.parametrize("file", sorted(BAD.glob("*.yaml")), ids=lambda file: file.stem)
def test_pure_parser_gives_the_same_verdict(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = spoken(file)
    monkeypatch.setattr(documents, "PARSER", documents._PureParser)
    assert spoken(file) == message
