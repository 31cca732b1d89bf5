"""`allot render`: folders, streams, selections, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.bench.generate import generate
from tests.conftest import DAY, PROJECT, Allot, checked, edit


def files(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*.yaml")}


def test_the_summary_counts(sample: Path, allot: Allot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = allot("render", "--repo", sample, "--out", out, "--as-of", DAY)
    assert (
        first.out
        == f"{out}: 2 clusters, 7 tenants, {len(files(out))} files: {len(files(out))} added, 0 changed, 0 removed, 0 unchanged; 3 warnings, see `allot validate`\n"
    )
    output = checked("render", allot("render", "--repo", sample, "--out", out, "--as-of", DAY, "-o", "json").out)
    assert [output[key] for key in ("folder", "clusters", "tenants", "warnings")] == [str(out), 2, 7, 3]
    assert [output[key] for key in ("files", "added", "unchanged")] == [len(files(out)), 0, len(files(out))]
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "spec:\n", "spec:\n  state: Stopped\n")
    (sample / "tenants/uni-lab/instances/group-d.yaml").unlink()
    second_result = allot("render", "--repo", sample, "--out", out, "--as-of", DAY)
    # The accessor follows: it shares a node with the instance only while that runs. group-d had copies, and a budget of its own
    # in its namespace. Each of four folders has its marker.
    assert f"0 added, 7 changed, 1 removed, {len(files(out)) - 7} unchanged" in second_result.out


def test_nothing_is_written_while_anything_is_wrong(sample: Path, allot: Allot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    edit(sample, "tenants/solo-ada/instances/webui.yaml", "l4-quarter", "l4-fifth")
    result = allot("render", "--repo", sample, "--out", out, "--as-of", DAY)
    assert (result.code, result.out, out.exists()) == (1, "", False)
    assert "no GPUSpec is named 'l4-fifth'" in result.err
    assert allot("render", "--repo", sample, "--stdout", "--as-of", DAY).out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repo"]


def test_a_selection_touches_only_its_part(sample: Path, allot: Allot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    allot("render", "--repo", sample, "--out", out, "--as-of", DAY)
    whole = files(out)
    (sample / "tenants/film-house/instances/train-owl.yaml").unlink()
    (sample / "tenants/uni-lab/instances/group-d.yaml").unlink()
    allot("render", "--repo", sample, "--out", out, "--as-of", DAY, "--tenant", "film-house")
    assert whole - files(out) == {"eu-1/tenants/film-house/compute/train-owl.rendered.yaml"}
    fresh = tmp_path / "fresh"
    allot("render", "--repo", sample, "--out", fresh, "--as-of", DAY, "--tenant", "ml-orbit", "--cluster", "us-1")
    assert all(path.startswith("us-1/") and "ml-orbit" in path for path in files(fresh))
    assert len(files(fresh)) == 9


def test_an_unknown_selection_is_refused(sample: Path, allot: Allot, tmp_path: Path) -> None:
    result = allot("render", "--repo", sample, "--out", tmp_path / "out", "--tenant", "film-hous")
    assert (result.code, result.err) == (2, "allot: no tenant is named 'film-hous'; did you mean 'film-house'?\n")
    assert not (tmp_path / "out").exists()


def test_render_prints_a_summary_of_the_selection(sample: Path, allot: Allot, tmp_path: Path) -> None:
    def render_summary(*words: str) -> str:
        out = tmp_path / "-".join(("out", *words))
        return allot("render", "--repo", sample, "--out", out, "--as-of", DAY, *words).out.partition(": ")[2]

    assert render_summary().startswith("2 clusters, 7 tenants, ")
    assert render_summary("--tenant", "solo-ada").startswith("1 cluster, 1 tenant, 8 files: ")
    assert render_summary("--cluster", "us-1").startswith("1 cluster, 2 tenants, ")


def test_a_stream_holds_the_same_objects(sample: Path, allot: Allot, tmp_path: Path) -> None:
    out = tmp_path / "out"
    allot("render", "--repo", sample, "--out", out, "--as-of", DAY)
    stream = allot("render", "--repo", sample, "--stdout", "--as-of", DAY)
    assert stream.code == 0
    texts = stream.out.split("---\n# ")
    assert {text.split("\n", 1)[0]: text.split("\n", 1)[1] for text in texts[1:]} == {
        path: (out / path).read_text() for path in files(out)
    }
    assert sum(document is not None for document in yaml.safe_load_all(stream.out)) > 150


def test_declarations_are_never_overwritten(sample: Path, allot: Allot) -> None:
    for out in (sample, sample / "tenants", sample / "tenants/out", sample.parent):
        result = allot("render", "--repo", sample, "--out", out, "--as-of", DAY)
        assert result.code == 2, out
    assert (sample / "platform/platform.yaml").read_bytes() == (PROJECT / "platform/platform.yaml").read_bytes()


def test_a_target_is_needed_once(sample: Path, allot: Allot, tmp_path: Path) -> None:
    assert allot("render", "--repo", sample).code == 2
    assert allot("render", "--repo", sample, "--stdout", "--out", tmp_path / "out").code == 2


@pytest.mark.process
def test_a_reader_that_has_enough_is_no_bug() -> None:
    run = f"'{sys.executable}' -m allotment render --repo '{PROJECT}' --stdout --as-of {DAY} | head -1; echo ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True)
    assert (process.stdout, process.stderr) == ("---\n141\n", "")


@pytest.mark.process
def test_any_number_of_processes_writes_the_same(tmp_path: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    generate(tmp_path / "repo", 130)
    streams = set()
    for number in (1, 1, 2, 5):
        monkeypatch.setattr("allotment.services.check.tenant_results.count_cores", lambda number=number: number)
        result = allot("render", "--repo", tmp_path / "repo", "--stdout", "--as-of", DAY)
        assert result.code == 0
        streams.add(result.out)
    assert len(streams) == 1
    assert streams.pop().count("\nkind: Deployment\n") == 130 * 2 + 1
