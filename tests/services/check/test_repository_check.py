"""The survey: many tenants on several processes, and a memory that never changes a verdict."""

from __future__ import annotations

import datetime
import os
import shutil
import time
from functools import partial
from pathlib import Path

import pytest
from tests.bench.generate import generate
from tests.conftest import edit

from allotment.adapters import folder_source
from allotment.adapters.file_cache import FileCache
from allotment.adapters.folder_source import FolderSource
from allotment.services.check.check_options import CheckOptions
from allotment.services.check.repository_check import RepositoryCheck, check_repository, recheck_tenants

DAY = datetime.date(2026, 11, 21)
TENANTS = 80


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("generated")
    generate(root, TENANTS)
    return root


@pytest.fixture
def crowd(generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return many tenants, whose files are old enough to be known by their times."""
    monkeypatch.setattr(folder_source, "RACY_SECONDS", 0.02)
    shutil.copytree(generated, tmp_path / "crowd")
    settle()
    return tmp_path / "crowd"


def settle() -> None:
    """Wait until no file is too young to be trusted by its times."""
    time.sleep(0.04)


def look(root: Path) -> RepositoryCheck:
    return check_repository(FolderSource(root), DAY, CheckOptions(open_cache=partial(FileCache.load, "crowd")))


def test_any_number_of_processes_finds_the_same(crowd: Path) -> None:
    edit(crowd, "tenants/ateam-0x/tenant.yaml", "plan: team", "plan: teem")
    serial_check, two = (
        check_repository(FolderSource(crowd), DAY, CheckOptions(processes=number)) for number in (1, 3)
    )
    assert serial_check.problems == two.problems != []
    assert serial_check.tally_entries == two.tally_entries


def test_the_cache_never_changes_a_verdict(crowd: Path) -> None:
    assert look(crowd).cached_count == 0
    assert look(crowd).cached_count == TENANTS
    victim = "tenants/bteam-1x/instances/notebook.yaml"
    before = os.stat(crowd / victim)
    # The same size and times: only what the system says of the inode's change tells.
    edit(crowd, victim, "l4-quarter", "l4-quartet")
    os.utime(crowd / victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    repository_check = look(crowd)
    assert [problem.path for problem in repository_check.errors] == [victim]
    assert look(crowd).errors == repository_check.errors
    edit(crowd, victim, "l4-quartet", "l4-quarter")
    assert look(crowd).problems == []


def test_files_too_young_to_be_known_by_their_times_are_read(crowd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_source, "RACY_SECONDS", 3600)
    assert [look(crowd).cached_count for _ in range(2)] == [0, 0]


def test_files_come_and_go(crowd: Path) -> None:
    look(crowd)
    stranger = crowd / "tenants/cteam-2x/instances/notes.txt"
    stranger.write_text("x")
    assert [problem.rule for problem in look(crowd).errors] == ["layout"]
    stranger.unlink()
    (crowd / "tenants/cteam-2x/tenant.yaml").rename(crowd / "kept.yaml")
    assert [problem.rule for problem in look(crowd).errors] == ["required"]
    (crowd / "kept.yaml").rename(crowd / "tenants/cteam-2x/tenant.yaml")
    assert look(crowd).problems == []


def test_another_offer_is_another_verdict(crowd: Path) -> None:
    look(crowd)
    edit(crowd, "platform/plans/team.yaml", "instances: 20", "instances: 0")
    assert len(look(crowd).errors) == TENANTS
    edit(crowd, "platform/plans/team.yaml", "instances: 0", "instances: 20")
    assert look(crowd).problems == []


def test_stock_counts_who_is_only_remembered(crowd: Path) -> None:
    look(crowd)
    edit(crowd, "tenants/dteam-3x/instances/preview.yaml", "spec:\n", "spec:\n  replicas: 2\n")
    repository_check = look(crowd)
    assert repository_check.cached_count >= TENANTS - 2
    assert [problem.rule for problem in repository_check.errors] == ["stock"]
    assert (
        f"{TENANTS + 1} units of l4-quarter are held in eu-1, 1 more than its stock ({TENANTS} shared)"
        in repository_check.errors[0].message
    )
    edit(crowd, "tenants/dteam-3x/instances/preview.yaml", "  replicas: 2\n", "")
    assert look(crowd).problems == []


def memory_file() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "allotment/crowd.json"


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff" * 40, None])
def test_a_damaged_memory_costs_only_time(crowd: Path, damage: bytes | None) -> None:
    look(crowd)
    data = memory_file().read_bytes()
    memory_file().write_bytes(data.replace(b"eu-1", b"eu-9") if damage is None else data[:100] + damage)
    repository_check = look(crowd)
    assert (repository_check.problems, repository_check.cached_count) == ([], 0)
    memory_file().unlink()
    assert look(crowd).problems == []


def test_a_place_that_cannot_be_written_is_no_error(crowd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    assert look(crowd).problems == []


def test_reading_one_tenant_again_is_like_reading_all(crowd: Path) -> None:
    source = FolderSource(crowd)
    first = check_repository(source, DAY)
    edit(crowd, "tenants/eteam-4x/instances/render.yaml", "spec:\n", "spec:\n  replicas: 2\n")
    edit(crowd, "tenants/fteam-5x/tenant.yaml", "plan: team", "plan: teem")
    rechecked = recheck_tenants(first, source, ["eteam-4x", "fteam-5x"])
    assert rechecked.problems == check_repository(source, DAY).problems != []
    edit(crowd, "tenants/eteam-4x/instances/render.yaml", "  replicas: 2\n", "")
    edit(crowd, "tenants/fteam-5x/tenant.yaml", "plan: teem", "plan: team")
    assert recheck_tenants(rechecked, source, ["eteam-4x", "fteam-5x"]).problems == []
