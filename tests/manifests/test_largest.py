"""The largest that validation allows: all of it renders to objects that fit their schemas, so that no tenant's sync fails for one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import DAY, PROJECT, ROOTS, Allot
from tests.support import largest
from tests.support.rendered_tree import misfits

from allotment.manifests.yaml_text import load

pytestmark = pytest.mark.process


RENDERED = (
    "Cluster",
    "NodePool",
    "Members",
    "GPUInstance",
    "GPUStorage",
    "GPUStorageSnapshot",
    "SecretReference",
    "Stock",
)
# Bounded by the file's 256 KiB: of a requirement's values and of terms' tags there is room for some alone.
PARTLY = (
    "spec.karpenter.requirements[].values[]",
    "Terms[].tags",
    ".id",
    ".alias",
    ".ssmParameter",
    ".owner",
    "Terms[].name",
)
# Of no object that is rendered, or chosen from what the platform declares.
ELSEWHERE = (
    "spec.monitoring",
    "Cluster.spec.karpenter",
    "spec.reporter",
    "Cluster.spec.storages",
    "spec.oidc.jwksURI",
    "spec.oidc.callbackHost",  # of a cluster without Public ports, which this cluster has
    "sshKeys",
    "ssh.hostKey",
    "app.version",
    "mig.config",
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("largest")
    for name in ROOTS:
        shutil.copytree(PROJECT / name, root / name)
    largest.grow(root)
    return root


def test_the_largest_declarations_render_to_schema_valid_manifests(
    repository: Path, allot: Allot, tmp_path: Path
) -> None:
    result = allot("render", "--repo", repository, "--out", tmp_path / "out", "--as-of", DAY)
    assert result.code == 0, result.err[-2000:]
    objects = [manifest for path in sorted((tmp_path / "out").rglob("*.yaml")) for manifest in load(path.read_bytes())]
    kinds = {
        manifest["kind"]
        for manifest in objects
        if "t" * 20 in manifest["metadata"]["name"] or "tttt" in str(manifest["metadata"])
    }
    assert {"Deployment", "HTTPRoute", "SecurityPolicy", "Service", "Job", "AppProject", "ReferenceGrant"} <= kinds
    assert [wrong for manifest in objects for wrong in misfits(manifest)] == []
    rules = [
        rule
        for manifest in objects
        if manifest["kind"] == "SecurityPolicy" and "rules" in manifest["spec"]["authorization"]
        for rule in manifest["spec"]["authorization"]["rules"]
        if rule["name"].startswith("users")
    ]
    assert {(rule["name"], len(rule["principal"]["jwt"]["claims"][0]["values"])) for rule in rules} >= {
        ("users", 128),
        ("users-2", 72),
    }


def test_the_largest_repository_reaches_every_schema_bound(repository: Path) -> None:
    """Every bound that a kind's schema has is met by a declaration of that kind, but for those listed above."""
    reached: dict[str, int] = {}
    for path in repository.rglob("*.yaml"):
        whole = yaml.safe_load(path.read_text(encoding="utf-8"))
        for field, size in _sizes(whole, whole["kind"]):
            reached[field] = max(size, reached.get(field, 0))
    wanted: dict[str, int] = {}
    for kind in RENDERED:
        schema = json.loads((PROJECT / f"schemas/{kind}.schema.json").read_text())
        wanted |= dict(_bounds(schema, kind, schema["$defs"]))
    missed = {field: (reached.get(field, 0), most) for field, most in wanted.items() if reached.get(field, 0) < most}
    missed = {field: sizes for field, sizes in missed.items() if not _listed(field)}
    assert len(wanted) > 60
    assert missed == {}, "write the largest values in tests/support/largest.py"


def test_no_list_is_without_end() -> None:
    for kind in RENDERED:
        schema = json.loads((PROJECT / f"schemas/{kind}.schema.json").read_text())
        assert [field for field in _endless(schema, kind, schema["$defs"]) if not _listed(field)] == []


def _listed(field: str) -> bool:
    return any(fragment in field for fragment in ELSEWHERE) or field.endswith(PARTLY)


def _sizes(value: Any, field: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, str):
        yield field, len(value)
    elif isinstance(value, list):
        yield field, len(value)
        for child in value:
            yield from _sizes(child, f"{field}[]")
    elif isinstance(value, dict):
        yield field, len(value)
        for key, child in value.items():
            yield from _sizes(child, f"{field}.{key}")
            yield from _sizes(child, f"{field}{{}}")


def _fields(schema: Any, field: str, definitions: Any) -> Iterator[tuple[str, Any]]:
    """Yield the schema of every field below one."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name:
        yield from _fields(definitions[name], field, definitions)
        return
    yield field, schema
    for subschema in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _fields(subschema, field, definitions)
    if "items" in schema:
        yield from _fields(schema["items"], f"{field}[]", definitions)
    if isinstance(more := schema.get("additionalProperties"), dict):
        yield from _fields(more, f"{field}{{}}", definitions)
    for key, subschema in schema.get("properties", {}).items():
        yield from _fields(subschema, f"{field}.{key}", definitions)


def _bounds(schema: Any, field: str, definitions: Any) -> Iterator[tuple[str, int]]:
    for subfield, subschema in _fields(schema, field, definitions):
        for bound in ("maxItems", "maxLength", "maxProperties"):
            if bound in subschema and not subfield.endswith(
                ("Spec", ".name", ".cluster", ".nodePool", ".tenant", ".storage")
            ):
                yield subfield, subschema[bound]


def _endless(schema: Any, field: str, definitions: Any) -> Iterator[str]:
    for subfield, subschema in _fields(schema, field, definitions):
        if subschema.get("type") == "array" and "maxItems" not in subschema:
            yield subfield
