"""`allot lsp`, as an editor runs it: the real command in a process, and real messages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import edit
from tests.support.editor import ALLOT_LSP, Editor, Json

pytestmark = pytest.mark.process


WEBUI = "tenants/solo-ada/instances/webui.yaml"
STORAGE = "tenants/solo-ada/storages/models.yaml"
PLAN = "platform/plans/starter.yaml"


@pytest.fixture
def editor(sample: Path) -> Iterator[Editor]:
    with Editor(sample) as client:
        yield client
    assert (client.process.returncode, client.errors) == (0, "")


def text_of(editor: Editor, path: str = WEBUI) -> str:
    return (editor.here / path).read_text(encoding="utf-8")


def ranges(diagnostics: list[Json]) -> list[tuple[int, int, int, int]]:
    """Return the range of each diagnostic: line and character of its start, then those of its end."""
    return [
        (
            each["range"]["start"]["line"],
            each["range"]["start"]["character"],
            each["range"]["end"]["line"],
            each["range"]["end"]["character"],
        )
        for each in diagnostics
    ]


def test_an_unsaved_edit_has_diagnostics_until_it_is_corrected(editor: Editor) -> None:
    text = text_of(editor)
    editor.open(WEBUI, text.replace("l4-quarter", "l4-quater"))
    assert editor.await_diagnostics(WEBUI, 1) == [
        {
            "range": {"start": {"line": 7, "character": 11}, "end": {"line": 7, "character": 20}},
            "message": "spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'?",
            "severity": 1,
            "code": "reference",
            "source": "allot",
        }
    ]
    editor.change(WEBUI, text, 2)
    assert editor.await_diagnostics(WEBUI, 2) == []
    assert text_of(editor) == text, "the server writes nothing"


def test_a_problem_of_syntax_has_the_rest_of_its_line(editor: Editor) -> None:
    editor.open(WEBUI, text_of(editor).replace("gpuSpec: l4-quarter", "gpuSpec: [l4-quarter"))
    (diagnostic,) = editor.await_diagnostics(WEBUI, 1)
    assert (diagnostic["code"], diagnostic["severity"]) == ("syntax", 1)
    assert diagnostic["range"]["start"] != diagnostic["range"]["end"]


def test_a_warning_is_a_warning(editor: Editor) -> None:
    path = "tenants/studio-kite/instances/webui.yaml"
    editor.open(path, text_of(editor, path))
    (warning,) = editor.await_diagnostics(path, 1)
    assert (warning["severity"], warning["code"], ranges([warning])) == (2, "lifecycle", [(13, 13, 13, 21)])


@pytest.mark.parametrize(
    ("encodings", "encoding", "character"),
    [(("utf-16",), "utf-16", 28), (("utf-8", "utf-16"), "utf-8", 32), (("utf-32",), "utf-32", 26), ((), "utf-16", 28)],
)
def test_columns_count_the_units_that_the_editor_counts(
    sample: Path, encodings: tuple[str, ...], encoding: str, character: int
) -> None:
    """Each rocket before the value is one character, two units of UTF-16, or four bytes of UTF-8."""
    with Editor(sample, encodings=encodings) as editor:
        assert editor.capabilities["positionEncoding"] == encoding
        head, _, tail = text_of(editor).partition("  app:\n")
        rest = tail[tail.index("  storages") :]
        text = f'{head}  app: {{"🚀🚀": x, version: 1.5, name: comfyui}} # 🚀\n{rest}'
        editor.open(WEBUI, text)
        diagnostics = {each["code"]: each for each in editor.await_diagnostics(WEBUI, 1)}
        line = head.count("\n")
        assert ranges([diagnostics["scalar"]]) == [(line, character, line, character + 3)]


def test_a_new_tenant_that_is_not_saved_yet_is_checked(editor: Editor) -> None:
    path = "tenants/new-team/tenant.yaml"
    text = "apiVersion: allotment.dev/v1alpha1\nkind: Tenant\nmetadata:\n  name: new-team\nspec:\n  plan: startr\n"
    editor.open(path, text)
    assert ranges(editor.await_diagnostics(path, 1)) == [(5, 8, 5, 14)]
    editor.change(path, text.replace("startr", "starter"), 2)
    assert editor.await_diagnostics(path, 2) == []
    instance = "tenants/new-team/instances/lab.yaml"
    editor.open(instance, "kind: GPUInstance\n")
    assert [each["code"] for each in editor.await_diagnostics(instance, 1)] == ["api-version"]
    editor.close(path)
    (missing,) = editor.await_diagnostics(path)
    assert missing["message"] == "is missing: a tenant needs this file"
    editor.close(instance)
    assert editor.await_diagnostics(instance) == []
    assert editor.await_diagnostics(path) == [] or editor.diagnostics[editor.uri(path)] == []
    assert not (editor.here / "tenants/new-team").exists()


def test_an_edit_of_a_plan_shows_its_effects_on_tenants(editor: Editor) -> None:
    text = text_of(editor, PLAN)
    editor.open(PLAN, text.replace("instances: 3", "instances: 0"))
    assert editor.await_diagnostics(PLAN, 1) == []
    tenant = "tenants/solo-ada/tenant.yaml"
    (quota,) = editor.await_diagnostics(tenant)
    assert quota["code"] == "quota"
    editor.change(PLAN, text, 2)
    assert editor.await_diagnostics(tenant) == []


def test_files_that_other_programs_change_are_read_again(editor: Editor) -> None:
    editor.open(WEBUI, text_of(editor))
    assert editor.await_diagnostics(WEBUI, 1) == []
    assert [each["method"] for each in editor.registrations] == ["workspace/didChangeWatchedFiles"]
    edit(editor.here, STORAGE, "size: ", "sise: ")
    editor.report_changes(STORAGE)
    assert "unknown-field" in {each["code"] for each in editor.await_diagnostics(STORAGE)}
    edit(editor.here, STORAGE, "sise: ", "size: ")
    editor.report_changes("tenants/solo-ada")
    assert editor.await_diagnostics(STORAGE) == []


def test_an_oversold_unit_is_reported_where_it_was_edited(editor: Editor) -> None:
    editor.open(WEBUI, text_of(editor))
    editor.await_diagnostics(WEBUI, 1)
    editor.change(WEBUI, text_of(editor).replace("spec:\n", "spec:\n  replicas: 90\n"), 2)
    assert "stock" in {each["code"] for each in editor.await_diagnostics(WEBUI, 2)}


def test_documents_outside_the_repository_are_ignored(editor: Editor, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for uri in (
        (outside / "tenants/x/tenant.yaml").as_uri(),
        f"{editor.here.as_uri()}/tenants/../../secret.yaml",
        f"{editor.here.as_uri()}-twin/tenants/solo-ada/tenant.yaml",
        f"{editor.here.as_uri()}/README.md",
        "untitled:Untitled-1",
        "http://[broken",
        "file:///%00",
        f"{editor.here.as_uri()}/tenants/solo-ada/instances/%00.yaml",
        "",
    ):
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": "kind: [\n"}
        editor.notify("textDocument/didOpen", {"textDocument": document})
        editor.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    editor.open(WEBUI, text_of(editor))
    assert editor.await_diagnostics(WEBUI, 1) == []
    files = [uri.removeprefix(f"{editor.here.as_uri()}/") for uri in editor.diagnostics]
    assert {file for file in files if not (editor.here / file).is_file()} <= {"tenants/solo-ada/instances/%00.yaml"}


def test_no_symbolic_link_is_followed(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    shutil.copytree(sample / "tenants/solo-ada", outside / "twin")
    (sample / "tenants/twin").symlink_to(outside / "twin")
    (sample / "tenants/solo-ada/instances/link.yaml").symlink_to("/etc/hostname")
    with Editor(sample) as editor:
        editor.open("tenants/twin/tenant.yaml", "kind: [\n")
        editor.open("tenants/solo-ada/instances/link.yaml", "kind: [\n")
        editor.open(WEBUI, text_of(editor))
        assert editor.await_diagnostics(WEBUI, 1) == []
        reported = {
            uri.removeprefix(f"{sample.as_uri()}/"): diagnostics for uri, diagnostics in editor.diagnostics.items()
        }
        assert reported.get("tenants/twin/tenant.yaml", []) == []
        assert [each["message"] for each in reported["tenants/twin"]] == [
            "no declaration belongs here: move or remove it"
        ]
        (link,) = reported["tenants/solo-ada/instances/link.yaml"]
        assert link["message"] == "is a symbolic link: replace it by the file itself"


def test_a_repository_behind_a_link_of_the_user_is_opened(
    sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("links") / "gpus"
    link.symlink_to(sample)
    with Editor(link) as editor:
        editor.open(WEBUI, text_of(editor).replace("l4-quarter", "l4-quater"))
        assert [each["code"] for each in editor.await_diagnostics(WEBUI, 1)] == ["reference"]


def test_the_repository_is_found_from_a_folder_in_it_and_from_a_document(
    sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for here, words in (
        (sample / "tenants/solo-ada", ()),
        (tmp_path_factory.mktemp("elsewhere"), ()),
        (tmp_path_factory.mktemp("elsewhere"), ("--repo", str(sample), "--stdio")),
    ):
        with Editor(here, words=words) as editor:
            editor.here = sample
            editor.open(WEBUI, text_of(editor).replace("l4-quarter", "l4-quater"))
            assert len(editor.await_diagnostics(WEBUI, 1)) == 1


GARBAGE = {
    "nothing": "",
    "null bytes": "\0" * 1000,
    "a lone surrogate": "kind: \ud800\n",
    "deep lists": "[" * 50_000,
    "deep mappings": "\n".join(" " * depth + "a:" for depth in range(600)),
    "a bomb of aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "a tag that would run code": "!!python/object/apply:os.system ['touch /tmp/owned']\n",
    "many keys": "".join(f"k{number}: 1\n" for number in range(30_000)),
    "carriage returns": "kind: a\rb\rc\n",
    "line separators": "kind: a\u2028b\u0085c\n",
    "a byte order mark": "\ufeffkind: GPUInstance\n",
    "more than the largest file": "# " + "x" * 3_000_000 + "\n",
}


def test_garbage_gets_diagnostics_and_the_server_stays(editor: Editor) -> None:
    text = text_of(editor)
    editor.open(WEBUI, text)
    editor.await_diagnostics(WEBUI, 1)
    for version, garbage in enumerate(GARBAGE.values(), 2):
        editor.change(WEBUI, garbage, version)
        assert editor.await_diagnostics(WEBUI, version), garbage[:40]
    editor.change(WEBUI, text, 99)
    assert editor.await_diagnostics(WEBUI, 99) == []


def test_broken_messages_are_ignored(editor: Editor) -> None:
    editor.open(WEBUI, text_of(editor))
    editor.await_diagnostics(WEBUI, 1)
    for body in (
        b"{",
        b"[]",
        b"17",
        b"\xff\xfe",
        b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"a": 1}}',
    ):
        editor.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    editor.notify("textDocument/didChange", {"textDocument": {"uri": editor.uri(WEBUI)}})
    editor.change(WEBUI, text_of(editor) + "# more\n", 2)
    assert editor.await_diagnostics(WEBUI, 2) == []


def test_the_last_of_many_edits_wins(editor: Editor) -> None:
    text = text_of(editor)
    editor.open(WEBUI, text)
    for version in range(2, 301):
        editor.change(WEBUI, text.replace("l4-quarter", "l4-quater" if version % 2 else "l4-quarter"), version)
        if version % 50 == 0:
            editor.open(STORAGE, text_of(editor, STORAGE), version)
            editor.close(STORAGE)
    assert editor.await_diagnostics(WEBUI, 300) == []


def test_a_repository_without_a_readable_platform_is_shown_too(sample: Path) -> None:
    (sample / "platform/platform.yaml").write_bytes(b"\xff\xfe")
    with Editor(sample) as editor:
        assert [each["code"] for each in editor.await_diagnostics("platform/platform.yaml")] == ["encoding"]
        shutil.rmtree(sample / "platform")
        editor.report_changes("platform/platform.yaml")
        assert [each["code"] for each in editor.await_diagnostics("platform/platform.yaml")] == ["required"]


def test_the_server_ends_when_its_input_ends(sample: Path) -> None:
    with subprocess.Popen(
        ALLOT_LSP, cwd=sample, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.wait(60) == 0
        assert process.stderr is not None and process.stderr.read() == b""


def test_an_interrupt_ends_the_server_without_a_word(sample: Path) -> None:
    with Editor(sample) as editor:
        editor.process.send_signal(signal.SIGINT)
        assert editor.process.wait(60) == -signal.SIGINT
    assert editor.errors == ""


def test_lsp_starts_no_process_and_needs_no_git(sample: Path) -> None:
    with Editor(sample, environment={"PATH": "/nonexistent"}) as editor:
        editor.open(WEBUI, text_of(editor).replace("l4-quarter", "l4-quater"))
        assert len(editor.await_diagnostics(WEBUI, 1)) == 1
        children = Path(f"/proc/{editor.process.pid}/task/{editor.process.pid}/children")
        assert not os.path.exists(children) or children.read_text() == ""


def test_a_folder_outside_of_every_repository_is_named_in_the_log(tmp_path: Path) -> None:
    with Editor(tmp_path) as editor:
        editor.await_log("no platform/platform.yaml is here or in a folder above")
