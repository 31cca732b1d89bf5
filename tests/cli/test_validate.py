"""`allot validate`: formats, paths, exit status, and what was remembered."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.conftest import DAY, Allot, checked, copy, count_declarations, edit, errors, own
from tests.support.published import git
from tests.support.terminal import ALLOT, run_in_terminal

from allotment.reports.rule_pages import rule_pages

WEBUI = "tenants/studio-kite/instances/webui.yaml"
ADA = "tenants/solo-ada/instances/webui.yaml"


@pytest.fixture
def broken(sample: Path) -> Path:
    """Return the sample, its hosts somebody's own, with a wrong reference, and a mount that is an error of two instances."""
    own(sample)
    edit(sample, ADA, "gpuSpec: l4-quarter", "gpuSpec: l4-quater")
    copy(sample, "tenants/studio-kite/instances/comfy.yaml", "tenants/studio-kite/instances/dup.yaml")
    return sample


def test_text_ends_with_what_to_do(broken: Path, allot: Allot) -> None:
    result = allot("validate", "--repo", broken, "--as-of", DAY)
    assert result.code == 1
    assert len(errors(result)) == 3
    assert result.out.splitlines()[-1] == (
        f"3 problems in 3 files ({count_declarations(broken)} files of 7 tenants read). Correct them and run `allot validate` again;"
        " `allot explain KIND.spec.FIELD` explains a field."
    )


def test_validate_mentions_fmt_fix_once_at_the_end(broken: Path, allot: Allot) -> None:
    path = broken / "tenants/uni-lab/tenant.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    edit(broken, "tenants/film-house/tenant.yaml", "Film House", "1.10")
    result = allot("validate", "--repo", broken, "--as-of", DAY)
    before = len(errors(result))
    assert result.out.endswith(" `allot fmt --fix` corrects 2 of these.\n")
    assert result.out.count("fmt --fix") == 1
    allot("fmt", "--repo", broken, "--fix")
    result = allot("validate", "--repo", broken, "--as-of", DAY)
    assert (len(errors(result)), "fmt --fix" in result.out) == (before - 2, False)


def test_a_part_says_what_it_judged_and_how_much_is_wrong_elsewhere(broken: Path, allot: Allot) -> None:
    folder = broken / "tenants/uni-lab"
    result = allot("validate", "--repo", broken, "--as-of", DAY, folder / "tenant.yaml")
    assert (result.code, result.out) == (0, "1 file: fine; 3 problems elsewhere (`allot validate` shows them)\n")
    files = len(list(folder.rglob("*.yaml")))
    result = allot("validate", "--repo", broken, "--as-of", DAY, folder, broken / "tenants/solo-ada/tenant.yaml")
    assert result.out == f"{files + 1} files: fine; 3 problems elsewhere (`allot validate` shows them)\n"
    result = allot("validate", "--repo", broken, "--as-of", DAY, broken / ADA)
    assert result.code == 1
    assert "1 problem in" in result.out.splitlines()[-1]
    assert "(1 file read; 2 problems elsewhere (`allot validate` shows them))" in result.out.splitlines()[-1]
    edit(broken, ADA, "gpuSpec: l4-quater", "gpuSpec: l4-quarter")
    (broken / "tenants/studio-kite/instances/dup.yaml").unlink()
    assert allot("validate", "--repo", broken, "--as-of", DAY, folder / "tenant.yaml").out == "1 file: fine\n"


def test_a_part_behind_a_link_is_not_read_to_count_it(broken: Path, allot: Allot, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "tenant.yaml").write_text("x")
    (broken / "tenants/link").symlink_to(folder)
    result = allot("validate", "--repo", broken, "--as-of", DAY, broken / "tenants/link")
    assert result.code == 1
    assert "(0 files read; 3 problems elsewhere" in result.out.splitlines()[-1]


def test_every_format_says_that_something_is_wrong_elsewhere(broken: Path, allot: Allot) -> None:
    words = ("validate", "--repo", broken, "--as-of", DAY, broken / "tenants/uni-lab/tenant.yaml", "--output")
    rest = "3 problems elsewhere (`allot validate` shows them)"
    output = checked("validate", allot(*words, "json").out)
    assert [output[key] for key in ("files", "tenants", "elsewhere", "problems")] == [1, None, 3, []]
    assert allot(*words, "github").out == f"::notice title=elsewhere::{rest}\n"
    (run,) = json.loads(allot(*words, "sarif").out)["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (run["results"], note["message"]["text"]) == ([], rest)
    output = allot(*words, "gitlab")
    assert (json.loads(output.out), output.err) == ([], f"{rest}\n")


def test_before_the_first_commit_nothing_was_there_to_compare_with(sample: Path, allot: Allot) -> None:
    """As pre-commit asks, and the very first time too."""
    git(sample, "init", "-q")
    result = allot("validate", "--repo", sample, "--as-of", DAY, "--base", "HEAD")
    assert (result.code, result.err) == (0, "")
    edit(sample, ADA, "gpuSpec: l4-quarter", "gpuSpec: l4-quater")
    assert allot("validate", "--repo", sample, "--as-of", DAY, "--base", "HEAD").code == 1
    assert "names no commit here" in allot("validate", "--repo", sample, "--as-of", DAY, "--base", "main").err


def test_json(broken: Path, allot: Allot) -> None:
    report = checked("validate", allot("validate", "--repo", broken, "--output", "json", "--as-of", DAY).out)
    assert [(problem["path"], problem["rule"], problem["severity"]) for problem in report["problems"]] == [
        (ADA, "reference", "error"),
        ("tenants/studio-kite/instances/comfy.yaml", "mount", "error"),
        ("tenants/studio-kite/instances/dup.yaml", "mount", "error"),
        (WEBUI, "lifecycle", "warning"),
    ]
    assert report["problems"][0]["line"] == 8


def test_github_escapes_what_would_be_a_command(broken: Path, allot: Allot) -> None:
    lines = allot("validate", "--repo", broken, "--output", "github", "--as-of", DAY).out.splitlines()
    assert (
        lines[0]
        == f"::error file={ADA},line=8,col=12,title=reference::spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'?"
    )
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::error", "::warning"]


def test_gitlab(broken: Path, allot: Allot) -> None:
    report = json.loads(allot("validate", "--repo", broken, "--output", "gitlab", "--as-of", DAY).out)
    assert next(
        (issue["location"]["path"], issue["location"]["lines"]["begin"], issue["severity"]) for issue in report
    ) == (
        ADA,
        8,
        "major",
    )
    assert len({issue["fingerprint"] for issue in report}) == 4


def test_sarif(broken: Path, allot: Allot) -> None:
    run = json.loads(allot("validate", "--repo", broken, "--output", "sarif", "--as-of", DAY).out)["runs"][0]
    assert [result["ruleId"] for result in run["results"]] == ["reference", "mount", "mount", "lifecycle"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 8, "startColumn": 12}


@pytest.mark.parametrize("style", ["text", "json", "github", "gitlab", "sarif"])
def test_a_hostile_file_stays_inert(style: str, sample: Path, allot: Allot) -> None:
    name = "x\u202e%0A::error::\nowned"
    try:
        (sample / "tenants/solo-ada/instances" / f"{name}.yaml").write_text("::set-output name=a::b\n\x1b[31m")
    except OSError:
        pytest.skip("this file system takes no such name")
    result = allot("validate", "--repo", sample, "--output", style, "--as-of", DAY)
    assert result.code == 1
    assert "\x1b" not in result.out
    assert "\nowned" not in result.out
    assert "\u202e" not in result.out


def test_paths_show_what_they_cause_or_suffer(broken: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(broken / "tenants")
    relative_path = ADA.removeprefix("tenants/")
    assert [line.split(":")[0] for line in allot("validate", "--as-of", DAY, "solo-ada").lines] == [relative_path]
    # Both instances mount comfy-home: each file shows its own error, and that of the storage both.
    for names, path in (
        (["comfy"], "instances/comfy"),
        (["dup"], "instances/dup"),
        (["comfy", "dup"], "storages/comfy-home"),
    ):
        result = allot("validate", "--as-of", DAY, f"studio-kite/{path}.yaml")
        paths = [f"studio-kite/instances/{name}.yaml" for name in names]
        assert (result.code, [line.split(":")[0] for line in result.lines]) == (1, paths)
    fine = allot("validate", "--as-of", DAY, "uni-lab/tenant.yaml")
    assert (fine.code, fine.lines) == (0, [])


def test_the_folder_where_one_stands_is_a_path(broken: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("validate", "--as-of", DAY)
    folder = broken / "tenants/uni-lab"
    files = len(list(folder.rglob("*.yaml")))
    monkeypatch.chdir(folder)
    for path in (".", "../uni-lab", "instances/.."):
        summary = f"{files} files: fine; 3 problems elsewhere (`allot validate` shows them)\n"
        assert allot(*words, path).out == summary, path
    monkeypatch.chdir(broken)
    assert allot(*words, ".").out == allot(*words).out
    (broken / "..odd").write_text("x")
    assert "is outside the folders of declarations" in allot(*words, "..odd").out


def test_paths_outside_are_refused(sample: Path, allot: Allot, tmp_path: Path) -> None:
    result = allot("validate", "--repo", sample, tmp_path / "elsewhere.yaml")
    assert result.code == 2
    assert "lies outside" in result.err


def test_a_path_that_nothing_reads_is_told(sample: Path, allot: Allot) -> None:
    """A designer who misspells a folder would be told that all is fine."""
    misspelt = sample / "tenant/solo-ada/instances/mine.yaml"
    misspelt.parent.mkdir(parents=True)
    misspelt.write_text("kind: GPUInstance\n")
    result = allot("validate", "--repo", sample, "--as-of", DAY, misspelt, sample / "tenants/uni-lab/tenant.yaml")
    assert result.code == 0
    assert result.out.splitlines() == [
        "tenant/solo-ada/instances/mine.yaml:1:1: (file): warning: the file is outside the folders of declarations, clusters, platform, tenants, so it is ignored [layout]",
        "1 file: fine, 1 warning",
    ]


@pytest.mark.parametrize("style", ["text", "json", "github", "gitlab", "sarif"])
def test_such_a_path_may_have_any_name(sample: Path, allot: Allot, style: str) -> None:
    odd = sample / os.fsdecode(b"b\xff")
    odd.write_text("x")
    result = allot("validate", "--repo", sample, "--as-of", DAY, odd, "--output", style)
    assert (result.code, result.err) == (0, "")
    assert "is outside the folders of declarations" in result.out


def test_a_path_that_does_not_exist_is_no_verdict(sample: Path, allot: Allot) -> None:
    result = allot("validate", "--repo", sample, sample / "tenants/nobody.yaml")
    assert (result.code, result.out) == (2, "")
    assert "doesn't exist" in result.err


def test_links_and_strangers_are_never_read(sample: Path, allot: Allot) -> None:
    secret = sample.parent / "secret.yaml"
    secret.write_text("password: hunter2\n")
    (sample / "tenants/solo-ada/instances/link.yaml").symlink_to(secret)
    (sample / "tenants/evil").symlink_to("solo-ada")
    os.mkfifo(sample / "tenants/solo-ada/instances/pipe.yaml")
    (sample / "tenants/loose.yaml").write_text("x")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert errors(result) == [
        "tenants/evil:1:1: (file): no declaration belongs here: move or remove it [layout]",
        "tenants/loose.yaml:1:1: (file): no declaration belongs here: move or remove it [layout]",
        "tenants/solo-ada/instances/link.yaml:1:1: (file): is a symbolic link: replace it by the file itself [layout]",
        "tenants/solo-ada/instances/pipe.yaml:1:1: (file): is no regular file: replace it by the file itself [layout]",
    ]


def test_no_repository(tmp_path: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = allot("validate")
    assert result.code == 2
    assert result.err.startswith("allot: no platform/platform.yaml in ")


def test_a_bug_of_ours_is_reported_without_traceback(
    sample: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.services.check.repository_check.check_repository", lambda *_, **__: 1 / 0)
    result = allot("validate", "--repo", sample)
    assert result.code == 3
    path = result.err.rsplit(" ", 1)[1].strip()
    assert "Traceback" not in result.err
    assert "ZeroDivisionError" in Path(path).read_text()
    Path(path).unlink()


def test_paths_are_of_where_one_stands(broken: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(broken / "tenants")
    (line,) = allot("validate", "--as-of", DAY, "solo-ada").lines
    assert line.startswith("solo-ada/instances/webui.yaml:8:12: ")
    monkeypatch.chdir(broken / "clusters/eu-1")
    assert errors(allot("validate", "--as-of", DAY))[0].startswith(f"../../{ADA}:8:12: ")
    assert checked("validate", allot("validate", "-o", "json", "--as-of", DAY).out)["problems"][0]["path"] == ADA
    monkeypatch.chdir("/")
    assert errors(allot("validate", "--repo", broken, "--as-of", DAY))[0].startswith(f"{ADA}:8:12: ")


def test_on_a_terminal_the_line_is_shown_with_a_caret(broken: Path) -> None:
    edit(broken, ADA, "  gpuSpec: l4-quater", "  gpuSpec: l4-quater # \u00e9")
    lines = run_in_terminal([*ALLOT, "validate", "--as-of", DAY, ADA], broken, columns=200).lines
    assert lines[0].startswith(f"{ADA}:8:12: spec.gpuSpec: no GPUSpec")
    assert lines[1:3] == ["      gpuSpec: l4-quater # \u00e9", "               ^"]


def test_one_mistake_is_one_problem(sample: Path, allot: Allot) -> None:
    """What is held for others is none of hers: that there is none left of it says nothing more."""
    edit(sample, ADA, "gpuSpec: l4-quarter", "gpuSpec: l4-half")
    (error,) = errors(allot("validate", "--repo", sample, "--as-of", DAY))
    assert error.endswith("are held for film-house; known: a100-1g, a100-3g, l4-quarter, l4-whole [reference]")


def test_sarif_says_what_each_rule_demands(broken: Path, allot: Allot) -> None:
    (run,) = json.loads(allot("validate", "--repo", broken, "-o", "sarif", "--as-of", DAY).out)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["lifecycle", "mount", "reference"]
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["help"]["text"] == " ".join(rule_pages()[rule["id"]].split())
        assert rule["help"]["text"].startswith(rule["shortDescription"]["text"].rstrip("."))


def test_a_missing_reference_lists_the_declared_names(sample: Path, allot: Allot) -> None:
    edit(sample, ADA, "  cluster: eu-1\n", "")
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    message = "spec.cluster: is missing: write the name of a declared Cluster; known: eu-1, us-1 [required]"
    assert [line.split(": ", 1)[1] for line in errors(result)] == [message]


def test_a_wrong_file_name_does_not_hide_the_problems_of_the_file(sample: Path, allot: Allot) -> None:
    (sample / ADA).rename(sample / "tenants/solo-ada/instances/WebUI.yaml")
    edit(sample, "tenants/solo-ada/instances/WebUI.yaml", "  cluster: eu-1\n", "  cluster: eu-1\n  state: On\n")
    lines = errors(allot("validate", "--repo", sample, "--as-of", DAY))
    assert any("file name 'WebUI' is not allowed" in line for line in lines), lines
    assert any("spec.state: 'On' is not allowed: write one of Running, Stopped" in line for line in lines), lines
