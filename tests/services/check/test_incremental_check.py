"""The incremental check has the same result as a check of everything, and counts the files that come and go."""

from __future__ import annotations

import datetime
from pathlib import Path

from tests.conftest import edit

from allotment.adapters.folder_source import FolderSource
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.incremental_check import IncrementalCheck
from allotment.services.check.repository_check import RepositoryCheck, check_repository

DAY = datetime.date(2026, 11, 21)
NEXT_DAY = datetime.date(2027, 1, 1)
WEBUI = "tenants/solo-ada/instances/webui.yaml"
PLAN = "platform/plans/starter.yaml"


def check_all(root: Path, day: datetime.date = DAY) -> RepositoryCheck:
    return check_repository(FolderSource(root), day, CheckOptions(processes=1))


def incremental(root: Path) -> IncrementalCheck:
    return IncrementalCheck(lambda: check_all(root))


def same(check: RepositoryCheck, root: Path, day: datetime.date = DAY) -> bool:
    whole = check_all(root, day)
    assert (check.problems, check.file_count) == (whole.problems, whole.file_count)
    return check.tally_entries == whole.tally_entries


def test_a_file_that_comes_or_goes_is_counted(sample: Path) -> None:
    check, source = incremental(sample), FolderSource(sample)
    count = check.last.file_count
    twin = "tenants/solo-ada/instances/twin.yaml"
    (sample / twin).write_text((sample / WEBUI).read_text().replace("name: webui", "name: twin"))
    assert check.update(source, [twin]).file_count == count + 1
    assert same(check.last, sample)
    (sample / twin).unlink()
    assert check.update(source, [twin]).file_count == count
    assert same(check.last, sample)


def test_a_stray_file_is_reported_until_it_is_removed(sample: Path) -> None:
    check, source = incremental(sample), FolderSource(sample)
    (sample / "tenants/notes.txt").write_text("x")
    assert [problem.path for problem in check.update(source, ["tenants/notes.txt"]).errors] == ["tenants/notes.txt"]
    (sample / "tenants/notes.txt").unlink()
    assert check.update(source, ["tenants/notes.txt"]).errors == []


def test_a_change_of_the_platform_is_checked_for_all_tenants(sample: Path) -> None:
    check, source = incremental(sample), FolderSource(sample)
    edit(sample, PLAN, "instances: 3", "instances: 0")
    assert same(check.update(source, [PLAN]), sample)
    assert check.last.errors


def test_tenants_follow_a_change_of_the_platform_in_portions(sample: Path) -> None:
    check, source = incremental(sample), FolderSource(sample)
    edit(sample, PLAN, "instances: 3", "instances: 0")
    assert check.update_changed(source, [PLAN], DAY).errors == []
    assert not check.is_complete
    edit(sample, WEBUI, "l4-quarter", "l4-quater")
    errors = check.update_changed(source, [WEBUI], DAY).errors
    assert [problem.rule for problem in errors] == ["reference", "quota"], "the changed tenant has the new platform"
    steps = 0
    while not check.is_complete:
        check.recheck_stale(source, 2)
        steps += 1
    assert steps == 3, "of 7 tenants, 1 was checked already"
    assert same(check.last, sample)


def test_another_day_has_other_prices(sample: Path) -> None:
    check, source = incremental(sample), FolderSource(sample)
    check.update_changed(source, [], NEXT_DAY)
    while not check.is_complete:
        check.recheck_stale(source, 100)
    assert check.last.catalog.as_of == NEXT_DAY
    assert same(check.last, sample, NEXT_DAY)


def test_a_tenant_and_a_cluster_that_go_are_forgotten(sample: Path) -> None:
    import shutil

    check, source = incremental(sample), FolderSource(sample)
    shutil.rmtree(sample / "tenants/solo-ada")
    shutil.rmtree(sample / "clusters/us-1")
    check.update_changed(source, ["clusters/us-1", "tenants/solo-ada"], DAY)
    while not check.is_complete:
        check.recheck_stale(source, 3)
    assert same(check.last, sample)
