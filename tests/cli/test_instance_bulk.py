"""Commands create and change many instances at once: all of them in one commit, or none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.conftest import Allot, Result
from tests.support.published import Place, git

PLACE = ("--cluster", "eu-1", "--gpu-spec", "l4-quarter", "--app", "jupyter")
FOLDER = "tenants/ml-orbit/instances"


def run(place: Place, allot: Allot, *words: object) -> Result:
    return allot("instance", *words, "--repo", place.root)


def changed(place: Place) -> list[str]:
    """Return the status and the path of each file of the last commit."""
    return git(place.root, "show", "--name-status", "--format=", "HEAD").splitlines()


def refuse(place: Place, result: Result) -> list[str]:
    """Return the lines about the problems of an error, after a check that nothing was changed."""
    assert (result.code, result.out) == (2, "")
    assert git(place.root, "status", "--short") == ""
    lines = re.sub(r"/\S*/(rows\.)", r"\1", result.err.removeprefix("allot: ")).splitlines()
    return [line for line in lines if not re.fullmatch(r"\d+ problems?, so nothing was changed:", line)]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("batch", ["batch-1", "batch-2", "batch-3"]),
        ("job-{n}-x", ["job-1-x", "job-2-x", "job-3-x"]),
    ],
)
def test_a_count_numbers_the_names(name: str, files: list[str], published: Place, allot: Allot) -> None:
    words = ("--new-storage", "data-{n}:50Gi:/workspace", "--stopped", "--commit")
    result = run(published, allot, "create", f"ml-orbit/{name}", *PLACE, "--count", 3, *words)
    assert result.code == 0, result
    assert changed(published) == [
        *(f"A\t{FOLDER}/{file}.yaml" for file in files),
        *(f"A\ttenants/ml-orbit/storages/data-{number}.yaml" for number in (1, 2, 3)),
    ]
    assert git(published.root, "log", "-1", "--format=%s") == "Create 3 instances"
    assert f"  name: {files[1]}\n" in (published.root / f"{FOLDER}/{files[1]}.yaml").read_text()
    assert "    - name: data-2\n" in (published.root / f"{FOLDER}/{files[1]}.yaml").read_text()


def test_a_count_beyond_the_quota_creates_nothing(published: Place, allot: Allot) -> None:
    lines = refuse(published, run(published, allot, "create", "solo-ada/batch", *PLACE, "--count", 3))
    assert lines[0] == "the change is invalid, so nothing was changed:"
    assert any("[quota]" in line for line in lines)
    assert lines[-1] == "solo-ada can use in eu-1: l4-quarter"


def test_rows_of_csv_and_of_yaml_give_the_same_files(published: Place, allot: Allot, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(
        "name,app,env,label,replicas,stopped\n"
        "ml-orbit/first,,A=1;B=2,team=x,2,true\n"
        '"ml-orbit/second",vllm,"TEXT=a, b",,,TRUE\n'
    )
    document = tmp_path / "rows.yaml"
    document.write_text(
        "- name: ml-orbit/first\n  env: [A=1, B=2]\n  label: [team=x]\n  replicas: 2\n  stopped: true\n"
        '- name: ml-orbit/second\n  app: vllm\n  env: ["TEXT=a, b"]\n  stopped: true\n'
    )
    texts = []
    for file in (table, document):
        result = run(published, allot, "create", "--from", file, *PLACE)
        assert result.code == 0, result
        texts.append([(published.root / f"{FOLDER}/{name}.yaml").read_text() for name in ("first", "second")])
        git(published.root, "clean", "-fdq", "tenants")
    assert texts[0] == texts[1]
    assert "  app:\n    name: jupyter\n" in texts[0][0]
    assert '      - name: B\n        value: "2"\n  replicas: 2\n' in texts[0][0]
    assert "        value: a, b\n" in texts[0][1]


def test_all_problems_of_a_file_are_named_with_their_lines(published: Place, allot: Allot, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(
        "name,replicas,storage\nml-orbit/first,0,\nml-orbit/chat,,\nml-orbit/third,,nope:/x\nml-orbit/ok1,,\n"
    )
    assert refuse(published, run(published, allot, "create", "--from", table, *PLACE)) == [
        "rows.csv:2: --replicas: '0' is not a whole number from 1 to 100",
        f"rows.csv:3: {FOLDER}/chat.yaml exists already: choose another name, or change the file with `allot set`",
        "rows.csv:4: --storage: ml-orbit has no GPUStorage named 'nope'; known: checkpoints, datasets, notebooks, weights",
    ]
    document = tmp_path / "rows.yaml"
    document.write_text("- name: first\n- name: ml-orbit/two\n  gpuspec: l4\n- name: ml-orbit/six\n  stopped: maybe\n")
    assert refuse(published, run(published, allot, "create", "--from", document, *PLACE)) == [
        "rows.yaml:1: name: 'first' is not in the format TENANT/NAME",
        "rows.yaml:2: there is no column 'gpuspec'; did you mean 'gpu-spec'?",
        "rows.yaml:4: stopped: 'maybe' is not true or false",
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("rows.yaml", "name: x\n", "rows.yaml"),
        ("rows.yaml", "", "rows.yaml is not a list of mappings: begin each row with `- name:`"),
        ("rows.yaml", "- name: [\n", "rows.yaml:"),
        (
            "rows.csv",
            "name,app\nml-orbit/first\n",
            "rows.csv:2: 1 value for 2 columns: write a comma for each empty value",
        ),
        ("rows.csv", "name,app\n", "rows.csv has 0 rows: write 1 to 5,000"),
        ("rows.csv", 'name,app\n"ml-orbit/first\n', "rows.csv:2: this is not CSV: "),
        (
            "rows.csv",
            "name\nml-orbit/twin\nml-orbit/twin\n",
            "rows.csv:3: ml-orbit/twin occurs twice: rows.csv:2 has it too",
        ),
    ],
)
def test_a_malformed_file_is_refused(
    name: str, text: str, problem: str, published: Place, allot: Allot, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    lines = refuse(published, run(published, allot, "create", "--from", tmp_path / name, *PLACE))
    assert lines[0].startswith(problem), lines


def test_a_selector_stops_what_it_selects(published: Place, allot: Allot) -> None:
    result = run(published, allot, "stop", "--tenant", "ml-orbit", "-l", "team=serving", "--commit")
    assert result.code == 0, result
    assert changed(published) == [f"M\t{FOLDER}/chat.yaml", f"M\t{FOLDER}/embed.yaml"]
    assert git(published.root, "log", "-1", "--format=%s") == "Stop 2 instances"
    result = run(
        published, allot, "delete", "--tenant", "ml-orbit", "--state", "stopped", "-l", "team=serving", "--commit"
    )
    assert result.code == 0, result
    assert changed(published) == [f"D\t{FOLDER}/chat.yaml", f"D\t{FOLDER}/embed.yaml"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--tenant", "ml-orbi"), "--tenant: no tenant is named 'ml-orbi'; did you mean 'ml-orbit'?"),
        (("--cluster", "eu-2"), "--cluster: no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (("--spec", "l4-quart"), "--spec: no GPUSpec is named 'l4-quart'; did you mean 'l4-quarter'?"),
        (("--all", "-l", "nobody=x"), "nothing has the label 'nobody'"),
        (
            ("--tenant", "northlight"),
            "no instance has all of these properties: `allot instance list` lists the instances",
        ),
    ],
)
def test_a_selector_that_selects_nothing_is_refused(
    words: tuple[str, ...], problem: str, published: Place, allot: Allot
) -> None:
    assert refuse(published, run(published, allot, "stop", *words))[0].startswith(problem)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("stop",), "name the instances as TENANT/NAME, or select them by --tenant, -l or --all"),
        (
            ("stop", "solo-ada/webui", "--all"),
            "names and selectors exclude each other: omit the names, or all selectors",
        ),
        (("stop", "--state", "Paused"), "'Paused' is not one of 'running', 'stopped', 'onhold'."),
        (("create",), "name the instance as TENANT/NAME, or add --from FILE"),
        (("create", "solo-ada/x", "--count", "0"), "'0' is not a whole number from 1 to 1000"),
    ],
)
def test_a_wrong_call_is_a_usage_error(words: tuple[str, ...], problem: str, published: Place, allot: Allot) -> None:
    assert refuse(published, run(published, allot, *words))[-1].endswith(problem)


def test_a_restart_by_selector_leaves_out_stopped_instances(published: Place, allot: Allot) -> None:
    result = allot("instance", "restart", "--tenant", "ml-orbit", "--dry-run", "-o", "json", "--repo", published.root)
    assert result.code == 0, result
    resources = json.loads(result.out)["resources"]
    assert resources
    assert "GPUInstance ml-orbit/pretrain" not in resources
    assert allot("instance", "restart", "ml-orbit/pretrain", "--dry-run", "--repo", published.root).code == 2
