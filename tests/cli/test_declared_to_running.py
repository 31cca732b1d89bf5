"""`allot status` says of everything that is declared how far it is, from its merge to running, and why not further."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import shlex
from typing import Any, NamedTuple

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support.published import INSTANCE, Place, git
from tests.support.running_tenant import WEBUI, now, running
from tests.support.terminal import ALLOT, run_in_terminal

from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import Instance, TenantStatus

NEVER = "the state of eu-1 is unknown: no reporter has reported it yet"


class Row(NamedTuple):
    """What a row says."""

    state: str
    why: str


class Seen(NamedTuple):
    """The status of a place."""

    place: Place
    allot: Allot

    def __call__(self, *words: object) -> Result:
        return self.allot("status", "--repo", self.place.root, *words)

    def resource_json(self, what: str = "solo-ada/webui", kind: str = "instances") -> dict[str, Any]:
        """Return the only thing of a name, as JSON has it."""
        output = checked("status", self(what, "-o", "json").out)
        ((resource,),) = [tenant[kind] for tenant in output["tenants"]]
        return dict(resource)

    def row(self, what: str = "solo-ada/webui", kind: str = "instances") -> Row:
        """Return what JSON and table say of it alike."""
        resource = self.resource_json(what, kind)
        printed = self(what.partition("/")[0]).out.splitlines()
        lines = [line for line in printed if line.startswith(f"{what} ") and resource["state"] in line.split()]
        marks = {line.partition(":")[0]: line for line in printed if line.startswith("(")}
        shared = [marks[line.split()[-1]] for line in lines if line.split()[-1] in marks]
        assert any(line.endswith(resource["why"]) for line in lines) or any(
            resource["why"] in line and what in line.partition("; concerns ")[2].split(", ") for line in shared
        ), printed
        return Row(resource["state"], resource["why"])


@pytest.fixture
def seen(place: Place, allot: Allot) -> Seen:
    return Seen(place, allot)


@pytest.fixture
def out(published: Place, allot: Allot) -> Seen:
    return Seen(published, allot)


def test_before_anything_is_published_or_reported(seen: Seen) -> None:
    why = "not published yet: nothing has been published yet: run `allot publish` or `allot run`"
    assert seen.row() == Row("Merged", why)
    assert seen.row("studio-kite/before-upgrade", "snapshots") == Row("Merged", why)
    instance = seen.resource_json()
    assert (instance["reason"], instance["progress"], instance["asDeclared"], instance["observedBlob"]) == (
        "NotPublished",
        "going",
        False,
        None,
    )
    assert (instance["path"], instance["declaredBlob"], instance["gpuSpec"]) == (
        WEBUI, compute_blob_id((seen.place.root / WEBUI).read_bytes()), "l4-quarter"
    )  # fmt: skip
    declaration_files = [
        path for path in (seen.place.root / "tenants").glob("*/*/*.yaml") if path.parent.name != "secrets"
    ]  # a status has no secrets
    lines = seen().out.splitlines()
    assert [line for line in lines if why in line] == [lines[-1]], "it is said once"
    named, _, others = lines[-1].partition("; concerns ")[2].partition(" and ")
    assert (
        len(declaration_files)
        == len(named.split(", ")) + int(others.removesuffix(" more"))
        == sum(map(int, re.findall("[0-9]+(?= Merged)", lines[0])))
    )


def test_published_before_any_reporter_was_there(out: Seen) -> None:
    assert out.row() == Row("Published", NEVER)
    result = out("solo-ada/webui")
    assert (
        "What to do:    to report it, run `allot run --report eu-1`, or `allot report --cluster eu-1` in the cluster\n"
        in result.out
    )
    assert f"Declared by:   {WEBUI}\n" in result.out


def test_published_and_not_applied(out: Seen) -> None:
    out.place.report("eu-1", TenantStatus("uni-lab", "eu-1"), observed=now())
    assert out.row() == Row("Published", "Argo CD hasn't applied it yet")


def test_a_change_of_what_runs_is_followed(out: Seen) -> None:
    out.place.report("eu-1", running(out.place, WEBUI), observed=now())
    assert out.row() == Row("Running", "")
    before = git(out.place.root, "rev-parse", "HEAD")
    edit(out.place.root, WEBUI, "spec:\n", "spec:\n  description: Mine.\n")
    out.place.merge()
    commit_time = datetime.datetime.fromtimestamp(
        int(git(out.place.root, "log", "-1", "--format=%ct", before)), datetime.UTC
    )
    of = f"not published yet: the published version is {before[:12]} of {commit_time:%Y-%m-%dT%H:%M:%SZ}"
    assert out.row() == Row("Running", f"changed since: merged, {of}")
    assert (out.resource_json()["progress"], out.resource_json()["asDeclared"]) == ("going", False)
    out.place.publish()
    assert out.row() == Row("Running", "changed since: published, Argo CD hasn't applied it yet")


@pytest.mark.parametrize(
    ("state", "reason", "cells", "colour"),
    [
        ("Ready", "ProbePending", ["Starting", "0/1"], "36"),
        ("Waiting", "NoFreeUnit", ["Waiting", "0/1"], "33"),
        ("Stopped", "StoppedAsDeclared", ["Stopped", "-"], "2"),
    ],
)
def test_an_instance_that_waits_has_none_of_its_replicas(
    state: str, reason: str, cells: list[str], colour: str, out: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = running(out.place, WEBUI).instances[0].observed_blob
    webui = Instance("webui", blob, state, reason, replicas=int(state == "Ready"))
    out.place.report("eu-1", TenantStatus("solo-ada", "eu-1", (), (webui,)), observed=now())
    row = next(line for line in out("solo-ada").out.splitlines() if line.startswith("solo-ada/webui"))
    assert row.split()[2:4] == cells
    assert f"Copies ready:   {cells[1].replace('/', ' of ')}\n" in out("solo-ada/webui").out
    assert out.resource_json()["state"] == state, "programs read it as before"
    assert "solo-ada/webui" in out("--state", cells[0].lower()).out
    assert "solo-ada/webui" in out("--state", state).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert f"\x1b[{colour}m{cells[0]}\x1b[0m" in out("solo-ada").out


def test_a_removal_is_followed(out: Seen) -> None:
    out.place.report("eu-1", running(out.place, WEBUI), observed=now())
    (out.place.root / WEBUI).unlink()
    out.place.merge()
    state, why = out.row()
    assert (state, why.partition(": the published")[0]) == ("Removing", "removed: merged, not published yet")
    out.place.publish()
    assert out.row() == Row("Running", "removed: published, being removed")
    assert out.resource_json()["declaredBlob"] is None
    assert "Declared by:      nothing any more\n" in out("solo-ada/webui").out


def test_status_shows_a_moving_instance_in_both_clusters(out: Seen) -> None:
    out.place.report("eu-1", running(out.place, WEBUI), observed=now())
    edit(out.place.root, WEBUI, "cluster: eu-1", "cluster: us-1")
    out.place.merge()
    rows = [line.split()[:3] for line in out("solo-ada").out.splitlines() if line.startswith("solo-ada/webui")]
    assert rows == [["solo-ada/webui", "eu-1", "Removing"], ["solo-ada/webui", "us-1", "Merged"]]


def test_status_explains_a_resize_that_waits(out: Seen) -> None:
    edit(out.place.root, "clusters/eu-1/stocks/l4-whole.yaml", "count: 5", "count: 1")
    edit(out.place.root, "tenants/solo-ada/tenant.yaml", "plan: starter", "plan: team")
    assert out.place.merged().err == ""
    out.place.report("eu-1", running(out.place, WEBUI), observed=now())
    edit(out.place.root, WEBUI, "l4-quarter", "l4-whole")
    keeps = "keeps 1 unit of l4-quarter on eu-1, as published, until 1 unit of l4-whole is free"
    assert out.place.merged().err == f"waits: solo-ada/webui: {keeps}\n"
    assert out.row() == Row("Running", f"changed since: waiting, {keeps}")
    assert (out.resource_json()["progress"], out.resource_json()["asDeclared"]) == ("going", False)
    assert "What to do:       stop another instance, or choose another GPUSpec\n" in out("solo-ada/webui").out
    edit(out.place.root, WEBUI, "l4-whole", "l4-while")
    out.place.merged()
    assert ": its tenant is retained: " in out.row().why


def test_why_its_tenant_is_kept(out: Seen) -> None:
    edit(out.place.root, WEBUI, "l4-quarter", "l4-quater")
    commit = out.place.merge()
    problem = f"{WEBUI}:8:12: spec.gpuSpec: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'? [reference]"
    wrong = f"its tenant is retained: Invalid: {problem}"
    assert out.row() == Row("Merged", f"not published yet: {wrong}")
    assert out.place.publish().code == 4
    assert git(out.place.remote, "rev-parse", "refs/allotment/source") == commit
    assert out.row() == Row("Kept", f"the previous version is still published: {wrong}")
    assert (out.resource_json()["reason"], out.resource_json()["progress"]) == ("TenantKept", "failed")
    out.place.report("eu-1", running(out.place, "tenants/solo-ada/storages/models.yaml"), observed=now())
    assert out.row("solo-ada/models", "storages") == Row("Ready", "")


def test_a_declaration_that_cannot_be_read_is_where_it_was(out: Seen) -> None:
    out.place.report("eu-1", running(out.place, WEBUI), observed=now())
    (out.place.root / WEBUI).write_text("kind: [\n")
    out.place.merge()
    out.place.publish()
    state, why = out.row()
    assert state == "Running"
    assert why.startswith(
        f"changed since: kept, the previous version is still published: its tenant is retained: Invalid: {WEBUI}:"
    )


def test_a_platform_that_is_wrong_stops_all(out: Seen) -> None:
    edit(out.place.root, "platform/specs/l4-quarter.yaml", "  cpu: 3\n", "  cpu: none\n")
    edit(out.place.root, WEBUI, "spec:\n", "spec:\n  description: Mine.\n")
    out.place.merge()
    state, why = out.row()
    words = "not published yet: nothing can be published: the declarations of the platform are invalid: platform/specs/l4-quarter.yaml:14:8: "
    assert (state, why[: len(words)]) == ("Merged", words)


def test_status_reads_merges_of_the_remote_before_a_fetch(out: Seen, tmp_path: Any) -> None:
    other = out.place.fork(tmp_path / "other")
    (other.root / "tenants/solo-ada/instances/second.yaml").write_text(INSTANCE.format(name="second", labels=""))
    git(other.root, "add", "-A")
    git(other.root, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-m", "Second")
    git(other.root, "push", "-q", "origin", "HEAD:main")
    assert out.row("solo-ada/second").state == "Merged"
    tip = git(other.root, "rev-parse", "HEAD")
    result = out("solo-ada/second")
    assert result.err.startswith(f"declared: main of origin at {tip[:12]}, ")
    assert "; the folder's changes (1 file) don't count\n" in result.err
    assert git(out.place.root, "rev-parse", "HEAD", "refs/remotes/origin/main").split().count(tip) == 0


def test_files_of_the_folder_do_not_count(out: Seen) -> None:
    edit(out.place.root, WEBUI, "spec:\n", "spec:\n  description: Mine.\n")
    (out.place.root / "tenants/solo-ada/instances/second.yaml").write_text(INSTANCE.format(name="second", labels=""))
    (out.place.root / "notes.txt").write_text("of mine")
    assert "; the folder's changes (2 files) don't count\n" in out("solo-ada").err
    assert out("solo-ada/second").code == 2
    assert out.row() == Row("Published", NEVER)


def test_a_clone_of_nothing_shows_what_is_committed(out: Seen) -> None:
    git(out.place.root, "remote", "remove", "origin")
    none = "this repository has no remote named origin"
    assert out.row() == Row("Merged", f"not published yet: {none} to publish to")
    result = out("solo-ada")
    assert result.err.splitlines()[1] == f"eu-1: {none} for the status branches"
    assert result.err.startswith("declared: HEAD at ")
    assert out("solo-ada/webui", "--from", out.place.remote).out.count(NEVER) == 1


def test_a_cluster_speaks_for_no_other(out: Seen) -> None:
    truth = running(out.place, "tenants/ml-orbit/instances/pretrain.yaml")
    assert truth.cluster == "eu-1", "it is declared in us-1"
    of_us_1 = TenantStatus("ml-orbit", "us-1", (), truth.instances)
    out.place.report("eu-1", of_us_1, observed=now())

    def rows() -> list[list[str]]:
        lines = out("ml-orbit").out.splitlines()
        return [line.split()[1:3] for line in lines if line.startswith("ml-orbit/pretrain ")]

    assert rows() == [["eu-1", "Running"], ["us-1", "Published"]], "whatever it says, it is eu-1's branch"
    out.place.report("us-1", truth, observed=now())
    assert rows() == [["eu-1", "Running"], ["us-1", "Running"]]


def test_rows_are_chosen(out: Seen) -> None:
    out.place.report("eu-1", running(out.place, WEBUI), observed=now())

    def names(*words: object) -> list[str]:
        return [line.split()[0] for line in out(*words).out.splitlines() if "/" in line.split(" ")[0]]

    assert names("--state", "RUNNING") == ["solo-ada/webui"]
    assert names("solo-ada", "--state", "running", "--state", "published") == [
        "solo-ada/webui", "solo-ada/models", "solo-ada/styles"
    ]  # fmt: skip
    assert names("--spec", "h100-eight") == ["ml-orbit/pretrain"]
    assert names("--cluster", "us-1", "--spec", "l4-quarter") == []
    nothing = out("--state", "Lost")
    assert (nothing.code, nothing.out, nothing.err.splitlines()[-1]) == (
        0,
        "",
        "no declared or reported resource matches",
    )


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (("--cluster", "eu1"), "allot: no cluster is named 'eu1'; did you mean 'eu-1'?"),
        (("--spec", "l4-quater"), "allot: no GPUSpec is named 'l4-quater'; did you mean 'l4-quarter'?"),
        (("--state", "runing"), "Error: Invalid value for '--state': no state is named 'runing'; did you mean 'Running'?"),
        (
            ("--state", "bogus"),
            "Error: Invalid value for '--state': no state is named 'bogus': write one of init, ready, running, stopped,"
            " waiting, failed, merged, kept, published, removing, overtaken, pending, preparing, lost, starting",
        ),
        (("--stocks", "--state", "Running"), "Error: --stocks can be combined only with --cluster"),
    ],
)  # fmt: skip
def test_status_answers_invalid_values_with_advice(words: tuple[str, ...], expected_error: str, out: Seen) -> None:
    result = out(*words)
    assert (result.code, result.out, result.err.splitlines()[-1]) == (2, "", expected_error)


def test_stocks_that_nothing_reports_are_as_declared(out: Seen) -> None:
    result = out("--stocks")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0] == "STOCK CLUSTER GPU SPEC UNITS HELD FREE READY TENANT"
    assert "l4-quarter eu-1 l4-quarter 40 17 23 -" in lines
    assert "l4-half-film eu-1 l4-half 6 2 4 - film-house" in lines
    assert {line.split()[1] for line in lines[1:]} == {"eu-1", "us-1"}
    (cluster,) = checked("status", out("--stocks", "--cluster", "eu-1", "-o", "json").out)["clusters"]
    (quarter,) = [stock for stock in cluster["stocks"] if stock["name"] == "l4-quarter"]
    assert (quarter["count"], quarter["held"], quarter["free"], quarter["ready"]) == (40, 17, 23, None)


def test_the_exit_code_says_whether_all_is_as_declared(out: Seen) -> None:
    paths = [f"tenants/solo-ada/{stem}.yaml" for stem in ("instances/webui", "storages/models", "storages/styles")]
    assert out("solo-ada", "--exit-code").code == 1
    out.place.report("eu-1", running(out.place, *paths), observed=now())
    assert out("solo-ada", "--exit-code", "-q")[:2] == (0, "")
    assert out("solo-ada", "-q").out, "that was asked for"
    assert out("--exit-code").code == 1
    amiss = out("--exit-code", "-q")
    assert amiss.code == 1
    assert "studio-kite/webui" in amiss.out
    assert "solo-ada/" not in amiss.out, "of what is fine nothing is said"
    assert out("--exit-code", "--spec", "h100-eight").code == 1
    old = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    out.place.report("eu-1", running(out.place, *paths), observed=old)
    assert out("solo-ada", "--exit-code").code == 1, "nobody knows"
    stopped = running(out.place, *paths)
    (instance,) = stopped.instances
    for reason, code in (("StoppedAsDeclared", 0), ("TenantSuspended", 0), ("VersionRevoked", 1)):
        webui = Instance("webui", instance.observed_blob, "Stopped", reason)
        out.place.report("eu-1", TenantStatus("solo-ada", "eu-1", (), (webui,), stopped.storages), observed=now())
        assert out("solo-ada", "--exit-code").code == code, reason


@pytest.mark.parametrize("columns", [80, 120])
def test_why_is_whole_on_a_terminal(columns: int, out: Seen) -> None:
    edit(out.place.root, WEBUI, "l4-quarter", "l4-quater")
    out.place.merge()
    out.place.publish()
    why = out.row().why
    assert len(why) > columns
    words = [*ALLOT, "status", "solo-ada", "-q", "--repo", str(out.place.root)]
    seen = run_in_terminal(["sh", "-c", f"{shlex.join(words)} 2> /dev/null"], out.place.root, columns)
    assert seen.status == 0
    lines = seen.lines
    first = next(number for number, line in enumerate(lines) if line.startswith("solo-ada/webui "))
    assert lines[first].split() == ["solo-ada/webui", "eu-1", "Kept", "0/1", "-", "-", "-"]
    indented_lines = list(itertools.takewhile(lambda line: line.startswith("    "), lines[first + 1 :]))
    assert " ".join(line.strip() for line in indented_lines) == why
    assert max(len(line) for line in lines) <= columns


def removed(out: Seen, count: int) -> list[str]:
    """Remove some instances and merge that; return their tenants and names."""
    paths = sorted(out.place.root.glob("tenants/*/instances/*.yaml"))[:count]
    for path in paths:
        path.unlink()
    out.place.merge()
    return [f"{path.parts[-3]}/{path.stem}" for path in paths]


def test_status_shows_removals_that_the_brake_stops(out: Seen) -> None:
    names = removed(out, 9)
    result = out()
    commit = git(out.place.remote, "rev-parse", "refs/allotment/source")
    line = f"published is {commit[:12]}, main is 1 commit ahead: the brake stopped it (9 of 17 instances)"
    assert result.err.splitlines()[1] == line
    rows = {words[0]: words[2] for text in result.out.splitlines() if len(words := text.split()) > 2}
    assert [rows[name] for name in names] == ["Removing"] * 9
    assert [row.split()[0] for row in out("--state", "removing").out.splitlines()[1:] if "Removing" in row] == names
    details = out(names[0]).out
    assert "State:         Removing" in details
    assert "the brake stops this: 9 of 17 instances would be deleted" in " ".join(details.split())
    publish_state = json.loads(out("-o", "json").out)["published"]
    assert (publish_state["commit"], publish_state["ahead"], publish_state["reason"]) == (commit, 1, "braked")


def test_a_retained_tenant_is_named_with_its_reason(out: Seen) -> None:
    edit(out.place.root, WEBUI, "l4-quarter", "l4-quater")
    out.place.merged()
    result = out()
    assert f"published is {git(out.place.root, 'rev-parse', 'HEAD')[:12]}, 1 tenant retained: solo-ada" in result.err


def test_a_rewound_branch_is_said_and_every_state_can_be_asked_for(out: Seen) -> None:
    first = git(out.place.root, "rev-parse", "HEAD")
    edit(out.place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    out.place.merged()
    git(out.place.root, "reset", "-q", "--hard", first)
    git(out.place.root, "push", "-q", "--force", "origin", "main")
    result = out()
    assert "main does not contain it: the source was rewound" in result.err
    state, why = out.row()
    assert (state, "the source was rewound" in why) == ("Merged", True)
    git(out.place.root, "remote", "set-url", "origin", str(out.place.remote))
    states = {
        words[2].rstrip(",") for text in result.out.splitlines() if len(words := text.split()) > 2 and "/" in words[0]
    }
    for state in states:
        assert out("--state", state.lower()).code == 0


def test_an_invalid_platform_hides_nothing(out: Seen) -> None:
    edit(out.place.root, "platform/platform.yaml", "maxDeletedPercent: 30", "maxDeletedPercent: 300")
    edit(out.place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
    tip = out.place.merge()
    result = out()
    assert f"declared: main of origin at {tip[:12]}" in result.err
    assert "main is 1 commit ahead: the declarations of the platform are invalid" in result.err
    state, why = out.row()
    assert state == "Merged"
    assert "platform/platform.yaml:" in why


def test_status_omits_messages_of_other_clusters(out: Seen) -> None:
    result = out("--cluster", "eu-1")
    assert "eu-1: no reporter has reported it yet" in result.err
    assert "us-1" not in result.err


MODELS = "tenants/solo-ada/storages/models.yaml"


def minutes_ago(minutes: int) -> str:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_until_when_a_declaration_keeps_the_data_of_a_removed_storage(out: Seen) -> None:
    """In the plan of the removal, and in the status while the volume leaves; then that it is too late."""
    (out.place.root / WEBUI).unlink()
    edit(out.place.root, MODELS, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    out.place.merged()
    marked = minutes_ago(20)
    out.place.synced("eu-1", "solo-ada", marked=marked, observed=now())
    until = f"{datetime.datetime.fromisoformat(marked) + datetime.timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    git(out.place.root, "fetch", "-q", "origin")
    (out.place.root / MODELS).unlink()
    keeps = f"until {until}, publishing a declaration with its name keeps the data"
    plan = out.place._allot("plan", "--repo", out.place.root)
    assert f"storage solo-ada/models in eu-1 is deleted with its volume of 60Gi and all data on it; {keeps}" in plan.out
    out.place.merged()
    assert out.row("solo-ada/models", "storages") == Row("Removing", f"removed: {keeps}")
    out.place.synced("eu-1", "solo-ada", marked=minutes_ago(90), observed=now())
    out.place.publish()
    state, why = out.row("solo-ada/models", "storages")
    assert (state, "its data may be deleted at any moment" in why) == ("Removing", True)


@pytest.mark.parametrize("marked", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "1969-12-31T23:59:59Z"])
def test_a_mark_of_a_time_beyond_all_reason_stops_no_command(out: Seen, marked: str) -> None:
    (out.place.root / WEBUI).unlink()
    edit(out.place.root, MODELS, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    out.place.merged()
    out.place.synced("eu-1", "solo-ada", marked=marked, observed=now())
    git(out.place.root, "fetch", "-q", "origin")
    (out.place.root / MODELS).unlink()
    assert out.place._allot("plan", "--repo", out.place.root).code == 0
    assert out.place.merged().code == 0
    result = out("solo-ada")
    assert (result.code, "Removing" in result.out) == (0, True)


def test_a_removal_that_is_too_late_to_take_back_is_said_by_its_plan(out: Seen) -> None:
    (out.place.root / WEBUI).unlink()
    edit(out.place.root, MODELS, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    out.place.merged()
    out.place.synced("eu-1", "solo-ada", marked=minutes_ago(90), observed=now())
    git(out.place.root, "fetch", "-q", "origin")
    (out.place.root / MODELS).unlink()
    plan = out.place._allot("plan", "--repo", out.place.root)
    assert "so the next publish may delete its data: a later declaration" in " ".join(plan.out.split())


def test_nothing_goes_before_it_was_seen_to_be_marked(out: Seen) -> None:
    (out.place.root / WEBUI).unlink()
    edit(out.place.root, MODELS, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    out.place.merged()
    (out.place.root / MODELS).unlink()
    out.place.merged()
    output = " ".join(out("solo-ada").out.split())
    assert "Removing" in output
    assert (
        "until its cluster has reported it as marked for deletion for 1h, publishing a declaration with its name keeps the data"
        in output
    )
