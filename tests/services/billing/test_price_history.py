"""The terms of a bill are read from the merges of main, wherever the declarations are and whatever a merge broke."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from tests.conftest import PROJECT, edit
from tests.support.priced_uses import BERLIN, OCTOBER
from tests.support.published import git

from allotment.adapters.git.commit_source import CommitSource
from allotment.billing.late_changes import find_late_changes
from allotment.services.billing.price_history import read_merged_terms

SPEC = "platform/specs/l4-quarter.yaml"
PLATFORM = "platform/platform.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The declarations in a folder of a repository, whose first commit is of August."""
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@gpu.test")
    for name in ("platform", "clusters"):
        shutil.copytree(PROJECT / name, tmp_path / "infra" / name)
    commit(tmp_path / "infra", "2026-08-01", monkeypatch)
    return tmp_path / "infra"


def commit(folder: Path, date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit the folder at 10:00 UTC of a day."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{date}T10:00:00Z")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", date)


def late_changes(folder: Path) -> list[tuple[str, str, str]]:
    """Return the offer or the setting of each change in October, with the value before and after."""
    terms = read_merged_terms(CommitSource(folder, "HEAD"), BERLIN, OCTOBER.start)
    changes = find_late_changes(terms, OCTOBER)
    return [(change.field or change.offer, change.before, change.after) for change in changes]


def test_read_merged_terms_uses_earlier_terms_of_a_broken_declaration(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, platform = ((folder / path).read_text(encoding="utf-8") for path in (SPEC, PLATFORM))
    (folder / SPEC).unlink()
    (folder / PLATFORM).write_text("not: [valid", encoding="utf-8")
    commit(folder, "2026-09-29", monkeypatch)
    (folder / SPEC).write_text(spec.replace('perHour: "0.21"', 'perHour: "9.99"'), encoding="utf-8")
    (folder / PLATFORM).write_text(
        platform.replace("    timeZone:", "    unknown: Billed\n    timeZone:"), encoding="utf-8"
    )
    commit(folder, "2026-10-15", monkeypatch)
    assert late_changes(folder) == [("spec.billing.unknown", "Free", "Billed"), ("l4-quarter", "0.21", "9.99")]


def test_the_date_of_a_commit_is_not_before_that_of_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "README").write_text("Later", encoding="utf-8")
    commit(folder, "2026-10-15", monkeypatch)
    edit(folder, SPEC, 'perHour: "0.21"', 'perHour: "9.99"')
    commit(folder, "2026-09-01", monkeypatch)
    assert late_changes(folder) == [("l4-quarter", "0.21", "9.99")]


def test_a_stock_with_an_invalid_file_keeps_its_reservation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = folder / "clusters/eu-1/stocks/l4-half-film.yaml"
    text = stock.read_text(encoding="utf-8").replace("  tenant:", '  reservation: {fraction: "0.5"}\n  tenant:')
    for day, content in (
        ("2026-09-01", text),
        ("2026-10-10", "not: [valid"),
        ("2026-10-12", text.replace("0.5", "0.25")),
    ):
        stock.write_text(content, encoding="utf-8")
        commit(folder, day, monkeypatch)
    stock.unlink()
    commit(folder, "2026-10-14", monkeypatch)
    terms = read_merged_terms(CommitSource(folder, "HEAD"), BERLIN, OCTOBER.start)
    fractions = [str(each.reservations.get(("eu-1", "l4-half-film"), "none")) for each in terms]
    assert fractions == ["0.5", "0.5", "0.25", "none"]


def test_a_commit_without_declarations_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(folder, folder.with_name("moved"))
    commit(folder.parent, "2026-10-02", monkeypatch)
    shutil.move(folder.with_name("moved"), folder)
    commit(folder, "2026-10-03", monkeypatch)
    assert late_changes(folder) == []


def test_a_new_offer_and_an_earlier_file_read_no_other_merges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = folder / "clusters/eu-1/stocks/l4-half-film.yaml"
    text = stock.read_text(encoding="utf-8").replace("  tenant:", '  reservation: {fraction: "0.5"}\n  tenant:')
    for day, content in (("2026-09-01", text), ("2026-09-10", "not: [valid")):
        stock.write_text(content, encoding="utf-8")
        commit(folder, day, monkeypatch)
    for day in range(10, 20):
        edit(folder, SPEC, "displayName: ", f"displayName: Day {day} ")
        commit(folder, f"2026-09-{day}", monkeypatch)
    spec = (folder / SPEC).read_text(encoding="utf-8")
    (folder / SPEC).with_name("new.yaml").write_text(spec.replace("name: l4-quarter", "name: new"), encoding="utf-8")
    commit(folder, "2026-10-10", monkeypatch)
    terms = read_merged_terms(CommitSource(folder, "HEAD"), BERLIN, OCTOBER.start)
    days = [str(datetime.datetime.fromtimestamp(each.time, datetime.UTC).date()) for each in terms]
    assert days == ["2026-09-01", "2026-09-10", "2026-09-19", "2026-10-10"]
    assert terms[-1].reservations["eu-1", "l4-half-film"] == Decimal("0.5")
    assert find_late_changes(terms, OCTOBER) == []
