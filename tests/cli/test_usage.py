"""`allot usage` shows what the reporters recorded, and what their records lack."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support import live
from tests.support.placeholders import placeholder
from tests.support.published import Place, git
from tests.support.recorded_usage import numbered
from tests.support.reported import BRANCH, OURS, Bed
from tests.support.signing_keys import new_key

from allotment.adapters.git.repository import Repository

DAY = "--from", "2026-11-21", "--to", "2026-11-22"


class Run(Protocol):
    def __call__(self, *words: object) -> Result: ...


@pytest.fixture
def bed(place: Place, tmp_path: Path) -> Bed:
    """A cluster in which an instance of solo-ada ran for a minute, another runs, and a storage grew."""
    bed = Bed(tmp_path / "data", place.remote)
    grown = live.claim()
    grown["spec"]["resources"]["requests"]["storage"] = "40Gi"
    grown["metadata"]["labels"] |= {"bill.allotment.dev/film": "7", "allotment.dev/storage-spec": "fast"}
    bed.report(*numbered(1), live.claim(), placeholder("shared", 4), seconds=10)
    for seconds in (50, 60):
        bed.report(*numbered(20), grown, placeholder("shared", 4), seconds=seconds)
    bed.report(*numbered(20), grown, placeholder("shared", 6), seconds=60)
    return bed


@pytest.fixture
def run(place: Place, allot: Allot) -> Run:
    return lambda *words: allot("usage", "--repo", place.root, *words)


def read(result: Result) -> Any:
    assert result.code == 0, result.err
    return checked("usage", result.out)


def commit(folder: Path, message: str, *words: str) -> None:
    git(
        folder,
        "-c",
        "user.name=reporter",
        "-c",
        "user.email=reporter@northlight.example",
        "commit",
        "-qm",
        message,
        *words,
    )


def test_each_interval_has_its_times_and_the_commit_that_proves_it(bed: Bed, run: Run) -> None:
    output = read(run(*DAY, "-o", "json"))
    assert output["kind"] == "UsageOutput"
    assert output["period"] == {
        "start": "2026-11-20T23:00:00Z",
        "end": "2026-11-21T23:00:00Z",
        "timeZone": "Europe/Berlin",
    }
    rows = [
        (
            each["name"],
            each["uid"],
            each["start"][14:19],
            each["end"][14:19],
            each["sizeGiB"],
            each["spec"],
            each["isOpen"],
        )
        for each in output["intervals"]
    ]
    assert rows == [
        ("webui", "p-webui-1", "00:01", "01:00", None, "l4-quarter", False),
        ("models", "c1", "00:10", "01:00", 20, None, False),
        ("webui", "p-webui-20", "00:20", "03:00", None, "l4-quarter", True),
        ("models", "c1", "01:00", "03:00", 40, "fast", True),
    ]
    assert [each["labels"] for each in output["intervals"]] == [{}, {}, {}, {"film": "7"}]
    commits = {each["commit"] for each in output["intervals"]}
    assert commits == {git(bed.remote, "rev-parse", BRANCH)}
    log = git(bed.remote, "show", f"{commits.pop()}:usage/{live.TENANT}.jsonl")
    assert '"uid":"p-webui-1"' in log
    (cluster,) = (each for each in output["clusters"] if each["cluster"] == "eu-1")
    assert (cluster["observedUntil"], cluster["isSigned"], cluster["gaps"]) == ("2026-11-21T10:03:00Z", False, [])


def test_the_table_has_a_row_per_interval_and_notes_what_lacks(bed: Bed, run: Run) -> None:
    result = run(live.TENANT, "--cluster", "eu-1", *DAY)
    lines = result.out.splitlines()
    assert lines[0].split() == [
        "TENANT",
        "CLUSTER",
        "KIND",
        "NAME",
        "SPEC",
        "AMOUNT",
        "FROM",
        "UNTIL",
        "HOURS",
        "UNKNOWN",
    ]
    assert lines[2].split() == [
        *("solo-ada", "eu-1", "storage", "models", "-", "20Gi"),
        *("2026-11-21T11:00:10+01:00", "2026-11-21T11:01:00+01:00", "0.01", "-"),
    ]
    assert lines[3].split()[5:10] == [
        "1",
        "unit",
        "2026-11-21T11:00:20+01:00",
        "2026-11-21T11:03:00+01:00",
        "(continues)",
    ]
    assert "eu-1: the status is not signed" in result.err
    assert "eu-1: observed until 2026-11-21T11:03:00+01:00" in result.err
    assert "us-1" not in result.err
    assert run("-q", live.TENANT, "--cluster", "eu-1", *DAY).err == ""


def test_the_sums_of_each_group(bed: Bed, run: Run) -> None:
    output = read(run("--cluster", "eu-1", *DAY, "--by", "tenant", "--by", "label:film", "-o", "json"))
    assert output["intervals"] == []
    assert [each["group"] for each in output["totals"]] == [
        {"tenant": "solo-ada", "label:film": "-"},
        {"tenant": "solo-ada", "label:film": "7"},
    ]
    assert output["totals"][0]["unitHours"] == pytest.approx((59 + 160) / 3600, abs=1e-6)
    assert output["totals"][1]["storageGiBHours"] == pytest.approx(40 * 120 / 3600, abs=1e-6)
    table = run("--cluster", "eu-1", *DAY, "--by", "day").out.splitlines()
    assert [line.split() for line in table] == [
        ["DAY", "UNIT", "HOURS", "STORAGE", "GiB", "HOURS", "SNAPSHOT", "GiB", "HOURS", "UNKNOWN"],
        ["2026-11-21", "0.06", "1.61", "0.00", "-"],
    ]


def test_csv_has_the_columns_of_the_json_output(bed: Bed, run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("--cluster", "eu-1", *DAY, "-o", "csv").out)))
    assert [row["uid"] for row in rows] == ["p-webui-1", "c1", "p-webui-20", "c1"]
    assert (rows[3]["labels"], rows[3]["sizeGiB"], rows[3]["hours"], rows[3]["isOpen"]) == (
        "film=7",
        "40.000000",
        "0.033333",
        "true",
    )
    (row,) = csv.DictReader(
        io.StringIO(run("--cluster", "eu-1", *DAY, "--by", "spec", "--by", "instance", "-o", "csv").out)
    )
    assert (row["spec"], row["instance"], row["unitHours"]) == ("l4-quarter", "solo-ada/webui", "0.060833")


def test_a_period_may_start_and_end_within_an_interval(bed: Bed, run: Run) -> None:
    period = "--from", "2026-11-21T10:00:30Z", "--to", "2026-11-21T11:00:40+01:00"
    intervals = read(run(*period, "--cluster", "eu-1", "-o", "json"))["intervals"]
    assert [(each["uid"], each["start"][17:19], each["end"][17:19]) for each in intervals] == [
        ("p-webui-1", "30", "40"),
        ("c1", "30", "40"),
        ("p-webui-20", "30", "40"),
    ]
    result = run("--month", "2026-10")
    assert (result.out, "no use is recorded in this period" in result.err) == ("", True)
    assert "eu-1: usage is recorded since 2026-11-21T11:00:10+01:00" in result.err


def test_a_gap_and_an_uncertain_end_are_shown(bed: Bed, run: Run) -> None:
    bed.report(*numbered(3), placeholder("shared", 6), seconds=3600)
    result = run("--cluster", "eu-1", *DAY)
    assert (
        "eu-1: nobody observed the cluster for 1.00 hours in 1 gap: 2026-11-21T11:03:00+01:00 to 2026-11-21T12:03:00+01:00"
        in result.err
    )
    row = next(line.split() for line in result.out.splitlines() if "11:00:20" in line)
    assert row[-2:] == ["0.04", "1.00"]


def test_logs_of_earlier_months_are_read(bed: Bed, run: Run) -> None:
    bed.clock += 20 * 86_400
    bed.report(*numbered(30), placeholder("shared", 6))
    bed.report(*numbered(31), placeholder("shared", 6))
    december = git(bed.remote, "show", f"{BRANCH}:usage/{live.TENANT}.jsonl").splitlines()
    assert len(december) == 3 + 1, "a header, the use that ended in the gap, and its storage"
    output = read(run(live.TENANT, "--cluster", "eu-1", "--month", "2026-11", "-o", "json"))
    ended = {each["uid"]: each["commit"] for each in output["intervals"] if each["end"] < "2026-11-22"}
    assert ended == {
        "p-webui-1": git(bed.remote, "rev-parse", f"{BRANCH}~2"),
        "c1": git(bed.remote, "rev-parse", f"{BRANCH}~2"),
    }
    assert {"p-webui-20", "p-webui-30"} <= {each["uid"] for each in output["intervals"]}


def test_a_tenant_that_is_only_recorded_is_known(bed: Bed, run: Run, place: Place) -> None:
    result = run("solo-adda", *DAY)
    assert result.code == 2
    assert (
        "no tenant is named 'solo-adda': no tenant with this name is declared or recorded; did you mean 'solo-ada'?"
        in result.err
    )
    shutil.rmtree(place.root / "tenants" / live.TENANT)
    place.merge()
    assert len(read(run(live.TENANT, *DAY, "-o", "json"))["intervals"]) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--month", "2026-11", "--to", "2026-11-08"], "--month can't be combined with --from or --to"),
        (
            ["--from", "2026-11-08", "--to", "2026-11-08"],
            "--from (2026-11-08T00:00:00+01:00) must be before --to (2026-11-08T00:00:00+01:00)",
        ),
        (["--by", "day", "--by", "hour"], "--by day can't be combined with --by hour"),
        (["--by", "instance", "--by", "storage"], "--by instance can't be combined with --by storage"),
        (["--by", "tenant,spec"], "give --by again for each dimension"),
        (["--from", "2026W44T10"], "'2026W44T10' is no time"),
        (["--month", "11/2026"], "'11/2026' is no month: write a month such as 2026-11"),
        (["--from", "2026-11-21T10:00:00"], "is no time: write a day such as 2026-11-01"),
        (["--from", "yesterday"], "'yesterday' is no time"),
        (["--from", "0001-01-01"], "'0001-01-01' is no time"),
        (["--month", "0001-01"], "'0001-01' is no month"),
        (["--by", "tennant"], "no dimension is named 'tennant'; did you mean 'tenant'?"),
        (["--by", "label:"], "no dimension is named 'label:': write tenant, cluster"),
        (["--cluster", "eu-2"], "no cluster is named 'eu-2'; did you mean"),
    ],
)
def test_bad_options_are_refused(words: list[str], message: str, bed: Bed, run: Run) -> None:
    result = run(*words)
    assert result.code == 2
    assert message in result.err


def test_a_foreign_commit_adds_no_usage(bed: Bed, run: Run, place: Place, tmp_path: Path) -> None:
    """Somebody who can push to the branch writes another log."""
    forged = tmp_path / "forged"
    git(tmp_path, "clone", "-q", "--branch", "status/eu-1", str(place.remote), str(forged))
    log = forged / "usage" / f"{live.TENANT}.jsonl"
    log.write_text(log.read_text().splitlines()[0] + "\n")
    (forged / "usage/acme-robotics.jsonl").write_text(log.read_text())
    git(forged, "add", "-A")
    commit(forged, "Forged", "--date", "2099-01-01T00:00:00Z")
    git(forged, "push", "-q", "origin", "HEAD:status/eu-1")
    result = run("--cluster", "eu-1", *DAY, "-o", "json")
    assert result.code == 4
    assert len(json.loads(result.out)["intervals"]) == 4
    assert "eu-1: " in result.err


@pytest.fixture
def forge_status(place: Place, tmp_path: Path) -> Callable[[str, str], None]:
    """Return a function that pushes a file to the status branch, as somebody who can push both refs."""

    def push(path: str, text: str) -> None:
        folder = tmp_path / "forged"
        git(tmp_path, "clone", "-q", "--branch", "status/eu-1", str(place.remote), str(folder))
        (folder / path).write_text(text.replace("{log}", (folder / LOG).read_text()))
        git(folder, "add", "-A")
        commit(folder, "Forged")
        git(folder, "push", "-q", "origin", "HEAD:status/eu-1", f"HEAD:{OURS}")

    return push


LOG = f"usage/{live.TENANT}.jsonl"
STORED = '{"kind":"GPUStorage","name":"x","uid":"u","startTime":"2026-11-21T10:00:00Z","endTime":"2026-11-21T11:00:00Z"'


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (LOG, "{log}{\n", f"{LOG} of commit"),
        (LOG, '{log}{"kind":"a","x":' + "[" * 100_000 + "]" * 100_000 + "}\n", "no UsageLog"),
        (
            LOG,
            "{log}" + STORED + ',"size":"-1Gi"}\n',
            "the usage of solo-ada has no valid size for 'u': it counts as 0",
        ),
        ("usage/wrong.jsonl", "{log}", "its header names another cluster or tenant"),
        ("tenants/wrong.yaml", "kind: Other\n", "tenants/wrong.yaml of commit"),
        (
            "tenants/wrong.yaml",
            "apiVersion: allotment.dev/v1alpha1\nkind: TenantStatus\nmetadata:\n  name: wrong\nstatus:\n  cluster: eu-1\n"
            '  usage:\n  - kind: GPUInstance\n    name: "\\ud800"\n    uid: u\n    startTime: "2026-11-21T10:00:00Z"\n',
            "a character that no encoding has",
        ),
    ],
    ids=["line", "depth", "size", "header", "status", "surrogate"],
)
def test_usage_reports_malformed_records(
    path: str, text: str, message: str, bed: Bed, run: Run, forge_status: Callable[[str, str], None]
) -> None:
    forge_status(path, text)
    for style in ("json", "csv", "table"):
        result = run("--cluster", "eu-1", *DAY, "-o", style)
        assert result.code == 4
        assert message in result.err


@pytest.mark.parametrize("path", ["usage/README", "usage/.jsonl", "usage/README.md", "tenants/.yaml", "tenants/README"])
def test_other_files_of_the_branch_are_ignored(
    path: str, bed: Bed, run: Run, forge_status: Callable[[str, str], None]
) -> None:
    forge_status(path, "{}\n")
    assert len(read(run("--cluster", "eu-1", *DAY, "-o", "json"))["intervals"]) == 4


def test_a_tenant_cant_invent_a_gap(bed: Bed, run: Run, forge_status: Callable[[str, str], None]) -> None:
    gap = '{"kind":"Gap","name":"eu-1","uid":"","startTime":"2026-11-21T10:00:00Z","endTime":"2026-11-21T11:00:00Z"}\n'
    forge_status(LOG, "{log}" + gap)
    (cluster,) = json.loads(run("--cluster", "eu-1", *DAY, "-o", "json").out)["clusters"]
    assert (cluster["gaps"], cluster["problems"]) == ([], ["the usage of solo-ada has the unknown kind 'Gap'"])
    assert run("--cluster", "eu-1", *DAY, "--by", "spec").code == 4


def test_a_cell_is_no_formula_for_a_spreadsheet(bed: Bed, run: Run, forge_status: Callable[[str, str], None]) -> None:
    forge_status(LOG, "{log}" + STORED.replace('"x"', '"=1+1"') + ',"size":"1Gi"}\n')
    rows = list(csv.DictReader(io.StringIO(run("--cluster", "eu-1", *DAY, "-o", "csv").out)))
    assert "'=1+1" in [row["name"] for row in rows]


def test_a_record_without_the_declared_signature_is_ignored(place: Place, run: Run, tmp_path: Path) -> None:
    key = new_key(tmp_path, "key").with_suffix(".pub").read_text().strip()
    edit(place.root, "clusters/eu-1/cluster.yaml", "spec:\n", f"spec:\n  reporter:\n    publicKey: {key}\n")
    place.merge()
    bed = Bed(tmp_path / "data", place.remote)
    bed.report(*numbered(1))
    result = run("--cluster", "eu-1", *DAY, "-o", "json")
    assert result.code == 4
    assert "is not signed with the cluster's key" in result.err
    assert json.loads(result.out)["intervals"] == []


def test_a_signed_record_of_another_cluster_is_ignored(place: Place, run: Run, tmp_path: Path) -> None:
    """Two clusters may declare one key, and whoever may push could then let the usage of one count twice."""
    key = new_key(tmp_path, "key")
    public = key.with_suffix(".pub").read_text().strip()
    for cluster in ("eu-1", "us-1"):
        edit(
            place.root, f"clusters/{cluster}/cluster.yaml", "spec:\n", f"spec:\n  reporter:\n    publicKey: {public}\n"
        )
    place.merge()
    bed = Bed(tmp_path / "data", place.remote, key=public)
    bed.repository.sign_with(key)
    for number in (1, 20):
        bed.report(*numbered(number), seconds=60)
    before = json.loads(run(*DAY, "-o", "json").out)["intervals"]
    for name in ("refs/heads/status/us-1", "refs/allotment/status/us-1"):
        git(place.remote, "update-ref", name, "refs/heads/status/eu-1")
    result = run(*DAY, "-o", "json")
    assert result.code == 4
    assert "is the status of 'eu-1'" in result.err
    assert len(before) > 0
    assert json.loads(result.out)["intervals"] == before
    Repository(place.root).sign_with(key)
    commit(place.root, "What the key signed elsewhere", "-S", "--allow-empty")
    for name in ("refs/heads/status/us-1", "refs/allotment/status/us-1"):
        git(place.root, "push", "-q", "--force", "origin", f"HEAD:{name}")
    assert "is the status of 'no cluster'" in run(*DAY, "-o", "json").err


def test_an_error_elsewhere_in_a_cluster_leaves_its_key(place: Place, run: Run, tmp_path: Path) -> None:
    key = new_key(tmp_path, "key").with_suffix(".pub").read_text().strip()
    reporter = f"spec:\n  reporter:\n    publicKey: {key}\n"
    edit(place.root, "clusters/eu-1/cluster.yaml", "spec:\n", f"{reporter}  fieldOfAnotherVersion: 1\n")
    place.merge()
    bed = Bed(tmp_path / "data", place.remote)
    bed.report(*numbered(1))
    assert "is not signed with the cluster's key" in run("--cluster", "eu-1", *DAY, "-o", "json").err
    for unreadable in ("spec:\n  reporter:\n    publicKey: none\n", "spec:\n  reporter: {\n"):
        edit(place.root, "clusters/eu-1/cluster.yaml", reporter, unreadable)
        place.merge()
        result = run("--cluster", "eu-1", *DAY, "-o", "json")
        assert (
            "spec.reporter.publicKey can't be read, so no commit is trusted: correct clusters/eu-1/cluster"
            in result.err
        )
        assert json.loads(result.out)["intervals"] == []
        edit(place.root, "clusters/eu-1/cluster.yaml", unreadable, reporter)


def test_stock_usage_divides_the_time_of_the_stocks(bed: Bed, place: Place, allot: Allot) -> None:
    words = "stock", "usage", "--repo", place.root, *DAY
    result = allot(*words, "-o", "json")
    assert result.code == 0, result.err
    output = checked("stock usage", result.out)
    (total,) = output["capacity"]
    assert (total["cluster"], total["spec"]) == ("eu-1", "l4-quarter")
    seconds = {name: round(value * 3600) for name, value in total.items() if name not in ("cluster", "spec")}
    used = json.loads(allot("usage", "--repo", place.root, *DAY, "-o", "json").out)["intervals"]
    hours = sum(each["hours"] for each in used if each["resourceKind"] == "GPUInstance")
    assert seconds["sold"] + seconds["oversold"] == round(hours * 3600) > 0
    assert seconds["sold"] + seconds["reserved"] + seconds["idle"] == seconds["stock"]
    assert seconds["stock"] == 4 * 170, "until the last report, which sees 6 units"
    table = allot(*words).out.splitlines()
    assert table[0].split() == "CLUSTER SPEC STOCK UNIT HOURS SOLD RESERVED IDLE OVERSOLD SOLD %".split()
    rows = list(csv.DictReader(io.StringIO(allot(*words, "-o", "csv").out)))
    assert rows[0]["spec"] == "l4-quarter"
    empty = allot("stock", "usage", "--repo", place.root, "--month", "2025-01")
    assert (empty.out, empty.err.splitlines()[0]) == ("", "no stock is recorded in this period")
