"""The rendered tree of the sample, and the schema faults of a manifest."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kubernetes_validate.utils import all_versions, schema_contents
from referencing import Registry, Resource

from tests.conftest import DAY, PROJECT, Allot, run_allot

SCHEMAS = Path(__file__).parent.parent / "schemas"
KUBERNETES = "1.36"


def rendered(allot: Allot, root: Path, out: Path, *more: object) -> dict[str, bytes]:
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY, *more)
    assert result.code == 0, result
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*.yaml"))}


@pytest.fixture(scope="session")
def sample_tree(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the sample's rendered files by path."""
    out = tmp_path_factory.mktemp("tree") / "out"
    assert run_allot("render", "--repo", PROJECT, "--out", out, "--as-of", DAY).code == 0
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*.yaml"))}


@cache
def _validator(version: str, kind: str) -> jsonschema.Draft202012Validator:
    """Return what validates a kind: against its schema here, or Kubernetes' own, as kubernetes_validate does, which would read
    all of Kubernetes' definitions anew for each object."""
    group, _, number = version.rpartition("/")
    own = SCHEMAS / f"{group}_{number}_{kind}.json"
    if own.exists():
        return jsonschema.Draft202012Validator(json.loads(own.read_text())["schema"])
    release = next(
        kubernetes_version for kubernetes_version in all_versions() if kubernetes_version.startswith(f"{KUBERNETES}.")
    )
    folder = f"kubernetes-json-schema/v{release}-local-strict"
    name = "-".join([*([group.partition(".")[0]] if group else []), number])
    schema = schema_contents(f"{folder}/{kind.lower()}-{name}.json", KUBERNETES)
    return jsonschema.Draft202012Validator(schema, registry=Resource.from_contents(schema) @ _definitions(folder))


@cache
def _definitions(folder: str) -> Registry[Any]:
    return Resource.from_contents(schema_contents(f"{folder}/_definitions.json", KUBERNETES)) @ Registry()


def misfits(manifest: dict[str, Any]) -> list[str]:
    """Return in words what of an object doesn't fit the schema of its kind."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    errors = _validator(manifest["apiVersion"], manifest["kind"]).iter_errors(manifest)
    return [f"{name}: {'.'.join(map(str, error.path))}: {error.message}" for error in errors]
