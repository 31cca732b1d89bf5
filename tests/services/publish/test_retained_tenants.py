"""Why a tenant is retained: each cause gives its reason, in the output of the publish and in the record at the remote."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.adapters.git.malformed import write
from tests.conftest import edit
from tests.support.published import Place, git
from tests.support.signing_keys import declare, new_key
from tests.support.tenant_errors import BREAKS

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.retention_ref import RETAINED, LastRecord, last_record
from allotment.isolation.entitlements import Entitlements
from allotment.observed.retention import (
    MAX_RECORD_BYTES,
    RetainedTenant,
    Retention,
    RetentionReason,
    RetentionRecord,
    decode_record,
    record_name,
    retained_tenant,
)
from allotment.problems import OperationRefused, Problem
from allotment.services.check import cpu_budget
from allotment.services.publish import retention_record
from allotment.services.publish.retention_record import moved_record

WEBUI = "tenants/solo-ada/instances/webui.yaml"
GROUP = "tenants/uni-lab/instances/group-a.yaml"
Cause = Callable[[Place, pytest.MonkeyPatch], None]


def misspell(place: Place, _: pytest.MonkeyPatch) -> None:
    """Let solo-ada name a GPUSpec that does not exist."""
    edit(place.root, WEBUI, "l4-quarter", "l4-fifth")


def _remove_storage(place: Place, _: pytest.MonkeyPatch) -> None:
    (place.root / WEBUI).unlink()
    (place.root / "tenants/solo-ada/storages/models.yaml").unlink()


def _stop_at_gate(place: Place, patch: pytest.MonkeyPatch) -> None:
    def judge(_: Entitlements, text: str) -> Iterator[str]:
        yield from ["a mistake"] if "namespace: t-solo-ada" in text and "kind: Service\n" in text else []

    patch.setattr(Entitlements, "judge", judge)
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")


def _spend_time(place: Place, patch: pytest.MonkeyPatch) -> None:
    def through(self: cpu_budget.CpuBudget, items: Iterator[object]) -> Iterator[object]:
        for item in items:
            if isinstance(item, tuple) and "solo-ada" in str(item[0]):
                raise cpu_budget.BudgetExceeded
            yield item

    patch.setattr(cpu_budget.CpuBudget, "meter", through)
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")


def _delete_instances(place: Place, _: pytest.MonkeyPatch) -> None:
    edit(place.root, "platform/platform.yaml", "minObjects: 10", "minObjects: 1")
    for path in (place.root / "tenants/uni-lab/instances").glob("*.yaml"):
        path.unlink()


def _break_cluster(place: Place, _: pytest.MonkeyPatch) -> None:
    edit(place.root, "clusters/us-1/cluster.yaml", "domain: ", "domaine: ")


def _fail(place: Place, patch: pytest.MonkeyPatch) -> None:
    BREAKS["transition"](patch)
    edit(place.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")


CAUSES: dict[RetentionReason, Cause] = {
    RetentionReason.INVALID: misspell,
    RetentionReason.REFUSED_TRANSITION: _remove_storage,
    RetentionReason.ISOLATION_GATE: _stop_at_gate,
    RetentionReason.TIME_BUDGET: _spend_time,
    RetentionReason.BRAKE: _delete_instances,
    RetentionReason.INVALID_CLUSTER: _break_cluster,
    RetentionReason.PROGRAM_ERROR: _fail,
}


@pytest.mark.parametrize("reason", RetentionReason)
def test_each_cause_has_its_reason(published: Place, monkeypatch: pytest.MonkeyPatch, reason: RetentionReason) -> None:
    with monkeypatch.context() as patch:
        CAUSES[reason](published, patch)
        result = published.merged("-o", "json")
    assert result.code == 4, result.err
    retained_tenants = json.loads(result.out)["kept"]
    assert retained_tenants
    assert {tenant["reason"] for tenant in retained_tenants} == {reason}
    assert {tenant["reason"] for tenant in record(published)["tenants"]} == {reason}


def record(place: Place) -> Any:
    """Return the record at the remote."""
    return json.loads(git(place.remote, "show", f"{RETAINED}:retained.json"))


def forge(place: Place, files: dict[str, bytes], *parents: str) -> str:
    """Point the ref at a commit as anyone who can push any ref would; return it."""
    entries = "".join(_entry(place, *file) for file in files.items())
    command = ["git", "-C", str(place.remote), "mktree"]
    tree = subprocess.run(command, input=entries, capture_output=True, text=True, check=True).stdout.strip()
    author = ("-c", "user.name=Eve", "-c", "user.email=eve@example.com")
    onto = [word for parent in parents for word in ("-p", parent)]
    commit = git(place.remote, *author, "commit-tree", *onto, "-m", "Forged", tree)
    git(place.remote, "update-ref", RETAINED, commit)
    return commit


def _entry(place: Place, name: str, data: bytes) -> str:
    return f"100644 blob {write(place.remote, 'blob', data)}\t{name}\n"


def test_nothing_is_written_where_nobody_is_retained(published: Place) -> None:
    assert RETAINED not in published.refs()
    edit(published.root, GROUP, "state: Running", "state: Stopped")
    assert published.merged().code == 0
    assert RETAINED not in published.refs()


def test_the_record_at_the_remote(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    misspell(published, monkeypatch)
    assert published.merged(hours_ago=2).code == 4
    first = published.refs()[RETAINED]
    source = git(published.root, "rev-parse", "HEAD")
    commit_time = int(git(published.remote, "show", "-s", "--format=%ct", RETAINED))
    since = datetime.datetime.fromtimestamp(commit_time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = f"{WEBUI}:8:12: spec.gpuSpec: no GPUSpec is named 'l4-fifth'; did you mean 'l4-eighth'? [reference]"
    (problem,) = record(published)["tenants"][0]["problems"]
    assert problem.startswith(line.partition(";")[0])
    assert git(published.remote, "show", f"{RETAINED}:retained.json").splitlines() == [
        "{",
        f' "source": "{source}",',
        ' "tenants": [',
        "  {",
        '   "tenant": "solo-ada",',
        '   "reason": "Invalid",',
        f'   "since": "{since}",',
        '   "problems": [',
        f"    {json.dumps(problem)}",
        "   ],",
        '   "omitted": 0',
        "  }",
        " ],",
        ' "clusters": [],',
        ' "omitted_tenants": 0',
        "}",
    ]
    assert git(published.remote, "ls-tree", "--name-only", RETAINED) == "retained.json"
    assert (
        git(published.remote, "show", "-s", "--format=%an|%B", RETAINED)
        == "Ada Löwe|Retain 1 tenant\n\nsolo-ada: Invalid"
    )
    assert published.publish().code == 4
    assert published.refs()[RETAINED] == first, "the same record is not written again"
    edit(published.root, GROUP, "state: Running", "state: Stopped")
    assert published.merged().code == 4
    (tenant,) = record(published)["tenants"]
    assert tenant["since"] == since, "it was retained all the time"
    assert git(published.remote, "rev-parse", f"{RETAINED}^") == first
    edit(published.root, WEBUI, "l4-fifth", "l4-quarter")
    assert published.merged().code == 0
    assert (record(published)["tenants"], record(published)["clusters"]) == ([], [])
    last = published.refs()[RETAINED]
    edit(published.root, GROUP, "state: Stopped", "state: Running")
    assert published.merged().code == 0
    assert published.refs()[RETAINED] == last


def test_a_publish_that_changes_no_branch_writes_the_record(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = published.refs()
    misspell(published, monkeypatch)
    result = published.merged("-o", "json")
    moved = {name for name, commit in published.refs().items() if before.get(name) != commit}
    assert (json.loads(result.out)["committed"], moved) == ([], {RETAINED, "refs/allotment/source"})


def test_a_dry_run_writes_no_record(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    misspell(published, monkeypatch)
    assert published.merged("--dry-run").code == 4
    assert RETAINED not in published.refs()


def test_the_record_moves_with_the_branches_or_not_at_all(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    misspell(published, monkeypatch)
    edit(published.root, GROUP, "state: Running", "state: Stopped")
    before = published.refs()
    hook = published.remote / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ntest "$1" != refs/heads/rendered/eu-1\n')
    hook.chmod(0o755)
    assert published.merged().code == 2
    assert published.refs() == before
    hook.unlink()
    assert published.publish().code == 4
    assert record(published)["source"] == published.refs()["refs/allotment/source"]


def test_a_remote_that_refuses_the_record_takes_the_publish(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    misspell(published, monkeypatch)
    source = published.merge()
    git(published.remote, "update-ref", f"{RETAINED}/in-the-way", source)
    assert published.publish().code == 4
    assert published.refs()["refs/allotment/source"] == source
    assert RETAINED not in published.refs()


def test_a_lock_below_the_ref_of_the_record_takes_the_publish(
    published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    misspell(published, monkeypatch)
    source = published.merge()
    folder = published.remote / RETAINED
    folder.mkdir(parents=True)
    (folder / "x.lock").touch()
    result = published.publish()
    assert result.code == 4, result.err
    assert f"record in doubt: {RETAINED} was not moved" in result.err
    assert published.refs()["refs/allotment/source"] == source


def test_pushes_to_the_ref_of_the_record_take_the_publish(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    misspell(published, monkeypatch)
    assert published.merged().code == 4
    edit(published.root, GROUP, "state: Running", "state: Stopped")
    source = published.merge()
    push = Remote.push

    def overtaken(remote: Remote, moves: dict[str, str], over: dict[str, str]) -> bool:
        forge(published, {"retained.json": b"{}"}, published.refs()[RETAINED])
        return push(remote, moves, over)

    monkeypatch.setattr(Remote, "push", overtaken)
    result = published.publish()
    assert result.code == 4, result.err
    assert published.refs()["refs/allotment/source"] == source


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 100_000,
        b'{"source": "x"}, {}',
        b'{"source": "x", "more": 1}',
        b'{"source": "x", "tenants": [{"tenant": "a", "reason": "Other", "since": "2026-01-01T00:00:00Z"}]}',
        b'{"source": "x", "tenants": [{"tenant": "a\\u001b[31m", "reason": "Brake", "since": "2026-01-01T00:00:00Z"}]}',
        b'{"source": "x", "tenants": [{"tenant": "a", "reason": "Brake", "since": "once"}]}',
        b'{"source": "' + b"x" * (5 << 20) + b'"}',
    ],
    ids=["empty", "deep", "trailing", "unknown field", "unknown reason", "control character", "no time", "large"],
)
def test_a_forged_record_decides_nothing_and_is_replaced(
    published: Place, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    forged = forge(published, {"retained.json": data, "other": b"x"})
    misspell(published, monkeypatch)
    edit(published.root, GROUP, "state: Running", "state: Stopped")
    assert published.merged().code == 4
    assert [tenant["tenant"] for tenant in record(published)["tenants"]] == ["solo-ada"]
    assert git(published.remote, "rev-parse", f"{RETAINED}^") == forged, "nothing is forced"
    assert git(published.remote, "ls-tree", "--name-only", RETAINED) == "retained.json"


def test_a_ref_at_no_commit_is_replaced(published: Place) -> None:
    git(published.remote, "update-ref", RETAINED, write(published.remote, "blob", b"x"))
    assert published.publish().code == 0
    assert record(published)["tenants"] == []


def _damage_blob(place: Place) -> None:
    blob = git(place.remote, "rev-parse", f"{RETAINED}:retained.json")
    (place.remote / "objects" / blob[:2] / blob[2:]).unlink()


def test_a_record_whose_file_is_lost_at_the_remote_stops_nobody(
    published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge(published, {"retained.json": b"{}"})
    _damage_blob(published)
    misspell(published, monkeypatch)
    edit(published.root, GROUP, "state: Running", "state: Stopped")
    result = published.merged()
    assert result.code == 4, result.err
    assert f"{RETAINED} is at " in result.err
    assert "which cannot be fetched" in result.err
    assert [tenant["tenant"] for tenant in record(published)["tenants"]] == ["solo-ada"]
    assert published.refs()["refs/allotment/source"] == git(published.root, "rev-parse", "HEAD")


def test_a_record_that_cannot_be_written_stops_no_publish(published: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise OperationRefused("the disk is full")

    monkeypatch.setattr(retention_record, "write_record_file", refuse)
    misspell(published, monkeypatch)
    result = published.merged()
    assert result.code == 4
    assert f"{RETAINED} was not moved: the disk is full" in result.err
    assert RETAINED not in published.refs()
    assert published.refs()["refs/allotment/source"] == git(published.root, "rev-parse", "HEAD")


def test_with_a_key_an_unsigned_record_does_not_count(place: Place, tmp_path: Path) -> None:
    key = new_key(tmp_path, "key")
    declare(place, key)
    assert place.merged("--signing-key", key).code == 0
    edit(place.root, WEBUI, "l4-quarter", "l4-fifth")
    assert place.merged("--signing-key", key).code == 4
    signed = place.refs()[RETAINED]
    repository, public = Repository(place.remote), key.with_suffix(".pub").read_text().strip()
    assert last_record(repository, signed, public).record is not None
    held = record(place)
    held["tenants"][0]["since"] = "2001-01-01T00:00:00Z"
    forged = forge(place, {"retained.json": json.dumps(held).encode()}, signed)
    last = last_record(Repository(place.remote), forged, public)
    assert (last.record, last.trouble) == (
        None,
        f"refs/allotment/retained is at {forged[:12]}, which the publisher's key did not sign",
    )
    assert place.publish("--signing-key", key).code == 4
    assert record(place)["tenants"][0]["since"] > "2026"
    assert last_record(Repository(place.remote), place.refs()[RETAINED], public).record is not None


def _problem(path: str, message: str = "wrong") -> Problem:
    return Problem(path, 1, 1, "(file)", message, "reference")


def test_a_record_is_bounded_and_has_a_tenants_own_problems_alone() -> None:
    own = [_problem(f"tenants/a/instances/{number}.yaml", "x" * 5000) for number in range(30)]
    others = [_problem("tenants/ab/tenant.yaml"), _problem("eu-1/tenants/b/compute/x.yaml")]
    shared = [_problem("clusters/eu-1/cluster.yaml"), _problem("eu-1/tenants/a/compute/x.yaml")]
    tenant = retained_tenant("a", Retention(RetentionReason.INVALID, [*others, *shared, *own]), "2026-01-01T00:00:00Z")
    assert (len(tenant.problems), tenant.omitted) == (20, 12)
    assert [line.partition(":")[0] for line in tenant.problems[:2]] == [problem.path for problem in shared]
    assert max(map(len, tenant.problems)) < 1050
    assert tenant.words.endswith(" (and 31 more)")
    many_tenants = RetentionRecord("c" * 40, (tenant,) * 2000)
    data = many_tenants.encode()
    assert len(data) < MAX_RECORD_BYTES
    decoded = decode_record(data)
    assert decoded.encode() == data
    assert {len(tenant.problems) + tenant.omitted for tenant in decoded.tenants} == {32}


def test_a_record_of_too_many_tenants_counts_those_that_it_leaves_out() -> None:
    tenants = tuple(
        RetainedTenant(f"tenant-{number:06}", RetentionReason.INVALID, "2026-01-01T00:00:00Z", ("wrong",))
        for number in range(50_000)
    )
    data = RetentionRecord("c" * 40, tenants, ("eu-1",)).encode()
    assert MAX_RECORD_BYTES * 0.9 < len(data) <= MAX_RECORD_BYTES
    record = decode_record(data)
    assert len(record.tenants) + record.omitted_tenants == 50_000
    assert record.clusters == ("eu-1",)


def test_the_record_of_long_escapes_can_be_read() -> None:
    emoji = "\N{GRINNING FACE}" * 110
    problem = Problem("tenants/a/tenant.yaml", 1, 1, "spec", f"\n{emoji}", "rule")
    tenant = retained_tenant(emoji, Retention(RetentionReason.INVALID, [problem]), "2026-01-01T00:00:00Z")
    record = RetentionRecord("a" * 40, (tenant,))
    assert decode_record(record.encode()) == record


def test_long_names_stay_different_in_the_record() -> None:
    names = {record_name("a" * 150 + last) for last in "12"}
    assert len(names) == 2


def test_the_record_of_an_unprintable_cluster_can_be_read(published: Place) -> None:
    repository = Repository(published.root)
    release = SimpleNamespace(retained_tenants={}, retained_clusters={"bad\u202ename": [], "c" * 2000: []})
    source = git(published.root, "rev-parse", "HEAD")
    commit = moved_record(repository, source, release, LastRecord(None, None))  # type: ignore[arg-type]  # its only fields
    assert commit is not None
    record = last_record(repository, commit, None)
    assert record.record is not None, record.trouble
    assert len(record.record.clusters) == 2
    assert moved_record(repository, source, release, record) == commit  # type: ignore[arg-type]  # as above
