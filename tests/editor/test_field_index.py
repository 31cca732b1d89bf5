"""The place of the cursor in a declaration that is being written, in every notation of YAML that people use."""

from __future__ import annotations

import pytest

from allotment.editor.field_index import find_cursor, find_tokens

HEAD = "kind: GPUInstance\nspec:\n  cluster: eu-1\n"


@pytest.mark.parametrize(
    ("text", "field", "is_key"),
    [
        (HEAD + "  gpuSpec: |\n", ("spec", "gpuSpec"), False),
        (HEAD + "  gpuSpec: l4|-qu\n  state: Running\n", ("spec", "gpuSpec"), False),
        (HEAD + "  gpuSpec:|\n", ("spec", "gpuSpec"), False),
        (HEAD + "  gpuSpec: | # the size\n  app:\n    name: x\n", ("spec", "gpuSpec"), False),
        (HEAD + "  |\n", ("spec",), True),
        (HEAD + "  gp|\n  app:\n    name: x\n", ("spec",), True),
        (HEAD + "  gpu|Spec: l4\n", ("spec",), True),
        (HEAD + "|\n", (), True),
        (HEAD + "  app:\n    |", ("spec", "app"), True),
        (HEAD + '  app:\n    name: a\n    version: "1.|\n', ("spec", "app", "version"), False),
        (HEAD + "  app:\n    name: a\n    version: '1.1|'\n", ("spec", "app", "version"), False),
        (HEAD + "  app: {name: a, version: |}\n", ("spec", "app", "version"), False),
        (HEAD + "  app: {na|}\n", ("spec", "app"), True),
        (HEAD + "  app: {name: a, ver|}\n  state: Running\n", ("spec", "app"), True),
        (HEAD + "  storages:\n    - |\n", ("spec", "storages", 0), True),
        (HEAD + "  storages:\n    - name: a\n      mou|\n    - name: b\n", ("spec", "storages", 0), True),
        (HEAD + "  storages:\n    - name: a\n    - name: |\n", ("spec", "storages", 1, "name"), False),
        (HEAD + "  storages:\n  - na|\n    mountPath: /x\n", ("spec", "storages", 0), True),
        (HEAD + "  storages:\n    |\n", ("spec", "storages"), True),
        (HEAD + "  spread: [|]\n", ("spec", "spread", 0), False),
        (HEAD + "  spread: [Zones, N|]\n", ("spec", "spread", 1), False),
        (HEAD + "  gpuSpec:\n    |\n", ("spec", "gpuSpec"), True),
        ("|", (), True),
        ("spec:\r\n  cluster: |\r\n  state: Stopped\r\n", ("spec", "cluster"), False),
    ],
)
def test_the_field_at_the_cursor(text: str, field: tuple[str | int, ...], is_key: bool) -> None:
    offset = text.index("|")
    cursor = find_cursor(text.replace("|", "", 1), offset)
    assert cursor is not None
    assert (cursor.field, cursor.is_key) == (field, is_key)


@pytest.mark.parametrize(
    "text",
    [
        "a: # |",
        "a: [b\nc: d\ne: |",
        "a: 'b|",
        "# comment |",
        "a: |-\n  text |here",
        "%TAG !\n--- |",
        "a: \ud800\nb: |",
        "\t|",
    ],
)
def test_where_nothing_can_be_completed_nothing_fails(text: str) -> None:
    offset = text.rindex("|")
    find_cursor(text[:offset] + text[offset + 1 :], offset)


def test_the_keys_around_the_cursor_are_known() -> None:
    text = "spec:\n  cluster: eu-1\n  \n  app:\n    name: x\n"
    cursor = find_cursor(text, text.index("\n  app") - 0)
    assert cursor is not None
    assert cursor.keys_in(("spec",)) == {"cluster", "app"}
    assert cursor.text_at(("spec", "app", "name")) == "x"
    assert cursor.text_at(("spec", "app")) is None


def test_tokens_end_at_a_syntax_error() -> None:
    assert [(token.field, token.text) for token in find_tokens("a: b\nc: [d\ne: f\n")][:2] == [
        (("a",), "a"),
        (("a",), "b"),
    ]


@pytest.mark.parametrize(
    "text", ["? [a, b]\n: c\n", "*a : b", "- - - a", "[" * 5000, "a: &x b\nc: *x\nd: e", "", "\0", "{" * 300]
)
def test_tokens_of_garbage(text: str) -> None:
    assert isinstance(find_tokens(text), list)


def test_a_line_that_is_one_long_word_takes_no_quadratic_time() -> None:
    text = f"&{'a' * 200_000} b: 1\n"
    find_cursor(text, len(text) - 1)  # a scan from each character would take minutes
    cursor = find_cursor(f"a: {'b' * 200_000}", 200_003)
    assert cursor is not None
    assert (cursor.field, cursor.start, cursor.end) == (("a",), 3, 200_003)
