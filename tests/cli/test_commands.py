"""The other commands: help, explain, fmt, schema."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.conftest import PROJECT, ROOTS, Allot, checked, edit
from tests.support.terminal import ALLOT, run_in_terminal

from allotment.cli import main
from allotment.cli.main import COMMAND_GROUPS
from allotment.declared.kinds import KINDS
from allotment.observed.retention import WAYS_OUT, RetentionReason
from allotment.reports.rule_pages import rule_pages


@pytest.mark.process
def test_help_imports_little() -> None:
    code = "import sys; sys.argv = ['allot', '--help']\nfrom allotment.cli.main import main\ntry:\n    main()\nexcept SystemExit:\n    pass\nprint(sorted(set(sys.modules) & {'pydantic', 'yaml', 'git', 'rich', 'asyncio'}), file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"
    assert "validate" in run.stdout


def test_help_lists_every_command_in_one_group(allot: Allot) -> None:
    folder = Path(main.__file__).parent
    modules = {file.stem for file in folder.glob("*.py") if "\ndef command(" in file.read_text()}
    assert sorted(name for commands in COMMAND_GROUPS.values() for name in commands) == sorted(
        name.replace("_", "-") for name in modules
    )
    lines = allot("--help").out.splitlines()
    titles = [line.removesuffix(":") for line in lines if line.removesuffix(":") in COMMAND_GROUPS]
    assert titles == ["Tenants", "Finance", "Platform team", "Operations (SRE)", "CI and services", "This program"]
    for title, commands in COMMAND_GROUPS.items():
        section = itertools.takewhile(bool, lines[lines.index(f"{title}:") + 1 :])
        assert [line.split()[0] for line in section if not line.startswith("     ")] == list(commands)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_field_has_its_page(kind: str, allot: Allot) -> None:
    from allotment.reports.manual_pages import element_type, manual_page

    def walk(model: object, path: str) -> None:
        fields = {field.name for field in manual_page(path).fields}
        if not hasattr(model, "model_fields"):
            return
        assert fields >= {field.alias for field in model.model_fields.values()}, path
        if path.count(".") < 3:
            for field in model.model_fields.values():
                walk(element_type(field.annotation), f"{path}.{field.alias}")

    assert KINDS[kind].model.__doc__
    walk(KINDS[kind].model, kind)
    page = allot("explain", kind).out
    assert all(f"{field.name} <" in page for field in manual_page(kind).fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_says_what_it_is_for(kind: str) -> None:
    from allotment.reports.manual_pages import manual_page

    def walk(subject: str) -> Iterator[str]:
        for field in manual_page(subject).fields:
            if not field.description:
                yield f"{subject}.{field.name}"
            if subject.count(".") < 8:
                yield from walk(f"{subject}.{field.name}")

    assert list(walk(kind)) == []


def test_a_page_says_what_a_value_keeps_to_and_shows_an_example(allot: Allot) -> None:
    ports = allot("explain", "GPUInstance.spec.container.ports").out
    assert (
        "  name <text> -required-  3 to 15 characters, a-z, 0-9 and single '-', a letter first, no '-' last\n" in ports
    )
    assert "  containerPort <integer> -required-  1 to 65,535\n      The port that the program listens on.\n" in ports
    names = {
        kind: allot("explain", f"{kind}.metadata.name").out for kind in ("GPUInstance", "Tenant", "Cluster", "App")
    }
    for kind, longest in (("GPUInstance", 24), ("Tenant", 20), ("Cluster", 24), ("App", 32)):
        assert f"3 to {longest} characters of a-z, 0-9 and single '-', a letter first" in names[kind]
    assert "labels <mapping of text to text>  at most 20 entries" in allot("explain", "Stock.metadata").out
    page = checked("explain", allot("explain", "Stock", "-o", "json").out)
    sample = [path.read_text() for path in (PROJECT / "clusters").glob("*/stocks/*.yaml")]
    assert page["example"] in sample
    assert allot("explain", "Stock").out.rstrip().endswith("    " + page["example"].rstrip().splitlines()[-1])


def test_a_rule_has_a_page(allot: Allot) -> None:
    assert "the nodes of a pool have enough GPUs" in allot("explain", "rule", "packing").out
    assert "\npacking " in allot("explain", "rule").out
    unknown = allot("explain", "rule", "packng")
    assert (unknown.code, unknown.out, unknown.err) == (
        2,
        "",
        "allot: no rule is named 'packng'; did you mean 'packing'?\n",
    )


@pytest.mark.parametrize("reason", list(RetentionReason))
def test_every_reason_of_a_retention_is_explained_with_its_remedy(allot: Allot, reason: RetentionReason) -> None:
    lines = allot("explain", reason.value).out.splitlines()
    assert lines[0] == f"REASON   {reason.value}"
    assert " ".join(lines[1:]).split("What to do: ")[1].lower().startswith(WAYS_OUT[reason][:20].lower())


def test_the_word_in_brackets_of_a_problem_has_a_page(allot: Allot) -> None:
    for rule, text in rule_pages().items():
        page = checked("explain", allot("explain", rule, "-o", "json").out)
        description = " ".join(page["description"].split())
        assert description.endswith(" ".join(text.split())), rule
    assert allot("explain", "reference").out == allot("explain", "rule", "reference").out


def test_a_word_that_is_a_kind_and_a_rule_shows_both(allot: Allot) -> None:
    both = [rule for rule in rule_pages() if rule in {kind.lower() for kind in KINDS}]
    assert both == ["cluster", "cordon", "ownership", "stock"]
    output = allot("explain", "stock").out
    assert output.startswith("KIND     Stock\n")
    assert "\n    Rule stock: " in output
    assert "Rule stock" not in allot("explain", "Stock").out
    assert allot("explain", "rule", "stock").out.startswith("RULE     stock\n")


def test_a_default_in_seconds_shows_as_a_duration(allot: Allot) -> None:
    for field, default in (
        ("GPUInstance.spec.container.probe.startTimeout", "10m"),
        ("GPUStorage.spec.prepare.timeout", "24h"),
        ("Platform.spec.deletion.after", "1h"),
    ):
        assert f"(default {default})" in allot("explain", field).out
        kind, *_, name = field.split(".")
        schema = (PROJECT / f"schemas/{kind}.schema.json").read_text(encoding="utf-8")
        assert re.search(rf'"{name}": {{\s*"default": "{default}"', schema)


def test_a_reason_of_a_status_has_a_page(allot: Allot) -> None:
    result = allot("explain", "nofreeunit")
    assert result.out.startswith(
        "REASON   NoFreeUnit\n\n    No unit of its GPUSpec is free in the cluster.\n\n    What to do: Wait, "
    )
    assert allot("explain", "reason", "NoFreeUnit").out == result.out
    assert "\nNoFreeUnit " in allot("explain", "reason").out
    assert "its containers have started" in allot("explain", "Started").out
    assert allot("explain", "running").out.startswith("STATE    Running\n\n    The probe succeeds")
    both = allot("explain", "Starting").out
    assert both.startswith("REASON   Starting\n")
    assert "As a state: The container has started" in both
    assert (
        allot("explain", "NoFreUnit").err
        == "allot: no kind, rule, state or reason is named 'NoFreUnit'; did you mean 'NoFreeUnit'?\n"
    )
    assert checked("explain", allot("explain", "NoFreeUnit", "-o", "json").out)["subject"] == "reason NoFreeUnit"


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("words", ["", "rule", "reason", "GPUInstance.spec", "GPUInstance.spec.replicas", "NoFreeUnit"])
def test_explain_fits_the_terminal(words: str, columns: int) -> None:
    screen = run_in_terminal([*ALLOT, "explain", *words.split()], PROJECT, columns)
    assert (screen.status, [line for line in screen.lines if len(line) > columns]) == (0, [])
    assert len(screen.lines) > 4


def test_explain_lists_a_kind_a_line_in_a_pipe(allot: Allot) -> None:
    lines = allot("explain").out.splitlines()
    assert [line.split()[0] for line in lines] == list(KINDS)
    assert max(map(len, lines)) > 80


@pytest.mark.parametrize("name", ["startTimeout", "starttimeout", "probe.startTimeout"])
def test_the_name_of_a_field_lists_its_paths(name: str, allot: Allot) -> None:
    paths = ["App.spec.versions.container.probe.startTimeout", "GPUInstance.spec.container.probe.startTimeout"]
    result = allot("explain", name)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"FIELD    {name}\n\n    The fields of this name, by their paths.\n\nFIELDS\n  ")
    assert sorted(re.findall(r"^  ([A-Z]\S+) <", result.out, re.MULTILINE)) == paths
    assert all(allot("explain", path).code == 0 for path in paths)
    page = checked("explain", allot("explain", name, "-o", "json").out)
    assert sorted(field["name"] for field in page["fields"]) == paths


@pytest.mark.process
def test_explain_exits_silently_on_a_closed_pipe() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    run = [sys.executable, "-P", "-m", "allotment", "explain", "rule"]
    done = subprocess.run(run, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


def test_explain_knows_near_names(allot: Allot) -> None:
    assert allot("explain", "gpuspec").code == 0
    assert (
        allot("explain", "GPUSpecc").err
        == "allot: no kind, rule, state or reason is named 'GPUSpecc'; did you mean 'GPUSpec'?\n"
    )
    assert (
        allot("explain", "GPUInstance.spec.gpuspec").err
        == "allot: GPUInstance.spec has no field 'gpuspec'; did you mean 'gpuSpec'?\n"
    )
    assert all(kind in allot("explain").out for kind in KINDS)


def test_schemas_are_up_to_date(allot: Allot) -> None:
    result = allot("schema", "--repo", PROJECT, "--check")
    assert (result.code, result.out) == (0, "")


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
    result = allot("fmt", "--repo", sample, "--check")
    assert (result.code, result.out.splitlines()[-1]) == (
        1,
        "tenants/solo-ada/tenant.yaml: not in canonical form: run `allot fmt`",
    )
    assert allot("fmt", "--repo", sample, sample / "tenants/solo-ada/tenant.yaml").code == 0
    assert (sample / "tenants/solo-ada/tenant.yaml").read_text().endswith("  plan: starter  # small\n")
    assert (sample / "tenants/solo-ada/members.yaml").read_text() == "a: [\n"


def test_fmt_reports_a_symbolic_link_as_validate_does(sample: Path, allot: Allot) -> None:
    (sample / "tenants/solo-ada/instances/link.yaml").symlink_to("webui.yaml")
    problem = (
        "tenants/solo-ada/instances/link.yaml:1:1: (file): is a symbolic link: replace it by the file itself [layout]"
    )
    for words in (("fmt", "--check"), ("fmt", sample / "tenants/solo-ada"), ("validate",)):
        result = allot(words[0], "--repo", sample, *words[1:])
        assert (result.code, problem in result.out.splitlines()) == (1, True)
    assert allot("fmt", "--repo", sample, sample / "tenants/uni-lab").code == 0


def test_fmt_of_what_isnt_there_is_the_commands_fault(sample: Path, allot: Allot) -> None:
    result = allot("fmt", "--repo", sample, sample / "tenants/solo-ada/instances/webiu.yaml")
    assert (result.code, result.out) == (2, "")
    assert "webiu.yaml doesn't exist" in result.err


def test_fmt_fixes_what_can_mean_one_thing_only(sample: Path, allot: Allot) -> None:
    path = sample / "tenants/solo-ada/instances/webui.yaml"
    meant = path.read_text()
    path.write_text("\ufeff" + meant.split("\n", 1)[1].replace('"1.11.0"', "1.10"))
    assert allot("fmt", "--repo", sample, path).code == 1
    fixed = allot("fmt", "--repo", sample, "--fix", path)
    assert (fixed.code, fixed.out) == (0, "tenants/solo-ada/instances/webui.yaml: formatted\n")
    assert path.read_text() == meant.replace('"1.11.0"', '"1.10"')
    assert checked("fmt", allot("fmt", "--repo", sample, "--fix", "-o", "json").out)["changed"] == []
