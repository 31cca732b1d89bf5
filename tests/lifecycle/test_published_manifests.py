"""What was published is read back by a few lines of each object, and says what the whole text says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scale_examples
from tests.support.yaml_strategies import OBJECT, TEXT

from allotment.lifecycle.published_manifests import (
    read_identities,
    read_prepared_by,
    read_program_names,
    stopped_deployments,
)
from allotment.manifests import names, paths
from allotment.manifests.yaml_text import Malformed, dump

HOSTILE = (
    "\n    allotment.dev/prepared: forged\n",
    "x\n---\nkind: Deployment\nspec:\n  replicas: 0\n",
    f"\n          name: {paths.PROGRAMS_PREFIX}forged\n",
    "\nspec:\n  replicas: 0\n",
)
GOLDEN = sorted((Path(__file__).parent.parent / "manifests" / "golden").rglob("*.yaml"))


def test_the_objects_of_a_file_are_those_that_yaml_reads() -> None:
    assert len(GOLDEN) > 100
    for path in GOLDEN:
        data = path.read_bytes()
        read = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in yaml.safe_load_all(data)}
        assert read_identities(data) == read, path


@pytest.mark.process
@settings(max_examples=scale_examples(150))
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


def slow_reading(data: bytes) -> tuple[str, frozenset[str], frozenset[str]]:
    """Return what YAML says of a file: its first object's finished preparation, its programs, and its stopped Deployments."""
    objects = list(yaml.safe_load_all(data))
    prepared_by = objects[0]["metadata"].get("annotations", {}).get(names.PREPARED, "")
    volumes = [
        volume
        for manifest in objects
        if manifest["kind"] == "Job"
        for volume in manifest["spec"]["template"]["spec"].get("volumes", ())
    ]
    programs = {volume.get("configMap", {}).get("name", "") for volume in volumes}
    stopped = {
        manifest["metadata"]["name"]
        for manifest in objects
        if manifest["kind"] == "Deployment" and manifest["spec"].get("replicas") == 0
    }
    return (
        prepared_by,
        frozenset(name for name in programs if name.startswith(paths.PROGRAMS_PREFIX)),
        frozenset(stopped),
    )


def test_the_state_in_a_file_is_what_yaml_reads() -> None:
    readings = []
    for path in GOLDEN:
        data = path.read_bytes()
        readings.append((read_prepared_by(data), read_program_names(data), stopped_deployments(data)))
        assert readings[-1] == slow_reading(data), path
    assert all(any(reading[field] for reading in readings) for field in (1, 2))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_tenant_counts_as_state(text: str) -> None:
    metadata = {"name": "models", "annotations": {"note": text, names.PREPARED: "job-1", "other": text}}
    container = {"name": "main", "args": [text], "env": [{"name": "TEXT", "value": text}]}
    job_volumes = [{"name": text, "configMap": {"name": f"{paths.PROGRAMS_PREFIX}a"}}]
    data = dump(
        [
            {"kind": "PersistentVolumeClaim", "metadata": metadata},
            {"kind": "Deployment", "metadata": {"name": "on"}, "spec": {"note": text, "replicas": 1}},
            {"kind": "Deployment", "metadata": {"name": "off"}, "spec": {"note": text, "replicas": 0}},
            {
                "kind": "Job",
                "metadata": {"name": "job-1", "annotations": {"note": text}},
                "spec": {"template": {"spec": {"containers": [container], "volumes": job_volumes}}},
            },
        ]
    )
    assert (read_prepared_by(data), stopped_deployments(data)) == ("job-1", {"off"})
    assert "forged" not in "".join(read_program_names(data))


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
def test_read_identities_refuses_a_foreign_manifest(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_identities(data)
