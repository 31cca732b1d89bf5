"""The other commands: help, explain, fmt, schema."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.conftest import PROJECT, ROOTS, Allot, edit

from allotment.declared.kinds import KINDS


def test_help_imports_little() -> None:
    code = "import sys; sys.argv = ['allot', '--help']\nfrom allotment.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    pass\nprint(sorted(set(sys.modules) & {'pydantic', 'yaml', 'git', 'rich', 'asyncio'}), file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"
    assert "validate" in run.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_field_has_its_page(kind: str, allot: Allot) -> None:
    def walk(model: object, path: str) -> None:
        page = allot("explain", path)
        assert page.code == 0, path
        if not hasattr(model, "model_fields"):
            return
        for field in model.model_fields.values():
            assert f"{field.alias} <" in page.out, f"{path}.{field.alias}"
        if path.count(".") < 3:
            from allotment.cli.explain import _element

            for field in model.model_fields.values():
                walk(_element(field.annotation), f"{path}.{field.alias}")

    assert KINDS[kind].model.__doc__
    walk(KINDS[kind].model, kind)


def test_explain_knows_near_names(allot: Allot) -> None:
    assert allot("explain", "gpuspec").code == 0
    assert allot("explain", "GPUSpecc").err == "allot: no kind is named 'GPUSpecc'; did you mean 'GPUSpec'?\n"
    assert (
        allot("explain", "GPUInstance.spec.gpuspec").err
        == "allot: GPUInstance.spec has no field 'gpuspec'; did you mean 'gpuSpec'?\n"
    )
    assert all(kind in allot("explain").out for kind in KINDS)


def test_schemas_are_up_to_date(allot: Allot) -> None:
    found = allot("schema", "--repo", PROJECT, "--check")
    assert (found.code, found.out) == (0, "")


def test_a_stale_schema_is_found(sample: Path, allot: Allot) -> None:
    assert allot("schema", "--repo", sample, "--check").code == 1
    assert allot("schema", "--repo", sample).code == 0
    edit(sample, "schemas/Tenant.schema.json", "plan", "plam")
    assert allot("schema", "--repo", sample, "--check").out == "schemas/Tenant.schema.json: stale: run `allot schema`\n"


@pytest.mark.parametrize(
    "path",
    [path for root in ROOTS for path in sorted((PROJECT / root).rglob("*.yaml"))],
    ids=lambda path: str(path.relative_to(PROJECT)),
)
def test_the_sample_fits_its_editors_schema(path: Path) -> None:
    first, text = path.read_text().split("\n", 1)
    assert first.startswith("# yaml-language-server: $schema=")
    _fits((path.parent / first.split("=", 1)[1]).resolve()).validate(yaml.load(text, yaml.CSafeLoader))


@lru_cache
def _fits(path: Path) -> jsonschema.Draft202012Validator:
    """Return what checks a file against a schema, which is one."""
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_a_schema_underlines_what_validation_does() -> None:
    schema = json.loads((PROJECT / "schemas/GPUInstance.schema.json").read_text())
    value = yaml.safe_load((PROJECT / "tenants/solo-ada/instances/webui.yaml").read_text())
    for break_ in (
        lambda spec: spec.update(state="Runing"),
        lambda spec: spec.update(replica=1),
        lambda spec: spec.pop("cluster"),
        lambda spec: spec.update(replicas="2"),
    ):
        wrong = json.loads(json.dumps(value))
        break_(wrong["spec"])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_fmt_writes_the_canonical_form(sample: Path, allot: Allot) -> None:
    assert allot("fmt", "--repo", sample, "--check").code == 0
    edit(sample, "tenants/solo-ada/tenant.yaml", "  plan: starter", "  plan:   'starter' # small")
    (sample / "tenants/solo-ada/members.yaml").write_text("a: [\n")
    found = allot("fmt", "--repo", sample, "--check")
    assert (found.code, found.out.splitlines()[-1]) == (
        1,
        "tenants/solo-ada/tenant.yaml: not in canonical form: run `allot fmt`",
    )
    assert allot("fmt", "--repo", sample, sample / "tenants/solo-ada/tenant.yaml").code == 0
    assert (sample / "tenants/solo-ada/tenant.yaml").read_text().endswith("  plan: starter  # small\n")
    assert (sample / "tenants/solo-ada/members.yaml").read_text() == "a: [\n"
