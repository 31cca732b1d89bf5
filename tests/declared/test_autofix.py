"""`allot fmt --fix` corrects what can mean one thing only, and reads afterwards as it was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.declared import documents
from allotment.declared.autofix import autofix
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.declared.reading import read_declaration

PATH = "tenants/solo-ada/instances/webui.yaml"
HEAD = (
    "# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json\n"
    "apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata: {name: webui}\nspec:\n  cluster: eu-1\n"
    "  gpuSpec: l4-quarter\n  app: {name: stable-diffusion-webui, version: "
)


def spot() -> DeclarationPath:
    declaration_path = parse_path(PATH)
    assert isinstance(declaration_path, DeclarationPath)
    return declaration_path


def mend(text: str) -> str:
    return autofix(PATH, text.encode(), spot()).decode()


@pytest.mark.parametrize(
    "value",
    [
        "1.10",
        "no",
        "On",
        "2026-01-01",
        "2026-01-01 10:00",
        "1:30",
        "012",
        "0o14",
        "1_000",
        "1e3",
        ".5",
        "2",
        "-1",
        "1.10.1-rc",
    ],
)
def test_autofix_quotes_a_value_that_yaml_readers_interpret_differently(value: str) -> None:
    text = mend(f"{HEAD}{value}}}  # of May\n")
    plain = value == "1.10.1-rc"
    assert text == (f"{HEAD}{value}}}  # of May\n" if plain else f'{HEAD}"{value}"}}  # of May\n')
    assert read_declaration(PATH, text.encode(), spot())[1] == []


@pytest.mark.parametrize(("word", "boolean"), [("yes", "true"), ("Off", "false"), ("TRUE", "true"), ("n", "false")])
@pytest.mark.parametrize("start", ["      readOnly: ", "    - {name: models, mountPath: /x, readOnly: "])
def test_a_word_becomes_true_or_false_only_where_a_boolean_must_stand(start: str, word: str, boolean: str) -> None:
    end = "}" if "{" in start else ""
    item = "" if end else "    - name: models\n      mountPath: /x\n"
    text = HEAD + '"1.11.0"}\n  displayName: no\n  storages:\n' + item + f"{start}{word}{end}\n"
    mended = mend(text)
    assert f"{start}{boolean}{end}\n" in mended
    assert '  displayName: "no"\n' in mended
    assert read_declaration(PATH, mended.encode(), spot())[1] == []


def test_all_of_a_file_are_quoted_and_the_schema_is_named() -> None:
    body = HEAD.split("\n", 1)[1]
    text = mend(f"\ufeff{body}1.10}}\n  displayName: 2026-01-01\n  description: no\n")
    assert text == f'{HEAD}"1.10"}}\n  displayName: "2026-01-01"\n  description: "no"\n'
    assert mend(text) == text


def test_a_value_is_quoted_whole_wherever_it_stands() -> None:
    assert mend(f"{HEAD}\n    2}}\n  displayName:\n    2026-01-01\n    10:00\n").startswith(
        f'{HEAD}\n    "2"}}\n  displayName:\n    "2026-01-01 10:00"\n'
    )
    assert mend(f'{HEAD}1}}\n  displayName: 2026-01-01 a "b" \\\n').endswith(
        'displayName: "2026-01-01 a \\"b\\" \\\\"\n'
    )


def test_many_values_are_quoted_in_one_go() -> None:
    text = mend(f'{HEAD}"1"}}\n  description: [{", ".join(["1.10"] * 130)}]\n')
    assert text.count('"1.10"') == 130


def test_a_key_is_quoted_only_where_it_is_meant() -> None:
    assert mend(f'{HEAD}"1"}}\n  no:\n    a: 2\n').endswith('  "no":\n    a: 2\n')
    assert mend(f'{HEAD}"1"}}\n  displayName:\n    a: 2\n').endswith("  displayName:\n    a: 2\n")
    assert mend(f'{HEAD}"1"}}\n  displayName:\n    - a: 2\n').endswith("  displayName:\n    - a: 2\n")


@pytest.mark.parametrize(
    "rest",
    ['"1"}\n  readOnly: maybe\n', '"1"}\n  replicas: "2"\n', '"1"}\n  state: [\n', '"1"}\n  state:\n'],
)
def test_whatever_else_is_wrong_stays_as_it_is(rest: str) -> None:
    assert mend(HEAD + rest) == HEAD + rest


@given(st.text(alphabet="abno1290.:-_ \"'#{}[],&*!|>%@\n", max_size=60))
def test_a_file_reads_as_before_or_better(text: str) -> None:
    before = read_declaration(PATH, (HEAD + text).encode(), spot())
    data = autofix(PATH, (HEAD + text).encode(), spot())
    after = read_declaration(PATH, data, spot())
    assert len(after[1]) <= len(before[1])
    if not documents.read((HEAD + text).encode()).findings and not before[1]:
        assert data == (HEAD + text).encode()
