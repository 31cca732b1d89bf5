"""The canonical form: the same values, every comment, and its own canonical form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import PROJECT, ROOTS, scale_examples

from allotment.declared import documents
from allotment.declared.canonical import canonicalize
from allotment.declared.kinds import KINDS

SAMPLE = [path for root in ROOTS for path in sorted((PROJECT / root).rglob("*.yaml"))]

MESSY = b"""\
# yaml-language-server: $schema=x
# About this instance.

spec:   # the wish
    storages:
    # the second
    - {mountPath: /workspace/b, name: beta}
    - mountPath: /workspace/a   # the first
      name: alpha
    container:
        args: [--z, '--a']     # order counts
        env:
        - {value: 'two', name: B}   # b
        - name: A
          # inside
          value: "line one\\nline two\\n"
    gpuSpec: 'l4'
    # where
    cluster: "eu-1"
kind: GPUInstance
metadata: {name: webui}
apiVersion: allotment.dev/v1alpha1
# the end
"""

NEAT = b"""\
# yaml-language-server: $schema=x
# About this instance.
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: webui
spec:  # the wish
  # where
  cluster: eu-1
  gpuSpec: l4
  container:
    args:
      - --z
      - "--a"  # order counts
    env:
      - name: A
        # inside
        value: |
          line one
          line two
      - name: B  # b
        value: two
  storages:
    - name: alpha
      mountPath: /workspace/a  # the first
    # the second
    - name: beta
      mountPath: /workspace/b
# the end
"""


def test_messy_becomes_neat() -> None:
    assert canonicalize(MESSY, KINDS["GPUInstance"].model).decode() == NEAT.decode()


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: str(path.relative_to(PROJECT)))
def test_the_sample_is_canonical(path: object) -> None:
    data = path.read_bytes()
    kind = documents.read(data).value["kind"]
    assert canonicalize(data, KINDS[kind].model) == data


TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00\u2028\u2029\ufeff", exclude_categories=["Cs"]), max_size=30
)


@settings(max_examples=scale_examples(300))
@given(
    st.dictionaries(
        TEXT.filter(bool),
        TEXT | st.lists(TEXT, max_size=3) | st.integers(-99, 10**9) | st.booleans(),
        min_size=1,
        max_size=4,
    )
)
def test_form_changes_and_values_do_not(value: dict[str, object]) -> None:
    import json

    data = json.dumps(value).encode()
    before = documents.read(data)
    if before.findings:
        return
    after = canonicalize(data, None)
    assert documents.read(after).findings == []

    def unordered(content: object) -> object:
        if isinstance(content, dict):
            return {key: content[key] if key in ("command", "args") else unordered(content[key]) for key in content}
        return sorted(map(str, content)) if isinstance(content, list) else content

    assert unordered(documents.read(after).value) == unordered(before.value)
    assert canonicalize(after, None) == after
