"""The commits on the line of first parents are listed with the files that they changed."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.support.published import git
from tests.support.signing_keys import new_key

from allotment.adapters.git.history import (
    MAX_TIME,
    CommitRecord,
    find_first_change,
    is_on_first_parents,
    list_commits_with_message,
    list_first_parent_times,
    list_first_parents,
)
from allotment.adapters.git.repository import Repository
from allotment.billing.periods import format_moment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "Ada\x02 L")
    git(tmp_path, "config", "user.email", "ada@gpu.test")
    return tmp_path


def commit(root: Path, subject: str, **files: str | None) -> str:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text, encoding="utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", subject)
    return git(root, "rev-parse", "HEAD")


def listed(root: Path, most: int = 100) -> list[CommitRecord]:
    return list_first_parents(Repository(root), "main", ["tenants", "platform"], most)


def test_a_merge_has_the_files_of_its_branch(root: Path) -> None:
    first = commit(root, "First", tenants__a="1", tenants__b="1", other="1")
    git(root, "checkout", "-q", "-b", "topic")
    commit(root, "Change a", tenants__a="2")
    commit(root, "Remove b", tenants__b=None, platform__c="1")
    git(root, "checkout", "-q", "main")
    commit(root, "Other", other="2")
    git(root, "merge", "-q", "--no-ff", "-m", "Merge pull request #3", "topic")
    merge = git(root, "rev-parse", "HEAD")
    records = listed(root)
    assert [(record.commit, record.subject, record.files) for record in records] == [
        (merge, "Merge pull request #3", (("A", "platform/c"), ("M", "tenants/a"), ("D", "tenants/b"))),
        (first, "First", (("A", "tenants/a"), ("A", "tenants/b"))),
    ]
    assert records[0].author == "Ada\x02 L"
    assert abs(records[0].time - int(git(root, "log", "-1", "--format=%ct"))) == 0


def test_the_newest_commits_come_first_up_to_a_limit(root: Path) -> None:
    commits = [commit(root, f"Change {number}", tenants__a=str(number)) for number in range(5)]
    assert [record.commit for record in listed(root, 3)] == commits[:1:-1]


def test_a_commit_and_its_ancestors_are_left_out(root: Path) -> None:
    commits = [commit(root, f"Change {number}", tenants__a=str(number)) for number in range(4)]
    records = list_first_parents(Repository(root), "main", ["tenants"], 100, since=commits[1])
    assert [record.commit for record in records] == [commits[3], commits[2]]
    assert list_first_parents(Repository(root), "main", ["tenants"], 100, since=commits[3]) == []


def test_the_time_of_a_commit_is_not_before_that_of_its_parent(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    for date in ("2026-10-01", "2026-09-01", "2026-11-01"):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{date}T00:00:00Z")
        git(root, "commit", "-q", "--allow-empty", "-m", date)
        commits.append(git(root, "rev-parse", "HEAD"))
    times = list_first_parent_times(Repository(root), "HEAD")
    assert list(times)[-3:] == commits
    assert times[commits[0]] == times[commits[1]] < times[commits[2]]


def test_the_line_of_first_parents(root: Path) -> None:
    repository = Repository(root)
    first, second = commit(root, "First", tenants__a="1"), commit(root, "Second", tenants__a="2")
    git(root, "checkout", "-q", "-b", "topic", first)
    topic = commit(root, "Topic", tenants__b="1")
    git(root, "merge", "-q", "--no-ff", "-m", "Merge main", "main")
    merge = git(root, "rev-parse", "HEAD")
    on_line = {commit for commit in (first, second, topic, merge) if is_on_first_parents(repository, commit, merge)}
    assert on_line == {first, topic, merge}
    assert not is_on_first_parents(repository, merge, second)


def test_odd_paths_and_subjects_are_not_confused(root: Path) -> None:
    name = "a" * 40
    commit(root, f"{name}\x01 M", **{f"tenants__{name}": "1", "tenants__two\nlines": "1", "tenants__M": "1"})
    (record,) = listed(root)
    assert record.subject == f"{name}\x01 M"
    assert sorted(path for _, path in record.files) == sorted(["tenants/M", f"tenants/{name}", "tenants/two\nlines"])


def test_without_a_change_there_is_nothing(root: Path) -> None:
    commit(root, "Other", other="1")
    assert listed(root) == []


def test_any_date_of_a_commit_is_read(root: Path) -> None:
    """Anybody who may push chooses the date of a commit."""
    (root / "tenants").mkdir()
    (root / "tenants/a").write_text("1", encoding="utf-8")
    git(root, "add", "-A")
    tree = git(root, "write-tree")
    for date, time in (
        ("99999999999999 +0000", MAX_TIME),
        ("253402300800 +0000", MAX_TIME),
        ("-5 +0000", 0),
        ("1700000000 +9999", 1_700_000_000),
        ("", 0),
    ):
        content = f"tree {tree}\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> {date}\n\nx\n"
        (root / "object").write_text(content, encoding="utf-8")
        commit = git(root, "hash-object", "-t", "commit", "-w", "--literally", "object")
        git(root, "update-ref", "refs/heads/main", commit)
        (record,) = listed(root)
        assert (record.commit, record.time) == (commit, time), date
        assert format_moment(record.time, datetime.timezone(datetime.timedelta(hours=14)))


def test_a_person_who_shows_signatures_gets_commits_alone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("key")
    new_key(folder, "key")
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(folder / "key")), ("commit.gpgSign", "true")):
        git(root, "config", name, value)
    signed = commit(root, "First\n\nOperation: 7")
    git(root, "config", "log.showSignature", "true")
    assert "signature" in git(root, "log", "--format=%H"), "Git shows it"
    assert list(list_commits_with_message(Repository(root), signed, "^Operation: 7")) == [signed]


def test_attributes_of_the_checkout_start_no_program_of_the_person(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A pull request can name the diff driver of a file, and the person's driver may decrypt it."""
    ran = tmp_path_factory.mktemp("driver") / "ran"
    for name in ("textconv", "command"):
        git(root, "config", f"diff.own.{name}", f"touch {ran}; cat")
    first = commit(root, "First", x__yaml="operation: one\n", **{".gitattributes": "* diff=own\n"})
    commit(root, "Second", x__yaml="operation: one\nmore: 1\n")
    assert find_first_change(Repository(root), "main", "operation: one", ["x/yaml"]) == first
    assert not ran.exists()
