"""`allot month close` writes a month to the ledger, and `allot month verify` computes it to the same bytes."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT, Allot, Result, checked, edit
from tests.docs.october import EU, GAP, OCTOBER, SEPTEMBER, at, record_october, run, write_files
from tests.support.published import Place, git
from tests.support.signing_keys import new_key
from tests.support.unmerged_branch import check_out_branch

from allotment.adapters.git.commits import write_signed_tag
from allotment.adapters.git.repository import Repository
from allotment.billing.ledger import close_month
from allotment.billing.monthly_bill import ROUNDED_LINES_FORMAT
from allotment.branches.status_branches import reported_ref
from allotment.manifests.names import status_branch
from allotment.services.billing import month_closing, usage_reader

LEDGER, TAG = "refs/heads/ledger", "refs/tags/bill/2026-10"
ACCEPTED = "--accept-unknown", "--accept-unsigned"
Run = Callable[..., Result]


@pytest.fixture
def key(tmp_path: Path, place: Place) -> Path:
    """A key that signs the tags, which the platform declares."""
    private = new_key(tmp_path, "billing")
    public = private.with_suffix(".pub").read_text(encoding="utf-8").strip()
    edit(place.root, "platform/platform.yaml", "    timeZone:", f"    publicKey: {public}\n    timeZone:")
    place.merge()
    return private


def set_time(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    """Let it be noon of a day for `allot month`."""
    now = datetime.datetime.fromisoformat(f"{day}T12:00:00Z")
    monkeypatch.setattr("allotment.cli.list_options.current_time", lambda: now)


@pytest.fixture
def month(place: Place, allot: Allot, key: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `allot month` on the 27th of November, after October was recorded."""
    set_time(monkeypatch, "2026-11-27")
    record_october(place.remote)
    return lambda *words: allot("month", *words, "--repo", place.root)


@pytest.fixture
def close(month: Run, key: Path) -> Run:
    return lambda *words: month("close", *(words or ("2026-10",)), "--signing-key", key, *ACCEPTED)


def read_ledger(place: Place, path: str) -> Any:
    return json.loads(git(place.remote, "show", f"{LEDGER}:{path}"))


def report(place: Place, now: str, logs: dict[str, Any]) -> None:
    """Report the usage again, on top of the last status."""
    tip = git(place.remote, "rev-parse", status_branch(EU))
    previous = git(place.remote, "rev-list", "--skip=1", "-1", tip)
    commit = write_files(Repository(place.remote), [tip], at(now), logs, previous)
    for ref in (status_branch(EU), reported_ref(EU)):
        git(place.remote, "update-ref", ref, commit)


def test_a_closed_month_is_on_the_ledger_with_its_evidence(close: Run, month: Run, place: Place, allot: Allot) -> None:
    bill = json.loads(allot("bill", "--month", "2026-10", "-o", "json", "--repo", place.root).out)
    status = git(place.remote, "rev-parse", status_branch(EU))
    result = close()
    assert result.code == 0, result.err
    commit = git(place.remote, "rev-parse", LEDGER)
    assert (
        result.out.splitlines()[-1]
        == f"Total 114.84 EUR; closed 2026-10 with commit {commit[:12]} and tag bill/2026-10"
    )
    closing = read_ledger(place, "2026-10/closing.json")
    assert closing["commit"] == git(place.root, "rev-parse", "origin/main")
    assert [cluster["commit"] for cluster in closing["clusters"]] == [status]
    assert closing["totals"] == {each["tenant"]: f"{each['total']:.2f}" for each in bill["invoices"]}
    invoice = read_ledger(place, "2026-10/invoices/studio-kite.json")
    assert [line["amount"] for line in invoice["lines"]] == [
        f"{line['amount']:.2f}" for line in bill["invoices"][1]["lines"]
    ]
    assert [part["uid"] for part in invoice["lines"][0]["intervals"]] == ["webui-b", "webui-c", "webui-d", "webui-e"]
    assert git(place.remote, "rev-list", "--parents", "-1", commit).split()[2:] == [status]
    assert git(place.remote, "cat-file", "-t", TAG) == "tag"
    assert git(place.remote, "rev-parse", f"{TAG}^{{commit}}") == commit
    for signed in (commit, TAG):
        message = git(place.remote, "cat-file", "-p", signed).splitlines()
        assert "Accepted doubts:" in message
        assert "- studio-kite: nobody observed how long uses of 2.52 EUR lasted" in message
    assert git(place.root, "for-each-ref", "refs/heads/ledger") == "", "the clone has no branch of it"


@pytest.mark.process
def test_another_machine_verifies_the_month_to_the_same_bytes(close: Run, place: Place, tmp_path: Path) -> None:
    assert close().code == 0
    report(place, "11-27 10:00", {"studio-kite": [*OCTOBER, run("webui-f", "10-30 06:00", "10-30 09:00")], "": [GAP]})
    edit(place.root, "platform/specs/l4-quarter.yaml", '  - from: "2026-10-01"', '  - from: "2031-10-01"')
    place.merge()
    for zone, locale in (("Asia/Tokyo", "C.UTF-8"), ("America/New_York", "tr_TR.UTF-8")):
        folder = tmp_path / zone.replace("/", "-")
        git(tmp_path, "clone", "-q", str(place.remote), str(folder))
        ended = subprocess.run(
            [sys.executable, "-m", "allotment", "month", "verify", "2026-10", "--repo", str(folder)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TZ": zone, "LC_ALL": locale},
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2026-10 is verified: 3 files, 114.84 EUR\n", "")


def test_a_month_that_was_closed_in_the_first_format_stays_verified(
    close: Run, month: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        month_closing, "close_month", lambda bill: close_month(bill._replace(ledger_format=ROUNDED_LINES_FORMAT))
    )
    assert close().code == 0
    assert read_ledger(place, "2026-10/closing.json")["format"] == ROUNDED_LINES_FORMAT
    assert month("verify", "2026-10").code == 0


def test_later_knowledge_is_an_adjustment_of_the_next_month(close: Run, month: Run, place: Place, allot: Allot) -> None:
    assert close().code == 0
    late = run("webui-late", "10-30 06:00", "10-30 16:00")
    november = run("webui-n", "11-03 06:00", "11-03 16:00")
    report(place, "12-01 01:00", {"studio-kite": [*SEPTEMBER, *OCTOBER, late, november], "": [GAP]})
    words = allot("bill", "studio-kite", "--month", "2026-11", "-o", "json", "--repo", place.root)
    lines = [line for line in json.loads(words.out)["invoices"][0]["lines"] if line["name"] == "webui"]
    assert [(line["adjusts"], line["amount"]) for line in lines] == [(None, 2.10), ("2026-10", 2.10)]


def test_month_close_refuses_unknown_usage_and_an_unfinished_month(month: Run, place: Place, key: Path) -> None:
    words = "--signing-key", key
    refused = month("close", "2026-10", *words)
    assert refused.code == 1
    assert "studio-kite: nobody observed how long uses of 2.52 EUR lasted" in refused.err
    assert "eu-1: nobody observed the cluster for 12.00 hours in 1 gap" in refused.err
    assert (
        refused.err.splitlines()[-1]
        == "the month 2026-10 can't be closed: --accept-unknown --accept-unsigned close it nevertheless"
    )
    refused = month("close", "2026-11", *ACCEPTED, *words)
    assert "the month 2026-11 has not ended" in refused.err
    assert "eu-1: observed until 2026-11-01T02:00:00+01:00" in refused.err
    assert refused.code == 1
    assert git(place.remote, "for-each-ref", "refs/heads/ledger", "refs/tags") == ""


def test_the_problem_of_a_tenant_hides_no_gap_of_its_cluster(
    month: Run, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_reader, "MAX_INTERVALS", 1)
    refused = month("close", "2026-10", "--signing-key", key, "--accept-unsigned")
    assert refused.code == 1
    assert "eu-1: studio-kite has more than 1 intervals" in refused.err
    assert "eu-1: nobody observed the cluster for 12.00 hours in 1 gap" in refused.err


def test_a_month_with_many_doubts_is_closed(close: Run, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    doubts = [f"tenant-{number}: nobody observed how long uses of 2.52 EUR lasted" for number in range(5_000)]
    monkeypatch.setattr(month_closing, "_list_unknowns", lambda *_: doubts)
    assert close().code == 0
    message = git(place.remote, "cat-file", "-p", TAG).splitlines()
    assert f"- {doubts[499]}" in message
    assert "- and 4501 more" in message


def test_a_status_that_nobody_signs_needs_an_option_of_its_own(month: Run, place: Place, key: Path) -> None:
    words = "2026-10", "--signing-key", key, "--accept-unknown"
    refused = month("close", *words)
    assert refused.code == 1
    assert (
        "eu-1: the status is not signed, so everyone with write access to its branch can write the usage" in refused.err
    )
    assert refused.err.splitlines()[-1] == "the month 2026-10 can't be closed: --accept-unsigned closes it nevertheless"
    assert LEDGER not in place.refs()
    output = checked("month close", month("close", *words, "-o", "json").out)
    assert (output["commit"], len(output["unsigned"])) == (None, 1)
    assert month("close", *words, "--accept-unsigned").code == 0


def test_a_price_that_was_merged_after_its_day_is_named_and_not_closed(
    close: Run, place: Place, allot: Allot, key: Path
) -> None:
    edit(place.root, "platform/specs/l4-quarter.yaml", 'perHour: "0.21"', 'perHour: "9.99"')
    commit = place.merge()
    bill = allot("bill", "--month", "2026-10", "--repo", place.root)
    late = f"the price of l4-quarter from 2026-10-01T00:00:00+02:00 to 2026-11-01T00:00:00+01:00 was 0.21, and commit {commit[:12]} of"
    assert (bill.code, late in bill.err, "the bill of 2026-10 is not final" in bill.err) == (4, True, True)
    refused = close()
    assert (refused.code, late in refused.err) == (1, True)
    assert (
        refused.err.splitlines()[-1] == "the month 2026-10 can't be closed: --accept-late-prices closes it nevertheless"
    )
    assert LEDGER not in place.refs()
    output = checked("month close", close("2026-10", "--dry-run", "-o", "json").out)
    assert [late in text for text in output["latePrices"]] == [True]
    assert close("2026-10", "--accept-late-prices").code == 0


def test_a_restored_price_leaves_nothing_to_accept(place: Place, allot: Allot, close: Run) -> None:
    edit(place.root, "platform/specs/l4-quarter.yaml", 'perHour: "0.21"', 'perHour: "9.99"')
    place.merge()
    assert diagnose_ledger(place, allot) == [("warning", "prices")]
    edit(place.root, "platform/specs/l4-quarter.yaml", 'perHour: "9.99"', 'perHour: "0.21"')
    place.merge()
    assert diagnose_ledger(place, allot) == [("ok", "closed months")]
    assert close().code == 0


def test_the_date_of_a_commit_makes_no_price_older(
    place: Place, allot: Allot, month: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(place.root, "platform/specs/l4-quarter.yaml", 'perHour: "0.21"', 'perHour: "9.99"')
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-09-01T00:00:00Z")
    place.merge()
    assert allot("bill", "--month", "2026-10", "--repo", place.root).code == 4


def test_a_spec_that_was_removed_and_declared_again_has_its_old_price(place: Place, allot: Allot, month: Run) -> None:
    path = place.root / "platform/specs/l4-quarter.yaml"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    place.merge()
    path.write_text(text.replace('perHour: "0.21"', 'perHour: "9.99"'), encoding="utf-8")
    place.merge()
    bill = allot("bill", "--month", "2026-10", "--repo", place.root)
    assert bill.code == 4
    assert "the price of l4-quarter from 2026-10-01T00:00:00+02:00 to 2026-11-01T00:00:00+01:00 was 0.21" in bill.err


def test_a_setting_of_billing_that_changed_within_the_month_is_named(place: Place, allot: Allot, month: Run) -> None:
    edit(place.root, "platform/platform.yaml", "    timeZone:", "    unknown: Billed\n    timeZone:")
    commit = place.merge()
    bill = allot("bill", "--month", "2026-10", "--repo", place.root)
    assert bill.code == 4
    assert f"spec.billing.unknown was Free when the month began, and commit {commit[:12]} of" in bill.err


def test_a_shallow_clone_knows_no_late_price(place: Place, allot: Allot, close: Run, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{place.remote}", str(tmp_path / "shallow"))
    bill = allot("bill", "--month", "2026-10", "--repo", tmp_path / "shallow")
    assert bill.code == 4
    assert "the clone is shallow, so nobody knows whether each price was merged before its day" in bill.err


def test_a_cluster_that_lost_its_status_is_not_closed_as_if_it_had_none(
    close: Run, month: Run, place: Place, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unaccepted = month("close", "2026-10", "--signing-key", key, "--accept-unsigned", "--dry-run")
    assert "us-1: no reporter has reported it yet" in unaccepted.err
    assert close().code == 0
    for ref in (status_branch(EU), reported_ref(EU)):
        git(place.remote, "update-ref", "-d", ref)
    set_time(monkeypatch, "2026-12-02")
    refused = close("2026-11")
    assert refused.code == 1
    assert "eu-1: it has no status, but the month before was closed with its status: restore the branch" in refused.err


def test_a_merge_with_a_date_in_the_future_is_named(
    place: Place, allot: Allot, month: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00Z")
    commit = place.merge()
    bill = allot("bill", "--month", "2026-10", "--repo", place.root)
    assert (bill.code, f"commit {commit[:12]} has a date in the future" in bill.err) == (4, True)


def test_adjustments_are_in_the_currency_of_the_bill(close: Run, place: Place, allot: Allot) -> None:
    assert close().code == 0
    edit(place.root, "platform/platform.yaml", "currency: EUR", "currency: JPY")
    place.merge()
    bill = allot("bill", "--month", "2026-11", "--repo", place.root)
    assert (bill.code, "2026-10 was closed in EUR, so its adjustments can't be part of a bill in JPY" in bill.err) == (
        2,
        True,
    )


def test_months_are_closed_once_and_in_their_order(close: Run, month: Run) -> None:
    assert close().code == 0
    again = close()
    assert again.code == 2
    assert "the month 2026-10 is closed: `allot month verify 2026-10` computes it again" in again.err
    skipped = close("2026-12")
    assert "months are closed in their order: 2026-11 is the next" in skipped.err
    earlier = close("2026-09")
    assert "months are closed in their order: 2026-11 is the next" in earlier.err


def test_closed_months_are_listed(close: Run, month: Run, place: Place) -> None:
    empty = month("list")
    assert (empty.code, empty.out, empty.err) == (0, "", "no month is closed\n")
    assert close().code == 0
    commit = git(place.remote, "rev-parse", LEDGER)
    table = [line.split() for line in month("list").out.splitlines()]
    assert table == [["MONTH", "TOTAL", "INVOICES", "COMMIT"], ["2026-10", "114.84", "EUR", "2", commit[:12]]]
    output = checked("month list", month("list", "-o", "json").out)
    assert output["months"] == [
        {"month": "2026-10", "total": 114.84, "currency": "EUR", "invoiceCount": 2, "commit": commit}
    ]


def test_a_dry_run_writes_nothing(close: Run, place: Place) -> None:
    result = close("2026-10", "--dry-run")
    assert result.out.splitlines()[-1] == "Total 114.84 EUR; 2026-10 is not closed"
    assert git(place.remote, "for-each-ref", "refs/heads/ledger", "refs/tags") == ""


def test_another_key_than_the_declared_key_closes_nothing(month: Run, place: Place, tmp_path: Path) -> None:
    other = new_key(tmp_path, "other")
    result = month("close", "2026-10", *ACCEPTED, "--signing-key", other)
    assert "Git signs with another key than spec.billing.publicKey of the platform" in result.err
    public = month("close", "2026-10", *ACCEPTED, "--signing-key", other.with_suffix(".pub"))
    assert public.err.endswith("other.pub is the public half of a key: name the private key\n")
    for setting in (("gpg.format", "ssh"), ("user.signingKey", str(other))):
        git(place.root, "config", *setting)
    assert "Git signs with another key" in month("close", "2026-10", *ACCEPTED).err
    assert git(place.root, "for-each-ref", "refs/tags") == ""
    assert git(place.remote, "for-each-ref", "refs/heads/ledger", "refs/tags") == ""


def rewrite(place: Place, folder: Path, path: str, old: str, new: str) -> None:
    """Change a file of the ledger in a commit of another person."""
    git(folder.parent, "clone", "-q", "-b", "ledger", str(place.remote), str(folder))
    edit(folder, path, old, new)
    git(folder, "-c", "user.name=Eve", "-c", "user.email=eve@northlight.example", "commit", "-qam", "Pay less")
    git(folder, "push", "-q", "origin", "HEAD:ledger")


def test_a_later_change_of_the_ledger_is_found(
    close: Run, month: Run, place: Place, tmp_path: Path, allot: Allot
) -> None:
    assert close().code == 0
    rewrite(place, tmp_path / "eve", "2026-10/invoices/studio-kite.json", '"total": "114.00"', '"total": "1.00"')
    result = month("verify", "2026-10")
    assert result.code == 1
    assert "somebody changed the folder 2026-10 after its closing" in result.err
    for words in (("2026-10",), ("2026-11",)):
        bill = allot("bill", "--month", *words, "--repo", place.root)
        assert (bill.code, bill.out) == (2, "")
        assert bill.err.startswith(
            "allot: the ledger is not as `allot month close` wrote it: somebody changed the folder"
        )
    assert "somebody changed the folder" in close("2026-11").err


def test_a_forged_closing_differs_at_its_first_line(
    close: Run, month: Run, place: Place, tmp_path: Path, key: Path
) -> None:
    assert close().code == 0
    rewrite(place, tmp_path / "eve", "2026-10/closing.json", '"total": "114.84"', '"total": "1.84"')
    commit = git(place.remote, "rev-parse", LEDGER)
    tree, parents = f"{commit}^{{tree}}", git(place.remote, "rev-parse", f"{commit}~1^1", f"{commit}~1^2").split()
    mine = "-c", "user.name=Eve", "-c", "user.email=eve@northlight.example"
    forged = git(place.remote, *mine, "commit-tree", tree, "-p", parents[0], "-p", parents[1], "-m", "Close")
    git(place.remote, "update-ref", LEDGER, forged)
    git(place.remote, *mine, "tag", "-f", "-a", "-m", "forged", "bill/2026-10", forged)
    result = month("verify", "2026-10")
    assert result.code == 1
    assert (
        "the tag bill/2026-10 is not signed with the spec.billing.publicKey that the platform declared then"
        in result.err
    )
    assert result.out.splitlines() == ["2026-10/closing.json:17 differs:", '- "total": "1.84",', '+ "total": "114.84",']
    output = checked("month verify", month("verify", "2026-10", "-o", "json").out)
    assert (output["isVerified"], output["isSigned"]) == (False, False)
    assert output["difference"]["ledger"] == '"total": "1.84",'


def test_prices_that_nobody_merged_are_named(close: Run, month: Run, place: Place) -> None:
    assert close().code == 0
    git(place.root, "commit", "-q", "--amend", "-m", "Another history")
    git(place.root, "push", "-qf", "origin", "HEAD:main")
    result = month("verify", "2026-10")
    assert result.code == 1
    assert "which has the prices of 2026-10, is not part of main of origin" in result.err


def test_a_commit_that_a_merge_took_back_declares_no_key(
    close: Run, month: Run, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request without a difference has a commit with another key, and its author closes a month with it."""
    mine = "-c", "user.name=Eve", "-c", "user.email=eve@northlight.example"
    forged = new_key(tmp_path, "forged")
    main = git(place.root, "rev-parse", "HEAD")
    declare_key(place, forged.with_suffix(".pub").read_text(encoding="utf-8").strip())
    taken_back = git(place.root, "rev-parse", "HEAD")
    back = git(place.root, *mine, "commit-tree", f"{main}^{{tree}}", "-p", taken_back, "-m", "Take it back")
    merge = git(place.root, *mine, "commit-tree", f"{main}^{{tree}}", "-p", main, "-p", back, "-m", "Merge")
    for ref in ("refs/heads/main", "refs/remotes/origin/main"):
        git(place.root, "update-ref", ref, taken_back)
    git(place.root, "push", "-qf", "origin", f"{taken_back}:refs/heads/main")
    git(place.root, "reset", "-q", "--hard", taken_back)
    assert month("close", "2026-10", "--signing-key", forged, *ACCEPTED).code == 0
    git(place.root, "push", "-qf", "origin", f"{merge}:refs/heads/main")
    result = month("verify", "2026-10")
    assert result.code == 1
    assert f"commit {taken_back}, which has the prices of 2026-10, is not part of main of origin" in result.err


def test_a_tag_or_a_folder_alone_is_named(close: Run, month: Run, place: Place, allot: Allot) -> None:
    assert close().code == 0
    tag, tip = git(place.remote, "rev-parse", TAG, LEDGER).split()
    git(place.remote, "update-ref", "-d", TAG)
    alone = "the ledger has the folder 2026-10, but the tag bill/2026-10 is missing"
    assert alone in month("verify", "2026-10").err
    assert alone in allot("bill", "--month", "2026-10", "--repo", place.root).err
    git(place.remote, "update-ref", TAG, tag)
    git(place.remote, "update-ref", "-d", LEDGER)
    alone = "the tag bill/2026-10 points at no commit of the branch ledger"
    assert alone in month("verify", "2026-10").err
    assert alone in close("2026-10").err
    git(place.remote, "update-ref", LEDGER, tip)
    assert month("verify", "2026-10").code == 0


def test_a_closing_that_origin_lost_is_named_and_not_repeated(
    close: Run, month: Run, place: Place, allot: Allot
) -> None:
    """An older backup, or somebody with the right to push, may have removed the ledger and its tag."""
    assert close().code == 0
    git(place.root, "fetch", "-q", "origin")
    tag, tip = git(place.remote, "rev-parse", TAG, LEDGER).split()
    for ref in (TAG, LEDGER):
        git(place.remote, "update-ref", "-d", ref)
    lost = "this clone has the tag bill/2026-10, but origin lacks it"
    for command in (("list",), ("verify", "2026-10"), ("close", "2026-10", *ACCEPTED)):
        result = month(*command)
        assert (result.code, lost in result.err) == (2, True), result.err
    assert lost in allot("bill", "--month", "2026-10", "--repo", place.root).err
    assert diagnose_ledger(place, allot) == [("error", "closed months")]
    assert git(place.root, "rev-parse", TAG) == tag, "the proof stays"
    git(place.root, "push", "-q", "origin", f"{tip}:{LEDGER}")
    git(place.root, "push", "-q", "origin", "refs/tags/bill/*")
    assert month("verify", "2026-10").code == 0


def test_the_documented_restore_has_the_closed_months(close: Run, month: Run, place: Place, allot: Allot) -> None:
    assert close().code == 0
    page = (PROJECT / "docs/operate/upgrade.md").read_text(encoding="utf-8")
    words = ("clone --quiet --mirror", "init --quiet --bare", "push --quiet", "remote set-url")
    commands = [line.removeprefix("$ ") for line in page.splitlines() if any(f" {each} " in line for each in words)]
    assert len(commands) == len(words)
    script = "\n".join(commands).replace("../gpus.git", str(place.remote))
    subprocess.run(["bash", "-euc", script], cwd=place.root, check=True)
    place.remote.rename(place.remote.with_name("lost.git"))
    for command in ("list", ("verify", "2026-10")):
        result = month(*([command] if isinstance(command, str) else command))
        assert (result.code, "114.84 EUR" in result.out) == (0, True), result.err
    assert allot("bill", "--month", "2026-10", "--repo", place.root).code == 0
    assert diagnose_ledger(place, allot) == [("ok", "closed months")]


def diagnose_ledger(place: Place, allot: Allot) -> list[tuple[str, str]]:
    """Return the severity and the object of each finding of `allot doctor` about the ledger."""
    output = checked("doctor", allot("doctor", "--repo", place.root, "-o", "json").out)
    return [(each["severity"], each["object"]) for each in output["findings"] if each["topic"] == "ledger"]


def test_doctor_names_a_missing_tag_and_a_late_price(close: Run, place: Place, allot: Allot) -> None:
    assert close().code == 0
    assert diagnose_ledger(place, allot) == [("ok", "closed months")]
    edit(place.root, "platform/specs/l4-quarter.yaml", 'perHour: "0.21"', 'perHour: "9.99"')
    place.merge()
    assert diagnose_ledger(place, allot) == [("warning", "prices")]
    git(place.remote, "update-ref", "-d", TAG)
    assert diagnose_ledger(place, allot) == [("error", "closed months")]


@pytest.mark.parametrize("name", ["bill/9999-12", "bill/1900-01"])
def test_doctor_names_a_tag_that_no_closing_wrote(place: Place, allot: Allot, month: Run, name: str) -> None:
    git(place.remote, "update-ref", f"refs/tags/{name}", git(place.root, "rev-parse", "HEAD"))
    assert diagnose_ledger(place, allot) == [("error", "closed months")]


def test_only_a_closed_month_is_verified(month: Run) -> None:
    result = month("verify", "2026-09")
    assert (result.code, result.err.splitlines()[-1]) == (2, "allot: the month 2026-09 is not closed")


def declare_key(place: Place, public: str) -> None:
    text = (place.root / "platform/platform.yaml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines(keepends=True) if line.startswith("    publicKey: ssh-ed25519"))
    edit(place.root, "platform/platform.yaml", line, f"    publicKey: {public}\n" if public else "")
    place.merge()


def test_without_a_declared_key_nothing_is_closed(close: Run, place: Place) -> None:
    declare_key(place, "")
    result = close()
    assert result.code == 1
    assert "declare the key of the tags first: spec.billing.publicKey of the platform" in result.err


def test_a_new_key_leaves_closed_months_valid(
    close: Run, month: Run, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert close().code == 0
    declare_key(place, new_key(tmp_path, "next").with_suffix(".pub").read_text(encoding="utf-8").strip())
    assert month("verify", "2026-10").code == 0
    report(place, "12-01 01:00", {"studio-kite": [*SEPTEMBER, *OCTOBER], "": [GAP]})
    set_time(monkeypatch, "2026-12-02")
    assert "Git signs with another key" in close("2026-11").err


def test_a_silent_cluster_is_accepted_and_adjusted_later(
    close: Run, month: Run, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(place, "10-20 06:00", {"studio-kite": OCTOBER[:2], "": []})
    assert "eu-1: observed until 2026-10-20T08:00:00+02:00" in month("close", "2026-10").err
    assert close().code == 0
    billed = read_ledger(place, "2026-10/closing.json")["totals"]["studio-kite"]
    report(place, "12-01 01:00", {"studio-kite": OCTOBER, "": [GAP]})
    set_time(monkeypatch, "2026-12-02")
    assert close("2026-11").code == 0
    lines = read_ledger(place, "2026-11/invoices/studio-kite.json")["lines"]
    adjusted = sum(Decimal(line["amount"]) for line in lines if line["adjusts"] == "2026-10")
    assert (adjusted, Decimal(billed) + adjusted) == (Decimal("114.00") - Decimal(billed), Decimal("114.00"))
    assert month("verify", "2026-11").code == 0


def test_a_status_that_went_back_credits_nothing(close: Run, place: Place, allot: Allot) -> None:
    before = git(place.remote, "rev-parse", f"{status_branch(EU)}^")
    assert close().code == 0
    for ref in (status_branch(EU), reported_ref(EU)):
        git(place.remote, "update-ref", ref, before)
    report(place, "12-01 01:00", {"studio-kite": SEPTEMBER, "": []})
    result = allot("bill", "--month", "2026-11", "-o", "json", "--repo", place.root)
    assert "eu-1: the adjustments of 2026-10 are left out, because its status branch doesn't continue" in result.err
    assert [
        line for invoice in json.loads(result.out)["invoices"] for line in invoice["lines"] if line["adjusts"]
    ] == []


def test_an_invoice_of_adjustments_alone_has_the_budget(close: Run, place: Place, allot: Allot) -> None:
    assert close().code == 0
    runs = [run("ada-a", "10-02 06:00", "10-02 10:00"), run("ada-b", "10-02 12:00", "10-02 16:00")]
    report(place, "12-01 01:00", {"studio-kite": [*SEPTEMBER, *OCTOBER], "solo-ada": runs, "": [GAP]})
    output = json.loads(allot("bill", "--month", "2026-11", "-o", "json", "--repo", place.root).out)
    ada = next(invoice for invoice in output["invoices"] if invoice["tenant"] == "solo-ada")
    assert (ada["total"], ada["budget"], [line["adjusts"] for line in ada["lines"]]) == (0.84, 300, ["2026-10"])


def test_the_bill_of_a_closed_month_is_the_closed_bill(close: Run, place: Place, allot: Allot) -> None:
    before = json.loads(allot("bill", "--month", "2026-10", "-o", "json", "--repo", place.root).out)
    assert close().code == 0
    edit(place.root, "platform/platform.yaml", "    timeZone:", "    unknown: Billed\n    timeZone:")
    place.merge()
    after = json.loads(allot("bill", "--month", "2026-10", "-o", "json", "--repo", place.root).out)
    assert after["invoices"] == before["invoices"]
    assert after["closedIn"] == git(place.remote, "rev-parse", LEDGER)
    assert allot("bill", "--month", "2026-10", "--repo", place.root).out.startswith("Invoices for 2026-10, closed (")
    unknown = allot("bill", "studio-kit", "--month", "2026-10", "--repo", place.root)
    assert "no tenant is named 'studio-kit'" in unknown.err


def test_the_portal_shows_the_closed_month_as_it_was_billed(
    close: Run, place: Place, allot: Allot, tmp_path: Path
) -> None:
    assert close().code == 0
    later = [*OCTOBER, run("webui-f", "10-30 06:00", "10-30 09:00")]
    report(place, "11-27 10:00", {"studio-kite": later, "": [GAP]})
    assert allot("portal", "build", "--repo", place.root, "--out", tmp_path / "site").code == 0
    commit = git(place.remote, "rev-parse", LEDGER)
    pages = tmp_path / "site/tenants"
    total = read_ledger(place, "2026-10/invoices/studio-kite.json")["total"]
    assert f"{total} EUR" in (pages / "studio-kite/invoices/index.html").read_text(encoding="utf-8")
    invoice = (pages / "studio-kite/invoices/2026-10.html").read_text(encoding="utf-8")
    assert commit in invoice
    assert f"<dt>Total</dt><dd>{total} EUR</dd>" in invoice
    assert not (pages / "uni-lab/invoices/2026-10.html").exists()
    git(place.remote, "update-ref", "-d", TAG)
    assert allot("portal", "build", "--repo", place.root, "--out", tmp_path / "site").code == 0
    assert "the ledger is not as it was written" in (pages / "studio-kite/invoices/index.html").read_text(
        encoding="utf-8"
    )


def test_a_month_is_closed_with_the_merged_prices(place: Place, close: Run) -> None:
    main = git(place.root, "rev-parse", "main")
    check_out_branch(place, ("platform/specs/l4-quarter.yaml", 'perHour: "0.21"', 'perHour: "9.99"'))
    result = close()
    assert result.code == 0, result.err
    assert read_ledger(place, "2026-10/closing.json")["commit"] == main
    assert "9.99" not in git(place.remote, "show", f"{LEDGER}:2026-10/invoices/studio-kite.json")


def test_a_lost_key_signs_no_month_that_ended_after_its_replacement(
    close: Run, month: Run, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the old key closes the month in a mirror whose main declares it."""
    assert close().code == 0
    old = git(place.root, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-11-10T00:00:00Z")
    declare_key(place, new_key(tmp_path, "next").with_suffix(".pub").read_text(encoding="utf-8").strip())
    new = git(place.root, "rev-parse", "HEAD")
    report(place, "12-01 01:00", {"studio-kite": [*SEPTEMBER, *OCTOBER], "": [GAP]})
    set_time(monkeypatch, "2026-12-02")
    for commit, closes in ((old, True), (new, False)):
        git(place.root, "push", "-q", "--force", "origin", f"{commit}:refs/heads/main")
        git(place.root, "reset", "-q", "--hard", commit)
        if closes:
            assert close("2026-11").code == 0
    result = month("verify", "2026-11")
    assert (result.code, "was replaced before 2026-11 ended: a lost key may have signed it" in result.err) == (1, True)
    assert month("verify", "2026-10").code == 0, "its own key was replaced later"


def test_no_month_is_closed_without_the_branch(place: Place, close: Run) -> None:
    git(place.remote, "update-ref", "-d", "refs/heads/main")
    result = close()
    assert result.code == 1
    assert "only merged declarations can be closed, and these are of HEAD (origin has no branch main)" in result.err
    assert LEDGER not in place.refs()


def test_a_signed_tag_of_another_name_closes_no_month(
    close: Run, month: Run, place: Place, key: Path, tmp_path: Path
) -> None:
    """People sign their releases with the same key."""
    assert close().code == 0
    folder = tmp_path / "eve"
    git(tmp_path, "clone", "-q", "-b", "ledger", str(place.remote), str(folder))
    shutil.copytree(folder / "2026-10", folder / "2026-11")
    for file in (folder / "2026-11").rglob("*.json"):
        file.write_text(file.read_text(encoding="utf-8").replace("2026-10", "2026-11"), encoding="utf-8")
    closing = json.loads((folder / "2026-11/closing.json").read_text(encoding="utf-8"))
    (folder / "2026-11/closing.json").write_text(json.dumps(closing | {"clusters": []}), encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=Eve", "-c", "user.email=eve@northlight.example", "commit", "-qm", "Close 2026-11")
    git(folder, "push", "-q", "origin", "HEAD:ledger")
    git(place.root, "fetch", "-q", "origin", "ledger")
    repository = Repository(place.root)
    repository.sign_with(key)
    release = write_signed_tag(repository, "v1", git(folder, "rev-parse", "HEAD"), "Release\n")
    git(place.root, "push", "-q", "origin", f"{release}:refs/tags/bill/2026-11")
    for result in (month("list"), close("2026-12"), month("verify", "2026-11")):
        assert result.code != 0
        assert "the tag bill/2026-11 is not signed with the spec.billing.publicKey" in result.out + result.err
        assert "the closing of 2026-11 has the usage of no cluster" in result.out + result.err
