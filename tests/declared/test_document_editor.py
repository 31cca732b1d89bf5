"""An edit of a canonical file changes the lines of the edited fields only, whatever the sequence of edits."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from allotment.declared import documents
from allotment.declared.canonical import canonicalize
from allotment.declared.document_editor import AddItem, Edit, RemoveField, SetField, edit_document
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.problems import OperationRefused

FILE = """# yaml-language-server: $schema=../../../schemas/GPUInstance.schema.json
apiVersion: allotment.dev/v1alpha1
kind: GPUInstance
metadata:
  name: webui
  labels:
    # who pays
    team: "007"  # finance asks for it
spec:
  # off at night
  state: Running
  # the cheap cluster
  cluster: eu-1
  gpuSpec: rtx-4090
  app:
    name: webui
    version: "1.10"
  # what the model reads
  container:
    env:
      # the first
      - name: FIRST
        value: "1"  # a text
      # the second
      - name: SECOND
        value: |
          two
          lines
  storages:
    # the models
    - name: models
      mountPath: /models
# the end
"""
DATA = FILE.encode()


def test_a_value_is_replaced_and_its_comments_stay() -> None:
    edits = [
        SetField(("metadata", "labels", "team"), "no"),
        SetField(("spec", "container", "env", "FIRST", "value"), "a\nb\n"),
    ]
    expected = FILE.replace('"007"', '"no"').replace(
        'value: "1"  # a text', "value: |  # a text\n          a\n          b"
    )
    assert edit_document(DATA, GPUInstance, edits) == expected.encode()


def test_a_new_field_and_a_new_item_stand_in_canonical_order() -> None:
    edits: list[Edit] = [
        SetField(("spec", "displayName"), "My UI: the first"),
        AddItem(("spec", "container", "env"), {"name": "MIDDLE", "value": "true"}),
        AddItem(("spec", "sharedMemory", "list"), "item"),
    ]
    edited = edit_document(DATA, GPUInstance, edits).decode()
    assert 'spec:\n  displayName: "My UI: the first"\n  # off at night\n' in edited
    assert '        value: "1"  # a text\n      - name: MIDDLE\n        value: "true"\n      # the second\n' in edited
    assert set(FILE.splitlines()) <= set(edited.splitlines())


def test_a_removed_item_takes_its_comments_and_an_empty_parent_along() -> None:
    edited = edit_document(DATA, GPUInstance, [RemoveField(("spec", "storages", "models"))])
    assert edited.decode() == re.sub(r"  storages:\n    # the models\n.*\n.*\n", "", FILE)
    edited = edit_document(edited, GPUInstance, [RemoveField(("metadata", "labels", "team"))])
    assert b"labels" not in edited
    assert b"metadata:\n  name: webui\nspec:\n" in edited


def test_a_reader_of_a_storage_has_its_tenant_as_its_key() -> None:
    data = b"spec:\n  sharedWith:\n    - tenant: solo-ada\n    - tenants: All\n"
    edited = edit_document(data, GPUStorage, [RemoveField(("spec", "sharedWith", "All"))])
    assert edited == b"spec:\n  sharedWith:\n    - tenant: solo-ada\n"
    assert edit_document(edited, GPUStorage, [RemoveField(("spec", "sharedWith", "solo-ada"))]) == b"spec: {}\n"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (RemoveField(("spec", "nodes")), "spec has no 'nodes'"),
        (RemoveField(("spec", "container", "env", "THIRD")), "spec.container.env has no 'THIRD'"),
        (RemoveField(("spec", "cluster", "name")), "spec.cluster has no 'name'"),
        (SetField(("spec", "container", "env", "THIRD", "value"), "3"), "spec.container.env has no 'THIRD'"),
        (SetField(("spec", "buckets", "data", "envPrefix"), "X_"), "spec.buckets has no 'data'"),
        (SetField(("spec", "cluster", "name"), "x"), "spec.cluster is a single value, which has no fields"),
        (
            AddItem(("spec", "container", "env"), {"name": "FIRST", "value": "2"}),
            "spec.container.env has 'FIRST' already",
        ),
        (AddItem(("metadata", "labels"), "x"), "metadata.labels is not a list"),
    ],
)
def test_an_edit_that_fits_nowhere_names_the_place(edit: Edit, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}$"):
        edit_document(DATA, GPUInstance, [edit])


def test_an_unreadable_file_is_not_edited() -> None:
    with pytest.raises(OperationRefused, match=r"^line 1: .*: correct the file first$"):
        edit_document(b"state: no\n", GPUInstance, [SetField(("spec", "state"), "Stopped")])


def test_every_file_of_the_sample_stays_as_it_is_when_a_value_is_set_to_itself() -> None:
    paths = sorted(Path("tenants").rglob("instances/*.yaml"))
    assert paths
    for path in paths:
        data = path.read_bytes()
        value = documents.read(data).value
        assert value is not None
        assert edit_document(data, GPUInstance, [SetField(("spec", "cluster"), value["spec"]["cluster"])]) == data


_NAMES = some.sampled_from(["FIRST", "SECOND", "THIRD", "FOURTH"])
_VALUES = some.text(some.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12).filter(
    lambda text: "+argocd:skip-file-rendering" not in text
)
_EDITS = some.one_of(
    some.builds(lambda name, value: SetField(("spec", "container", "env", name, "value"), value), _NAMES, _VALUES),
    some.builds(
        lambda name, value: AddItem(("spec", "container", "env"), {"name": name, "value": value}), _NAMES, _VALUES
    ),
    some.builds(lambda name: RemoveField(("spec", "container", "env", name)), _NAMES),
    some.builds(lambda key, value: SetField(("metadata", "labels", key), value), _NAMES, _VALUES),
    some.builds(lambda key: RemoveField(("metadata", "labels", key)), _NAMES),
    some.builds(lambda count: SetField(("spec", "replicas"), count), some.integers(0, 9)),
)


def _apply(model: dict[str, Any], edit: Edit) -> bool:
    """Apply an edit to the environment and the labels of `model`, as maps. Return whether the edit fits."""
    kind = next(name for name in ("env", "labels", "replicas") if name in edit.path)
    key = edit.path[-1]
    if isinstance(edit, AddItem):
        name = edit.value["name"]
        fits = name not in model["env"]
        if fits:
            model["env"][name] = edit.value["value"]
        return fits
    if kind == "replicas":
        assert isinstance(edit, SetField)
        model["replicas"] = edit.value
        return True
    name = edit.path[3] if kind == "env" and len(edit.path) > 3 else key
    if isinstance(edit, SetField) and (kind == "labels" or name in model[kind]):
        model[kind][name] = edit.value
        return True
    return not isinstance(edit, SetField) and model[kind].pop(name, None) is not None


@given(some.lists(_EDITS, max_size=12))
def test_any_sequence_of_edits_equals_the_model_and_leaves_other_lines_alone(edits: list[Edit]) -> None:
    data = canonicalize(DATA, GPUInstance)
    model: dict[str, Any] = {"env": {"FIRST": "1", "SECOND": "two\nlines\n"}, "labels": {"team": "007"}, "replicas": 1}
    for edit in edits:
        before = copy.deepcopy(model)
        if _apply(model, edit):
            data = edit_document(data, GPUInstance, [edit])
        else:
            with pytest.raises(OperationRefused):
                edit_document(data, GPUInstance, [edit])
            assert model == before
    value = documents.read(data).value
    assert value is not None
    assert {item["name"]: item["value"] for item in value["spec"].get("container", {}).get("env", [])} == model["env"]
    assert value["metadata"].get("labels", {}) == model["labels"]
    assert value["spec"].get("replicas", 1) == model["replicas"]
    untouched = [
        line
        for line in FILE.splitlines()
        if not re.search(r"env|FIRST|SECOND|first|second|value|two|lines|labels|team|pays|what|container", line)
    ]
    assert [line for line in data.decode().splitlines() if line in untouched] == untouched
    assert canonicalize(data, GPUInstance) == data
