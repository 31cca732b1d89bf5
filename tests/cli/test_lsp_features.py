"""What `allot lsp` offers at a position: completion, hover, corrections and formatting."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest
from tests.conftest import PROJECT, ROOTS, edit
from tests.support.editor import Editor, Json

from allotment.declared.formatting import format_declaration

WEBUI = "tenants/solo-ada/instances/webui.yaml"
STORAGE = "tenants/solo-ada/storages/models.yaml"
VERSIONS = count(2)
OPENED: set[str] = set()
NOWHERE = {"line": 0, "character": 0}


class Here(NamedTuple):
    """A document in which `|` marked the position."""

    editor: Editor
    path: str
    text: str
    line: int
    character: int
    diagnostics: list[Json]

    def request(self, method: str) -> Json:
        result: Json = self.editor.request(method, self.editor.at(self.path, self.line, self.character))
        return result

    def completions(self) -> dict[str, str]:
        """Return the document after each completion, by label."""
        return {each["label"]: apply(self.text, [each["textEdit"]]) for each in self.request("textDocument/completion")}

    def lines(self) -> dict[str, str]:
        """Return the line of the cursor after each completion, by label."""
        return {label: text.split("\n")[self.line] for label, text in self.completions().items()}

    def hover(self) -> str:
        return str(self.request("textDocument/hover")["contents"]["value"])

    def actions(self) -> dict[str, str]:
        """Return the document after each correction, by title."""
        result = self.editor.request(
            "textDocument/codeAction",
            {
                "textDocument": {"uri": self.editor.uri(self.path)},
                "range": self.diagnostics[0]["range"] if self.diagnostics else {"start": NOWHERE, "end": NOWHERE},
                "context": {"diagnostics": self.diagnostics},
            },
        )
        return {each["title"]: apply(self.text, each["edit"]["changes"][self.editor.uri(self.path)]) for each in result}


def apply(text: str, edits: list[Json]) -> str:
    """Return a text after edits, which count UTF-16 units."""
    lines = text.split("\n")

    def offset(position: Json) -> int:
        line = lines[position["line"]].encode("utf-16-le")
        inner = len(line[: 2 * position["character"]].decode("utf-16-le"))
        return sum(len(each) + 1 for each in lines[: position["line"]]) + inner

    (change,) = edits
    return text[: offset(change["range"]["start"])] + change["newText"] + text[offset(change["range"]["end"]) :]


@pytest.fixture(scope="module")
def shared_editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """Return an editor that all tests of this module share: none of them saves."""
    root = tmp_path_factory.mktemp("features")
    for name in ROOTS:
        shutil.copytree(PROJECT / name, root / name)
    edit(
        root,
        "platform/specs/l4-whole.yaml",
        "spec:\n",
        'spec:\n  description: "![x](https://evil.example/x.png) <b>"\n',
    )
    with Editor(root) as client:
        yield client
    assert (client.process.returncode, client.errors) == (0, "")


@pytest.fixture
def editor(shared_editor: Editor) -> Iterator[Editor]:
    """Return the shared editor, and close the documents of the test at its end."""
    yield shared_editor
    for path in OPENED:
        shared_editor.close(path)
    OPENED.clear()


def at(editor: Editor, old: str, new: str, path: str = WEBUI) -> Here:
    """Replace a text of a file in the editor. `|` in the new text is the position."""
    text = (editor.here / path).read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    marked_text = text.replace(old, new)
    offset = marked_text.index("|") if "|" in new else 0
    text = marked_text.replace("|", "", 1) if "|" in new else marked_text
    version = next(VERSIONS)
    editor.open(path, text, version)
    OPENED.add(path)
    diagnostics = editor.await_diagnostics(path, version)
    before = text[:offset]
    return Here(editor, path, text, before.count("\n"), offset - before.rfind("\n") - 1, diagnostics)


@pytest.mark.process
def test_names_of_the_catalog_are_completed(editor: Editor) -> None:
    assert at(editor, "gpuSpec: l4-quarter", "gpuSpec: |").lines()["l4-half"] == "  gpuSpec: l4-half"
    assert at(editor, "gpuSpec: l4-quarter", "gpuSpec:|").lines()["l4-half"] == "  gpuSpec: l4-half"
    assert at(editor, "gpuSpec: l4-quarter", "gpuSpec: l4-|quarter").lines()["l4-half"] == "  gpuSpec: l4-half"
    assert list(at(editor, "cluster: eu-1", "cluster: |").lines()) == ["eu-1", "us-1"]
    assert "comfyui" in at(editor, "name: stable-diffusion-webui", "name: |").lines()
    assert list(at(editor, "- name: models", "- name: |").lines()) == ["models", "styles"]
    assert "block-ssd" in at(editor, "storageSpec: block-ssd", "storageSpec: |", STORAGE).lines()
    plans = at(editor, "plan: starter", "plan: |", "tenants/solo-ada/tenant.yaml").lines()
    assert plans["starter"] == "  plan: starter"
    pools = at(editor, "nodePool: l4-ts4", "nodePool: |", "clusters/eu-1/stocks/l4-quarter.yaml").lines()
    assert "l4-ts4" in pools


def test_versions_are_quoted_and_folders_are_those_of_the_app(editor: Editor) -> None:
    assert at(editor, 'version: "1.11.0"', 'version: "1.|').lines() == {
        "1.11.0": '    version: "1.11.0"',
        "1.10.1": '    version: "1.10.1"',
    }
    assert next(iter(at(editor, 'version: "1.11.0"', "version: |").lines().values())) == '    version: "1.11.0"'
    assert at(editor, "mountPath: /workspace", "mountPath: |").lines()


def test_fields_and_their_values_are_completed(editor: Editor) -> None:
    lines = at(editor, "  gpuSpec: l4-quarter\n", "  |\n").lines()
    assert (lines["gpuSpec"], lines["container"]) == ("  gpuSpec: ", "  container:")
    assert "cluster" not in lines, "it is there"
    assert list(at(editor, "spec:\n", "spec:\n  state: |\n").lines()) == ["Running", "Stopped"]
    assert at(editor, "spec:\n", "spec:\n  spread: [|]\n").lines()["Nodes"] == "  spread: [Nodes]"
    assert at(editor, "spec:\n", "spec:\n  buckets:\n    |\n").lines()["name"] == "    - name: "
    assert "read" not in at(editor, "mountPath: /workspace", "mountPath: /workspace\n      rea|").lines()
    lines = at(editor, "mountPath: /workspace", "mountPath: /workspace\n      readOnly: |").lines()
    assert list(lines.values()) == ["      readOnly: true", "      readOnly: false"]
    assert at(editor, "kind: GPUInstance", "kind: |").lines() == {"GPUInstance": "kind: GPUInstance"}
    assert at(editor, "name: webui", "name: |").lines() == {"webui": "  name: webui"}


def test_a_completed_name_shows_its_price_and_free_units(editor: Editor) -> None:
    items = at(editor, "gpuSpec: l4-quarter", "gpuSpec: |").request("textDocument/completion")
    details = {item["label"]: item["detail"] for item in items}
    assert details["l4-quarter"] == "0.21 EUR per hour; 24 of 40 units free in eu-1"
    assert details["h100-eight"] == "26.00 EUR per hour; no units in eu-1"
    names = list(details)
    assert names.index("h100-eight") > names.index("l4-whole"), "specs with free units come first"


def test_a_storage_of_another_cluster_is_not_completed(editor: Editor) -> None:
    assert "models" in at(editor, "- name: models", "- name: |").lines()
    text = (editor.here / WEBUI).read_text(encoding="utf-8")
    moved = text.replace("cluster: eu-1", "cluster: us-1").replace("- name: models", "- name: |")
    assert at(editor, text, moved).lines() == {}


def test_hover_shows_prices_units_and_documentation(editor: Editor) -> None:
    text = at(editor, "gpuSpec: l4-quarter", "gpuSpec: l4|-quarter").hover()
    assert text.startswith("**GPUSpec l4-quarter**\n\nA quarter of an L4\n\n")
    assert "- 0.21 EUR per hour\n- 23 of 40 units free in eu-1\n" in text
    assert (
        "EUR per GiB and month\n- " in at(editor, "storageSpec: block-ssd", "storageSpec: bl|ock-ssd", STORAGE).hover()
    )
    assert "version 1.10.1 (Deprecated)" in at(editor, "name: stable", "name: s|table").hover()
    assert at(editor, "gpuSpec:", "gpu|Spec:").hover() == (
        "**spec.gpuSpec**: text, required, 1 to 64 characters\n\n"
        "The name of the GPUSpec whose unit each replica holds. It sets GPU, CPU, memory, disk and price."
    )
    assert "The path in the container" in at(editor, "mountPath:", "mount|Path:").hover()


def test_a_description_loads_nothing_and_names_no_other_tenant(editor: Editor) -> None:
    text = at(editor, "gpuSpec: l4-quarter", "gpuSpec: l4-wh|ole").hover()
    assert "\\!\\[x\\](https://evil.example/x.png) \\<b\\>" in text
    others = {path.name for path in (editor.here / "tenants").iterdir()} - {"solo-ada"}
    items = at(editor, "gpuSpec: l4-quarter", "gpuSpec: |").request("textDocument/completion")
    assert len(items) > 5
    assert [name for name in others if name in f"{items}{text}"] == []


def test_a_wrong_name_is_replaced_by_a_known_name(editor: Editor) -> None:
    text = (editor.here / WEBUI).read_text()
    for old, new, title in (
        ("l4-quarter", "l4-quater", "Replace by l4-quarter"),
        ("cluster: eu-1", "cluster: eu1", "Replace by eu-1"),
        ("gpuSpec:", "gpuSpek:", "Replace by gpuSpec"),
        ("kind: GPUInstance", "kind: GPUStorage", "Replace by GPUInstance"),
        ("name: webui", "name: webapp", "Replace by webui"),
        ("allotment.dev/v1alpha1", "allotment.dev/v1", "Replace by allotment.dev/v1alpha1"),
        ('"1.11.0"', '"1.11.1"', "Replace by 1.11.0"),
        ("- name: models", "- name: model", "Replace by models"),
    ):
        here = at(editor, old, new)
        assert here.actions()[title] == text, (title, here.diagnostics)
    running = at(editor, "spec:\n", "spec:\n  state: running\n").actions()
    assert running["Replace by Running"] == text.replace("spec:\n", "spec:\n  state: Running\n")


def test_missing_quotes_are_added(editor: Editor) -> None:
    here = at(editor, '"1.11.0"', "1.10 # \N{ROCKET}")
    assert here.actions()["Correct the notation of all values"] == here.text.replace("1.10 ", '"1.10" ')


def test_a_document_is_formatted_as_fmt_formats_it(editor: Editor) -> None:
    here = at(editor, "  cluster: eu-1\n  gpuSpec: l4-quarter\n", "  gpuSpec: l4-quarter\n  cluster:   eu-1 # here\n")
    edits = editor.request(
        "textDocument/formatting",
        {"textDocument": {"uri": editor.uri(WEBUI)}, "options": {"tabSize": 2, "insertSpaces": True}},
    )
    expected = format_declaration(WEBUI, here.text.encode(), fix=False)[0].decode()
    assert apply(here.text, edits) == expected != here.text
    assert here.actions()["Format as allot fmt --fix does"] == expected
    broken = at(editor, "spec:", "spec: [")
    assert (
        editor.request(
            "textDocument/formatting",
            {"textDocument": {"uri": editor.uri(WEBUI)}, "options": {"tabSize": 2, "insertSpaces": True}},
        )
        == []
    ), broken.text


@pytest.mark.parametrize(
    "garbage", ["", "[" * 9999, "\0", "a: \ud800", "x" * 300_000, "!!python/object:os.system x", "a:\n\t|"]
)
def test_garbage_has_nothing_to_offer(editor: Editor, garbage: str) -> None:
    version = next(VERSIONS)
    editor.open(WEBUI, garbage, version)
    OPENED.add(WEBUI)
    diagnostics = editor.await_diagnostics(WEBUI, version)
    here = Here(editor, WEBUI, garbage, 0, 1, diagnostics)
    assert diagnostics
    for line, character in ((0, 0), (0, 1), (5, 5), (99_999, 99_999)):
        place = here._replace(line=line, character=character)
        for method in ("textDocument/completion", "textDocument/hover"):
            place.request(method)
    assert isinstance(here.actions(), dict)


@pytest.mark.process
def test_other_documents_have_nothing_to_offer(editor: Editor) -> None:
    for path in ("README.md", "tenants/solo-ada/README.md", "tenants/solo-ada/x/y/z.yaml", "argo/x.yaml"):
        editor.open(path, "kind: \n")
        here = Here(editor, path, "kind: \n", 0, 6, [])
        assert (here.request("textDocument/completion") or [], here.request("textDocument/hover")) == ([], None)
