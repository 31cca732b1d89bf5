"""A forked process that compares the folder with the cache never changes the verdict of `allot validate`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bench.generate import generate, write_tenant
from tests.conftest import Allot

from allotment.adapters import file_cache, folder_source, forked_call
from allotment.adapters.folder_source import FolderSource, TenantTokens

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # threads of pytest-xdist
TENANTS = 12
SETTLE = 0.03  # seconds until the times of a file are trusted in this test


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of some tenants whose cache counts as large."""
    monkeypatch.setattr(folder_source, "RACY_SECONDS", SETTLE / 2)
    monkeypatch.setattr(file_cache, "_LARGE_BYTES", 0)
    monkeypatch.setattr(forked_call, "can_fork", lambda: True)
    generate(tmp_path, TENANTS)
    return tmp_path


@pytest.fixture
def confirmed(monkeypatch: pytest.MonkeyPatch) -> list[TenantTokens]:
    """Return a list that gets the result of each forked comparison."""
    results: list[TenantTokens] = []
    result = forked_call.ForkedCall.result

    def recorded_result(self: forked_call.ForkedCall) -> TenantTokens:
        results.append(result(self))
        return results[-1]

    monkeypatch.setattr(forked_call.ForkedCall, "result", recorded_result)
    return results


def rename_plan(tenant: Path, number: int) -> None:
    (tenant / "tenant.yaml").write_text((tenant / "tenant.yaml").read_text().replace("team", "x" * (number % 9 + 1)))


def add_replicas(tenant: Path, number: int) -> None:
    for file in (tenant / "instances").glob("*.yaml"):
        file.write_text(file.read_text().replace("spec:\n", f"spec:\n  replicas: {number % 3 + 1}\n", 1))


def remove_file(tenant: Path, _: int) -> None:
    for file in (tenant / "storages").glob("*.yaml"):
        file.unlink()


def add_file(tenant: Path, number: int) -> None:
    (tenant / f"notes-{number}.txt").touch()


def replace_by_link(tenant: Path, _: int) -> None:
    if not tenant.is_symlink():
        tenant.rename(tenant.parent.parent / f"{tenant.name}-moved")
        tenant.symlink_to(tenant.parent.parent / f"{tenant.name}-moved")


def restore(tenant: Path, number: int) -> None:
    write_tenant(tenant.parent.parent, number)


def touch(tenant: Path, _: int) -> None:
    os.utime(tenant / "members.yaml")


def resize_stock(root: Path, number: int) -> None:
    file = root / "clusters/eu-1/stocks/l4-quarter.yaml"
    file.write_text(file.read_text().replace(f"count: {TENANTS}", f"count: {TENANTS - 1 + number}"))


EDITS: list[Callable[[Path, int], None]] = [
    rename_plan,
    add_replicas,
    remove_file,
    add_file,
    replace_by_link,
    restore,
    restore,
    restore,
    touch,
]


@pytest.mark.parametrize("seed", range(3))
def test_the_verdict_is_that_of_a_check_without_cache(
    crowd: Path, allot: Allot, confirmed: list[TenantTokens], seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        time.sleep(SETTLE)
        ahead = allot("validate", "--repo", crowd, "-o", "json")
        assert ahead[:2] == allot("validate", "--repo", crowd, "-o", "json", "--no-memory")[:2]
        if chance.random() < 0.2:
            resize_stock(crowd, chance.randrange(3))
        for _ in range(chance.randint(1, 3)):
            number = chance.randrange(TENANTS)
            tenant = crowd / "tenants" / f"{chr(ord('a') + number)}team-{number}x"
            if tenant.exists():
                chance.choice(EDITS)(tenant, number)
    assert sum(map(len, confirmed)) > TENANTS


def test_a_folder_that_changed_is_not_confirmed(crowd: Path, allot: Allot, confirmed: list[TenantTokens]) -> None:
    time.sleep(SETTLE)
    assert allot("validate", "--repo", crowd)[0] == 0
    rename_plan(crowd / "tenants/bteam-1x", 0)
    outcome = allot("validate", "--repo", crowd, crowd / "tenants/bteam-1x")
    assert outcome[0] == 1
    assert set(confirmed[-1]) == {path.name for path in (crowd / "tenants").iterdir()} - {"bteam-1x"}


@pytest.mark.parametrize("options", [("--no-memory",), ("--watch",)])
def test_a_check_without_cache_starts_no_process(
    crowd: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    time.sleep(SETTLE)
    assert allot("validate", "--repo", crowd)[0] == 0
    monkeypatch.setattr("watchfiles.watch", lambda *_, **__: iter([set()]))
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started"))
    assert allot("validate", "--repo", crowd, *options)[0] == 0


def test_a_failed_process_costs_only_time(crowd: Path, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    time.sleep(SETTLE)
    assert allot("validate", "--repo", crowd)[0] == 0
    monkeypatch.setattr(FolderSource, "find_valid_tokens", lambda *_: os._exit(1))
    assert allot("validate", "--repo", crowd)[0] == 0
