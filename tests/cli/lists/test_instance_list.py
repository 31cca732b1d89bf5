"""`allot instance list`: declared and reported state in one row, filters, formats, and unknown names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.conftest import Allot, Result, checked, edit
from tests.support.published import Place, git
from tests.support.reported import Bed
from tests.support.reported_webui import RecentBed, report_webui, rows

HEADS = "INSTANCE CLUSTER DECLARED STATE READY GPU SPEC UNITS AGE EUR/HOUR URL"


@pytest.fixture
def bed(place: Place, tmp_path: Path) -> RecentBed:
    return RecentBed(tmp_path / "data", place.remote)


@pytest.fixture
def run_list(place: Place, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot("instance", "list", "--repo", place.root, *words)

    return run


def test_a_row_has_the_declared_and_the_reported_state(place: Place, bed: RecentBed, run_list: Allot) -> None:
    place.publish()
    report_webui(place, bed)
    lines = rows(run_list("--tenant", "solo-ada"))
    assert lines[0] == HEADS
    assert lines[1].startswith("solo-ada/webui eu-1 Running Running 1/1 l4-quarter 1 ")
    assert lines[1].endswith(" 0.21 https://webui.example/")
    assert len(lines) == 2


def test_instances_of_a_node(place: Place, bed: RecentBed, run_list: Allot) -> None:
    place.publish()
    report_webui(place, bed)
    (row,) = checked("instance list", run_list("solo-ada", "-o", "json").out)["instances"]
    (node,) = row["nodes"]
    assert [line.split()[0] for line in rows(run_list("--node", node))] == ["INSTANCE", "solo-ada/webui"]
    assert f" {node} " in rows(run_list("--node", node, "-o", "wide"))[1]
    empty = run_list("--node", f"x{node}")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err.splitlines()[:2] == [
        "us-1: no reporter has reported it yet",
        f"no reported pod is on node 'x{node}'; did you mean '{node}'?",
    ]


def test_an_instance_on_hold_holds_no_units_and_costs_nothing(place: Place, run_list: Allot, allot: Allot) -> None:
    path = "tenants/solo-ada/instances/webui.yaml"
    edit(place.root, path, "spec:\n", "spec:\n  hold:\n    reason: It sends spam.\n")
    place.merge()
    assert rows(run_list("solo-ada"))[1] == "solo-ada/webui eu-1 OnHold Merged - l4-quarter 0 - 0.00"
    shown = allot("instance", "show", "solo-ada/webui", "--repo", place.root).out
    assert "OnHold" in shown
    words = ("tenant", "list", "--repo", place.root, "-o", "json", "--tenant", "solo-ada")
    (tenant,) = checked("tenant list", allot(*words).out)["tenants"]
    assert (tenant["running"], tenant["units"]) == (0, 0)


def test_an_instance_without_a_report_is_listed(run_list: Allot) -> None:
    lines = rows(run_list("--tenant", "ml-orbit", "--sort-by", "-cost"))
    assert lines == [
        HEADS,
        "ml-orbit/chat us-1 Running Merged - h100-one 4 - 13.60",
        "ml-orbit/embed eu-1 Running Merged - a100-1g 2 - 0.82",
        "ml-orbit/lab eu-1 Running Merged - a100-1g 1 - 0.41",
        "ml-orbit/pretrain us-1 Stopped Merged - h100-eight 0 - 0.00",
    ]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (("-l", "team"), "ml-orbit/chat ml-orbit/embed ml-orbit/lab ml-orbit/pretrain"),
        (("-l", "team=serving"), "ml-orbit/chat ml-orbit/embed"),
        (("-l", "team,team!=serving"), "ml-orbit/lab ml-orbit/pretrain"),
        (("-l", "film", "--state", "stopped"), "film-house/train-river"),
        (
            ("--gpu", "nvidia-a100-80gb", "--min-memory", "40Gi", "--state", "Running"),
            "film-house/train-fox film-house/train-owl",
        ),
        (("--spec", "h100-one", "--spec", "l40s-spot"), "acme-robotics/simulate ml-orbit/chat"),
        (("--cluster", "us-1", "--max-price", "5"), "acme-robotics/simulate ml-orbit/pretrain"),
    ],
)
def test_filters_select_instances(filters: tuple[str, ...], names: str, run_list: Allot) -> None:
    result = run_list("-o", "name", *filters)
    assert result.code == 0, result.err
    assert result.out == "".join(f"{name}\n" for name in names.split())


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (("--gpu", "nvidia-l5"), "no GPU model is named 'nvidia-l5'; did you mean 'nvidia-l4'?"),
        (("--spec", "l4-quater"), "no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'?"),
        (("--cluster", "eu-2"), "no cluster is named 'eu-2'; did you mean 'eu-1'?"),
        (("--tenant", "solo-adam"), "no tenant is named 'solo-adam'; did you mean 'solo-ada'?"),
        (("-l", "squad=x"), "nothing has the label 'squad'; known: cost-center, film, project, team"),
        (("-l", "team=sales"), "no label 'team' has the value 'sales'; known: research, serving, training"),
        (
            ("--sort-by", "prize"),
            "no column is named 'prize'; known: age, app, cluster, cost, declared, gpu-spec, instance, labels …",
        ),
    ],
)
def test_an_unknown_name_is_an_error(filters: tuple[str, ...], message: str, run_list: Allot) -> None:
    result = run_list(*filters)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1] == f"allot: {message}"


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (("--min-memory", "40G"), "'40G' is not a size: write a whole number with Mi, Gi or Ti, such as 16Gi"),
        (("--max-price", "cheap"), "'cheap' is not an amount: write a number such as 2.50"),
        (("--max-price", "NaN"), "'NaN' is not an amount: write a number such as 2.50"),
        (
            ("-l", "a=b=c"),
            "'a=b=c' is not a label selector: write key=value, key!=value, key or !key, separated by commas",
        ),
    ],
)
def test_an_invalid_filter_is_a_usage_error(filters: tuple[str, str], message: str, run_list: Allot) -> None:
    result = run_list(*filters)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].endswith(f": {message}")


def test_json_and_yaml_have_the_same_values(run_list: Allot) -> None:
    text = run_list("--tenant", "solo-ada", "-o", "json").out
    output = checked("instance list", text)
    assert yaml.safe_load(run_list("solo-ada", "-o", "yaml").out) == output
    (row,) = output["instances"]
    assert (output["currency"], row["costPerHour"], row["gpuMemory"], row["state"]) == ("EUR", 0.21, "24Gi", "Running")
    assert row["storages"] == ["models"]
    assert row["pullRequest"] is None


def test_filters_that_nothing_satisfies_print_a_note(run_list: Allot) -> None:
    result = run_list("--tenant", "solo-ada", "--cluster", "us-1")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines()[-2] == "nothing matches"


def test_a_stopped_tenant_holds_no_units(place: Place, run_list: Allot) -> None:
    edit(place.root, "tenants/solo-ada/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n")
    place.merge()
    assert rows(run_list("--tenant", "solo-ada"))[1] == "solo-ada/webui eu-1 Running Merged - l4-quarter 0 - 0.00"


def test_a_change_is_listed_at_once(place: Place, run_list: Allot) -> None:
    """The second list is from the cache, and the third is not."""
    first = run_list("--tenant", "uni-lab")
    assert run_list("--tenant", "uni-lab").out == first.out
    edit(place.root, "tenants/uni-lab/instances/group-a.yaml", "state: Running", "state: Stopped")
    place.merge()
    assert "uni-lab/group-a eu-1 Stopped Merged - l4-quarter 0 - 0.00" in rows(run_list("--tenant", "uni-lab"))


def test_a_stale_report_is_named_also_if_the_list_comes_from_the_cache(
    place: Place, tmp_path: Path, run_list: Allot, allot: Allot
) -> None:
    place.publish()
    report_webui(place, Bed(tmp_path / "data", place.remote))  # observed in the past
    notice = "eu-1: STALE: its reporter has said nothing for "
    for _ in range(2):
        assert [line.startswith(notice) for line in run_list().err.splitlines() if line.startswith("eu-1")] == [True]
    for words in (("storage", "list"), ("spec", "list"), ("stock", "search")):
        result = allot(*words, "--repo", place.root)
        assert notice in result.err, words
        assert "STALE" not in result.out, words
    assert "STALE" not in allot("--quiet", "instance", "list", "--repo", place.root).err


def test_a_recent_report_is_not_stale(place: Place, bed: RecentBed, run_list: Allot) -> None:
    place.publish()
    report_webui(place, bed)
    assert "STALE" not in run_list().err


def test_a_list_says_that_local_commits_and_files_do_not_count(place: Place, run_list: Allot) -> None:
    commit = git(place.root, "rev-parse", "HEAD")[:12]
    assert run_list().err.splitlines()[-1].startswith(f"declared: main of origin at {commit}, ")
    assert "don't count" not in run_list().err
    edit(place.root, "tenants/solo-ada/instances/webui.yaml", "mountPath: /workspace", "mountPath: /models")
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@northlight.example"]
    git(place.root, *author, "commit", "-q", "-a", "-m", "Not pushed")
    assert "; the folder's changes (1 file) don't count" in run_list().err.splitlines()[-1]
    assert "declared:" not in run_list("-q").err
    result = run_list("--tenant", "solo-ad")
    assert result.err.splitlines()[0].endswith("; the folder's changes (1 file) don't count")
