"""What was published is read back by a few lines of each object, and says what the whole text says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.manifests.test_yaml_text import OBJECT, TEXT

from allotment.lifecycle.published_manifests import read_identities
from allotment.manifests.yaml_text import Malformed, dump

GOLDEN = sorted((Path(__file__).parent.parent / "manifests" / "golden").rglob("*.yaml"))


def test_the_objects_of_a_file_are_those_that_yaml_reads() -> None:
    assert len(GOLDEN) > 100
    for path in GOLDEN:
        data = path.read_bytes()
        read = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in yaml.safe_load_all(data)}
        assert read_identities(data) == read, path


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, OBJECT, OBJECT, OBJECT), min_size=1, max_size=3))
def test_whatever_stands_around_them(
    objects: list[tuple[str, str, dict[str, object], dict[str, object], object]],
) -> None:
    written = []
    for kind, name, before, more, spec in objects:
        known = {key: value for key, value in more.items() if key != "name"}
        others = {key: value for key, value in before.items() if key not in ("kind", "metadata")}
        metadata = {**known, "labels": {"name": "x", "kind": "y"}, "owners": [{"name": "z"}], "name": name, "at": spec}
        written.append({**others, "kind": kind, "spec": {"metadata": {"name": "w"}}, "metadata": metadata})
    assert read_identities(dump(written)) == {(kind, name) for kind, name, *_ in objects}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a: 1",
        b"\xff\n",
        b"kind: x\n",
        b"kind: x\nmetadata:\n  labels:\n    name: y\nspec:\n  name: z\n",
        b"kind: x\nmetadata:\n  name: y\n---\nkind: x\n",
        b'kind: x\nmetadata:\n  name: "y\n',
    ],
)
def test_what_we_did_not_write_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_identities(data)
