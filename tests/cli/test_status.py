"""`allot status` and `allot history` show what the status branches say, and when that is old."""

from __future__ import annotations

import copy
import datetime
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.adapters.git.malformed import entry, write, write_commit
from tests.conftest import Allot, Result, checked
from tests.support import live
from tests.support.edited_objects import NAMESPACE, POLICY, whole
from tests.support.instances import CRASHED, RUNS
from tests.support.published import Place, git
from tests.support.reported import Bed
from tests.support.signing_keys import new_key

from allotment.declared.inventory import compute_blob_id
from allotment.manifests.paths import namespace_file
from allotment.manifests.yaml_text import dump
from allotment.observed import decoding
from allotment.observed.status import Instance, TenantStatus, Transition
from allotment.reports import status_tables
from allotment.reports.status_tables import format_age
from allotment.services.reporter import published_objects
from allotment.services.status_view import status_view

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)


class Recent(Bed):
    """A bed whose clock is the real one, less some seconds."""

    ago = 0

    def now(self) -> str:
        moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=self.ago)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def bed(place: Place, tmp_path: Path) -> Recent:
    return Recent(tmp_path / "data", place.remote)


@pytest.fixture
def run_command(place: Place, allot: Allot) -> object:
    def run(*words: object) -> Result:
        return allot(words[0], "--repo", place.root, *words[1:])

    return run


FAILED = (
    live.claim(),
    live.job(attempt=2, condition="Failed"),
    live.job_pod(attempt=2, container=live.waiting("x", ended={"exitCode": 1})),
)


def as_declared(place: Place, *objects: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return live objects of what solo-ada declares."""
    blobs = {"Deployment": "instances/webui", "PersistentVolumeClaim": "storages/models"}
    objects = copy.deepcopy(objects)
    for live_object in objects:
        if (of := blobs.get(live_object["kind"])) is not None:
            data = (place.root / f"tenants/solo-ada/{of}.yaml").read_bytes()
            live_object["metadata"]["annotations"]["allotment.dev/declared-blob"] = compute_blob_id(data)
    return objects


def test_a_row_a_thing_with_its_state_and_why(bed: Recent, run_command: Allot, place: Place) -> None:
    (place.root / "tenants/solo-ada/storages/styles.yaml").unlink()
    place.merge()
    bed.report(*as_declared(place, *RUNS, live.route(), *FAILED))
    result = run_command("status", "solo-ada")
    lines = [line.split() for line in result.out.splitlines() if line.strip()]
    assert " ".join(lines[0]) == "1 instance: 1 Running; 1 storage: 1 Failed"
    assert lines[1] == ["INSTANCE", "CLUSTER", "STATE", "READY", "UNITS", "RESTARTS", "AGE", "URL", "WHY"]
    assert lines[2][:7] == ["solo-ada/webui", "eu-1", "Running", "1/1", "1", "l4-quarter", "0"]
    assert lines[2][-1] == "https://webui.example/"
    assert lines[4][:7] == ["solo-ada/models", "eu-1", "Failed", "20Gi", "Failed,", "attempt", "2"]
    assert "preparation failed in attempt 2: exit 1; `allot recover` tries again" in result.out
    missing = "us-1: no reporter has reported it yet: to report it, run `allot run --report us-1`, or `allot report --cluster us-1` in the cluster"
    assert (result.code, result.err.splitlines()[1:]) == (0, [missing])
    assert result.err.startswith(f"declared: main of origin at {git(place.root, 'rev-parse', 'HEAD')[:12]}, ")
    quiet = run_command("status", "solo-ada", "-q")
    assert (quiet.out, quiet.err) == (result.out, f"{missing}\n")


def test_a_merged_snapshot_has_its_declared_storage(run_command: Allot) -> None:
    lines = [line.split() for line in run_command("status", "studio-kite").out.splitlines()]
    assert ["studio-kite/before-upgrade", "eu-1", "Merged", "outputs", "-"] in [line[:5] for line in lines]


def test_one_thing_with_all_that_is_known(bed: Recent, run_command: Allot) -> None:
    bed.report(*RUNS, live.route(), live.application(resources=(("Deployment", "webui", "Synced"),)))
    out = run_command("status", "solo-ada/webui").out
    assert out.startswith("instance solo-ada/webui\nCluster:")
    for words in ("State:", "Running", "Declaration:", "b1", "Nodes:", "n1", "Argo CD:", "Synced, Healthy"):
        assert words in out
    rows = [line.split()[:3] for line in out.splitlines()]
    assert ["Scheduled", "True", "OnNode"] in rows


def test_the_links_of_an_instance_lead_to_log_terminal_and_graphs(
    bed: Recent, run_command: Allot, place: Place
) -> None:
    bed.report(*RUNS, live.route())
    page = "https://argocd.northlight.example/applications/argocd/solo-ada--eu-1--compute"
    graphs = "https://grafana.northlight.example/d/gpus/instances?var-cluster=eu-1&var-namespace=t-solo-ada"
    links = {
        "Log": f"{page}?node=apps/Deployment/t-solo-ada/webui/0&tab=logs",
        "Terminal": f"{page}?node=/Pod/t-solo-ada/webui-1/0&tab=exec",
        "Graphs": f"{graphs}&var-instance=webui",
    }
    lines = [line.split() for line in run_command("status", "solo-ada/webui").out.splitlines()]
    for word, url in links.items():
        assert [f"{word}:", url] in lines
    (tenant,) = checked("status", run_command("status", "solo-ada/webui", "-o", "json").out)["tenants"]
    (instance,) = tenant["instances"]
    assert [instance[f"{word.lower()}URL"] for word in links] == list(links.values())
    platform = place.root / "platform/platform.yaml"
    platform.write_text(platform.read_text().partition("  argocd:")[0])
    place.merge()
    out = run_command("status", "solo-ada/webui").out
    assert (links["Graphs"] in out, "Log:" in out, "Terminal:" in out) == (True, False, False)


def test_an_edit_of_the_tenants_own_objects_comes_before_its_things(bed: Recent, run_command: Allot) -> None:
    bed.publish(files={namespace_file(live.TENANT): dump([NAMESPACE, POLICY])})
    foreign = {**POLICY, "metadata": {"name": "open\x1b[2J", "namespace": "t-solo-ada"}}
    edited = {**NAMESPACE, "metadata": {**NAMESPACE["metadata"], "annotations": {"x": ""}}}
    for bed.ago in (400, 0):
        for kind, live_object in whole(edited, POLICY, foreign):
            bed.store.put(decoding.WHOLE_OBJECT_KINDS[kind], live_object)
        bed.report(*RUNS, live.route(), live.claim())
    lines = run_command("status", "solo-ada").out.splitlines()[1:]
    assert lines[:2] == [
        "solo-ada in eu-1: Namespace t-solo-ada was edited by hand: metadata.annotations.x isn't published"
        " (undo: kubectl edit namespace t-solo-ada)",
        "solo-ada in eu-1: NetworkPolicy open\\x1b[2J isn't published"
        " (undo: kubectl -n t-solo-ada delete networkpolicy 'open\\x1b[2J')",
    ]
    assert lines[2].startswith("INSTANCE")
    (tenant,) = [
        tenant_status
        for tenant_status in checked("status", run_command("status", "-o", "json").out)["tenants"]
        if tenant_status["conditions"]
    ]
    assert [condition["reason"] for condition in tenant["conditions"]] == ["EditedByHand", "ForeignObject"]


def test_stocks(bed: Recent, run_command: Allot) -> None:
    placeholder = live.deployment("l4", units="4")
    placeholder["metadata"] |= {
        "namespace": "allotment-stock",
        "labels": {"allotment.dev/stock": "l4", "allotment.dev/gpu-spec": "l4-quarter"},
    }
    bed.report(*RUNS, placeholder)
    assert run_command("status", "--stocks", "--cluster", "eu-1").out.split()[-7:] == [
        "l4",
        "eu-1",
        "l4-quarter",
        "4",
        "1",
        "3",
        "0",
    ]
    output = checked("status", run_command("status", "--stocks", "-o", "json").out)["clusters"]
    assert output[0]["stocks"] == [
        {"name": "l4", "gpuSpec": "l4-quarter", "count": 4, "held": 1, "free": 3, "ready": 0, "tenant": None}
    ]
    assert (output[1]["cluster"], output[1]["observedAt"], output[1]["stale"]) == ("us-1", None, True)
    assert output[1]["trouble"] == "no reporter has reported it yet"
    assert run_command("status", "x", "--stocks").code == 2


def test_a_silent_reporter_is_marked(bed: Recent, run_command: Allot) -> None:
    bed.ago = 7200
    bed.report(*RUNS)
    assert run_command("status").out.splitlines()[1].startswith("eu-1: STALE: its reporter has said nothing for ")
    assert json.loads(run_command("status", "-o", "json").out)["clusters"][0]["stale"] is True
    bed.ago = 300
    bed.watch.contact = time.monotonic() - 250
    bed.reporter.tick()
    assert run_command("status").out.splitlines()[1].startswith("eu-1: STALE: it has not answered for 9m")


def test_json_has_the_same(bed: Recent, run_command: Allot, place: Place) -> None:
    bed.report(*as_declared(place, *RUNS, live.claim()))
    output = checked("status", run_command("status", "solo-ada/webui", "-o", "json").out)
    assert output["declared"]["commit"] == git(place.root, "rev-parse", "HEAD")
    assert output["clusters"][0]["stale"] is False
    (tenant,) = output["tenants"]
    assert (tenant["tenant"], tenant["storages"]) == ("solo-ada", [])
    (instance,) = tenant["instances"]
    assert (instance["state"], instance["asDeclared"], instance["why"], instance["url"]) == ("Running", True, "", None)
    assert (
        instance["declaredBlob"]
        == instance["observedBlob"]
        == compute_blob_id((place.root / instance["path"]).read_bytes())
    )
    assert "transitions" not in tenant


def test_history_is_read_back_version_by_version(bed: Recent, run_command: Allot) -> None:
    for _ in range(5):
        bed.report(*RUNS, live.claim())
        bed.report(*CRASHED, live.claim())
    rows = checked("history", run_command("history", "solo-ada/webui", "-o", "json").out)["changes"]
    assert [row["to"] for row in rows] == ["Init", *["Ready", "Running", "Failed"] * 5], "it kept its node"
    assert rows[3] == {
        "time": rows[3]["time"], "cluster": "eu-1", "kind": "GPUInstance", "name": "webui", "from": "Running", "to": "Failed",
        "reason": "CrashLoop",
    }  # fmt: skip
    assert rows[0]["from"] is None
    assert len(json.loads(run_command("history", "solo-ada", "-o", "json").out)["changes"]) == 17
    assert json.loads(run_command("history", "solo-ada", "-o", "json", "--cluster", "us-1").out)["changes"] == []
    table = run_command("history", "solo-ada/webui", "--limit", "2").out.splitlines()
    assert [line.split()[-3:] for line in table[1:]] == [
        ["Starting", "Running", "ProbesAnswered"],
        ["Running", "Failed", "CrashLoop"],
    ]
    assert run_command("history", "solo-ada", "-o", "json", "--cluster", "us-2").code == 2


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("solo-adda/webui", "no tenant is named 'solo-adda': no tenant with this name is declared, published or reported; did you mean 'solo-ada'?"),
        ("solo-ada/webiu", "solo-ada has no resource named 'webiu': no such name is declared, published or reported; did you mean 'webui'?"),
        ("solo-ada/\x1b[2J", "solo-ada has no resource named '\\x1b[2J': no such name is declared, published or reported; known: models, styles, webui"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["status", "history"])
def test_a_name_that_nobody_knows_is_told_with_the_nearest(
    command: str, what: str, words: str, bed: Recent, run_command: Allot
) -> None:
    bed.report(*RUNS)
    result = run_command(command, what)
    assert (result.code, result.out, result.err) == (2, "", f"allot: {words}\n")


def test_the_history_of_what_has_none_yet_is_empty(bed: Recent, run_command: Allot) -> None:
    bed.report(*RUNS)
    result = run_command("history", "solo-ada/styles")
    assert (result.code, result.out) == (0, "")
    assert result.err == (
        "no cluster has reported a change of solo-ada/styles yet: `allot status solo-ada/styles` shows its state\n"
    )
    assert checked("history", run_command("history", "solo-ada/styles", "-o", "json").out)["changes"] == []


def test_history_of_thousands_of_changes_takes_less_than_its_commits(
    bed: Recent, run_command: Allot, place: Place
) -> None:
    """Only the versions that are shown are read, however long the branch is."""
    for number in range(30):
        bed.report(*(RUNS if number % 2 else CRASHED))
    reads = []
    import allotment.adapters.git.repository as module

    original = module.Repository.read_at
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Repository, "read_at", lambda self, *words: reads.append(words) or original(self, *words))
        run_command("history", "solo-ada", "--limit", "2")
    assert len(reads) == 1
    assert int(git(place.remote, "rev-list", "--count", "status/eu-1")) == 30


def test_watching_shows_it_again_and_again(
    bed: Recent, place: Place, monkeypatch: pytest.MonkeyPatch, run_command: Allot
) -> None:
    bed.report(*RUNS)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        bed.report(*CRASHED)

    monkeypatch.setattr("allotment.cli.status.time.sleep", wait)
    result = run_command("status", "solo-ada/webui", "--watch")
    assert result.code == 130
    for more in (("--exit-code",), ("-o", "json")):
        assert run_command("status", "--watch", *more).code == 2
    states = [line.split()[1] for line in result.out.splitlines() if line.startswith("State:")]
    assert states == ["Running", "Failed"]


def test_a_remote_that_is_away_is_told(run_command: Allot, tmp_path: Path) -> None:
    result = run_command("status", "--from", tmp_path / "nothing.git")
    assert result.code == 2
    assert "doesn't answer" in result.err


@pytest.mark.parametrize(
    ("seconds", "shown_as"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (3600, "1h"), (5400, "1h30m"), (90000, "1d1h"), (86400 * 40, "40d")],
)
def test_ages_are_kubectls(seconds: int, shown_as: str) -> None:
    assert format_age((NOW - datetime.timedelta(seconds=seconds)).isoformat(), NOW) == shown_as


def test_history_escapes_control_characters_of_a_branch() -> None:
    evil = Transition("GPUInstance", "\x1b[2J[red]x", "[bold]", "a\nb", "\u202e", "2026-11-21T10:00:00Z")
    out = io.StringIO()
    Console(file=out, width=300).print(status_tables.render_history([("eu-1", evil)], NOW))
    assert "\\x1b[2J[red]x" in out.getvalue()
    assert "a\\nb" in out.getvalue()
    assert "\\u202e" in out.getvalue()


def old(live_object: dict[str, Any]) -> dict[str, Any]:
    """Return an object that is older than any look at the branch."""
    return {**live_object, "metadata": {**live_object["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}}


def test_status_shows_a_removed_instance_that_still_runs(
    bed: Recent, run_command: Allot, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_objects, "POLL_SECONDS", 0.0)
    (place.root / "tenants/solo-ada/instances/webui.yaml").unlink()
    place.merge()
    bed.publish(live.claim())
    git(place.remote, "update-ref", "refs/allotment/source", "main")
    bed.ago = 200
    bed.report(
        *as_declared(place, *(old(live_object) for live_object in (live.claim(), live.application()))), *map(old, RUNS)
    )
    row = next(line for line in run_command("status", "solo-ada").out.splitlines() if "solo-ada/webui" in line)
    assert row.endswith("removed: published, being removed")
    bed.ago = 50
    bed.reporter.tick()
    words = "removed, still running: not published since "
    way_out = "; ask the platform team to refresh Application solo-ada--eu-1--compute"
    row = run_command("status", "solo-ada").out.splitlines()[2]
    assert row.split()[:3] == ["solo-ada/webui", "eu-1", "Running"]
    assert words in row
    assert row.endswith(way_out)
    out = run_command("status", "solo-ada/webui").out
    assert any(line.split()[:3] == ["Why:", "removed,", "still"] for line in out.splitlines())
    assert ["Declared", "False", "RemovedStillRunning"] in [line.split()[:3] for line in out.splitlines()]
    (instance,) = checked("status", run_command("status", "solo-ada", "-o", "json").out)["tenants"][0]["instances"]
    assert (instance["state"], instance["reason"], instance["declaredBlob"]) == ("Running", "RemovedStillRunning", None)
    assert instance["message"].startswith(words)
    assert instance["conditions"][-1]["type"] == "Declared"


def test_the_rows_are_the_same_however_many_files_are_read_at_once(
    bed: Recent, run_command: Allot, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among the rows are current, changed, unreported, removed and published resources."""
    place.publish()
    bed.report(*as_declared(place, *RUNS, live.route(), *FAILED))
    (place.root / "tenants/solo-ada/storages/models.yaml").unlink()
    file = place.root / "tenants/uni-lab/instances/group-a.yaml"
    file.write_text(f"# changed\n{file.read_text()}")
    place.merge()
    outputs = []
    for files in (200, 1):
        monkeypatch.setattr(status_view, "READ_AHEAD_FILES", files)
        outputs.append(json.loads(run_command("status", "-o", "json").out)["tenants"])
    assert outputs[0] == outputs[1]
    resources = [resource for tenant in outputs[0] for kind in ("instances", "storages") for resource in tenant[kind]]
    assert {resource["state"] for resource in resources} == {"Running", "Merged", "Published", "Removing"}


def strange(place: Place, what: str) -> str:
    """Write what can't be read as a status into the remote."""
    tip = git(place.remote, "rev-parse", "refs/heads/status/eu-1")
    tree = git(place.remote, "rev-parse", f"{tip}^{{tree}}")
    who = "author a <a@b.example> 1 +0000\ncommitter a <a@b.example> 1 +0000\n\n"
    if what == "a blob":
        return write(place.remote, "blob", b"x")
    if what == "a long commit":
        return write(place.remote, "commit", f"tree {tree}\nparent {tip}\n{who}".encode() + b"x" * (2 << 20))
    large = write(place.remote, "blob", bytes(33 << 20))
    file = entry(
        "160000" if what == "a submodule" else "100644",
        "stocks.yaml",
        bytes.fromhex(tip if what == "a submodule" else large),
    )
    return write_commit(place.remote, write(place.remote, "tree", file), tip)


@pytest.mark.parametrize("what", ["a blob", "a long commit", "a large file", "a submodule"])
@pytest.mark.parametrize("keyed", [False, True], ids=["without a key", "with a key"])
def test_status_ignores_only_the_cluster_with_an_unreadable_report(
    place: Place, run_command: Allot, tmp_path: Path, what: str, keyed: bool
) -> None:
    place.publish()
    tenant = "uni-lab"
    for cluster in ("eu-1", "us-1"):
        step = Transition("instance", "one", "", "Running", "", "2026-11-21T12:00:00Z")
        place.report(cluster, TenantStatus(tenant, cluster, transitions=(step,)))
    if keyed:
        key = new_key(tmp_path, "key").with_suffix(".pub").read_text().strip()
        file = place.root / "clusters/eu-1/cluster.yaml"
        file.write_text(f"{file.read_text()}  reporter:\n    publicKey: {key}\n")
        place.merge()
    commit = strange(place, what)
    git(place.remote, "update-ref", "refs/allotment/status/eu-1", commit)
    result = run_command("status", "-o", "json")
    assert result.code == 0, result.err
    assert f"commit {commit} can't be read: " in result.out + result.err
    assert [cluster_status["observedAt"] is None for cluster_status in json.loads(result.out)["clusters"]] == [
        True,
        False,
    ]
    assert [
        change["cluster"] for change in json.loads(run_command("history", tenant, "-o", "json").out)["changes"]
    ] == ["us-1"]
    assert place.publish().code == 0


@pytest.mark.parametrize("command", [("status",), ("history", "solo-ada"), ("stock", "list"), ("doctor",)])
def test_a_status_time_without_a_zone_ends_no_command(command: tuple[str, ...], published: Place, allot: Allot) -> None:
    nowhere = "2026-11-21T10:00:00"
    changes = (Transition("GPUInstance", "webui", "Init", "Running", "", nowhere),)
    tenant = TenantStatus(
        "solo-ada", "eu-1", (), (Instance("webui", "b", "Running", "", since=nowhere),), transitions=changes
    )
    published.report("eu-1", tenant, observed=nowhere)
    result = allot(*command, "--repo", published.root)
    assert result.code in (0, 1)
    assert "Traceback" not in result.err
    if command != ("history", "solo-ada"):
        assert "is rejected: it gives a time as '2026-11-21T10:00:00'" in result.out + result.err
